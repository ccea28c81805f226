//! Events around an interval, with the facts needed to interpret them: the input of an explanation.

use std::collections::HashMap;

use super::event::{Event, Strings};
use super::syscall_names::SyscallTable;
use crate::time::{Cpu, Mono, Tid};

/// Events around an interval, in time order, with the facts needed to interpret them.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All CPUs, ascending in time.
    pub events: Vec<Event>,
    /// Texts.
    pub strings: Strings,
    /// Names of threads without an event that names them.
    pub comms: HashMap<Tid, String>,
    /// Names of interrupt lines, from `/proc/interrupts`.
    pub irq_names: HashMap<u32, String>,
    /// Names of idle states per state number.
    pub idle_states: HashMap<u32, String>,
    /// Kernel stacks taken while recording.
    pub stacks: Vec<StackSample>,
    /// Time from which the record of each CPU is complete; absent: nothing was recorded there.
    pub complete_from: HashMap<Cpu, Mono>,
    /// Time of the last sched_setaffinity of each thread, also long before the window.
    pub pinned: HashMap<Tid, Mono>,
    /// Starts of CPUs going offline or online, also long before the window; ascending in time.
    pub hotplug: Vec<Event>,
    /// File names by device (major << 20 | minor) and inode, for page faults.
    pub files: HashMap<(u32, u64), String>,
    /// Mappings made before the end of the window, if recorded.
    pub mappings: Vec<Mapping>,
    /// The active preemption model of the kernel (`none`, `voluntary`, `lazy`, `full`, `rt`), if known.
    pub preemption: Option<String>,
    /// Table of system call names.
    pub syscalls: SyscallTable,
    /// Its times are not from CLOCK_MONOTONIC, on which timers expire.
    pub other_clock: bool,
    /// Due times of its timers are not before they were armed: arming one late is not counted as lateness.
    pub from_arming: bool,
    /// No event of this trace shows the timer interrupt of a CPU.
    pub hides_interrupts: bool,
    /// The flight recorder wrote it, which reports its losses: switches and wakings of threads that it does not measure, and calls
    /// of most threads, are left out.
    pub is_selective: bool,
    /// Of the system calls, only those in which a thread blocked are in this window.
    pub only_blocking_calls: bool,
    /// Blocks that are known to be in a page fault: the thread, and when it blocked.
    pub in_faults: Vec<(Tid, Mono)>,
    /// Stalls proved by the records of CPUs that are not in this window.
    pub standstills: Vec<Standstill>,
    /// When recording began, if the window may begin before.
    pub began: Option<Mono>,
    /// Times in which all threads of the process that recorded it were stopped by a signal. Their start may be too early by the
    /// period of the loop that found them.
    pub stopped: Vec<(Mono, Mono)>,
    /// Sleeps that something else ended before their timers, which were late.
    pub overdue: Vec<Overdue>,
}

/// A sleep that was over when something else woke its thread, before the handler of its timer ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The thread.
    pub tid: Tid,
    /// End of the sleep as requested.
    pub due: Mono,
    /// Programmed expiry: `due` and the slack of the thread.
    pub expires: Mono,
    /// When it was woken.
    pub woken: Mono,
}

/// A CPU took no interrupt although a timer was due and interrupts were on: the hypervisor or the hardware stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// The stalled CPU.
    pub cpu: Cpu,
    /// Latest possible start.
    pub begin: Mono,
    /// End.
    pub end: Mono,
}

/// A part of the memory of some process: `[begin, end)` is the mapped object from `offset` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Time of the mapping.
    pub at: Mono,
    /// First address.
    pub begin: u64,
    /// First address after it.
    pub end: u64,
    /// Offset in the object at `begin`.
    pub offset: u64,
    /// The mapped object.
    pub of: Mapped,
}

/// Object of a mapping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// A file, by the path with which it was opened.
    File(String),
    /// Memory without a file: `heap`, `stack`, `anonymous memory`.
    Memory(String),
    /// Anonymous memory in huge pages.
    Huge,
}

impl std::fmt::Display for Mapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Mapped::File(name) | Mapped::Memory(name) => f.write_str(name),
            Mapped::Huge => f.write_str("anonymous memory in huge pages"),
        }
    }
}

/// A kernel stack, taken by the recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct StackSample {
    /// Time.
    pub at: Mono,
    /// CPU.
    pub cpu: Cpu,
    /// Thread.
    pub tid: Tid,
    /// Symbols, innermost first; raw addresses without access to symbols.
    pub frames: Vec<String>,
    /// The interrupted code was in user mode (then interrupts were on, and a late timer has another cause).
    pub in_user: Option<bool>,
    /// By the machine code, interrupts were re-enabled at the interrupted instruction (true), or were on before.
    pub enabled_there: Option<bool>,
}

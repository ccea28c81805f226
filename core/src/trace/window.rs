//! Events around an interval, with what is needed to read them: what an explanation is given.

use std::collections::HashMap;

use super::event::{Event, Strings};
use super::syscall_names::SyscallTable;
use crate::time::{Cpu, Mono, Tid};

/// Events around an interval, in the order of time, with what is needed to read them.
#[derive(Clone, Debug, Default)]
pub struct Window {
    /// All CPUs, ascending in time.
    pub events: Vec<Event>,
    /// Texts.
    pub strings: Strings,
    /// Names of threads that no event names.
    pub comms: HashMap<Tid, String>,
    /// Names of interrupt lines: what `/proc/interrupts` calls them.
    pub irq_names: HashMap<u32, String>,
    /// Names of idle states per state number.
    pub idle_states: HashMap<u32, String>,
    /// Kernel stacks taken while recording: when, where, innermost first.
    pub stacks: Vec<StackSample>,
    /// From when on the record of each CPU is complete; absent: nothing was recorded there.
    pub complete_from: HashMap<Cpu, Mono>,
    /// When each thread's affinity was last set (sched_setaffinity), also long before the window.
    pub pinned: HashMap<Tid, Mono>,
    /// Where CPUs began to go offline, or online again, also long before the window; ascending in time.
    pub hotplug: Vec<Event>,
    /// Files by device (major << 20 | minor) and inode, where a page fault needs a name.
    pub files: HashMap<(u32, u64), String>,
    /// Files mapped into memory before the window's end, where the trace tells.
    pub mappings: Vec<Mapping>,
    /// The kernel's preemption model in force (`none`, `voluntary`, `lazy`, `full`, `rt`), where known.
    pub preemption: Option<String>,
    /// What the numbers of system calls mean.
    pub syscalls: SyscallTable,
    /// Its times are those of another clock than the monotonic one, on which timers expire.
    pub other_clock: bool,
    /// Its timers expire no earlier than they were armed: a thread that armed one late is not what one was late for.
    pub from_arming: bool,
    /// No event of this trace can tell of the interrupt of a CPU's timer.
    pub hides_interrupts: bool,
    /// What the records of CPUs that are not in this window prove.
    pub standstills: Vec<Standstill>,
}

/// A CPU took no interrupt though a timer was due and interrupts were on: a host or the hardware stopped it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standstill {
    /// Which CPU.
    pub cpu: Cpu,
    /// Since when, at the latest.
    pub begin: Mono,
    /// Until when.
    pub end: Mono,
}

/// A file mapped into the memory of some process: `[begin, end)` is the file from `offset` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// Since when.
    pub at: Mono,
    /// First address.
    pub begin: u64,
    /// First address behind it.
    pub end: u64,
    /// Byte of the file at `begin`.
    pub offset: u64,
    /// Its name, as it was opened.
    pub file: String,
}

/// A kernel stack, taken by the recorder.
#[derive(Clone, Debug, PartialEq)]
pub struct StackSample {
    /// When.
    pub at: Mono,
    /// Where.
    pub cpu: Cpu,
    /// Whose.
    pub tid: Tid,
    /// Symbols, innermost first; raw addresses where symbols may not be read.
    pub frames: Vec<String>,
    /// The interrupted code was in user mode (then interrupts were on, and a late timer has another cause).
    pub in_user: Option<bool>,
    /// The machine code says that interrupts came back on at the interrupted instruction, or that they were on before.
    pub enabled_there: Option<bool>,
}

//! The normalized event: small, `Copy`, with interned texts.
//!
//! Every recorder and every format decodes to this. A missing field is `None`, never an invented value.

use std::num::NonZeroU32;

pub use super::strings::{Strings, Sym};
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// A thread as recorded in an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TaskRef {
    /// Thread id; 0 is the idle task.
    pub tid: Tid,
    /// Priority at that moment.
    pub prio: Option<Prio>,
    /// Name at that moment.
    pub comm: Option<Sym>,
}

/// Why a thread left the CPU (reduced `prev_state` of sched_switch).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeftAs {
    /// Still runnable: preempted inside the kernel (0x100) or on the way back to user space (0).
    Runnable,
    /// Blocked, with the kernel's state bits (1 interruptible, 2 uninterruptible, …).
    Blocked(u32),
    /// Ended.
    Dead,
}

impl std::fmt::Display for LeftAs {
    /// In the letters of `ps`: `R` preempted, `S`, `D`, `X` ended.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            LeftAs::Runnable => f.write_str("R"),
            LeftAs::Blocked(bits) if bits & 2 != 0 => f.write_str("D"),
            LeftAs::Blocked(bits) if bits & 1 != 0 => f.write_str("S"),
            LeftAs::Blocked(bits) => write!(f, "{bits:#x}"),
            LeftAs::Dead => f.write_str("X"),
        }
    }
}

/// System vectors of x86-64 (`irq_vectors:*`); other architectures report IPIs by [`Kind::IrqEntry`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the kernel's own names
pub enum Vector {
    LocalTimer,
    Reschedule,
    CallFunction,
    CallFunctionSingle,
    IrqWork,
    ThermalApic,
    DeferredError,
    ThresholdApic,
    ErrorApic,
    SpuriousApic,
    PlatformIpi,
    Other(u8),
}

impl Vector {
    /// The kernel's name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Vector::LocalTimer => "local_timer",
            Vector::Reschedule => "reschedule",
            Vector::CallFunction => "call_function",
            Vector::CallFunctionSingle => "call_function_single",
            Vector::IrqWork => "irq_work",
            Vector::ThermalApic => "thermal_apic",
            Vector::DeferredError => "deferred_error_apic",
            Vector::ThresholdApic => "threshold_apic",
            Vector::ErrorApic => "error_apic",
            Vector::SpuriousApic => "spurious_apic",
            Vector::PlatformIpi => "x86_platform_ipi",
            Vector::Other(_) => "vector",
        }
    }
}

/// Names of softirq vectors, by number (include/linux/interrupt.h).
pub const SOFTIRQS: [&str; 10] =
    ["HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU"];

/// Kinds of page faults; all 0: not recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faulted {
    /// Reads, and fetches of code.
    pub read: u32,
    /// Writes to a page that was not present.
    pub written: u32,
    /// Writes to a page that was present, but not writable: it is copied.
    pub copied: u32,
}

/// What happened. Fields are the kernel's own, under the kernel's names.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum Kind {
    /// `sched_switch`.
    Switch { prev: TaskRef, left_as: LeftAs, next: TaskRef },
    /// `sched_waking`, in the context of the waker; of a `new` thread `sched_wakeup_new`, in that of its creator. The
    /// priority of the waker is known to the recorder of lathunt only.
    Waking { task: TaskRef, target_cpu: Option<Cpu>, new: bool, waker_prio: Option<Prio> },
    /// `sched_wakeup`: the task is on a run queue.
    Wakeup { task: TaskRef, target_cpu: Option<Cpu> },
    /// `sched_migrate_task`.
    Migrate { task: TaskRef, from: Cpu, to: Cpu },
    /// `sched_pi_setprio`.
    PiSetprio { task: TaskRef, old: Prio, new: Prio },
    /// `irq_handler_entry`: one action of a hard interrupt.
    IrqEntry { irq: u32, name: Option<Sym> },
    /// `irq_handler_exit`.
    IrqExit { irq: u32 },
    /// `irq_vectors:*_entry`.
    VectorEntry(Vector),
    /// `irq_vectors:*_exit`.
    VectorExit(Vector),
    /// `softirq_entry`.
    SoftirqEntry { vec: u8 },
    /// `softirq_exit`.
    SoftirqExit { vec: u8 },
    /// `nmi_handler`: reported at its end, with its duration.
    Nmi { duration: Ns },
    /// Steal time: the hypervisor took `taken` since `since` from this CPU (steal clock, read at both ends).
    HostSteal { taken: Ns, since: Mono },
    /// `hrtimer_start`: armed. `soft`: earliest expiry with another timer: `expires` minus the slack of the thread.
    HrtimerStart { timer: u64, function: Option<Sym>, expires: Ns, soft: Option<Ns> },
    /// `hrtimer_expire_entry`; `expires`: programmed expiry on CLOCK_MONOTONIC, if known; `now`: on the timer's own
    /// clock; `slack`: delay of `expires` after the requested time, ns, if known, not 0 and below 2.1 s.
    TimerExpireEntry {
        timer: u64,
        function: Option<Sym>,
        expires: Option<Mono>,
        now: Option<Ns>,
        slack: Option<NonZeroU32>,
    },
    /// `hrtimer_expire_exit`.
    TimerExpireExit { timer: u64 },
    /// `cpu_idle` with a state: the CPU goes idle.
    IdleEnter { state: u32 },
    /// `cpu_idle` with -1: the CPU leaves idle.
    IdleExit,
    /// `csd_function_entry`: a function sent by another CPU starts.
    CsdEntry { function: Option<Sym>, csd: u64 },
    /// `csd_function_exit`.
    CsdExit { csd: u64 },
    /// `page_fault_user` / `page_fault_kernel`, `count` of them since the last such event on this CPU.
    PageFault { address: u64, count: u32, how: Faulted },
    /// `count` events were lost here before this time (`None`: unknown; 0: only switches not recorded or reported).
    Lost { count: Option<u64>, after: Option<Mono> },
    /// An event of another kind (its name), kept for evidence and display.
    Other { name: Sym },
    /// `raw_syscalls:sys_enter`; also LTTng's `syscall_entry_NAME`, with its fields as arguments.
    SysEnter { id: i32, args: [u64; 6] },
    /// `raw_syscalls:sys_exit`.
    SysExit { id: i32, ret: i64 },
    /// `workqueue_queue_work`; `target_cpu`: where it should run.
    WorkQueue { work: u64, function: Option<Sym>, target_cpu: Option<Cpu> },
    /// `workqueue_activate_work`: handed to the workers.
    WorkActivate { work: u64 },
    /// `workqueue_execute_start`.
    WorkStart { work: u64, function: Option<Sym> },
    /// `workqueue_execute_end`.
    WorkEnd { work: u64, function: Option<Sym> },
    /// `page_fault_user`, a single one with all fields (recorders that only count use [`Kind::PageFault`]).
    UserFault { address: u64, ip: u64, error_code: u32 },
    /// `page_fault_kernel`.
    KernelFault { address: u64, ip: u64, error_code: u32 },
    /// `mm_filemap_fault`: device (major << 20 | minor), inode and byte offset in the file.
    FilemapFault { dev: u32, ino: u64, offset: u64 },
    /// `block_rq_insert`.
    BlockInsert { dev: u32, sector: u64, nr_sector: u32, rwbs: Option<Sym> },
    /// `block_rq_issue`: given to the driver.
    BlockIssue { dev: u32, sector: u64, nr_sector: u32, rwbs: Option<Sym> },
    /// `block_rq_complete`.
    BlockComplete { dev: u32, sector: u64, nr_sector: u32, error: i32 },
    /// `net_dev_queue`: a packet goes out.
    NetQueue { skb: u64, len: u32, device: Option<Sym> },
    /// `netif_receive_skb`: a packet comes in.
    NetReceive { skb: u64, len: u32, device: Option<Sym> },
    /// `napi_poll`, at its end.
    NapiPoll { device: Option<Sym>, work: i32, budget: i32 },
    /// `ipi_send_cpu`.
    IpiSend { target_cpu: Cpu, callback: Option<Sym> },
    /// `ipi_send_cpumask`: the CPUs as a list (`0,2-5`).
    IpiSendMask { targets: Sym, callback: Option<Sym> },
    /// `ipi_entry` (not on x86): its reason.
    IpiEntry { reason: Option<Sym> },
    /// `ipi_exit`.
    IpiExit { reason: Option<Sym> },
    /// `csd_queue_cpu`: a function is sent to another CPU.
    CsdQueue { target_cpu: Cpu, function: Option<Sym>, csd: u64 },
    /// `contention_begin`: waits for a lock; flags 1 spin, 2 read, 4 write, 8 RT, 16 per-CPU, 32 mutex.
    ContentionBegin { lock: u64, flags: u32 },
    /// `contention_end`: acquired, or gave up.
    ContentionEnd { lock: u64, ret: i32 },
    /// `sched_process_fork`.
    Fork { parent: Tid, child: TaskRef },
    /// `sched_process_exec`, in the context of the new program; `old`: the previous tid (not of a leader).
    Exec { filename: Option<Sym>, old: Tid },
    /// `sched_process_exit`.
    TaskExit { task: TaskRef },
    /// `task_rename`: a thread has a new name.
    Rename { tid: Tid, comm: Option<Sym> },
    /// `hrtimer_init` / `hrtimer_setup`; `clock` as in `clock_gettime`.
    HrtimerSetup { timer: u64, clock: i32 },
    /// `hrtimer_cancel`.
    HrtimerCancel { timer: u64 },
    /// `timer_start` (timer wheel): `expires` and `now` in jiffies.
    WheelTimerStart { timer: u64, function: Option<Sym>, expires: u64, now: Option<u64> },
    /// `timer_cancel`.
    WheelTimerCancel { timer: u64 },
    /// `timer_expire_entry`.
    WheelExpireEntry { timer: u64, function: Option<Sym> },
    /// `timer_expire_exit`.
    WheelExpireExit { timer: u64 },
    /// `signal_generate`: for `task`; `result` 0: sent, 1: ignored, 2: already pending.
    SignalGenerate { sig: i32, task: TaskRef, code: i32, result: i32 },
    /// `signal_deliver`: taken by the current thread.
    SignalDeliver { sig: i32, code: i32 },
    /// An interrupt found the current thread in this system call; `None`: in none, and if `at_fault`, at an instruction
    /// that had caused a page fault: in that fault, most likely.
    InCall { call: Option<i32>, at_fault: bool },
    /// `cpuhp_enter`, `cpuhp_multi_enter`: a step of taking `cpu` online, or offline (`down`).
    Hotplug { cpu: Cpu, down: bool },
    /// `softirq_raise`.
    SoftirqRaise { vec: u8 },
    /// A text written into the trace (`trace_marker`, `trace_puts`); for `trace_printk`, the format alone.
    Marker { text: Sym },
    /// `function` of the function tracer; addresses.
    Function { ip: u64, parent_ip: u64 },
}

impl Kind {
    /// [`Kind::InCall`] as the recorder writes it: a number; -1: in no call; -2: in none, at a page fault.
    #[must_use]
    pub fn found_in(id: i32) -> Kind {
        Kind::InCall { call: Some(id).filter(|&call| call >= 0), at_fault: id == -2 }
    }

    /// The priority of the thread in whose context the event is, if it has that.
    #[must_use]
    pub fn waker_prio(&self) -> Option<Prio> {
        match self {
            Kind::Waking { waker_prio, .. } => *waker_prio,
            _ => None,
        }
    }

    /// The kernel's name of the event; one for all vectors, for idle and for losses; empty for [`Kind::Other`].
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Kind::Switch { .. } => "sched_switch",
            Kind::Waking { new: true, .. } => "sched_wakeup_new",
            Kind::Waking { .. } => "sched_waking",
            Kind::Wakeup { .. } => "sched_wakeup",
            Kind::Migrate { .. } => "sched_migrate_task",
            Kind::PiSetprio { .. } => "sched_pi_setprio",
            Kind::IrqEntry { .. } => "irq_handler_entry",
            Kind::IrqExit { .. } => "irq_handler_exit",
            Kind::SoftirqEntry { .. } => "softirq_entry",
            Kind::SoftirqExit { .. } => "softirq_exit",
            Kind::SoftirqRaise { .. } => "softirq_raise",
            Kind::Hotplug { .. } => "cpuhp_enter",
            Kind::Nmi { .. } => "nmi_handler",
            Kind::HostSteal { .. } => "steal_clock",
            Kind::HrtimerSetup { .. } => "hrtimer_setup",
            Kind::HrtimerStart { .. } => "hrtimer_start",
            Kind::HrtimerCancel { .. } => "hrtimer_cancel",
            Kind::TimerExpireEntry { .. } => "hrtimer_expire_entry",
            Kind::TimerExpireExit { .. } => "hrtimer_expire_exit",
            Kind::CsdQueue { .. } => "csd_queue_cpu",
            Kind::CsdEntry { .. } => "csd_function_entry",
            Kind::CsdExit { .. } => "csd_function_exit",
            Kind::PageFault { .. } => "page_fault",
            Kind::SysEnter { .. } => "sys_enter",
            Kind::SysExit { .. } => "sys_exit",
            Kind::WorkQueue { .. } => "workqueue_queue_work",
            Kind::WorkActivate { .. } => "workqueue_activate_work",
            Kind::WorkStart { .. } => "workqueue_execute_start",
            Kind::WorkEnd { .. } => "workqueue_execute_end",
            Kind::UserFault { .. } => "page_fault_user",
            Kind::KernelFault { .. } => "page_fault_kernel",
            Kind::FilemapFault { .. } => "mm_filemap_fault",
            Kind::BlockInsert { .. } => "block_rq_insert",
            Kind::BlockIssue { .. } => "block_rq_issue",
            Kind::BlockComplete { .. } => "block_rq_complete",
            Kind::NetQueue { .. } => "net_dev_queue",
            Kind::NetReceive { .. } => "netif_receive_skb",
            Kind::NapiPoll { .. } => "napi_poll",
            Kind::IpiSend { .. } => "ipi_send_cpu",
            Kind::IpiSendMask { .. } => "ipi_send_cpumask",
            Kind::IpiEntry { .. } => "ipi_entry",
            Kind::IpiExit { .. } => "ipi_exit",
            Kind::ContentionBegin { .. } => "contention_begin",
            Kind::ContentionEnd { .. } => "contention_end",
            Kind::Fork { .. } => "sched_process_fork",
            Kind::Exec { .. } => "sched_process_exec",
            Kind::TaskExit { .. } => "sched_process_exit",
            Kind::Rename { .. } => "task_rename",
            Kind::WheelTimerStart { .. } => "timer_start",
            Kind::WheelTimerCancel { .. } => "timer_cancel",
            Kind::WheelExpireEntry { .. } => "timer_expire_entry",
            Kind::WheelExpireExit { .. } => "timer_expire_exit",
            Kind::SignalGenerate { .. } => "signal_generate",
            Kind::SignalDeliver { .. } => "signal_deliver",
            Kind::InCall { .. } => "interrupted_call",
            Kind::Marker { .. } => "print",
            Kind::Function { .. } => "function",
            Kind::VectorEntry(_) | Kind::VectorExit(_) => "irq_vectors",
            Kind::IdleEnter { .. } | Kind::IdleExit => "cpu_idle",
            Kind::Lost { .. } => "lost",
            Kind::Other { .. } => "",
        }
    }
}

/// One event. In a [`super::window::Window`], times do not decrease within a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Event {
    /// Time.
    pub at: Mono,
    /// CPU.
    pub cpu: Cpu,
    /// The current thread (`common_pid`); in an interrupt, the interrupted thread.
    pub current: Option<Tid>,
    /// Context: the thread itself, or an interrupt.
    pub level: Level,
    /// Kind and fields.
    pub kind: Kind,
}

/// Context in which an event was recorded, if it has that (`common_flags` of ftrace and perf).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Not recorded.
    #[default]
    Unsaid,
    /// In the thread.
    Thread,
    /// In a softirq.
    Softirq,
    /// In a hard interrupt or an NMI.
    Hard,
}

impl Level {
    /// From the bits of `common_flags` (include/linux/trace_events.h): TRACE_FLAG_HARDIRQ, _SOFTIRQ, _NMI.
    #[must_use]
    pub fn of_flags(flags: u64) -> Level {
        match flags {
            flags if flags & 0x48 != 0 => Level::Hard,
            flags if flags & 0x10 != 0 => Level::Softirq,
            _ => Level::Thread,
        }
    }

    /// In an interrupt: not caused by the interrupted thread.
    #[must_use]
    pub fn is_interrupt(self) -> bool {
        matches!(self, Level::Softirq | Level::Hard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_would_act_on_a_terminal_is_kept_as_its_escape() {
        let mut strings = Strings::default();
        let evil = strings.intern("\x1b[31mEVIL\n!ok");
        assert_eq!(strings.get(evil), "\\u{1b}[31mEVIL !ok");
        assert_eq!(strings.intern("\x1b[31mEVIL\n!ok"), evil);
        assert_eq!(crate::comm::Comm::cut("\x1b[1m").to_string(), "\\u{1b}[1m");
    }

    #[test]
    fn equal_texts_share_a_symbol_and_foreign_symbols_are_empty() {
        let mut strings = Strings::default();
        let a = strings.intern("ksoftirqd/0");
        assert_eq!(strings.intern("ksoftirqd/0"), a);
        assert_eq!(strings.get(a), "ksoftirqd/0");
        assert_eq!(strings.get(Sym(99)), "");
        assert_eq!(strings.intern(""), Sym(0));
    }

    #[test]
    fn an_event_stays_small() {
        assert!(size_of::<Event>() <= 80, "{}", size_of::<Event>());
    }
}

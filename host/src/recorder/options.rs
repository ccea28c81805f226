//! What the recorder is to record, and which programs that takes.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Ns, Tid};

use super::block;
use super::follow::Follow;

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// On which CPUs; on all others the programs return at once.
    pub cpus: CpuSet,
    /// Freeze the flight ring when a real-time task is switched in this late; `None`: only when asked.
    pub peaks_threshold: Option<Ns>,
    /// Take a kernel stack of what was interrupted when a timer that wakes a measured task is later than this.
    /// A stack costs some 10 µs on the way of such a wake-up: raise it with the peaks
    /// ([`Recorder::set_late_timer_stack`](super::Recorder::set_late_timer_stack)).
    pub late_timer_stack: Ns,
    /// Measure these threads only; `None`: every real-time thread. More can be added:
    /// [`Recorder::watch`](super::Recorder::watch).
    pub tids: Option<Vec<Tid>>,
    /// Measure the kernel's own real-time threads too (migration, irq/N, ktimers, rcu …).
    pub keep_kernel_threads: bool,
    /// Measure tasks that are not real time, too.
    pub ordinary: bool,
    /// What a thread of [`Options::tids`] forks is measured as well, and who else comes to be chosen; `None`: nobody.
    pub follow: Option<Follow>,
    /// Leave what only ordinary tasks take part in (their wakings, switches and page faults) out of the flight ring:
    /// they pay a fifth. A late real-time task is preceded by whom it replaced, all the same.
    pub lean: bool,
    /// Record each activation of each measured thread ([`Recorder::activations`](super::Recorder::activations)).
    pub activations: bool,
    /// Measure the switch itself, too: one more program on the way of every context switch.
    pub switch: bool,
    /// System calls in the flight ring: two more programs on the way of every system call.
    pub calls: Calls,
}

/// System calls in the flight ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// None.
    #[default]
    None,
    /// Numbers that are none (markers), futexes and sched_setaffinity.
    Markers,
    /// All.
    All,
}

impl Options {
    /// Every real-time thread of user space on `cpus`, stacks of timers that are 20 µs late.
    #[must_use]
    pub fn on(cpus: CpuSet) -> Options {
        Options {
            cpus,
            peaks_threshold: None,
            late_timer_stack: Ns::from_us(20),
            tids: None,
            keep_kernel_threads: false,
            ordinary: false,
            follow: None,
            lean: false,
            activations: false,
            switch: false,
            calls: Calls::None,
        }
    }
}

impl Options {
    /// `enum option` of src/bpf/block.h.
    pub(super) fn bits(&self) -> u32 {
        let wanted = [
            (self.keep_kernel_threads, block::KERNEL_THREADS),
            (self.tids.is_some(), block::CHOSEN_ONLY),
            (self.ordinary, block::ORDINARY),
            (self.follow.is_some(), block::FOLLOW),
            (self.lean, block::LEAN),
            (self.activations, block::WITH_ACTIVATIONS),
            (self.switch, block::SWITCH),
            (self.calls == Calls::All, block::ALL_CALLS),
        ];
        wanted.iter().filter(|(wanted, _)| *wanted).fold(0, |bits, (_, bit)| bits | bit)
    }

    /// Programs that only some recordings need are not even loaded for others.
    pub(super) fn wants(&self, tracepoint: &str) -> bool {
        match tracepoint {
            "sched_exit_tp" => self.switch,
            "sched_process_fork" => self.follow.is_some(),
            "task_rename" => self.follow.as_ref().is_some_and(Follow::looks_at_names),
            "hrtimer_start" => self.activations,
            "sys_enter" | "sys_exit" => self.calls != Calls::None,
            _ => true,
        }
    }
}

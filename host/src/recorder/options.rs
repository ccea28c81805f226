//! What the recorder records, and which programs that needs.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Ns, Tid};

use super::block;
use super::follow::Follow;

/// What to record.
#[derive(Clone, Debug)]
pub struct Options {
    /// CPUs to record; on all others the programs return at once.
    pub cpus: CpuSet,
    /// Freeze the flight ring if a real-time task is switched in this late; `None`: only on request.
    pub peaks_threshold: Option<Ns>,
    /// Take a kernel stack of the interrupted code if a timer that wakes a measured task is later than this. A stack
    /// adds some 10 µs to such a wake-up: raise it with the peaks
    /// ([`Recorder::set_late_timer_stack`](super::Recorder::set_late_timer_stack)).
    pub late_timer_stack: Ns,
    /// Measure these threads only; `None`: every real-time thread. More can be added:
    /// [`Recorder::watch`](super::Recorder::watch).
    pub tids: Option<Vec<Tid>>,
    /// Measure the kernel's own real-time threads too (migration, irq/N, ktimers, rcu …).
    pub keep_kernel_threads: bool,
    /// Measure tasks that are not real-time too.
    pub ordinary: bool,
    /// Also measure children forked by a thread of [`Options::tids`], and others that join the selection; `None`:
    /// neither.
    pub follow: Option<Follow>,
    /// Leave events of ordinary tasks only (their wakings, switches and page faults) out of the flight ring: they
    /// then cost a fifth. The switch-in of a late real-time task still shows the task that it replaced.
    pub lean: bool,
    /// Record each activation of each measured thread ([`Recorder::activations`](super::Recorder::activations)).
    pub activations: bool,
    /// Measure the switch itself too: one more program on every context switch.
    pub switch: bool,
    /// System calls in the flight ring: two more programs on every system call.
    pub calls: Calls,
}

/// System calls in the flight ring.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Calls {
    /// None.
    #[default]
    None,
    /// Calls with invalid numbers (markers), futexes, and calls that set an affinity or a priority (`call_is_wanted` in
    /// src/bpf/calls.h).
    Markers,
    /// All.
    All,
}

impl Options {
    /// Every real-time thread of user space on `cpus`, stacks for timers that are 20 µs late.
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

    /// Programs that only some recordings need are not loaded for others.
    pub(super) fn wants(&self, tracepoint: &str) -> bool {
        match tracepoint {
            "sched_exit_tp" => self.switch,
            "sched_process_fork" => self.follow.is_some(),
            "sys_enter" | "sys_exit" => self.calls != Calls::None,
            _ => true,
        }
    }
}

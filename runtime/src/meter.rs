//! Time that threads do not get: the kernel ran something else, the host of a virtual machine took the CPU, a timer was late.
//! The scheduler's clock includes that time; here it is compared with the CPU time that the kernel counts.
//!
//! Updated at each switch, and before and after idling: reads two clocks, one of them by a system call. Interrupts count as
//! time away if the kernel excludes them from a thread's CPU time; steal time does if the kernel knows it.

use crate::clock::{monotonic, read};

/// CPU time and time away of one thread, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// CPU time counted by the kernel.
    pub cpu: u64,
    /// Time in which it was the running thread and the kernel ran something else.
    pub away: u64,
}

/// Time away of the whole process since its start, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Total, while a thread could have run.
    pub away: u64,
    /// The longest between two switches.
    pub away_longest: u64,
    /// The longest from the time of a timer (a release, a deadline, the end of a wait) until the scheduler saw it. Includes
    /// time in which the scheduler was locked.
    pub late_longest: u64,
}

/// Last values of both clocks, and the sums.
#[derive(Debug)]
pub(crate) struct Meter {
    wall: u64,
    cpu: u64,
    pub(crate) process: Process,
}

impl Meter {
    pub(crate) fn new() -> Meter {
        Meter { wall: monotonic(), cpu: used(), process: Process::default() }
    }
}

fn used() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

impl Meter {
    /// Adds the time since the last call to the thread with these times.
    pub(crate) fn settle(&mut self, times: &mut Times) {
        let (cpu, wall) = (used(), monotonic());
        let ran = cpu.saturating_sub(self.cpu);
        let away = wall.saturating_sub(self.wall).saturating_sub(ran);
        (self.wall, self.cpu) = (wall, cpu);
        self.process.away += away;
        self.process.away_longest = self.process.away_longest.max(away);
        times.cpu += ran;
        times.away += away;
    }

    /// Discards the time since the last call.
    pub(crate) fn skip(&mut self) {
        (self.wall, self.cpu) = (monotonic(), used());
    }

    /// Records that a timer is seen, and will be served, this late.
    pub(crate) fn late(&mut self, late: u64) {
        self.process.late_longest = self.process.late_longest.max(late);
    }
}

//! Time that is not the threads' own: the kernel ran something else, the host of a virtual machine took the CPU, a timer came
//! late. The scheduler reads a clock that goes on meanwhile; here it is compared with the CPU time that the kernel counts.
//!
//! Settled at each switch, before and after idling: two clocks, one of them by a system call. Interrupts count as time away
//! where the kernel takes them out of a thread's CPU time; steal time does where the kernel knows of it.

use crate::clock::{monotonic, read};

/// What one thread had of the CPU, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// CPU time that the kernel counts.
    pub cpu: u64,
    /// Time in which it was the running thread and the kernel ran something else.
    pub away: u64,
}

/// What the process itself missed since its start, in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// In all, while a thread could have run.
    pub away: u64,
    /// The longest between two switches.
    pub away_longest: u64,
    /// The longest from the time of a timer (a release, a deadline, the end of a wait) until the scheduler saw it. Waits of
    /// the scheduler's own lock are in it.
    pub late_longest: u64,
}

/// Where both clocks were, and the sums.
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
    /// Time since the last call is that of the thread with these times.
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

    /// Time since the last call was nobody's.
    pub(crate) fn skip(&mut self) {
        (self.wall, self.cpu) = (monotonic(), used());
    }

    /// A timer is seen, and will be served, this late.
    pub(crate) fn late(&mut self, late: u64) {
        self.process.late_longest = self.process.late_longest.max(late);
    }
}

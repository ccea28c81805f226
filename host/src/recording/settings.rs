//! What a recording is to record.

use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Ns, Tid};

use super::{LateAbove, Selection};
use crate::recorder;

/// What to record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// On which CPUs.
    pub cpus: CpuSet,
    /// Whose latencies.
    pub selection: Selection,
    /// A started program: it and what it forks, instead of `selection`.
    pub command: Option<Tid>,
    /// Worst cases kept of each CPU.
    pub peaks: usize,
    /// Flight records are kept, and cases explained, from here on.
    pub threshold: Ns,
    /// Responses after these are misses; of threads without one, those after their period.
    pub deadlines: Deadlines,
    /// Where jobs begin, a pattern of the shell for places; `None`: it is inferred for each thread.
    pub activation: Option<String>,
    /// Threads that wake each other, whose time from end to end is measured, as patterns for names; empty: none.
    pub chain: Vec<String>,
    /// Threads whose figures are kept apart, about 100 KB each; those of others are added up as one.
    pub threads: usize,
    /// Preemption model in force, for explanations (`rt`, `full`, …).
    pub preemption: Option<String>,
    /// Measure the switch itself, too: one more program on the way of every context switch.
    pub switch: bool,
    /// Keep what the files of the old latency histograms show, which may be reset ([`reset`](super::Recording::reset)).
    pub old_files: bool,
    /// Keep the worst jobs, from a release to the next main wait, as cases: of an application.
    pub jobs: bool,
    /// Keep the flight records of the worst cases ([`flight`](super::Snapshot::flight)), half a megabyte each.
    pub flight: bool,
    /// Which cases are noticed while it goes on ([`take_late`](super::Recording::take_late)).
    pub late: LateAbove,
}

impl Settings {
    /// Real-time threads of user space, the eight worst, flight records from 200 µs on.
    #[must_use]
    pub fn on(cpus: CpuSet) -> Settings {
        Settings {
            cpus,
            selection: Selection::RealTime,
            command: None,
            peaks: 8,
            threshold: Ns::from_us(200),
            deadlines: Deadlines::default(),
            activation: None,
            chain: Vec::new(),
            threads: 512,
            preemption: None,
            switch: false,
            old_files: false,
            jobs: false,
            flight: true,
            late: LateAbove::default(),
        }
    }

    /// How the recorder is set for this, measuring `tids` alone if given.
    #[must_use]
    pub fn recorder(&self, tids: Option<Vec<Tid>>) -> recorder::Options {
        let chosen = tids.is_some();
        let all = !chosen && self.selection == Selection::All;
        recorder::Options {
            peaks_threshold: Some(self.threshold),
            late_timer_stack: self.threshold,
            follow: chosen.then(|| self.follow()),
            tids,
            keep_kernel_threads: all || chosen,
            ordinary: all,
            lean: true,
            activations: true,
            switch: self.switch,
            ..recorder::Options::on(self.cpus.clone())
        }
    }

    /// Whether threads were chosen, not all real-time tasks of the system.
    pub(super) fn is_application(&self) -> bool {
        self.command.is_some() || !matches!(self.selection, Selection::RealTime | Selection::All)
    }

    fn follow(&self) -> recorder::Follow {
        match self.command {
            Some(_) => recorder::Follow::Forks,
            None => self.selection.follow(),
        }
    }
}

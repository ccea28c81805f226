//! Settings of a recording.

use lathunt_core::application::Deadlines;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Ns, Tid};

use super::{LateAbove, Selection};
use crate::recorder;

/// What to record.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CPUs.
    pub cpus: CpuSet,
    /// Tasks.
    pub selection: Selection,
    /// A started program: recorded with its children, instead of `selection`.
    pub command: Option<Tid>,
    /// Number of worst cases to keep per CPU.
    pub peaks: usize,
    /// Flight records are kept, and cases explained, from this latency on.
    pub threshold: Ns,
    /// Longer responses are misses; for threads without a deadline, their period counts.
    pub deadlines: Deadlines,
    /// Wait at which jobs begin, a shell pattern for places; `None`: inferred for each thread.
    pub activation: Option<String>,
    /// Threads that wake each other, whose end-to-end time is measured, as name patterns; empty: none.
    pub chain: Vec<String>,
    /// Number of threads with separate figures, about 100 KB each; those of others are summed up.
    pub threads: usize,
    /// Preemption model in force, for explanations (`rt`, `full`, …).
    pub preemption: Option<String>,
    /// Measure the switch itself too: one more program on every context switch.
    pub switch: bool,
    /// Keep the figures for the files of the old latency histograms, which may be reset
    /// ([`reset`](super::Recording::reset)).
    pub old_files: bool,
    /// Keep the worst jobs, from a release to the next main wait, as cases: for an application.
    pub jobs: bool,
    /// Keep the flight records of the worst cases ([`flight`](super::Snapshot::flight)), half a megabyte each.
    pub flight: bool,
    /// Cases to report while it runs ([`take_late`](super::Recording::take_late)).
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

    /// Options of the recorder for these settings, measuring only `tids` if given.
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

    /// Whether threads were selected, not all real-time tasks of the system.
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

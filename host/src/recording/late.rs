//! Late cases during the recording, for actions on them: their number, and the largest since the last query.
//!
//! A case is late if its wake-up, or its job, took longer than a limit. The final verdict counts the same, with two
//! exceptions. A deadline that equals the period of a thread is unknown while it runs: such jobs are not noticed here. A
//! deadline without a name applies to ordinary threads only if no thread is real-time: here, until the first one wakes up.

use lathunt_core::application::{Deadlines, Job, Standing};
use lathunt_core::peak::Peak;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_core::trace::activation::Activation;

use super::jobs::JobBook;
use super::Recording;

/// Which cases are late.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateAbove {
    /// Limit for wake-ups.
    pub wakeups: Option<Ns>,
    /// Limit for jobs.
    pub jobs: Option<Ns>,
    /// Jobs above the deadline of their thread.
    pub deadlines: Deadlines,
    /// Limit for wake-ups, or jobs of an application, that ends the recording.
    pub stop: Option<Ns>,
}

/// A late case.
#[derive(Clone)]
pub(super) enum Found {
    WakeUp(Box<Activation>),
    Job(Box<Job>),
}

impl Found {
    fn total(&self) -> Ns {
        match self {
            Found::WakeUp(activation) => activation.latency(),
            Found::Job(job) => job.total(),
        }
    }
}

/// Late cases since they were last taken.
#[derive(Default)]
pub(super) struct Late {
    above: LateAbove,
    realtime: bool, // a real-time thread was seen: a deadline without a name applies to these only
    has_jobs: bool,
    cases: u64,
    worst: Option<Found>,
    stop: Option<Found>, // the first
}

impl Late {
    /// `has_jobs`: an application is recorded.
    pub fn new(above: LateAbove, has_jobs: bool) -> Late {
        Late { above, has_jobs, ..Late::default() }
    }

    /// Minimum total of jobs to look at: because one may be late, or of use to `jobs`.
    pub fn wanted_of(&self, jobs: &JobBook) -> Ns {
        let limits = [self.above.jobs, self.above.deadlines.shortest(), self.above.stop];
        let late = limits.into_iter().flatten().min();
        late.map_or(jobs.useful_from(), |late| late.min(jobs.useful_from()))
    }

    /// Adds a wake-up; two comparisons if it is in time.
    pub fn wakeup(&mut self, a: &Activation) {
        self.realtime |= a.is_realtime();
        let has_latency = !a.awake || a.timer.is_some();
        if has_latency && !self.has_jobs && self.above.stop.is_some_and(|above| a.latency() > above) {
            self.stop.get_or_insert_with(|| Found::WakeUp(Box::new(*a)));
        }
        if has_latency && self.above.wakeups.is_some_and(|above| a.latency() > above) {
            self.found(Found::WakeUp(Box::new(*a)));
        }
    }

    /// Jobs that ended.
    pub fn jobs(&mut self, ended: &[Job]) {
        let is_new = |job: &&Job| matches!(job.standing, Standing::Known | Standing::AtLeast);
        for job in ended.iter().filter(is_new) {
            let Some(last) = job.steps.last() else { continue };
            let is_realtime = last.is_realtime();
            self.realtime |= is_realtime;
            let comm = last.thread.thread().comm;
            let deadline = self.above.deadlines.while_running(&comm);
            let deadline =
                deadline.filter(|_| is_realtime || !self.realtime || self.above.deadlines.names(&comm));
            if self.above.stop.is_some_and(|above| job.total() > above) {
                self.stop.get_or_insert_with(|| Found::Job(Box::new(job.clone())));
            }
            if self.above.jobs.or(deadline).is_some_and(|above| job.total() > above) {
                self.found(Found::Job(Box::new(job.clone())));
            }
        }
    }

    fn found(&mut self, found: Found) {
        self.cases += 1;
        if self.worst.as_ref().is_none_or(|worst| found.total() > worst.total()) {
            self.worst = Some(found);
        }
    }
}

impl Recording {
    /// Late cases since the last call: their number, and if `wanted` the largest of them with its explanation so far, which
    /// takes some ms.
    #[must_use]
    pub fn take_late(&mut self, wanted: bool) -> (u64, Option<Peak>) {
        let cases = std::mem::take(&mut self.late.cases);
        let worst = self.late.worst.take().filter(|_| wanted);
        (cases, worst.and_then(|worst| self.late_peak(worst)))
    }

    /// The first case above [`LateAbove::stop`].
    #[must_use]
    pub fn stopped_by(&mut self) -> Option<Peak> {
        let found = self.late.stop.clone()?;
        self.late_peak(found)
    }

    /// Whether there is one.
    #[must_use]
    pub fn is_to_stop(&self) -> bool {
        self.late.stop.is_some()
    }

    fn late_peak(&mut self, found: Found) -> Option<Peak> {
        match found {
            Found::WakeUp(a) => {
                self.book.explain_cases();
                let quantity = if a.timer.is_some() { Quantity::TimerWakeup } else { Quantity::Wakeup };
                Some(self.book.sample(&a, quantity, a.switched_in, a.latency()))
            }
            Found::Job(job) => {
                let evidence = self.book.evidence_of();
                self.jobs.as_mut().and_then(|jobs| jobs.late(*job, evidence))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_may_be_part_of_a_longer_one_is_late_when_it_ends_and_once() {
        let told = |standings: &[Standing]| {
            let above = LateAbove { jobs: Some(Ns(5)), stop: Some(Ns(5)), ..LateAbove::default() };
            let mut late = Late::new(above, true);
            for &standing in standings {
                late.jobs(&[Job { standing, ..super::super::jobs::tests::job(1, 1_000, 300) }]);
            }
            (late.cases, late.stop.is_some())
        };
        assert_eq!(told(&[Standing::Open]), (0, false), "it may be in time");
        assert_eq!(told(&[Standing::Open, Standing::Known]), (1, true));
        assert_eq!(told(&[Standing::AtLeast]), (1, true));
        assert_eq!(told(&[Standing::AtLeast, Standing::Settled]), (1, true));
    }
}

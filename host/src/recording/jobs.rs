//! The worst jobs of an application as cases: the K worst of all, and the worst of each thread.
//!
//! A late job is known when it is over, one poll later. Its events are then copied out of the rings of all CPUs, without
//! freezing them; the explanation costs some ms and is deferred until it is requested, or until too many wait. While the
//! main wait of a thread is unknown, evidence of what may turn out to be a job is kept for a while.
//!
//! One backlog is one case: a job that was late because the previous one was not over replaces that one, or is dropped.
//! Jobs of real-time threads come before those of others.

use std::collections::BTreeMap;
use std::sync::Arc;

use lathunt_core::application::{self, Job};
use lathunt_core::explain::Explanation;
use lathunt_core::peak::Peak;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Mono, Ns, Tid};

use super::evidence::Evidence;
use super::job_evidence;
use super::pending::Packed;
use super::Settings;
use crate::recorder::{self, Frozen};

/// Maximum number of cases waiting to be explained.
const WAITING: usize = 24;
/// Jobs with evidence whose thread is not known well enough yet.
const PROVISIONAL: usize = 48;
/// How much of the time before a job is read, at least: it shows the resources held then.
const BEFORE: Ns = Ns::from_ms(5);

/// A job that is kept.
#[derive(Clone)]
struct Case {
    job: Arc<Job>,
    rings: Option<Arc<Packed>>,
    explanation: Option<Explanation>,
}

impl Case {
    fn is_of(&self, job: &Job) -> bool {
        self.job.key() == job.key()
    }

    /// Whether both belong to the same backlog.
    fn joins(&self, job: &Job) -> bool {
        self.job.key().0 == job.key().0 && self.job.since() == job.since()
    }

    fn rank(&self) -> (bool, Ns) {
        rank(&self.job)
    }
}

/// Jobs of real-time threads come first.
fn rank(job: &Job) -> (bool, Ns) {
    (job.steps.last().is_some_and(|last| last.thread.prio.is_realtime()), job.total())
}

/// The worst jobs.
pub(super) struct JobBook {
    limit: usize,
    threads: usize,
    worst: Vec<Case>, // worst first
    of_thread: BTreeMap<Tid, Case>,
    provisional: Vec<((Tid, Mono), Ns, Arc<Packed>)>,
}

impl JobBook {
    /// Keeps [`Settings::peaks`] and one for each of [`Settings::threads`].
    #[must_use]
    pub fn new(settings: &Settings) -> JobBook {
        JobBook {
            limit: settings.peaks,
            threads: settings.threads,
            worst: Vec::new(),
            of_thread: BTreeMap::new(),
            provisional: Vec::new(),
        }
    }

    /// The present ones belong to a window that has ended.
    pub fn begin_window(&mut self) {
        self.worst.clear();
        self.of_thread.clear();
    }

    /// Minimum total of a job to be one of the worst.
    #[must_use]
    pub fn useful_from(&self) -> Ns {
        let full = self.worst.len() >= self.limit;
        self.worst.last().filter(|least| full && least.rank().0).map_or(Ns::ZERO, |least| least.job.total())
    }

    /// Adds jobs that have just ended; `peek` reads the rings since a given time.
    pub fn ended(&mut self, jobs: Vec<Job>, peek: impl Fn(Mono) -> Frozen) {
        let wanted: Vec<Job> = jobs.into_iter().filter(|job| self.is_wanted(job)).collect();
        let lacking = wanted.iter().filter(|job| self.evidence_of(job).is_none());
        let first = lacking.map(|job| job.begin).min();
        let fresh = first.map(|first| Arc::new(Packed::new(peek(Mono(first.0.saturating_sub(BEFORE.0))))));
        for job in wanted {
            let rings = self.evidence_of(&job).or_else(|| fresh.clone());
            self.keep(job, rings);
        }
    }

    fn evidence_of(&self, job: &Job) -> Option<Arc<Packed>> {
        let mut known = self.provisional.iter();
        known.find(|(key, ..)| *key == job.key()).map(|(.., rings)| Arc::clone(rings))
    }

    fn is_wanted(&self, job: &Job) -> bool {
        let of_thread = self.of_thread.get(&job.key().0);
        let is_longest = of_thread.is_none_or(|known| job.total() > known.job.total());
        let has_room = of_thread.is_some() || self.of_thread.len() < self.threads;
        let among =
            self.worst.len() < self.limit || self.worst.last().is_some_and(|least| rank(job) > least.rank());
        (is_longest && has_room) || among
    }

    fn keep(&mut self, job: Job, rings: Option<Arc<Packed>>) {
        if job.is_provisional() {
            if let Some(rings) = rings {
                self.provisional.push((job.key(), job.total(), rings));
            }
            if self.provisional.len() > PROVISIONAL {
                let least = self.provisional.iter().enumerate().min_by_key(|(_, (_, total, _))| *total);
                least.map(|(at, _)| at).into_iter().for_each(|at| drop(self.provisional.remove(at)));
            }
            return;
        }
        let case = Case { job: Arc::new(job), rings, explanation: None };
        let (job, tid) = (Arc::clone(&case.job), case.job.key().0);
        let known = self.of_thread.get(&tid);
        if known.is_none_or(|known| job.total() > known.job.total())
            && (known.is_some() || self.of_thread.len() < self.threads)
        {
            self.of_thread.insert(tid, case.clone());
        }
        // One backlog is one case.
        if let Some(at) = self.worst.iter().position(|known| known.joins(&job)) {
            if self.worst[at].rank() >= case.rank() {
                return;
            }
            self.worst.remove(at);
        }
        let at = self.worst.partition_point(|known| known.rank() >= case.rank());
        self.worst.insert(at, case);
        self.worst.truncate(self.limit);
    }

    /// Explains waiting cases once there are too many of them.
    pub fn make_room(&mut self, evidence: &Evidence) {
        let waiting =
            self.worst.iter().chain(self.of_thread.values()).filter(|case| case.explanation.is_none());
        if waiting.count() > WAITING {
            self.explain_cases(evidence);
        }
    }

    /// Explains every case: some ms each.
    pub fn explain_cases(&mut self, evidence: &Evidence) {
        let mut explained: Vec<(Arc<Job>, Explanation)> = Vec::new();
        for case in self.worst.iter_mut().chain(self.of_thread.values_mut()) {
            if case.explanation.is_some() {
                continue;
            }
            let known = explained.iter().find(|(job, _)| case.is_of(job)).map(|(_, known)| known.clone());
            let rings = case.rings.take();
            case.explanation = known.or_else(|| {
                let frozen = rings.as_ref().map(|rings| rings.unpacked());
                job_evidence::explain(&case.job, frozen, evidence)
            });
            explained.extend(case.explanation.clone().map(|known| (Arc::clone(&case.job), known)));
        }
    }

    /// A late job, with its explanation if it is one of the worst.
    pub fn late(&mut self, job: Job, evidence: &Evidence) -> Option<Peak> {
        self.explain_cases(evidence);
        let known = self.worst.iter().chain(self.of_thread.values()).find(|case| case.is_of(&job)).cloned();
        peak(&known.unwrap_or_else(|| Case { job: Arc::new(job), rings: None, explanation: None }))
    }

    /// The cases, as peaks.
    pub fn peaks(&self) -> Vec<Peak> {
        let of_threads = self.of_thread.values();
        let more = of_threads.filter(|case| !self.worst.iter().any(|known| known.joins(&case.job)));
        self.worst.iter().chain(more).filter_map(peak).collect()
    }
}

fn peak(case: &Case) -> Option<Peak> {
    let last = case.job.steps.last()?;
    let explanation = case.explanation.clone().or_else(|| {
        let why = "not looked at yet";
        application::explanation(&case.job, recorder::syscall_name, why)
    });
    Some(Peak {
        quantity: Quantity::Response,
        cpu: last.cpu,
        begin: case.job.begin,
        total_ns: case.job.total(),
        victim: last.thread.thread(),
        culprit: explanation.as_ref().map(|explanation| explanation.cause.clone()),
        no_evidence: None,
        explanation,
        context: None,
        during_action: false,
        counted_as: application::counted_cause(&case.job, recorder::syscall_name),
    })
}

#[cfg(test)]
pub(super) mod tests;

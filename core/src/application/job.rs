//! One job: a turn with all that it was made of, from its release to the wait for the next one.
//!
//! In: the activations of a thread between two main waits, as `turn` finds them. Out: a [`Job`] for each turn that is
//! long enough to be asked about. What its time was spent on is in `parts`.

use super::parts::{self, Part};
use super::task::LateCause;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point};

/// Activations kept of a job; the time of those that follow is added up.
pub(super) const STEPS: usize = 64;

/// The job of the same thread before, where that was not over when this one was released.
#[derive(Clone, Debug, PartialEq)]
pub struct Backlog {
    /// When it was over.
    pub until: Mono,
    /// Its main cause.
    pub cause: String,
    /// When the first job of the backlog was released.
    pub since: Mono,
}

/// A turn with its activations.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its release.
    pub begin: Mono,
    /// When it waited for the next one.
    pub end: Mono,
    /// The job before it, where that was still going on at `begin`.
    pub backlog: Option<Backlog>,
    /// Its activations, the first 64.
    pub steps: Vec<Activation>,
    /// What the others were spent on.
    pub more: Vec<Part>,
    /// The main wait of the thread is not known yet: the job may turn out to be another one.
    pub is_provisional: bool,
}

impl Job {
    /// From its release to its end.
    #[must_use]
    pub fn total(&self) -> Ns {
        self.end.since(self.begin)
    }

    /// What it is known by; the moment at which it ended is in its last activation, too.
    #[must_use]
    pub fn key(&self) -> (Tid, Mono) {
        (self.steps.first().map_or(Tid(0), |first| first.thread.tid), self.end)
    }

    /// When the first job of its backlog was released, or it itself.
    #[must_use]
    pub fn since(&self) -> Mono {
        self.backlog.as_ref().map_or(self.begin, |backlog| backlog.since)
    }

    /// What its time was spent on, in the order of time; together its total.
    #[must_use]
    pub fn parts(&self, name: fn(Point) -> Option<&'static str>) -> Vec<Part> {
        parts::of(self, name)
    }
}

/// What jobs are held to, as far as is known while they go on.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Due {
    /// Their deadline; `None`: none, or not known yet.
    pub deadline: Option<Ns>,
    /// That is the period of their thread.
    pub is_period: bool,
}

/// The turn of a thread that goes on, and the jobs that ended.
#[derive(Clone, Default)]
pub(super) struct Jobs {
    steps: Vec<Activation>,
    more: Vec<Part>,
    cursor: Mono,
    last: Option<Activation>,
    previous: Option<Job>,
    /// The longest so far, and from which total on others are asked for.
    longest: Ns,
    longest_provisional: Ns,
    pub least: Ns,
    ended: Vec<Job>,
    due: Due,
    /// Jobs before the period was known that is their deadline.
    early: Vec<LateCause>,
    causes: Vec<LateCause>,
}

/// Causes of late jobs that are kept apart.
const CAUSES: usize = 32;
/// Jobs that wait for the period, at most.
const EARLY: usize = 64;

impl Jobs {
    /// Of a thread that is held to this.
    pub fn new(due: Due) -> Jobs {
        Jobs { due, least: Ns(u64::MAX), ..Jobs::default() }
    }

    /// From now on these are late.
    pub fn set_due(&mut self, due: Due) {
        self.due = due;
    }

    /// The period of the thread. Where it is the deadline, jobs that waited for it are late or not.
    pub fn set_period(&mut self, period: Option<Ns>) {
        let Some(period) = period.filter(|_| self.due.is_period) else { return };
        self.due.deadline = Some(period);
        for job in std::mem::take(&mut self.early) {
            if job.worst_ns > period {
                self.count(job);
            }
        }
    }

    #[cfg(test)]
    pub fn ask_for_all(&mut self) {
        self.least = Ns::ZERO;
    }

    /// Counts anew.
    pub fn begin_window(&mut self) {
        self.longest = Ns::ZERO;
        self.causes.clear();
    }

    /// A turn begins.
    pub fn begins(&mut self) {
        self.steps.clear();
        self.more.clear();
        self.last = None;
    }

    /// An activation of it.
    pub fn step(&mut self, a: &Activation, name: fn(Point) -> Option<&'static str>) {
        if self.steps.len() < STEPS {
            self.steps.push(*a);
        } else {
            let mut fresh = Vec::new();
            parts::step(self.last.as_ref(), a, &mut self.cursor, name, &mut fresh);
            parts::add_up(&mut self.more, fresh);
        }
        self.cursor = a.blocked;
        self.last = Some(*a);
    }

    /// Activations are missing: the next turn does not follow the last one.
    pub fn forget(&mut self) {
        self.begins();
        self.previous = None;
    }

    /// The turn is over, and was released at `begin`.
    pub fn ends(&mut self, begin: Mono, end: Mono, name: fn(Point) -> Option<&'static str>) {
        let previous = self.previous.take();
        let overran = previous.as_ref().filter(|previous| previous.end > begin);
        let backlog = overran.map(|previous| Backlog {
            until: previous.end,
            cause: parts::main_cause(&previous.parts(name)).map_or_else(String::new, |(cause, _)| cause),
            since: previous.since(),
        });
        // What it asked for late, the thread was busy until then.
        let first = self.steps.first().map(Activation::begin).filter(|asked| *asked > begin);
        let unseen = first.map(|until| Backlog { until, cause: String::new(), since: begin });
        let backlog = backlog.or(unseen);
        // The vector of the job before is used again.
        let mut free = previous.map_or_else(Vec::new, |previous| previous.steps);
        free.clear();
        let steps = std::mem::replace(&mut self.steps, free);
        let more = std::mem::take(&mut self.more);
        let job = Job { begin, end, backlog, steps, more, is_provisional: false };
        let total = job.total();
        match self.due.deadline {
            Some(deadline) if total > deadline => {
                self.late(&job, name).into_iter().for_each(|of| self.count(of))
            }
            None if self.due.is_period && self.early.len() < EARLY => {
                self.early.extend(self.late(&job, name))
            }
            _ => {}
        }
        if total > self.longest || total > self.least {
            self.longest = self.longest.max(total);
            self.ended.push(job.clone());
        }
        self.previous = Some(job);
    }

    fn late(&self, job: &Job, name: fn(Point) -> Option<&'static str>) -> Option<LateCause> {
        let (cause, time_ns) = parts::main_cause(&job.parts(name))?;
        Some(LateCause { cause, jobs: 1, time_ns, worst_ns: job.total() })
    }

    fn count(&mut self, of: LateCause) {
        let known = self.causes.iter().position(|known| known.cause == of.cause);
        let at = known.or((self.causes.len() >= CAUSES).then_some(CAUSES - 1)).unwrap_or(self.causes.len());
        if at == self.causes.len() {
            self.causes.push(of);
            return;
        }
        let sum = &mut self.causes[at];
        if known.is_none() {
            sum.cause = "other causes".to_owned();
        }
        sum.jobs += of.jobs;
        sum.time_ns = sum.time_ns + of.time_ns;
        sum.worst_ns = sum.worst_ns.max(of.worst_ns);
    }

    /// A turn as it would be if `activations`, of a thread whose main wait is not known yet, were one.
    pub fn provisional(&mut self, begin: Mono, activations: &[Activation]) {
        let Some(last) = activations.last() else { return };
        let steps = activations.iter().take(STEPS).copied().collect();
        let (end, backlog, more) = (last.blocked, None, Vec::new());
        let job = Job { begin, end, backlog, steps, more, is_provisional: true };
        if job.total() > self.longest_provisional || job.total() > self.least {
            self.longest_provisional = self.longest_provisional.max(job.total());
            self.ended.push(job);
        }
    }

    /// Jobs that ended since the last call, those that are worth a look.
    pub fn take(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.ended)
    }

    /// Causes of the late ones, the most frequent first.
    pub fn causes(&self) -> Vec<LateCause> {
        let mut causes = self.causes.clone();
        causes.sort_by(|a, b| (b.jobs, b.time_ns).cmp(&(a.jobs, a.time_ns)).then(a.cause.cmp(&b.cause)));
        causes
    }
}

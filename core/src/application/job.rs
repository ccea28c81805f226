//! One job with its activations, from its release to the wait for the next one.
//!
//! Input: the activations of a thread between two main waits, as `log` finds them. Output: a [`Job`] for each one
//! longer than requested. `parts` splits its time.

use super::parts::{self, Part};
use super::task::LateCause;
use super::usual::Usual;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point, Via};

/// Activations kept per job; the time of later ones is added up.
pub(super) const STEPS: usize = 64;

/// Time between a release and the start of its job, in which the thread could not start it.
#[derive(Clone, Debug, PartialEq)]
pub struct Backlog {
    /// Its end.
    pub until: Mono,
    /// Its reason.
    pub why: StartDelay,
    /// When the first job of the backlog was released.
    pub since: Mono,
}

/// Why a thread did not start a job at its release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartDelay {
    /// The previous job was not finished; its main cause, if known.
    Overrun(Option<String>),
    /// The thread was stopped in the wait for the release: no job before it overran.
    Stopped,
    /// The time it waited for had passed before its previous job started, and nothing stopped it: the program computed its
    /// first release long before its first wait, or waits for decreasing times.
    Behind,
    /// The previous job was not finished, mainly for that reason.
    StillBehind,
    /// Another thread armed its timer after it was due.
    ArmedLate,
}

/// What is known of the limits of a job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// They are final.
    #[default]
    Known,
    /// They may change: the main wait of the thread is not known yet.
    Open,
    /// It is a job, or a part of a longer one: late in either case.
    AtLeast,
    /// They are final; it was returned before, as [`Standing::AtLeast`].
    Settled,
}

/// A job with its activations.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its release.
    pub begin: Mono,
    /// When it waited for the next release.
    pub end: Mono,
    /// What kept the thread from starting at `begin`, if anything did.
    pub backlog: Option<Backlog>,
    /// Its activations, the first 64.
    pub steps: Vec<Activation>,
    /// Time of the other activations.
    pub more: Vec<Part>,
    /// Part of its running that the thread has in each job, and that fits in the deadline; zero if the job is not late, or
    /// too little is known.
    pub usual: Ns,
    /// What is known of its limits.
    pub standing: Standing,
}

impl Job {
    /// Whether its limits may change.
    #[must_use]
    pub fn is_provisional(&self) -> bool {
        matches!(self.standing, Standing::Open | Standing::AtLeast)
    }

    /// From its release to its end.
    #[must_use]
    pub fn total(&self) -> Ns {
        self.end.since(self.begin)
    }

    /// Its time on a CPU, interrupts included.
    fn ran(&self) -> Ns {
        let later = self.more.iter().filter(|part| part.what == parts::What::Runs).map(|part| part.net);
        self.steps.iter().map(|step| step.execution).chain(later).sum()
    }

    /// Identifies the job: thread and end, which is also in its last activation.
    #[must_use]
    pub fn key(&self) -> (Tid, Mono) {
        (self.steps.first().map_or(Tid(0), |first| first.thread.tid), self.end)
    }

    /// Release of the first job of its backlog, or its own.
    #[must_use]
    pub fn since(&self) -> Mono {
        self.backlog.as_ref().map_or(self.begin, |backlog| backlog.since)
    }

    /// Whether most of its time is that for which its thread was behind its own schedule.
    #[must_use]
    pub fn is_behind(&self, name: fn(Point) -> Option<&'static str>) -> bool {
        parts::main_kind(&self.parts(name)) == Some(parts::What::Behind)
    }

    /// Whether another thread armed the timer that released it after it was due.
    #[must_use]
    pub fn is_armed_late(&self) -> bool {
        self.backlog.as_ref().is_some_and(|backlog| backlog.why == StartDelay::ArmedLate)
    }

    /// Whether most of its time is that for which the freezer had stopped its thread in a sleep.
    #[must_use]
    pub fn is_thawed(&self, name: fn(Point) -> Option<&'static str>) -> bool {
        let thawed = self.steps.iter().any(Activation::is_thawed);
        thawed && parts::main_kind(&self.parts(name)) == Some(parts::What::Stopped)
    }

    /// Whether another thread ended the wait before it, as SIGCONT does after a stop.
    fn is_resumed(&self) -> bool {
        self.steps.first().is_some_and(|first| first.via == Via::Thread && !first.awake)
    }

    /// Its time in parts, in time order; they add up to [`Job::total`].
    #[must_use]
    pub fn parts(&self, name: fn(Point) -> Option<&'static str>) -> Vec<Part> {
        parts::of(self, name)
    }
}

/// Deadline of jobs, as far as it is known while they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Due {
    /// Their deadline; `None`: none, or not known yet.
    pub deadline: Option<Ns>,
    /// The deadline is the period of the thread.
    pub is_period: bool,
}

/// The current job of a thread, and the jobs that ended.
#[derive(Clone, Default)]
pub(super) struct Jobs {
    steps: Vec<Activation>,
    more: Vec<Part>,
    cursor: Mono,
    last: Option<Activation>,
    previous: Option<Job>,
    /// The longest job so far; jobs above `least` are kept too.
    longest: Ns,
    longest_provisional: Ns,
    pub least: Ns,
    ended: Vec<Job>,
    due: Due,
    usual: Usual,
    /// Jobs that ended before the period, their deadline, was known.
    early: Vec<LateCause>,
    causes: Vec<LateCause>,
}

/// Maximum number of distinct causes of late jobs.
const CAUSES: usize = 32;
/// Maximum number of jobs kept until the period is known.
const EARLY: usize = 64;

impl Jobs {
    /// Jobs of a thread with this deadline.
    pub fn new(due: Due) -> Jobs {
        Jobs { due, least: Ns(u64::MAX), ..Jobs::default() }
    }

    /// Changes the deadline for the jobs that follow.
    pub fn set_due(&mut self, due: Due) {
        self.due = due;
    }

    /// Sets the period of the thread. If it is the deadline, the jobs kept until now are judged.
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

    /// Resets the figures.
    pub fn begin_window(&mut self) {
        self.longest = Ns::ZERO;
        self.longest_provisional = Ns::ZERO;
        self.causes.clear();
    }

    /// A job starts.
    pub fn begins(&mut self) {
        self.steps.clear();
        self.more.clear();
        self.last = None;
    }

    /// Adds an activation to the current job.
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

    /// The futex at `point` is not a mutex.
    pub fn is_no_mutex(&mut self, point: Point) {
        let of_it = |one: &&mut Activation| one.point == point;
        self.steps.iter_mut().chain(&mut self.last).filter(of_it).for_each(|one| one.contended = false);
    }

    /// Activations are missing: the next job does not follow the last one.
    pub fn forget(&mut self) {
        self.begins();
        self.previous = None;
    }

    /// The job released at `begin` ends.
    pub fn ends(&mut self, begin: Mono, end: Mono, name: fn(Point) -> Option<&'static str>) {
        let previous = self.previous.take();
        let overran = previous.as_ref().filter(|previous| previous.end > begin);
        let backlog = overran.map(|previous| match previous.begin > begin {
            // A wait for a timer goes on, and has passed, where a stop interrupted it; what ran in between was no job.
            true if previous.is_resumed() => {
                Backlog { until: previous.begin, why: StartDelay::Stopped, since: begin }
            }
            true => Backlog { until: previous.begin, why: StartDelay::Behind, since: begin },
            false if previous.is_behind(name) => {
                Backlog { until: previous.end, why: StartDelay::StillBehind, since: previous.since() }
            }
            false => Backlog {
                until: previous.end,
                why: StartDelay::Overrun(
                    parts::main_cause(&previous.parts(name), previous.usual).map(|(cause, _)| cause),
                ),
                since: previous.since(),
            },
        });
        // It armed its timer late: the thread was busy until then.
        let first = self.steps.first().map(Activation::begin).filter(|asked| *asked > begin);
        let unseen = first.map(|until| Backlog { until, why: StartDelay::Overrun(None), since: begin });
        let armed = self.steps.first().filter(|first| first.armed_after > Ns::ZERO);
        let armed = armed.map(|by| Backlog { until: by.begin(), why: StartDelay::ArmedLate, since: begin });
        let backlog = armed.or(backlog).or(unseen);
        // Reuses the vector of the previous job.
        let mut free = previous.map_or_else(Vec::new, |previous| previous.steps);
        free.clear();
        let steps = std::mem::replace(&mut self.steps, free);
        let more = std::mem::take(&mut self.more);
        let mut job = Job { begin, end, backlog, steps, more, usual: Ns::ZERO, standing: Standing::Known };
        let total = job.total();
        if let Some(deadline) = self.due.deadline.filter(|deadline| total > *deadline) {
            job.usual = self.usual.within(deadline);
        }
        self.usual.add(job.ran());
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
        let (cause, time_ns) = parts::main_cause(&job.parts(name), job.usual)?;
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

    /// The job that `activations` would be, in a thread whose main wait is not known yet.
    pub fn provisional(&mut self, begin: Mono, activations: &[Activation]) {
        let Some(last) = activations.last() else { return };
        let steps = activations.iter().take(STEPS).copied().collect();
        let (end, backlog, more) = (last.blocked, None, Vec::new());
        let job = Job { begin, end, backlog, steps, more, usual: Ns::ZERO, standing: Standing::Open };
        if job.total() > self.longest_provisional || job.total() > self.least {
            self.longest_provisional = self.longest_provisional.max(job.total());
            self.ended.push(job);
        }
    }

    /// Jobs that ended since the last call and were the longest so far or above `least`.
    pub fn take(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.ended)
    }

    /// Causes of late jobs, the most frequent first.
    pub fn causes(&self) -> Vec<LateCause> {
        let mut causes = self.causes.clone();
        causes.sort_by(|a, b| (b.jobs, b.time_ns).cmp(&(a.jobs, a.time_ns)).then(a.cause.cmp(&b.cause)));
        causes
    }
}

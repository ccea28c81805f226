//! A scheduler in virtual time that simulates every release.
//!
//! The reference for property tests of the analysis, not a model of a kernel: no overheads, one processor, immediate
//! ceilings under fixed priorities and the stack resource policy under EDF.

/// One thread. Times are whole units.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Execution of each job.
    pub wcet: u64,
    /// Relative deadline.
    pub deadline: u64,
    /// Level under fixed priorities; higher is more urgent.
    pub level: i64,
    /// Critical sections: mutex, work before it, work inside. Properly nested, within the execution.
    pub sections: Vec<(usize, u64, u64)>,
    /// Nominal release and actual one (release jitter), ascending.
    pub releases: Vec<(u64, u64)>,
}

/// Scheduling policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Fixed priorities, immediate ceilings.
    Fixed,
    /// Earliest deadline first, stack resource policy.
    Edf,
}

/// Results of one thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Jobs that ended.
    pub jobs: u64,
    /// Jobs that ended after their deadline, or had not ended by it.
    pub misses: u64,
    /// Worst response time from the nominal release; `None`: no job ended.
    pub worst: Option<u64>,
    /// Preemptions of started jobs.
    pub preemptions: u64,
}

#[derive(Debug)]
struct Job {
    thread: usize,
    nominal: u64,
    deadline: u64,
    done: u64,
    started: bool,
    /// Sections entered.
    held: Vec<usize>,
}

struct State<'a> {
    threads: &'a [Thread],
    policy: Policy,
    /// Highest level, or shortest deadline as a level, of the users of each mutex.
    ceilings: Vec<i64>,
}

/// Runs until all jobs are complete, or until `horizon`.
#[must_use]
pub fn run(threads: &[Thread], policy: Policy, horizon: u64) -> Vec<Outcome> {
    let state = State { threads, policy, ceilings: ceilings(threads, policy) };
    let mut outcomes = vec![Outcome::default(); threads.len()];
    let mut next = vec![0usize; threads.len()];
    let mut jobs: Vec<Job> = Vec::new();
    let mut last: Option<usize> = None;
    let mut now = 0;
    while now < horizon {
        for (at, thread) in threads.iter().enumerate() {
            while let Some((nominal, _)) = thread.releases.get(next[at]).filter(|(_, actual)| *actual <= now)
            {
                let deadline = nominal + thread.deadline;
                jobs.push(Job {
                    thread: at,
                    nominal: *nominal,
                    deadline,
                    done: 0,
                    started: false,
                    held: vec![],
                });
                next[at] += 1;
            }
        }
        let releases = threads.iter().zip(&next).filter_map(|(thread, next)| thread.releases.get(*next));
        let release = releases.map(|(_, actual)| *actual).min();
        let Some(chosen) = state.choose(&jobs) else {
            let Some(release) = release else { break };
            now = release;
            last = None;
            continue;
        };
        if last.is_some_and(|last| last != chosen && last < jobs.len() && jobs[last].started) {
            outcomes[jobs[last.unwrap_or(chosen)].thread].preemptions += 1;
        }
        let length = state.step(&mut jobs[chosen]).min(release.map_or(u64::MAX, |release| release - now));
        jobs[chosen].done += length;
        now += length;
        state.leave(&mut jobs[chosen]);
        last = Some(chosen);
        if jobs[chosen].done >= threads[jobs[chosen].thread].wcet {
            let job = jobs.remove(chosen);
            last = None;
            let outcome = &mut outcomes[job.thread];
            outcome.jobs += 1;
            outcome.misses += u64::from(now > job.deadline);
            outcome.worst = outcome.worst.max(Some(now - job.nominal));
        }
    }
    for job in jobs.iter().filter(|job| job.deadline <= now) {
        outcomes[job.thread].misses += 1;
    }
    outcomes
}

fn rank(thread: &Thread, policy: Policy) -> i64 {
    match policy {
        Policy::Fixed => thread.level,
        Policy::Edf => -(thread.deadline as i64),
    }
}

fn ceilings(threads: &[Thread], policy: Policy) -> Vec<i64> {
    let count =
        threads.iter().flat_map(|thread| &thread.sections).map(|section| section.0 + 1).max().unwrap_or(0);
    let mut ceilings = vec![i64::MIN; count];
    for thread in threads {
        for (mutex, ..) in &thread.sections {
            ceilings[*mutex] = ceilings[*mutex].max(rank(thread, policy));
        }
    }
    ceilings
}

impl State<'_> {
    /// Ceiling of the mutexes that a job holds.
    fn held(&self, job: &Job) -> i64 {
        let sections = &self.threads[job.thread].sections;
        job.held.iter().map(|at| self.ceilings[sections[*at].0]).max().unwrap_or(i64::MIN)
    }

    /// Index of the job to run.
    fn choose(&self, jobs: &[Job]) -> Option<usize> {
        let order = |job: &Job| std::cmp::Reverse((job.nominal, job.thread));
        match self.policy {
            Policy::Fixed => {
                let active = |job: &Job| self.threads[job.thread].level.max(self.held(job));
                let key = |job: &Job| (active(job), !job.held.is_empty(), order(job));
                (0..jobs.len()).max_by_key(|at| key(&jobs[*at]))
            }
            Policy::Edf => {
                let ceiling = jobs.iter().map(|job| self.held(job)).max().unwrap_or(i64::MIN);
                let may = |job: &Job| job.started || rank(&self.threads[job.thread], self.policy) > ceiling;
                let key = |job: &Job| (std::cmp::Reverse(job.deadline), !job.held.is_empty(), order(job));
                (0..jobs.len()).filter(|at| may(&jobs[*at])).max_by_key(|at| key(&jobs[*at]))
            }
        }
    }

    /// Locks the mutexes at the job's position; returns the work until its next lock, unlock or end.
    fn step(&self, job: &mut Job) -> u64 {
        let thread = &self.threads[job.thread];
        job.started = true;
        for (at, (_, start, _)) in thread.sections.iter().enumerate() {
            if *start == job.done && !job.held.contains(&at) {
                job.held.push(at);
            }
        }
        let edges = thread.sections.iter().flat_map(|(_, start, length)| [*start, start + length]);
        edges.chain([thread.wcet]).filter(|edge| *edge > job.done).min().map_or(0, |edge| edge - job.done)
    }

    fn leave(&self, job: &mut Job) {
        let sections = &self.threads[job.thread].sections;
        let done = job.done;
        job.held.retain(|at| sections[*at].1 + sections[*at].2 > done);
    }
}

#[cfg(test)]
#[path = "simulate_tests.rs"]
mod tests;

//! An application, observed from outside: period, response times and blocking of each thread.
//!
//! Input: a stream of [`Activation`]s (from a waking to the next block). Output: a [`Task`] for each thread. The
//! application needs no change. One thing is inferred: the *main wait* of a thread, the place where it waits for its
//! next job (a timer, a semaphore, a socket). A wait anywhere else is within a job, and a source of blocking.
//! `main_wait` infers the main wait, `log` splits activations into jobs, `point` names a place, `places` numbers them,
//! `paused` decides whether its end proves a release, `sums` adds up, `misses` counts overruns, `candidates` computes the
//! effect of another main wait and the time outside jobs, `job` is a job with its activations, `parts` splits its time, and
//! `task` is the result.
//!
//! Memory is bounded: [`Tasks`] keeps a limited number of threads; one that has ended, or has been idle for long, is replaced by
//! a new one (`room`), and all others are added up as [`OTHERS`] (`others`).

mod advice;
mod candidates;
mod chain;
mod cycles;
mod deadlines;
mod ends;
mod faulting;
mod grid;
mod job;
mod log;
mod main_wait;
mod misses;
mod missing;
mod others;
mod paces;
mod part;
mod parts;
mod paused;
mod places;
mod point;
mod room;
mod runs;
mod several;
mod sites;
mod slope;
mod spinning;
mod sums;
mod task;
mod unfinished;
mod usual;
mod waiting;
mod windows;

pub use chain::Followed;
pub use deadlines::{AppliedDeadline, Deadlines, Limit};
pub use ends::OtherEnd;
pub use faulting::{FaultPlace, Faulting};
pub use job::{Backlog, Job, Standing, StartDelay};
pub use others::OTHERS;
pub use parts::{counted_cause, explanation, is_coarse, is_same_cause, main_cause, Part, What};
pub use point::{Class, Place};
pub use task::{
    policy as policy_name, Blocking, LateCause, OtherSpans, OtherStart, Period, SeveralJobs, SeveralWaits,
    Span, Task,
};
pub use unfinished::{State, Unfinished};
pub use waiting::Wait;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point, Who};
use chain::Chain;
use log::Log;
use others::Others;

/// The threads of a recording.
pub struct Tasks {
    limit: usize,
    deadlines: Arc<Deadlines>,
    begins_at: Option<Arc<str>>,
    /// The thread of a program that was held before its first instruction.
    held: Option<Tid>,
    name: fn(Point) -> Option<&'static str>,
    logs: BTreeMap<Tid, Log>,
    /// Threads whose id was reused, oldest first.
    ended: Vec<Log>,
    others: Others,
    not_kept: u64,
    /// The last time when there was no room for another thread.
    looked: Option<Mono>,
    /// Jobs longer than this are requested; `None`: none.
    least: Option<Ns>,
    jobs: Vec<Job>,
    chain: Option<Chain>,
    /// The threads that each thread wakes.
    wakes: BTreeMap<Tid, Vec<Tid>>,
}

impl Tasks {
    /// Keeps at most `limit` threads; `name` returns the name of a system call.
    #[must_use]
    pub fn new(limit: usize, deadline: Option<Ns>, name: fn(Point) -> Option<&'static str>) -> Tasks {
        Tasks {
            limit,
            deadlines: Arc::new(Deadlines::of_all(deadline)),
            name,
            logs: BTreeMap::new(),
            ended: Vec::new(),
            others: Others::default(),
            not_kept: 0,
            looked: None,
            begins_at: None,
            held: None,
            least: None,
            jobs: Vec::new(),
            chain: None,
            wakes: BTreeMap::new(),
        }
    }

    /// Also follows a chain of threads that wake each other, given by patterns of their names. Fewer than two: no
    /// chain.
    #[must_use]
    pub fn with_chain(self, names: &[String]) -> Tasks {
        Tasks { chain: (names.len() > 1).then(|| Chain::new(names)), ..self }
    }

    /// Sets the deadlines.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Tasks {
        Tasks { deadlines: Arc::new(deadlines), ..self }
    }

    /// Jobs start where a wait ends in a place whose name matches this shell pattern.
    #[must_use]
    pub fn with_activation(self, pattern: Option<&str>) -> Tasks {
        Tasks { begins_at: pattern.map(Arc::from), ..self }
    }

    /// `tid`: the thread of a program that was held before its first instruction, if there is one.
    #[must_use]
    pub fn with_held(self, tid: Option<Tid>) -> Tasks {
        Tasks { held: tid, ..self }
    }

    /// From now on [`Tasks::take_jobs`] returns the jobs longer than `least`, and the longest of each thread.
    pub fn ask_for_jobs(&mut self, least: Ns) {
        self.least = Some(least);
    }

    /// The requested jobs that ended since the last call.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Adds one activation; those of one thread must be in time order. Returns whether it blocked in a place that is
    /// new for its thread.
    pub fn add(&mut self, activation: &Activation) -> bool {
        let since = self.logs.get(&activation.thread.tid).map(|log| log.at_work_since(activation));
        let (fresh, waker) = self.add_one(activation);
        let tid = activation.thread.tid;
        if activation.point.syscall == Point::EXITS {
            self.looked = None; // there may be room
        }
        if let Some(asker) = self.logs.get_mut(&tid).and_then(Log::take_asker) {
            self.asks(asker, tid);
        }
        if let Some(waker) = waker.filter(|_| self.wakes.len() < self.limit) {
            self.wakes.entry(waker).or_default().push(tid);
            self.first_wakes(waker, tid);
        }
        if since.is_none() {
            self.first_ends(tid);
        }
        // A waker may have queued a second job while the woken thread was running.
        for woken in self.wakes.get(&tid).into_iter().flatten() {
            let log = self.logs.get_mut(woken);
            let since = since.unwrap_or(activation.switched_in);
            log.into_iter().for_each(|log| log.releaser_ran(since, activation.blocked));
        }
        fresh
    }

    fn add_one(&mut self, activation: &Activation) -> (bool, Option<Tid>) {
        let tid = activation.thread.tid;
        if self.logs.get(&tid).is_some_and(|log| log.is_of_another(activation)) {
            let ended = self.logs.remove(&tid).filter(|log| !log.is_empty()).map(Log::ended);
            self.ended.extend(ended);
            let too_many =
                (self.logs.len() + self.ended.len()).saturating_sub(self.limit).min(self.ended.len());
            for log in self.ended.drain(..too_many) {
                log.report(self.name).into_iter().for_each(|task| self.others.fold(task));
            }
        }
        if let Some(log) = self.logs.get_mut(&tid) {
            log.named(activation, &self.deadlines);
            let found = add(log, activation, self.name, self.least, &mut self.jobs);
            while let Some(figures) = log.oldest_figures() {
                self.others.fold(figures);
            }
            self.follow(tid);
            return found;
        }
        if self.logs.len() >= self.limit && !self.make_room(activation.blocked) {
            self.others.woken(activation);
            self.not_kept += 1;
            return (false, None);
        }
        let log = self.logs.entry(tid).or_insert_with(|| Log::new(None, self.begins_at.clone()));
        log.named(activation, &self.deadlines);
        log.ask_for_turns(self.chain.is_some());
        if self.held.take_if(|held| *held == tid).is_some() {
            log.starts();
        }
        let found = add(log, activation, self.name, self.least, &mut self.jobs);
        self.follow(tid);
        found
    }

    /// `waker` woke `tid` for the first time. It works for it if both are threads of one process, or each wakes the other.
    fn first_wakes(&mut self, waker: Tid, tid: Tid) {
        let each_other = self.wakes.get(&tid).is_some_and(|woken| woken.contains(&waker));
        if each_other {
            self.works_for(tid, waker);
        }
        if each_other || self.is_one_process(waker, tid) {
            self.works_for(waker, tid);
        }
    }

    /// The first activation of `tid` ended, so its process is known. It may have woken threads of it before.
    fn first_ends(&mut self, tid: Tid) {
        for woken in self.wakes.get(&tid).cloned().unwrap_or_default() {
            if self.is_one_process(tid, woken) {
                self.works_for(tid, woken);
            }
        }
    }

    /// `asker` woke `tid` from a wait for something to do: what `tid` wakes, and others in its turn, may be an answer.
    fn asks(&mut self, asker: Tid, tid: Tid) {
        let mut asked = self.logs.get(&tid).map(|log| log.asks().to_vec()).unwrap_or_default();
        asked.push(tid);
        let asking = |(of, log): &(&Tid, &mut Log)| **of == asker || log.asks().contains(&asker);
        self.logs.iter_mut().filter(asking).for_each(|(_, log)| log.also_asks(&asked));
    }

    fn works_for(&mut self, one: Tid, other: Tid) {
        if let Some(log) = self.logs.get_mut(&other) {
            log.is_answered_by(one);
        }
    }

    fn is_one_process(&self, one: Tid, other: Tid) -> bool {
        let process = |tid| self.logs.get(&tid).and_then(Log::process);
        process(one).is_some_and(|of_one| process(other) == Some(of_one))
    }

    /// Adds the finished jobs of `tid` to the chain.
    fn follow(&mut self, tid: Tid) {
        let (Some(chain), Some(log)) = (&mut self.chain, self.logs.get_mut(&tid)) else { return };
        let (comm, finished) = log.take_finished();
        let deadline = self.deadlines.while_running(&chain.name());
        chain.blocked(&comm, tid, log.last());
        chain.add(&comm, &finished, deadline);
    }

    /// An activation in progress at the end of the recording: its missing times are set to the end.
    pub fn goes_on(&mut self, activation: &Activation, state: State) {
        let tid = activation.thread.tid;
        let known = self.logs.get(&tid);
        if known.is_some_and(|log| log.is_of_another(activation))
            || (known.is_none() && self.logs.len() >= self.limit)
        {
            self.others.woken(activation);
            return;
        }
        let log = self.logs.entry(tid).or_insert_with(|| Log::new(None, self.begins_at.clone()));
        log.named(activation, &self.deadlines);
        log.goes_on(activation, state);
    }

    /// `ran`: CPU time of a thread as counted by the kernel. A thread without an activation never blocked: it is always
    /// busy.
    pub fn ran(&mut self, who: Who, process: Tid, policy: u8, ran: Ns) {
        if ran > Ns::ZERO && !self.logs.contains_key(&who.tid) && self.logs.len() < self.limit {
            let deadline = self.deadlines.while_running(&who.comm.text());
            let log = self.logs.entry(who.tid).or_insert_with(|| Log::new(deadline, self.begins_at.clone()));
            log.never_waited(who, process, policy, ran);
        }
    }

    /// The recording ended at `end`. `blocks`: number of times a thread has blocked as counted by the kernel, modulo
    /// 2^16; `None` if it has ended.
    pub fn end(&mut self, end: Mono, blocks: impl Fn(Tid) -> Option<u16>) {
        self.end_releasers(end, &blocks);
        for (&tid, log) in &mut self.logs {
            log.end(end, self.name, || blocks(tid));
            self.jobs.extend(log.take_last_jobs());
        }
        let tids: Vec<Tid> = self.logs.keys().copied().filter(|_| self.chain.is_some()).collect();
        tids.into_iter().for_each(|tid| self.follow(tid));
        self.chain.iter_mut().for_each(|chain| chain.ends(end));
    }

    /// Accounts for the time of releasers after their last recorded activation.
    fn end_releasers(&mut self, end: Mono, blocks: &impl Fn(Tid) -> Option<u16>) {
        for (releaser, woken) in &self.wakes {
            let since = self.logs.get(releaser).and_then(|log| log.at_work_until_the_end(blocks(*releaser)));
            for tid in woken.iter().filter(|_| since.is_some()) {
                let log = self.logs.get_mut(tid);
                log.into_iter().zip(since).for_each(|(log, since)| log.releaser_ran(since, end));
            }
        }
    }

    /// Activations of threads beyond the limit so far: only their wake-ups are counted.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// All threads, the one with the largest latency first, with all [`OTHERS`] as one.
    #[must_use]
    pub fn report(&self) -> Vec<Task> {
        self.report_while(&[], Mono(0))
    }

    /// [`Tasks::report`] with threads that still wait for a CPU at `end`: the wait so far counts as a wake-up.
    #[must_use]
    pub fn report_while(&self, waits: &[Wait], end: Mono) -> Vec<Task> {
        let active = self.logs.values().chain(&self.ended).filter(|log| !log.is_empty());
        let mut tasks: Vec<Task> = active.flat_map(|log| log.report(self.name)).collect();
        tasks.extend(self.others.report());
        let of_chain = |chain: &Chain| chain.report(self.deadlines.while_running(&chain.name()), &tasks);
        let of_chain = self.chain.as_ref().map(of_chain);
        tasks.extend(of_chain);
        for wait in waits {
            let deadline = self.deadlines.while_running(&wait.thread.comm);
            wait.add_to_tasks(&mut tasks, deadline, end);
        }
        self.deadlines.tell(&mut tasks);
        tasks.sort_by_key(|task| (std::cmp::Reverse(task.largest()), task.thread.tid));
        tasks
    }
}

fn add(
    log: &mut Log,
    activation: &Activation,
    name: fn(Point) -> Option<&'static str>,
    least: Option<Ns>,
    jobs: &mut Vec<Job>,
) -> (bool, Option<Tid>) {
    log.ask_for_jobs(least);
    let found = log.add(activation, name);
    if least.is_some() {
        jobs.extend(log.take_jobs());
    }
    found
}

#[cfg(test)]
mod tests;

//! What an application does, seen from outside: each thread's period, response times, and what it waited for.
//!
//! In: one [`Activation`] after another (from a waking to the next block). Out: a [`Task`] for each thread. Nothing in
//! the application is changed or asked. The one inference: a thread has a *main wait*, the place where it waits for its
//! next turn (a timer, a semaphore, a socket); what ends anywhere else is an interruption of the same turn, and the
//! place is an unexpected source of blocking. `turn` finds the main wait, `point` says what a place is, `places` numbers
//! them, `sums` adds up, `misses` counts overruns, `candidates` knows what another main wait would mean
//! and what is in no turn, `job` is a turn with all that it was made of and `parts` what that was, and `task` is what is
//! told.
//!
//! Memory is bounded: [`Tasks`] keeps so many threads apart; a thread that was silent for long makes room for a new one, and
//! what is not kept apart is added up as [`OTHERS`] (`others`).

mod candidates;
mod chain;
mod cycles;
mod deadlines;
mod faulting;
mod job;
mod main_wait;
mod misses;
mod missing;
mod others;
mod paces;
mod part;
mod parts;
mod places;
mod point;
mod several;
mod sites;
mod sums;
mod task;
mod turn;
mod unfinished;
mod waiting;

pub use chain::Followed;
pub use deadlines::{Deadlines, HeldTo, Limit};
pub use faulting::{FaultPlace, Faulting};
pub use job::{Backlog, Job};
pub use others::OTHERS;
pub use parts::{explanation, main_cause, Part, What};
pub use point::{Class, Place};
pub use task::{
    policy as policy_name, Blocking, LateCause, OtherTurns, Period, SeveralJobs, SeveralWaits, Span, Task,
};
pub use unfinished::{State, Unfinished};
pub use waiting::Wait;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point, Who};
use chain::Chain;
use others::Others;
use turn::Log;

/// A thread that did nothing for so long makes room for another one: most of them have ended.
const SILENT: Ns = Ns::from_ms(10_000);
/// So often such a thread is looked for at most: in vain, while all are busy.
const LOOK_EVERY: Ns = Ns::from_ms(1_000);

/// The threads of a recording.
pub struct Tasks {
    limit: usize,
    deadlines: Deadlines,
    begins_at: Option<Arc<str>>,
    name: fn(Point) -> Option<&'static str>,
    logs: BTreeMap<Tid, Log>,
    /// Threads whose id another one has by now, the first of them first.
    ended: Vec<Log>,
    others: Others,
    not_kept: u64,
    looked: Option<Mono>,
    /// Jobs are asked for from this total on; `None`: none is.
    least: Option<Ns>,
    jobs: Vec<Job>,
    chain: Option<Chain>,
    /// Which threads each one wakes.
    wakes: BTreeMap<Tid, Vec<Tid>>,
}

impl Tasks {
    /// Keeps at most `limit` threads apart; `name` names system calls by their number.
    #[must_use]
    pub fn new(limit: usize, deadline: Option<Ns>, name: fn(Point) -> Option<&'static str>) -> Tasks {
        Tasks {
            limit,
            deadlines: Deadlines::of_all(deadline),
            name,
            logs: BTreeMap::new(),
            ended: Vec::new(),
            others: Others::default(),
            not_kept: 0,
            looked: None,
            begins_at: None,
            least: None,
            jobs: Vec::new(),
            chain: None,
            wakes: BTreeMap::new(),
        }
    }

    /// The same, which also follows a chain of threads that wake each other, by patterns for their names. Fewer than two: none.
    #[must_use]
    pub fn with_chain(self, names: &[String]) -> Tasks {
        Tasks { chain: (names.len() > 1).then(|| Chain::new(names)), ..self }
    }

    /// The same with a deadline for each thread.
    #[must_use]
    pub fn with_deadlines(self, deadlines: Deadlines) -> Tasks {
        Tasks { deadlines, ..self }
    }

    /// The same with jobs that begin where a wait in a place ends whose name fits this pattern of the shell.
    #[must_use]
    pub fn with_activation(self, pattern: Option<&str>) -> Tasks {
        Tasks { begins_at: pattern.map(Arc::from), ..self }
    }

    /// From now on [`Tasks::take_jobs`] has the jobs that are longer than `least`, and the longest of each thread.
    pub fn ask_for_jobs(&mut self, least: Ns) {
        self.least = Some(least);
    }

    /// Jobs that ended since the last call and were asked for.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        std::mem::take(&mut self.jobs)
    }

    /// Adds one activation; those of one thread come in the order of time. True when it blocked in a place that is new
    /// of its thread.
    pub fn add(&mut self, activation: &Activation) -> bool {
        let since = self.logs.get(&activation.thread.tid).map(|log| log.at_work_since(activation));
        let (fresh, waker) = self.add_one(activation);
        let tid = activation.thread.tid;
        if let Some(waker) = waker.filter(|_| self.wakes.len() < self.limit) {
            self.wakes.entry(waker).or_default().push(tid);
        }
        // Who wakes another one may have queued a second job for it while it was at work.
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
            let ended = self.logs.remove(&tid).filter(|log| !log.is_empty());
            self.ended.extend(ended);
            let too_many =
                (self.logs.len() + self.ended.len()).saturating_sub(self.limit).min(self.ended.len());
            for log in self.ended.drain(..too_many) {
                self.others.fold(log.report(self.name));
            }
        }
        if let Some(log) = self.logs.get_mut(&tid) {
            log.named(activation, &self.deadlines);
            let found = add(log, activation, self.name, self.least, &mut self.jobs);
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
        let found = add(log, activation, self.name, self.least, &mut self.jobs);
        self.follow(tid);
        found
    }

    /// Turns of `tid` that are over join the chain.
    fn follow(&mut self, tid: Tid) {
        let (Some(chain), Some(log)) = (&mut self.chain, self.logs.get_mut(&tid)) else { return };
        let (comm, turns) = log.take_turns();
        let deadline = self.deadlines.while_running(&chain.name());
        chain.blocked(&comm, tid, log.last());
        chain.add(&comm, &turns, deadline);
    }

    /// The thread that has been silent for the longest time joins the others.
    fn make_room(&mut self, now: Mono) -> bool {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY) {
            return false;
        }
        let silent = self.logs.iter().min_by_key(|(_, log)| log.last());
        let silent = silent.filter(|(_, log)| now.since(log.last()) >= SILENT).map(|(&tid, _)| tid);
        let Some(mut log) = silent.and_then(|tid| self.logs.remove(&tid)) else {
            self.looked = Some(now);
            return false;
        };
        log.make_room(now, self.name);
        if !log.is_empty() {
            self.others.fold(log.report(self.name));
        }
        true
    }

    /// An activation that goes on when the recording ends: its times that are still to come are those of now.
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

    /// By the kernel's count a thread had so much time on a CPU. One that has no activation all the same neither blocked
    /// nor was it woken: a program that is always busy.
    pub fn ran(&mut self, who: Who, process: Tid, policy: u8, ran: Ns) {
        if ran > Ns::ZERO && !self.logs.contains_key(&who.tid) && self.logs.len() < self.limit {
            let deadline = self.deadlines.while_running(&who.comm.text());
            let log = self.logs.entry(who.tid).or_insert_with(|| Log::new(deadline, self.begins_at.clone()));
            log.never_waited(who, process, policy, ran);
        }
    }

    /// The recording ended at `end`, and no activation comes any more. `blocks`: how often a thread has blocked by the
    /// kernel's own count, modulo 2^16; `None` for one that has ended.
    pub fn end(&mut self, end: Mono, blocks: impl Fn(Tid) -> Option<u16>) {
        self.end_releasers(end, &blocks);
        for (&tid, log) in &mut self.logs {
            log.end(end, self.name, || blocks(tid));
            self.jobs.extend(log.take_jobs());
        }
        let tids: Vec<Tid> = self.logs.keys().copied().filter(|_| self.chain.is_some()).collect();
        tids.into_iter().for_each(|tid| self.follow(tid));
        self.chain.iter_mut().for_each(|chain| chain.ends(end));
    }

    /// What releasers did after their last activation that was recorded.
    fn end_releasers(&mut self, end: Mono, blocks: &impl Fn(Tid) -> Option<u16>) {
        for (releaser, woken) in &self.wakes {
            let since = self.logs.get(releaser).and_then(|log| log.at_work_until_the_end(blocks(*releaser)));
            for tid in woken.iter().filter(|_| since.is_some()) {
                let log = self.logs.get_mut(tid);
                log.into_iter().zip(since).for_each(|(log, since)| log.releaser_ran(since, end));
            }
        }
    }

    /// Counts anew. What is known of each thread stays; a thread that did nothing since the last call is forgotten.
    pub fn begin_window(&mut self) {
        self.least = self.least.map(|_| Ns::ZERO); // of the next one, none is known yet
        self.others = Others::default();
        self.ended.clear();
        self.logs.retain(|_, log| log.begin_window(self.name));
        let logs = &self.logs;
        self.wakes.retain(|_, woken| {
            woken.retain(|tid| logs.contains_key(tid));
            !woken.is_empty()
        });
    }

    /// Activations so far of threads for which there was no room: nothing but their wake-ups is in any figure.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.not_kept
    }

    /// All threads, the one with the largest latency first, with all [`OTHERS`] as one.
    #[must_use]
    pub fn report(&self) -> Vec<Task> {
        self.report_while(&[], Mono(0))
    }

    /// The same while some threads wait for a CPU, at `end`: the wait so far counts as a wake-up.
    #[must_use]
    pub fn report_while(&self, waits: &[Wait], end: Mono) -> Vec<Task> {
        let active = self.logs.values().chain(&self.ended).filter(|log| !log.is_empty());
        let mut tasks: Vec<Task> = active.map(|log| log.report(self.name)).collect();
        tasks.extend(self.others.report());
        let of_chain = |chain: &Chain| chain.report(self.deadlines.while_running(&chain.name()));
        tasks.extend(self.chain.as_ref().map(of_chain));
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

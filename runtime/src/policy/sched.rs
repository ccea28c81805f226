//! States and switches: the running thread, its CPU time, and the time of the next decision.
//!
//! The running thread is in no list. It keeps the processor until it waits, yields, or a *more* urgent thread is ready; when
//! preempted it goes before its equals, as POSIX demands.

use super::lists::ReadyQueue;
use super::locks::Mutex;
use super::record::{Recorder, What};
use super::thread::{Account, Params, Policy, Release, State, Thread, Wait};
use super::timers::{Reason, Timers};
use super::waits::{Barrier, Condition, Semaphore};
use super::{Outcome, Refusal, Step, ThreadId, Urgency, NEVER, NONE};

/// The scheduler of one processor.
#[derive(Debug)]
pub struct Scheduler {
    pub(super) threads: Vec<Thread>,
    pub(super) free: Vec<u32>,
    pub(super) ready: ReadyQueue,
    pub(super) timers: Timers,
    pub(super) current: u32,
    pub(super) charged: u64,
    pub(super) mutexes: Vec<Mutex>,
    pub(super) conditions: Vec<Condition>,
    pub(super) semaphores: Vec<Semaphore>,
    pub(super) barriers: Vec<Barrier>,
    pub(super) recorder: Option<Recorder>,
    pub(super) records: bool,
    live: usize,
}

impl Scheduler {
    /// Room for `capacity` threads (1 to 65,536). The time starts at `now`.
    #[must_use]
    pub fn new(capacity: usize, now: u64) -> Scheduler {
        let capacity = capacity.clamp(1, 65_536);
        Scheduler {
            threads: (0..capacity).map(|_| Thread::unused(0)).collect(),
            free: (0..capacity as u32).rev().collect(),
            ready: ReadyQueue::default(),
            timers: Timers::new(capacity),
            current: NONE,
            charged: now,
            mutexes: Vec::new(),
            conditions: Vec::new(),
            semaphores: Vec::new(),
            barriers: Vec::new(),
            recorder: None,
            records: false,
            live: 0,
        }
    }

    /// The thread on the processor; `None`: idle.
    #[must_use]
    #[inline]
    pub fn current(&self) -> Option<ThreadId> {
        (self.current != NONE).then_some(ThreadId(self.current))
    }

    /// Threads that have not ended.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live
    }

    /// State of a thread.
    #[must_use]
    pub fn state(&self, id: ThreadId) -> State {
        self.threads[id.0 as usize].state
    }

    /// The urgency that orders a thread in the lists, including inheritance.
    #[must_use]
    pub fn urgency(&self, id: ThreadId) -> Urgency {
        self.threads[id.0 as usize].urgency
    }

    /// Priority set by the program.
    #[must_use]
    pub fn base_priority(&self, id: ThreadId) -> u8 {
        self.threads[id.0 as usize].base
    }

    /// How the last wait of this thread ended.
    #[must_use]
    pub fn outcome(&self, id: ThreadId) -> Outcome {
        self.threads[id.0 as usize].outcome
    }

    /// Statistics of a thread, up to the last charge.
    #[must_use]
    pub fn account(&self, id: ThreadId) -> Account {
        self.threads[id.0 as usize].account
    }

    /// Number of times that this index of the table was assigned to a thread: distinguishes a thread from its predecessors.
    #[must_use]
    pub fn generation(&self, id: ThreadId) -> u32 {
        self.threads[id.0 as usize].generation
    }

    /// Creates a thread, ready after its equals or waiting for its start.
    ///
    /// # Errors
    /// [`Refusal::TooManyThreads`], [`Refusal::Invalid`].
    pub fn spawn(&mut self, now: u64, params: &Params) -> Result<ThreadId, Refusal> {
        let server = params.check(now)?;
        let id = self.free.pop().ok_or(Refusal::TooManyThreads)?;
        let generation = self.threads[id as usize].generation.wrapping_add(1);
        let thread = &mut self.threads[id as usize];
        *thread = Thread::unused(generation);
        thread.policy = params.policy;
        thread.base = params.priority;
        thread.release = params.release;
        thread.relative_deadline = params.deadline.unwrap_or(NEVER);
        thread.budget = params.budget;
        thread.server = server;
        if let Policy::RoundRobin { quantum } = params.policy {
            thread.slice = quantum;
        }
        self.live += 1;
        let start = params.start.unwrap_or(now);
        thread.next_release = start;
        if matches!(params.release, Release::Sporadic { .. }) {
            thread.state = State::Blocked(Wait::Release);
        } else if start > now {
            thread.state = State::Blocked(Wait::Release);
            self.timers.set(id, Reason::Wake, start);
        } else {
            self.begin_job(id, start, now);
            self.make_ready(id, now, Outcome::Done);
        }
        if self.threads[id as usize].state != State::Ready {
            self.recompute(id, now);
        }
        Ok(ThreadId(id))
    }

    /// The running thread ends; then comes [`Scheduler::reschedule`]. Mutexes that it holds are unlocked and counted.
    pub fn exit(&mut self, now: u64) {
        self.charge(now);
        let id = self.current;
        let thread = &self.threads[id as usize];
        let counts = match thread.release {
            Release::Aperiodic => !thread.has_own_jobs,
            // What it began after its last `next_job` may not be a job. A late one counts: its miss was or would be reported.
            Release::Periodic { .. } | Release::Sporadic { .. } => thread.missed || now > thread.deadline_at,
        };
        if counts {
            self.end_job(id, now);
        }
        while self.threads[id as usize].held != NONE {
            self.threads[id as usize].account.abandoned += 1;
            let mutex = self.threads[id as usize].held;
            self.release_mutex(id, mutex, now);
        }
        for reason in [Reason::Wake, Reason::Deadline, Reason::Replenish] {
            self.timers.clear(id, reason);
        }
        self.threads[id as usize].state = State::Ended;
        self.record(id, now, What::Ends);
        self.current = NONE;
        self.live -= 1;
        self.wake_joiners(id, now);
    }

    /// Frees the index of an ended thread.
    ///
    /// # Errors
    /// [`Refusal::Busy`]: it has not ended.
    pub fn reap(&mut self, id: ThreadId) -> Result<(), Refusal> {
        if self.threads[id.0 as usize].state != State::Ended {
            return Err(Refusal::Busy);
        }
        self.threads[id.0 as usize].state = State::Unused;
        self.threads[id.0 as usize].server = None;
        self.free.push(id.0);
        Ok(())
    }

    /// The running thread goes after its equals.
    #[inline]
    pub fn yield_now(&mut self, now: u64) {
        self.charge(now);
        let id = self.current;
        if id != NONE {
            self.current = NONE;
            self.threads[id as usize].state = State::Ready;
            self.ready.insert_last(&mut self.threads, id);
        }
    }

    /// Makes the running thread wait until `until` (absolute; [`NEVER`]: until it is woken), or for the object whose list the
    /// caller has put it into.
    pub(super) fn block(&mut self, wait: Wait, until: u64, now: u64) {
        self.charge(now);
        let id = self.current;
        self.threads[id as usize].state = State::Blocked(wait);
        self.record(id, now, What::Waits(wait));
        self.current = NONE;
        if until != NEVER {
            self.timers.set(id, Reason::Wake, until);
        }
    }

    /// Waits for a time; returns at once if it has passed.
    pub fn sleep_until(&mut self, until: u64, now: u64) -> Step {
        if until <= now {
            return Step::Go;
        }
        self.block(Wait::Sleep, until, now);
        Step::Wait
    }

    /// Waits until [`Scheduler::wake`], or the time.
    pub fn wait_io(&mut self, until: u64, now: u64) {
        self.block(Wait::Io, until, now);
    }

    /// Waits until [`Scheduler::wake`].
    pub fn suspend(&mut self, now: u64) {
        self.block(Wait::Suspended, NEVER, now);
    }

    /// Ends a wait for the broker or for `resume`. False: the thread does not wait for that.
    pub fn wake(&mut self, id: ThreadId, now: u64) -> bool {
        match self.threads[id.0 as usize].state {
            State::Blocked(Wait::Io | Wait::Suspended) => {
                self.make_ready(id.0, now, Outcome::Done);
                true
            }
            _ => false,
        }
    }

    /// Makes it ready, after its equals.
    #[inline]
    pub(super) fn make_ready(&mut self, id: u32, now: u64, outcome: Outcome) {
        self.timers.clear(id, Reason::Wake);
        self.record_ready(id, now, outcome);
        let thread = &mut self.threads[id as usize];
        thread.outcome = outcome;
        thread.state = State::Ready;
        if let Some(server) = &mut thread.server {
            server.activate(now);
        }
        self.recompute(id, now);
        self.ready.insert_last(&mut self.threads, id);
    }

    /// Selects the running thread from `now` on. `false`: the present thread continues, or none can run. `true`: the thread
    /// that is now [`Scheduler::current`] was selected; after a yield or a wait that may be the same as before.
    #[inline]
    pub fn reschedule(&mut self, now: u64) -> bool {
        let Some(top) = self.ready.top() else { return false };
        let old = self.current;
        if old != NONE {
            if !self.threads[top as usize].urgency.before(self.threads[old as usize].urgency) {
                return false;
            }
            self.charge(now);
            self.threads[old as usize].state = State::Ready;
            self.threads[old as usize].account.preemptions += 1;
            self.ready.insert_first(&mut self.threads, old);
        }
        // `top` is still the most urgent: charging changes no other thread.
        self.ready.remove(&mut self.threads, top);
        let thread = &mut self.threads[top as usize];
        thread.state = State::Running;
        thread.account.dispatches += 1;
        self.current = top;
        self.charged = now;
        self.record(top, now, What::Runs);
        true
    }

    /// Whether [`Scheduler::reschedule`] would switch: avoids calling it for every unlock.
    #[must_use]
    #[inline]
    pub fn must_switch(&self) -> bool {
        match (self.ready.top(), self.current) {
            (None, _) => false,
            (Some(_), NONE) => true,
            (Some(top), current) => {
                self.threads[top as usize].urgency.before(self.threads[current as usize].urgency)
            }
        }
    }

    /// Whether no thread runs, or another should.
    #[must_use]
    #[inline]
    pub fn must_switch_or_idle(&self) -> bool {
        self.current == NONE || self.must_switch()
    }

    /// Charges the time since the last charge to the running thread.
    #[inline]
    pub(super) fn charge(&mut self, now: u64) {
        let ran = now.saturating_sub(self.charged);
        self.charged = self.charged.max(now);
        if self.current == NONE || ran == 0 {
            return;
        }
        let thread = &mut self.threads[self.current as usize];
        thread.account.cpu += ran;
        thread.job_cpu += ran;
        thread.slice = thread.slice.saturating_sub(ran);
        if thread.server.is_some() {
            self.charge_server(ran, now);
        }
    }

    fn charge_server(&mut self, ran: u64, now: u64) {
        let id = self.current;
        let thread = &mut self.threads[id as usize];
        let Some(server) = &mut thread.server else { return };
        // Without capacity it runs at its low priority, or at that of a mutex: nothing to charge.
        if server.available(now - ran) > 0 {
            thread.account.server_excess += server.consume(ran, now);
        }
        // If it is set, it stays: it may be due, and `tick` has not seen it.
        if self.timers.at(id, Reason::Replenish) == NEVER {
            let next = server.next_replenishment(now);
            self.timers.set(id, Reason::Replenish, next);
        }
        self.recompute(id, now);
    }

    /// Handles everything that has become due by `now`: timers, slices, budgets. Then comes [`Scheduler::reschedule`].
    pub fn tick(&mut self, now: u64) {
        let urgency = self.current().map(|id| self.urgency(id));
        self.charge(now);
        while let Some((id, reason, time)) = self.timers.pop(now) {
            match reason {
                Reason::Wake => self.wake_by_time(id, time, now),
                Reason::Deadline => self.deadline_passed(id, now),
                Reason::Replenish => self.replenished(id, now),
            }
        }
        let id = self.current;
        if id == NONE {
            return;
        }
        self.check_budget(id, now);
        // A server without capacity: after those of its low priority.
        let thread = &self.threads[id as usize];
        if self.current == id
            && thread.server.is_some()
            && urgency.is_some_and(|old| old.before(thread.urgency))
        {
            self.yield_now(now);
        }
        if let Policy::RoundRobin { quantum } = self.threads[id as usize].policy
            && self.threads[id as usize].slice == 0
        {
            self.threads[id as usize].slice = quantum;
            // A thread with more than its own priority continues: others wait for it.
            if self.current == id && self.threads[id as usize].urgency == self.threads[id as usize].own(now) {
                self.yield_now(now);
            }
        }
    }

    fn replenished(&mut self, id: u32, now: u64) {
        let next = match &self.threads[id as usize].server {
            Some(server) => server.next_replenishment(now),
            None => return,
        };
        self.timers.set(id, Reason::Replenish, next);
        self.requeue(id, now, true);
    }

    /// Time of the next call of [`Scheduler::tick`], if nothing happens before: absolute in ns, or [`NEVER`].
    #[must_use]
    #[inline]
    pub fn next_event(&self, now: u64) -> u64 {
        let mut next = self.timers.earliest();
        if self.current == NONE {
            return next;
        }
        let thread = &self.threads[self.current as usize];
        if matches!(thread.policy, Policy::RoundRobin { .. })
            && self.ready.any_as_urgent(&self.threads, thread.urgency)
        {
            next = next.min(self.charged.saturating_add(thread.slice));
        }
        if let Some(server) = &thread.server {
            let available = server.available(now);
            if available > 0 {
                next = next.min(self.charged.saturating_add(available));
            }
        }
        if let (Some(budget), false) = (thread.budget, thread.overrun) {
            next = next.min(self.charged.saturating_add(budget.ns.saturating_sub(thread.job_cpu)));
        }
        next
    }
}

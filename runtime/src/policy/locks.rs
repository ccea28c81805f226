//! Mutexes: priority inheritance, immediate ceiling, deadline floor (the stack resource policy for EDF), or nothing.
//!
//! - **Ceiling** (Sha, Rajkumar & Lehoczky 1990, immediate form): the owner runs at the ceiling, so that no user of the
//!   mutex preempts it; a thread is blocked at most once, by one section, before it starts.
//! - **Floor** (Burns, Gutierrez, Aldea Rivas & Gonzalez Harbour 2015): the same for EDF. The owner's absolute deadline becomes
//!   at most now + floor, where the floor is the shortest relative deadline of all users. It blocks exactly when Baker's stack
//!   resource policy does and needs no second order of preemption levels.
//! - **Inherit**: the owner is as urgent as the most urgent waiter, along chains of owners.
//!
//! An unlocked mutex is handed to the most urgent waiter directly. Until that one runs, a more urgent thread takes the mutex
//! back, as with the PI futexes of Linux: else one job could be blocked by the sections of several threads on one mutex, more
//! than the analysis of priority inheritance counts (Sha, Rajkumar & Lehoczky 1990). Decision 37 explains the choice of the floor.

use super::lists::List;
use super::thread::{State, Wait};
use super::timers::Reason;
use super::{Outcome, Refusal, Scheduler, Step, Urgency, NEVER, NONE, PRIORITIES};

/// A mutex's protocol against priority inversion.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Protocol {
    /// Nothing: inversion is unbounded.
    None,
    /// Priority inheritance.
    #[default]
    Inherit,
    /// Immediate ceiling: the highest priority of all users.
    Ceiling(u8),
    /// Deadline floor: the shortest relative deadline of all users, in ns.
    Floor(u64),
}

/// A mutex.
#[derive(Clone, Debug)]
pub(super) struct Mutex {
    pub(super) protocol: Protocol,
    pub(super) owner: u32,
    pub(super) waiters: List,
    pub(super) next_held: u32,
    /// Absolute deadline of the owner due to the floor.
    floor_at: u64,
    /// The hand-over to the present owner; `None`: it took the mutex itself.
    pub(super) handed: Option<Handed>,
    used: bool,
}

/// A mutex was handed to a waiter, which has not run since if its dispatches are still the same.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handed {
    dispatches: u64,
    /// Until when it wanted to wait.
    until: u64,
}

impl Scheduler {
    /// A new mutex.
    ///
    /// # Errors
    /// [`Refusal::Invalid`].
    pub fn new_mutex(&mut self, protocol: Protocol) -> Result<u32, Refusal> {
        match protocol {
            Protocol::Ceiling(ceiling) if ceiling >= PRIORITIES => {
                return Err(Refusal::Invalid("a ceiling is 0 to 98"))
            }
            Protocol::Floor(floor) if floor == 0 || floor > super::thread::LONGEST => {
                return Err(Refusal::Invalid("a deadline floor is above 0"))
            }
            _ => {}
        }
        let mutex = Mutex {
            protocol,
            owner: NONE,
            waiters: List::default(),
            next_held: NONE,
            floor_at: NEVER,
            handed: None,
            used: true,
        };
        Ok(super::waits::place(&mut self.mutexes, mutex, |old| !old.used))
    }

    /// Destroys a mutex.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while it is held.
    pub fn drop_mutex(&mut self, mutex: u32) -> Result<(), Refusal> {
        if self.mutexes[mutex as usize].owner != NONE {
            return Err(Refusal::Busy);
        }
        self.mutexes[mutex as usize].used = false;
        Ok(())
    }

    /// The owner, if it is held.
    #[must_use]
    #[inline]
    pub fn owner(&self, mutex: u32) -> Option<super::ThreadId> {
        let owner = self.mutexes[mutex as usize].owner;
        (owner != NONE).then_some(super::ThreadId(owner))
    }

    /// The running thread locks a mutex or waits for it until `until`.
    ///
    /// # Errors
    /// [`Refusal::AboveCeiling`], [`Refusal::Deadlock`] (also if the caller holds it), [`Refusal::WouldBlock`] if `until` is
    /// not after `now`.
    #[inline]
    pub fn lock(&mut self, mutex: u32, until: u64, now: u64) -> Result<Step, Refusal> {
        let id = self.current;
        self.may_lock(id, mutex)?;
        if self.mutexes[mutex as usize].owner == NONE || self.take_back(id, mutex, now) {
            self.take_mutex(id, mutex, now);
            return Ok(Step::Go);
        }
        if self.leads_back(id, mutex) {
            return Err(Refusal::Deadlock);
        }
        if until <= now {
            return Err(Refusal::WouldBlock);
        }
        self.block(Wait::Mutex(mutex), until, now);
        self.enter_list(id, Wait::Mutex(mutex));
        self.propagate(mutex, now);
        Ok(Step::Wait)
    }

    fn may_lock(&self, id: u32, mutex: u32) -> Result<(), Refusal> {
        let thread = &self.threads[id as usize];
        let above = match self.mutexes[mutex as usize].protocol {
            Protocol::Ceiling(ceiling) => thread.base > ceiling,
            Protocol::Floor(floor) => thread.relative_deadline < floor,
            Protocol::None | Protocol::Inherit => false,
        };
        if above {
            return Err(Refusal::AboveCeiling);
        }
        Ok(())
    }

    /// Whether lock and unlock of this mutex by the running thread need the current time: else any time since the last charge
    /// will do.
    #[must_use]
    #[inline]
    pub fn lock_needs_time(&self, mutex: u32) -> bool {
        matches!(self.mutexes[mutex as usize].protocol, Protocol::Floor(_))
            || self.records
            || self.threads[self.current as usize].server.is_some()
    }

    #[inline]
    fn take_mutex(&mut self, id: u32, mutex: u32, now: u64) {
        if self.threads[id as usize].server.is_some() && id == self.current {
            self.charge(now); // at its priority until now
        }
        let held = std::mem::replace(&mut self.threads[id as usize].held, mutex);
        let entry = &mut self.mutexes[mutex as usize];
        entry.owner = id;
        entry.next_held = held;
        entry.handed = None;
        match entry.protocol {
            Protocol::None => {}
            Protocol::Inherit => {
                if let Some(top) = entry.waiters.first() {
                    let inherited = self.threads[top as usize].urgency;
                    self.threads[id as usize].urgency = self.threads[id as usize].urgency.most(inherited);
                }
            }
            // No thread of the ceiling's level precedes the owner, not even by deadline.
            Protocol::Ceiling(ceiling) => {
                let urgency = &mut self.threads[id as usize].urgency;
                *urgency = urgency.most(Urgency { priority: ceiling, deadline: 0 });
            }
            Protocol::Floor(floor) => {
                entry.floor_at = now + floor;
                let thread = &mut self.threads[id as usize];
                let floored = Urgency { priority: thread.base, deadline: now + floor };
                thread.urgency = thread.urgency.most(floored);
            }
        }
    }

    /// The running thread unlocks a mutex; then it may have to switch.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`].
    #[inline]
    pub fn unlock(&mut self, mutex: u32, now: u64) -> Result<(), Refusal> {
        let id = self.current;
        if self.mutexes[mutex as usize].owner != id {
            return Err(Refusal::NotOwner);
        }
        self.release_mutex(id, mutex, now);
        Ok(())
    }

    /// Unlocks for the running thread, or for one that waits for a condition or ends.
    #[inline]
    pub(super) fn release_mutex(&mut self, id: u32, mutex: u32, now: u64) {
        if self.threads[id as usize].server.is_some() && id == self.current {
            self.charge(now);
        }
        self.disown(id, mutex);
        self.recompute(id, now);
        if let Some(next) = self.mutexes[mutex as usize].waiters.first() {
            self.mutexes[mutex as usize].waiters.remove(&mut self.threads, next);
            self.grant(next, mutex, now);
        }
    }

    /// The mutex has no owner, and is not one of those that the thread holds.
    #[inline]
    fn disown(&mut self, id: u32, mutex: u32) {
        let after = self.mutexes[mutex as usize].next_held;
        if self.threads[id as usize].held == mutex {
            self.threads[id as usize].held = after;
        } else {
            let mut at = self.threads[id as usize].held;
            while at != NONE && self.mutexes[at as usize].next_held != mutex {
                at = self.mutexes[at as usize].next_held;
            }
            if at != NONE {
                self.mutexes[at as usize].next_held = after;
            }
        }
        self.mutexes[mutex as usize].owner = NONE;
    }

    /// Hands the mutex to a waiter.
    fn grant(&mut self, id: u32, mutex: u32, now: u64) {
        let thread = &self.threads[id as usize];
        let (outcome, dispatches) = (thread.outcome, thread.account.dispatches);
        let until = self.timers.at(id, Reason::Wake);
        // Held before it becomes ready: `make_ready` computes the urgency from the held mutexes.
        self.take_mutex(id, mutex, now);
        self.mutexes[mutex as usize].handed = Some(Handed { dispatches, until });
        self.make_ready(id, now, outcome);
    }

    /// Takes the mutex from an owner that has not run since it was handed the mutex, and is less urgent than thread `id`: it waits
    /// again, before its equals. False: nothing has changed.
    fn take_back(&mut self, id: u32, mutex: u32, now: u64) -> bool {
        let owner = self.mutexes[mutex as usize].owner;
        let Some(handed) = self.mutexes[mutex as usize].handed else { return false };
        let thread = &self.threads[owner as usize];
        if thread.state != State::Ready
            || thread.account.dispatches != handed.dispatches
            || !self.threads[id as usize].urgency.before(thread.urgency)
        {
            return false;
        }
        self.ready.remove(&mut self.threads, owner);
        self.disown(owner, mutex);
        self.recompute(owner, now);
        self.threads[owner as usize].state = State::Blocked(Wait::Mutex(mutex));
        let mut waiters = self.mutexes[mutex as usize].waiters;
        waiters.insert_first(&mut self.threads, owner);
        self.mutexes[mutex as usize].waiters = waiters;
        if handed.until != NEVER {
            self.timers.set(owner, Reason::Wake, handed.until);
        }
        true
    }

    /// A thread that waited for a condition locks its mutex again, or waits for it, without a time limit.
    pub(super) fn retake(&mut self, id: u32, mutex: u32, outcome: Outcome, now: u64) {
        self.timers.clear(id, Reason::Wake);
        self.threads[id as usize].outcome = outcome;
        if self.mutexes[mutex as usize].owner == NONE || self.take_back(id, mutex, now) {
            self.grant(id, mutex, now);
        } else {
            self.threads[id as usize].state = State::Blocked(Wait::Mutex(mutex));
            self.enter_list(id, Wait::Mutex(mutex));
            self.propagate(mutex, now);
        }
    }

    /// Computes the urgency from the thread's own and the mutexes it holds. The thread must be in no list, or be requeued
    /// afterwards.
    #[inline]
    pub(super) fn recompute(&mut self, id: u32, now: u64) {
        let thread = &self.threads[id as usize];
        let mut urgency = thread.own(now);
        let mut mutex = thread.held;
        while mutex != NONE {
            let entry = &self.mutexes[mutex as usize];
            match entry.protocol {
                Protocol::None => {}
                Protocol::Inherit => {
                    if let Some(top) = entry.waiters.first() {
                        urgency = urgency.most(self.threads[top as usize].urgency);
                    }
                }
                Protocol::Ceiling(ceiling) => {
                    urgency = urgency.most(Urgency { priority: ceiling, deadline: 0 });
                }
                Protocol::Floor(_) => {
                    let floored = Urgency { priority: thread.base, deadline: entry.floor_at };
                    urgency = urgency.most(floored);
                }
            }
            mutex = entry.next_held;
        }
        self.threads[id as usize].urgency = urgency;
    }

    /// The waiters of a mutex have changed: updates the urgency of its owner, and of the owners along the chain.
    pub(super) fn propagate(&mut self, mutex: u32, now: u64) {
        let mut mutex = mutex;
        // A chain has no cycle (`leads_back`); the bound is for the reader.
        for _ in 0..self.threads.len() {
            let entry = &self.mutexes[mutex as usize];
            if entry.protocol != Protocol::Inherit || entry.owner == NONE {
                return;
            }
            let owner = entry.owner;
            let before = self.threads[owner as usize].urgency;
            match self.threads[owner as usize].state {
                State::Ready => {
                    self.ready.remove(&mut self.threads, owner);
                    self.recompute(owner, now);
                    self.ready.insert_first(&mut self.threads, owner);
                    return;
                }
                State::Running => return self.recompute(owner, now),
                State::Blocked(wait) => {
                    self.leave_list(owner, wait);
                    self.recompute(owner, now);
                    self.enter_list(owner, wait);
                    match wait {
                        Wait::Mutex(next) if self.threads[owner as usize].urgency != before => mutex = next,
                        _ => return,
                    }
                }
                State::Unused | State::Ended => return,
            }
        }
    }

    /// Whether the chain of owners from this mutex leads to the thread.
    fn leads_back(&self, id: u32, mutex: u32) -> bool {
        let mut owner = self.mutexes[mutex as usize].owner;
        for _ in 0..self.threads.len() {
            if owner == id {
                return true;
            }
            match self.threads[owner as usize].state {
                State::Blocked(Wait::Mutex(next)) => owner = self.mutexes[next as usize].owner,
                _ => return false,
            }
        }
        false
    }

    pub(super) fn mutex_waiters(&mut self, mutex: u32) -> &mut List {
        &mut self.mutexes[mutex as usize].waiters
    }

    /// The protocol of a mutex.
    #[must_use]
    pub fn protocol(&self, mutex: u32) -> Protocol {
        self.mutexes[mutex as usize].protocol
    }

    #[cfg(test)]
    pub(super) fn floor_at(&self, mutex: u32) -> u64 {
        self.mutexes[mutex as usize].floor_at
    }
}

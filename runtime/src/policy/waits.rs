//! Semaphores, conditions, barriers, the end of threads, and the cancellation of waits. Waiters are served by urgency, equal
//! ones in the order of arrival.

use super::lists::List;
use super::thread::{State, Wait};
use super::{Outcome, Refusal, Scheduler, Step, ThreadId, NEVER, NONE};

/// Largest value of a semaphore, as glibc's SEM_VALUE_MAX.
pub const SEMAPHORE_MAX: u32 = i32::MAX as u32;

#[derive(Clone, Debug)]
pub(super) struct Semaphore {
    count: u32,
    waiters: List,
    used: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Condition {
    waiters: List,
    used: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Barrier {
    needed: u32,
    arrived: u32,
    waiters: List,
    used: bool,
}

/// Puts an object into a free slot, or a new one.
pub(super) fn place<T>(table: &mut Vec<T>, object: T, is_free: impl Fn(&T) -> bool) -> u32 {
    match table.iter().position(is_free) {
        Some(free) => {
            table[free] = object;
            free as u32
        }
        None => {
            table.push(object);
            table.len() as u32 - 1
        }
    }
}

impl Scheduler {
    /// A semaphore with the initial value `count`.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] above 2^31 - 1.
    pub fn new_semaphore(&mut self, count: u32) -> Result<u32, Refusal> {
        if count > SEMAPHORE_MAX {
            return Err(Refusal::Invalid("a semaphore counts to 2^31 - 1"));
        }
        let semaphore = Semaphore { count, waiters: List::default(), used: true };
        Ok(place(&mut self.semaphores, semaphore, |old| !old.used))
    }

    /// Destroys a semaphore.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while threads wait.
    pub fn drop_semaphore(&mut self, semaphore: u32) -> Result<(), Refusal> {
        let entry = &mut self.semaphores[semaphore as usize];
        if entry.waiters.first().is_some() {
            return Err(Refusal::Busy);
        }
        entry.used = false;
        for thread in &mut self.threads {
            if thread.notify == semaphore {
                thread.notify = NONE;
            }
        }
        Ok(())
    }

    /// The current value.
    #[must_use]
    pub fn count(&self, semaphore: u32) -> u32 {
        self.semaphores[semaphore as usize].count
    }

    /// Takes one, or waits until `until`.
    ///
    /// # Errors
    /// [`Refusal::WouldBlock`] if `until` is not after `now`.
    pub fn take(&mut self, semaphore: u32, until: u64, now: u64) -> Result<Step, Refusal> {
        let entry = &mut self.semaphores[semaphore as usize];
        if entry.count > 0 {
            entry.count -= 1;
            return Ok(Step::Go);
        }
        self.wait_in(Wait::Semaphore(semaphore), until, now)
    }

    /// Posts: to the most urgent waiter, or to the counter.
    ///
    /// # Errors
    /// [`Refusal::Overflow`].
    pub fn post(&mut self, semaphore: u32, now: u64) -> Result<(), Refusal> {
        let entry = &mut self.semaphores[semaphore as usize];
        match entry.waiters.first() {
            Some(next) => {
                entry.waiters.remove(&mut self.threads, next);
                self.make_ready(next, now, Outcome::Done);
            }
            None if entry.count == SEMAPHORE_MAX => return Err(Refusal::Overflow),
            None => entry.count += 1,
        }
        Ok(())
    }

    /// A condition.
    pub fn new_condition(&mut self) -> u32 {
        place(&mut self.conditions, Condition { waiters: List::default(), used: true }, |old| !old.used)
    }

    /// Destroys a condition.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while threads wait.
    pub fn drop_condition(&mut self, condition: u32) -> Result<(), Refusal> {
        if self.conditions[condition as usize].waiters.first().is_some() {
            return Err(Refusal::Busy);
        }
        self.conditions[condition as usize].used = false;
        Ok(())
    }

    /// Unlocks the mutex and waits; holds it again when it continues, even after a timeout. No spurious wake-ups.
    ///
    /// # Errors
    /// [`Refusal::NotOwner`], [`Refusal::WouldBlock`] if `until` is not after `now` (the mutex stays locked).
    pub fn wait_condition(
        &mut self,
        condition: u32,
        mutex: u32,
        until: u64,
        now: u64,
    ) -> Result<Step, Refusal> {
        let id = self.current;
        if self.owner(mutex) != Some(ThreadId(id)) {
            return Err(Refusal::NotOwner);
        }
        if until <= now {
            return Err(Refusal::WouldBlock);
        }
        self.release_mutex(id, mutex, now);
        self.wait_in(Wait::Condition(condition, mutex), until, now)
    }

    /// Wakes the most urgent waiter. Without a waiter it has no effect.
    pub fn signal(&mut self, condition: u32, now: u64) -> bool {
        let Some(next) = self.conditions[condition as usize].waiters.first() else { return false };
        if let State::Blocked(wait) = self.threads[next as usize].state {
            self.end_wait(next, wait, Outcome::Done, now);
        }
        true
    }

    /// Wakes all waiters, the most urgent first.
    pub fn broadcast(&mut self, condition: u32, now: u64) {
        while self.signal(condition, now) {}
    }

    /// A barrier for `needed` threads.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for 0.
    pub fn new_barrier(&mut self, needed: u32) -> Result<u32, Refusal> {
        if needed == 0 {
            return Err(Refusal::Invalid("a barrier needs at least one thread"));
        }
        let barrier = Barrier { needed, arrived: 0, waiters: List::default(), used: true };
        Ok(place(&mut self.barriers, barrier, |old| !old.used))
    }

    /// Destroys a barrier.
    ///
    /// # Errors
    /// [`Refusal::Busy`] while threads wait.
    pub fn drop_barrier(&mut self, barrier: u32) -> Result<(), Refusal> {
        if self.barriers[barrier as usize].arrived > 0 {
            return Err(Refusal::Busy);
        }
        self.barriers[barrier as usize].used = false;
        Ok(())
    }

    /// Waits for the others. The last to arrive releases all and continues: `Step::Go` only for that one. Later arrivals
    /// belong to the next round.
    pub fn arrive(&mut self, barrier: u32, now: u64) -> Step {
        let id = self.current;
        let entry = &mut self.barriers[barrier as usize];
        entry.arrived += 1;
        if entry.arrived < entry.needed {
            self.block(Wait::Barrier(barrier), NEVER, now);
            self.enter_list(id, Wait::Barrier(barrier));
            return Step::Wait;
        }
        entry.arrived = 0;
        while let Some(next) = self.barriers[barrier as usize].waiters.first() {
            self.barriers[barrier as usize].waiters.remove(&mut self.threads, next);
            self.make_ready(next, now, Outcome::Done);
        }
        Step::Go
    }

    /// Waits for the end of a thread.
    ///
    /// # Errors
    /// [`Refusal::Gone`], [`Refusal::Deadlock`] for oneself, [`Refusal::WouldBlock`] if `until` is not after `now`.
    pub fn join(&mut self, id: ThreadId, until: u64, now: u64) -> Result<Step, Refusal> {
        match self.threads[id.0 as usize].state {
            State::Unused => Err(Refusal::Gone),
            State::Ended => Ok(Step::Go),
            _ if id.0 == self.current => Err(Refusal::Deadlock),
            _ => self.wait_in(Wait::Join(id.0), until, now),
        }
    }

    pub(super) fn wake_joiners(&mut self, id: u32, now: u64) {
        while let Some(next) = self.threads[id as usize].joiners.first() {
            let mut joiners = self.threads[id as usize].joiners;
            joiners.remove(&mut self.threads, next);
            self.threads[id as usize].joiners = joiners;
            self.make_ready(next, now, Outcome::Done);
        }
    }

    /// Asks a thread to end at its next cancellation point; a wait ends at once, except a wait for a mutex or a barrier,
    /// which is not a cancellation point.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn cancel(&mut self, id: ThreadId, now: u64) -> Result<(), Refusal> {
        let thread = &mut self.threads[id.0 as usize];
        if !thread.is_live() {
            return Err(Refusal::Gone);
        }
        thread.cancelled = true;
        if thread.uncancellable {
            return Ok(());
        }
        match thread.state {
            State::Blocked(Wait::Mutex(_) | Wait::Barrier(_)) => {}
            State::Blocked(wait) => self.end_wait(id.0, wait, Outcome::Cancelled, now),
            _ => {}
        }
        Ok(())
    }

    /// Whether the thread was cancelled.
    #[must_use]
    pub fn is_cancelled(&self, id: ThreadId) -> bool {
        let thread = &self.threads[id.0 as usize];
        thread.cancelled && !thread.uncancellable
    }

    /// Whether requests to end take effect; they are kept otherwise. Returns the previous setting.
    pub fn set_cancellable(&mut self, id: ThreadId, cancellable: bool) -> bool {
        !std::mem::replace(&mut self.threads[id.0 as usize].uncancellable, !cancellable)
    }

    /// The request to end was accepted: further waits of the thread (in its cleanup) are not cancelled.
    pub fn take_cancel(&mut self, id: ThreadId) -> bool {
        std::mem::take(&mut self.threads[id.0 as usize].cancelled)
    }

    fn wait_in(&mut self, wait: Wait, until: u64, now: u64) -> Result<Step, Refusal> {
        if until <= now {
            return Err(Refusal::WouldBlock);
        }
        let id = self.current;
        self.block(wait, until, now);
        self.enter_list(id, wait);
        Ok(Step::Wait)
    }

    /// Ends a wait before its event, or by it (condition): removes it from the list, and makes it ready or wait for its
    /// mutex.
    pub(super) fn end_wait(&mut self, id: u32, wait: Wait, outcome: Outcome, now: u64) {
        self.leave_list(id, wait);
        match wait {
            Wait::Condition(_, mutex) => return self.retake(id, mutex, outcome, now),
            Wait::Mutex(mutex) => {
                self.make_ready(id, now, outcome);
                return self.propagate(mutex, now);
            }
            // Or a job that never began would be ended.
            Wait::Release => self.begin_job(id, now, now),
            _ => {}
        }
        self.make_ready(id, now, outcome);
    }

    fn list(&mut self, wait: Wait) -> Option<&mut List> {
        match wait {
            Wait::Mutex(mutex) => Some(self.mutex_waiters(mutex)),
            Wait::Condition(condition, _) => Some(&mut self.conditions[condition as usize].waiters),
            Wait::Semaphore(semaphore) => Some(&mut self.semaphores[semaphore as usize].waiters),
            Wait::Barrier(barrier) => Some(&mut self.barriers[barrier as usize].waiters),
            Wait::Join(thread) => Some(&mut self.threads[thread as usize].joiners),
            Wait::Sleep | Wait::Release | Wait::Suspended | Wait::Io => None,
        }
    }

    pub(super) fn enter_list(&mut self, id: u32, wait: Wait) {
        let Some(mut list) = self.list(wait).map(|list| *list) else { return };
        list.insert_last(&mut self.threads, id);
        if let Some(place) = self.list(wait) {
            *place = list;
        }
    }

    pub(super) fn leave_list(&mut self, id: u32, wait: Wait) {
        let Some(mut list) = self.list(wait).map(|list| *list) else { return };
        list.remove(&mut self.threads, id);
        if let Some(place) = self.list(wait) {
            *place = list;
        }
    }
}

//! The usual cases: a mutex that is free and for which nobody waits, and a thread that yields to an equal one. The same effect as
//! [`Scheduler::lock`], [`Scheduler::unlock`], and [`Scheduler::yield_now`] with [`Scheduler::reschedule`], without a search.

use super::thread::{Policy, State, Thread};
use super::{Protocol, Scheduler, Urgency, NEVER, NONE};

/// Whether it runs until it waits or yields: nothing depends on how long it has run.
#[inline(always)]
fn is_plain(thread: &Thread) -> bool {
    thread.policy == Policy::Fifo && thread.budget.is_none()
}

impl Scheduler {
    /// The running thread yields to the first of its equals, which runs from `now()` on. False: nothing has changed, the time was
    /// not read, and [`Scheduler::yield_now`] must decide. [`Scheduler::next_event`] is the same as before.
    #[must_use]
    #[inline(always)]
    pub fn yield_at_once(&mut self, now: impl FnOnce() -> u64) -> bool {
        let (current, Some(next)) = (self.current, self.ready.top()) else { return false };
        let threads = &mut self.threads[..];
        if self.records || current == NONE || current as usize >= threads.len() {
            return false;
        }
        let (from, to) = (&threads[current as usize], &threads[next as usize]);
        if from.urgency != to.urgency || !is_plain(from) || !is_plain(to) {
            return false;
        }
        let now = now();
        let ran = now.saturating_sub(self.charged);
        self.charged = self.charged.max(now);
        let from = &mut threads[current as usize];
        (from.account.cpu, from.job_cpu) = (from.account.cpu + ran, from.job_cpu + ran);
        from.slice = from.slice.saturating_sub(ran);
        from.state = State::Ready;
        self.ready.rotate(threads, next, current);
        let to = &mut threads[next as usize];
        to.state = State::Running;
        to.account.dispatches += 1;
        self.current = next;
        self.charged = now;
        true
    }

    /// Index of the running thread.
    #[inline(always)]
    pub(crate) fn running(&self) -> u32 {
        self.current
    }

    /// The running thread locks a mutex that is free. False: nothing has changed, and [`Scheduler::lock`] must decide. No
    /// other thread has become more urgent than the running one.
    #[must_use]
    #[inline(always)]
    pub fn lock_at_once(&mut self, mutex: u32) -> bool {
        let (Some(entry), Some(thread)) =
            (self.mutexes.get_mut(mutex as usize), self.threads.get_mut(self.current as usize))
        else {
            return false;
        };
        if entry.owner != NONE || self.records || thread.server.is_some() {
            return false;
        }
        match entry.protocol {
            // No thread waits for a free mutex: nothing is inherited.
            Protocol::None | Protocol::Inherit => {}
            Protocol::Ceiling(ceiling) if thread.base <= ceiling => {
                thread.urgency = thread.urgency.most(Urgency { priority: ceiling, deadline: 0 });
            }
            Protocol::Ceiling(_) | Protocol::Floor(_) => return false,
        }
        entry.owner = self.current;
        entry.handed = None;
        entry.next_held = std::mem::replace(&mut thread.held, mutex);
        true
    }

    /// The running thread unlocks the mutex that it locked last, for which nobody waits. False: nothing has changed, and
    /// [`Scheduler::unlock`] must decide. Afterwards another thread may be more urgent.
    #[must_use]
    #[inline(always)]
    pub fn unlock_at_once(&mut self, mutex: u32) -> bool {
        let (Some(entry), Some(thread)) =
            (self.mutexes.get_mut(mutex as usize), self.threads.get_mut(self.current as usize))
        else {
            return false;
        };
        let is_last = entry.owner == self.current && thread.held == mutex;
        if !is_last || entry.waiters.first().is_some() || self.records || thread.server.is_some() {
            return false;
        }
        match entry.protocol {
            Protocol::None | Protocol::Inherit => {}
            // A round-robin thread may be one of equals from now on: its slice needs the alarm.
            Protocol::Ceiling(_)
                if entry.next_held == NONE
                    && !thread.demoted
                    && !matches!(thread.policy, Policy::RoundRobin { .. }) =>
            {
                let deadline = if thread.policy == Policy::Edf { thread.deadline_at } else { NEVER };
                thread.urgency = Urgency { priority: thread.base, deadline };
            }
            Protocol::Ceiling(_) | Protocol::Floor(_) => return false,
        }
        entry.owner = NONE;
        thread.held = entry.next_held;
        true
    }
}

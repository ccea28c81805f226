//! The usual case of a mutex: it is free, and nobody waits. The same effect as [`Scheduler::lock`] and [`Scheduler::unlock`],
//! without the time and without a search.

use super::thread::Policy;
use super::{Protocol, Scheduler, Urgency, NEVER, NONE};

impl Scheduler {
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
            Protocol::Ceiling(_) if entry.next_held == NONE && !thread.demoted => {
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

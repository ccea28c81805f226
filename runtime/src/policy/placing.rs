//! Threads whose urgency changes: by the program, by a budget, by a deadline. Their position among their new equals.

use super::thread::{State, Wait};
use super::{Policy, Refusal, Scheduler, ThreadId, PRIORITIES};

impl Scheduler {
    /// The running thread's urgency has dropped by itself: it goes after those of its new priority.
    pub(super) fn recompute_running_as_last(&mut self, id: u32, now: u64) {
        let before = self.threads[id as usize].urgency;
        self.recompute(id, now);
        if self.threads[id as usize].urgency != before && self.current == id {
            self.yield_now(now);
        }
    }

    /// Changes a thread's priority: raised, it goes after its new equals; lowered, before them (POSIX pthread_setschedprio).
    ///
    /// # Errors
    /// [`Refusal::Invalid`], [`Refusal::Gone`].
    pub fn set_priority(&mut self, id: ThreadId, priority: u8, now: u64) -> Result<(), Refusal> {
        if priority >= PRIORITIES {
            return Err(Refusal::Invalid("a priority is 0 to 98"));
        }
        let thread = &mut self.threads[id.0 as usize];
        if !thread.is_live() {
            return Err(Refusal::Gone);
        }
        if thread.server.as_ref().is_some_and(|server| priority <= server.low) {
            return Err(Refusal::Invalid("a sporadic server's priority must be above its low priority"));
        }
        let raised = priority > thread.base;
        thread.base = priority;
        if let Some(server) = &mut thread.server {
            server.high = priority;
        }
        self.requeue(id.0, now, raised);
        Ok(())
    }

    /// Changes policy and priority of a FIFO or round-robin thread: it goes after its new equals (pthread_setschedparam).
    ///
    /// # Errors
    /// [`Refusal::Invalid`], [`Refusal::Gone`].
    pub fn set_policy(
        &mut self,
        id: ThreadId,
        policy: Policy,
        priority: u8,
        now: u64,
    ) -> Result<(), Refusal> {
        let simple = |policy| matches!(policy, Policy::Fifo | Policy::RoundRobin { .. });
        let thread = &self.threads[id.0 as usize];
        if priority >= PRIORITIES || !simple(policy) || !simple(thread.policy) {
            return Err(Refusal::Invalid("only between FIFO and round robin, with a priority of 0 to 98"));
        }
        if !thread.is_live() {
            return Err(Refusal::Gone);
        }
        let thread = &mut self.threads[id.0 as usize];
        thread.policy = policy;
        thread.base = priority;
        thread.slice = if let Policy::RoundRobin { quantum } = policy { quantum } else { 0 };
        self.requeue(id.0, now, true);
        Ok(())
    }

    /// The policy of a thread.
    #[must_use]
    pub fn policy(&self, id: ThreadId) -> Policy {
        self.threads[id.0 as usize].policy
    }

    /// Requeues a thread whose urgency may have changed: after its equals, or before them.
    pub(super) fn requeue(&mut self, id: u32, now: u64, last: bool) {
        match self.threads[id as usize].state {
            State::Ready => {
                self.ready.remove(&mut self.threads, id);
                self.recompute(id, now);
                if last {
                    self.ready.insert_last(&mut self.threads, id);
                } else {
                    self.ready.insert_first(&mut self.threads, id);
                }
            }
            State::Running => self.recompute(id, now),
            State::Blocked(wait) => {
                self.leave_list(id, wait);
                self.recompute(id, now);
                self.enter_list(id, wait);
                if let Wait::Mutex(mutex) = wait {
                    self.propagate(mutex, now);
                }
            }
            State::Unused | State::Ended => {}
        }
    }
}

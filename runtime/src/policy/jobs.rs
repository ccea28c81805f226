//! Jobs: their releases, deadlines, budgets, and statistics.

use super::thread::{OnOverrun, Policy, Release, State, Wait};
use super::timers::Reason;
use super::{Outcome, Refusal, Scheduler, Step, ThreadId, NEVER, NONE};

impl Scheduler {
    /// Ends the running thread's job and waits for the next release. A past release (the job was late) begins at once, with
    /// its own release time and deadline: backlog is worked off, not dropped.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for an aperiodic thread.
    pub fn next_job(&mut self, now: u64) -> Result<Step, Refusal> {
        self.charge(now);
        let id = self.current;
        match self.threads[id as usize].release {
            Release::Aperiodic => Err(Refusal::Invalid("an aperiodic thread has no next job")),
            Release::Periodic { period } => {
                self.end_job(id, now);
                let next = self.threads[id as usize].released_at + period;
                Ok(self.wait_for_release(id, next, now))
            }
            Release::Sporadic { .. } => {
                self.end_job(id, now);
                if self.threads[id as usize].triggers == 0 {
                    self.block(Wait::Release, NEVER, now);
                    return Ok(Step::Wait);
                }
                self.threads[id as usize].triggers -= 1;
                let next = self.threads[id as usize].next_release;
                Ok(self.wait_for_release(id, next, now))
            }
        }
    }

    fn wait_for_release(&mut self, id: u32, next: u64, now: u64) -> Step {
        if next > now {
            self.block(Wait::Release, next, now);
            return Step::Wait;
        }
        self.begin_job(id, next, now);
        // A later deadline: after the threads that have the same.
        self.recompute_running_as_last(id, now);
        Step::Go
    }

    /// A release of a sporadic thread. Triggers are counted; each becomes a job.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for other threads, [`Refusal::Gone`], [`Refusal::Overflow`].
    pub fn trigger(&mut self, id: ThreadId, now: u64) -> Result<(), Refusal> {
        let thread = &mut self.threads[id.0 as usize];
        if !thread.is_live() {
            return Err(Refusal::Gone);
        }
        let Release::Sporadic { .. } = thread.release else {
            return Err(Refusal::Invalid("only a sporadic thread can be triggered"));
        };
        // Waiting without a timer: for a trigger, not for the separation or the start.
        let waits = thread.state == State::Blocked(Wait::Release);
        if !waits || self.timers.at(id.0, Reason::Wake) != NEVER {
            let triggers = self.threads[id.0 as usize].triggers.checked_add(1).ok_or(Refusal::Overflow)?;
            self.threads[id.0 as usize].triggers = triggers;
            return Ok(());
        }
        let next = self.threads[id.0 as usize].next_release;
        if next > now {
            self.timers.set(id.0, Reason::Wake, next);
        } else {
            self.begin_job(id.0, now, now);
            self.make_ready(id.0, now, Outcome::Done);
        }
        Ok(())
    }

    pub(super) fn begin_job(&mut self, id: u32, release: u64, now: u64) {
        let thread = &mut self.threads[id as usize];
        thread.released_at = match thread.release {
            // A backlog of triggers is released as early as the separation allows, but not before now.
            Release::Sporadic { .. } => release.max(now),
            _ => release,
        };
        if let Release::Sporadic { separation } = thread.release {
            thread.next_release = thread.released_at + separation;
        }
        thread.job_cpu = 0;
        thread.demoted = false;
        thread.overrun = false;
        thread.missed = false;
        thread.deadline_at = match thread.relative_deadline {
            NEVER => NEVER,
            relative => thread.released_at + relative,
        };
        let deadline = thread.deadline_at;
        if deadline < now {
            self.timers.clear(id, Reason::Deadline);
            self.deadline_passed(id, now);
        } else {
            // A job that ends at the deadline has met it.
            self.timers.set(id, Reason::Deadline, deadline.saturating_add(1));
        }
    }

    pub(super) fn end_job(&mut self, id: u32, now: u64) {
        self.timers.clear(id, Reason::Deadline);
        let thread = &mut self.threads[id as usize];
        thread.account.jobs += 1;
        let response = now.saturating_sub(thread.released_at);
        thread.account.worst_response = thread.account.worst_response.max(response);
        let late = now.saturating_sub(thread.deadline_at);
        if late > 0 {
            thread.account.worst_lateness = thread.account.worst_lateness.max(late);
            if !thread.missed {
                self.deadline_passed(id, now);
            }
        }
    }

    /// The job has not ended by its deadline.
    pub(super) fn deadline_passed(&mut self, id: u32, now: u64) {
        let thread = &mut self.threads[id as usize];
        if !thread.missed {
            thread.missed = true;
            thread.account.misses += 1;
            self.notify(id, now);
        }
    }

    pub(super) fn check_budget(&mut self, id: u32, now: u64) {
        let thread = &mut self.threads[id as usize];
        let Some(budget) = thread.budget else { return };
        if thread.overrun || thread.job_cpu < budget.ns {
            return;
        }
        thread.overrun = true;
        thread.account.overruns += 1;
        if budget.action == OnOverrun::Background {
            thread.demoted = true;
            self.recompute_running_as_last(id, now);
        }
        self.notify(id, now);
    }

    fn notify(&mut self, id: u32, now: u64) {
        let semaphore = self.threads[id as usize].notify;
        if semaphore != NONE {
            // A counter at its maximum was reported already.
            let _ = self.post(semaphore, now);
        }
    }

    /// The time for which a thread waited has come.
    pub(super) fn wake_by_time(&mut self, id: u32, time: u64, now: u64) {
        match self.threads[id as usize].state {
            State::Blocked(Wait::Release) => {
                self.begin_job(id, time, now);
                self.make_ready(id, now, Outcome::Done);
            }
            State::Blocked(Wait::Sleep) => self.make_ready(id, now, Outcome::Done),
            State::Blocked(wait) => self.end_wait(id, wait, Outcome::TimedOut, now),
            _ => {}
        }
    }

    /// Posts this semaphore at each miss and overrun of the thread: a handler is a thread that waits for it.
    ///
    /// # Errors
    /// [`Refusal::Gone`].
    pub fn set_notify(&mut self, id: ThreadId, semaphore: Option<u32>) -> Result<(), Refusal> {
        if !self.threads[id.0 as usize].is_live() {
            return Err(Refusal::Gone);
        }
        self.threads[id.0 as usize].notify = semaphore.unwrap_or(NONE);
        Ok(())
    }

    /// Release and absolute deadline of the thread's current job, in ns ([`NEVER`] if it has none).
    #[must_use]
    pub fn job(&self, id: ThreadId) -> (u64, u64) {
        let thread = &self.threads[id.0 as usize];
        (thread.released_at, thread.deadline_at)
    }

    /// The program itself begins a job of an aperiodic EDF thread: its release and its absolute deadline, both of which may
    /// be past ([`NEVER`]: after all others of its priority). Nothing is counted: the program knows its jobs.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for other threads.
    pub fn set_job(&mut self, id: ThreadId, release: u64, deadline: u64, now: u64) -> Result<(), Refusal> {
        let thread = &mut self.threads[id.0 as usize];
        if thread.policy != Policy::Edf || thread.release != Release::Aperiodic || !thread.is_live() {
            return Err(Refusal::Invalid("only an aperiodic EDF thread begins its jobs by itself"));
        }
        thread.released_at = release;
        thread.deadline_at = deadline;
        thread.has_own_jobs = true;
        self.timers.clear(id.0, Reason::Deadline);
        self.requeue(id.0, now, true);
        Ok(())
    }

    /// Changes the absolute deadline of an EDF thread's current job (for a message that carries one). If the previous
    /// deadline has passed, it was missed. Misses are counted only if jobs have an end: not in an aperiodic thread, which
    /// may be done by then.
    ///
    /// # Errors
    /// [`Refusal::Invalid`] for other threads, threads between two jobs, and deadlines in the past.
    pub fn set_deadline(&mut self, id: ThreadId, deadline: u64, now: u64) -> Result<(), Refusal> {
        let thread = &mut self.threads[id.0 as usize];
        if thread.policy != Policy::Edf || deadline <= now || deadline > super::thread::LONGEST {
            return Err(Refusal::Invalid(
                "only an EDF thread has a deadline to set, and it must be in the future",
            ));
        }
        if !thread.is_live() || thread.state == State::Blocked(Wait::Release) {
            return Err(Refusal::Invalid(
                "the thread has no job: it has ended or waits for its next release",
            ));
        }
        let is_counted = !thread.has_own_jobs && thread.release != Release::Aperiodic;
        if is_counted && thread.deadline_at < now {
            self.deadline_passed(id.0, now);
        }
        self.threads[id.0 as usize].deadline_at = deadline;
        if is_counted {
            self.timers.set(id.0, Reason::Deadline, deadline + 1);
        } else {
            self.timers.clear(id.0, Reason::Deadline);
        }
        self.requeue(id.0, now, true);
        Ok(())
    }
}

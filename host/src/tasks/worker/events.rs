//! Executes each event.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use lathunt_core::tasks::program::{Boundary, Step};
use lathunt_core::time::{Mono, Ns};

use super::super::ground::{Due, Ground};
use super::super::{memory, work};
use super::{Done, Leave, Worker};
use crate::clock;

impl<G: Ground> Worker<G> {
    pub(super) fn stop(&self) -> &AtomicBool {
        &self.shared.stop
    }

    pub(super) fn step(&mut self, step: &Step) -> Done {
        let shared = Arc::clone(&self.shared);
        match step {
            Step::Run(time) => done(work::run(*time, &shared.speeds, self.stop())),
            Step::Runtime(time) => done(work::until(*time, || clock::mono().0, self.stop())),
            Step::CpuTime(time) => done(work::until(*time, || self.ground.cpu_time().0, self.stop())),
            Step::Sleep(time) if self.thread.boundary == Boundary::Sleep => {
                let now = self.end(self.thread.deadline);
                self.next(now + *time, self.relative_deadline())
            }
            Step::Sleep(time) => self.sleep_until(clock::mono() + *time),
            Step::OwnTimer { slot, period, absolute } => self.own_timer(*slot, *period, *absolute),
            Step::SharedTimer { timer, period } => self.shared_timer(*timer, *period),
            Step::Lock(mutex) => self.lock(*mutex),
            Step::Unlock(mutex) => {
                self.ground.unlock(*mutex);
                Ok(())
            }
            Step::Wait(condition, mutex) => self.wait(*condition, *mutex),
            Step::Sync(condition, mutex) => {
                self.ground.signal(*condition)?;
                self.wait(*condition, *mutex)
            }
            Step::Signal(condition) => Ok(self.ground.signal(*condition)?),
            Step::Broadcast(condition) => Ok(self.ground.broadcast(*condition)?),
            Step::Suspend(condition) => {
                self.leave_job();
                self.ground.join(*condition)?;
                let at = self.ground.sleep();
                self.released(at)
            }
            Step::Barrier(barrier) => {
                self.leave_job();
                let at = self.ground.barrier(*barrier)?;
                self.released(at)
            }
            Step::SemPost(semaphore) => match self.ground.post(*semaphore)? {
                true => Ok(()),
                false => Err(Leave::Failed(format!(
                    "semaphore \"{}\" has a million posts without a waiter",
                    self.program.semaphores[*semaphore]
                ))),
            },
            Step::SemWait(semaphore) => {
                self.leave_job();
                let at = self.ground.take(*semaphore)?;
                self.released(at)
            }
            Step::Yield => {
                self.ground.yield_now();
                Ok(())
            }
            Step::Fork(task) => self.ground.fork(*task).map_err(Leave::Failed),
            Step::Mem(bytes) => done(memory::fill(&mut self.buffer, *bytes, &shared.stop)),
            Step::IoRun(bytes) => self.iorun(*bytes),
            Step::MemRun(what) => {
                let walk = self.walks.iter_mut().find(|(known, _)| known == what);
                done(walk.is_none_or(|(_, walk)| walk.go(&shared.stop)))
            }
        }
    }

    fn iorun(&mut self, bytes: u64) -> Done {
        match self.ground.write(&self.buffer, bytes) {
            Ok(all) => done(all),
            Err(error) => Err(Leave::Failed(format!("cannot write to {}: {error}", self.program.io_device))),
        }
    }

    fn own_timer(&mut self, slot: usize, period: Ns, absolute: bool) -> Done {
        let due = self.timers[slot].unwrap_or(self.base) + period;
        let now = self.end(self.thread.deadline.or(Some(period)));
        let (due, missed) = served(due, now, period, absolute);
        self.timers[slot] = Some(due);
        self.figures.missed_releases += missed;
        self.next(due, self.thread.deadline.or(Some(period)))
    }

    fn shared_timer(&mut self, timer: usize, period: Ns) -> Done {
        let cell = &self.shared.timers[timer];
        let unset = cell.compare_exchange(0, self.base.0, Ordering::Relaxed, Ordering::Relaxed);
        let _ = unset; // the first to arrive sets it
        let due = Mono(self.shared.timers[timer].fetch_add(period.0, Ordering::Relaxed)) + period;
        let now = self.end(self.thread.deadline.or(Some(period)));
        let absolute = self.program.timers[timer].absolute;
        let (served, missed) = served(due, now, period, absolute);
        if served != due {
            self.shared.timers[timer].store(served.0, Ordering::Relaxed);
        }
        self.figures.missed_releases += missed;
        self.next(served, self.thread.deadline.or(Some(period)))
    }

    fn lock(&mut self, mutex: usize) -> Done {
        let begun = clock::mono();
        match self.ground.lock(mutex) {
            Ok(waited) => waited.into_iter().for_each(|time| self.figures.blocked(time)),
            Err(refused) => {
                // Still waiting: counts so far.
                self.figures.blocked(clock::mono().since(begun));
                return Err(refused.into());
            }
        }
        Ok(())
    }

    /// Without a predicate, as in rt-app: a signal before the wait is missed.
    fn wait(&mut self, condition: usize, mutex: usize) -> Done {
        self.leave_job();
        self.ground.join(condition)?;
        self.ground.unlock(mutex);
        let at = self.ground.sleep();
        if at.is_some() {
            self.lock(mutex)?;
        }
        self.released(at)
    }

    /// Before a wait for others: if these separate jobs, one ends here.
    fn leave_job(&mut self) {
        if self.thread.boundary == Boundary::Signal {
            self.end(self.thread.deadline);
            self.ground.expect(Due::OnSignal(self.relative_deadline()));
        }
    }

    /// After one: `at` is the time of the release; `None`: the run ends.
    fn released(&mut self, at: Option<Mono>) -> Done {
        let at = at.ok_or(Leave::Stopped)?;
        if self.thread.boundary == Boundary::Signal {
            self.begin(at);
        }
        Ok(())
    }
}

fn done(all: bool) -> Done {
    match all {
        true => Ok(()),
        false => Err(Leave::Stopped),
    }
}

/// The release that a thread gets at its timer, which is `due`, and the releases that pass without a job. On time: `due`.
/// Late: `due` if the timer is absolute, so that the backlog is worked off; else now, as in rt-app.
fn served(due: Mono, now: Mono, period: Ns, absolute: bool) -> (Mono, u64) {
    match now <= due || absolute {
        true => (due, 0),
        false => (now, now.since(due).0 / period.0.max(1)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_timer_keeps_its_grid_where_it_is_absolute_and_else_forgives() {
        let (due, period) = (Mono(100), Ns(100));
        assert_eq!(served(due, Mono(100), period, false), (Mono(100), 0));
        assert_eq!(served(due, Mono(350), period, true), (Mono(100), 0));
        assert_eq!(served(due, Mono(199), period, false), (Mono(199), 0));
        assert_eq!(served(due, Mono(350), period, false), (Mono(350), 2));
    }
}

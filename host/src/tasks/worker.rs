//! One thread of the set: executes its phases and counts its jobs.
//!
//! Bookkeeping between two jobs costs two reads of the clock and two of its CPU time, some 0.5 µs.

mod events;

use std::sync::atomic::Ordering;
use std::sync::Arc;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::jobs::{Figures, Job};
use lathunt_core::tasks::program::{Boundary, MemoryWalk, Phase, Program, Rule, Step, Thread};
use lathunt_core::time::{Mono, Ns};

use super::ground::{Due, Ground, Mark};
use super::locks::Refused;
use super::memory::Walk;
use super::ring::Ring;
use super::shared::Shared;
use crate::clock;

/// Why a thread leaves its phases.
pub(super) enum Leave {
    /// The run ends.
    Stopped,
    /// It cannot continue.
    Failed(String),
}

impl From<Refused> for Leave {
    fn from(refused: Refused) -> Leave {
        Leave::Failed(match refused {
            Refused::Stopped => return Leave::Stopped,
            Refused::Deadlock => "a deadlock: it waits for a mutex whose holder waits for it".to_owned(),
            Refused::Kernel(error) => {
                format!("the kernel refuses a lock: {}", std::io::Error::from_raw_os_error(error))
            }
            Refused::Runtime(refusal) => format!("the runtime refuses a lock: {refusal}"),
        })
    }
}

type Done = Result<(), Leave>;

/// A running thread.
pub(super) struct Worker<G> {
    shared: Arc<Shared>,
    program: Arc<Program>,
    thread: Thread,
    ground: G,
    rule: Rule,
    /// Next expiry of its own timers, by slot.
    timers: Vec<Option<Mono>>,
    walks: Vec<(MemoryWalk, Walk)>,
    buffer: Vec<u8>,
    ring: Option<Arc<Ring>>,
    pub figures: Figures,
    /// Origin of its timers.
    base: Mono,
    release: Mono,
    start: Option<Mono>,
    cpu_before: Ns,
    /// It has done something since the release.
    worked: bool,
    /// A job is running or due.
    active: bool,
    /// Remaining repetitions of its phase.
    more: u64,
}

/// CPUs that a thread names at its start.
pub(super) fn places(thread: &Thread) -> Option<&CpuSet> {
    thread.phases.first().and_then(|phase| phase.cpus.as_ref()).or(thread.cpus.as_ref())
}

impl<G: Ground> Worker<G> {
    pub fn new(
        shared: &Arc<Shared>,
        program: &Arc<Program>,
        thread: &Thread,
        ground: G,
        ring: Option<Arc<Ring>>,
    ) -> Worker<G> {
        let steps = || thread.phases.iter().flat_map(|phase| &phase.steps);
        let slots = steps().filter_map(|step| match step {
            Step::OwnTimer { slot, .. } => Some(slot + 1),
            _ => None,
        });
        let mut walks: Vec<(MemoryWalk, Walk)> = Vec::new();
        for step in steps() {
            if let Step::MemRun(what) = step
                && walks.iter().all(|(known, _)| known != what)
            {
                walks.push((*what, Walk::new(*what)));
            }
        }
        if let Some(ring) = &ring {
            ring.writes(crate::sched::tid());
        }
        let uses_buffer = steps().any(|step| matches!(step, Step::Mem(_) | Step::IoRun(_)));
        Worker {
            shared: Arc::clone(shared),
            program: Arc::clone(program),
            ground,
            rule: thread.rule,
            timers: vec![None; slots.max().unwrap_or(0)],
            walks,
            buffer: if uses_buffer { vec![1; program.buffer_bytes as usize] } else { Vec::new() },
            ring,
            figures: Figures::new(Mono(0)),
            base: Mono(0),
            release: Mono(0),
            start: None,
            cpu_before: Ns::ZERO,
            worked: false,
            active: false,
            more: u64::MAX,
            thread: thread.clone(),
        }
    }

    /// Executes everything, from the common start (or its own, for a forked thread) at `base` on.
    pub fn go(&mut self, base: Mono) -> Option<String> {
        self.figures = Figures::new(self.shared.zero());
        self.base = base + self.thread.delay;
        self.release = self.base;
        self.active = !self.starts_with_a_wait();
        self.ground.expect(Due::At(self.base, self.relative_deadline()));
        let done = self.sleep_until(self.base).and_then(|()| {
            self.begin(self.base);
            self.active = !self.starts_with_a_wait();
            self.rounds()
        });
        let failed = match done {
            Ok(()) => {
                self.end(self.thread.deadline);
                None
            }
            Err(leave) => {
                self.cut();
                match leave {
                    Leave::Stopped => None,
                    Leave::Failed(why) => Some(why),
                }
            }
        };
        while let Some(mutex) = self.ground.held() {
            self.ground.unlock(mutex);
        }
        failed
    }

    /// Whether its first job is released by a wait: a mutex locked for the wait is not a job.
    fn starts_with_a_wait(&self) -> bool {
        let mut steps = self.thread.phases.first().into_iter().flat_map(|phase| &phase.steps);
        let first = steps.find(|step| !matches!(step, Step::Lock(_)));
        first.is_some_and(|step| self.is_boundary(step))
    }

    fn is_boundary(&self, step: &Step) -> bool {
        match self.thread.boundary {
            Boundary::Timer => matches!(step, Step::OwnTimer { .. } | Step::SharedTimer { .. }),
            Boundary::Sleep => matches!(step, Step::Sleep(_)),
            Boundary::Signal => matches!(
                step,
                Step::Wait(..) | Step::Sync(..) | Step::SemWait(_) | Step::Suspend(_) | Step::Barrier(_)
            ),
            Boundary::Repetition => false,
        }
    }

    fn rounds(&mut self) -> Done {
        let phases = std::mem::take(&mut self.thread.phases);
        let mut rounds = self.thread.loops;
        while rounds != Some(0) {
            for phase in &phases {
                self.phase(phase, rounds.is_none())?;
            }
            rounds = rounds.map(|left| left - 1);
        }
        Ok(())
    }

    fn phase(&mut self, phase: &Phase, again: bool) -> Done {
        self.enter(phase)?;
        let mut left = phase.loops;
        while left != Some(0) {
            left = left.map(|left| left - 1);
            // Releases of a backlog that this phase would still serve.
            self.more = left.filter(|_| !again).map_or(u64::MAX, u64::from);
            for step in &phase.steps {
                if self.shared.stop.load(Ordering::Relaxed) {
                    return Err(Leave::Stopped);
                }
                self.step(step)?;
                self.worked |= self.active && !self.is_boundary(step);
            }
            if self.thread.boundary == Boundary::Repetition {
                let now = self.end(self.thread.deadline);
                self.ground.expect(Due::At(now, self.thread.deadline));
                self.begin(clock::mono());
            }
        }
        Ok(())
    }

    /// Relative deadline of a job that no timer has released.
    fn relative_deadline(&self) -> Option<Ns> {
        self.thread.deadline.or(match self.rule {
            Rule::FiberEdf(shortest) => shortest,
            _ => None,
        })
    }

    /// Policy and CPUs of a phase.
    fn enter(&mut self, phase: &Phase) -> Done {
        let rule = phase.rule.filter(|rule| *rule != self.rule);
        self.ground.enter(rule, phase.cpus.as_ref()).map_err(Leave::Failed)?;
        self.rule = rule.unwrap_or(self.rule);
        Ok(())
    }

    /// Ends the job, if it did anything; returns the time.
    fn end(&mut self, deadline: Option<Ns>) -> Mono {
        let end = clock::mono();
        if self.worked {
            let job = Job {
                release: self.release,
                start: self.start,
                end,
                execution: self.used(),
                deadline,
                finished: true,
                cpu: self.ground.cpu(),
            };
            self.count(&job);
            self.ground.mark(Mark::Ends { release: job.release, late: job.lateness().is_some() });
        }
        (self.worked, self.active) = (false, false);
        end
    }

    fn used(&self) -> Ns {
        self.start.map_or(Ns::ZERO, |_| self.ground.cpu_time().saturating_sub(self.cpu_before))
    }

    fn count(&mut self, job: &Job) {
        self.figures.count(job);
        self.shared.live.count(job);
        if let Some(ring) = &self.ring {
            ring.push(job);
        }
    }

    /// Waits for a release at `due`, and begins its job, which has this relative deadline.
    fn next(&mut self, due: Mono, deadline: Option<Ns>) -> Done {
        self.ground.expect(Due::At(due, deadline));
        (self.release, self.start, self.active) = (due, None, true);
        let planned = self.shared.planned();
        if due >= planned {
            // The supervisor may be late: a reservation preempts even it.
            self.sleep_until(planned)?;
            return Err(Leave::Stopped);
        }
        self.sleep_until(due)?;
        self.begin(due);
        Ok(())
    }

    fn begin(&mut self, release: Mono) {
        self.cpu_before = self.ground.cpu_time();
        (self.release, self.active, self.worked) = (release, true, false);
        self.start = Some(clock::mono());
        self.ground.mark(Mark::Begins(release));
    }

    /// The run ends: an unfinished job counts with its time so far, and one that was due and has not started with its delay.
    fn cut(&mut self) {
        let end = self.shared.end();
        let (period, deadline) = match self.absolute_timer() {
            Some(period) => (Some(period), self.thread.deadline.or(Some(period))),
            // One that took longer than the longest period has missed the deadline of any timer.
            None => (None, self.thread.deadline.or(self.thread.deadlines_of_timers().map(|of| of.1))),
        };
        if !self.active || self.release >= end {
            return;
        }
        let cpu = self.ground.cpu();
        // If it began after the end, before this thread saw that, it does not count as started.
        let (mut release, start) = (self.release, self.start.filter(|start| *start < end));
        let execution = start.map_or(Ns::ZERO, |_| self.used());
        self.count(&Job { release, start, end, execution, deadline, finished: false, cpu });
        self.active = false;
        let Some(period) = period else { return };
        let mut more = self.more;
        release = release + period;
        while release < end && more > 0 {
            let execution = Ns::ZERO;
            self.count(&Job { release, start: None, end, execution, deadline, finished: false, cpu });
            (release, more) = (release + period, more - 1);
        }
    }

    /// Period of its absolute timer, if it has exactly one, which it does not share.
    fn absolute_timer(&self) -> Option<Ns> {
        let own = self.program.threads.iter().chain(self.program.templates.values());
        let phases = own.filter(|thread| thread.task == self.thread.task).flat_map(|thread| &thread.phases);
        let mut timers = phases.flat_map(|phase| &phase.steps).filter_map(|step| match step {
            Step::OwnTimer { period, absolute, .. } => Some((*period, *absolute)),
            Step::SharedTimer { period, .. } => Some((*period, false)),
            _ => None,
        });
        let first = timers.next()?;
        (first.1 && timers.all(|timer| timer == first)).then_some(first.0)
    }

    /// Sleeps until `due`; returns at once if that has passed.
    fn sleep_until(&mut self, due: Mono) -> Done {
        match self.ground.sleep_until(due) {
            true => Ok(()),
            false => Err(Leave::Stopped),
        }
    }
}

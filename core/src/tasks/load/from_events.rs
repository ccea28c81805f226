//! The jobs of a task, from its events: their work, sleeps and critical sections.

use std::collections::BTreeSet;

use super::super::set::{Event, Task};
use super::Section;
use crate::time::Ns;

/// The jobs of a task, from its events.
#[derive(Default)]
pub(super) struct Jobs {
    pub longest: Ns,
    /// The most sleeps inside one of them.
    pub suspensions: u64,
    /// The most locks inside one of them that may have to wait.
    pub locks: u64,
    /// Waits for a timer, or sleeps between two jobs.
    ended: u64,
    /// Period from timers.
    pub period: Option<Ns>,
    /// Period from sleeps.
    pub inferred: Option<Ns>,
    pub sections: Vec<Section>,
    seen: BTreeSet<Section>,
    /// A wait of unknown length, or none at all.
    pub waits: Option<String>,
    /// Work of unknown length.
    pub unsized_work: Option<String>,
    /// Its timer.
    timer: Option<String>,
}

/// What a job has done since its release.
#[derive(Clone, Copy, Default)]
struct Done {
    work: Ns,
    sleeps: u64,
    locks: u64,
}

/// A mutex that a job holds.
struct Held<'e> {
    mutex: &'e str,
    /// What the job had done when it locked it.
    start: Done,
    unbounded: Option<String>,
    within: Vec<String>,
}

impl Jobs {
    /// `contended`: the mutexes whose locks may have to wait, as in [`super::Load::locks`].
    pub fn of(task: &Task, contended: &BTreeSet<&str>) -> Jobs {
        let mut jobs = Jobs::default();
        let timed =
            task.phases.iter().flat_map(|phase| &phase.events).any(|event| matches!(event, Event::Timer(_)));
        let once = |jobs: &mut Jobs, done| {
            let phases = task.phases.iter();
            phases.fold(done, |done, phase| {
                jobs.repeat(phase.loops, done, |jobs, done| {
                    jobs.phase(&phase.events, (contended, timed), done)
                })
            })
        };
        jobs.repeat(task.loops, Done::default(), once);
        jobs
    }

    /// Does `once` as many times as `loops` says (`None`: for ever), beginning with what the current job has `done`; returns
    /// what the last job has done.
    fn repeat(
        &mut self,
        loops: Option<u32>,
        done: Done,
        mut once: impl FnMut(&mut Jobs, Done) -> Done,
    ) -> Done {
        let ended = self.ended;
        let first = once(self, done);
        let again = loops.map_or(u64::MAX, |times| u64::from(times.saturating_sub(1)));
        if again == 0 {
            return first;
        }
        if self.ended > ended {
            // The second iteration starts with the remaining work of the first; all later ones do the same.
            return once(self, first);
        }
        if loops.is_none() {
            let text = "it never waits: nothing separates its jobs";
            self.waits.get_or_insert_with(|| text.to_owned());
        }
        // Nothing ends the job between the iterations.
        let work = first.work.saturating_sub(done.work).0.saturating_mul(again);
        let sleeps = (first.sleeps - done.sleeps).saturating_mul(again);
        let locks = (first.locks - done.locks).saturating_mul(again);
        let all = Done {
            work: Ns(first.work.0.saturating_add(work)),
            sleeps: first.sleeps.saturating_add(sleeps),
            locks: first.locks.saturating_add(locks),
        };
        self.job(all);
        all
    }

    fn job(&mut self, done: Done) {
        self.longest = self.longest.max(done.work);
        self.suspensions = self.suspensions.max(done.sleeps);
        self.locks = self.locks.max(done.locks);
    }

    /// Processes the events once; returns what was done since the last release.
    fn phase(
        &mut self,
        events: &[Event],
        (contended, timed): (&BTreeSet<&str>, bool),
        mut done: Done,
    ) -> Done {
        let mut held: Vec<Held> = Vec::new();
        for event in events {
            match event {
                Event::Timer(timer) => {
                    if self.timer.get_or_insert_with(|| timer.reference.clone()) != &timer.reference {
                        let text =
                            "it waits for more than one timer: how far apart its jobs are is not known";
                        self.waits = Some(text.to_owned());
                    }
                    self.period = Some(self.period.map_or(timer.period, |known| known.min(timer.period)));
                    self.end(&mut done);
                    for one in &mut held {
                        (one.start, one.unbounded) = (done, Some("waits for its timer".to_owned()));
                    }
                }
                Event::Sleep(time) if timed || !held.is_empty() => {
                    if *time > Ns::ZERO {
                        done.sleeps = done.sleeps.saturating_add(1);
                        held.iter_mut().for_each(|one| one.unbounded = Some("sleeps".to_owned()));
                    }
                    done.work = done.work + *time;
                }
                Event::Sleep(time) if *time > Ns::ZERO => {
                    let apart = done.work + *time;
                    self.inferred = Some(self.inferred.map_or(apart, |known| known.min(apart)));
                    self.end(&mut done);
                }
                Event::Lock(mutex) => {
                    let within = held.iter().map(|outer| outer.mutex.to_owned()).collect();
                    done.locks = done.locks.saturating_add(u64::from(contended.contains(mutex.as_str())));
                    held.push(Held { mutex, start: done, unbounded: None, within });
                }
                Event::Unlock(mutex) => {
                    if let Some(at) = held.iter().rposition(|one| one.mutex == mutex) {
                        let Held { mutex, start, unbounded, within } = held.remove(at);
                        self.section(Section {
                            mutex: mutex.to_owned(),
                            start: start.work,
                            length: done.work.saturating_sub(start.work),
                            locks: done.locks.saturating_sub(start.locks),
                            within,
                            unbounded,
                        });
                    }
                }
                Event::Wait(..)
                | Event::Sync(..)
                | Event::Barrier(_)
                | Event::SemWait(_)
                | Event::Suspend(_) => {
                    let why = format!("waits by {}", event.key());
                    held.iter_mut().for_each(|one| one.unbounded = Some(why.clone()));
                    self.waits = Some(format!("it {why}: how long is not known to the analysis"));
                }
                other => match other.work() {
                    Some(time) => done.work = done.work + time,
                    None => {
                        let why = format!("does {}, whose time is not known", other.key());
                        held.iter_mut().for_each(|one| one.unbounded = Some(why.clone()));
                        self.unsized_work = Some(format!("it {why}: give \"wcet\""));
                    }
                },
            }
        }
        self.job(done);
        done
    }

    /// A job ends.
    fn end(&mut self, done: &mut Done) {
        self.job(std::mem::take(done));
        self.ended += 1;
    }

    fn section(&mut self, section: Section) {
        if self.seen.insert(section.clone()) {
            self.sections.push(section);
        }
    }
}

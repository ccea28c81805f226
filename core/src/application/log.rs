//! Splits the activations of a thread into jobs, at its main wait.
//!
//! The first [`LEARNING`] activations of a thread are buffered to infer the main wait (`main_wait`), then processed: it
//! is the place where the thread blocked most often; but a place where timers woke it wins with half as many, as does a
//! deliberate wait over a possible mutex, and sleeps until regular times win over all. A thread with fewer activations
//! is judged by those.

use std::sync::Arc;

use super::candidates::Candidates;
use super::chain::Seen;
use super::cycles::Cycles;
use super::ends::Ends;
use super::job::{Due, Jobs};
use super::misses::Finished;
use super::part::{joined, sum, Part};
use super::paused::Paused;
use super::places::{call_of, Id, Places};
use super::several::Several;
use super::spinning::Spinning;
use super::sums::Sums;
use super::unfinished::{State, Unfinished};
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, LateSleeps, Point, Via, Who};

mod backlog;
mod ending;
mod interrupted;
mod later;
mod learning;
mod over;
mod renamed;
mod report;
mod resumed;
mod trial;
mod windows;

use later::Later;
use over::release;
use renamed::Named;
use resumed::WaitedIn;
use trial::Trial;

const LEARNING: usize = 64;
/// Maximum number of waits per job that returned at once and are kept separately.
const PARTS: usize = 64;
/// Maximum number of remembered wakers.
const WAKERS: usize = 16;
/// Minimum number of activations to infer the main wait when a window ends, and to report a later one.
const FEW: usize = 8;

/// One thread.
#[derive(Clone)]
pub(super) struct Log {
    learning: Vec<Activation>,
    /// How many of them are of earlier windows.
    reported: usize,
    places: Places,
    main: Option<Id>,
    /// The user's pattern for the place where its jobs start.
    chosen: Option<Arc<str>>,
    /// The call site in that pattern.
    chosen_call: Option<u32>,
    sums: Sums,
    current: Option<CurrentJob>,
    /// Place and time of its last block.
    left: Option<(Id, Mono)>,
    /// Its last activation.
    before: Option<Activation>,
    /// Start of the main sleep that a signal interrupted.
    slept_from: Option<Mono>,
    /// Sleeps that had passed since the last release.
    late: Option<LateSleeps>,
    /// Start of the current time in which jobs may be lost.
    lost_since: Option<Mono>,
    /// The activation in progress at the end.
    open: Option<(Activation, State)>,
    /// The job without an end.
    unfinished: Option<Unfinished>,
    /// The job in progress when the window ended.
    going_on: Option<Unfinished>,
    stopped: Option<Ns>, // in its main wait, until the recording ended
    /// Jobs for all possible main waits, and the time outside jobs.
    candidates: Candidates,
    /// Jobs with their activations, if requested.
    jobs: Option<Jobs>,
    due: Due,
    /// Its names, and its jobs under names with another deadline.
    names: Named,
    /// Recorded jobs that may be parts of one job.
    cycles: Cycles,
    /// Activations that continue after a wait that returned at once.
    part: Option<Part>,
    /// Late recorded jobs that may be several jobs.
    several: Several,
    /// Waits within jobs that may end them.
    ends: Ends,
    /// Whether its main wait is evidence of releases.
    paused: Paused,
    /// Whether it may spin after its main wait.
    spinning: Spinning,
    /// Its wakers.
    wakers: Vec<Tid>,
    /// Those of them that work for it: threads of its process, and those that it wakes, too.
    answering: Vec<Tid>,
    /// The thread that created it, if recorded.
    created_by: Option<Tid>,
    /// Futexes that are not mutexes.
    not_mutexes: Vec<u64>,
    /// It was recorded from its start, and no main wait has ended yet.
    is_starting: bool,
    waited_in: WaitedIn,
    /// Finished jobs, for a chain; `None`: not part of a chain.
    finished: Option<Vec<Seen>>,
    /// Release of its first activation.
    first: Option<Mono>,
    /// The timer of the call ended its main wait at least once.
    ended_by_call: bool,
    /// Another main wait that may show.
    trial: Option<Trial>,
    /// Jobs by another main wait after the last job.
    later: Later,
    /// The largest [`Activation::rounded`] of the releases of its jobs.
    rounded: Option<Ns>,
}

/// The current job.
#[derive(Clone, Copy)]
struct CurrentJob {
    begin: Mono,
    execution: Ns,
    late: Option<LateSleeps>,
    /// How, by which thread and when it was released.
    via: Via,
    by_timerfd: bool,
    waker: Tid,
    waking: Mono,
    /// Release of its current part, and the longest previous part.
    part: Mono,
    longest: Ns,
    /// End of its last timed wait in another place where jobs may begin, and the longest span before such a wait.
    rested: Option<(Mono, Ns)>,
    /// The same of waits until absolute times, in a job that a timer released: each may be the wait for another job.
    alternated: Option<(Mono, Ns)>,
    /// End of its first wait for input from a thread that does not work for it, and the longest span around that wait.
    fed: Option<(Mono, Ns)>,
    /// Its longest wait for a mutex.
    locked: Option<Ns>,
    /// From the release until it ran.
    delay: Ns,
    /// It began in the main sleep, but not at its end.
    is_interrupted: bool,
    /// By how much earlier than its release the program may have asked for it.
    rounded: Ns,
}

impl Log {
    pub fn new(deadline: Option<Ns>, chosen: Option<Arc<str>>) -> Log {
        Log {
            learning: Vec::new(),
            reported: 0,
            places: Places::default(),
            main: None,
            chosen_call: chosen.as_deref().and_then(call_of),
            chosen,
            sums: Sums::new(deadline),
            current: None,
            left: None,
            before: None,
            slept_from: None,
            late: None,
            lost_since: None,
            open: None,
            unfinished: None,
            going_on: None,
            stopped: None,
            candidates: Candidates::default(),
            jobs: None,
            due: Due { deadline, is_period: false },
            names: Named::default(),
            cycles: Cycles::default(),
            part: None,
            several: Several::default(),
            ends: Ends::default(),
            paused: Paused::default(),
            spinning: Spinning::default(),
            wakers: Vec::new(),
            answering: Vec::new(),
            created_by: None,
            not_mutexes: Vec::new(),
            is_starting: false,
            waited_in: WaitedIn::default(),
            finished: None,
            first: None,
            ended_by_call: false,
            trial: None,
            later: Later::default(),
            rounded: None,
        }
    }

    /// Adds an activation. Returns whether it blocked in a new place, and its waker if that is new.
    pub fn add(
        &mut self,
        activation: &Activation,
        name: fn(Point) -> Option<&'static str>,
    ) -> (bool, Option<Tid>) {
        let last = self.learning.last().or(self.before.as_ref()).copied();
        let resumed = self.waited_in.resumed(activation, last.as_ref(), name);
        let activation = resumed.as_ref().unwrap_or(activation);
        let told = self.without_kicks(activation);
        let told = self.without_barriers(told.as_ref().unwrap_or(activation), name).or(told);
        let activation = told.as_ref().unwrap_or(activation);
        let first = self.before.is_none() && self.learning.is_empty() && activation.is_first();
        self.created_by = self.created_by.or(first.then_some(activation.waker.tid));
        let waker = if first { None } else { self.new_waker(activation) };
        if let Some(last) = last {
            self.perhaps_asked(activation, &last, name);
        }
        self.is_starting |= first;
        (self.add_one(activation, name), waker)
    }

    fn add_one(&mut self, activation: &Activation, name: fn(Point) -> Option<&'static str>) -> bool {
        let (place, fresh) = self.place_of(activation, name);
        if self.main.is_some() {
            self.step_on_trial(activation, place, fresh, name);
            self.add_later(activation, place, name);
            return fresh;
        }
        self.learning.push(*activation);
        self.perhaps_a_job(place, name);
        if self.learning.len() >= LEARNING && self.has_learnt(name) {
            self.decide(name);
        }
        fresh
    }

    /// The place where it blocked; a call site chosen by the user is a place of its own.
    fn place_of(&mut self, a: &Activation, name: fn(Point) -> Option<&'static str>) -> (Id, bool) {
        let chosen = self.chosen_call.filter(|&call| call == a.site);
        self.places.of(Point { site: chosen.unwrap_or_default(), ..a.point }, name)
    }

    /// Time of its last block.
    pub fn last(&self) -> Mono {
        self.learning.last().or(self.before.as_ref()).map_or(Mono(0), |last| last.blocked)
    }

    /// Whether `activation` is of another thread with the same id: of another process, a new one, or one that took over
    /// the id in execve.
    pub fn is_of_another(&self, activation: &Activation) -> bool {
        let ended = |at: &Activation| at.point.syscall == Point::EXITS;
        let last = self.learning.last().or(self.before.as_ref());
        last.is_some_and(|last| last.tgid != activation.tgid || (ended(last) && !ended(activation)))
    }

    /// Its process, once an activation ended.
    pub fn process(&self) -> Option<Tid> {
        self.learning.last().or(self.before.as_ref()).map(|last| last.tgid)
    }

    pub fn is_empty(&self) -> bool {
        self.unfinished.is_none()
            && self.going_on.is_none()
            && self.has_no_figures()
            && !self.names.has_earlier_figures()
    }

    fn has_no_figures(&self) -> bool {
        self.sums.is_empty() && self.learning.len() == self.reported && self.candidates.outside().is_none()
    }

    /// It ran for `ran` without an activation.
    pub fn never_waited(&mut self, who: Who, process: Tid, policy: u8, ran: Ns) {
        self.sums.is_of(who, process, policy);
        self.candidates.unseen(Mono(0), Mono(ran.0));
    }

    /// The main wait, as the point of one of `stream`.
    #[cfg(test)]
    pub fn main_point(&mut self, stream: &[Activation], name: fn(Point) -> Option<&'static str>) -> Point {
        let main = self.main;
        let found = stream.iter().find(|one| Some(self.places.of(one.point, name).0) == main);
        found.map(|one| one.point).unwrap_or_default()
    }

    /// Processes an activation; one that continues after a wait elsewhere that returned at once is held.
    fn step(&mut self, activation: &Activation, place: Id, name: fn(Point) -> Option<&'static str>) {
        let elsewhere = activation.at_once && Some(place) != self.main;
        if self.part.is_none() && !elsewhere {
            return self.step_whole(std::slice::from_ref(activation), place, name);
        }
        if self.part.as_ref().is_some_and(|part| !part.goes_on_in(activation)) {
            self.end_part(name);
        }
        let mut activations = self.part.take().map_or_else(Vec::new, |part| part.activations);
        activations.push(*activation);
        if elsewhere && activations.len() < PARTS {
            self.part = Some(Part { activations, place });
        } else {
            self.step_whole(&activations, place, name);
        }
    }

    /// `parts`: one activation, split at waits that returned at once.
    fn step_whole(&mut self, parts: &[Activation], place: Id, name: fn(Point) -> Option<&'static str>) {
        let (Some(whole), Some((last, cuts))) = (joined(parts), parts.split_last()) else { return };
        let activation = &*whole;
        self.renamed(activation);
        let before = self.before.replace(*activation);
        let open = self.current.is_some();
        let lacks = before.is_some_and(|before| self.sums.lacks_between(&before, activation, open));
        if self.was_stopped_in_wait(before.as_ref(), activation) || lacks {
            // The overruns of the job are known, even if its end is not.
            self.lost_behind(before);
            let overran = self.current.take().and_then(|job| job.late);
            self.sums.overran(overran, None);
            (self.left, self.late, self.slept_from, self.is_starting) = (None, None, None, false);
            self.sums.forget_release();
            self.cycles.forget();
            self.paused.forget();
            self.ends.forget();
            self.candidates.forget(self.lost_since);
            self.jobs.iter_mut().for_each(Jobs::forget);
        }
        let left = self.left.map(|(left, since)| (left, self.places.get(left), since));
        self.candidates.woken(activation, left.as_ref(), before.as_ref(), self.main);
        match self.left {
            Some((left, _)) if Some(left) == self.main => {
                let late = self.late.take().and_then(|late| self.without_the_first_sleep(late));
                self.is_starting = false;
                let begin = release(activation, late);
                let is_interrupted = self.is_interrupted(activation);
                self.current = Some(CurrentJob::released(activation, begin, is_interrupted));
                self.several.released(activation.via);
                self.ends.released(begin);
                self.jobs.iter_mut().for_each(Jobs::begins);
                if !is_interrupted {
                    self.sums.released(activation, begin, late);
                    self.jobs.iter_mut().for_each(|jobs| jobs.set_period(self.sums.known_period()));
                    self.cycles.released(begin, self.sums.period_ns());
                }
                self.slept(activation, begin, is_interrupted);
            }
            Some((left, since)) => {
                self.sums.blocked(left, activation.waking.since(since), since, over::released_by(activation));
                self.perhaps_idle(left, since, activation);
                self.perhaps_end(left, since, before.as_ref(), activation);
                let locked = self.is_mutex(left, before.as_ref()).then(|| activation.waking.since(since));
                self.current.iter_mut().for_each(|job| job.locked = job.locked.max(locked));
            }
            None => {}
        }
        self.late = sum(self.late, activation.late_sleeps);
        self.sums.woken(activation);
        cuts.iter().for_each(|cut| self.cut(cut, name));
        if let Some(job) = &mut self.current {
            job.execution = job.execution + last.execution;
            job.late = sum(job.late, last.late_sleeps);
            self.jobs.iter_mut().for_each(|jobs| jobs.step(last, name));
        }
        if Some(place) == self.main {
            self.lost_until(activation.blocked);
            let job = self.current.take();
            let late = job.map_or(self.late, |job| job.late);
            let (last_one, last) = (last, late.map(|late| activation.blocked.since(late.last)));
            if let Some(job) = job.filter(|job| !self.is_no_job(job, activation.blocked.since(job.part))) {
                self.cycles.finished(activation.blocked);
                self.ends.finished(activation.blocked, self.due.deadline);
                self.is_over(&job, job.part, activation);
                let response = activation.blocked.since(job.part);
                self.paused.finished(response);
                self.spinning.finished(job.delay, response, job.execution);
                self.rounded = self.rounded.max(Some(job.rounded).filter(|&rounded| rounded > Ns::ZERO));
                self.perhaps_several(&job, last_one, place);
                self.jobs.iter_mut().for_each(|jobs| jobs.ends(job.part, activation.blocked, name));
                self.sums.finished(job.execution, Finished { response: Some(response), late, last });
            } else {
                self.sums.overran(late.and_then(|late| self.without_the_first_sleep(late)), last);
            }
        }
        let ended = self.places.get(place).is_exit();
        self.candidates.blocked(
            activation.blocked,
            Some(place) == self.main,
            ended,
            self.current.map(|t| t.begin),
        );
        self.left = Some((place, activation.blocked));
    }
}

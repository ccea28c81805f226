//! From activations to turns: which wait is the main one, and what lay between two of them.
//!
//! The first [`LEARNING`] activations of a thread are only looked at, then gone through again: the main wait (`main_wait`)
//! is the place where it blocked most often, but a place from which timers woke it wins when it has half as many, so does
//! one where threads wait on purpose over what may be a mutex, and sleeps until regular times win over all. A thread that
//! never comes to so many is judged by those it has.

use std::sync::Arc;

use super::candidates::Candidates;
use super::chain::Seen;
use super::cycles::Cycles;
use super::deadlines::{fits, Deadlines};
use super::job::{Due, Job, Jobs};
use super::main_wait::main_wait;
use super::misses::Finished;
use super::part::{joined, Part};
use super::places::{call_of, Id, Places};
use super::point::EXIT;
use super::several::Several;
use super::sums::Sums;
use super::task::Task;
use super::unfinished::{State, Unfinished};
use crate::comm::Comm;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, LateSleeps, Point, Via, Who};

mod backlog;
mod ending;
mod over;
mod resumed;

use resumed::WaitedIn;

const LEARNING: usize = 64;
/// How many waits of a turn that returned at once are kept apart.
const PARTS: usize = 64;
/// Threads that are remembered to wake one.
const WAKERS: usize = 16;
/// So many suffice when a window ends; fewer are judged anew in the next one.
const FEW: usize = 8;

/// One thread.
#[derive(Clone)]
pub(super) struct Log {
    learning: Vec<Activation>,
    places: Places,
    main: Option<Id>,
    /// A pattern for the place where its jobs begin.
    chosen: Option<Arc<str>>,
    /// One of the program's calls there.
    chosen_call: Option<u32>,
    sums: Sums,
    turn: Option<Turn>,
    /// Where and when it blocked last.
    left: Option<(Id, Mono)>,
    /// Its last activation.
    before: Option<Activation>,
    /// Sleeps that had passed since the last release.
    late: Option<LateSleeps>,
    /// Since when turns may lie in which activations were lost.
    lost_since: Option<Mono>,
    /// What goes on at the end.
    open: Option<(Activation, State)>,
    /// The turn that has no end.
    unfinished: Option<Unfinished>,
    /// Turns at all places that may be the main wait, and what is in no turn.
    candidates: Candidates,
    /// Turns with all that they were made of, where they are asked for.
    jobs: Option<Jobs>,
    due: Due,
    /// Turns that may be parts of one job.
    cycles: Cycles,
    /// An activation that goes on after a wait that returned at once.
    part: Option<Part>,
    /// Late turns that may be several jobs.
    several: Several,
    /// Threads that woke it.
    wakers: Vec<Tid>,
    /// The thread that created it, where that was recorded.
    created_by: Option<Tid>,
    waited_in: WaitedIn,
    /// Turns that are over, for a chain; `None`: there is none.
    turns: Option<Vec<Seen>>,
    comm: Option<Comm>,
}

/// A turn that goes on.
#[derive(Clone, Copy)]
struct Turn {
    begin: Mono,
    execution: Ns,
    late: Option<LateSleeps>,
    /// Who released it, and when.
    via: Via,
    waker: Tid,
    waking: Mono,
    /// Since when the part of it that goes on was due, and the longest part before.
    part: Mono,
    longest: Ns,
}

impl Log {
    pub fn new(deadline: Option<Ns>, chosen: Option<Arc<str>>) -> Log {
        Log {
            learning: Vec::new(),
            places: Places::default(),
            main: None,
            chosen_call: chosen.as_deref().and_then(call_of),
            chosen,
            sums: Sums::new(deadline),
            turn: None,
            left: None,
            before: None,
            late: None,
            lost_since: None,
            open: None,
            unfinished: None,
            candidates: Candidates::default(),
            jobs: None,
            due: Due { deadline, is_period: false },
            cycles: Cycles::default(),
            part: None,
            several: Several::default(),
            wakers: Vec::new(),
            created_by: None,
            waited_in: WaitedIn::default(),
            turns: None,
            comm: None,
        }
    }

    /// The deadline goes by the name, which may be another one from `activation` on.
    pub fn named(&mut self, activation: &Activation, deadlines: &Deadlines) {
        if self.comm.replace(activation.thread.comm) == Some(activation.thread.comm) {
            return;
        }
        self.due = deadlines.due(&activation.thread.comm.text());
        self.sums.set_deadline(self.due.deadline);
        self.jobs.iter_mut().for_each(|jobs| jobs.set_due(self.due));
    }

    /// Jobs longer than `least` are asked for, and the longest of all; `None`: none is.
    pub fn ask_for_jobs(&mut self, least: Option<Ns>) {
        if let Some(least) = least {
            self.jobs.get_or_insert_with(|| Jobs::new(self.due)).least = least;
        }
    }

    /// Those that ended.
    pub fn take_jobs(&mut self) -> Vec<Job> {
        self.jobs.as_mut().map(Jobs::take).unwrap_or_default()
    }

    /// Whether it blocked where this thread had not blocked before, and a thread that had not woken it before.
    pub fn add(
        &mut self,
        activation: &Activation,
        name: fn(Point) -> Option<&'static str>,
    ) -> (bool, Option<Tid>) {
        let activation =
            &self.waited_in.resumed(activation, self.learning.last().or(self.before.as_ref()), name);
        let waker = self.new_waker(activation);
        let first = self.before.is_none() && self.learning.is_empty() && activation.is_first();
        self.created_by = self.created_by.or_else(|| waker.filter(|_| first));
        (self.add_one(activation, name), waker)
    }

    fn add_one(&mut self, activation: &Activation, name: fn(Point) -> Option<&'static str>) -> bool {
        let (place, fresh) = self.place_of(activation, name);
        if self.main.is_some() {
            self.step(activation, place, name);
            return fresh;
        }
        self.learning.push(*activation);
        self.perhaps_a_job(place, name);
        if self.learning.len() >= LEARNING {
            self.decide(name);
        }
        fresh
    }

    /// Where it blocked: where one of the program's calls was chosen, that is a place of its own.
    fn place_of(&mut self, a: &Activation, name: fn(Point) -> Option<&'static str>) -> (Id, bool) {
        let chosen = self.chosen_call.filter(|&call| call == a.site);
        self.places.of(Point { site: chosen.unwrap_or_default(), ..a.point }, name)
    }

    /// While the main wait is not known: the evidence of a job must be asked for before it is overwritten.
    fn perhaps_a_job(&mut self, place: Id, name: fn(Point) -> Option<&'static str>) {
        if self.jobs.is_none() {
            return;
        }
        let learning = std::mem::take(&mut self.learning);
        let places: Vec<Id> = learning.iter().map(|one| self.place_of(one, name).0).collect();
        self.learning = learning;
        if main_wait(&self.learning, &places, &self.places, self.chosen.as_deref()) != Some(place) {
            return;
        }
        let before = places[..places.len() - 1].iter().rposition(|one| *one == place);
        let Some(turn) = before.and_then(|before| self.learning.get(before + 1..)) else { return };
        if let (Some(jobs), Some(first)) = (&mut self.jobs, turn.first()) {
            jobs.provisional(first.begin(), turn);
        }
    }

    /// Counts anew, and goes on with what it knows; false when the thread did nothing since the last call.
    pub fn begin_window(&mut self, name: fn(Point) -> Option<&'static str>) -> bool {
        let active = !self.is_empty();
        if self.learning.len() >= FEW {
            self.decide(name);
        }
        self.before = self.learning.last().copied().or(self.before);
        self.learning.clear();
        self.sums.begin_window();
        self.candidates.begin_window();
        self.jobs.iter_mut().for_each(Jobs::begin_window);
        self.cycles.begin_window();
        self.several.begin_window();
        // Places of a window that is over are forgotten, or a thread with ever new ones would soon have no room.
        let left = self.left.map(|(left, _)| left);
        let part = self.part.as_ref().map(|part| part.place);
        let kept = self.places.forget_but([self.main, left, part]);
        self.part = self.part.take().and_then(|part| Some(Part { place: kept[2]?, ..part }));
        self.main = kept[0];
        self.left = kept[1].zip(self.left).map(|(id, (_, since))| (id, since));
        active
    }

    /// When it blocked last.
    pub fn last(&self) -> Mono {
        self.learning.last().or(self.before.as_ref()).map_or(Mono(0), |last| last.blocked)
    }

    /// Whether `activation` is of another thread, which got the id of this one when it had ended: one of another process,
    /// a new one, or the one that begins a program and takes the place of the first.
    pub fn is_of_another(&self, activation: &Activation) -> bool {
        let ended = |at: &Activation| at.point.syscall == Point::EXITS;
        let last = self.learning.last().or(self.before.as_ref());
        last.is_some_and(|last| last.tgid != activation.tgid || (ended(last) && !ended(activation)))
    }

    pub fn is_empty(&self) -> bool {
        self.sums.is_empty() && self.learning.is_empty() && self.candidates.outside().is_none()
    }

    /// It ran for so long and has no activation.
    pub fn never_waited(&mut self, who: Who, process: Tid, policy: u8, ran: Ns) {
        self.sums.is_of(who, process, policy);
        self.candidates.unseen(Mono(0), Mono(ran.0));
    }

    pub fn report(&self, name: fn(Point) -> Option<&'static str>) -> Task {
        if self.main.is_some() {
            return self.report_decided();
        }
        let mut decided = self.clone();
        decided.decide(name);
        decided.report_decided()
    }

    /// Where one of `stream` blocked that is its main wait.
    #[cfg(test)]
    pub fn main_point(&mut self, stream: &[Activation], name: fn(Point) -> Option<&'static str>) -> Point {
        let main = self.main;
        let found = stream.iter().find(|one| Some(self.places.of(one.point, name).0) == main);
        found.map(|one| one.point).unwrap_or_default()
    }

    fn report_decided(&self) -> Task {
        let main = self.main.map(|main| self.places.get(main).name);
        let is_chosen = self.chosen.as_deref().zip(main).is_some_and(|(pattern, main)| fits(pattern, &main));
        let mut task = self.sums.report(self.main, &self.places, self.lost_since.is_some());
        if task.activations == 0 {
            task.released_by.extend(self.created_by);
        }
        Task {
            is_chosen,
            unfinished: self.unfinished.clone(),
            outside_ns: self.candidates.outside(),
            other_turns: self.candidates.report(&self.places),
            late_causes: self.jobs.as_ref().map(Jobs::causes).unwrap_or_default(),
            several_waits: self.cycles.report(&self.sums.distances()),
            off_period_ns: self.cycles.off_period(self.sums.period_ns()),
            several_jobs: self.several.report(self.sums.shortest_distance()),
            ..task
        }
    }

    fn decide(&mut self, name: fn(Point) -> Option<&'static str>) {
        let learnt = std::mem::take(&mut self.learning);
        let places: Vec<Id> = learnt.iter().map(|one| self.place_of(one, name).0).collect();
        self.main = main_wait(&learnt, &places, &self.places, self.chosen.as_deref());
        learnt.iter().zip(places).for_each(|(activation, place)| self.step(activation, place, name));
    }

    /// The next activation; one that goes on after a wait elsewhere that returned at once is held until it is whole.
    fn step(&mut self, activation: &Activation, place: Id, name: fn(Point) -> Option<&'static str>) {
        let elsewhere = activation.at_once && Some(place) != self.main;
        if self.part.is_none() && !elsewhere {
            return self.step_whole(&[*activation], place, name);
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

    /// `parts`: what is one activation but for waits that returned at once.
    fn step_whole(&mut self, parts: &[Activation], place: Id, name: fn(Point) -> Option<&'static str>) {
        let (Some(whole), Some((last, cuts))) = (joined(parts), parts.split_last()) else { return };
        let activation = &whole;
        let before = self.before.replace(*activation);
        let open = self.turn.is_some();
        if before.is_some_and(|before| self.sums.lacks_between(&before, activation, open)) {
            // What the turn overran is known, however it ended.
            self.lost_behind(before);
            let overran = self.turn.take().and_then(|turn| turn.late);
            self.sums.overran(overran, None);
            (self.left, self.late) = (None, None);
            self.sums.forget_release();
            self.cycles.forget();
            self.candidates.forget(self.lost_since);
            self.jobs.iter_mut().for_each(Jobs::forget);
        }
        let left = self.left.map(|(left, since)| (left, self.places.get(left), since));
        self.candidates.woken(activation, left.as_ref(), before.as_ref(), self.main);
        match self.left {
            Some((left, _)) if Some(left) == self.main => {
                let late = self.late.take();
                let begin = release(activation, late);
                self.turn = Some(Turn::released(activation, begin));
                self.jobs.iter_mut().for_each(Jobs::begins);
                self.sums.released(activation, begin, late);
                self.jobs.iter_mut().for_each(|jobs| jobs.set_period(self.sums.known_period()));
                self.cycles.released(begin, self.sums.period_ns());
                let since = self.left.map_or(activation.waking, |(_, since)| since);
                self.sums.waited(activation, activation.waking.since(since));
            }
            Some((left, since)) => {
                self.sums.blocked(left, activation.waking.since(since), since, released_by(activation));
            }
            None => {}
        }
        self.late = sum(self.late, activation.late_sleeps);
        self.sums.woken(activation);
        cuts.iter().for_each(|cut| self.cut(cut, name));
        if let Some(turn) = &mut self.turn {
            turn.execution = turn.execution + last.execution;
            turn.late = sum(turn.late, last.late_sleeps);
            self.jobs.iter_mut().for_each(|jobs| jobs.step(last, name));
        }
        if Some(place) == self.main {
            self.lost_until(activation.blocked);
            let turn = self.turn.take();
            let late = turn.map_or(self.late, |turn| turn.late);
            let (last_one, last) = (last, late.map(|late| activation.blocked.since(late.last)));
            if let Some(turn) = turn {
                self.cycles.finished(activation.blocked);
                self.is_over(&turn, turn.part, activation);
                let response = Some(activation.blocked.since(turn.part));
                self.perhaps_several(&turn, last_one, place);
                self.jobs.iter_mut().for_each(|jobs| jobs.ends(turn.part, activation.blocked, name));
                self.sums.finished(turn.execution, Finished { response, late, last });
            } else {
                self.sums.overran(late, last);
            }
        }
        let ended = self.places.get(place).name == EXIT;
        self.candidates.blocked(
            activation.blocked,
            Some(place) == self.main,
            ended,
            self.turn.map(|t| t.begin),
        );
        self.left = Some((place, activation.blocked));
    }
}

/// Of a timer that was armed late, the release is what was asked for.
fn release(activation: &Activation, late: Option<LateSleeps>) -> Mono {
    let asked = late.filter(|_| activation.armed_late).map(|late| late.last);
    asked.unwrap_or(activation.begin()).min(activation.switched_in)
}

pub(super) fn sum(a: Option<LateSleeps>, b: Option<LateSleeps>) -> Option<LateSleeps> {
    let (Some(a), Some(b)) = (a, b) else { return a.or(b) };
    Some(LateSleeps { count: a.count.saturating_add(b.count), last: b.last, most: a.most.max(b.most) })
}

/// Who ended the wait; `None` for a timer or an interrupt.
fn released_by(activation: &Activation) -> Option<Who> {
    (activation.via == Via::Thread).then_some(activation.waker)
}

//! The end of a thread's recording: the job in progress, and losses after the last activation.

use super::super::candidates::may_queue;
use super::super::places::Id;
use super::super::unfinished::{State, Unfinished};
use super::over::release;
use super::{CurrentJob, Log};
use crate::time::Mono;
use crate::trace::activation::{Activation, Point, Via};

impl Log {
    /// The activation in progress at the end.
    pub fn goes_on(&mut self, activation: &Activation, state: State) {
        self.sums.woken(activation);
        self.open = Some((*activation, state));
        self.later.log().into_iter().for_each(|log| log.goes_on(activation, state));
    }

    /// Ends the recording of this thread at `now`, to free its entry: a job in progress counts as time outside jobs.
    pub fn make_room(&mut self, now: Mono, name: fn(Point) -> Option<&'static str>) {
        let blocks = self.learning.last().or(self.before.as_ref()).map(|last| last.blocks);
        self.end(now, name, || blocks);
        if let Some(unfinished) = self.unfinished.take() {
            self.candidates.unseen(unfinished.since, now);
        }
    }

    /// The recording ends. `blocks`: number of times the thread has blocked by now; `None`: it has ended.
    pub fn end(
        &mut self,
        end: Mono,
        name: fn(Point) -> Option<&'static str>,
        blocks: impl Fn() -> Option<u16>,
    ) {
        if self.main.is_none() {
            self.decide(name);
        }
        if let Some(part) = self.part.take() {
            // The activation in progress completes it.
            let open = self.open.as_mut().filter(|(open, _)| part.goes_on_in(open));
            let whole = open.and_then(|open| {
                open.0 = super::joined(&[&part.activations[..], &[open.0]].concat())?.into_owned();
                Some(())
            });
            if whole.is_none() {
                self.step_whole(&part.activations, part.place, name);
            }
        }
        if let Some((activation, _)) = &self.open {
            self.candidates.goes_on(activation.begin(), activation.blocked, self.current.is_some());
        }
        self.unfinished = match self.open.take() {
            Some((activation, state)) => self.unfinished_in(&activation, state),
            None => {
                let blocks = blocks();
                if self.went_on_unseen(blocks) {
                    self.lost_behind(self.before);
                    self.candidates.unseen(self.lost_since.unwrap_or(end), end);
                } else if let Some(since) = self.is_stopped_in_main_wait() {
                    self.candidates.unseen(since, end);
                    self.stopped = Some(end.since(since));
                }
                self.unfinished_behind(end, blocks)
            }
        };
        if self.later.log().is_some() {
            self.end_later(end, name, blocks());
        }
        self.lost_until(end);
    }

    /// A job in which the thread has ended has no end: it is unfinished.
    pub fn ends_with_thread(&mut self) {
        let last = self.unfinished_behind(Mono(0), None).filter(|last| last.state == State::Ended);
        self.unfinished = self.unfinished.take().or(last);
    }

    /// The same.
    pub fn ended(mut self) -> Log {
        self.ends_with_thread();
        self
    }

    /// Processes the held part: the activation after it is lost.
    pub(super) fn end_part(&mut self, name: fn(Point) -> Option<&'static str>) {
        if let Some(part) = self.part.take() {
            self.step_whole(&part.activations, part.place, name);
        }
    }

    /// Earliest time from which it may have been running until the recording ended; `blocks`: see [`Log::end`].
    pub fn at_work_until_the_end(&self, blocks: Option<u16>) -> Option<Mono> {
        if let Some((open, _)) = &self.open {
            return Some(self.at_work_since(open));
        }
        let last = self.learning.last().or(self.before.as_ref())?;
        let unseen = blocks.map_or(last.point.syscall != Point::EXITS, |blocks| blocks != last.blocks);
        unseen.then_some(last.blocked)
    }

    /// Whether it ran unrecorded after its last activation; `blocks`: see [`Log::end`].
    fn went_on_unseen(&self, blocks: Option<u16>) -> bool {
        let Some(last) = &self.before else { return false };
        match blocks {
            Some(blocks) => blocks != last.blocks,
            None => last.point.syscall != Point::EXITS,
        }
    }

    /// Activations were lost after `before`: of the current job, or of one with an earlier due time.
    pub(super) fn lost_behind(&mut self, before: Option<Activation>) {
        let begun = self.current.map(|job| job.begin).or(before.map(|before| before.blocked));
        let late = self.current.map_or(self.late, |job| job.late).map(|late| late.last);
        let since = [begun, late, self.lost_since].into_iter().flatten().min();
        self.lost_since = since;
    }

    /// Whether it was stopped where it waits for its next job, which may have been released meanwhile: it does not wait again
    /// then. A sleep shows when it should have ended.
    pub(super) fn was_stopped_in_wait(&mut self, before: Option<&Activation>, a: &Activation) -> bool {
        if !before.is_some_and(|before| before.stopped) || a.via != Via::Thread || a.late_sleeps.is_some() {
            return false;
        }
        let waits = |place| Some(place) == self.main && may_queue(self.places.get(place));
        let in_wait = self.left.is_some_and(|(left, _)| waits(left));
        if in_wait {
            self.sums.lacks_release();
        }
        in_wait
    }

    /// When it was stopped in its main wait, if it still is: it may have been released since.
    fn is_stopped_in_main_wait(&self) -> Option<Mono> {
        let is_stopped = self.before.is_some_and(|before| before.stopped);
        self.left.filter(|&(left, _)| is_stopped && Some(left) == self.main).map(|(_, since)| since)
    }

    /// The lost jobs had ended by `end`.
    pub(super) fn lost_until(&mut self, end: Mono) {
        self.lost_since.take().into_iter().for_each(|since| self.sums.lost_within(end.since(since)));
    }

    /// Release of the current part of `job`. The whole may still be one job.
    fn last_part(&mut self, job: &CurrentJob, end: Mono) -> Mono {
        if job.part > job.begin {
            self.candidates.unseen(job.begin, end);
        }
        job.part
    }

    fn unfinished_in(&mut self, a: &Activation, state: State) -> Option<Unfinished> {
        let before = self.before;
        let known = before.is_none_or(|before| !self.sums.lacks_between(&before, a, self.current.is_some()));
        if !known {
            self.lost_behind(before);
        }
        let left_main = known && self.left.is_some_and(|(left, _)| Some(left) == self.main);
        let released = left_main || state == State::Waits;
        let begin = match self.current.take().filter(|_| known) {
            Some(job) => self.last_part(&job, a.blocked),
            None if released => release(a, self.late),
            None => return None,
        };
        let out_of_quota = match state {
            State::Waits => a.woken_out_of_quota,
            State::Preempted => a.out_of_quota,
            _ => false,
        };
        let after_ns = a.blocked.since(begin);
        Some(Unfinished { state, since: begin, after_ns, place: None, out_of_quota, locked_ns: None })
    }

    /// The window ends at `end` and the recording goes on: notes a job that is not over. `open`: its activation, if it has a CPU
    /// or was preempted. If it waits, only for a mutex: it may have left its loop elsewhere.
    pub fn goes_on_at(
        &mut self,
        end: Mono,
        open: Option<&(Activation, State)>,
        blocks: impl Fn() -> Option<u16>,
    ) {
        let is_held = self.main.is_none() || self.part.is_some() || self.later.log().is_some();
        self.going_on = match open {
            _ if is_held => None,
            Some((activation, state)) => self.clone().unfinished_in(activation, *state),
            None if self.current.is_some() && self.waits_for_mutex() => self.unfinished_behind(end, blocks()),
            None => None,
        };
    }

    fn waits_for_mutex(&self) -> bool {
        self.left.is_some_and(|(left, _)| self.is_mutex(left, self.before.as_ref()))
    }

    /// Whether it waits for a mutex in `left`; `before`: the activation that ended there.
    pub(super) fn is_mutex(&self, left: Id, before: Option<&Activation>) -> bool {
        let place = self.places.get(left);
        let contended = before.is_some_and(|before| before.contended);
        Some(left) != self.main && place.may_be_mutex() && (contended || !place.may_be_plain_futex())
    }

    /// The job of the last activation, if it is not finished.
    fn unfinished_behind(&self, end: Mono, blocks: Option<u16>) -> Option<Unfinished> {
        let (job, (left, since)) = (self.current?, self.left?);
        let place = self.places.get(left);
        let (state, until) = if place.is_exit() { (State::Ended, since) } else { (State::Blocked, end) };
        if state == State::Blocked && blocks != self.before.map(|before| before.blocks) {
            return None; // see went_on_unseen()
        }
        let place = (state == State::Blocked).then(|| place.name.clone());
        let after_ns = until.since(job.part);
        let waits = (state == State::Blocked && self.waits_for_mutex()).then(|| end.since(since));
        let locked_ns = job.locked.max(waits);
        Some(Unfinished { state, since: job.part, after_ns, place, out_of_quota: false, locked_ns })
    }
}

//! Jobs that are released while the previous one runs, and that the thread takes without waiting.

use super::super::candidates::{may_begin_jobs, may_queue};
use super::super::cycles::is_regular;
use super::super::misses::Finished;
use super::super::paused::Timed;
use super::super::places::Id;
use super::super::point::{is_plain_futex, Class};
use super::super::several::{From, Late};
use super::super::sums::missing_between;
use super::{CurrentJob, Log, WAKERS};
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Point, Via};

/// Minimum number of intervals between releases to infer a period.
const KNOWN: usize = 8;

impl Log {
    /// Ends a part of a job, where a wait for a timer returned at once.
    pub(super) fn cut(&mut self, cut: &Activation, name: fn(Point) -> Option<&'static str>) {
        let (Some(job), Some(late)) = (&mut self.current, cut.late_sleeps) else { return };
        if self.later.log().is_some() {
            // Its jobs seem to start elsewhere by now: no part of it is a job.
            (job.execution, job.late) =
                (job.execution + cut.execution, super::sum(job.late, cut.late_sleeps));
            self.jobs.iter_mut().for_each(|jobs| jobs.step(cut, name));
            return;
        }
        let response = cut.blocked.since(job.part);
        let execution = std::mem::take(&mut job.execution) + cut.execution;
        let due = late.last.max(job.part).min(cut.blocked);
        let begin = std::mem::replace(&mut job.part, due);
        job.longest = job.longest.max(response);
        let of_job = *job;
        self.is_over(&of_job, begin, cut);
        let period = self.sums.period_ns();
        self.cycles.finished(cut.blocked);
        self.ends.finished(cut.blocked, self.due.deadline);
        self.ends.released(due);
        self.jobs.iter_mut().for_each(|jobs| {
            jobs.step(cut, name);
            jobs.ends(begin, cut.blocked, name);
            jobs.begins();
        });
        self.sums.finished(execution, Finished { response: Some(response), late: None, last: None });
        let next = Activation { switched_in: cut.blocked, armed_late: true, via: Via::Timer, ..*cut };
        self.sums.released(&next, due, None);
        self.cycles.released(due, period);
    }

    /// Notes a late job in which the thread may have taken another job without waiting. `last`: the activation that
    /// ends it.
    pub(super) fn perhaps_several(&mut self, job: &CurrentJob, last: &Activation, place: Id) {
        let end = last.blocked;
        let response = end.since(job.begin);
        let Some(deadline) = self.due.deadline.filter(|&deadline| response > deadline) else { return };
        let queues = may_queue(self.places.get(place));
        let sources = self.places.get(place).is_on_several().then_some(last.sources);
        let from = queues.then_some(From { via: job.via, sources, by_timerfd: job.by_timerfd });
        let part = (job.part > job.begin).then(|| job.longest.max(end.since(job.part)));
        // It armed a timer for a time that had passed: its next job may have started there, without a wait.
        let armed = job.late.filter(|late| queues && late.count > u16::from(last.at_once));
        let rearmed = armed.map(|late| late.most.max(end.since(late.last)));
        let part = rearmed.map(|certain| part.map_or(certain, |part| part.min(certain))).or(part);
        let idle = self.between_idle_waits(job, end);
        let fed = job.fed.filter(|_| self.chosen.is_none());
        let fed = fed.map(|(from, longest)| longest.max(end.since(from)));
        let is_periodic = self.is_periodic();
        let locked = job.locked.unwrap_or_default();
        let late = Late { begin: job.begin, end, deadline, part, fed, idle, locked, from };
        self.several.late(late, is_periodic);
    }

    /// Notes a wait elsewhere that a timer ended within a job: perhaps it was for the next job. A sleep was not: no release
    /// could have ended it. Where a timer released this job, too, a sleep until an absolute time may have been. If the job
    /// started after a relative sleep, perhaps that was within a job, and any wait elsewhere is for the next one. A thread of
    /// another process, which this one does not wake, may have ended a wait for another job.
    pub(super) fn perhaps_idle(&mut self, left: Id, since: Mono, ended: &Activation) {
        let place = self.places.get(left);
        // Last: it compares many releases.
        let polls = self.current.is_some() && may_begin_jobs(place) && self.polls();
        let Some(job) = self.current.as_mut() else { return };
        let (part, by_timer) = (job.part, ended.via == Via::Timer);
        let rests = |rested: &mut Option<(Mono, Ns)>| {
            let (from, longest) = rested.unwrap_or((part, Ns::ZERO));
            *rested = Some((ended.begin(), longest.max(since.since(from))));
        };
        let alternates = by_timer && job.via == Via::Timer && (place.is_read() || place.is_absolute_sleep());
        let slept = place.is_timeout() && ended.is_timeout();
        let queues = by_timer && !slept && (place.class == Class::Lock || may_queue(place));
        if alternates || queues || polls {
            rests(&mut job.rested);
        }
        if alternates {
            rests(&mut job.alternated);
        }
        let is_first = job.via == Via::Timer && job.fed.is_none();
        let foreign = ended.via == Via::Thread && !self.answering.contains(&ended.waker.tid);
        if is_first && foreign && place.class != Class::Lock && may_queue(place) {
            rests(&mut job.fed);
            self.several.fed(since.since(job.begin), ended.begin().since(since));
        }
    }

    /// Notes a wait elsewhere that may have ended the job: a timer ended it, or a thread that this one did not ask. A mutex does
    /// not end jobs, nor does a relative sleep in a thread with a timer. `before`: the activation that ended there.
    pub(super) fn perhaps_end(
        &mut self,
        left: Id,
        since: Mono,
        before: Option<&Activation>,
        ended: &Activation,
    ) {
        let (Some(job), place) = (&self.current, self.places.get(left)) else { return };
        let is_futex = place.may_be_plain_futex() && before.is_some_and(|before| !before.contended);
        let queues = is_futex || may_queue(place);
        let slept = place.is_timeout() && ended.is_timeout();
        let by_sleep = (place.is_relative_sleep() || slept) && job.via != Via::Timer;
        let may_end = match ended.via {
            Via::Timer => (queues && !slept) || by_sleep || place.is_absolute_sleep(),
            Via::Thread => !self.ends.asked(ended.waker.tid) && (queues || place.is_file_lock()),
            Via::Interrupt | Via::Unknown => false,
        };
        if may_end {
            self.ends.waited(left, since, ended.begin(), self.due.deadline);
        }
    }

    /// Notes who asked this thread for something: it ended a wait of this thread, and that is not the wait for a mutex. `before`:
    /// the activation that ended there.
    pub(super) fn perhaps_asked(
        &mut self,
        ended: &Activation,
        before: &Activation,
        name: fn(Point) -> Option<&'static str>,
    ) {
        let (place, _) = self.place_of(before, name);
        let place = self.places.get(place);
        let asks = may_begin_jobs(place) || place.may_be_plain_futex() && !before.contended;
        if asks && ended.via == Via::Thread && ended.waker.tid != ended.thread.tid {
            self.ends.is_asked_by(ended.waker.tid);
        }
    }

    /// The thread that asked it for something, once per thread.
    pub fn take_asker(&mut self) -> Option<Tid> {
        self.ends.take_asker()
    }

    /// All that this thread asks, also through others.
    pub fn asks(&self) -> &[Tid] {
        self.ends.asks()
    }

    /// A futex is not a mutex of glibc if the thread also waits there for another value: a barrier, for example.
    pub(super) fn without_barriers(
        &mut self,
        a: &Activation,
        name: fn(Point) -> Option<&'static str>,
    ) -> Option<Activation> {
        if !is_plain_futex(a.point, name) {
            return None;
        }
        let known = self.not_mutexes.contains(&a.point.argument);
        if !a.contended && !known && self.not_mutexes.len() < WAKERS {
            self.not_mutexes.push(a.point.argument);
            let of_it = |one: &&mut Activation| one.point == a.point && one.tgid == a.tgid;
            let before = self.learning.iter_mut().chain(&mut self.before).filter(of_it);
            before.for_each(|one| one.contended = false);
            self.jobs.iter_mut().for_each(|jobs| jobs.is_no_mutex(a.point));
        }
        (a.contended && known).then_some(Activation { contended: false, ..*a })
    }

    /// Whether its jobs seem to start after a relative sleep, or one until a time that is not computed.
    fn polls(&self) -> bool {
        self.main.map(|main| self.places.get(main)).is_some_and(|main| {
            let sleeps = main.is_absolute_sleep() || main.is_timeout();
            main.is_relative_sleep() || sleeps && self.sums.timed() == Timed::FromNow
        })
    }

    /// The longest span of `job` without such a wait: of any, and of those for which a periodic thread may wait ([`Late::idle`]).
    fn between_idle_waits(&self, job: &CurrentJob, end: Mono) -> Option<[Ns; 2]> {
        let whole = end.since(job.part);
        let longest = |waits: Option<(Mono, Ns)>| waits.map(|(from, longest)| longest.max(end.since(from)));
        let known = [longest(job.rested), longest(job.alternated)];
        let any = self.chosen.is_none() && known.iter().any(Option::is_some);
        any.then(|| known.map(|longest| longest.unwrap_or(whole)))
    }

    /// Whether most waits elsewhere are within a job: of a periodic thread. One that also waits until absolute times elsewhere
    /// may take turns between two places.
    pub(super) fn is_periodic(&self) -> bool {
        let distances = self.sums.distances();
        let main = self.main.map(|main| self.places.get(main));
        let periodic = distances.len() >= KNOWN && is_regular(&distances, 1)
            || main.is_some_and(|main| main.is_absolute_sleep());
        periodic && !self.polls()
    }

    /// The waker, if it ends a wait of this thread for the first time; at most [`WAKERS`] are remembered. Who only created it
    /// need not know of its jobs: the first thread of most programs, which runs often.
    pub(super) fn new_waker(&mut self, activation: &Activation) -> Option<Tid> {
        let tid = activation.waker.tid;
        let other = activation.via == Via::Thread && tid != activation.thread.tid;
        let new = other && self.wakers.len() < WAKERS && !self.wakers.contains(&tid);
        new.then(|| {
            self.wakers.push(tid);
            tid
        })
    }

    /// Earliest time from which it may have been running until the end of `next`.
    pub fn at_work_since(&self, next: &Activation) -> Mono {
        let last = self.learning.last().or(self.before.as_ref());
        let unseen = last.filter(|last| missing_between(last, next).0 > 0);
        unseen.map_or(next.switched_in, |last| last.blocked)
    }
}

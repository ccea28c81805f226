//! Late recorded jobs that may be several jobs, each in time.
//!
//! A semaphore, pipe or socket may already hold the next job when the thread returns to it: the thread does not block,
//! and two jobs look like one. No event shows the second release. But a releaser must have run for it: the last of the
//! jobs was released no later than the last time a releaser ran before its end. A job from then on is certain, and if
//! it is late, a late job is certain. If no releaser is known (an interrupt), a recorded job counts as one job if it is
//! not longer than the shortest interval between two releases.
//!
//! Jobs released by a timer are known better: each part between waits that returned at once (`part`) has a response
//! time. But in an event loop, a thread or an interrupt may release another job while the timer's job runs. A source that
//! always does so never ends a wait, so it does not show among the releases: unless the sources of the loop are known
//! ([`Sources`]), no length of one job is certain.
//!
//! A wait for a mutex is within one job, whoever held it: that job takes at least as long.
//!
//! A job may also wait for input from another thread, or the thread takes turns between two sources. The latter shows if the
//! input comes at its own times, whatever the job did before ([`Slope`]), and no recorded event is a request for it.

use std::collections::VecDeque;

use super::slope::Slope;
use super::task::SeveralJobs;
use crate::time::{Mono, Ns};
use crate::trace::activation::{Sources, Via};

/// Late jobs kept until the intervals between releases are known.
const KEPT: usize = 64;
/// A kind of source counts if it made at least one in this many of the releases, and two of them.
const OFTEN: u64 = 64;
/// Number of remembered runs of releasers.
const RUNS: usize = 256;

/// State of one thread.
#[derive(Clone, Default)]
pub(super) struct Several {
    /// Runs of releasers (from, until), in the order of their ends.
    ran: VecDeque<(Mono, Mono)>,
    spans: VecDeque<Late>,
    sum: Option<SeveralJobs>,
    /// Releases so far, by timers, threads and interrupts.
    releases: [u64; 3],
    /// The first waits for input in its jobs: of their length on the time before them.
    inputs: Slope,
}

/// A recorded job that exceeded its deadline.
#[derive(Clone, Copy)]
pub(super) struct Late {
    pub begin: Mono,
    pub end: Mono,
    pub deadline: Ns,
    /// Its longest part, if it has several.
    pub part: Option<Ns>,
    /// The same if the end of its first wait for input is a release.
    pub fed: Option<Ns>,
    /// The same if it waited for another job elsewhere: in a thread that may do so anywhere, and in a periodic one.
    pub idle: Option<[Ns; 2]>,
    /// Its longest wait for a mutex: no job starts or ends in it.
    pub locked: Ns,
    /// How it was released; `None`: no other job can be queued meanwhile.
    pub from: Option<From>,
}

/// How a job was released; `None`: no job can be queued.
#[derive(Clone, Copy)]
pub(super) struct From {
    pub via: Via,
    /// In a wait for several events: its sources. `None`: another wait.
    pub sources: Option<Sources>,
    /// By a timerfd.
    pub by_timerfd: bool,
}

/// Which jobs may already be queued where a thread waits for its next job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Queue {
    /// None: each job wakes it.
    None,
    /// Jobs from threads.
    OfThreads,
    /// Jobs from interrupts.
    OfOthers,
    /// Jobs from sources that may never have woken it.
    OfUnknown,
}

impl Several {
    pub fn begin_window(&mut self) {
        (self.spans, self.sum) = (VecDeque::new(), None);
    }

    /// A job was released.
    pub fn released(&mut self, via: Via) {
        if via != Via::Unknown {
            self.releases[kind(via)] += 1;
        }
    }

    /// Which jobs may be queued during a job that was released in this way.
    fn queue(&self, From { via, sources, by_timerfd }: From) -> Queue {
        match sources {
            Some(Sources::Unknown) => return Queue::OfUnknown,
            Some(Sources::One) if via == Via::Timer => return Queue::OfUnknown,
            // Unless the descriptor is that timer, it is a source that never woke the thread.
            Some(Sources::Descriptor) if via == Via::Timer && !by_timerfd => return Queue::OfUnknown,
            Some(Sources::One | Sources::Descriptor | Sources::Timers) | None => {}
        }
        let all: u64 = self.releases.iter().sum();
        let by = |other: Via| {
            let count = self.releases[kind(other)];
            count >= 2 && count * OFTEN >= all
        };
        match via {
            Via::Unknown => Queue::OfUnknown,
            Via::Interrupt => Queue::OfOthers,
            _ if by(Via::Interrupt) => Queue::OfOthers,
            Via::Timer if !by(Via::Thread) => Queue::None,
            Via::Thread | Via::Timer => Queue::OfThreads,
        }
    }

    /// Takes the runs of releasers from a later state.
    pub fn keep_runs_of(&mut self, later: &Several) {
        self.ran.clone_from(&later.ran);
    }

    /// A thread that releases this one ran.
    pub fn releaser_ran(&mut self, from: Mono, until: Mono) {
        if self.ran.len() == RUNS {
            self.ran.pop_front();
        }
        self.ran.push_back((from, until));
    }

    /// A job waited for input for the first time: `worked` after its release, for `waited`.
    pub fn fed(&mut self, worked: Ns, waited: Ns) {
        self.inputs.add(worked, waited);
    }

    /// A recorded job exceeded its deadline.
    pub fn late(&mut self, late: Late, is_periodic: bool) {
        if self.spans.len() == KEPT {
            self.fold_first(None, is_periodic);
        }
        self.spans.push_back(late);
    }

    /// `shortest`: shortest interval between two releases, if enough are known; `is_periodic`: see [`Late::idle`].
    pub fn report(&self, shortest: Option<Ns>, is_periodic: bool) -> Option<SeveralJobs> {
        let mut whole = self.clone();
        while !whole.spans.is_empty() {
            whole.fold_first(shortest, is_periodic);
        }
        whole.sum.filter(|sum| sum.turns > 0)
    }

    fn fold_first(&mut self, shortest: Option<Ns>, is_periodic: bool) {
        let Some(span) = self.spans.pop_front() else { return };
        let (all, certain) = (span.end.since(span.begin), self.certain(&span, shortest, is_periodic));
        let sum = self.sum.get_or_insert(SeveralJobs {
            turns: 0,
            longest_ns: Ns::ZERO,
            certain_ns: Ns::ZERO,
            late: 0,
        });
        sum.late += 1;
        sum.certain_ns = sum.certain_ns.max(certain);
        if certain <= span.deadline {
            sum.turns += 1;
            sum.longest_ns = sum.longest_ns.max(all);
        }
    }

    /// Lower limit of the response time of one job of the span.
    fn certain(&self, span: &Late, shortest: Option<Ns>, is_periodic: bool) -> Ns {
        let all = span.end.since(span.begin);
        let fed = span.fed.filter(|_| self.inputs.ends_by_itself());
        let idle = span.idle.map(|[anywhere, periodic]| if is_periodic { periodic } else { anywhere });
        let by_timer = span.part.into_iter().chain(fed).chain(idle).min().unwrap_or(all);
        let by_others = match span.from.map_or(Queue::None, |from| self.queue(from)) {
            Queue::None => all,
            Queue::OfThreads => span.end.since(self.last_release(span)),
            Queue::OfOthers if shortest.is_some_and(|shortest| all <= shortest) => all,
            Queue::OfOthers | Queue::OfUnknown => Ns::ZERO,
        };
        by_timer.min(by_others).max(span.locked)
    }

    /// Latest possible release of the last job of `log`.
    fn last_release(&self, span: &Late) -> Mono {
        let forgotten =
            self.ran.len() == RUNS && self.ran.front().is_some_and(|&(_, until)| until > span.end);
        if forgotten {
            return span.end;
        }
        let runs = self.ran.iter().filter(|(from, _)| *from < span.end);
        runs.map(|&(_, until)| until.min(span.end)).max().unwrap_or(span.begin).max(span.begin)
    }
}

fn kind(via: Via) -> usize {
    match via {
        Via::Timer => 0,
        Via::Thread => 1,
        Via::Interrupt | Via::Unknown => 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn from(via: Via) -> From {
        From { via, sources: None, by_timerfd: false }
    }

    fn late(begin: u64, end: u64, deadline: Ns, from: Option<From>) -> Late {
        Late {
            begin: Mono(begin),
            end: Mono(end),
            deadline,
            part: None,
            fed: None,
            idle: None,
            locked: Ns::ZERO,
            from,
        }
    }

    #[test]
    fn in_an_event_loop_other_sources_may_release_a_job_while_that_of_a_timer_runs() {
        let mut several = Several::default();
        let released = |several: &mut Several, via, count| (0..count).for_each(|_| several.released(via));
        released(&mut several, Via::Timer, 100);
        released(&mut several, Via::Thread, 1);
        assert_eq!(
            several.queue(from(Via::Timer)),
            Queue::None,
            "a single release does not prove another source"
        );
        assert_eq!(several.queue(from(Via::Thread)), Queue::OfThreads);
        released(&mut several, Via::Thread, 1);
        assert_eq!(several.queue(from(Via::Timer)), Queue::OfThreads);
        released(&mut several, Via::Interrupt, 2);
        assert_eq!(several.queue(from(Via::Timer)), Queue::OfOthers);
        released(&mut several, Via::Timer, 1_000);
        assert_eq!(several.queue(from(Via::Timer)), Queue::None, "too seldom");
    }

    #[test]
    fn a_source_that_never_ended_a_wait_may_have_queued_a_job_unless_the_sources_are_known() {
        let told = |via, sources, by_timerfd| {
            let mut several = Several::default();
            (0..100).for_each(|_| several.released(via));
            let from = From { via, sources: Some(sources), by_timerfd };
            several.late(late(0, 45 * MS, Ns::from_ms(40), Some(from)), true);
            several.report(Some(Ns(100 * MS)), true).is_none()
        };
        let certain = |via, sources| told(via, sources, false);
        assert!(!certain(Via::Timer, Sources::Unknown) && !certain(Via::Timer, Sources::One));
        assert!(certain(Via::Timer, Sources::Timers));
        assert!(!certain(Via::Interrupt, Sources::Unknown) && certain(Via::Interrupt, Sources::One));
        let (timeout, descriptor) = (false, true);
        assert!(
            !told(Via::Timer, Sources::Descriptor, timeout)
                && told(Via::Timer, Sources::Descriptor, descriptor)
        );
        assert!(!told(Via::Timer, Sources::One, descriptor), "beside one that never woke it");
        assert!(certain(Via::Interrupt, Sources::Descriptor));
    }

    fn told(ran: &[(u64, u64)], via: Option<Via>, shortest: Option<Ns>) -> Option<SeveralJobs> {
        let mut several = Several::default();
        several.late(late(100 * MS, 142 * MS, Ns::from_ms(40), via.map(from)), true);
        ran.iter().for_each(|&(from, until)| several.releaser_ran(Mono(from * MS), Mono(until * MS)));
        several.report(shortest, true)
    }

    #[test]
    fn a_late_turn_is_one_job_where_nobody_released_another() {
        let of = |ran: &[(u64, u64)]| told(ran, Some(Via::Thread), None);
        assert_eq!(of(&[(99, 101), (150, 151)]), None, "41 ms from the last release");
        assert_eq!(of(&[]), None);
        let doubt = SeveralJobs { turns: 1, longest_ns: Ns(42 * MS), certain_ns: Ns(21 * MS), late: 1 };
        assert_eq!(of(&[(99, 101), (120, 121)]), Some(doubt));
        let at_work = of(&[(130, 200)]).unwrap();
        assert_eq!((at_work.turns, at_work.certain_ns), (1, Ns::ZERO), "until its end, and on");
    }

    #[test]
    fn an_interrupt_may_release_several_jobs_unless_it_never_came_so_soon() {
        let of = |shortest| told(&[], Some(Via::Interrupt), shortest);
        assert!(of(None).is_some() && of(Some(Ns(41 * MS))).is_some());
        assert_eq!(of(Some(Ns(42 * MS))), None);
        assert_eq!(told(&[], None, None), None);
    }

    #[test]
    fn the_job_that_waited_for_a_mutex_took_at_least_that_long() {
        let of = |locked_ms| {
            let mut several = Several::default();
            let from = Some(from(Via::Thread));
            several
                .late(Late { locked: Ns(locked_ms * MS), ..late(0, 42 * MS, Ns::from_ms(40), from) }, true);
            several.releaser_ran(Mono(MS), Mono(42 * MS));
            several.report(None, true).map(|several| several.certain_ns)
        };
        assert_eq!(of(41), None, "however the turn is divided, one job exceeded 40 ms");
        assert_eq!(of(40), Some(Ns(40 * MS)));
    }

    #[test]
    fn what_is_not_known_any_more_is_a_doubt() {
        let mut several = Several::default();
        several.late(late(100, 142, Ns(40), Some(from(Via::Thread))), true);
        (0..RUNS as u64).for_each(|at| several.releaser_ran(Mono(200 + at), Mono(200 + at)));
        assert_eq!(several.report(None, true).unwrap().turns, 1);
        let mut many = Several::default();
        (0..200).for_each(|k| many.late(late(k * 100, k * 100 + 42, Ns(40), None), true));
        assert_eq!(many.report(None, true), None, "all are certain");
        many.late(late(0, 42, Ns(40), Some(from(Via::Interrupt))), true);
        let told = many.report(None, true).unwrap();
        assert_eq!((told.turns, told.late, told.certain_ns), (1, 201, Ns(42)));
    }

    #[test]
    fn a_wait_elsewhere_is_judged_by_what_is_known_of_the_thread_at_the_end() {
        let mut several = Several::default();
        let idle = Some([Ns(21 * MS), Ns(60 * MS)]);
        several.late(Late { idle, ..late(0, 60 * MS, Ns::from_ms(40), None) }, false);
        assert_eq!(several.report(None, true), None, "the first jobs do not show a period");
        assert_eq!(several.report(None, false).unwrap().certain_ns, Ns(21 * MS));
    }
}

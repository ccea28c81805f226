//! The sums of one thread that give its figures.

use std::collections::VecDeque;

use super::faulting::Faulting;
use super::misses::Finished;
use super::missing::Missing;
use super::paces::{Held, Paces, RECENT};
use super::places::{Id, Places};
use super::point::Place;
use super::task::{policy, Blocking, Span, Task};
use crate::comm::Comm;
use crate::histogram::{Histogram, Layout};
use crate::series::{Quantity, Series, Thread};
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, LateSleeps, Via, Who};

mod period;

/// Minimum number of intervals before start jitter is evaluated.
const KNOWN: usize = 16;
/// Maximum number of remembered releasers.
const RELEASERS: usize = 16;
/// A thread is periodic if half of its intervals are within this fraction of a multiple of the period.
pub(super) const PERIODIC: f64 = 0.1;

impl Waits {
    fn report(&self, place: Place) -> Blocking {
        let Waits { count, total, max, max_at, released_by } = *self;
        Blocking {
            class: place.class,
            place: place.name,
            count,
            total_ns: total,
            max_ns: max,
            max_at,
            released_by: released_by.map(|(by, _)| by.thread()),
        }
    }
}

/// The sums of one thread.
#[derive(Clone)]
pub(super) struct Sums {
    last: Option<(Who, Tid, u8)>, // its process and policy
    series: Vec<(Quantity, Histogram)>,
    execution: Histogram,
    preemptions: u64,
    faults: u64,
    faulting: Option<Faulting>,
    deadline: Option<Ns>,
    paces: Paces,
    late_sleeps: u64,
    not_recorded: u64,
    turns_lost: u64,
    lost_within: Option<Ns>, // the longest time in which jobs were lost
    timer_releases: u64,
    timeouts: u64, // those of its call
    releases: u64,
    last_release: Option<(Mono, Mono)>,
    distances: VecDeque<(u64, u64)>, // intervals of releases and of starts, ns
    jitter_max: u64,
    blocking: Vec<(Id, Waits)>,
    released_by: Vec<Tid>,
    slack: Option<Ns>, // the largest
    slept: Option<Ns>, // the longest before a job
    had_jobs: bool,    // in an earlier window
}

/// The waits in one place.
#[derive(Clone)]
struct Waits {
    count: u64,
    total: Ns,
    max: Ns,
    max_at: Mono,
    released_by: Option<(Who, Ns)>, // of the longest that a thread ended
}

/// 1 µs bins up to 1 ms, then within 3 %: a fifth of the memory of the histograms per CPU.
pub(super) fn layout() -> Layout {
    Layout::new(1_000, 1_024).unwrap_or(Layout::LATENCY)
}

impl Sums {
    pub fn new(deadline: Option<Ns>) -> Sums {
        Sums {
            last: None,
            series: Vec::new(),
            execution: Histogram::of_few(layout()),
            preemptions: 0,
            faults: 0,
            faulting: None,
            deadline,
            paces: Paces::new(deadline),
            late_sleeps: 0,
            not_recorded: 0,
            turns_lost: 0,
            lost_within: None,
            timer_releases: 0,
            timeouts: 0,
            releases: 0,
            last_release: None,
            distances: VecDeque::new(),
            jitter_max: 0,
            blocking: Vec::new(),
            released_by: Vec::new(),
            slack: None,
            slept: None,
            had_jobs: false,
        }
    }

    /// Sets the deadline for the jobs that follow.
    pub fn set_deadline(&mut self, deadline: Option<Ns>) {
        self.deadline = deadline;
        self.paces.set_deadline(deadline);
    }

    /// Resets the figures; the intervals of the period are kept.
    pub fn begin_window(&mut self) {
        let known = std::mem::replace(self, Sums::new(self.deadline));
        self.last = known.last;
        self.last_release = known.last_release;
        self.distances = known.distances;
        self.paces = known.paces;
        self.had_jobs = known.had_jobs;
        self.paces.begin_window();
    }

    /// A window ends: it may have had jobs in it.
    pub fn had_jobs(&mut self) {
        self.had_jobs |= self.series.iter().any(|(quantity, _)| *quantity == Quantity::Response);
    }

    /// Whether there is anything to report.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
    }

    /// Sets the thread of the figures; each wake-up updates it.
    pub fn is_of(&mut self, who: Who, process: Tid, policy: u8) {
        self.last = Some((who, process, policy));
    }

    /// Sets the name of the thread of the figures.
    pub fn is_named(&mut self, comm: Comm) {
        self.last.iter_mut().for_each(|(who, ..)| who.comm = comm);
    }

    fn record(&mut self, quantity: Quantity, value: Ns) {
        if let Some((_, histogram)) = self.series.iter_mut().find(|(of, _)| *of == quantity) {
            histogram.record(value);
            return;
        }
        let mut histogram = Histogram::new(layout());
        histogram.record(value);
        self.series.push((quantity, histogram));
    }

    /// Adds a wake-up.
    pub fn woken(&mut self, a: &Activation) {
        let quantity = if a.shared { Quantity::SharedPrio } else { Quantity::Wakeup };
        a.wakeup().into_iter().for_each(|wakeup| self.record(quantity, wakeup));
        if let Some(timer) = a.timer_part() {
            self.record(Quantity::Timer, timer);
            if !a.shared {
                self.record(Quantity::TimerWakeup, a.latency());
            }
        }
        self.slack = self.slack.max(Some(a.slack).filter(|&slack| slack > Ns::ZERO));
        self.preemptions += u64::from(a.preemptions);
        self.faulted(a);
        self.late_sleeps += a.late_sleeps.map_or(0, |late| u64::from(late.count));
        self.last = Some((a.thread, a.tgid, a.policy));
    }

    fn faulted(&mut self, a: &Activation) {
        if a.faults == 0 {
            return;
        }
        self.faults += u64::from(a.faults);
        self.faulting.get_or_insert_default().add(u64::from(a.faults), a.fault_address);
    }

    /// Whether activations are missing between two of the thread; counts them, and the largest number of jobs they can
    /// affect: the `open` job has no end, that of the next activation no start. A thread that is only PI-boosted to
    /// real-time was not measured before, so nothing is missing.
    pub fn lacks_between(&mut self, before: &Activation, a: &Activation, open: bool) -> bool {
        let (missing, other) = missing_between(before, a);
        if missing > 0 && !other && !is_boosted(before) && !is_boosted(a) {
            self.not_recorded += u64::from(missing);
            self.turns_lost += u64::from(missing) + 1 + u64::from(open);
        }
        missing > 0
    }

    /// The release of a job was not recorded.
    pub fn lacks_release(&mut self) {
        (self.not_recorded, self.turns_lost) = (self.not_recorded + 1, self.turns_lost + 1);
    }

    /// Jobs were lost within `stretch`.
    pub fn lost_within(&mut self, stretch: Ns) {
        self.lost_within = self.lost_within.max(Some(stretch));
    }

    /// A job starts after `waited` in the main wait.
    pub fn waited(&mut self, a: &Activation, waited: Ns) {
        self.slept(waited);
        let by = a.waker.tid;
        if a.via == Via::Thread && by != a.thread.tid && !self.released_by.contains(&by) {
            self.released_by.truncate(RELEASERS - 1);
            self.released_by.push(by);
        }
    }

    /// The next interval between releases is not known.
    pub fn forget_release(&mut self) {
        self.last_release = None;
    }

    /// From now on jobs start in another place, with another period.
    pub fn forget_period(&mut self) {
        self.last_release = None;
        self.distances.clear();
        self.paces.forget_period();
    }

    /// A job is released; `late`: sleeps of the previous job until times that had passed.
    pub fn released(&mut self, a: &Activation, release: Mono, late: Option<LateSleeps>) {
        self.releases += 1;
        self.timer_releases += u64::from(a.via == Via::Timer);
        self.timeouts += u64::from(a.is_timeout());
        let now = (release, a.switched_in);
        let before = self.last_release.replace(now);
        let distance = before.map(|(release, start)| (now.0.since(release).0, now.1.since(start).0));
        // These releases were overrun, not missed.
        let overrun = late.map_or(0, |late| u64::from(late.count));
        self.paces.released(a.armed_late, distance.map(|(release, _)| release), overrun);
        if let Some(distance) = distance {
            if self.distances.len() == RECENT {
                self.distances.pop_front();
            }
            if self.distances.len() >= KNOWN {
                self.jitter_max = self.jitter_max.max(distance.1.abs_diff(distance.0.max(1)));
            }
            self.distances.push_back(distance);
        }
    }

    /// A job ends.
    pub fn finished(&mut self, execution: Ns, job: Finished) {
        job.response.into_iter().for_each(|response| self.record(Quantity::Response, response));
        self.execution.record(execution);
        self.paces.finished(job);
    }

    /// A job whose start or end was not recorded has overrun `late`, the last of them by `last`.
    pub fn overran(&mut self, late: Option<LateSleeps>, last: Option<Ns>) {
        if late.is_some() {
            self.paces.finished(Finished { response: None, late, last });
        }
    }

    /// A wait that is not the main one ended.
    pub fn blocked(&mut self, place: Id, waited: Ns, since: Mono, by: Option<Who>) {
        let at = self.blocking.iter().position(|(of, _)| *of == place).unwrap_or_else(|| {
            let fresh = Waits { count: 0, total: Ns::ZERO, max: Ns::ZERO, max_at: since, released_by: None };
            self.blocking.push((place, fresh));
            self.blocking.len() - 1
        });
        let waits = &mut self.blocking[at].1;
        waits.count += 1;
        waits.total = waits.total + waited;
        if let Some(by) = by.filter(|_| waits.released_by.is_none_or(|(_, longest)| waited >= longest)) {
            waits.released_by = Some((by, waited));
        }
        if waited >= waits.max {
            (waits.max, waits.max_at) = (waited, since);
        }
    }

    /// The median interval between releases.
    pub fn period_ns(&self) -> Option<Ns> {
        self.paces.median().map(Ns)
    }

    /// The period, once it is known.
    pub fn known_period(&self) -> Option<Ns> {
        self.paces.period()
    }

    /// The last intervals between releases, ns.
    pub fn distances(&self) -> Vec<u64> {
        self.distances.iter().map(|&(release, _)| release).collect()
    }

    /// The report; `lost`: jobs may be lost at the moment.
    pub fn report(&self, main: Option<Id>, places: &Places, lost: bool) -> Task {
        let (thread, process, policy) = self.last.map_or_else(Default::default, |(who, process, number)| {
            (who.thread(), process, policy(number).to_owned())
        });
        let mut period = self.period();
        let deadline_ns = self.deadline.or(period.as_ref().map(|period| period.median_ns));
        let response = self.series.iter().find(|(quantity, _)| *quantity == Quantity::Response);
        let found = period.as_ref().map(|period| period.median_ns);
        let Held { misses, missing, changed, longest } = self.paces.held(found);
        let (misses, miss_max_ns) = if deadline_ns.is_some() { misses } else { (0, None) };
        period.iter_mut().for_each(|period| {
            (period.missed, period.changed, period.longest_ns) = (missing.count(), changed, longest);
        });
        let mut blocking: Vec<Blocking> =
            self.blocking.iter().map(|(place, waits)| waits.report(places.get(*place).clone())).collect();
        blocking.sort_by(|a, b| (b.max_ns, &a.place).cmp(&(a.max_ns, &b.place)));
        let mut series: Vec<Series> = self
            .series
            .iter()
            .map(|(of, h)| self.one(*of, h, &thread, period.as_ref().map(|_| &missing)))
            .collect();
        series.sort_by_key(|series| series.quantity);
        series.iter_mut().filter(|_| lost).for_each(|series| series.lost_within_ns = None);
        Task {
            thread,
            process,
            policy,
            released_by: self.released_by.clone(),
            released_every_ns: self.released_every(),
            polls_every_ns: main.and_then(|place| self.slept.filter(|_| self.polls(places.get(place)))),
            waits_in: main.filter(|_| self.releases > 0).map(|place| places.get(place).name.clone()),
            timer_driven: self.timer_releases * 2 > self.releases,
            activations: response.map_or(0, |(_, histogram)| histogram.count()),
            had_jobs: self.had_jobs,
            period,
            series,
            execution: span(&self.execution),
            preemptions: self.preemptions,
            page_faults: self.faults,
            faulting: self.faulting.clone(),
            deadline_ns,
            misses,
            miss_max_ns,
            late_sleeps: self.late_sleeps,
            slack_max_ns: self.slack,
            not_recorded: self.not_recorded,
            blocking,
            ..Task::default()
        }
    }

    fn one(
        &self,
        quantity: Quantity,
        histogram: &Histogram,
        thread: &Thread,
        missing: Option<&Missing>,
    ) -> Series {
        let mut series = Series::new(quantity, None, histogram.clone());
        series.thread = Some(thread.clone());
        series.lost = self.not_recorded;
        if quantity == Quantity::Response {
            series.lost = self.turns_lost;
            series.lost_within_ns = self.lost_within;
            series.missed = Some(missing.map_or(0, Missing::count));
            series.replayed = missing.and_then(|missing| missing.with(histogram));
        }
        series
    }
}

/// Number of activations missing between two of a thread, and whether the thread id was reused in between.
pub(super) fn missing_between(before: &Activation, a: &Activation) -> (u16, bool) {
    let blocked = a.blocks.wrapping_sub(before.blocks).wrapping_sub(u16::from(!a.stayed));
    // The count went backwards: a reused id within one process (see `Log::is_of_another` for another process).
    (blocked.saturating_add(u16::from(a.after_unseen)), blocked > u16::MAX / 2)
}

/// Whether the real-time priority is a PI boost.
fn is_boosted(a: &Activation) -> bool {
    a.thread.prio.is_realtime() && matches!(a.policy, 0 | 3 | 5 | 7)
}

fn span(histogram: &Histogram) -> Option<Span> {
    Some(Span { min_ns: histogram.min()?, mean_ns: histogram.mean_ns()?, max_ns: histogram.max()? })
}

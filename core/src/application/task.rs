//! The figures of one thread.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::places::{Id, Places};
use super::point::{Class, Place};
use crate::histogram::{Histogram, Layout};
use crate::peak::Peak;
use crate::series::{Quantity, Series, Thread};
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::{Activation, Via, Who};

/// Distances of releases from which the period is taken.
const RECENT: usize = 256;
/// From so many on, releases are held against it.
const KNOWN: usize = 16;
/// So often it is taken anew for that.
const MEDIAN_EVERY: u64 = 64;
/// A thread is periodic when half of its distances are within this part of a multiple of the period.
const PERIODIC: f64 = 0.1;

/// A thread of the recorded system.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Task {
    /// Who.
    pub thread: Thread,
    /// Its process.
    pub process: Tid,
    /// `SCHED_FIFO`, …
    pub policy: String,
    /// Where it waits for its next activation: `clock_nanosleep TIMER_ABSTIME`, `read 5 (timerfd)`, `futex …`; `None`: it never blocked twice.
    pub waits_in: Option<String>,
    /// Whether a timer ends that wait.
    pub timer_driven: bool,
    /// Activations that were complete.
    pub activations: u64,
    /// Its period; `None` for a thread without one.
    pub period: Option<Period>,
    /// `timer`, `wakeup`, `timer+wakeup`, `sharedprio`, `response`: those with samples.
    pub series: Vec<Series>,
    /// Time on a CPU of each activation, interrupts included.
    pub execution: Option<Span>,
    /// How often it lost the CPU while runnable.
    pub preemptions: u64,
    /// Page faults of its code (counted on x86 only).
    pub page_faults: u64,
    /// Activations whose response came after this.
    pub deadline_ns: Option<Ns>,
    /// How many.
    pub misses: u64,
    /// Its worst wake-up, with the circumstances.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Box<Peak>>,
    /// Where else it blocked, the longest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocking: Vec<Blocking>,
}

/// A period that was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Period {
    /// Median distance of two releases.
    pub median_ns: Ns,
    /// Median difference of a start from the period after the start before.
    pub jitter_median_ns: Ns,
    /// The largest such difference.
    pub jitter_max_ns: Ns,
    /// Releases that fell out: whole periods without one.
    pub missed: u64,
}

/// Smallest, mean and largest of something.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Span {
    /// Smallest.
    pub min_ns: Ns,
    /// Mean.
    pub mean_ns: f64,
    /// Largest.
    pub max_ns: Ns,
}

/// A place that is not the thread's main wait, and what it cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Blocking {
    /// What it is.
    pub class: Class,
    /// `futex FUTEX_LOCK_PI 0x…`, `page fault`, `fsync 3`.
    pub place: String,
    /// How often.
    pub count: u64,
    /// How long in all.
    pub total_ns: Ns,
    /// The longest.
    pub max_ns: Ns,
    /// When that began.
    pub max_at: Mono,
    /// Who ended the longest of those that a thread ended (the holder of a lock); `None`: timers or interrupts did.
    pub released_by: Option<Thread>,
}

impl Task {
    /// Its largest latency.
    #[must_use]
    pub fn largest(&self) -> Ns {
        let latencies = self.series.iter().filter(|series| series.quantity != Quantity::Response);
        latencies.filter_map(|series| series.histogram.max()).max().unwrap_or_default()
    }

    /// The series of `quantity`.
    #[must_use]
    pub fn of(&self, quantity: Quantity) -> Option<&Series> {
        self.series.iter().find(|series| series.quantity == quantity)
    }
}

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

/// The sums from which a report is made.
#[derive(Clone)]
pub(super) struct Sums {
    last: Option<(Who, Tid, u8)>, // its process and policy
    series: Vec<(Quantity, Histogram)>,
    execution: Histogram,
    preemptions: u64,
    faults: u64,
    deadline: Option<Ns>,
    misses: u64,
    timer_releases: u64,
    releases: u64,
    last_release: Option<(Mono, Mono)>,
    distances: VecDeque<(u64, u64)>, // of releases, of starts
    jitter_max: u64,
    missed: u64,
    median: Option<u64>, // of `distances`, a while ago
    blocking: Vec<(Id, Waits)>,
}

/// The waits in one place.
#[derive(Clone)]
struct Waits {
    count: u64,
    total: Ns,
    max: Ns,
    max_at: Mono,
    released_by: Option<(Who, Ns)>, // the longest that a thread ended
}

/// Fine to 1 ms, then within 3 %: a fifth of the memory of the histograms of CPUs.
fn layout() -> Layout {
    Layout::new(1_000, 1_024).unwrap_or(Layout::LATENCY)
}

impl Sums {
    pub fn new(deadline: Option<Ns>) -> Sums {
        Sums {
            last: None,
            series: Vec::new(),
            execution: Histogram::new(layout()),
            preemptions: 0,
            faults: 0,
            deadline,
            misses: 0,
            timer_releases: 0,
            releases: 0,
            last_release: None,
            distances: VecDeque::new(),
            jitter_max: 0,
            missed: 0,
            median: None,
            blocking: Vec::new(),
        }
    }

    /// Counts anew; what is known of the period stays.
    pub fn begin_window(&mut self) {
        let known = std::mem::replace(self, Sums::new(self.deadline));
        self.last = known.last;
        self.last_release = known.last_release;
        self.distances = known.distances;
        self.median = known.median;
    }

    /// Whether there is anything to report.
    pub fn is_empty(&self) -> bool {
        self.series.is_empty()
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

    /// Every wake-up.
    pub fn woken(&mut self, a: &Activation) {
        let wakeup = a.switched_in.since(a.waking);
        self.record(if a.shared { Quantity::SharedPrio } else { Quantity::Wakeup }, wakeup);
        if let Some(timer) = a.timer_part() {
            self.record(Quantity::Timer, timer);
            if !a.shared {
                self.record(Quantity::TimerWakeup, a.latency());
            }
        }
        self.preemptions += u64::from(a.preemptions);
        self.faults += u64::from(a.faults);
        self.last = Some((a.thread, a.tgid, a.policy));
    }

    /// A turn begins.
    pub fn released(&mut self, a: &Activation) {
        self.releases += 1;
        self.timer_releases += u64::from(a.via == Via::Timer);
        let now = (a.begin(), a.switched_in);
        if let Some((release, start)) = self.last_release.replace(now) {
            let distance = (now.0.since(release).0, now.1.since(start).0);
            if self.distances.len() == RECENT {
                self.distances.pop_front();
            }
            // The median of hundreds costs some µs, and it hardly moves.
            if self.distances.len() >= KNOWN
                && (self.median.is_none() || self.releases.is_multiple_of(MEDIAN_EVERY))
            {
                self.median = self.median();
            }
            if let Some(period) = self.median {
                let periods = ((distance.0 + period / 2) / period).max(1);
                self.missed += periods - 1;
                self.jitter_max = self.jitter_max.max(distance.1.abs_diff(distance.0.max(1)));
            }
            self.distances.push_back(distance);
        }
    }

    /// A turn ends.
    pub fn finished(&mut self, response: Ns, execution: Ns) {
        self.record(Quantity::Response, response);
        self.execution.record(execution);
        self.misses += u64::from(self.deadline.is_some_and(|deadline| response > deadline));
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

    fn median(&self) -> Option<u64> {
        middle(self.distances.iter().map(|&(release, _)| release).collect()).filter(|&period| period > 0)
    }

    fn period(&self) -> Option<Period> {
        let period = self.median()?;
        let off = |&(release, _): &(u64, u64)| {
            let periods = (release as f64 / period as f64).round().max(1.0);
            (release as f64 - periods * period as f64).abs() / period as f64
        };
        let regular = self.distances.iter().filter(|distance| off(distance) <= PERIODIC).count();
        let jitter: Vec<u64> =
            self.distances.iter().map(|&(release, start)| start.abs_diff(release)).collect();
        let largest = jitter.iter().copied().max().unwrap_or_default().max(self.jitter_max);
        (self.distances.len() >= 3 && regular * 2 > self.distances.len()).then(|| Period {
            median_ns: Ns(period),
            jitter_median_ns: Ns(middle(jitter).unwrap_or_default()),
            jitter_max_ns: Ns(largest),
            missed: self.missed,
        })
    }

    pub fn report(&self, main: Option<Id>, places: &Places) -> Task {
        let (thread, process, policy) = self.last.map_or_else(Default::default, |(who, process, number)| {
            (who.thread(), process, policy(number).to_owned())
        });
        let period = self.period();
        let deadline_ns = self.deadline.or(period.as_ref().map(|period| period.median_ns));
        let response = self.series.iter().find(|(quantity, _)| *quantity == Quantity::Response);
        let beyond =
            |deadline: Ns| response.map_or(0, |(_, histogram)| histogram.count_from(deadline + Ns(1)));
        let misses = if self.deadline.is_some() { self.misses } else { deadline_ns.map_or(0, beyond) };
        let mut blocking: Vec<Blocking> =
            self.blocking.iter().map(|(place, waits)| waits.report(places.get(*place))).collect();
        blocking.sort_by(|a, b| (b.max_ns, &a.place).cmp(&(a.max_ns, &b.place)));
        let mut series: Vec<Series> =
            self.series.iter().map(|(of, h)| self.one(*of, h, &thread, period.as_ref())).collect();
        series.sort_by_key(|series| series.quantity);
        Task {
            thread,
            process,
            policy,
            waits_in: main.filter(|_| self.releases > 0).map(|place| places.get(place).name),
            timer_driven: self.timer_releases * 2 > self.releases,
            activations: response.map_or(0, |(_, histogram)| histogram.count()),
            period,
            series,
            execution: span(&self.execution),
            preemptions: self.preemptions,
            page_faults: self.faults,
            deadline_ns,
            misses,
            worst: None,
            blocking,
        }
    }

    fn one(
        &self,
        quantity: Quantity,
        histogram: &Histogram,
        thread: &Thread,
        period: Option<&Period>,
    ) -> Series {
        let mut series = Series::new(quantity, None, histogram.clone());
        series.thread = Some(thread.clone());
        if quantity == Quantity::Response {
            series.missed = period.map_or(0, |period| period.missed);
        }
        series
    }
}

fn span(histogram: &Histogram) -> Option<Span> {
    Some(Span { min_ns: histogram.min()?, mean_ns: histogram.mean_ns()?, max_ns: histogram.max()? })
}

fn middle(mut values: Vec<u64>) -> Option<u64> {
    let half = values.len() / 2;
    (!values.is_empty()).then(|| *values.select_nth_unstable(half).1)
}

/// The name of a scheduling policy (include/uapi/linux/sched.h).
#[must_use]
pub fn policy(number: u8) -> &'static str {
    match number {
        0 => "SCHED_OTHER",
        1 => "SCHED_FIFO",
        2 => "SCHED_RR",
        3 => "SCHED_BATCH",
        5 => "SCHED_IDLE",
        6 => "SCHED_DEADLINE",
        7 => "SCHED_EXT",
        _ => "unknown policy",
    }
}

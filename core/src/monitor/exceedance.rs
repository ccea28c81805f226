//! Upper limit of the probability that an activation misses its deadline, from the completed windows of a time span.
//!
//! The exact binomial upper limit of [`crate::stats::model_free`] over all windows of a span. Jobs are judged by the
//! deadline that they had, latencies by a common one. Lost activations count as late, and so do all in the class that
//! contains the deadline. Clusters count once, by the extremal index of the counts of the windows; if fewer than ten windows
//! have late activations, and these show no clusters, they are assumed to be independent, and the output says so.
//!
//! Why the monitor computes it: PromQL has no quantile of the beta distribution, so a rule over its counters cannot.

use std::collections::{BTreeMap, VecDeque};

use serde::Serialize;

use super::event::{Event, Kind};
use super::history::{Row, WindowFigures};
use super::window::{Held, SeriesKey, UnixMs, WindowSeries};
use crate::series::Quantity;
use crate::stats::activations::{possibly_above, Activations};
use crate::stats::clusters;
use crate::stats::model_free::{for_limit, upper_limit};
use crate::time::Ns;

/// One-sided confidence of all limits.
pub const CONFIDENCE: f64 = 0.95;

/// Number of stretches per span: one day of five-minute windows is kept window by window; with more windows, a whole
/// stretch is dropped at once.
const STRETCHES: i64 = 288;

/// Figures of one series in one window.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The series.
    pub key: SeriesKey,
    /// Samples.
    pub samples: u64,
    /// Known number of lost activations.
    pub lost: u64,
    /// The largest sample.
    pub max: Option<Ns>,
    /// Deadline and misses of jobs.
    pub held: Option<Held>,
}

#[derive(Clone, Copy, Debug)]
struct Count {
    deadline: Ns,
    samples: u64,
    above: u64,
    lost: u64,
}

#[derive(Clone, Debug)]
struct Stretch {
    /// End of its first window.
    from: UnixMs,
    counts: BTreeMap<SeriesKey, Count>,
}

/// Counts from which the limits are computed. Memory: at most some hundred bytes per series and stretch.
#[derive(Clone, Debug)]
pub struct Exceedances {
    span: Ns,
    latency: Option<Ns>,
    stretches: VecDeque<Stretch>,
    incomplete: Option<UnixMs>,
}

/// Upper limit of the probability of a miss, for one series.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The series.
    #[serde(flatten)]
    pub key: SeriesKey,
    /// The deadline.
    pub deadline_ns: Ns,
    /// Activations: samples, and lost ones.
    pub samples: u64,
    /// Those that were late or lost.
    pub above: u64,
    /// Extremal index: a cluster counts once. `None`: too few windows have late activations, and these show no clusters; they
    /// are then assumed to be independent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub theta: Option<f64>,
    /// Upper limit of the probability of a miss, at [`CONFIDENCE`].
    pub probability_upper: f64,
}

impl Exceedances {
    /// Over the windows that ended less than `span` before the last one; `latency`: the deadline of latencies; `None`:
    /// only jobs have one.
    #[must_use]
    pub fn new(span: Ns, latency: Option<Ns>) -> Exceedances {
        Exceedances { span, latency, stretches: VecDeque::new(), incomplete: None }
    }

    /// The span.
    #[must_use]
    pub fn span(&self) -> Ns {
        self.span
    }

    fn span_ms(&self) -> i64 {
        i64::try_from(self.span.0 / 1_000_000).unwrap_or(i64::MAX)
    }

    /// Adds a window that ended at `end`, even without a series, and drops windows that are too old.
    pub fn window(&mut self, end: UnixMs) {
        let length = self.span_ms() / STRETCHES;
        let is_in = |last: &Stretch| end >= last.from && end.0 - last.from.0 < length;
        if !self.stretches.back().is_some_and(is_in) {
            self.stretches.push_back(Stretch { from: end, counts: BTreeMap::new() });
        }
        // After a clock was set back, older windows are in the future: they are dropped by number.
        let oldest = end.0.saturating_sub(self.span_ms());
        let too_many = STRETCHES as usize + 1;
        while self.stretches.len() > too_many || self.stretches.front().is_some_and(|of| of.from.0 <= oldest)
        {
            self.stretches.pop_front();
        }
        self.incomplete = self.incomplete.filter(|at| at.0 > oldest);
    }

    /// Activations of unknown tasks were lost in the window that ended at `end`: while it is in the span, there are no
    /// limits for tasks.
    pub fn incomplete(&mut self, end: UnixMs) {
        self.incomplete = self.incomplete.max(Some(end));
    }

    /// Adds one series of the last [`Exceedances::window`]. `beyond` counts its samples that may be above a deadline;
    /// it is called only if the maximum is.
    pub fn add(&mut self, seen: Seen, beyond: impl FnOnce(Ns) -> u64) {
        let (deadline, late) = match (seen.key.quantity, seen.held, self.latency) {
            (Quantity::Response, Some(held), _) => (held.deadline, held.misses),
            (Quantity::Response, None, _) | (_, _, None) => return,
            (_, _, Some(deadline)) if seen.max <= Some(deadline) => (deadline, 0),
            (_, _, Some(deadline)) => (deadline, beyond(deadline)),
        };
        let Some(last) = self.stretches.back_mut() else { return };
        let count = last.counts.entry(seen.key).or_insert(Count { deadline, samples: 0, above: 0, lost: 0 });
        if count.deadline != deadline {
            *count = Count { deadline, samples: 0, above: 0, lost: 0 };
        }
        count.samples = count.samples.saturating_add(seen.samples).saturating_add(seen.lost);
        count.above = count.above.saturating_add(late).saturating_add(seen.lost);
        count.lost = count.lost.saturating_add(seen.lost);
    }

    /// Adds a window that was just closed.
    pub fn closed(&mut self, end: UnixMs, window: &[WindowSeries]) {
        self.window(end);
        for series in window {
            let WindowSeries { key, histogram, lost, held, .. } = series;
            let (samples, max) = (histogram.count(), histogram.max());
            let seen = Seen { key: *key, samples, lost: *lost, max, held: *held };
            self.add(seen, |deadline| possibly_above(histogram, deadline));
        }
    }

    /// Adds a row of a database; must be called in time order.
    pub fn row(&mut self, row: &Row) {
        self.window(row.end);
        let WindowFigures { count: samples, max, .. } = row.figures;
        let seen = Seen { key: row.key, samples, lost: row.lost, max, held: row.held };
        // In a damaged record, all may be late.
        self.add(seen, |deadline| row.histogram().map_or(samples, |all| possibly_above(&all, deadline)));
    }

    /// Adds an event of a database, after its windows.
    pub fn event(&mut self, event: &Event) {
        if event.kind == Kind::ActivationsLost {
            self.incomplete(event.at);
        }
    }

    /// One limit for each series with an activation under its current deadline.
    #[must_use]
    pub fn limits(&self) -> Vec<Limit> {
        // The current deadline of each series, and its stretches under it, the last one first.
        let mut sums: BTreeMap<SeriesKey, (Ns, Vec<&Count>)> = BTreeMap::new();
        for (key, one) in self.stretches.iter().rev().flat_map(|stretch| &stretch.counts) {
            let (deadline, counts) = sums.entry(*key).or_insert_with(|| (one.deadline, Vec::new()));
            if *deadline == one.deadline {
                counts.push(one);
            }
        }
        let claimed = |key: &SeriesKey| self.incomplete.is_none() || key.whose.cpu().is_some();
        let limit = |(key, (deadline_ns, counts)): (SeriesKey, (Ns, Vec<&Count>))| {
            let sum =
                |of: fn(&Count) -> u64| counts.iter().map(|count| of(count)).fold(0, u64::saturating_add);
            let (samples, above, lost) = (sum(|of| of.samples), sum(|of| of.above), sum(|of| of.lost));
            let known = |of: &&Count| (of.samples.saturating_sub(of.lost), of.above.saturating_sub(of.lost));
            let theta = clusters::index_of_counts(&counts.iter().rev().map(known).collect::<Vec<_>>());
            let all = Activations { all: samples, above, unknown: lost, ..Activations::default() };
            let (n, k) = theta.map_or((samples, above), |theta| for_limit(all, theta));
            let probability_upper = upper_limit(n, k.min(n), CONFIDENCE)?;
            Some(Limit { key, deadline_ns, samples, above, theta, probability_upper })
        };
        sums.into_iter().filter(|(key, _)| claimed(key)).filter_map(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::Comm;
    use crate::histogram::{Histogram, Layout};
    use crate::time::Cpu;

    const DAY: Ns = Ns(86_400_000_000_000);
    const FIVE_MIN: i64 = 300_000;

    fn of_cpu() -> SeriesKey {
        SeriesKey::of_cpu(Quantity::TimerWakeup, Cpu(1))
    }

    fn of_task() -> SeriesKey {
        SeriesKey::of_task(Quantity::Response, Comm::cut("motion"))
    }

    fn series(key: SeriesKey, samples: &[(u64, u64)], lost: u64, held: Option<Held>) -> WindowSeries {
        let mut histogram = Histogram::new(Layout::LATENCY);
        for &(us, count) in samples {
            (0..count).for_each(|_| histogram.record(Ns::from_us(us)));
        }
        WindowSeries { key, histogram, lost, peak: None, peak_at: None, held }
    }

    fn counts(of: &Exceedances) -> Vec<(u64, u64)> {
        of.limits().iter().map(|limit| (limit.samples, limit.above)).collect()
    }

    #[test]
    fn the_limit_is_that_of_the_injected_exceedances_of_the_windows_in_the_span() {
        let mut all = Exceedances::new(DAY, Some(Ns::from_us(100)));
        // 1000 samples a window; in each tenth of 300 windows two late ones, exactly one class above the deadline.
        for n in 1..=300 {
            let late = if n % 10 == 0 { 2 } else { 0 };
            all.closed(
                UnixMs(n * FIVE_MIN),
                &[series(of_cpu(), &[(20, 998 + 2 - late), (101, late)], 0, None)],
            );
        }
        // Of a day 288 windows, 13 to 300, of which 29 are a tenth one.
        let [limit] = all.limits()[..] else { panic!("{:?}", all.limits()) };
        assert_eq!((limit.samples, limit.above, limit.deadline_ns), (288_000, 58, Ns::from_us(100)));
        // Two come together; the lower limit of 29 clusters is 20.7. Garwood's limit of a Poisson mean after 14 events
        // (58 theta / (2 - theta), rounded up) is 21.89.
        let theta = limit.theta.unwrap();
        assert!((0.36..0.4).contains(&theta), "{theta}");
        let mean = limit.probability_upper * 288_000.0 * theta / (2.0 - theta);
        assert!((21.8..22.0).contains(&mean), "{mean}");
        all.window(UnixMs(600 * FIVE_MIN));
        assert!(all.limits().is_empty(), "all are too old");
    }

    /// 288 windows of 30,000 activations; clusters of five late ones on average, of geometric sizes.
    fn in_clusters(clusters: u64, random: &mut crate::random::Random) -> Vec<(u64, u64)> {
        let mut windows = vec![(30_000, 0); 288];
        let (mut at, mut left) = (-random.unit().ln(), clusters as f64);
        while at < left {
            let window = random.below(288) as usize;
            windows[window].1 += 1;
            while random.below(5) > 0 {
                windows[window].1 += 1;
            }
            (left, at) = (left - at, -random.unit().ln());
        }
        windows
    }

    #[test]
    fn limits_cover_clusters_in_few_windows_in_some_and_in_all_where_those_of_independent_ones_do_not() {
        let mut random = crate::random::Random::new(11);
        for (clusters, least) in [(3, 265), (15, 280), (60, 280), (2_000, 280)] {
            let (mut covered, mut plain) = (0, 0);
            for _ in 0..300 {
                let windows = in_clusters(clusters, &mut random);
                let above = windows.iter().map(|window| window.1).sum();
                let all = Activations { all: 288 * 30_000, above, ..Activations::default() };
                let theta = clusters::index_of_counts(&windows);
                let (n, k) = theta.map_or((all.all, above), |theta| for_limit(all, theta));
                let truth = clusters as f64 * 5.0 / all.all as f64;
                covered += u32::from(upper_limit(n, k, CONFIDENCE).unwrap() >= truth);
                plain += u32::from(upper_limit(all.all, above, CONFIDENCE).unwrap() >= truth);
            }
            assert!(covered >= least && plain < 240, "{clusters} clusters: {covered}, {plain} of 300");
        }
    }

    #[test]
    fn what_was_lost_is_late_and_a_series_that_lost_everything_has_the_limit_1() {
        let mut all = Exceedances::new(DAY, Some(Ns::from_us(100)));
        all.closed(UnixMs(FIVE_MIN), &[series(of_cpu(), &[(20, 90)], 10, None)]);
        assert_eq!(counts(&all), [(100, 10)]);
        let mut nothing = Exceedances::new(DAY, Some(Ns::from_us(100)));
        nothing.closed(UnixMs(FIVE_MIN), &[series(of_cpu(), &[], 3, None)]);
        assert_eq!(nothing.limits()[0].probability_upper, 1.0);
        let mut without = Exceedances::new(DAY, None);
        without.closed(UnixMs(FIVE_MIN), &[series(of_cpu(), &[(20, 90)], 0, None)]);
        assert!(without.limits().is_empty(), "no deadline was given");
    }

    #[test]
    fn jobs_count_under_the_deadline_that_they_have_now() {
        let mut all = Exceedances::new(DAY, None);
        let held = |us, misses| Some(Held { deadline: Ns::from_us(us), misses });
        for (n, held) in [(1, held(500, 7)), (2, held(900, 1)), (3, held(900, 2))] {
            all.closed(UnixMs(n * FIVE_MIN), &[series(of_task(), &[(20, 100)], 0, held)]);
        }
        let [limit] = all.limits()[..] else { panic!() };
        assert_eq!((limit.samples, limit.above, limit.deadline_ns), (200, 3, Ns::from_us(900)));
    }

    #[test]
    fn nothing_is_claimed_of_tasks_while_some_activations_belong_to_nobody() {
        let mut all = Exceedances::new(DAY, Some(Ns::from_us(100)));
        let held = Some(Held { deadline: Ns::from_us(500), misses: 0 });
        all.closed(
            UnixMs(FIVE_MIN),
            &[series(of_task(), &[(20, 5)], 0, held), series(of_cpu(), &[(20, 5)], 0, None)],
        );
        assert_eq!(all.limits().len(), 2);
        all.incomplete(UnixMs(FIVE_MIN));
        assert_eq!(all.limits().len(), 1);
        assert!(all.limits()[0].key.whose.cpu().is_some());
        all.closed(UnixMs(FIVE_MIN * 290), &[series(of_task(), &[(20, 5)], 0, held)]);
        assert_eq!(all.limits().len(), 1, "a day later it is another window");
        assert!(all.limits()[0].key.whose.task().is_some());
    }

    #[test]
    fn a_long_span_is_kept_in_few_stretches_and_a_clock_set_back_does_not_keep_all_for_ever() {
        let month = Ns(30 * DAY.0);
        let mut all = Exceedances::new(month, Some(Ns::from_us(100)));
        for n in 1..=20_000 {
            all.closed(UnixMs(n * FIVE_MIN), &[series(of_cpu(), &[(20, 1)], 0, None)]);
        }
        let [(samples, 0)] = counts(&all)[..] else { panic!() };
        assert!((8_640 - 30..=8_640).contains(&samples), "{samples}");
        for n in 0..400 {
            all.closed(UnixMs(n * 30 * FIVE_MIN), &[series(of_cpu(), &[(20, 1)], 0, None)]);
        }
        let [(samples, 0)] = counts(&all)[..] else { panic!() };
        assert!(samples <= 289, "{samples}");
    }
}

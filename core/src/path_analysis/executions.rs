//! The maximum time that the executions of one interrupt take in a window.
//!
//! Exact for each window up to [`HORIZON`], in bounded memory: of all windows from one arrival to another, only those are stored
//! that no shorter window with the same or a larger total replaces.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::time::{Mono, Ns};

/// Length of the longest window. A latency that needs a longer one does not converge.
pub const HORIZON: Ns = Ns(100_000_000);
/// Maximum number of arrivals in a window: for more frequent interrupts, the longest window is shorter.
const MOST: usize = 256;
/// Maximum number of windows; beyond it, pairs are merged into one that covers both.
const MOST_WINDOWS: usize = 1024;

/// The executions of one interrupt on one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Executions {
    /// Source: `hard IRQ 25 (virtio0)`, `vector local_timer`, `NMI`.
    pub source: String,
    /// Number of executions.
    pub count: u64,
    /// Longest execution, without NMIs.
    pub longest_ns: Ns,
    /// Shortest time between two arrivals; null: fewer than two.
    pub shortest_interval_ns: Option<Ns>,
    /// Length of the longest window for which `spans_ns` and `windows` are complete.
    pub horizon_ns: Ns,
    /// Shortest time from the first to the last of 2, 3, 4, … consecutive arrivals.
    pub spans_ns: Vec<Ns>,
    /// In ascending order: maximum total of the executions in a window of this length, up to the length of the next entry.
    pub windows: Vec<Window>,
}

/// Executions whose arrivals lie in one window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// From the first arrival to the last.
    pub span_ns: Ns,
    /// Time that they take.
    pub total_ns: Ns,
}

impl Executions {
    /// No executions.
    #[must_use]
    pub fn new(source: String) -> Executions {
        Executions {
            source,
            count: 0,
            longest_ns: Ns::ZERO,
            shortest_interval_ns: None,
            horizon_ns: HORIZON,
            spans_ns: Vec::new(),
            windows: Vec::new(),
        }
    }

    /// Maximum total of the executions that arrive within `length`, both ends included.
    #[must_use]
    pub fn within(&self, length: Ns) -> Ns {
        let fits = self.windows.partition_point(|window| window.span_ns <= length);
        fits.checked_sub(1).map_or(Ns::ZERO, |last| self.windows[last].total_ns)
    }

    /// Maximum number of executions that arrive within `length`, both ends included.
    #[must_use]
    pub fn arrivals(&self, length: Ns) -> u64 {
        match self.count {
            0 => 0,
            _ => 1 + self.spans_ns.partition_point(|span| *span <= length) as u64,
        }
    }

    /// The reason why these figures contradict each other; `None`: they do not.
    #[must_use]
    pub fn contradiction(&self) -> Option<&'static str> {
        let total = self.windows.last().map_or(Ns::ZERO, |window| window.total_ns);
        let single = self.windows.first().filter(|window| window.span_ns == Ns::ZERO);
        let ascends =
            |pair: &[Window]| pair[0].span_ns < pair[1].span_ns && pair[0].total_ns < pair[1].total_ns;
        let checks = [
            (self.spans_ns.len() < MOST && self.windows.len() <= MOST_WINDOWS, "more windows than are kept"),
            (self.spans_ns.is_sorted(), "more arrivals in a shorter time"),
            (self.windows.windows(2).all(ascends), "its windows are not in order"),
            (
                self.count > self.spans_ns.len() as u64 || self.count == 0,
                "more arrivals in a window than executions",
            ),
            (self.count == 0 || single.is_some(), "no window of a single execution"),
            (
                single.is_none_or(|window| window.total_ns >= self.longest_ns),
                "its longest execution is in no window",
            ),
            (total.0 <= self.longest_ns.0.saturating_mul(self.count), "more time than its executions take"),
            (
                (self.shortest_interval_ns.is_some()) == (self.count > 1),
                "an interval of fewer than two arrivals, or none",
            ),
            (
                self.shortest_interval_ns
                    .is_none_or(|shortest| self.spans_ns.first().is_none_or(|span| shortest <= *span)),
                "two arrivals that are closer than the shortest interval",
            ),
            (self.horizon_ns <= HORIZON, "a longer window than is recorded"),
        ];
        checks.into_iter().find(|(holds, _)| !holds).map(|(_, what)| what)
    }

    /// Adds executions of the same source at another time.
    pub fn merge(&mut self, other: &Executions) {
        self.count = self.count.saturating_add(other.count);
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.horizon_ns = self.horizon_ns.min(other.horizon_ns);
        let intervals = [self.shortest_interval_ns, other.shortest_interval_ns];
        self.shortest_interval_ns = intervals.into_iter().flatten().min();
        for (at, span) in other.spans_ns.iter().enumerate() {
            self.spans(at, *span);
        }
        other.windows.iter().for_each(|window| self.window(*window));
    }

    /// A window of `place + 2` arrivals.
    fn spans(&mut self, place: usize, span: Ns) {
        match self.spans_ns.get_mut(place) {
            Some(shortest) => *shortest = span.min(*shortest),
            None => self.spans_ns.push(span),
        }
    }

    fn window(&mut self, new: Window) {
        let after = self.windows.partition_point(|window| window.span_ns <= new.span_ns);
        let is_less = after.checked_sub(1).is_some_and(|at| self.windows[at].total_ns >= new.total_ns);
        if is_less {
            return;
        }
        let begin = self.windows.partition_point(|window| window.span_ns < new.span_ns);
        let beaten =
            self.windows[begin..].iter().take_while(|window| window.total_ns <= new.total_ns).count();
        self.windows.splice(begin..begin + beaten, [new]);
        if self.windows.len() > MOST_WINDOWS {
            let pairs = self.windows.chunks(2).filter_map(|pair| {
                Some(Window { span_ns: pair.first()?.span_ns, total_ns: pair.last()?.total_ns })
            });
            self.windows = pairs.collect();
        }
    }
}

/// Collects executions, usually in the order of their arrivals. Each takes up to 255 steps.
#[derive(Clone, Debug)]
pub struct Collector {
    executions: Executions,
    recent: VecDeque<(Mono, Ns)>,
}

impl Collector {
    /// No executions.
    #[must_use]
    pub fn new(source: String) -> Collector {
        Collector { executions: Executions::new(source), recent: VecDeque::with_capacity(MOST) }
    }

    /// The executions so far.
    #[must_use]
    pub fn executions(&self) -> &Executions {
        &self.executions
    }

    /// Adds the execution that arrived at `arrival` and took `took`. Usually it is the latest; NMIs may be out of order.
    pub fn add(&mut self, arrival: Mono, took: Ns) {
        let (executions, recent) = (&mut self.executions, &mut self.recent);
        executions.count += 1;
        executions.longest_ns = executions.longest_ns.max(took);
        executions.window(Window { span_ns: Ns::ZERO, total_ns: took });
        let place = recent.partition_point(|(at, _)| *at <= arrival);
        let before = place.checked_sub(1).map(|at| arrival.since(recent[at].0));
        let behind = recent.get(place).map(|(at, _)| at.since(arrival));
        for interval in before.into_iter().chain(behind) {
            let shortest = executions.shortest_interval_ns.get_or_insert(interval);
            *shortest = interval.min(*shortest);
        }
        while recent.front().is_some_and(|(at, _)| arrival.since(*at) > HORIZON) {
            recent.pop_front();
        }
        if let Some((at, _)) = (recent.len() >= MOST).then(|| recent.pop_front()).flatten() {
            // Windows that would include the removed arrival are not complete.
            let known = arrival.since(at).saturating_sub(Ns(1));
            executions.horizon_ns = executions.horizon_ns.min(known);
        }
        let place = recent.partition_point(|(at, _)| *at <= arrival);
        recent.insert(place, (arrival, took));
        // All windows with this one in them.
        let mut behind = Ns::ZERO;
        for last in place..recent.len() {
            if last > place {
                behind = Ns(behind.0.saturating_add(recent[last].1 .0));
            }
            let mut total = Ns(behind.0.saturating_add(took.0));
            for first in (0..=place).rev() {
                if first < place {
                    total = Ns(total.0.saturating_add(recent[first].1 .0));
                }
                if first < last {
                    let span = recent[last].0.since(recent[first].0);
                    executions.spans(last - first - 1, span);
                    executions.window(Window { span_ns: span, total_ns: total });
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(executions: &[(u64, u64)]) -> Executions {
        let mut collector = Collector::new("vector x".to_owned());
        executions.iter().for_each(|&(at, took)| collector.add(Mono(at), Ns(took)));
        collector.executions
    }

    /// By definition: over all windows that begin with an arrival.
    fn most(executions: &[(u64, u64)], length: u64) -> (u64, u64) {
        let from = |begin: u64| {
            let inside = executions.iter().filter(|(at, _)| (begin..=begin + length).contains(at));
            (inside.clone().map(|(_, took)| took).sum(), inside.count() as u64)
        };
        let all: Vec<(u64, u64)> = executions.iter().map(|(at, _)| from(*at)).collect();
        let total = all.iter().map(|one| one.0).max().unwrap_or(0);
        (total, all.iter().map(|one| one.1).max().unwrap_or(0))
    }

    #[test]
    fn executions_further_apart_than_a_window_have_an_interval() {
        let rare = of(&[(0, 5), (200_000_000, 7), (500_000_000, 6)]);
        assert_eq!((rare.shortest_interval_ns, rare.contradiction()), (Some(Ns(200_000_000)), None));
        assert_eq!((rare.within(HORIZON), rare.arrivals(HORIZON)), (Ns(7), 1));
    }

    #[test]
    fn two_at_the_same_time_are_two() {
        let both = of(&[(5, 10), (5, 20)]);
        assert_eq!((both.count, both.shortest_interval_ns), (2, Some(Ns(0))));
        assert_eq!((both.within(Ns(0)), both.arrivals(Ns(0))), (Ns(30), 2));
    }

    #[test]
    fn of_more_than_are_kept_only_shorter_windows_are_known() {
        let frequent: Vec<(u64, u64)> = (0..2_000).map(|n| (n * 100, 1)).collect();
        let found = of(&frequent);
        assert_eq!(found.horizon_ns, Ns(25_599));
        assert_eq!(found.arrivals(found.horizon_ns), 256);
        assert_eq!(of(&frequent[..200]).horizon_ns, HORIZON);
    }

    #[test]
    fn windows_beyond_the_most_that_are_kept_are_rounded_up() {
        let mut executions = Executions::new("vector x".to_owned());
        let all: Vec<Window> =
            (0..5_000).map(|n| Window { span_ns: Ns(n * 3), total_ns: Ns(n + 1) }).collect();
        all.iter().for_each(|window| executions.window(*window));
        assert!(executions.windows.len() <= MOST_WINDOWS);
        for window in &all {
            assert!(executions.within(window.span_ns) >= window.total_ns, "{window:?}");
        }
        assert_eq!(executions.within(Ns(u64::MAX)), Ns(5_000));
    }

    proptest! {
        #[test]
        fn what_is_kept_has_every_window(
            executions in prop::collection::vec((0u64..50, 1u64..30), 0..60),
            length in 0u64..400,
            cut in 0usize..60,
        ) {
            let mut at = 0;
            let executions: Vec<(u64, u64)> =
                executions.into_iter().map(|(gap, took)| { at += gap; (at, took) }).collect();
            let found = of(&executions);
            prop_assert_eq!(found.contradiction(), None);
            let (total, arrivals) = most(&executions, length);
            prop_assert_eq!((found.within(Ns(length)).0, found.arrivals(Ns(length))), (total, arrivals));
            // In two measurements: each window of one of them.
            let (one, other) = executions.split_at(cut.min(executions.len()));
            let mut both = of(one);
            both.merge(&of(other));
            let (mine, theirs) = (most(one, length), most(other, length));
            prop_assert_eq!(both.within(Ns(length)).0, mine.0.max(theirs.0));
            prop_assert_eq!(both.arrivals(Ns(length)), mine.1.max(theirs.1));
            prop_assert_eq!(both.count, found.count);
        }

        #[test]
        fn their_order_does_not_matter(
            executions in prop::collection::vec((0u64..300, 1u64..30), 0..40), length in 0u64..400,
        ) {
            let found = of(&executions);
            let (total, arrivals) = most(&executions, length);
            prop_assert_eq!((found.within(Ns(length)).0, found.arrivals(Ns(length))), (total, arrivals));
            let mut times: Vec<u64> = executions.iter().map(|(at, _)| *at).collect();
            times.sort_unstable();
            let interval = times.windows(2).map(|pair| Ns(pair[1] - pair[0])).min();
            prop_assert_eq!(found.shortest_interval_ns, interval);
        }
    }
}

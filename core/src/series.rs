//! A series: one latency quantity on one CPU or of one thread, with everything that may be said of it.

mod in_time;
pub mod labels;
mod quantity;
mod sum;

pub use in_time::maxima_in_time;
pub use quantity::{Facts, Quantity};

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::latency_box::session::SessionMark;
use crate::latency_box::Counts;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// A thread as it was when seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Thread id.
    pub tid: Tid,
    /// Name (`comm`), at most 15 bytes, in an import of several files after the name of its file; may be empty when it was
    /// not recorded.
    pub comm: String,
    /// Priority on the kernel's scale; `None` where not recorded.
    pub prio: Option<Prio>,
}

impl std::fmt::Display for Thread {
    /// `comm/tid (RT 95)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comm = if self.comm.is_empty() { "<unknown>" } else { &self.comm };
        match self.prio {
            Some(prio) => write!(f, "{comm}/{} ({prio})", self.tid),
            None => write!(f, "{comm}/{}", self.tid),
        }
    }
}

/// The largest latency of one second of the run; the time order that tests of independence need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecondMax {
    /// Seconds since the series began.
    pub second: u32,
    /// The largest latency in that second.
    pub max_ns: Ns,
}

/// Entries of [`Series::seconds`] at most: one hour second by second.
pub const MAXIMA_KEPT: u32 = 3_600;

fn one() -> u32 {
    1
}

// serde hands out a reference
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_one(value: &u32) -> bool {
    *value == 1
}

/// One latency quantity on one CPU (or of one thread).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Series {
    /// What was measured.
    pub quantity: Quantity,
    /// Where; `None` for a thread that moves.
    pub cpu: Option<Cpu>,
    /// Of whom; `None` when it is of every real-time task on the CPU.
    pub thread: Option<Thread>,
    /// When the first sample was taken.
    pub begin: Option<Mono>,
    /// Distance of two activations; `None` when there is no fixed one.
    pub interval_ns: Option<Ns>,
    /// All samples, nothing clipped.
    pub histogram: Histogram,
    /// The same with each missed activation counted at the latency it would have had, where the instrument knows
    /// (the other view of a stall; Tene calls the difference coordinated omission). Of the turns of a thread: at the
    /// largest latency that is possible, up to the end of the next turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Histogram>,
    /// Variance of all samples, ns², where the instrument computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance_ns2: Option<f64>,
    /// Maxima of each second, in time order; seconds without a sample are absent.
    pub seconds: Vec<SecondMax>,
    /// Of how many seconds each entry of `seconds` is the maximum: 1 in the first hour of a run, a power of two later.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub seconds_stretch: u32,
    /// Activations that passed inside a stall and gave no sample of their own; `None`: not known.
    pub missed: Option<u64>,
    /// Samples taken but lost before they were counted.
    pub lost: u64,
    /// Whether none of the lost samples is above the largest that is known, as a summary of another program says.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_below_max: bool,
    /// No lost sample is above this, by what was recorded around them; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within_ns: Option<Ns>,
    /// Channel of a series of round trips (`udp:127.0.0.1:7777`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Stimuli and answers, of a series of round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The session of a series of round trips, at the box; of a series of turnarounds, at the responder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<SessionMark>,
}

impl Series {
    /// An empty series.
    #[must_use]
    pub fn new(quantity: Quantity, cpu: Option<Cpu>, histogram: Histogram) -> Series {
        Series {
            quantity,
            cpu,
            thread: None,
            begin: None,
            interval_ns: None,
            histogram,
            replayed: None,
            variance_ns2: None,
            seconds: Vec::new(),
            seconds_stretch: 1,
            missed: Some(0),
            lost: 0,
            lost_below_max: false,
            lost_within_ns: None,
            channel: None,
            counts: None,
            session: None,
        }
    }

    /// The latencies of all activations, with those that were missed; `None` where theirs are not known.
    #[must_use]
    pub fn activations(&self) -> Option<&Histogram> {
        let replayed = self.replayed.as_ref().filter(|all| all.count() >= self.histogram.count());
        replayed.or_else(|| (self.missed == Some(0)).then_some(&self.histogram))
    }

    /// The most that a lost sample can have been; `None`: not known.
    #[must_use]
    pub fn lost_at_most(&self) -> Option<Ns> {
        match self.lost {
            0 => Some(Ns::ZERO),
            _ if self.lost_below_max => self.histogram.max(),
            _ => self.lost_within_ns,
        }
    }

    /// Samples of which it is known that none is above the largest: those counted, and lost ones that were not above it.
    #[must_use]
    pub fn samples_bounded(&self) -> u64 {
        self.histogram.count().saturating_add(if self.lost_below_max { self.lost } else { 0 })
    }

    /// Takes the maxima of each second (ascending). From more than [`MAXIMA_KEPT`] seconds on, only the largest of
    /// each stretch of 2, 4, 8 … seconds is kept, at the second in which it was: a run of a week stays a small file.
    pub fn set_seconds(&mut self, seconds: Vec<SecondMax>) {
        self.seconds = seconds;
        self.seconds_stretch = compact_seconds(&mut self.seconds);
    }

    /// A short name for legends: the channel, `CPU 1`, or `comm/tid`.
    #[must_use]
    pub fn label(&self) -> String {
        if let Some(channel) = &self.channel {
            return channel.clone();
        }
        match (&self.cpu, &self.thread) {
            (Some(cpu), _) => format!("CPU {cpu}"),
            (None, Some(thread)) => thread.to_string(),
            (None, None) => "all".to_owned(),
        }
    }
}

/// Keeps the largest of each stretch, as [`Series::set_seconds`] says, and returns the length of the stretches. Whoever
/// measures for weeks calls it now and then: done on the way or at the end, what is kept is the same.
pub fn compact_seconds(seconds: &mut Vec<SecondMax>) -> u32 {
    let span = seconds.last().map_or(0, |last| last.second) / MAXIMA_KEPT + 1;
    let length = span.checked_next_power_of_two().unwrap_or(1 << 31);
    seconds.dedup_by(|later, kept| {
        let same = later.second / length == kept.second / length;
        if same && later.max_ns > kept.max_ns {
            *kept = *later;
        }
        same
    });
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;

    #[test]
    fn maxima_compacted_on_the_way_are_those_compacted_at_the_end() {
        let all =
            |n: u32| SecondMax { second: n, max_ns: Ns(u64::from(n.wrapping_mul(2_654_435_761) % 997)) };
        let mut on_the_way = Vec::new();
        for second in (0..40_000).map(all) {
            on_the_way.push(second);
            if on_the_way.len() > 2 * MAXIMA_KEPT as usize {
                compact_seconds(&mut on_the_way);
                assert!(on_the_way.len() <= MAXIMA_KEPT as usize);
            }
        }
        let mut at_the_end: Vec<SecondMax> = (0..40_000).map(all).collect();
        assert_eq!(compact_seconds(&mut on_the_way), compact_seconds(&mut at_the_end));
        assert_eq!(on_the_way, at_the_end);
    }

    fn with(seconds: &[(u32, u64)]) -> Series {
        let mut series = Series::new(Quantity::Cyclic, None, Histogram::new(Layout::LATENCY));
        series
            .set_seconds(seconds.iter().map(|&(second, ns)| SecondMax { second, max_ns: Ns(ns) }).collect());
        series
    }

    #[test]
    fn an_hour_is_kept_second_by_second_and_longer_runs_keep_the_worst_of_each_stretch() {
        let hour: Vec<(u32, u64)> = (0..MAXIMA_KEPT).map(|second| (second, 1)).collect();
        assert_eq!((with(&hour).seconds.len(), with(&hour).seconds_stretch), (3_600, 1));
        assert_eq!((with(&[]).seconds.len(), with(&[]).seconds_stretch), (0, 1));
        // twice that span, and one second more
        let longer = with(&[(0, 5), (1, 9), (3, 5), (4, 2), (5, 4), (6, 3), (7, 4), (7_200, 8)]);
        let kept: Vec<_> = longer.seconds.iter().map(|s| (s.second, s.max_ns.0)).collect();
        assert_eq!((longer.seconds_stretch, kept), (4, vec![(1, 9), (5, 4), (7_200, 8)]));
    }

    #[test]
    fn a_replay_that_lacks_samples_tells_of_no_activation_and_lost_samples_are_bounded_only_if_said() {
        let mut series = with(&[]);
        [5, 7].iter().for_each(|&us| series.histogram.record(Ns::from_us(us)));
        series.replayed = Some(Histogram::new(Layout::LATENCY));
        assert_eq!(series.activations(), Some(&series.histogram), "it missed none");
        series.missed = Some(1);
        assert_eq!(series.activations(), None);
        series.lost = 3;
        assert_eq!(series.samples_bounded(), 2);
        series.lost_below_max = true;
        assert_eq!(series.samples_bounded(), 5);
    }

    #[test]
    fn the_longest_time_that_a_file_can_name_is_no_overflow() {
        let series = with(&[(1, 7), (u32::MAX, 6)]);
        assert_eq!(series.seconds.len(), 2);
        assert!(u64::from(u32::MAX) / u64::from(series.seconds_stretch) < u64::from(MAXIMA_KEPT));
    }
}

//! A series: one latency quantity on one CPU or of one thread, with its statistics, losses and coverage.

mod in_time;
pub mod labels;
mod quantity;
mod sum;

pub use in_time::{longest_stretch, maxima_in_time};
pub use quantity::{Facts, Quantity};

use serde::{Deserialize, Serialize};

use crate::histogram::Histogram;
use crate::latency_box::session::SessionMark;
use crate::latency_box::Counts;
use crate::time::{Cpu, Mono, Ns, Prio, Tid};

/// A thread, with the name and priority it had when it was observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thread {
    /// Thread id; 0: not recorded, or a chain of threads.
    pub tid: Tid,
    /// Name (`comm`), at most 15 bytes; prefixed with the file name in an import of several files; empty if it was not
    /// recorded.
    pub comm: String,
    /// Priority on the kernel's scale; `None`: not recorded.
    pub prio: Option<Prio>,
}

impl std::fmt::Display for Thread {
    /// `comm/tid (RT 95)`; without thread id and priority (a chain of threads) only the name.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let comm = if self.comm.is_empty() { "<unknown>" } else { &self.comm };
        match self.prio {
            Some(prio) => write!(f, "{comm}/{} ({prio})", self.tid),
            None if self.tid == Tid(0) => f.write_str(comm),
            None => write!(f, "{comm}/{}", self.tid),
        }
    }
}

/// The largest latency of one second (or stretch of seconds), kept in time order for tests of independence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SecondMax {
    /// Seconds since the first sample of the series.
    pub second: u32,
    /// The largest latency in that second.
    pub max_ns: Ns,
}

/// Maximum number of entries in [`Series::seconds`]: one hour at one entry per second.
pub const MAXIMA_KEPT: u32 = 3_600;

fn one() -> u32 {
    1
}

// serde passes a reference
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
    /// CPU; `None` for a thread that migrates.
    pub cpu: Option<Cpu>,
    /// Measured thread; `None`: all real-time tasks on the CPU.
    pub thread: Option<Thread>,
    /// Time of the first sample.
    pub begin: Option<Mono>,
    /// Period of the activations; `None` if it is not fixed.
    pub interval_ns: Option<Ns>,
    /// All samples, nothing clipped.
    pub histogram: Histogram,
    /// All samples plus each missed activation at the latency it would have had, where the instrument knows it
    /// (corrects coordinated omission, G. Tene). For the jobs of a thread: at the largest possible latency, up to the
    /// end of the next job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replayed: Option<Histogram>,
    /// Variance of all samples, ns², where the instrument computes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variance_ns2: Option<f64>,
    /// Maxima of each second, in time order; seconds without a sample are absent.
    pub seconds: Vec<SecondMax>,
    /// Number of seconds that each entry of `seconds` covers: 1 in the first hour of a run, a larger power of two
    /// later.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub seconds_stretch: u32,
    /// Activations that fell into a stall and gave no sample; `None`: not known.
    pub missed: Option<u64>,
    /// Samples that were taken but lost before they were counted.
    pub lost: u64,
    /// Whether the largest known sample is also the maximum of the lost ones, according to the summary of another
    /// program.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub lost_below_max: bool,
    /// Upper limit of the lost samples, derived from the events recorded around them; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_within_ns: Option<Ns>,
    /// The values were rounded down to multiples of this by another program: each may have been longer by less than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rounded_down_ns: Option<Ns>,
    /// Channel of a series of round trips (`udp:127.0.0.1:7777`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Stimuli and answers of a series of round trips.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// The session: of round trips, at the box; of turnarounds, at the responder.
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
            rounded_down_ns: None,
            channel: None,
            counts: None,
            session: None,
        }
    }

    /// The latencies of all activations, missed ones included; `None` if the latencies of the missed ones are not
    /// known.
    #[must_use]
    pub fn activations(&self) -> Option<&Histogram> {
        let replayed = self.replayed.as_ref().filter(|all| all.count() >= self.histogram.count());
        replayed.or_else(|| (self.missed == Some(0)).then_some(&self.histogram))
    }

    /// Upper limit of the largest sample; above it if the values were rounded down. `None` without samples.
    #[must_use]
    pub fn max_at_most(&self) -> Option<Ns> {
        let rounded = self.rounded_down_ns.map_or(0, |step| step.0.saturating_sub(1));
        self.histogram.max().map(|max| Ns(max.0.saturating_add(rounded)))
    }

    /// Upper limit of the lost samples, 0 if none was lost; `None`: not known.
    #[must_use]
    pub fn lost_at_most(&self) -> Option<Ns> {
        match self.lost {
            0 => Some(Ns::ZERO),
            _ if self.lost_below_max => self.max_at_most(),
            _ => self.lost_within_ns,
        }
    }

    /// Number of samples known not to exceed the maximum: the counted ones, and the lost ones if the summary of another
    /// program shows that they are below it ([`Series::lost_below_max`]).
    #[must_use]
    pub fn samples_bounded(&self) -> u64 {
        self.histogram.count().saturating_add(if self.lost_below_max { self.lost } else { 0 })
    }

    /// Sets the maxima of each second (ascending). Beyond [`MAXIMA_KEPT`] seconds, keeps only the largest of each
    /// stretch of 2, 4, 8 … seconds, with its own second: the file of a run of a week stays small.
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

/// Keeps the largest of each stretch, see [`Series::set_seconds`], and returns the length of the stretches in seconds.
/// Long measurements call it from time to time: the result does not depend on how often.
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
    fn missed_activations_are_not_forgotten_in_a_sum_with_an_unknown_number_of_them() {
        let of = |missed: Option<u64>| {
            let mut series = with(&[]);
            series.histogram.record(Ns::from_us(5));
            series.missed = missed;
            series
        };
        for (one, other, sum) in [
            (Some(5), None, (None, 5)),
            (None, Some(5), (None, 5)),
            (None, None, (None, 0)),
            (Some(5), Some(1), (Some(6), 0)),
        ] {
            let mut all = of(one);
            all.lost_below_max = true;
            all.add_samples(&of(other)).unwrap();
            assert_eq!((all.missed, all.lost), sum, "{one:?} + {other:?}");
            assert!(!all.lost_below_max && all.lost_within_ns.is_none());
        }
    }

    #[test]
    fn the_longest_time_that_a_file_can_name_is_no_overflow() {
        let series = with(&[(1, 7), (u32::MAX, 6)]);
        assert_eq!(series.seconds.len(), 2);
        assert!(u64::from(u32::MAX) / u64::from(series.seconds_stretch) < u64::from(MAXIMA_KEPT));
    }
}

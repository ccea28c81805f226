//! Cost of reading a clock, by each path: the figures and their table.
//!
//! A sample is the difference of two consecutive reads, in the clock's unit. With a coarse clock most differences are
//! 0, so the share of zeros and the step are also reported, and the cost of a read comes from the throughput, which is
//! measured with another clock.

use serde::Serialize;

use crate::numbers::counted;
use crate::printable;
use crate::run::Interference;
use crate::time::{Cpu, Ns};

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-clock";
/// The version written.
pub const VERSION: u32 = 1;

/// Cost of one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// How the clock is read.
    pub path: String,
    /// Pairs of reads.
    pub pairs: u64,
    /// Largest difference, ns.
    pub max_ns: f64,
    /// Mean difference, ns.
    pub avg_ns: f64,
    /// Smallest difference, ns.
    pub min_ns: f64,
    /// Standard deviation of the differences, ns.
    pub sd_ns: f64,
    /// Time per read, measured with another clock, ns; includes 1 to 3 ns of loop overhead.
    pub read_ns: f64,
    /// Smallest difference that is not 0, ns; `None`: all were 0.
    pub step_ns: Option<f64>,
    /// Share of differences that are 0.
    pub zero_share: f64,
    /// Negative differences on one CPU: must be 0.
    pub backward: u64,
    /// Whether the C library needed no system call; `None`: not applicable to this path.
    pub without_system_call: Option<bool>,
    /// Why not, or other remarks.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Agreement of the clocks of two CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// The clock.
    pub clock: String,
    /// The reference CPU.
    pub from: Cpu,
    /// The other one.
    pub to: Cpu,
    /// Exchanges.
    pub exchanges: u64,
    /// Number of reads on one CPU that returned less than an earlier read on the other.
    pub backward: u64,
    /// The largest such step.
    pub largest_step_ns: Ns,
    /// Offset of `to` from `from`, ns, positive if `to` is ahead; from the fastest exchange.
    pub offset_ns: f64,
    /// Half of that exchange's round trip: the uncertainty of the offset.
    pub uncertainty_ns: f64,
}

/// Interruptions of a loop of reads: the outliers of the table above, by source.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Gaps {
    /// Iterations this long or longer are gaps.
    pub threshold_ns: Ns,
    /// Iterations of the loop.
    pub turns: u64,
    /// Number of gaps.
    pub count: u64,
    /// The longest; `None`: there was none.
    pub longest_ns: Option<Ns>,
    /// Sources of the gaps, the largest total first.
    pub sources: Vec<Interference>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// The result of `lathunt clock`.
#[derive(Clone, Debug, Serialize)]
pub struct Clocks {
    /// Always [`FORMAT`].
    pub format: &'static str,
    /// Always [`VERSION`].
    pub version: u32,
    /// CPU on which the costs were measured.
    pub cpu: Cpu,
    /// The clock source of the kernel.
    pub clocksource: Option<String>,
    /// Frequency of the processor's counter, Hz.
    pub counter_hz: f64,
    /// `stated` or `measured`.
    pub counter_hz_is: &'static str,
    /// The cost of each path.
    pub costs: Vec<Cost>,
    /// Pairs of CPUs.
    pub agreement: Vec<Agreement>,
    /// Interruptions of a loop of reads; `None`: not measured.
    pub gaps: Option<Gaps>,
    /// Remarks.
    pub notes: Vec<String>,
}

/// Figures of a published table, for comparison: reads of the clock under MaRTE OS and real-time Linux, 1e8 each, µs.
const PUBLISHED: [(&str, [f64; 4]); 3] = [
    ("published: real-time Linux", [12.79, 0.07, 0.07, 0.04]),
    ("published: MaRTE OS", [13.00, 2.05, 2.00, 0.21]),
    ("published: MaRTE OS with vDSO", [9.80, 0.19, 0.18, 0.06]),
];

/// Accumulates differences; about 3 ns each.
#[derive(Clone, Copy, Debug)]
pub struct Tally {
    count: u64,
    zeros: u64,
    backward: u64,
    sum: f64,
    squares: f64,
    min: u64,
    step: u64,
    max: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            count: 0,
            zeros: 0,
            backward: 0,
            sum: 0.0,
            squares: 0.0,
            min: u64::MAX,
            step: u64::MAX,
            max: 0,
        }
    }
}

impl Tally {
    /// One pair of reads, in the clock's own unit.
    #[inline]
    pub fn pair(&mut self, first: u64, second: u64) {
        if second < first {
            self.backward += 1;
            return;
        }
        let difference = second - first;
        self.count += 1;
        self.zeros += u64::from(difference == 0);
        self.sum += difference as f64;
        self.squares += difference as f64 * difference as f64;
        self.min = self.min.min(difference);
        self.max = self.max.max(difference);
        if difference > 0 {
            self.step = self.step.min(difference);
        }
    }

    /// Pairs so far.
    #[must_use]
    pub fn pairs(&self) -> u64 {
        self.count + self.backward
    }

    /// The figures, with `unit_ns` ns per unit of the clock and `elapsed_ns` for all pairs. `None` without a pair.
    #[must_use]
    pub fn cost(&self, path: &str, unit_ns: f64, elapsed_ns: f64) -> Option<Cost> {
        let pairs = self.pairs();
        (self.count > 0).then(|| {
            let mean = self.sum / self.count as f64;
            let variance = (self.squares / self.count as f64 - mean * mean).max(0.0);
            Cost {
                path: path.to_owned(),
                pairs,
                max_ns: self.max as f64 * unit_ns,
                avg_ns: mean * unit_ns,
                min_ns: self.min as f64 * unit_ns,
                sd_ns: variance.sqrt() * unit_ns,
                read_ns: elapsed_ns / (2 * pairs) as f64,
                step_ns: (self.step != u64::MAX).then_some(self.step as f64 * unit_ns),
                zero_share: self.zeros as f64 / self.count as f64,
                backward: self.backward,
                without_system_call: None,
                note: String::new(),
            }
        })
    }
}

impl Clocks {
    /// The result as a table; `compare`: with published figures.
    #[must_use]
    pub fn to_text(&self, compare: bool) -> String {
        let source = self.clocksource.as_deref().unwrap_or("unknown");
        let mut text = format!(
            "Clock source {source}, counter of {:.6} GHz ({}), CPU {}; differences of two reads, µs\n\n",
            self.counter_hz / 1e9,
            self.counter_hz_is,
            self.cpu
        );
        text.push_str(&format!(
            "{:<34} {:>9} {:>8} {:>8} {:>8} {:>9} {:>9} {:>10} {:>7}  {}\n",
            "path", "max", "avg", "min", "sd", "read ns", "M reads/s", "step ns", "zeros", "system call"
        ));
        for cost in &self.costs {
            let us = |ns: f64| ns / 1000.0;
            let call = match cost.without_system_call {
                Some(true) => "no (vDSO)".to_owned(),
                Some(false) => format!("yes: {}", cost.note),
                None => cost.note.clone(),
            };
            let row = format!(
                "{:<34} {:>9.2} {:>8.3} {:>8.3} {:>8.3} {:>9.1} {:>9.2} {:>10} {:>6.1}%  {call}",
                cost.path,
                us(cost.max_ns),
                us(cost.avg_ns),
                us(cost.min_ns),
                us(cost.sd_ns),
                cost.read_ns,
                1000.0 / cost.read_ns,
                cost.step_ns.map_or("-".to_owned(), |step| format!("{step:.1}")),
                cost.zero_share * 100.0,
            );
            text.push_str(&format!("{}\n", row.trim_end()));
        }
        if compare {
            for (name, [max, avg, min, sd]) in PUBLISHED {
                text.push_str(&format!("{name:<34} {max:>9.2} {avg:>8.3} {min:>8.3} {sd:>8.3}\n"));
            }
        }
        self.footer(&mut text);
        text
    }

    fn footer(&self, text: &mut String) {
        if !self.agreement.is_empty() {
            text.push_str("\nCPUs against each other:\n");
        }
        for one in &self.agreement {
            let steps = match one.backward {
                0 => "never backwards".to_owned(),
                n => format!("BACKWARDS {}, by up to {} ns", counted(n, "time"), one.largest_step_ns.0),
            };
            text.push_str(&format!(
                "  {} CPU {} → CPU {}: {steps} in {} exchanges; offset {:+.0} ± {:.0} ns\n",
                one.clock, one.from, one.to, one.exchanges, one.offset_ns, one.uncertainty_ns
            ));
        }
        if let Some(gaps) = &self.gaps {
            gaps.footer(text);
        }
        for cost in self.costs.iter().filter(|cost| cost.backward > 0) {
            text.push_str(&format!(
                "  {}: BACKWARDS {} on one CPU\n",
                cost.path,
                counted(cost.backward, "time")
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("note: {note}\n"));
        }
    }

    /// Whether any clock stepped back.
    #[must_use]
    pub fn went_backwards(&self) -> bool {
        self.costs.iter().any(|cost| cost.backward > 0) || self.agreement.iter().any(|one| one.backward > 0)
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() // plain structs always serialize
    }
}

impl Gaps {
    fn footer(&self, text: &mut String) {
        let longest = self.longest_ns.map_or("none".to_owned(), |longest| format!("the longest {longest}"));
        text.push_str(&format!(
            "\nWhat interrupts a loop of reads: {} of {} turns took {} or more, {longest}\n",
            self.count, self.turns, self.threshold_ns
        ));
        for source in self.sources.iter().take(8) {
            text.push_str(&format!(
                "  {:>6} times, {:>10} in all, {:>10} at most: {}\n",
                source.count,
                source.total_ns.to_string(),
                source.max_ns.to_string(),
                printable::line(&source.source)
            ));
        }
        for note in &self.notes {
            text.push_str(&format!("  note: {}\n", printable::line(note)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_those_of_the_differences() {
        let mut tally = Tally::default();
        for (first, second) in [(0, 2), (10, 14), (20, 20), (30, 36), (9, 8)] {
            tally.pair(first, second);
        }
        let cost = tally.cost("x", 0.5, 1000.0).unwrap();
        assert_eq!((cost.pairs, cost.backward), (5, 1));
        assert_eq!((cost.min_ns, cost.max_ns, cost.avg_ns, cost.step_ns), (0.0, 3.0, 1.5, Some(1.0)));
        assert!((cost.sd_ns - 0.5 * 5f64.sqrt()).abs() < 1e-12, "{}", cost.sd_ns);
        assert_eq!((cost.zero_share, cost.read_ns), (0.25, 100.0));
        assert_eq!(Tally::default().cost("x", 1.0, 1.0), None);
    }

    #[test]
    fn a_clock_that_stepped_back_is_shouted() {
        let mut tally = Tally::default();
        tally.pair(5, 4);
        tally.pair(5, 9);
        let clocks = Clocks {
            format: FORMAT,
            version: VERSION,
            cpu: Cpu(1),
            clocksource: None,
            counter_hz: 2e9,
            counter_hz_is: "stated",
            costs: tally.cost("rdtsc", 1.0, 80.0).into_iter().collect(),
            agreement: Vec::new(),
            gaps: Some(Gaps {
                threshold_ns: Ns(1_000),
                turns: 500,
                count: 2,
                longest_ns: Some(Ns(9_000)),
                sources: vec![Interference {
                    cpu: Cpu(1),
                    source: "vector local_timer".to_owned(),
                    count: 2,
                    total_ns: Ns(12_000),
                    max_ns: Ns(9_000),
                }],
                notes: Vec::new(),
            }),
            notes: Vec::new(),
        };
        assert!(clocks.went_backwards());
        let told = clocks.to_text(false);
        assert!(
            told.contains("2 of 500 turns took 1.0 µs or more, the longest 9.0 µs")
                && told.contains("2 times,    12.0 µs in all,     9.0 µs at most: vector local_timer"),
            "{told}"
        );
        let text = clocks.to_text(true);
        assert!(
            text.contains("rdtsc: BACKWARDS 1 time") && text.contains("12.79    0.070    0.070    0.040"),
            "{text}"
        );
    }
}

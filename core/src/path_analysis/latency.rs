//! The bound: Theorem 8 of the paper, for six characterisations of interrupts (its section 5.3).
//!
//! L is the least solution of L = max(D_ST, D_POID) + D_PAIE + D_PSD + I(L), where I(L) is the time of interrupts within L. Two
//! differences from rtsl, the authors' program: I(L) of each interrupt is evaluated for the whole of L, while rtsl subtracts its
//! contribution of the previous step (80 ns with interrupts of 20 ns at 0 and 90 ns give 120 ns, in rtsl 100 ns); and the window
//! includes carry-in, an interrupt that arrived before L and is still running.

use super::executions::{Executions, HORIZON};
use super::PathAnalysis;
use crate::time::Ns;

/// How interrupts are assumed to arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interference {
    /// None.
    None,
    /// The longest execution of all sources, once.
    WorstSingle,
    /// The longest execution of each source, once.
    WorstOfEach,
    /// Each source at its shortest interval, with its longest execution each time.
    Sporadic,
    /// The maximum total of each source in a window of that length.
    SlidingWindow,
    /// The maximum number of executions of each source in a window of that length, each with its longest execution.
    SlidingWindowOfLongest,
}

impl Interference {
    /// All, in the order of the output.
    pub const ALL: [Interference; 6] = [
        Interference::None,
        Interference::WorstSingle,
        Interference::WorstOfEach,
        Interference::SlidingWindow,
        Interference::SlidingWindowOfLongest,
        Interference::Sporadic,
    ];

    /// Name in texts and files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Interference::None => "no interrupts",
            Interference::WorstSingle => "worst single interrupt",
            Interference::WorstOfEach => "worst of each interrupt",
            Interference::Sporadic => "sporadic",
            Interference::SlidingWindow => "sliding window",
            Interference::SlidingWindowOfLongest => "sliding window of longest executions",
        }
    }
}

/// The reason for a missing bound.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBound {
    /// No scheduler run was recorded.
    #[error("the scheduler did not run")]
    NoTerms,
    /// Executions or sections were lost.
    #[error("{0} executions or sections were lost")]
    Lost(u64),
    /// The latency without interrupts is longer than the longest window.
    #[error("{0} without interrupts; the time of interrupts is recorded for up to {HORIZON}")]
    TooLong(Ns),
    /// No solution up to [`HORIZON`].
    #[error("does not converge")]
    DoesNotConverge,
    /// An interrupt is so frequent that its longest window is too short.
    #[error("{0} is so frequent that its executions are recorded for windows of up to {1}")]
    TooFrequent(String, Ns),
}

/// A bound, and the contribution of each interrupt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The bound.
    pub total: Ns,
    /// Per source, in the order of the measurement: time within `total`, and largest number of executions.
    pub interrupts: Vec<(Ns, u64)>,
}

/// Maximum number of evaluations of a source in one fixed-point iteration.
const EVALUATIONS: usize = 200_000;

impl PathAnalysis {
    /// max(D_ST, D_POID) + D_PAIE + D_PSD: the bound without interrupts. `None`: no run of the scheduler was seen.
    #[must_use]
    pub fn without_interrupts(&self) -> Option<Ns> {
        let ns = |one: &Option<super::Longest>| one.as_ref().map_or(0, |one| one.ns.0);
        self.psd.as_ref()?;
        let blocked = ns(&self.dst).max(ns(&self.poid));
        Some(Ns(blocked.saturating_add(ns(&self.paie)).saturating_add(ns(&self.psd))))
    }

    /// The bound.
    ///
    /// # Errors
    /// Why there is none.
    pub fn latency(&self, how: Interference) -> Result<Latency, NoBound> {
        if self.lost > 0 {
            return Err(NoBound::Lost(self.lost));
        }
        let without = self.without_interrupts().ok_or(NoBound::NoTerms)?;
        let in_windows =
            !matches!(how, Interference::None | Interference::WorstSingle | Interference::WorstOfEach);
        if in_windows && without > HORIZON {
            return Err(NoBound::TooLong(without));
        }
        let mut total = without;
        let steps = EVALUATIONS / self.interrupts.len().max(1);
        for _ in 0..steps.max(50) {
            let interrupts = self.interference(how, total)?;
            let next = interrupts.iter().fold(without.0, |sum, (ns, _)| sum.saturating_add(ns.0));
            if next == total.0 {
                return Ok(Latency { total, interrupts });
            }
            if in_windows && next > HORIZON.0 {
                break;
            }
            total = Ns(next);
        }
        Err(NoBound::DoesNotConverge)
    }

    /// Per source, within `length`.
    fn interference(&self, how: Interference, length: Ns) -> Result<Vec<(Ns, u64)>, NoBound> {
        // Carry-in: an execution in progress arrived up to its duration earlier, plus that of an NMI within it.
        let nmi = self.interrupts.iter().filter(|one| one.source == NMI).map(|one| one.longest_ns.0).max();
        let window = |one: &Executions| {
            let nmi = nmi.filter(|_| one.source != NMI).unwrap_or(0);
            Ns(length.0.saturating_add(one.longest_ns.0).saturating_add(nmi))
        };
        let is_nmi = |one: &Executions| one.source == NMI;
        let once = |one: &Executions| (one.longest_ns, u64::from(one.count > 0));
        let worst = |nmi: bool| {
            let of = self.interrupts.iter().enumerate().filter(move |(_, one)| is_nmi(one) == nmi);
            of.max_by_key(|(_, one)| one.longest_ns).map(|(at, _)| at)
        };
        let single = [worst(false), worst(true)];
        let of = |(at, one): (usize, &Executions)| match how {
            Interference::None => Ok((Ns::ZERO, 0)),
            Interference::WorstSingle => {
                Ok(if single.contains(&Some(at)) { once(one) } else { (Ns::ZERO, 0) })
            }
            Interference::WorstOfEach => Ok(once(one)),
            Interference::Sporadic => sporadic(one, window(one)).ok_or(NoBound::DoesNotConverge),
            Interference::SlidingWindow => {
                known(one, window(one)).map(|window| (one.within(window), one.arrivals(window)))
            }
            Interference::SlidingWindowOfLongest => known(one, window(one)).map(|window| {
                let arrivals = one.arrivals(window);
                (Ns(one.longest_ns.0.saturating_mul(arrivals)), arrivals)
            }),
        };
        self.interrupts.iter().enumerate().map(of).collect()
    }
}

/// Source of NMIs, which may come within an interrupt.
pub const NMI: &str = "NMI";

fn known(one: &Executions, window: Ns) -> Result<Ns, NoBound> {
    match window <= one.horizon_ns {
        true => Ok(window),
        false if one.horizon_ns < HORIZON => Err(NoBound::TooFrequent(one.source.clone(), one.horizon_ns)),
        false => Err(NoBound::DoesNotConverge),
    }
}

fn sporadic(one: &Executions, window: Ns) -> Option<(Ns, u64)> {
    let Some(interval) = one.shortest_interval_ns else { return Some((one.longest_ns, one.count)) };
    // It needs more than all of the CPU time.
    if one.longest_ns > interval || interval.0 == 0 {
        return None;
    }
    let executions = window.0.div_ceil(interval.0);
    Some((Ns(one.longest_ns.0.saturating_mul(executions)), executions))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::executions::Collector;
    use super::super::Longest;
    use super::*;
    use crate::series::Thread;
    use crate::time::{Cpu, Mono};

    fn longest(ns: u64) -> Option<Longest> {
        let thread = Thread::default();
        (ns > 0).then(|| Longest { ns: Ns(ns), end: Mono(0), thread, place: String::new() })
    }

    fn terms([poid, dst, paie, psd]: [u64; 4], sources: &[(&str, &[(u64, u64)])]) -> PathAnalysis {
        let of = |(source, executions): &(&str, &[(u64, u64)])| {
            let mut collector = Collector::new((*source).to_owned());
            executions.iter().for_each(|&(at, took)| collector.add(Mono(at), Ns(took)));
            collector.executions().clone()
        };
        PathAnalysis {
            cpu: Cpu(0),
            poid: longest(poid),
            paie: longest(paie),
            psd: longest(psd),
            dst: longest(dst),
            interrupts: sources.iter().map(of).collect(),
            lost: 0,
        }
    }

    fn total(path: &PathAnalysis, how: Interference) -> Option<u64> {
        path.latency(how).ok().map(|latency| latency.total.0)
    }

    /// The example of rtsl's README (bristot/rtsl), CPU 0. Vector 236 comes twice.
    #[test]
    fn the_published_example_adds_up() {
        let sources: &[(&str, &[(u64, u64)])] = &[
            ("125", &[(0, 30_522)]),
            ("236", &[(0, 46_687), (200_000, 2_634), (10_000_000, 46_687)]),
            ("246", &[(0, 3_463)]),
            ("251", &[(0, 13_735)]),
            ("252", &[(0, 24_572)]),
            ("253", &[(0, 27_098)]),
        ];
        let path = terms([56_194, 45_883, 5_167, 48_092], sources);
        let latency = path.latency(Interference::SlidingWindow).unwrap();
        assert_eq!(path.without_interrupts(), Some(Ns(109_453)));
        assert_eq!(latency.total, Ns(258_164));
        assert_eq!(latency.interrupts[1], (Ns(49_321), 2));
        assert_eq!(total(&path, Interference::None), Some(109_453));
        assert_eq!(total(&path, Interference::WorstSingle), Some(109_453 + 46_687));
        let each = 30_522 + 46_687 + 3_463 + 13_735 + 24_572 + 27_098;
        assert_eq!(total(&path, Interference::WorstOfEach), Some(109_453 + each));
    }

    /// Figure 24 of the paper.
    #[test]
    fn the_figure_of_the_paper_adds_up() {
        let sources: &[(&str, &[(u64, u64)])] = &[
            ("33", &[(0, 16_914)]),
            ("35", &[(0, 14_588)]),
            ("236", &[(0, 20_728), (95_000, 301), (110_000, 100), (500_000, 20_728)]),
            ("246", &[(0, 3_299)]),
        ];
        let path = terms([22_510, 19_312, 0, 19_702], sources);
        let latency = path.latency(Interference::SlidingWindow).unwrap();
        assert_eq!(path.without_interrupts(), Some(Ns(42_212)));
        // The window that an interrupt carries into has one execution more than the paper's.
        assert_eq!(latency.total, Ns(98_042 + 100));
        // 236 may run longer than until it comes again: 20,728 > 15,000.
        assert_eq!(path.latency(Interference::Sporadic), Err(NoBound::DoesNotConverge));
    }

    #[test]
    fn every_interrupt_counts_on_the_whole_of_the_latency() {
        let path = terms([40, 0, 0, 40], &[("v", &[(0, 20), (90, 20)])]);
        assert_eq!(total(&path, Interference::SlidingWindow), Some(120));
        assert_eq!(total(&path, Interference::SlidingWindowOfLongest), Some(120));
        assert_eq!(total(&path, Interference::Sporadic), Some(120));
        assert_eq!(total(&terms([40, 70, 3, 40], &[]), Interference::SlidingWindow), Some(113));
    }

    #[test]
    fn without_a_solution_there_is_no_number() {
        let always: Vec<(u64, u64)> = (0..2_000).map(|n| (n * 1_000_000, 999_999)).collect();
        let path = terms([40, 0, 0, 40], &[("v", &always)]);
        for how in [Interference::Sporadic, Interference::SlidingWindow, Interference::SlidingWindowOfLongest]
        {
            assert_eq!(path.latency(how), Err(NoBound::DoesNotConverge), "{}", how.name());
        }
        assert_eq!(total(&path, Interference::WorstOfEach), Some(80 + 999_999));
        assert_eq!(terms([40, 0, 0, 0], &[]).latency(Interference::None), Err(NoBound::NoTerms));
        let lost = PathAnalysis { lost: 3, ..terms([1, 1, 1, 1], &[]) };
        assert_eq!(lost.latency(Interference::None), Err(NoBound::Lost(3)));
        let long = terms([300_000_000, 0, 0, 40], &[("v", &[(0, 20)])]);
        assert_eq!(long.latency(Interference::SlidingWindow), Err(NoBound::TooLong(Ns(300_000_040))));
        assert_eq!(total(&long, Interference::WorstOfEach), Some(300_000_060));
        let often: Vec<(u64, u64)> = (0..2_000).map(|n| (n * 100, 10)).collect();
        let frequent = terms([40_000, 0, 0, 40], &[("v", &often)]);
        let found = frequent.latency(Interference::SlidingWindow);
        assert_eq!(found, Err(NoBound::TooFrequent("v".to_owned(), Ns(25_599))));
        // One nanosecond a step.
        let slow = terms([0, 0, 0, 1], &[("v", &[(0, 1), (1, 1)])]);
        assert_eq!(slow.latency(Interference::Sporadic), Err(NoBound::DoesNotConverge));
    }

    /// How long a thread waits that needs the CPU for `alone` from `begin` on, while interrupts take it first.
    fn simulated(executions: &[(u64, u64)], begin: u64, alone: u64) -> u64 {
        let (mut now, mut left, mut free) = (begin, alone, 0);
        for &(at, took) in executions {
            // Interrupts do not nest: each begins when the one before is over.
            let starts = at.max(free);
            free = starts + took;
            if free <= begin {
                continue;
            }
            let runs = starts.saturating_sub(now);
            if runs >= left {
                break;
            }
            left -= runs;
            now = free;
        }
        now + left - begin
    }

    proptest! {
        /// No thread waits longer than each bound that converges, whenever its wait begins.
        #[test]
        fn no_simulated_wait_is_longer_than_the_bound(
            gaps in prop::collection::vec((0u64..60, 1u64..30, 0usize..3), 0..40),
            parts in [1u64..40, 0u64..40, 0u64..10, 1u64..40],
        ) {
            let mut sources = [Vec::new(), Vec::new(), Vec::new()];
            let mut all = Vec::new();
            let mut at = 1_000;
            for (gap, took, source) in gaps {
                // The line is served when the one before is over: it arrives then, as the recorder sees it.
                sources[source].push((at, took));
                all.push((at, took));
                at += took + gap;
            }
            let named: Vec<(&str, &[(u64, u64)])> =
                ["a", "b", NMI].into_iter().zip(sources.iter().map(Vec::as_slice)).collect();
            let path = terms(parts, &named);
            let alone = path.without_interrupts().unwrap().0;
            let longest = (900..at + 10).map(|begin| simulated(&all, begin, alone)).max().unwrap();
            for how in [Interference::SlidingWindow, Interference::SlidingWindowOfLongest, Interference::Sporadic] {
                if let Some(bound) = total(&path, how) {
                    prop_assert!(bound >= longest, "{}: {bound} < {longest}", how.name());
                }
            }
            let order = Interference::ALL[3..5].iter().map(|how| total(&path, *how).unwrap_or(u64::MAX));
            prop_assert!(order.is_sorted(), "each executes at most as long as its longest");
        }
    }
}

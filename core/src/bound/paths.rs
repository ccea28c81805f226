//! The path-analysis bound: measured terms of one CPU, combined by a theorem.
//!
//! Theorem 8 of de Oliveira, Casini, de Oliveira, Cucinotta, "Demystifying the real-time Linux scheduling latency"
//! (ECRTS 2020): the latency is the least positive solution of `L = max(D_ST, D_POID) + D_PAIE + D_PSD + I_NMI(L) +
//! I_IRQ(L)`. It holds on a fully preemptive kernel. The authors' program evaluates an interrupt on a window that grew
//! without it, and prints 0 if nothing converges; here every source uses the whole window, and no convergence is
//! `None`. A window is anchored at arrivals and inclusive; the longest execution is added, for one already running at
//! its start.

/// Blocking terms, free of interference, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blocking {
    /// Longest interval with preemption or interrupts disabled, except to schedule.
    pub poid: u64,
    /// Longest interval with both enabled while a reschedule is pending.
    pub paie: u64,
    /// Longest interval with preemption disabled to schedule.
    pub psd: u64,
    /// Longest delay from the context switch to the scheduler's return.
    pub dst: u64,
}

impl Blocking {
    /// The latency without interference.
    #[must_use]
    pub fn interference_free(&self) -> u64 {
        self.dst.max(self.poid).saturating_add(self.paie).saturating_add(self.psd)
    }
}

/// One execution of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Arrival, ns.
    pub arrival: u64,
    /// Length without nested interrupts, ns.
    pub length: u64,
}

/// A source of interference with all of its executions, by arrival. Equal time stamps are separate executions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// Interrupt vector, or `NMI`.
    pub name: String,
    /// Ascending by arrival.
    pub executions: Vec<Execution>,
}

/// Model of the arrivals in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// No interference.
    None,
    /// The single longest execution of all interrupts, and the longest NMI.
    WorstSingle,
    /// The longest execution of each source.
    WorstOfEach,
    /// Sporadic, at the shortest observed interval, each as long as the longest.
    Sporadic,
    /// The busiest observed window.
    SlidingWindow,
    /// The busiest observed window, with each execution as long as the longest.
    SlidingWindowWorst,
}

/// Limit of the iteration, ns: beyond it, the iteration diverges.
const LONGEST: u64 = 100_000_000;

impl Source {
    fn longest(&self) -> u64 {
        self.executions.iter().map(|e| e.length).max().unwrap_or(0)
    }

    fn interference(&self, window: u64, arrivals: Arrivals) -> Option<u64> {
        let longest = self.longest();
        match arrivals {
            Arrivals::None => Some(0),
            Arrivals::WorstSingle | Arrivals::WorstOfEach => Some(longest),
            Arrivals::Sporadic => {
                let closest = self.executions.windows(2).map(|pair| pair[1].arrival - pair[0].arrival).min();
                match closest {
                    None => Some(longest),
                    Some(closest) if longest > closest => None,
                    Some(closest) => window.div_ceil(closest.max(1)).checked_mul(longest),
                }
            }
            Arrivals::SlidingWindow => Some(self.busiest(window.saturating_add(longest), |e| e.length)),
            Arrivals::SlidingWindowWorst => Some(self.busiest(window.saturating_add(longest), |_| longest)),
        }
    }

    /// Largest sum of executions whose arrivals are within `window`, both ends included.
    fn busiest(&self, window: u64, length: impl Fn(&Execution) -> u64) -> u64 {
        let all = &self.executions;
        let (mut from, mut sum, mut most) = (0, 0u64, 0);
        for last in all {
            sum = sum.saturating_add(length(last));
            while last.arrival - all[from].arrival > window {
                sum -= length(&all[from]);
                from += 1;
            }
            most = most.max(sum);
        }
        most
    }
}

/// The bound with the interference of each source, so that the sum can be verified.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// `L`, ns.
    pub value: u64,
    /// Interference of each source, ns, in the given order.
    pub interference: Vec<u64>,
}

/// The least fixed point; `None` if it does not converge below 100 ms. A source with the name `NMI` is the NMI.
#[must_use]
pub fn bound(blocking: &Blocking, sources: &[Source], arrivals: Arrivals) -> Option<Bound> {
    let alone = blocking.interference_free();
    let mut window = alone;
    loop {
        let all: Option<Vec<u64>> = sources.iter().map(|s| s.interference(window, arrivals)).collect();
        let mut interference = all?;
        if arrivals == Arrivals::WorstSingle {
            keep_the_longest(sources, &mut interference);
        }
        let next = interference.iter().fold(alone, |sum, part| sum.saturating_add(*part));
        if next > LONGEST {
            return None;
        }
        if next <= window {
            return Some(Bound { value: next, interference });
        }
        window = next;
    }
}

/// Keeps the longest interrupt and the longest NMI.
fn keep_the_longest(sources: &[Source], interference: &mut [u64]) {
    for nmi in [false, true] {
        let of_kind = |at: &usize| (sources[*at].name == "NMI") == nmi;
        let longest = (0..sources.len()).filter(of_kind).max_by_key(|at| interference[*at]);
        for at in (0..sources.len()).filter(of_kind) {
            if Some(at) != longest {
                interference[at] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(name: &str, executions: &[(u64, u64)]) -> Source {
        let executions = executions.iter().map(|&(arrival, length)| Execution { arrival, length }).collect();
        Source { name: name.to_owned(), executions }
    }

    #[test]
    fn the_sum_in_the_readme_of_rtsl_adds_up() {
        let blocking = Blocking { poid: 45_883, paie: 5_167, psd: 48_092, dst: 56_194 };
        assert_eq!(blocking.interference_free(), 109_453);
        // Vector 236 twice: the second execution arrives only in the grown window.
        let sources = [
            source("125", &[(0, 30_522)]),
            source("236", &[(0, 46_687), (300_000, 2_634)]),
            source("246", &[(0, 3_463)]),
            source("251", &[(0, 13_735)]),
            source("252", &[(0, 24_572)]),
            source("253", &[(0, 27_098)]),
        ];
        let found = bound(&blocking, &sources, Arrivals::SlidingWindow).unwrap();
        assert_eq!(found.value, 258_164);
        assert_eq!(found.interference, [30_522, 49_321, 3_463, 13_735, 24_572, 27_098]);
    }

    #[test]
    fn figure_24_of_the_paper_adds_up() {
        let blocking = Blocking { poid: 19_312, paie: 0, psd: 19_702, dst: 22_510 };
        assert_eq!(blocking.interference_free(), 42_212);
        let sources = [
            source("33", &[(0, 16_914)]),
            source("35", &[(0, 14_588)]),
            source("236", &[(0, 20_728), (110_000, 301)]),
            source("246", &[(0, 3_299)]),
        ];
        assert_eq!(bound(&blocking, &sources, Arrivals::SlidingWindow).unwrap().value, 98_042);
        assert_eq!(bound(&blocking, &sources, Arrivals::None).unwrap().value, 42_212);
        assert_eq!(bound(&blocking, &sources, Arrivals::WorstSingle).unwrap().value, 42_212 + 20_728);
    }

    #[test]
    fn every_source_sees_the_whole_window() {
        let blocking = Blocking { poid: 80, ..Blocking::default() };
        let found = bound(&blocking, &[source("v", &[(0, 20), (90, 20)])], Arrivals::SlidingWindow);
        assert_eq!(found.unwrap().value, 120, "a window that grew without its own source gives 100");
    }

    #[test]
    fn sporadic_arrivals_that_do_not_converge_give_no_number() {
        let blocking = Blocking { poid: 80, ..Blocking::default() };
        assert_eq!(bound(&blocking, &[source("v", &[(0, 20), (10, 5)])], Arrivals::Sporadic), None);
        let once = bound(&blocking, &[source("v", &[(0, 20)])], Arrivals::Sporadic).unwrap();
        assert_eq!(once.value, 100, "one arrival has no distance: one execution");
        assert_eq!(
            bound(&blocking, &[source("v", &[(0, 60), (90, 60)])], Arrivals::Sporadic).unwrap().value,
            260
        );
    }

    #[test]
    fn two_executions_with_one_time_stamp_count_twice() {
        let found = source("v", &[(5, 10), (5, 10)]).busiest(0, |e| e.length);
        assert_eq!(found, 20);
    }

    proptest::proptest! {
        #[test]
        fn the_busiest_window_is_that_of_all_pairs(
            gaps in proptest::collection::vec((0u64..50, 1u64..30), 1..40), window in 0u64..200
        ) {
            let mut at = 0;
            let all: Vec<(u64, u64)> = gaps.iter().map(|&(gap, length)| { at += gap; (at, length) }).collect();
            let sum = |from: u64| all.iter().filter(|e| (from..=from + window).contains(&e.0)).map(|e| e.1).sum::<u64>();
            let most = all.iter().map(|e| sum(e.0)).max();
            proptest::prop_assert_eq!(Some(source("v", &all).busiest(window, |e| e.length)), most);
        }
    }
}

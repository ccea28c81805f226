//! Fixed priorities on one processor: worst-case response time of each thread.
//!
//! Response-time analysis with blocking, release jitter and arbitrary deadlines (Joseph & Pandya 1986; Audsley et al.
//! 1993; Tindell et al. 1994): for each job q of the busy period, w(q) = (q + 1) C + B + Σ ⌈(w + J_j) / T_j⌉ C_j over
//! all threads of at least this level, and R = max(w(q) − q T) + J. Threads of equal level count as higher ones: an
//! upper bound for FIFO order among them.
//!
//! Undecided is `None`, never a number: the demand of a level exceeds the processor or is unknown, or the busy period
//! exceeds the budget of steps.

use super::edf::compare_with_one;
use crate::time::Ns;

/// One thread in the analysis. Threads are sorted, highest priority first.
#[derive(Clone, Debug, PartialEq)]
pub struct Thread {
    /// Longest execution, switches included.
    pub wcet: Ns,
    /// Minimum inter-release time, above 0.
    pub period: Ns,
    /// Relative deadline.
    pub deadline: Ns,
    /// Release jitter.
    pub jitter: Ns,
    /// Blocking by lower-priority threads.
    pub blocking: Ns,
    /// Level; higher is more urgent.
    pub level: i64,
}

/// Budget of steps (one interfering thread, once) per thread.
const BUDGET: u64 = 200_000_000;
/// Budget of all threads: ten thousand tasks may take seconds, not minutes.
const TOTAL: u64 = 1_000_000_000;

/// Worst-case response time of each of `threads`, in order; `None`: unbounded, or budget exceeded.
///
/// `threads` must be sorted by level, descending.
#[must_use]
pub fn responses(threads: &[Thread]) -> Vec<Option<Ns>> {
    let mut utilisation = 0.0;
    let mut found = Vec::with_capacity(threads.len());
    let mut before = 0;
    let mut left = TOTAL;
    let (mut hyperperiod, mut all_periods) = (Some(1u64), 0);
    for (at, thread) in threads.iter().enumerate() {
        // All of the same level interfere, including later ones.
        let same = threads[at..].iter().take_while(|other| other.level == thread.level).count();
        let above = at + same;
        utilisation += threads[before.max(at)..above].iter().map(share).sum::<f64>();
        before = above;
        let others = || threads[..above].iter().enumerate().filter(move |(other, _)| *other != at);
        for other in &threads[all_periods..above] {
            hyperperiod = hyperperiod.and_then(|so_far| lcm(so_far, other.period.0));
        }
        all_periods = all_periods.max(above);
        // Near 1, rounding decides: only an exact comparison can show that a level is not overloaded.
        let shares = || threads[..above].iter().map(|thread| (thread.wcet, thread.period));
        let overloaded = match (utilisation - 1.0).abs() > 1e-9 {
            true => utilisation > 1.0,
            false => compare_with_one(shares()).is_none_or(|demand| demand.is_gt()),
        };
        found.push(match overloaded {
            true => None,
            false => response(thread, others, hyperperiod, &mut left),
        });
    }
    found
}

fn share(thread: &Thread) -> f64 {
    thread.wcet.0 as f64 / thread.period.0 as f64
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).checked_mul(b)
}

/// The worst-case response time of `thread` among `others`, all of which interfere.
///
/// A busy period may not end at a utilisation of 1. But one `hyperperiod` H later every window is at most H longer, as
/// w + H solves the same equation: jobs released after H are no worse than those H earlier.
fn response<'a, I: Iterator<Item = (usize, &'a Thread)>>(
    thread: &Thread,
    others: impl Fn() -> I,
    hyperperiod: Option<u64>,
    left: &mut u64,
) -> Option<Ns> {
    let most = BUDGET.min(*left);
    let mut steps = 0u64;
    let mut worst = 0u64;
    let mut window = thread.wcet.0.checked_add(thread.blocking.0)?;
    for job in 0u64.. {
        let own = thread.wcet.0.checked_mul(job + 1)?.checked_add(thread.blocking.0)?;
        window = window.max(own);
        loop {
            let mut demand = own;
            for (_, other) in others() {
                let releases = window.checked_add(other.jitter.0)?.div_ceil(other.period.0);
                demand = demand.checked_add(releases.checked_mul(other.wcet.0)?)?;
                steps += 1;
            }
            steps += 1;
            if steps > most {
                *left -= most;
                return None;
            }
            if demand <= window {
                break;
            }
            window = demand;
        }
        let released = thread.period.0.checked_mul(job)?;
        worst = worst.max(window.saturating_sub(released).checked_add(thread.jitter.0)?);
        let next = thread.period.0.checked_mul(job + 1)?;
        if window.checked_add(thread.jitter.0)? <= next || hyperperiod.is_some_and(|all| next >= all) {
            *left -= steps.min(most);
            return Some(Ns(worst));
        }
        window = window.checked_add(thread.wcet.0)?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// (C, T, D, B, J), in order of urgency.
    fn threads(all: &[(u64, u64, u64, u64, u64)]) -> Vec<Thread> {
        let of =
            |(at, &(wcet, period, deadline, blocking, jitter)): (usize, &(u64, u64, u64, u64, u64))| Thread {
                wcet: Ns(wcet),
                period: Ns(period),
                deadline: Ns(deadline),
                jitter: Ns(jitter),
                blocking: Ns(blocking),
                level: -(at as i64),
            };
        all.iter().enumerate().map(of).collect()
    }

    fn implicit(all: &[(u64, u64)]) -> Vec<Option<u64>> {
        let all: Vec<_> = all.iter().map(|&(c, t)| (c, t, t, 0, 0)).collect();
        responses(&threads(&all)).into_iter().map(|response| response.map(|ns| ns.0)).collect()
    }

    #[test]
    fn published_response_times_are_found() {
        let some = |all: &[u64]| all.iter().map(|ns| Some(*ns)).collect::<Vec<_>>();
        // Burns & Wellings, Real-Time Systems and Programming Languages, ch. 11
        assert_eq!(implicit(&[(3, 7), (3, 12), (5, 20)]), some(&[3, 6, 20]));
        assert_eq!(implicit(&[(5, 20), (10, 40), (40, 80)]), some(&[5, 15, 80]), "U = 1");
        // Lehoczky 1990: the fifth job is the worst, not the first
        assert_eq!(implicit(&[(26, 70), (62, 100)]), some(&[26, 118]));
        // schedcat, tests/fp.py
        assert_eq!(implicit(&[(1, 4), (1, 5), (3, 9), (3, 18)]), some(&[1, 2, 7, 18]));
        assert_eq!(implicit(&[(9, 20), (15, 30)]), some(&[9, 33]), "rate-monotonic misses what EDF meets");
        assert_eq!(implicit(&[(2, 5), (4, 7)]), some(&[2, 8]));
    }

    #[test]
    fn the_case_study_of_audsley_1993_is_found_with_blocking_and_jitter() {
        let all = [
            (51, 1_000, 1_000, 0, 0, 51),
            (3_000, 2_000_000, 5_000, 300, 0, 3_504),
            (2_000, 25_000, 25_000, 600, 0, 5_906),
            (5_000, 25_000, 25_000, 900, 0, 11_512),
            (1_000, 40_000, 40_000, 1_350, 0, 13_064),
            (3_000, 50_000, 50_000, 1_350, 0, 16_217),
            (5_000, 50_000, 50_000, 750, 0, 20_821),
            (8_000, 59_000, 59_000, 750, 0, 36_637),
            (9_000, 80_000, 80_000, 1_350, 0, 47_798),
            (2_000, 80_000, 80_000, 450, 0, 48_949),
            (5_000, 100_000, 100_000, 1_050, 0, 99_150),
            (1_000, 200_000, 200_000, 450, 1_000, 100_550),
            (3_000, 200_000, 200_000, 450, 0, 140_641),
            (1_000, 200_000, 200_000, 450, 0, 141_692),
            (1_000, 200_000, 200_000, 1_350, 0, 143_694),
            (3_000, 1_000_000, 1_000_000, 0, 0, 145_446),
            (1_000, 1_000_000, 1_000_000, 0, 0, 146_497),
            (1_000, 1_000_000, 1_000_000, 0, 0, 147_548),
        ];
        let set: Vec<_> = all.iter().map(|&(c, t, d, b, j, _)| (c, t, d, b, j)).collect();
        let found: Vec<_> = responses(&threads(&set)).into_iter().map(|ns| ns.map_or(0, |ns| ns.0)).collect();
        assert_eq!(found, all.iter().map(|one| one.5).collect::<Vec<_>>());
    }

    #[test]
    fn overload_has_no_response_time_but_those_above_it_have() {
        assert_eq!(implicit(&[(1, 2), (6, 10), (1, 100)]), [Some(1), None, None]);
        assert_eq!(implicit(&[(u64::MAX, u64::MAX), (1, 2)]), [Some(u64::MAX), None]);
    }

    #[test]
    fn an_overload_of_a_nanosecond_is_one() {
        let (ms, s) = (1_000_000, 1_000_000_000);
        assert_eq!(implicit(&[(ms / 2, ms), (s + 1, 2 * s)]), [Some(ms / 2), None]);
        assert_eq!(implicit(&[(ms / 2, ms), (s, 2 * s)]), [Some(ms / 2), Some(2 * s)]);
    }

    #[test]
    fn equal_levels_delay_each_other() {
        let mut all = threads(&[(2, 10, 10, 0, 0), (3, 10, 10, 0, 0), (1, 10, 10, 0, 0)]);
        all[1].level = all[0].level;
        assert_eq!(responses(&all), [Some(Ns(5)), Some(Ns(5)), Some(Ns(6))]);
    }
}

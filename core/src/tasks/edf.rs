//! Earliest deadline first on one processor: is any deadline missed?
//!
//! Processor demand h(t) = Σ max(0, 1 + ⌊(t + J − D) / T⌋) C (Baruah, Rosier & Howell 1990), checked by QPA (Zhang &
//! Burns 2009): from the last deadline before the bound downwards, t := h(t). With SRP the longest blocking b(t) is
//! added (Baker 1991); it decreases with t, so that QPA's jump is sound only where b is constant: each such range is
//! checked alone.
//!
//! Response times after Spuri 1996 (INRIA RR-2772). Undecided is `None`: never "schedulable".

use crate::time::Ns;

/// One thread in the analysis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Longest execution.
    pub wcet: Ns,
    /// Minimum inter-release time, above 0.
    pub period: Ns,
    /// Relative deadline minus release jitter.
    pub deadline: Ns,
}

/// The verdict on a set.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// `None`: not decided within the budget.
    pub schedulable: Option<bool>,
    /// A time after a common release at which the demand exceeds the supply; `None`: none, or not searched.
    pub fails_at: Option<Ns>,
}

const BUDGET: u64 = 200_000_000;
/// Steps of the search for the end of a busy period, which may not exist at a utilisation of 1.
const BUSY_BUDGET: u64 = 20_000_000;

/// Sum of C / T.
#[must_use]
pub fn utilisation(threads: &[Thread]) -> f64 {
    threads.iter().map(|thread| thread.wcet.0 as f64 / thread.period.0 as f64).sum()
}

fn against_one(threads: &[Thread]) -> Option<std::cmp::Ordering> {
    compare_with_one(threads.iter().map(|thread| (thread.wcet, thread.period)))
}

/// Compares the sum of C / T with 1: exactly if the common denominator fits in 128 bits; `None` if too close to decide.
pub(super) fn compare_with_one(shares: impl Iterator<Item = (Ns, Ns)> + Clone) -> Option<std::cmp::Ordering> {
    let rough: f64 = shares.clone().map(|(wcet, period)| wcet.0 as f64 / period.0 as f64).sum();
    if (rough - 1.0).abs() > 1e-9 {
        return rough.partial_cmp(&1.0);
    }
    let mut common: u128 = 1;
    for (_, period) in shares.clone() {
        let period = u128::from(period.0);
        common = common.checked_mul(period / gcd(common, period)).filter(|lcm| *lcm < 1 << 100)?;
    }
    let demand = shares.clone().try_fold(0u128, |sum, (wcet, period)| {
        sum.checked_add((common / u128::from(period.0)).checked_mul(u128::from(wcet.0))?)
    })?;
    Some(demand.cmp(&common))
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Processor demand of deadlines up to `t`; saturates.
#[must_use]
pub fn demand(threads: &[Thread], t: u64) -> u64 {
    let of = |thread: &Thread| match t.checked_sub(thread.deadline.0) {
        Some(rest) => (1 + rest / thread.period.0).saturating_mul(thread.wcet.0),
        None => 0,
    };
    threads.iter().fold(0u64, |sum, thread| sum.saturating_add(of(thread)))
}

/// Last absolute deadline before `t`.
fn deadline_before(threads: &[Thread], t: u64) -> Option<u64> {
    let of = |thread: &Thread| {
        let rest = t.checked_sub(thread.deadline.0 + 1)?;
        Some(rest / thread.period.0 * thread.period.0 + thread.deadline.0)
    };
    threads.iter().filter_map(of).max()
}

/// End of the first busy period after a common release, with `extra` work before it; `None`: not found.
#[must_use]
pub fn busy_period(threads: &[Thread], extra: u64) -> Option<u64> {
    busy_period_below(threads, extra, u64::MAX)
}

/// The same, up to a length of `limit`.
fn busy_period_below(threads: &[Thread], extra: u64, limit: u64) -> Option<u64> {
    let mut steps = 0u64;
    let first = threads.iter().try_fold(extra, |sum, thread| sum.checked_add(thread.wcet.0))?;
    let mut window = first;
    loop {
        let work = threads.iter().try_fold(extra, |sum, thread| {
            sum.checked_add(window.div_ceil(thread.period.0).checked_mul(thread.wcet.0)?)
        })?;
        if work <= window {
            return Some(window);
        }
        window = work;
        steps += threads.len() as u64;
        if steps > BUSY_BUDGET || window > limit {
            return None;
        }
    }
}

/// After the latest deadline the demand grows by at most a hyperperiod per hyperperiod: any failure occurs before.
fn hyperperiod_bound(threads: &[Thread]) -> Option<u64> {
    let all = threads.iter().try_fold(1u128, |all, thread| {
        let period = u128::from(thread.period.0);
        all.checked_mul(period / gcd(all, period)).filter(|all| *all < 1 << 62)
    })?;
    let latest = threads.iter().map(|thread| thread.deadline.0).max()?;
    u64::try_from(all).ok()?.checked_add(latest)
}

/// No later deadline can be missed, at a utilisation below 1 (Zhang & Burns 2009, L_a*), with `tail` of blocking at
/// every such time.
fn demand_bound(threads: &[Thread], tail: u64) -> Option<u64> {
    let rest = 1.0 - utilisation(threads);
    if rest < 1e-9 {
        return None;
    }
    let share = |thread: &Thread| {
        (thread.period.0 as f64 - thread.deadline.0 as f64) * (thread.wcet.0 as f64 / thread.period.0 as f64)
    };
    let sum: f64 = (threads.iter().map(share).sum::<f64>() + tail as f64) / rest;
    let latest = threads.iter().map(|thread| thread.deadline.0.saturating_sub(thread.period.0)).max()?;
    // Rounding must not reduce the bound.
    let sum = sum.max(0.0) * (1.0 + 1e-9) + 1.0;
    (sum < 1e18).then(|| (sum.ceil() as u64).max(latest))
}

/// Whether every deadline is met. `blocking` as [`super::blocking::srp`] gives it.
#[must_use]
pub fn check(threads: &[Thread], blocking: &[(Ns, Ns)]) -> Verdict {
    let undecided = Verdict { schedulable: None, fails_at: None };
    if threads.is_empty() {
        return Verdict { schedulable: Some(true), fails_at: None };
    }
    match against_one(threads) {
        Some(std::cmp::Ordering::Greater) => {
            return Verdict { schedulable: Some(false), fails_at: overload(threads) }
        }
        None => return undecided,
        _ => {}
    }
    let most = blocking.iter().map(|(_, time)| time.0).max().unwrap_or(0);
    let latest = threads.iter().map(|thread| thread.deadline.0).max().unwrap_or(0);
    // After the latest relative deadline no section of the set blocks, but stated blocking may.
    let tail = blocking.last().map_or(0, |(_, time)| time.0);
    let by_demand = demand_bound(threads, tail).map(|bound| if most > 0 { bound.max(latest) } else { bound });
    let mut bound = by_demand.into_iter().chain(hyperperiod_bound(threads)).min();
    // The busy period is computed only if it can matter: it may take many steps.
    if bound.is_none_or(|bound| bound > latest) {
        bound = bound.into_iter().chain(busy_period_below(threads, most, bound.unwrap_or(u64::MAX))).min();
    }
    let Some(bound) = bound else { return undecided };
    let mut steps = 0u64;
    let mut stretches: Vec<(u64, u64)> = vec![(0, 0)];
    for (from, time) in blocking {
        match stretches.last() {
            Some((_, same)) if *same == time.0 => {}
            _ => stretches.push((from.0, time.0)),
        }
    }
    let mut t = deadline_before(threads, bound.saturating_add(1));
    for (from, blocked) in stretches.into_iter().rev() {
        while let Some(at) = t.filter(|at| *at >= from) {
            let demand = demand(threads, at).saturating_add(blocked);
            if demand > at {
                return Verdict { schedulable: Some(false), fails_at: Some(Ns(at)) };
            }
            // Deadlines between the demand and this time are met, as long as blocking is constant.
            t = deadline_before(threads, (demand + 1).max(from).min(at));
            steps += threads.len() as u64;
            if steps > BUDGET {
                return undecided;
            }
        }
    }
    Verdict { schedulable: Some(true), fails_at: None }
}

/// A time at which an overloaded set misses a deadline: the first if early, else one that certainly fails.
fn overload(threads: &[Thread]) -> Option<Ns> {
    let mut t = threads.iter().map(|thread| thread.deadline.0).min()?;
    let next = |t: u64| {
        let of = |thread: &Thread| match t.checked_sub(thread.deadline.0) {
            None => thread.deadline.0,
            Some(rest) => ((rest / thread.period.0) + 1)
                .saturating_mul(thread.period.0)
                .saturating_add(thread.deadline.0),
        };
        threads.iter().map(of).min()
    };
    for _ in 0..(20_000_000 / threads.len()).max(100) {
        if demand(threads, t) > t {
            return Some(Ns(t));
        }
        t = next(t)?;
    }
    let over = utilisation(threads) - 1.0;
    let sum: f64 = threads
        .iter()
        .map(|thread| thread.deadline.0 as f64 * (thread.wcet.0 as f64 / thread.period.0 as f64))
        .sum();
    let certain = (sum / over) * 1.000_001 + 1.0;
    let t = (over > 0.0 && certain < 9e18).then(|| deadline_before(threads, certain as u64))??;
    (demand(threads, t) > t).then_some(Ns(t))
}

/// Worst-case response time of each thread (Spuri 1996), without blocking; `None`: budget exceeded, or overload.
#[must_use]
pub fn responses(threads: &[Thread]) -> Vec<Option<Ns>> {
    let nothing = || vec![None; threads.len()];
    if !matches!(against_one(threads), Some(std::cmp::Ordering::Less | std::cmp::Ordering::Equal)) {
        return nothing();
    }
    let Some(busy) = busy_period(threads, 0) else { return nothing() };
    (0..threads.len()).map(|at| response(threads, at, busy)).collect()
}

/// Budget: starts of jobs within the busy period × threads × threads.
const STARTS: u64 = 50_000_000;

fn response(threads: &[Thread], at: usize, busy: u64) -> Option<Ns> {
    let own = threads[at];
    let count: u64 = threads.iter().map(|thread| busy / thread.period.0 + 1).sum();
    let size = threads.len() as u64;
    if count.saturating_mul(size * size) > STARTS {
        return None;
    }
    let mut starts: Vec<u64> = Vec::new();
    for thread in threads {
        let deadlines = (0..).map(|job| job * thread.period.0 + thread.deadline.0);
        let starting = deadlines.map(|deadline| deadline.checked_sub(own.deadline.0));
        starts.extend(starting.take_while(|start| start.is_none_or(|start| start < busy)).flatten());
    }
    starts.push(0);
    starts.sort_unstable();
    starts.dedup();
    let mut worst = own.wcet.0;
    for start in starts {
        let deadline = start + own.deadline.0;
        let earlier = || {
            let others = threads.iter().enumerate().filter(move |(other, _)| *other != at);
            others.map(|(_, thread)| thread).filter(move |thread| thread.deadline.0 <= deadline)
        };
        let mine = (start / own.period.0 + 1) * own.wcet.0;
        let mut window = mine;
        loop {
            let work = earlier().fold(mine, |sum, thread| {
                let released = window.div_ceil(thread.period.0);
                let due = 1 + (deadline - thread.deadline.0) / thread.period.0;
                sum + released.min(due) * thread.wcet.0
            });
            if work <= window {
                break;
            }
            window = work;
        }
        worst = worst.max(window.saturating_sub(start));
    }
    Some(Ns(worst))
}

#[cfg(test)]
#[path = "edf_tests.rs"]
mod tests;

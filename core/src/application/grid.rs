//! Whether the times until which a thread waits are computed or taken from the clock.
//!
//! A periodic program adds its period to the time of the last release, so that the times it asks for are multiples of one
//! step apart, to the nanosecond, whatever its jobs did. A sleep until `now + 1 ms` is a relative sleep in another form:
//! its end proves no release. The kernel shows the requested time itself, so a small tolerance is enough.

use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, LateSleeps};

/// Minimum number of intervals for a conclusion.
const KNOWN: usize = 3;
/// Number of intervals that are compared, the last ones.
pub(super) const RECENT: usize = 32;
/// Maximum deviation from the grid, ns: times computed with fractions of a second are rounded.
const ROUNDED: u64 = 250;
/// The step is at least this fraction of the median interval: all times are multiples of a small step.
const STEPS: u64 = 16;
/// The tolerance is at most this fraction of the median interval.
const NARROW: u64 = 256;

/// Whether more than 3/4 of the `intervals` between releases, ns, are multiples of one step. False if there are too few.
pub(super) fn is_computed(intervals: &[u64]) -> bool {
    let intervals = &intervals[intervals.len().saturating_sub(RECENT)..];
    let mut sorted: Vec<u64> = intervals.iter().copied().filter(|&one| one > 0).collect();
    sorted.sort_unstable();
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    if sorted.len() < KNOWN || median < NARROW {
        return false;
    }
    let tolerance = (median / NARROW).min(ROUNDED);
    let least = (median / STEPS).max(tolerance * STEPS);
    let near = |one: u64, step: u64| (one + tolerance) % step <= 2 * tolerance;
    let fits = |step: u64| sorted.iter().filter(|&&one| near(one, step)).count() * 4 > sorted.len() * 3;
    let pairs = intervals.windows(2).map(|two| common(two[0], two[1], tolerance));
    std::iter::once(median).chain(pairs).any(|step| step >= least && fits(step))
}

/// Greatest common divisor of two intervals, to within `tolerance`.
fn common(a: u64, b: u64, tolerance: u64) -> u64 {
    let (mut a, mut b) = (a.max(b), a.min(b));
    while b > tolerance {
        let rest = a % b;
        // Just below a multiple is as near as just above it.
        (a, b) = (b, rest.min(b - rest));
    }
    a
}

/// The requested time of a timer that was armed after it: its release. `late`: overruns before `woken`.
pub(super) fn asked(woken: &Activation, late: Option<LateSleeps>) -> Mono {
    if woken.armed_after > Ns::ZERO {
        return Mono(woken.begin().0.saturating_sub(woken.armed_after.0));
    }
    late.filter(|_| woken.armed_late).map_or(woken.begin(), |late| late.last)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn dice() -> impl Iterator<Item = u64> {
        std::iter::successors(Some(7_u64), |dice| {
            Some(dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1))
        })
        .map(|dice| dice >> 33)
    }

    #[test]
    fn times_that_a_program_adds_up_are_on_a_grid_also_if_some_are_left_out_or_follow_a_table() {
        for period in [20_000, 125_000, MS, 100 * MS, 1_000 * MS] {
            assert!(is_computed(&[period; 3]), "{period}");
            assert!(is_computed(&[period, 3 * period, 2 * period, period, 2 * period]), "{period}");
        }
        assert!(is_computed(&[7 * MS, 9 * MS, 11 * MS, 7 * MS, 9 * MS, 11 * MS]));
        assert!(is_computed(&[35 * MS, 65 * MS, 35 * MS, 65 * MS]), "in halves");
        let rounded: Vec<u64> = dice().take(20).map(|dice| MS / 3 + dice % 3).collect();
        assert!(is_computed(&rounded));
        let once_off: Vec<u64> = (0..16).map(|k| if k == 5 { 777_777 } else { MS }).collect();
        assert!(is_computed(&once_off));
    }

    #[test]
    fn times_taken_from_the_clock_are_on_none() {
        assert!(!is_computed(&[]) && !is_computed(&[MS, MS]) && !is_computed(&[0, 0, 0, 0]));
        for (period, jitter) in [(100 * MS, 20_000), (100 * MS, 2_000), (MS, 5_000), (50_000, 4_000)] {
            let grids = (0..200).filter(|&from| {
                let some: Vec<u64> =
                    dice().skip(from * 8).take(8).map(|dice| period + dice % jitter).collect();
                is_computed(&some)
            });
            let grids = grids.count();
            assert!(grids <= 4, "{period} ± {jitter}: {grids} of 200");
        }
    }
}

//! Gates of the fitted tail itself: size, resolution, goodness of fit, shape.

use super::answer::Gate;
use super::exceedances::Tail;
use super::gate::{condition, tested};
use super::goodness::{bootstrap, Goodness};
use super::gpd::Ends;
use super::random::Random;
use super::special::poisson_at_least;
use super::tail::{total, Cell, Distribution, Rounding};
use crate::numbers::tenths_rounded_up;

/// Probability below which the largest class has too many samples.
const CUT: f64 = 1e-3;

/// Largest share of the samples above a threshold.
pub(super) const LARGEST_SHARE: f64 = 0.050_000_1;

pub(super) fn size_gate(tail: &Tail, samples: u64) -> Gate {
    let n = total(&tail.cells);
    let distinct = tail.cells.len();
    let enough = n >= 100 && tail.zeta <= LARGEST_SHARE && distinct >= 30;
    let advice = match enough {
        true => String::new(),
        false if n < 100 => format!("; measure {} times as long", tenths_rounded_up(200.0 / n.max(1) as f64)),
        false if distinct < 30 => "; record finer classes".to_owned(),
        false => "; choose a higher threshold".to_owned(),
    };
    let detail = format!(
        "{n} exceedances (100), {distinct} different (30), {:.4} of {samples} samples (0.05){advice}",
        tail.zeta
    );
    condition("size", enough, detail)
}

/// Detects values that are called exact but were rounded: the spacing of ties against the scale of the tail.
pub(super) fn resolution_gate(all: &Distribution, tail: &Tail) -> Gate {
    let step = match all.grid {
        Rounding::Exact => spacing(&all.excesses(tail.threshold)),
        _ => None,
    };
    match step.filter(|step| tail.fit.sigma < 5.0 * step) {
        Some(step) => condition("resolution", false, format!("values are rounded to about {step}, too coarse for a tail of scale {:.3e}: give --class-width {step}", tail.fit.sigma)),
        None => condition("resolution", true, "values are fine enough, or enter as classes".to_owned()),
    }
}

/// The difference of neighbouring values, if ties show that values were rounded: a tenth of them are no further apart, so
/// that a few values off the grid do not hide it.
fn spacing(cells: &[Cell]) -> Option<f64> {
    let tied = total(cells) - cells.len() as u64;
    let mut gaps: Vec<f64> = cells.windows(2).map(|pair| pair[1].lo - pair[0].lo).collect();
    gaps.sort_by(f64::total_cmp);
    // A few digits: differences of decimal fractions are not exact in binary.
    let step: f64 = format!("{:.5e}", gaps.get(gaps.len() / 10)?).parse().ok()?;
    (tied as f64 > 0.02 * total(cells) as f64 && step.is_finite() && step > 0.0).then_some(step)
}

pub(super) fn fit_gate(tail: &Tail, asked: u32, random: &mut Random) -> Gate {
    if tail.short {
        return condition("fit", true, "shorter than an exponential tail, which is its limit".to_owned());
    }
    let goodness = bootstrap(&tail.cells, &tail.fit, tail.threshold, tail.grid, asked, random);
    let Goodness { statistics, p_a2, p_w2, drawn } = goodness;
    let detail = format!(
        "Anderson-Darling {:.3}, Cramér-von Mises {:.4} (p {p_w2:.3}), {drawn} bootstrap samples",
        statistics.a2, statistics.w2
    );
    match drawn {
        n if n < asked - asked / 10 => {
            // The remaining ones are not a random sample of the fit.
            condition(
                "fit",
                false,
                format!("only {n} of {asked} bootstrap samples could be fitted: {detail}"),
            )
        }
        _ if p_a2 < 0.05 => condition(
            "fit",
            false,
            format!(
                "p {p_a2:.3} below 0.05: {detail}; choose a higher threshold or run explain on the peaks"
            ),
        ),
        _ => tested("fit", p_a2, detail),
    }
}

/// Refuses samples that are cut off: the largest value occurs more often than the others do. The shape itself is never a reason.
///
/// A gate at any shape lets those samples of a heavy tail pass in which it is underestimated, and too many of their limits
/// are too small (docs/decisions/0072-limits-that-hold-when-printed.md).
pub(super) fn shape_gate(tail: &Tail, xi: Ends) -> Gate {
    let cells = &tail.cells;
    let most = cells.last().map_or(0, |cell| cell.count);
    let mean = total(cells) as f64 / cells.len().max(1) as f64;
    let cut = poisson_at_least(most, mean) < CUT;
    let shown = |end: Option<f64>| end.map_or("open".to_owned(), |end| format!("{end:.3}"));
    let detail = match tail.short {
        true => "the tail ends at its largest samples: limits are those of exponential tails".to_owned(),
        false => format!("xi {:.3} [{}, {}]", tail.fit.xi, shown(xi.0), shown(xi.1)),
    };
    condition("shape", !cut, match cut {
        false => detail,
        true => format!("{most} samples have the largest value or class, {mean:.1} the others on average: larger ones seem to be cut off; record a wider range"),
    })
}

//! Choice of the threshold, and gates on whether there is one tail: stability above it, the largest points.

use super::analyse::{Input, Request};
use super::answer::Gate;
use super::gate::{condition, tested};
use super::goodness::bootstrap;
use super::gpd::{self, Ends, Fit};
use super::random::Random;
use super::tail::{total, Cell};

/// Maximum and minimum number of exceedances of a candidate.
const EXCEEDANCES: (f64, f64) = (2_000.0, 100.0);
/// Number of candidates.
const CANDIDATES: u32 = 12;
/// Bootstrap samples per candidate.
const DRAWS: u32 = 99;

/// The requested threshold, or the lowest one whose fit is not rejected, by ForwardStop over the p-values of the
/// Anderson-Darling test (Bader, Yan, Zhang, Ann. Appl. Stat. 12, 2018). `None` if no threshold has samples above it.
pub(super) fn choose(input: &Input, request: &Request, random: &mut Random) -> Option<f64> {
    let all = &input.distribution;
    if let Some(asked) = request.threshold {
        return Some(all.grid.edge_from(asked));
    }
    let most = EXCEEDANCES.0.min(all.samples as f64 / 20.0);
    if most < EXCEEDANCES.1 {
        return all.threshold_for((all.samples / 10).max(2));
    }
    let step = (EXCEEDANCES.1 / most).powf(1.0 / f64::from(CANDIDATES - 1));
    let wanted = (0..CANDIDATES).map(|i| (most * step.powi(i as i32)).round() as u64);
    let mut candidates: Vec<f64> = wanted.filter_map(|n| all.threshold_for(n)).collect();
    candidates.dedup();
    // An edge has its whole class above it: with coarse classes, that may be too many samples.
    candidates.retain(|u| total(&all.excesses(*u)) as f64 <= 0.05 * all.samples as f64);
    let (mut sum, mut refused) = (0.0, 0);
    // The highest one is taken if all below it are rejected, whatever its own p-value is.
    for (at, u) in candidates.iter().enumerate().take(candidates.len().saturating_sub(1)) {
        let cells = all.excesses(*u);
        let p = gpd::fit(&cells).map_or(0.0, |fit| bootstrap(&cells, &fit, *u, all.grid, DRAWS, random).p_a2);
        sum -= f64::ln_1p(-p.min(0.999));
        if sum / (at + 1) as f64 <= 0.05 {
            refused = at + 1;
        }
    }
    candidates
        .get(refused)
        .or(candidates.last())
        .copied()
        .or_else(|| all.threshold_for((all.samples / 10).max(2)))
}

/// The fits over three higher thresholds, converted to this threshold, must agree with its likelihood.
pub(super) fn stability(cells: &[Cell], fit: &Fit) -> Gate {
    let n = total(cells) as f64;
    let mut worst: f64 = 1.0;
    let mut tested_at = 0;
    for share in [0.8, 0.6, 0.45] {
        let Some((lift, higher)) = above(cells, n * share) else { continue };
        let Some(other) = gpd::fit(&higher) else { continue };
        tested_at += 1;
        let kept = total(&higher) as f64;
        let loss = 2.0 * (gpd::nllh(cells, other.sigma - other.xi * lift, other.xi) - fit.nllh);
        // The two estimates share most of their data: the variance of their difference comes from the rest.
        let p =
            if loss.is_finite() { (-0.5 * loss.max(0.0) / (n / kept - 1.0).max(0.25)).exp() } else { 1e-12 };
        worst = worst.min(p);
    }
    let detail = format!("{tested_at} higher thresholds fitted; where it refuses, the tail changes its shape: choose a higher threshold");
    match tested_at {
        0 => condition("stability", false, "no higher threshold can be fitted: measure longer".to_owned()),
        tests => tested("stability", (worst * f64::from(tests)).min(1.0), detail),
    }
}

/// The highest part of `cells` with about `wanted` samples: its threshold, and the excesses over it.
pub(super) fn above(cells: &[Cell], wanted: f64) -> Option<(f64, Vec<Cell>)> {
    let mut kept = 0;
    let at = cells.iter().rposition(|cell| {
        kept += cell.count;
        kept as f64 >= wanted
    })?;
    let exact = cells[at].is_exact();
    let lift = if exact { cells[at.checked_sub(1)?].lo } else { cells[at].lo };
    if lift <= 0.0 {
        return None;
    }
    Some((
        lift,
        cells[at..].iter().map(|c| Cell { lo: c.lo - lift, hi: c.hi - lift, count: c.count }).collect(),
    ))
}

/// Whether the largest points belong to the same tail: by the shape without them, and by the gaps between them.
pub(super) fn homogeneity(cells: &[Cell], fit: &Fit, xi: Ends) -> Vec<Gate> {
    let outside = |shape: f64| xi.0.is_some_and(|low| shape < low) || xi.1.is_some_and(|high| shape > high);
    let mut misfit = None;
    for dropped in [1u64, 2, 5, 10] {
        let Some(without) = censor(cells, dropped).and_then(|cells| gpd::fit(&cells)) else { continue };
        if outside(without.xi) && misfit.is_none() {
            misfit = Some((dropped, without.xi));
        }
    }
    let first = match misfit {
        None => condition("homogeneity", true, "the shape without the largest 1, 2, 5 and 10 stays in its interval".to_owned()),
        Some((n, shape)) => condition("homogeneity", false, format!("without the largest {n} the shape is {shape:.3}: they come from another mechanism; run explain on them")),
    };
    vec![first, spacing(cells, fit)]
}

/// `cells` with the largest `dropped` samples right-censored.
fn censor(cells: &[Cell], dropped: u64) -> Option<Vec<Cell>> {
    let mut kept = cells.to_vec();
    let mut left = dropped;
    let mut from = f64::INFINITY;
    while left > 0 {
        let last = kept.last_mut()?;
        from = last.lo;
        if last.count > left {
            // Part of a class: the kept samples stay in it, the dropped ones are above its lower edge.
            last.count -= left;
            break;
        }
        left -= last.count;
        kept.pop();
    }
    let edge = kept.last().map_or(from, |last| last.hi.max(last.lo).min(from));
    kept.push(Cell { lo: edge, hi: f64::INFINITY, count: dropped });
    (kept.len() > 3).then_some(kept)
}

/// Largest gap among the ten largest points, on the scale on which the fitted tail is exponential.
fn spacing(cells: &[Cell], fit: &Fit) -> Gate {
    let mut top: Vec<f64> = Vec::new();
    for cell in cells.iter().rev() {
        top.extend(std::iter::repeat_n(-fit.survival(cell.lo).max(1e-300).ln(), cell.count.min(11) as usize));
        if top.len() > 10 {
            break;
        }
    }
    let gaps = top.windows(2).take(10).enumerate().map(|(i, pair)| (i + 1) as f64 * (pair[0] - pair[1]));
    let (tests, largest) = gaps.fold((0, 0.0f64), |(n, most), gap| (n + 1, most.max(gap)));
    let p = 1.0 - (-f64::exp(-largest)).ln_1p().mul_add(f64::from(tests), 0.0).exp();
    tested("spacing", p, format!("largest normalised gap of the ten largest points {largest:.1}; where it refuses, a rarer mechanism is present: run explain on them"))
}

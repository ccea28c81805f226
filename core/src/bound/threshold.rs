//! Choice of the threshold, and the gate on the stability of the tail above it.

use super::analyse::{Input, Request};
use super::answer::Gate;
use super::exceedances::Tail;
use super::gate::condition;
use super::goodness::{bootstrap, Drawn};
use super::gpd::{self, Fit};
use super::random::Random;
use super::tail::{total, Cell};

/// Maximum and minimum number of exceedances of a candidate.
const EXCEEDANCES: (f64, f64) = (2_000.0, 100.0);
/// Number of candidates.
const CANDIDATES: u32 = 12;
/// Bootstrap samples per candidate.
const DRAWS: u32 = 99;
/// Bootstrap samples of a gate that fits each of them again.
pub(super) const RETESTS: u32 = 199;
/// The p-value up to which the fits over higher thresholds disagree.
const UNSTABLE: f64 = 0.01;

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

/// The fits over higher thresholds, converted to this threshold, must agree with its likelihood, as those of samples drawn from
/// the fit do.
pub(super) fn stability(tail: &Tail, random: &mut Random) -> Gate {
    const NAME: &str = "stability";
    let Tail { cells, fit, threshold, grid, short, .. } = tail;
    if *short {
        return condition(
            NAME,
            true,
            "no shape is used: limits of exponential tails over several thresholds".to_owned(),
        );
    }
    let Some(data) = disagreement(cells, fit) else {
        return condition(NAME, false, "no higher threshold can be fitted: measure longer".to_owned());
    };
    let sample = Drawn { fit, n: total(cells) as usize, threshold: *threshold, grid: *grid };
    let p = sample.p_value(data, RETESTS, random, |drawn| disagreement(drawn, &gpd::fit_near(drawn, fit)?));
    let detail = format!("p {p:.3} of the disagreement of the fits over higher thresholds");
    match p <= UNSTABLE {
        true => {
            condition(NAME, false, format!("{detail}: the tail changes its shape; choose a higher threshold"))
        }
        false => condition(NAME, true, detail),
    }
}

/// The largest loss of log-likelihood by the parameters over a higher threshold; `None` if none can be fitted.
fn disagreement(cells: &[Cell], fit: &Fit) -> Option<f64> {
    let loss = |share: f64| {
        let (lift, higher) = above(cells, total(cells) as f64 * share)?;
        let other = gpd::fit_near(&higher, fit)?;
        let loss = gpd::nllh(cells, other.sigma - other.xi * lift, other.xi) - fit.nllh;
        Some(if loss.is_finite() { loss } else { f64::MAX })
    };
    [0.6, 0.45].into_iter().filter_map(loss).reduce(f64::max)
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

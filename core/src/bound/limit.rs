//! The upper limit of a level: the largest over a range of thresholds.
//!
//! The higher the threshold, the larger the share of a rarer mechanism in the data. A fit at one low threshold, with
//! many samples of the common mechanism, is then narrow and wrong; fits at higher thresholds are wide enough to cover
//! it. So the limit is the largest of all fits, and there is none if one of them has no upper end.
//!
//! Below 40 exceedances a shape cannot be estimated. There the tail is exponential, down to the largest two: of a mechanism with
//! two samples in the record, these are its own. For samples of one mechanism such a limit is seldom the largest.
//!
//! A level that [`FEWEST`] samples exceed has no limit here: near a threshold, the limit would have to count with the uncertainty of
//! the number of exceedances, which the profile holds fixed.
//!
//! A tail that ends at its largest samples has exponential limits only: it is shorter than they are.

use super::analyse::Request;
use super::exceedances::Tail;
use super::gpd::{self, Fit};
use super::special::gamma_quantile;
use super::tail::{total, Cell};
use super::threshold::above;

/// Minimum number of exceedances of the highest threshold of a generalised Pareto tail.
pub(super) const FEWEST: f64 = 40.0;
/// Exceedances of the thresholds of exponential tails.
const FEW: [f64; 5] = [20.0, 10.0, 5.0, 3.0, 2.0];

/// The maximum-likelihood level, and its upper limit.
pub(super) struct Limit {
    /// At the lowest threshold, which has the most samples.
    pub(super) value: f64,
    /// The largest of all thresholds; `None` if one has no upper end.
    pub(super) upper: Option<f64>,
    /// Threshold and exceedances of the fit that decides: the largest, or the one without an end.
    pub(super) decided_by: (f64, u64),
}

/// The limit at probability `level` per sample. A threshold given by the user is the only one.
pub(super) fn limit(tail: &Tail, level: f64, request: &Request) -> Limit {
    let t = (tail.zeta / level).ln();
    let n = total(&tail.cells);
    let first = one(&tail.cells, (!tail.short).then_some(tail.fit), t, request);
    let mut found = Limit {
        value: tail.threshold + if t > 0.0 { gpd::level(&tail.fit, t) } else { 0.0 },
        upper: first.map(|y| tail.threshold + y),
        decided_by: (tail.threshold, n),
    };
    let mut share = if request.threshold.is_some() || tail.short { 0.0 } else { 0.5 };
    while found.upper.is_some() && share * n as f64 >= FEWEST {
        if let Some((lift, cells)) = above(&tail.cells, share * n as f64) {
            let kept = total(&cells);
            let t = (tail.zeta * kept as f64 / n as f64 / level).ln();
            if t <= 0.0 {
                break; // fewer exceed this threshold than the level says
            }
            let higher = one(&cells, gpd::fit(&cells), t, request).map(|y| tail.threshold + lift + y);
            if higher.is_none() || higher > found.upper {
                (found.upper, found.decided_by) = (higher, (tail.threshold + lift, kept));
            }
        }
        share *= 0.5;
    }
    let Some(upper) = found.upper.filter(|_| request.threshold.is_none()) else { return found };
    let mut largest = upper;
    for (lift, cells) in FEW.into_iter().filter_map(|few| above(&tail.cells, few)) {
        let kept = total(&cells);
        let t = (tail.zeta * kept as f64 / n as f64 / level).ln();
        let higher = tail.threshold + lift + exponential(&cells, t, request);
        if higher > largest {
            (largest, found.decided_by) = (higher, (tail.threshold + lift, kept));
        }
    }
    found.upper = Some(largest);
    found
}

/// The upper limit of an exponential tail, `t` e-foldings out, from few excesses: their sum is a Gamma variable (B. Epstein and
/// M. Sobel, J. Am. Stat. Assoc. 48, 1953). Excesses in classes are at the upper edge.
fn exponential(cells: &[Cell], t: f64, request: &Request) -> f64 {
    let sum: f64 = cells.iter().map(|cell| cell.hi.max(cell.lo) * cell.count as f64).sum();
    sum / gamma_quantile(total(cells) as f64, 0.5 * (1.0 - request.confidence)) * t.max(0.0)
}

/// The upper limit of excesses, `t` e-foldings out; also of an exponential tail if the data allow one, or if no longer tail fits.
fn one(cells: &[Cell], fit: Option<Fit>, t: f64, request: &Request) -> Option<f64> {
    if t <= 0.0 {
        return None;
    }
    let Some(fit) = fit.filter(|fit| fit.xi > gpd::SHORTEST) else {
        return Some(exponential(cells, t, request));
    };
    let upper = gpd::level_interval(cells, &fit, t, request.printed()).1?;
    let xi = gpd::xi_interval(cells, &fit, request.two_sided());
    let zero_inside = xi.0.is_none_or(|low| low <= 0.0) && xi.1.is_none_or(|high| high >= 0.0);
    match gpd::fit_exponential(cells).filter(|_| zero_inside) {
        Some(exponential) => gpd::exponential_interval(cells, &exponential, t, request.printed())
            .1
            .map(|other| upper.max(other)),
        None => Some(upper),
    }
}

//! Gates on the largest samples: do they belong to the tail of the others?
//!
//! A rarer mechanism with few samples in the record shows only in the largest ones. So the tail is fitted without the ten largest
//! (censored: it is only known that they are larger), and their distances are compared with this fit. A fit that includes them
//! would hide them: one outlier makes the tail heavy enough to contain it (masking).

use super::answer::Gate;
use super::exceedances::Tail;
use super::gate::condition;
use super::goodness::Drawn;
use super::gpd::{self, Fit};
use super::random::Random;
use super::special::gamma_upper;
use super::tail::{total, Cell};
use super::threshold::RETESTS;

/// Number of the largest samples that are examined.
const LARGEST: u64 = 10;
/// The p-value up to which they belong to another mechanism.
const FOREIGN: f64 = 0.02;

/// Whether the largest 1 to 10 samples are further from the next one than the tail of the others predicts. The p-value comes from
/// samples drawn from that tail, on which the same is computed.
pub(super) fn homogeneity(tail: &Tail, random: &mut Random) -> Gate {
    const NAME: &str = "homogeneity";
    let Tail { cells, fit, threshold, grid, .. } = tail;
    let without = without_largest(cells, fit);
    let Some((without, (data, n))) = without.and_then(|fit| Some((fit, distance(cells, &fit)?))) else {
        return condition(
            NAME,
            false,
            "no tail can be fitted without the ten largest: measure longer".to_owned(),
        );
    };
    let sample = Drawn { fit: &without, n: total(cells) as usize, threshold: *threshold, grid: *grid };
    let again = |drawn: &[Cell]| Some(distance(drawn, &without_largest(drawn, &without)?)?.0);
    let p = sample.p_value(data, RETESTS, random, again);
    let which =
        if n == 1 { "the largest sample is".to_owned() } else { format!("the largest {n} samples are") };
    match p <= FOREIGN {
        true => condition(NAME, false, format!("{which} too far from the others for one tail (p {p:.3}; shape {:.3} without the ten largest, {:.3} with them): they come from another mechanism; run explain on them", without.xi, fit.xi)),
        false => condition(NAME, true, format!("the distances of the ten largest agree with the tail of the others (p {p:.3})")),
    }
}

/// The most surprising distance, as minus the logarithm of its probability if `fit` were known, and the number of samples beyond
/// it. `None` with too few samples.
fn distance(cells: &[Cell], fit: &Fit) -> Option<(f64, u64)> {
    let hazards = largest(cells, |y| -fit.survival(y).max(1e-300).ln());
    let mut sum = 0.0;
    let surprise = |(at, pair): (usize, &[f64])| {
        // Of exponential variables, k times the k-th distance has the same distribution, and the sum of k such is Gamma(k).
        let k = (at + 1) as f64;
        sum += k * (pair[0] - pair[1]);
        (-gamma_upper(k, sum).max(1e-300).ln(), at as u64 + 1)
    };
    hazards.windows(2).enumerate().map(surprise).max_by(|a, b| a.0.total_cmp(&b.0))
}

/// The tail of all but the ten largest; exponential if it would have an end, beyond which no distance can be compared.
fn without_largest(cells: &[Cell], start: &Fit) -> Option<Fit> {
    let censored = censor(cells, LARGEST)?;
    let fit = gpd::fit_near(&censored, start).filter(|fit| fit.xi >= 0.0);
    fit.or_else(|| gpd::fit_exponential(&censored))
}

/// `of` the largest eleven samples, the largest first.
fn largest(cells: &[Cell], of: impl Fn(f64) -> f64) -> Vec<f64> {
    let mut top: Vec<f64> = Vec::new();
    for cell in cells.iter().rev() {
        top.extend(std::iter::repeat_n(of(cell.lo), cell.count.min(LARGEST + 1) as usize));
        if top.len() > LARGEST as usize {
            break;
        }
    }
    top.truncate(LARGEST as usize + 1);
    top
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

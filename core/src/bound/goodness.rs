//! Does the fitted tail describe the excesses? Anderson-Darling and Cramér-von Mises, with a parametric bootstrap.
//!
//! Published tables assume known parameters; here they are estimated from the same data. So the statistic is compared
//! with that of samples drawn from the fit, rounded to the same classes and fitted again.

use super::gpd::{self, Fit};
use super::random::Random;
use super::tail::{total, Cell, Rounding};

/// The two statistics.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Statistics {
    /// Anderson-Darling, which weights the tail.
    pub a2: f64,
    /// Cramér-von Mises.
    pub w2: f64,
}

/// Statistics of excesses against a fit: exact values by the textbook sums, classes by the same integrals over their
/// upper edges.
#[must_use]
pub fn statistics(cells: &[Cell], survival: impl Fn(f64) -> f64) -> Statistics {
    let n = total(cells) as f64;
    if cells.iter().all(Cell::is_exact) {
        return exact(cells, n, survival);
    }
    let (mut below, mut last) = (0.0, 0.0);
    let (mut a2, mut w2) = (0.0, 0.0);
    for cell in cells {
        below += cell.count as f64;
        let f = 1.0 - survival(if cell.is_exact() { cell.lo } else { cell.hi });
        let squared = (below / n - f).powi(2) * (f - last).max(0.0);
        w2 += squared;
        if f < 1.0 - 1e-15 {
            a2 += squared / (f * (1.0 - f)).max(1e-300);
        }
        last = f;
    }
    Statistics { a2: n * a2, w2: n * w2 }
}

fn exact(cells: &[Cell], n: f64, survival: impl Fn(f64) -> f64) -> Statistics {
    let (mut a2, mut w2, mut i) = (-n, 1.0 / (12.0 * n), 0.0);
    for cell in cells {
        let s = survival(cell.lo).clamp(1e-300, 1.0);
        let f = (1.0 - s).max(1e-300);
        for _ in 0..cell.count {
            i += 1.0;
            a2 -= ((2.0 * i - 1.0) * f.ln() + (2.0 * (n - i) + 1.0) * s.ln()) / n;
            w2 += (f - (2.0 * i - 1.0) / (2.0 * n)).powi(2);
        }
    }
    Statistics { a2, w2 }
}

/// p-values of both statistics, and the number of bootstrap samples that could be fitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goodness {
    /// Statistics of the data.
    pub statistics: Statistics,
    /// p-value of Anderson-Darling.
    pub p_a2: f64,
    /// p-value of Cramér-von Mises.
    pub p_w2: f64,
    /// Bootstrap samples that could be fitted.
    pub drawn: u32,
}

/// Parametric bootstrap: draws `times` samples of the same size from `fit` over `threshold`, rounded to `grid`.
#[must_use]
pub fn bootstrap(
    cells: &[Cell],
    fit: &Fit,
    threshold: f64,
    grid: Rounding,
    times: u32,
    random: &mut Random,
) -> Goodness {
    let data = statistics(cells, |y| fit.survival(y));
    let n = total(cells) as usize;
    let (mut fitted, mut worse_a2, mut worse_w2) = (0, 0, 0);
    let mut values = Vec::with_capacity(n);
    let mut drawn: Vec<Cell> = Vec::new();
    for _ in 0..times {
        draw(fit, n, random, &mut values);
        record(&values, threshold, grid, &mut drawn);
        let Some(again) = gpd::fit_near(&drawn, fit) else { continue };
        let one = statistics(&drawn, |y| again.survival(y));
        fitted += 1;
        worse_a2 += u32::from(one.a2 >= data.a2);
        worse_w2 += u32::from(one.w2 >= data.w2);
    }
    let p = |worse: u32| f64::from(worse + 1) / f64::from(fitted + 1);
    Goodness { statistics: data, p_a2: p(worse_a2), p_w2: p(worse_w2), drawn: fitted }
}

/// Samples of the size of the data, drawn from `fit` over `threshold` and rounded to `grid`.
pub(super) struct Drawn<'f> {
    pub(super) fit: &'f Fit,
    pub(super) n: usize,
    pub(super) threshold: f64,
    pub(super) grid: Rounding,
}

impl Drawn<'_> {
    /// Share of `times` samples whose `statistic` is at least that of the `data`. Samples without a statistic are left out; 0 if
    /// that are more than a tenth, because the others are no random sample.
    pub(super) fn p_value(
        &self,
        data: f64,
        times: u32,
        random: &mut Random,
        statistic: impl Fn(&[Cell]) -> Option<f64>,
    ) -> f64 {
        let (mut values, mut cells) = (Vec::with_capacity(self.n), Vec::new());
        let (mut valid, mut worse) = (0, 0);
        for _ in 0..times {
            draw(self.fit, self.n, random, &mut values);
            record(&values, self.threshold, self.grid, &mut cells);
            let Some(one) = statistic(&cells) else { continue };
            valid += 1;
            worse += u32::from(one >= data);
        }
        if valid < times - times / 10 {
            0.0
        } else {
            f64::from(worse + 1) / f64::from(valid + 1)
        }
    }
}

/// Ascending excesses, drawn in order (exponential spacings), so that nothing needs to be sorted.
fn draw(fit: &Fit, n: usize, random: &mut Random, values: &mut Vec<f64>) {
    values.clear();
    let mut t = 0.0;
    for left in (1..=n).rev() {
        t += random.exponential() / left as f64;
        values.push(fit.sigma * gpd::growth(t, fit.xi));
    }
}

fn record(values: &[f64], threshold: f64, grid: Rounding, cells: &mut Vec<Cell>) {
    cells.clear();
    if grid == Rounding::Exact {
        cells.extend(values.iter().map(|y| Cell { lo: *y, hi: *y, count: 1 }));
        return;
    }
    for y in values {
        if let Some(last) = cells.last_mut().filter(|last| *y < last.hi) {
            last.count += 1;
            continue;
        }
        let cell = grid.cell(threshold + y);
        cells.push(Cell { lo: (cell.lo - threshold).max(0.0), hi: cell.hi - threshold, count: 1 });
    }
}

/// Maximum number of block maxima in a bootstrap sample.
const MOST_MAXIMA: usize = 5_000;

/// Anderson-Darling p-value for block maxima, and the number of bootstrap samples that could be fitted. Of many maxima, some at
/// equal distances.
#[must_use]
pub fn bootstrap_maxima(maxima: &[f64], fit: &super::gev::Fit, times: u32) -> (f64, u32) {
    let a2 = |values: &[f64], fit: &super::gev::Fit| {
        let all = super::tail::Distribution::of_values(values, Rounding::Exact)?;
        Some(statistics(&all.cells, |z| 1.0 - fit.below(z)).a2)
    };
    let some: Vec<f64> = maxima.iter().copied().step_by(maxima.len().div_ceil(MOST_MAXIMA).max(1)).collect();
    let own = if some.len() < maxima.len() { super::gev::fit_near(&some, fit) } else { Some(*fit) };
    let Some((own, data)) = own.and_then(|own| Some((own, a2(&some, &own)?))) else { return (0.0, 0) };
    let mut random = Random::new(0x6d61_7869_6d61);
    let (mut fitted, mut worse) = (0, 0);
    for _ in 0..times {
        let draw = |_: &f64| own.mu + own.sigma * gpd::growth(-random.exponential().ln(), own.xi);
        let drawn: Vec<f64> = some.iter().map(draw).collect();
        let again = super::gev::fit_near(&drawn, &own);
        let Some(one) = again.and_then(|again| a2(&drawn, &again)) else { continue };
        fitted += 1;
        worse += u32::from(one >= data);
    }
    (f64::from(worse + 1) / f64::from(fitted + 1), fitted)
}

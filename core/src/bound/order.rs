//! Tests that need the time order: stationarity, independence, clusters.

use super::special::{bridge_upper, chi2_upper, correlation_upper, ks_two_sample};
pub use crate::stats::clusters::{extremal_index, index_by_blocks};

/// KPSS statistic for a constant level, with the lag `floor(4 (n / 100)^(1/4))`, and its p-value (Kwiatkowski,
/// Phillips, Schmidt, Shin, J. Econometrics 54, 1992). `None` below ten values or if all are equal.
#[must_use]
pub fn kpss(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 10 {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let residual: Vec<f64> = values.iter().map(|v| v - mean).collect();
    let lag = (4.0 * (n as f64 / 100.0).powf(0.25)).floor() as usize;
    let product = |k: usize| residual[k..].iter().zip(&residual).map(|(a, b)| a * b).sum::<f64>();
    let mut variance = product(0);
    for k in 1..=lag.min(n - 1) {
        variance += 2.0 * (1.0 - k as f64 / (lag + 1) as f64) * product(k);
    }
    let (mut running, mut squares) = (0.0, 0.0);
    for r in &residual {
        running += r;
        squares += running * running;
    }
    (variance > 0.0).then(|| {
        let statistic = squares / (n as f64 * variance);
        (statistic, bridge_upper(statistic))
    })
}

/// Parts of the time whose scores are compared by [`trend`].
const PARTS: usize = 20;

/// Correlation of the size of the values with the time, and its p-value; `None` with fewer than 20 values or if all are equal.
///
/// The values are replaced by their exponential scores, which depend on ranks only and give the most weight to large values
/// (I. R. Savage, Ann. Math. Statist. 27, 1956). The means of 20 parts of the time are correlated with the time, by Student's t with 18
/// degrees of freedom: neighbouring values may depend on each other. Cost: n log n.
#[must_use]
pub fn trend(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len();
    if n < PARTS {
        return None;
    }
    let mut means = [0.0; PARTS];
    let part = |at: usize| (at * PARTS / n).min(PARTS - 1);
    let mut sizes = [0.0; PARTS];
    (0..n).for_each(|at| sizes[part(at)] += 1.0);
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut below = 0;
    for tied in order.chunk_by(|a, b| values[*a] == values[*b]) {
        let rank = below as f64 + 0.5 * tied.len() as f64;
        let score = -(1.0 - rank / n as f64).ln();
        tied.iter().for_each(|at| means[part(*at)] += score / sizes[part(*at)]);
        below += tied.len();
    }
    let centre = |at: usize| at as f64 - 0.5 * (PARTS - 1) as f64;
    let mean = means.iter().sum::<f64>() / PARTS as f64;
    let (mut both, mut time, mut size) = (0.0, 0.0, 0.0);
    for (at, one) in means.iter().enumerate() {
        both += centre(at) * (one - mean);
        time += centre(at).powi(2);
        size += (one - mean).powi(2);
    }
    (size > 1e-18).then(|| {
        let r = (both / (time * size).sqrt()).clamp(-1.0, 1.0);
        (r, correlation_upper(r, PARTS - 2))
    })
}

/// Ljung-Box statistic over `lags` autocorrelations, and its p-value (Biometrika 65, 1978). `None` with fewer than `3 *
/// lags` values or if all are equal.
#[must_use]
pub fn ljung_box(values: &[f64], lags: usize) -> Option<(f64, f64)> {
    let n = values.len();
    if n < 3 * lags {
        return None;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let residual: Vec<f64> = values.iter().map(|v| v - mean).collect();
    let product = |k: usize| residual[k..].iter().zip(&residual).map(|(a, b)| a * b).sum::<f64>();
    let variance = product(0);
    if variance.is_nan() || variance <= 0.0 {
        return None;
    }
    let sum: f64 = (1..=lags).map(|k| (product(k) / variance).powi(2) / (n - k) as f64).sum();
    let statistic = n as f64 * (n as f64 + 2.0) * sum;
    Some((statistic, chi2_upper(lags as f64, statistic)))
}

/// Whether counts `(count, samples)` have one rate: chi-square, its p-value, and the index that differs most. `None`
/// with fewer than two counts, or with an expected count below five (not chi-square distributed then).
#[must_use]
pub fn homogeneous(counts: &[(u64, f64)]) -> Option<(f64, f64, usize)> {
    let (sum, samples) = counts.iter().fold((0, 0.0), |(n, all), one| (n + one.0, all + one.1));
    let expected = |one: &(u64, f64)| sum as f64 * one.1 / samples;
    if counts.len() < 2 || !counts.iter().all(|one| expected(one) >= 5.0) {
        return None;
    }
    let part = |one: &(u64, f64)| (one.0 as f64 - expected(one)).powi(2) / expected(one);
    let statistic: f64 = counts.iter().map(part).sum();
    let worst = (0..counts.len()).max_by(|a, b| part(&counts[*a]).total_cmp(&part(&counts[*b])))?;
    Some((statistic, chi2_upper((counts.len() - 1) as f64, statistic), worst))
}

/// Two-sample Kolmogorov-Smirnov distance and its p-value; `None` below five values. Ties count on both sides.
#[must_use]
pub fn ks(a: &[f64], b: &[f64]) -> Option<(f64, f64)> {
    if a.len() < 5 || b.len() < 5 {
        return None;
    }
    let (mut a, mut b) = (a.to_vec(), b.to_vec());
    a.sort_by(f64::total_cmp);
    b.sort_by(f64::total_cmp);
    let (n, m) = (a.len() as f64, b.len() as f64);
    let (mut i, mut j, mut distance) = (0, 0, 0.0f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while i < a.len() && a[i] <= at {
            i += 1;
        }
        while j < b.len() && b[j] <= at {
            j += 1;
        }
        distance = distance.max((i as f64 / n - j as f64 / m).abs());
    }
    Some((distance, ks_two_sample(distance, n, m)))
}

/// Starts of clusters, as indices into `times`. There are `floor(n theta)` clusters, at least one, separated by the longest
/// gaps: the run length follows from the extremal index. Fewer if several gaps are as long as the shortest separating one.
#[must_use]
pub fn cluster_starts(times: &[f64], theta: f64) -> Vec<usize> {
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mut sorted = gaps.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let clusters = ((times.len() as f64 * theta).floor() as usize).clamp(1, times.len().max(1));
    let between = match clusters {
        1 => f64::INFINITY,
        n => sorted.get(n - 2).copied().unwrap_or(f64::INFINITY),
    };
    // If more gaps are as long as the shortest separating gap than there are clusters, none of these separates: fewer
    // clusters are conservative.
    let ties = sorted.iter().filter(|gap| **gap >= between).count();
    let separates = |gap: f64| if ties + 1 > clusters { gap > between } else { gap >= between };
    let later = gaps.iter().enumerate().filter(|(_, gap)| separates(**gap)).map(|(at, _)| at + 1);
    (!times.is_empty()).then_some(0).into_iter().chain(later).collect()
}

#[cfg(test)]
mod tests {
    use super::super::random::Random;
    use super::trend;

    #[test]
    fn a_trend_is_found_whatever_the_unit_and_the_shape_of_the_values_and_chance_is_not() {
        let values = |seed, drift: f64| {
            let mut random = Random::new(seed);
            (0u32..2_000)
                .map(|at| random.exponential() * (1.0 + drift * f64::from(at) / 2_000.0))
                .collect::<Vec<f64>>()
        };
        let p = |values: &[f64]| trend(values).unwrap().1;
        let found = |drift, below| (0..200).filter(|seed| p(&values(*seed, drift)) < below).count();
        assert!((2..=20).contains(&found(0.0, 0.05)), "{}", found(0.0, 0.05));
        assert!(found(0.5, 0.01) > 160, "{}", found(0.5, 0.01));
        let some = values(7, 0.5);
        let cubed: Vec<f64> = some.iter().map(|v| 5.0 + v.powi(3)).collect();
        assert_eq!(trend(&some), trend(&cubed), "only ranks count");
        let (up, down) = (trend(&some).unwrap().0, some.iter().rev().copied().collect::<Vec<f64>>());
        assert!(up > 0.5 && trend(&down).unwrap().0 < -0.5);
        assert_eq!((trend(&[1.0; 500]), trend(&[1.0; 19])), (None, None));
    }
}

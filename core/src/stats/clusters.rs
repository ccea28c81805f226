//! The extremal index theta of late samples: 1 for independent samples, 1/k for clusters of k. N clustered samples
//! carry as much information as `theta * N` independent ones.
//!
//! A run keeps a histogram and the largest sample of each second: theta within a second follows from the number of
//! seconds with an exceedance, theta across seconds from their gaps. It is an estimate, and needs about twenty seconds, fifty for a good one.

use crate::histogram::Histogram;
use crate::series::{longest_stretch, maxima_in_time, Series};
use crate::stats::activations::possibly_above;
use crate::time::Ns;

/// Extremal index by the intervals estimator, from the times of the exceedances in units of samples (Ferro and Segers,
/// J. R. Statist. Soc. B 65, 2003). `None` below three exceedances.
#[must_use]
pub fn extremal_index(times: &[f64]) -> Option<f64> {
    let gaps: Vec<f64> = times.windows(2).map(|pair| (pair[1] - pair[0]).max(1.0)).collect();
    if gaps.len() < 2 {
        return None;
    }
    let n = gaps.len() as f64;
    let longest = gaps.iter().copied().fold(0.0, f64::max);
    let (sum, squares) = match longest > 2.0 {
        true => (
            gaps.iter().map(|t| t - 1.0).sum::<f64>(),
            gaps.iter().map(|t| (t - 1.0) * (t - 2.0)).sum::<f64>(),
        ),
        false => (gaps.iter().sum(), gaps.iter().map(|t| t * t).sum()),
    };
    (squares > 0.0).then(|| (2.0 * sum * sum / (n * squares)).min(1.0))
}

/// Extremal index within blocks, from the number of blocks with an exceedance: `hit` of `blocks`, with `per_block`
/// samples each; `zeta` is the share of all samples that exceed (R. L. Smith and I. Weissman, J. R. Statist. Soc. B 56,
/// 1994). `None` if every block has one, or none has: theta is not identifiable then.
#[must_use]
pub fn index_by_blocks(blocks: u64, hit: u64, per_block: f64, zeta: f64) -> Option<f64> {
    if hit == 0 || hit >= blocks || zeta <= 0.0 || zeta >= 1.0 || per_block <= 0.0 {
        return None;
    }
    let seen = f64::ln_1p(-(hit as f64 / blocks as f64));
    let independent = per_block * f64::ln_1p(-zeta);
    Some((seen / independent).min(1.0))
}

/// Extremal index of the exceedances of a level, from blocks in time order: (samples, exceedances).
///
/// The smaller of two estimates: by the number of blocks with an exceedance, and by the dispersion of their counts, which shows
/// clusters of varying size, a rate that varies with time, and clusters if all blocks have one. Of clusters, the lower 95 % limit.
/// `None` without an exceedance, with fewer than two blocks, or if fewer than ten have one and these show no clusters.
#[must_use]
pub fn index_of_counts(blocks: &[(u64, u64)]) -> Option<f64> {
    let times: Vec<f64> =
        (0u32..).zip(blocks).filter(|(_, (_, above))| *above > 0).map(|(at, _)| f64::from(at)).collect();
    let (samples, above) =
        blocks.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0 as f64, sum.1 + one.1 as f64));
    let (hit, all) = (times.len() as u64, blocks.len() as u64);
    if hit == 0 || all < 2 || samples <= 0.0 {
        return None;
    }
    let inside = index_by_blocks(all, hit, samples / all as f64, above / samples).unwrap_or(1.0);
    let inside = inside.min(index_by_dispersion(blocks, above / samples));
    let across = if hit < FEWEST { 1.0 } else { extremal_index(&times).unwrap_or(1.0) };
    match inside * across {
        theta if theta < INDEPENDENT => Some(of_few(across * hit as f64, theta)),
        theta => Some(theta).filter(|_| hit >= FEWEST),
    }
}

/// Extremal index of clusters of geometric sizes whose counts per block have the observed dispersion: Pearson's chi-square by its
/// degrees of freedom, `(2 - theta) / theta`. `zeta`: share of all samples that exceed. 1 if the counts vary as independent ones.
fn index_by_dispersion(blocks: &[(u64, u64)], zeta: f64) -> f64 {
    let part = |&(samples, above): &(u64, u64)| match samples as f64 * zeta {
        expected if expected > 0.0 => (above as f64 - expected).powi(2) / expected,
        _ => 0.0,
    };
    let dispersion = blocks.iter().map(part).sum::<f64>() / (blocks.len() as f64 - 1.0);
    (2.0 / (1.0 + dispersion)).min(1.0)
}

/// Minimum number of blocks with an exceedance for an estimate.
const FEWEST: u64 = 10;

/// Shares of the maxima that reach a level: the first is used, the others if too few do. The higher a level, the more its
/// clusters are those of the largest samples.
const SHARES: [f64; 4] = [0.2, 0.25, 1.0 / 3.0, 0.5];

/// `theta` reduced to the lower 95 % limit of the number of `clusters` from which it was estimated, as of a Poisson variable
/// (E. B. Wilson and M. M. Hilferty, PNAS 17, 1931): a hundred exceedances may be five clusters, which do not tell their
/// rate well, and `--until` ends where the estimate is large by chance.
#[must_use]
pub fn of_few(clusters: f64, theta: f64) -> f64 {
    let found = clusters.max(1.0);
    let lower = (1.0 - 1.0 / (9.0 * found) - 1.645 / (3.0 * found.sqrt())).max(0.0).powi(3);
    theta * lower
}

/// Extremal index from the maxima of blocks in time order, with `per_block` samples each: the index within blocks times that
/// across them, at the class edge from which a fifth of the blocks reach, or up to a half if these are too few; of clusters,
/// its lower 95 % limit. `edge`: the first class edge at or above a level; `share`: share of all samples at or above an edge,
/// so that samples and maxima are counted alike. `None` if fewer than ten blocks reach each edge, or all do.
#[must_use]
pub fn of_maxima(
    maxima: &[f64],
    per_block: f64,
    edge: impl Fn(f64) -> f64,
    share: impl Fn(f64) -> f64,
) -> Option<f64> {
    let mut sorted = maxima.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let level = edge(*sorted.get((sorted.len() as f64 * (1.0 - part)) as usize)?);
        let times: Vec<f64> =
            (0u32..).zip(maxima).filter(|(_, max)| **max >= level).map(|(at, _)| f64::from(at)).collect();
        let hit = times.len() as u64;
        if hit < FEWEST {
            return None;
        }
        let inside = index_by_blocks(maxima.len() as u64, hit, per_block, share(level))?;
        let across = extremal_index(&times).unwrap_or(1.0);
        let theta = inside * across;
        Some(if theta < INDEPENDENT { of_few(across * hit as f64, theta) } else { theta })
    };
    SHARES.into_iter().find_map(at)
}

/// `theta`, or that of the exceedances of `level` itself if they come in larger clusters, which few blocks are enough to
/// show: one burst of fifty late samples is one event. `above`: the number of samples above `level`, of `samples`.
///
/// Without `theta`, fewer than ten clusters do not show that the exceedances are independent.
#[must_use]
pub fn at_level(theta: Option<f64>, maxima: &[f64], level: f64, above: u64, samples: u64) -> Option<f64> {
    let hit = maxima.iter().filter(|max| **max > level).count() as u64;
    let (blocks, n) = (maxima.len() as u64, samples as f64);
    let own = index_by_blocks(blocks, hit, n / blocks as f64, above as f64 / n);
    match (theta, own) {
        (Some(theta), Some(own)) => Some(theta.min(own)),
        (None, own) => own.filter(|own| *own < INDEPENDENT),
        (theta, None) => theta,
    }
}

/// The smallest index of samples that count as independent.
pub const INDEPENDENT: f64 = 0.9;

/// Extremal index of all `series` together at `level`, missed activations at the latency they would have had. `None` if it is not
/// identifiable, or without maxima of the seconds. Cost: one sum of the histograms.
#[must_use]
pub fn of_series(series: &[&Series], level: Ns) -> Option<f64> {
    let maxima = maxima_in_time(series, longest_stretch(series.iter().copied())).ok()?;
    let mut all: Option<Histogram> = None;
    for one in series {
        let histogram = one.activations().unwrap_or(&one.histogram);
        match &mut all {
            Some(sum) => sum.merge(histogram).ok()?,
            None => all = Some(histogram.clone()),
        }
    }
    of_histogram(&maxima, &all?, level)
}

/// Extremal index at `level`, from the maxima of stretches of equal length, in time order, and the sum of the histograms.
#[must_use]
pub fn of_histogram(maxima: &[f64], all: &Histogram, level: Ns) -> Option<f64> {
    let layout = all.layout();
    let edge = |level: f64| {
        let (level, class) = (Ns(level as u64), layout.index(Ns(level as u64)));
        let edge =
            if layout.lower(class) == level { level } else { Ns(layout.upper(class).0.saturating_add(1)) };
        edge.0 as f64
    };
    let share = |edge: f64| all.count_from(Ns(edge as u64)) as f64 / all.count() as f64;
    let theta = of_maxima(maxima, all.count() as f64 / maxima.len() as f64, edge, share);
    at_level(theta, maxima, level.0 as f64, possibly_above(all, level), all.count())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;
    use crate::random::Random;
    use crate::series::{Quantity, SecondMax};
    use crate::time::Cpu;

    /// A level that no sample exceeds.
    const NEVER: Ns = Ns(u64::MAX);

    /// 400 seconds of 1000 samples; of each `every`-th sample on average a burst of `length` late ones begins.
    fn of_bursts(length: u64, bursts: u64, seed: u64) -> Series {
        let mut random = Random::new(seed);
        let mut histogram = Histogram::new(Layout::LATENCY);
        let mut late = vec![0u64; 400_000];
        for _ in 0..bursts {
            let at = (random.below(400_000)) as usize;
            let size = 100_000 + random.below(400_000);
            (at..(at + length as usize).min(400_000)).for_each(|n| late[n] = late[n].max(size));
        }
        let mut seconds = Vec::new();
        for (second, samples) in late.chunks(1_000).enumerate() {
            let all =
                samples.iter().map(|&late| Ns(if late > 0 { late } else { 5_000 + random.below(20_000) }));
            let max = all.inspect(|sample| histogram.record(*sample)).max().unwrap();
            seconds.push(SecondMax { second: second as u32, max_ns: max });
        }
        let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
        series.set_seconds(seconds);
        series
    }

    #[test]
    fn theta_is_one_part_of_the_injected_length_of_the_clusters() {
        for (length, low, high) in [(1, 0.75, 1.0), (5, 0.14, 0.27), (20, 0.03, 0.07)] {
            let mut thetas: Vec<f64> =
                (0..9).map(|seed| of_series(&[&of_bursts(length, 150, seed + 1)], NEVER).unwrap()).collect();
            thetas.sort_by(f64::total_cmp);
            assert!((low..=high).contains(&thetas[4]), "{length}: {thetas:?}");
        }
    }

    /// Independent samples below 0.1 ms, and above it a few bursts: the index of the common ones says nothing about these.
    #[test]
    fn exceedances_in_few_bursts_count_once_a_burst_though_smaller_ones_are_independent() {
        for (length, bursts) in [(50, 1), (50, 3), (1, 4), (20, 30)] {
            let series = of_bursts(length, bursts, 5);
            let (all, theta) =
                (series.histogram.count_from(Ns(90_000)) as f64, of_series(&[&series], Ns(90_000)));
            let seen = theta.map_or(all, |theta| theta * all) / bursts as f64;
            // Of thirty bursts, the lower 95 % limit of their number.
            let least = if bursts < 10 { 0.65 } else { 0.4 };
            assert!(seen > least && seen < 1.35, "{length} {bursts}: {theta:?} of {all}");
        }
        let mut short = of_bursts(30, 1, 2);
        short.seconds.truncate(1);
        assert_eq!(of_series(&[&short], Ns(90_000)), None);
    }

    #[test]
    fn a_claim_takes_as_many_times_longer_as_late_samples_come_together() {
        let claim: crate::stats::claim::Claim = "1.2e-5@95%".parse().unwrap(); // 249,643 samples; there are 400,000
        let times = |length| {
            let series = of_bursts(length, 150, 3);
            let said = crate::judge::claimed(&[&series], None, claim.confidence).unwrap();
            claim.times_as_long(&[said])
        };
        assert!((0.6..1.0).contains(&times(1)), "{}", times(1));
        assert!((5.0..25.0).contains(&times(9)), "{}", times(9));
        assert_eq!(claim.times_as_long(&[]), f64::INFINITY);
    }

    #[test]
    fn without_seconds_or_with_few_nothing_is_estimated() {
        let mut series = of_bursts(5, 150, 1);
        series.seconds.truncate(19);
        assert_eq!(of_series(&[&series], NEVER), None);
        series.seconds.clear();
        assert_eq!(of_series(&[&series], NEVER), None);
        assert_eq!(of_series(&[], NEVER), None);
    }
}

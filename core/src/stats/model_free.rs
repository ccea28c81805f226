//! "N samples, k above X: with 95 % confidence fewer than 1 in M": a statement without a model of the tail.
//!
//! Exact one-sided binomial upper limit (Clopper and Pearson, Biometrika 26, 1934): the probability `p` at which
//! seeing at most `k` exceedances in `N` samples would have probability `1 - c`. For `k = 0` this is
//! `1 - (1-c)^(1/N)`, about `3/N` at 95 %. With X chosen as the observed maximum the same formula holds: it is then
//! the distribution-free tolerance limit of Wilks (Ann. Math. Statist. 12, 1941).
//!
//! The textbook route, the inverse of the incomplete beta function, loses digits or needs very many iterations for `N`
//! = 10^9. Here the binomial sum is added up from its largest term (Loader's saddle-point form, "Fast and accurate
//! computation of binomial probabilities", 2000) and bisected; about `sqrt(k)` terms matter. If these are too many,
//! only every s-th is computed (Euler-Maclaurin formula), so that no count takes more than some ten thousand terms.
//!
//! Assumptions: the samples are independent, and of the same workload and configuration. Late activations come in
//! clusters; if the extremal index theta is known ([`super::clusters`]), `N` becomes `theta * N`. If it is not, the
//! limit is optimistic, and the output says so next to it. CPUs and machines that are merged count as one workload.

use crate::numbers::counted;
use crate::stats::activations::Activations;
use crate::time::Ns;
use crate::verdict::ModelFree;

/// One-sided upper limit of the probability of an exceedance, given `above` exceedances in `samples`, at `confidence`.
///
/// `None` without samples, with more exceedances than samples, or for a confidence outside [0.5, 1): below 0.5 the
/// limit can be below the observed share, where the search starts. 1 if every sample exceeds. Relative accuracy better
/// than 10^-9.
#[must_use]
pub fn upper_limit(samples: u64, above: u64, confidence: f64) -> Option<f64> {
    if samples == 0 || above > samples || !(0.5..1.0).contains(&confidence) {
        return None;
    }
    if above == samples {
        return Some(1.0);
    }
    let alpha = 1.0 - confidence;
    if above == 0 {
        return Some(-f64::exp_m1(alpha.ln() / samples as f64));
    }
    // The limit lies between the observed share (where at most k exceedances have a probability of about 0.5 or more)
    // and 1.
    let (mut low, mut high) = (above as f64 / samples as f64, 1.0);
    while high - low > low * 1e-13 {
        let middle = if high > 4.0 * low { (low * high).sqrt() } else { low + (high - low) / 2.0 };
        if middle <= low || middle >= high {
            break;
        }
        if at_most(above, samples, middle) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(high)
}

/// Number of samples without an exceedance needed to claim "fewer than `probability`" at `confidence`.
///
/// `None` if either is outside (0, 1), or for more than 2^63 samples.
#[must_use]
pub fn samples_needed(probability: f64, confidence: f64) -> Option<u64> {
    let open = |x: f64| x > 0.0 && x < 1.0;
    let needed = ((1.0 - confidence).ln() / f64::ln_1p(-probability)).ceil();
    (open(probability) && open(confidence) && needed < 2f64.powi(63)).then_some(needed as u64)
}

/// A share in percent, to nine decimal places: 0.57 * 100 is not 57. Rounded down: no confidence below 1 is 100 %.
#[must_use]
pub fn percent(share: f64) -> f64 {
    let rounded = (share * 1e11 + 1e-3).floor() / 1e9;
    if share < 1.0 {
        rounded.min(99.999_999_999)
    } else {
        rounded
    }
}

/// The statement on the `activations` that may be above `level`; `None` if [`upper_limit`] has none. With the extremal
/// index `theta`, a cluster counts once, in `samples` and in `above`.
#[must_use]
pub(crate) fn statement(
    activations: Activations,
    theta: Option<f64>,
    level: Ns,
    confidence: f64,
) -> Option<ModelFree> {
    let Activations { all: samples, missed, above, unknown, from_due } = activations;
    let (n, k) = theta.map_or((samples, above), |theta| for_limit(activations, theta));
    let probability_below = upper_limit(n, k.min(n), confidence)?;
    let effective_samples = theta.map(|theta| effective_samples(activations, theta));
    let late = match above {
        0 => "none".to_owned(),
        n => n.to_string(),
    };
    let one_in = (1.0 / probability_below).floor();
    let claim = if one_in >= 2.0 {
        format!("fewer than 1 in {one_in}")
    } else {
        format!("fewer than {:.1} %", (probability_below * 1_000.0).ceil() / 10.0)
    };
    let percent = percent(confidence);
    let shown = level.rounded_up(); // "none above 85.3 µs" is wrong when one took 85.349 µs
    let of = match missed {
        0 => counted(samples, "sample"),
        missed => format!("{} ({missed} missed)", counted(samples, "activation")),
    };
    let of = match effective_samples.filter(|n| *n < samples) {
        Some(n) => format!("{of} (equivalent to {n} independent ones)"),
        None => of,
    };
    let unknown = if unknown > 0 { " or not known" } else { "" };
    let from = if from_due { ", counted from when each was due" } else { "" };
    let sentence = format!("{of}, {late} above {shown}{unknown}{from}: with {percent} % confidence {claim}");
    Some(ModelFree {
        samples,
        theta,
        effective_samples,
        level_ns: level,
        above,
        confidence,
        probability_below,
        sentence,
    })
}

/// Equivalent number of independent activations. Unknown ones are not reduced by `theta`.
pub(crate) fn effective_samples(activations: Activations, theta: f64) -> u64 {
    for_limit(Activations { above: 0, ..activations }, theta).0
}

/// Numbers of independent activations, and of those above, to compute the upper limit from.
///
/// With none above, no cluster occurred, whatever its size: [`effective_samples`]. Otherwise the limit allows for clusters of
/// varying size. With geometric sizes of mean `1 / theta`, the variance of the number above is `(2 - theta) / theta` times its mean,
/// so that `theta / (2 - theta)` of the samples are equivalent to independent ones. A limit that assumes clusters of equal size is
/// too low (docs/decisions/0050-clusters-in-verdicts.md).
pub(crate) fn for_limit(activations: Activations, theta: f64) -> (u64, u64) {
    let Activations { all, above, unknown, .. } = activations;
    let share = if above > unknown { theta / (2.0 - theta) } else { theta };
    let n = ((share * all.saturating_sub(unknown) as f64).floor() as u64).max(1);
    let k = (share * above.saturating_sub(unknown) as f64).ceil() as u64;
    (n.saturating_add(unknown), k.saturating_add(unknown))
}

/// Probability of `k` or more exceedances in `n` if each has probability `p`; rounded up to 1 for `k` below the
/// expected number.
#[must_use]
pub(crate) fn at_least(k: u64, n: u64, p: f64) -> f64 {
    match k {
        0 => 1.0,
        k if (k as f64) < n as f64 * p => 1.0,
        k if k >= n => p.powf(n as f64),
        k => at_most(n - k, n, 1.0 - p).min(1.0),
    }
}

/// Probability of at most `k` exceedances in `n`, for `p >= k/n`: there the terms fall from `k` downwards.
fn at_most(k: u64, n: u64, p: f64) -> f64 {
    if p >= 1.0 {
        return 0.0; // k < n
    }
    let (most, all) = (k as f64, n as f64);
    let width = (most * ((n - k) as f64 / all)).sqrt();
    if width >= 2.0 * TERMS_A_WIDTH {
        return at_most_by_strides(most, all, p, (width / TERMS_A_WIDTH).floor());
    }
    let odds = (1.0 - p) / p;
    let mut term = binomial_term(most, all, p);
    let mut sum = term;
    for i in (1..=k).rev() {
        term *= i as f64 / (n - i + 1) as f64 * odds;
        sum += term;
        if term <= sum * 1e-17 {
            break; // also if all terms underflow to 0
        }
    }
    sum
}

/// Minimum number of terms per standard deviation.
const TERMS_A_WIDTH: f64 = 1024.0;

/// [`at_most`] from every `stride`-th term. The terms are smooth in between; the correction at the end `k` has two
/// terms, the next one is below 10^-12.
fn at_most_by_strides(k: f64, n: f64, p: f64, stride: f64) -> f64 {
    let last = binomial_term(k, n, p);
    let slope = last * ((n - k) / k * (p / (1.0 - p))).ln();
    let (mut sum, mut i) = (last, k - stride);
    while i > 0.0 {
        let term = binomial_term(i, n, p);
        sum += term;
        if term <= sum * 1e-17 {
            break;
        }
        i -= stride;
    }
    stride * sum - (stride - 1.0) / 2.0 * last - (stride * stride - 1.0) / 12.0 * slope
}

/// `C(n,k) p^k (1-p)^(n-k)` for `0 < k < n` without cancellation (Loader 2000, equation 3).
fn binomial_term(k: f64, n: f64, p: f64) -> f64 {
    let correction = stirling_error(n) - stirling_error(k) - stirling_error(n - k);
    let deviance = deviance(k, n * p) + deviance(n - k, n * (1.0 - p));
    (correction - deviance).exp() * (n / (std::f64::consts::TAU * k * (n - k))).sqrt()
}

/// `ln n! - ln(sqrt(2 pi n) (n/e)^n)`.
fn stirling_error(n: f64) -> f64 {
    if n <= 15.0 {
        let factorial: f64 = (1..=n as u32).map(f64::from).product(); // exact: 15! < 2^53
        return factorial.ln() - 0.5 * (std::f64::consts::TAU * n).ln() - n * n.ln() + n;
    }
    let nn = n * n;
    (1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - (1.0 / 1680.0) / nn) / nn) / nn) / n
}

/// `x ln(x/m) + m - x`, by its series if the two are close.
fn deviance(x: f64, m: f64) -> f64 {
    if (x - m).abs() >= 0.1 * (x + m) {
        return x * (x / m).ln() + m - x;
    }
    let v = (x - m) / (x + m);
    let mut sum = (x - m) * v;
    let mut power = 2.0 * x * v;
    for j in 1..1000 {
        power *= v * v;
        let next = sum + power / f64::from(2 * j + 1);
        if next == sum {
            break;
        }
        sum = next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(got: f64, want: f64, relative: f64) {
        assert!((got / want - 1.0).abs() < relative, "{got} is not {want}");
    }

    #[test]
    fn without_an_exceedance_the_closed_form_gives_the_published_figures() {
        for (samples, at_95, at_99) in [
            (1_000_000, 2.996e-6, 4.605e-6),
            (10_000_000, 2.996e-7, 4.605e-7),
            (86_400_000, 3.467e-8, 5.330e-8),
        ] {
            close(upper_limit(samples, 0, 0.95).unwrap(), at_95, 2e-4);
            close(upper_limit(samples, 0, 0.99).unwrap(), at_99, 2e-4);
        }
    }

    #[test]
    fn rare_exceedances_give_garwoods_poisson_limits() {
        // One-sided 95 % upper limits of a Poisson mean after k events (Garwood, Biometrika 28, 1936).
        let table = [(1, 4.7439), (2, 6.2958), (3, 7.7537), (5, 10.5130), (10, 16.9622)];
        for (above, mean) in table {
            for samples in [100_000_000u64, 1_000_000_000_000] {
                close(upper_limit(samples, above, 0.95).unwrap() * samples as f64, mean, 1e-5);
            }
        }
    }

    #[test]
    fn the_limit_solves_the_binomial_equation_added_up_naively() {
        for (n, k) in [(2u64, 1u64), (10, 1), (10, 9), (20, 2), (50, 25), (150, 3), (150, 149)] {
            for confidence in [0.9, 0.95, 0.99] {
                let p = upper_limit(n, k, confidence).unwrap();
                let mut coefficient = 1.0;
                let mut sum = 0.0;
                for i in 0..=k {
                    sum += coefficient * p.powi(i as i32) * (1.0 - p).powi((n - i) as i32);
                    coefficient *= (n - i) as f64 / (i + 1) as f64;
                }
                close(sum, 1.0 - confidence, 1e-8);
            }
        }
        close(upper_limit(10, 1, 0.95).unwrap(), 0.394_163, 1e-5); // tables of Clopper and Pearson
    }

    #[test]
    fn many_exceedances_approach_the_observed_share_from_above() {
        let (n, k) = (1_000_000_000u64, 1_000_000u64);
        let p = upper_limit(n, k, 0.95).unwrap();
        close(p * n as f64, 1e6 + 1.6449 * 1e3, 1e-5);
    }

    /// The density of the beta distribution integrated with 40 digits (mpmath), not added up.
    #[test]
    fn any_number_of_exceedances_has_its_limit_at_once() {
        for (n, k, limit) in [
            (10_000u64, 1_000u64, 0.105_071_116_587_230_25),
            (1_000_000_000, 1_000_000, 0.001_001_645_597_995_170_5),
            (100_000_000, 50_000_000, 0.500_082_247_680_585_6),
            (1_000_000_000, 999_000_000, 0.999_001_643_464_419_1),
            (10_000_000_000, 1_000_000_000, 0.100_004_934_696_363_11),
            (10_000_000_000_000_000_000, 1_000_000_000_000_000_000, 0.100_000_000_156_044_52),
        ] {
            close(upper_limit(n, k, 0.95).unwrap(), limit, 1e-12);
        }
        for k in [1, 1 << 40, 1 << 63, u64::MAX - 1_000, u64::MAX - 1] {
            let p = upper_limit(u64::MAX, k, 0.95).unwrap();
            assert!(p >= k as f64 / u64::MAX as f64 && p <= 1.0, "{k}: {p}");
        }
    }

    #[test]
    fn terms_that_stand_for_their_neighbours_add_up_to_all_of_them() {
        let (n, k) = (400_000_000u64, 100_000_000u64);
        for p in [0.250_001, 0.250_04, 0.2502] {
            let (mut term, mut sum) = (binomial_term(k as f64, n as f64, p), 0.0);
            for i in (1..=k).rev() {
                sum += term;
                term *= i as f64 / (n - i + 1) as f64 * ((1.0 - p) / p);
                if term <= sum * 1e-17 {
                    break;
                }
            }
            close(at_most(k, n, p), sum, 1e-9);
        }
    }

    #[test]
    fn the_limit_never_falls_when_more_exceed_and_never_rises_with_more_samples() {
        let limit = |n, k| upper_limit(n, k, 0.95).unwrap();
        for k in 0..40 {
            assert!(limit(1000, k) < limit(1000, k + 1), "k {k}");
            assert!(limit(1001, k) < limit(1000, k), "k {k}");
        }
    }

    #[test]
    fn impossible_counts_have_no_limit_and_all_above_says_nothing() {
        assert_eq!(upper_limit(0, 0, 0.95), None);
        assert_eq!(upper_limit(5, 6, 0.95), None);
        assert_eq!(upper_limit(5, 0, 1.0), None);
        assert_eq!(upper_limit(5, 2, 0.4), None);
        assert_eq!(upper_limit(5, 5, 0.95), Some(1.0));
    }

    #[test]
    fn the_samples_needed_are_just_enough() {
        for (probability, confidence) in [(1e-4, 0.95), (1e-6, 0.99), (0.3, 0.5)] {
            let n = samples_needed(probability, confidence).unwrap();
            assert!(upper_limit(n, 0, confidence).unwrap() <= probability);
            assert!(upper_limit(n - 1, 0, confidence).unwrap() > probability);
        }
        assert_eq!(samples_needed(1e-4, 0.95), Some(29_956));
        assert_eq!(samples_needed(0.0, 0.95), None);
        assert_eq!(samples_needed(1e-20, 0.95), None, "not the largest number that a counter holds");
    }

    fn counted(all: u64, above: u64) -> Activations {
        Activations { all, above, ..Activations::default() }
    }

    #[test]
    fn clusters_count_once_on_both_sides_and_what_is_not_known_in_full() {
        let said = statement(counted(1_000_000, 50), Some(0.1), Ns(85_300), 0.95).unwrap();
        assert_eq!((said.samples, said.above, said.effective_samples), (1_000_000, 50, Some(100_000)));
        close(said.probability_below, upper_limit(52_631, 3, 0.95).unwrap(), 1e-12);
        assert!(said
            .sentence
            .starts_with("1000000 samples (equivalent to 100000 independent ones), 50 above"));
        let none = statement(counted(1_000_000, 0), Some(0.1), Ns(85_300), 0.95).unwrap();
        close(none.probability_below, upper_limit(100_000, 0, 0.95).unwrap(), 1e-12);
        let lost = Activations { unknown: 10, ..counted(1_010, 30) };
        let said = statement(lost, Some(0.5), Ns(85_300), 0.95).unwrap();
        close(said.probability_below, upper_limit(343, 17, 0.95).unwrap(), 1e-12);
        let none = statement(counted(1_000, 0), Some(1.0), Ns(85_300), 0.95).unwrap();
        assert!(none.sentence.starts_with("1000 samples, none above"), "{}", none.sentence);
    }

    #[test]
    fn the_sentence_claims_no_more_than_the_limit() {
        let said = statement(counted(1_000_000, 0), None, Ns(85_300), 0.95).unwrap();
        assert_eq!(
            said.sentence,
            "1000000 samples, none above 85.3 µs: with 95 % confidence fewer than 1 in 333808"
        );
        let said = statement(counted(3, 2), None, Ns(85_300), 0.95).unwrap();
        assert_eq!(said.sentence, "3 samples, 2 above 85.3 µs: with 95 % confidence fewer than 98.4 %");
        let stalled = Activations { missed: 1_002, ..counted(15_002, 212) };
        let said = statement(stalled, None, Ns::from_ms(5), 0.95).unwrap();
        assert_eq!(
            said.sentence,
            "15002 activations (1002 missed), 212 above 5.000 ms: with 95 % confidence fewer than 1 in 63"
        );
        let said = statement(Activations { unknown: 9, ..stalled }, None, Ns::from_ms(5), 0.95).unwrap();
        assert!(said.sentence.contains("212 above 5.000 ms or not known:"), "{}", said.sentence);
        for (level, shown) in
            [(85_301, "85.4 µs"), (99_901, "100 µs"), (100_400, "101 µs"), (999_999_001, "1.000 s")]
        {
            let said = statement(counted(9, 0), None, Ns(level), 0.95).unwrap();
            assert!(said.sentence.contains(&format!("none above {shown}:")), "{}", said.sentence);
            assert_eq!(said.level_ns, Ns(level));
        }
    }
}

//! Multiple tests with one family-wise error rate (Holm, Scand. J. Stat. 6, 1979).

/// Which hypotheses are rejected, with a family-wise error rate of at most `alpha`. A hypothesis that must not be rejected
/// takes part with a p-value of 1. NaN rejects, because it is no evidence for the hypothesis. Cost: n log n.
#[must_use]
pub fn rejected(p_values: &[f64], alpha: f64) -> Vec<bool> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    let p = |at: usize| if p_values[at].is_nan() { 0.0 } else { p_values[at] };
    order.sort_by(|a, b| p(*a).total_cmp(&p(*b)));
    let mut rejected = vec![false; p_values.len()];
    for (rank, at) in order.into_iter().enumerate() {
        if p(at) > alpha / (p_values.len() - rank) as f64 {
            break;
        }
        rejected[at] = true;
    }
    rejected
}

#[cfg(test)]
mod tests {
    use super::rejected;

    #[test]
    fn the_smallest_are_rejected_until_one_is_not() {
        assert_eq!(rejected(&[0.0417, 0.5, 0.3], 0.05), [false; 3], "0.0417 is above 0.05 / 3");
        assert_eq!(rejected(&[0.001, 0.02, 0.06], 0.05), [true, true, false]);
        assert_eq!(rejected(&[0.02, 0.02, 0.02], 0.05), [false; 3]);
        assert_eq!(rejected(&[0.01, 1.0], 0.05), [true, false]);
        assert!(rejected(&[], 0.05).is_empty());
    }

    #[test]
    fn nan_is_rejected_and_hides_no_other() {
        assert_eq!(rejected(&[f64::NAN, 0.5, 0.001], 0.05), [true, false, true]);
        assert_eq!(rejected(&[-f64::NAN], 0.05), [true]);
    }
}

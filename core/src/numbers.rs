//! Formats counts and durations; quantiles with lost samples.

use crate::histogram::Histogram;
use crate::time::Ns;

/// `1234567` as `1 234 567`.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// `job` for a count of 1, else `jobs`.
#[must_use]
pub fn plural(count: u64, noun: &str) -> String {
    format!("{noun}{}", if count == 1 { "" } else { "s" })
}

/// `1 job`, `23400 jobs`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {}", plural(count, noun))
}

/// What a list leaves out: `1 more job`, `23400 more jobs`.
#[must_use]
pub fn more(count: u64, noun: &str) -> String {
    format!("{count} more {}", plural(count, noun))
}

/// A duration, or `–` for `None`.
#[must_use]
pub fn or_dash(value: Option<Ns>) -> String {
    value.map_or_else(|| "–".to_owned(), |ns| ns.to_string())
}

/// `value` in scientific notation with three digits, none of which makes it smaller: for a probability that is an upper
/// limit, and for a level that must not be below a limit when it is typed again.
#[must_use]
pub(crate) fn scientific_rounded_up(value: f64) -> String {
    let near = format!("{value:.2e}");
    match near.parse::<f64>() {
        Ok(shown) if shown < value => format!("{:.2e}", shown + 10f64.powf(value.log10().floor() - 2.0)),
        _ => near,
    }
}

/// `value` with four digits, of any magnitude.
#[must_use]
pub(crate) fn four_digits(value: f64) -> String {
    let near = format!("{value:.3e}");
    near.parse().map_or(near, plain)
}

/// The shortest text that parses to `value`: no row of zeros.
#[must_use]
pub(crate) fn plain(value: f64) -> String {
    match value.abs() {
        size if size == 0.0 || (1e-4..1e15).contains(&size) => value.to_string(),
        _ => format!("{value:e}"),
    }
}

/// `value` with one decimal place, rounded up; from a million on with three digits.
#[must_use]
pub(crate) fn tenths_rounded_up(value: f64) -> String {
    if value >= 1e6 {
        return scientific_rounded_up(value * (1.0 - 1e-12));
    }
    format!("{:.1}", (value * 10.0 * (1.0 - 1e-12)).ceil() / 10.0)
}

/// An extremal index in three digits. Rounded down: a larger one would claim more evidence, and 0 is none.
#[must_use]
pub(crate) fn theta_rounded_down(theta: f64) -> String {
    let shown = |decimals: i32| {
        let scale = 10f64.powi(decimals);
        (theta * scale * (1.0 + 1e-12)).floor() / scale
    };
    match theta {
        theta if theta >= 1e-3 => format!("{:.3}", shown(3)),
        theta if theta > 0.0 => "below 0.001".to_owned(),
        _ => theta.to_string(),
    }
}

/// The quantile of all samples, with lost ones assumed to be above all others; `None` if the quantile is among the lost
/// ones.
pub(crate) fn quantile(histogram: &Histogram, lost: u64, q: f64) -> Option<Ns> {
    if lost == 0 {
        return histogram.quantile(q);
    }
    let known = histogram.count() as f64;
    let rank = (q * (known + lost as f64)).ceil();
    (rank <= known).then(|| histogram.quantile(rank / known)).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_counted_in_english() {
        assert_eq!((more(1, "gate"), more(2, "gate")), ("1 more gate".into(), "2 more gates".into()));
    }

    #[test]
    fn a_level_that_is_shown_is_not_below_the_limit_that_it_stands_for() {
        for (value, shown) in [
            (5e-6, "5.00e-6"),
            (3.3333e-7, "3.34e-7"),
            (3.337e-7, "3.34e-7"),
            (9.999e-5, "1.00e-4"),
            (9.9999e-4, "1.00e-3"),
            (1e-9, "1.00e-9"),
        ] {
            assert_eq!(scientific_rounded_up(value), shown);
        }
        let mut random = crate::random::Random::new(3);
        for _ in 0..10_000 {
            let value = 1.0 / (100.0 * (1 + random.below(1 << 40)) as f64);
            let shown: f64 = scientific_rounded_up(value).parse().unwrap();
            assert!(shown >= value && shown < value * 1.011, "{value:e}: {shown:e}");
        }
        assert_eq!(
            [1.04, 2.0, 2.91, 1e6, 5e294].map(tenths_rounded_up),
            ["1.1", "2.0", "3.0", "1.00e6", "5.00e294"]
        );
        assert_eq!([1e308, 1234.5, -2e-9].map(four_digits), ["1e308", "1234", "-2e-9"]);
    }

    #[test]
    fn an_index_is_shown_no_larger_than_it_is_and_never_as_zero() {
        for (theta, shown) in [
            (1.0, "1.000"),
            (0.9996, "0.999"),
            (0.114, "0.114"),
            (1e-3, "0.001"),
            (9.9e-4, "below 0.001"),
            (9e-5, "below 0.001"),
        ] {
            assert_eq!(theta_rounded_down(theta), shown, "{theta}");
        }
    }
}

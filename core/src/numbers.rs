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

/// A duration, or `–` for `None`.
#[must_use]
pub fn or_dash(value: Option<Ns>) -> String {
    value.map_or_else(|| "–".to_owned(), |ns| ns.to_string())
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

//! Times on the command line, with the unit that a bare number has in the option at hand.

use lathunt_core::time::{parse_duration, Ns};

/// A length of a measurement: a bare number counts in seconds. At most a year.
///
/// # Errors
/// One line for clap.
pub fn seconds(text: &str) -> Result<Ns, String> {
    within(text, Ns(1_000_000_000), Ns(366 * 86_400 * 1_000_000_000))
}

/// An interval, deadline or threshold: a bare number counts in µs. At most an hour.
///
/// # Errors
/// One line for clap.
pub fn microseconds(text: &str) -> Result<Ns, String> {
    within(text, Ns(1_000), Ns(3_600 * 1_000_000_000))
}

fn within(text: &str, bare_unit: Ns, longest: Ns) -> Result<Ns, String> {
    match parse_duration(text, bare_unit) {
        Ok(Ns::ZERO) => Err("must be more than nothing".to_owned()),
        Ok(length) if length > longest => Err(format!("is longer than {longest}")),
        Ok(length) => Ok(length),
        Err(error) => Err(error.to_string()),
    }
}

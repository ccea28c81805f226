//! Exit codes, the same in every command.

/// Could not measure, or the request makes no sense.
pub const COULD_NOT_MEASURE: u8 = 1;
/// A deadline or threshold was exceeded.
pub const EXCEEDED: u8 = 2;
/// Measured, but with losses that may hide what was asked for.
pub const INCONCLUSIVE: u8 = 3;

/// An error with its causes on one line.
#[must_use]
pub fn one_line(error: &anyhow::Error) -> String {
    format!("{error:#}")
        .split('\n')
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("; ")
}

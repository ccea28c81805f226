//! The plain numbers of `--values`.

use anyhow::{anyhow, bail, Result};
use lathunt_core::bound::tail::not_below;
use lathunt_core::printable;

/// Maximum length of a number, in bytes.
const LONGEST: usize = 1_000;
/// Magnitudes, besides 0, for which likelihoods can be computed.
const SIZES: std::ops::RangeInclusive<f64> = 1e-100..=1e100;

/// One number per line; empty lines and lines that start with `#` are skipped.
///
/// # Errors
/// Not UTF-8, no numbers, or a line that is not one for which likelihoods can be computed.
pub(super) fn parse(shown: &str, bytes: &[u8]) -> Result<Vec<f64>> {
    let text = std::str::from_utf8(bytes).map_err(|_| anyhow!("cannot read {shown}: not UTF-8 text"))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text); // a byte-order mark
    let mut values = Vec::new();
    for (at, line) in
        text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
    {
        if line.len() > LONGEST {
            bail!(
                "cannot read {shown}: line {} has {} bytes, more than a number; write one number per line",
                at + 1,
                line.len()
            );
        }
        match line.parse::<f64>() {
            Ok(value) if value == 0.0 || SIZES.contains(&value.abs()) => {
                values.push(line.parse().map_or(value, not_below)); // integers exactly, or rounded up
            }
            Ok(value) if value.is_finite() => bail!(
                "cannot analyse {shown}: line {} is '{}', and sums of squares of such numbers cannot be represented; use a unit in which they are from 1e-100 to 1e100",
                at + 1,
                printable::line(line)
            ),
            _ => bail!(
                "cannot read {shown}: line {} is '{}', not a finite number; write one number per line",
                at + 1,
                printable::line(line)
            ),
        }
    }
    if values.is_empty() {
        bail!("cannot read {shown}: no numbers; write one per line");
    }
    Ok(values)
}

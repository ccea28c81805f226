//! `--deadline` and `--deadlines`, for every command that checks deadlines of threads.

use std::path::Path;

use anyhow::{Context, Result};
use lathunt_core::application::Deadlines;
use lathunt_host::trusted::{self, Owner};

use super::units::microseconds;

/// Maximum size of a file of deadlines.
const BYTES: u64 = 1 << 20;

/// The value of `--deadline`.
///
/// # Errors
/// One line: the entry that cannot be parsed, or is given twice.
pub fn deadlines(text: &str) -> std::result::Result<Deadlines, String> {
    Deadlines::parse(text, microseconds)
}

/// Those given, those in the file, or none.
///
/// # Errors
/// One line: what is wrong with the file.
pub fn of(given: Option<Deadlines>, file: Option<&Path>) -> Result<Deadlines> {
    match (given, file) {
        (Some(deadlines), _) => Ok(deadlines),
        (None, Some(path)) => read(path),
        (None, None) => Ok(Deadlines::default()),
    }
}

fn read(path: &Path) -> Result<Deadlines> {
    let doing = || format!("cannot read the deadlines in {}", path.display());
    let text = trusted::read_text(path, Owner::MeOrRoot, BYTES).with_context(doing)?;
    Deadlines::parse_file(&text, microseconds).map_err(anyhow::Error::msg).with_context(doing)
}

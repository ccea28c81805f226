//! The input named by the user: a trace, stdin, or a run with its flight recording.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use lathunt_core::trace::kallsyms::Symbols;

use super::files;
use crate::beside::FLIGHT_FILE;
use crate::file::RUN_FILE;
use crate::own::Kind;

/// The trace for `named`: `-` is stdin, and for a run file the flight recording beside it.
///
/// # Errors
/// A run without a flight recording; the error says what shows it instead.
pub fn trace_of(named: &Path) -> Result<PathBuf> {
    if named == Path::new("-") {
        return Ok(PathBuf::from("/dev/stdin"));
    }
    let is_directory = named.is_dir();
    let run = if is_directory { named.join(RUN_FILE) } else { named.to_owned() };
    if !run.is_file() || !is_run(&run) {
        return Ok(named.to_owned());
    }
    let flight = run.with_file_name(FLIGHT_FILE);
    let shown = named.display();
    if !flight.is_file() {
        bail!(
            "{shown} is a run, not a trace, and no flight recording ({FLIGHT_FILE}) is beside it: `lathunt report --text {shown}` \
             shows its worst cases with their explanations"
        );
    }
    if !is_directory {
        eprintln!(
            "lathunt: {shown} is a run: reading its flight recording {}; `lathunt report --text {shown}` shows the run",
            flight.display()
        );
        return Ok(flight);
    }
    Ok(named.to_owned())
}

/// The kernel symbols in a copy of /proc/kallsyms.
///
/// # Errors
/// It cannot be read, or contains none.
pub fn symbols_of(path: &Path) -> Result<Symbols> {
    let text = files::bounded(path)?;
    let symbols = Symbols::new(&*text);
    if symbols.is_empty() {
        bail!("cannot use {}: no symbol in it (of /proc/kallsyms, read as root)", path.display());
    }
    Ok(symbols)
}

fn is_run(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = lathunt_host::input::regular(path).and_then(|file| file.take(1024).read_to_end(&mut head));
    read.is_ok() && Kind::of(&head) == Some(Kind::run())
}

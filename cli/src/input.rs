//! Reads the files named on the command line: runs, and results of other programs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Result};
use lathunt_core::import::lines;
use lathunt_core::run::Run;
use lathunt_host::input::{self, Input};
use lathunt_host::mapped::Mapped;

use crate::file::RUN_FILE;

/// A run of 64 CPUs and a day is about 50 MB; a larger file is not one of ours.
const LARGEST_BYTES: u64 = 1 << 29;

/// Maximum size of any other file that is read at once.
const MOST_BYTES: u64 = 1 << 30;

/// Name of an input in messages.
#[must_use]
pub fn shown(path: &Path) -> String {
    match input::is_stdin(path) {
        true => "stdin".to_owned(),
        false => path.display().to_string(),
    }
}

/// Opens `path`; `-` is stdin. Reports on stderr if it waits for a pipe.
///
/// # Errors
/// One line: the file, and why it cannot be read.
pub fn open(path: &Path) -> Result<Input> {
    let waiting = |path: &Path| eprintln!("lathunt: waiting for data from {}", shown(path));
    input::open(path, waiting).map_err(|error| cannot_read(path, &error))
}

/// `cannot read PATH: ERROR`.
pub fn cannot_read(path: &Path, error: &std::io::Error) -> anyhow::Error {
    anyhow!("cannot read {}: {error}", shown(path))
}

/// All bytes of `path`; `-` is stdin. Includes pipes and pseudo-files, which have no length.
///
/// # Errors
/// One line: the file, and why it cannot be read, or that it is too large.
pub fn contents(path: &Path) -> Result<Contents> {
    let opened = open(path)?;
    // A large text of samples is paged in as it is read, not held in memory.
    let may_map = opened.is_regular() && !input::is_stdin(path); // stdin may have been read in part
    let read = match may_map && (1 << 20..=MOST_BYTES).contains(&opened.length()) {
        true => Mapped::whole(&opened).map(Contents::Mapped),
        false => opened.bytes(MOST_BYTES).map(Contents::Held),
    };
    read.map_err(|error| cannot_read(path, &error))
}

/// Contents of a file.
pub enum Contents {
    /// Mapped from it.
    Mapped(Mapped),
    /// Read from it.
    Held(Vec<u8>),
}

impl std::ops::Deref for Contents {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Contents::Mapped(mapped) => mapped.bytes(),
            Contents::Held(bytes) => bytes,
        }
    }
}

/// A run with the file it was read from.
#[derive(Debug)]
pub struct Loaded {
    /// The file itself, even if a directory was named.
    pub path: PathBuf,
    /// Its contents.
    pub run: Run,
}

impl Loaded {
    /// A short name: the directory of a `run.lathunt.json`, else the file's name without extensions.
    pub fn name(&self) -> String {
        let file = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let directory =
            self.path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        match directory {
            Some(directory) if file == RUN_FILE => directory,
            _ => file.trim_end_matches(".json").trim_end_matches(".lathunt").to_owned(),
        }
    }
}

/// Reads the run at `path`: a run file, a directory that contains `run.lathunt.json`, or a latency box's histogram of 1000
/// lines.
///
/// # Errors
/// One line: the file, what is wrong with it, what to do.
pub fn read_run(path: &Path) -> Result<Loaded> {
    let path = if path.is_dir() { path.join(RUN_FILE) } else { path.to_owned() };
    let shown = shown(&path);
    let bytes =
        open(&path).and_then(|file| file.bytes(LARGEST_BYTES).map_err(|error| cannot_read(&path, &error)));
    let bytes = bytes.map_err(|error| match std::fs::metadata(&path) {
        Err(missing) if missing.kind() == ErrorKind::NotFound && !input::is_stdin(&path) => {
            anyhow!("cannot read {shown}: there is no such file; name a run file or the directory 'lathunt hunt -o' wrote")
        }
        _ => error,
    })?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        anyhow!("cannot read {shown}: not UTF-8 from byte {} on; the file is damaged", error.valid_up_to())
    })?;
    if text.trim().is_empty() {
        bail!("cannot read {shown}: the file is empty; was the disk full when it was written?");
    }
    // The histogram of a latency box has nothing else to it.
    if let Some(run) = lines::recognised(text) {
        let run = run.map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
        return Ok(Loaded { path, run });
    }
    let run = Run::from_json(text).map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
    Ok(Loaded { path, run })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_no_run_is_named_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: Option<&[u8]>| {
            let path = directory.path().join(name);
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
            let error = format!("{:#}", read_run(&path).unwrap_err());
            assert!(error.contains(name) && !error.contains('\n'), "{error}");
            error
        };
        assert!(said("absent", None).contains("no such file"));
        assert!(said("empty", Some(b" \n")).contains("is empty"));
        assert!(said("binary", Some(b"\xff\xfe")).contains("byte 0"));
        assert!(said("text", Some(b"T: 0 ( 123) P:95")).contains("not a run file"));
        assert!(said("other", Some(b"{\"format\":\"x\"}")).contains("expected \"lathunt-run\""));
        assert!(said("newer", Some(b"{\"format\":\"lathunt-run\",\"version\":99}")).contains("newer lathunt"));
    }
}

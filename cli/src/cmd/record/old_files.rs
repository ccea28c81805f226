//! `--latency-hist`: the directory of the PREEMPT_RT patch's latency histograms, as plain files.
//!
//! All files are rewritten once a second. Writing to a file `reset` clears the files of its directory, but not lathunt's
//! own results. Writes to other control files of the patch cannot change a running recording; attempts are reported.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lathunt_core::export::latency_hist::{self, Recorded};
use lathunt_core::series::{Quantity, Series};
use lathunt_host::beneath::Readers;
use lathunt_host::clock;
use lathunt_host::recording::{Recording, Selection, SinceReset, Snapshot};
use lathunt_host::trusted::{self, Owner};

use super::potential::Running;
use crate::file;

/// Metadata of a file as we wrote it: any other shows a write by another program.
type Stamp = (u64, u64, i64, i64);

/// The directory.
pub struct OldFiles {
    directory: PathBuf,
    recorded: Recorded,
    /// Of `irqsoff` and its relatives, which the recording does not read.
    potential: SinceReset,
    resets: Vec<(Quantity, PathBuf, Option<Stamp>)>,
    refused: BTreeSet<String>,
}

impl OldFiles {
    /// Writes all files, empty: an unwritable one is reported before anything is recorded. Those of an earlier recording
    /// are overwritten; if there are other files, none is written.
    ///
    /// # Errors
    /// One line: the file, and the reason.
    pub fn begin(directory: &Path, recorded: Recorded) -> anyhow::Result<OldFiles> {
        let reset = |quantity| {
            let path = directory.join(latency_hist::directory(quantity)?).join("reset");
            Some((quantity, path, None))
        };
        let mut files = OldFiles {
            directory: directory.to_owned(),
            resets: recorded.quantities().filter_map(reset).collect(),
            recorded,
            potential: SinceReset::default(),
            refused: BTreeSet::new(),
        };
        let all = [files.recorded.settings(), files.recorded.figures(&[], &[])].concat();
        let paths = all.iter().map(|file| directory.join(&file.path));
        paths.chain(files.resets.iter().map(|reset| reset.1.clone())).try_for_each(|path| spare(&path))?;
        files.write(all)?;
        files.resets.iter_mut().try_for_each(fresh)?;
        Ok(files)
    }

    /// Executes requests in `reset` files. Call it before a snapshot is taken.
    pub fn obey(&mut self, recording: &mut Recording, potential: &Running) {
        let mut asked = Vec::new();
        for reset in &mut self.resets {
            let now = stamp(&reset.1);
            if now != reset.2 {
                // A removed file was not written to.
                asked.extend(now.map(|_| reset.0));
                if fresh(reset).is_err() {
                    reset.2 = now;
                }
            }
        }
        if !asked.is_empty() {
            recording.reset(&asked);
            self.potential.reset(&asked, &potential.read().0, clock::mono());
        }
    }

    /// Rewrites all files. `potential`: the series that the recording does not have.
    ///
    /// # Errors
    /// One line: the file, and the reason.
    pub fn update(&mut self, snapshot: &Snapshot, potential: &[Series]) -> anyhow::Result<()> {
        for setting in self.recorded.settings() {
            let there = fs::read_to_string(self.directory.join(&setting.path));
            if there.is_ok_and(|there| there.trim() != setting.text.trim()) {
                self.refused.insert(setting.path);
            }
        }
        self.write(self.recorded.settings())?;
        let (series, worst) = &snapshot.old_files;
        let series = [series.clone(), self.potential.part(potential)].concat();
        self.write(self.recorded.figures(&series, worst))
    }

    /// One line per file that was written without effect.
    pub fn notes(&self) -> impl Iterator<Item = String> + '_ {
        self.refused.iter().map(|path| {
            format!(
                "{} was written, which changes nothing here: a recording is set by its options (--tasks pid:N, --potential)",
                self.directory.join(path).display()
            )
        })
    }

    fn write(&self, files: Vec<latency_hist::File>) -> anyhow::Result<()> {
        files
            .into_iter()
            .try_for_each(|wanted| put(&self.directory.join(&wanted.path), wanted.text.as_bytes()))
    }
}

/// The process that `selection` refers to, for the `pid` files.
#[must_use]
pub fn pid(selection: &Selection) -> i32 {
    match selection {
        Selection::Pids(pids) if pids.len() == 1 => pids[0],
        _ => 0,
    }
}

/// Refuses to overwrite a file that no recording wrote.
fn spare(path: &Path) -> anyhow::Result<()> {
    let Ok(found) = fs::symlink_metadata(path) else { return Ok(()) };
    let mut head = Vec::new();
    if found.is_file() {
        let read = trusted::open(path, Owner::Anyone, u64::MAX)
            .and_then(|file| file.take(128).read_to_end(&mut head));
        read.map_err(|error| anyhow::anyhow!("cannot read {}: {error}", path.display()))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    anyhow::ensure!(
        found.is_file() && latency_hist::is_one(&name, &head),
        "cannot write {}: the existing file is not one of these histograms; name another directory with --latency-hist",
        path.display()
    );
    Ok(())
}

fn put(path: &Path, text: &[u8]) -> anyhow::Result<()> {
    let parent = path.parent().unwrap_or(path);
    file::directory(parent, Readers::Umask)?;
    file::write_quick(path, text)
}

fn stamp(path: &Path) -> Option<Stamp> {
    let now = fs::metadata(path).ok()?;
    Some((now.ino(), now.size(), now.mtime(), now.mtime_nsec()))
}

/// Replaces it by an empty `reset`.
fn fresh((_, path, known): &mut (Quantity, PathBuf, Option<Stamp>)) -> anyhow::Result<()> {
    put(path, b"")?;
    *known = stamp(path);
    Ok(())
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::Cpu;

    use super::*;

    #[test]
    fn files_of_an_earlier_recording_are_written_over_and_no_others() {
        let place = tempfile::tempdir().unwrap();
        let recorded = || Recorded { cpus: vec![Cpu(0)], ..Recorded::default() };
        let begin = || OldFiles::begin(place.path(), recorded());
        begin().unwrap();
        fs::write(place.path().join("wakeup/pid"), "12\n").unwrap();
        begin().unwrap();
        let [cpu, pid] = ["timerandwakeup/CPU0", "wakeup/pid"].map(|name| place.path().join(name));
        fs::write(&pid, "12\n").unwrap();
        let foreign = |path: &Path| {
            let error = begin().err().unwrap().to_string();
            assert!(error.contains(&path.display().to_string()) && !error.contains('\n'), "{error}");
            assert_eq!(fs::read_to_string(&pid).unwrap(), "12\n", "nothing was written");
        };
        fs::write(&cpu, "dear to somebody").unwrap();
        foreign(&cpu);
        assert_eq!(fs::read_to_string(&cpu).unwrap(), "dear to somebody");
        fs::remove_file(&cpu).unwrap();
        std::os::unix::fs::symlink("/dev/null", &cpu).unwrap();
        foreign(&cpu);
    }
}

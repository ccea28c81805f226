//! Exports of `explain` for other programs: the Perfetto UI, a browser, Trace Compass.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{bail, Context, Result};
use lathunt_core::explain::answers::{Answer, Answers};
use lathunt_core::explain::lanes::{lanes, Lanes};
use lathunt_core::explain::record::Record;
use lathunt_core::export::{kernel_ctf, perfetto};
use lathunt_core::report::explanation;
use lathunt_core::time::Cpu;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::window::Window;
use lathunt_host::beneath::{Directory, Readers};

use super::files::saved;
use crate::beside::{BESIDE_CTF, CONDITIONS_FILE, KALLSYMS_FILE, MAPS_FILE};
use crate::file::{self, write_atomic};

/// Files to write beside the answer.
#[derive(Debug, clap::Args)]
pub struct Exports {
    /// Write the explained intervals as a self-contained HTML page: timeline and tree
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the explained intervals for ui.perfetto.dev: threads, interrupts, and the critical path as separate tracks
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write the whole trace as CTF 1.8 to a new directory, for Trace Compass and babeltrace2
    #[arg(long, value_name = "DIR")]
    pub ctf: Option<PathBuf>,
}

impl Exports {
    /// The output files.
    pub fn outputs(&self) -> Vec<&Path> {
        [&self.html, &self.perfetto, &self.ctf].into_iter().flatten().map(PathBuf::as_path).collect()
    }
}

/// Drawing of the intervals explained so far.
#[derive(Debug)]
pub struct Drawing {
    wanted: bool,
    perfetto: bool,
    lanes: Vec<Lanes>,
    /// Perfetto files can be concatenated: each interval has its own events.
    traces: Vec<u8>,
}

impl Drawing {
    /// Empty.
    pub fn new(exports: &Exports) -> Drawing {
        let wanted = exports.html.is_some() || exports.perfetto.is_some();
        Drawing { wanted, perfetto: exports.perfetto.is_some(), lanes: Vec::new(), traces: Vec::new() }
    }

    /// Adds one explained interval.
    pub fn add(&mut self, window: &Window, record: &Record, answer: &Answer) {
        if !self.wanted {
            return;
        }
        let drawn = lanes(record, answer);
        if self.perfetto {
            let number = self.lanes.len() + 1;
            let name = format!("interval {number}: {} of {}", answer.total_ns, answer.thread.comm);
            // Events shared by two intervals are written only with the first.
            let known: Vec<&Lanes> = self.lanes.iter().collect();
            self.traces.extend(perfetto::trace(window, number as u64, &name, &drawn, &known));
        }
        self.lanes.push(drawn);
    }

    /// Writes the files.
    ///
    /// # Errors
    /// The file that cannot be written.
    pub fn write(&self, exports: &Exports, answers: &Answers) -> Result<()> {
        if let Some(path) = &exports.html {
            write_atomic(path, explanation::page(answers, &self.lanes).as_bytes())?;
        }
        if let Some(path) = &exports.perfetto {
            write_atomic(path, &self.traces)?;
        }
        Ok(())
    }
}

/// Writes all of `source`, which is `trace`, as CTF into `directory`, which must be new or empty. Kernel symbols, maps
/// and conditions, which CTF cannot represent, go into a subdirectory that readers of CTF ignore.
///
/// # Errors
/// The directory is not empty or not writable, or the trace is CTF already.
pub fn ctf(source: &dyn Source, trace: &Path, directory: &Path) -> Result<()> {
    let shown = directory.display();
    if !kernel_ctf::is_possible(source) {
        bail!("cannot write {shown}: the trace is CTF already; Trace Compass opens it as it is");
    }
    let output = file::directory(directory, Readers::Owner)?;
    if fs::read_dir(directory).with_context(|| format!("cannot read {shown}"))?.next().is_some() {
        bail!("cannot write {shown}: the directory is not empty; name a new one");
    }
    let mut made = Vec::new();
    let written = put_ctf(source, trace, &output, &mut made);
    if written.is_err() {
        // A part of a trace cannot be read, and a directory that is not empty is refused the next time.
        made.iter().for_each(|name| drop(output.remove(name)));
    }
    written
}

/// Writes it into the empty directory `output`; adds the names of the files to `made`.
fn put_ctf(source: &dyn Source, trace: &Path, output: &Directory, made: &mut Vec<OsString>) -> Result<()> {
    let shown = output.path().display();
    let mut files: BTreeMap<Cpu, File> = BTreeMap::new();
    kernel_ctf::streams(source, |cpu, packet| {
        let file = match files.entry(cpu) {
            std::collections::btree_map::Entry::Occupied(entry) => entry.into_mut(),
            std::collections::btree_map::Entry::Vacant(entry) => {
                let name = OsString::from(format!("cpu_{cpu}"));
                let file = output.create_new(&name, Readers::Owner)?;
                made.push(name);
                entry.insert(file)
            }
        };
        file.write_all(packet)
    })
    .map_err(|error: std::io::Error| file::said(output.path(), &error))?;
    let texts = [MAPS_FILE, CONDITIONS_FILE].map(|name| (name, saved(trace, name).map(String::into_bytes)));
    let symbols = Some(source.symbols().text()).filter(|text| !text.is_empty()).map(<[u8]>::to_vec);
    for (name, text) in texts.into_iter().chain([(KALLSYMS_FILE, symbols)]) {
        let Some(text) = text else { continue };
        let beside = output
            .below(OsStr::new(BESIDE_CTF), Readers::Owner)
            .with_context(|| format!("cannot create {shown}/{BESIDE_CTF}"))?;
        file::put(&beside, name, &text, Readers::Owner)?;
    }
    file::put(output, "metadata", kernel_ctf::metadata(source).as_bytes(), Readers::Owner)
}

//! Opens recorded traces: detects the format by content, and maps the files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::explain::tracers;
use lathunt_core::import::{self, Unit};
use lathunt_core::time::{Cpu, Mono};
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::flight::{self, source::Flight};
use lathunt_core::trace::ftrace_text::{foreign, tidy, FtraceText};
use lathunt_core::trace::item::{Events, Span};
use lathunt_core::trace::kallsyms::Symbols;
use lathunt_core::trace::merge::Stream;
use lathunt_core::trace::source::{About, OpenError, Pieces, Source};
use lathunt_core::trace::together::Together;
use lathunt_core::trace::window::Window;
use lathunt_core::trace::{perf_data, trace_dat};
use lathunt_host::input::leads_elsewhere;
use lathunt_host::mapped::{read_now, Mapped};
use lathunt_host::tracefs::{pages_of_unfinished, FILE, HEAD_FILE};

use crate::beside::{BESIDE_CTF, FLIGHT_FILE, KALLSYMS_FILE};
use crate::input;

/// The files of a trace, mapped.
pub struct TraceFile {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// One file; its first bytes determine the format.
    File(Mapped),
    /// Directories of CTF, each with its metadata and streams.
    Ctf(Vec<CtfDirectory>),
    /// A directory of `lathunt trace`: the kernel's recording, and instrumented programs on the same clock.
    Both(Box<Kind>, Vec<CtfDirectory>),
    /// An unfinished recording of the kernel: its description, and the pages of each CPU.
    Unfinished(Mapped, Vec<(Cpu, Mapped)>),
    /// Content of a file without length: ftrace text.
    Text(Vec<u8>),
    /// A perf.data after decompression.
    Perf(perf_data::Plain),
    /// A flight recording, with the symbols beside it.
    Flight(Mapped, Option<Mapped>),
}

struct CtfDirectory {
    name: String,
    metadata: Mapped,
    streams: Vec<(String, Mapped)>,
    /// For LTTng's stream files, by their names.
    indices: Vec<(String, Mapped)>,
    /// Symbols of the traced kernel, if we exported it.
    symbols: Option<Mapped>,
}

/// Maximum read from a pipe: some never end (`trace_pipe`).
const MOST_OF_A_PIPE: u64 = 4 << 30;

/// Number of bytes searched for the heading of a tracer.
const BEGINNING: usize = 1 << 20;

/// Maximum length of a report without a heading.
const LONGEST_REPORT: usize = 32 << 20;

/// Deepest nesting of directories in which traces of one session are looked for.
const DEEPEST: usize = 6;

impl TraceFile {
    /// Maps the trace at `path`: a file, a directory that contains `trace.dat`, directories of CTF, or both.
    ///
    /// # Errors
    /// One line: what is missing or cannot be read.
    pub fn open(path: &Path) -> Result<TraceFile> {
        let shown = input::shown(path);
        if path.is_dir() {
            let mut found = Vec::new();
            collect(path, path, 0, &mut found)?;
            if let Some(kernel) = kernel_in(path)? {
                let kind = match found.is_empty() {
                    false => Kind::Both(Box::new(kernel.kind), found),
                    true => kernel.kind,
                };
                return Ok(TraceFile { path: path.to_owned(), kind });
            }
            if found.is_empty() {
                bail!("cannot read {shown}: the directory contains no trace (no trace.dat, no flight.bin, no CTF metadata); `lathunt trace -o {shown} -- COMMAND` records one");
            }
            return Ok(TraceFile { path: path.to_owned(), kind: Kind::Ctf(found) });
        }
        let failed = |error: std::io::Error| input::cannot_read(path, &error);
        let mut opened = input::open(path)?;
        let mapped = if opened.is_regular() {
            Mapped::whole(&opened).map_err(failed)?
        } else {
            eprintln!("lathunt: reading {shown} to its end");
            Mapped::spooled(&mut opened, MOST_OF_A_PIPE).map_err(failed)?
        };
        if mapped.bytes().is_empty() {
            if !opened.is_regular() {
                bail!("cannot read {shown}: the pipe closed without any data");
            }
            // Pseudo-files have no length: the kernel's own trace may be read in place.
            let text = read_now(opened).map_err(failed)?;
            if text.is_empty() {
                bail!("cannot read {shown}: the file is empty");
            }
            return Ok(TraceFile { path: path.to_owned(), kind: Kind::Text(text) });
        }
        if mapped.bytes().starts_with(&flight::MAGIC) {
            let symbols = Mapped::open(&path.with_file_name(KALLSYMS_FILE)).ok();
            return Ok(TraceFile { path: path.to_owned(), kind: Kind::Flight(mapped, symbols) });
        }
        let plain =
            perf_data::plain(mapped.bytes()).map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
        let kind = plain.map_or(Kind::File(mapped), Kind::Perf);
        Ok(TraceFile { path: path.to_owned(), kind })
    }

    /// The text of a file that may be of a tracer, as far as its first bytes show: without what pasting added.
    pub fn text(&self) -> Option<std::borrow::Cow<'_, str>> {
        let bytes = match &self.kind {
            Kind::Text(text) => text.as_slice(),
            Kind::File(mapped) => mapped.bytes(),
            _ => return None,
        };
        let binary = [&b"PERFILE2"[..], b"2ELIFREP", trace_dat::MAGIC];
        let is_binary = binary.iter().any(|magic| bytes.starts_with(magic) || magic.starts_with(bytes));
        // Avoids reading a long text of events here only to find that it is not a tracer's report.
        let is_tracer = || {
            let head = bytes.get(..BEGINNING).filter(|_| bytes.len() > LONGEST_REPORT);
            head.is_none_or(|head| tracers::has_heading(&tidy::text(head)))
        };
        (!is_binary && is_tracer()).then(|| tidy::text(bytes))
    }

    /// The text of a latency tracer in a trace.dat without events.
    pub fn latency_text(&self) -> Option<Vec<u8>> {
        let Kind::File(mapped) = &self.kind else { return None };
        let is_dat = mapped.bytes().starts_with(trace_dat::MAGIC);
        is_dat.then(|| trace_dat::latency_text(mapped.bytes())).flatten()
    }

    /// Opens the mapped trace.
    ///
    /// # Errors
    /// One line: the format is unknown or unsupported, or the file is damaged too early.
    pub fn source(&self) -> Result<Box<dyn Source + '_>> {
        let shown = self.path.display();
        self.kind.source().map_err(|error| anyhow!("cannot read {shown}: {error}"))
    }
}

impl Kind {
    fn source(&self) -> std::result::Result<Box<dyn Source + '_>, OpenError> {
        Ok(match self {
            Kind::Ctf(directories) => {
                let trace = Box::new(ctf(directories)?);
                match directories.iter().find_map(|directory| directory.symbols.as_ref()) {
                    Some(symbols) => Box::new(WithSymbols::new(trace, Symbols::new(symbols.bytes()))),
                    None => trace,
                }
            }
            Kind::Both(kernel, directories) => {
                Box::new(Together::new(kernel.source()?, vec![Box::new(ctf(directories)?)])?)
            }
            Kind::Unfinished(head, pages) => {
                let pages: Vec<_> = pages.iter().map(|(cpu, mapped)| (*cpu, mapped.bytes())).collect();
                Box::new(trace_dat::TraceDat::open_unfinished(head.bytes(), &pages)?)
            }
            Kind::Flight(mapped, symbols) => {
                let symbols = symbols.as_ref().map_or(Symbols::default(), |text| Symbols::new(text.bytes()));
                Box::new(Flight::open(mapped.bytes(), symbols)?)
            }
            Kind::Text(text) => Box::new(FtraceText::open(text).map_err(|error| unknown(error, text))?),
            Kind::Perf(plain) => {
                Box::new(perf_data::PerfData::open(&plain.bytes)?.with(plain.damage.clone()))
            }
            Kind::File(mapped) => {
                let bytes = mapped.bytes();
                let magic = trace_dat::MAGIC;
                if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
                    Box::new(perf_data::PerfData::open(bytes)?)
                } else if bytes.starts_with(magic) || magic.starts_with(bytes) {
                    Box::new(trace_dat::TraceDat::open(bytes)?)
                } else {
                    Box::new(
                        FtraceText::open_releasing(bytes, mapped).map_err(|error| unknown(error, bytes))?,
                    )
                }
            }
        })
    }
}

/// A file that is not ftrace text either has an unknown format.
fn unknown(error: OpenError, bytes: &[u8]) -> OpenError {
    let OpenError::Foreign(_) = error else { return error };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(BEGINNING)]);
    let text = tidy::text(text.as_bytes());
    let what = match foreign::named(&text) {
        Some(named) => named,
        None if import::read(&text, Unit::Guess).is_ok() => {
            "results of a measurement, without events: `lathunt import` reads them".to_owned()
        }
        None => "no trace.dat, CTF directory, perf.data, flight recording or text of ftrace".to_owned(),
    };
    OpenError::Foreign(what)
}

/// The kernel's recording in the directory of `lathunt trace`, even while it runs or after it was killed.
fn kernel_in(directory: &Path) -> Result<Option<TraceFile>> {
    let head = directory.join(HEAD_FILE);
    if head.is_file() {
        let map = |path: &Path| Mapped::open(path).with_context(|| format!("cannot read {}", path.display()));
        let pages = pages_of_unfinished(directory).into_iter();
        let pages = pages.map(|(cpu, path)| Ok((cpu, map(&path)?))).collect::<Result<Vec<_>>>()?;
        return Ok(Some(TraceFile {
            path: directory.to_owned(),
            kind: Kind::Unfinished(map(&head)?, pages),
        }));
    }
    let files = [FILE, FLIGHT_FILE].map(|name| directory.join(name));
    let Some(file) = files.iter().find(|file| file.is_file()) else { return Ok(None) };
    if let Some(why) = leads_elsewhere(file)? {
        bail!("cannot read {}: {why}", file.display());
    }
    TraceFile::open(file).map(Some)
}

fn ctf(directories: &[CtfDirectory]) -> std::result::Result<Ctf<'_>, OpenError> {
    let inputs: Vec<TraceFiles> = directories.iter().map(CtfDirectory::files).collect();
    Ctf::open(&inputs)
}

impl CtfDirectory {
    fn files(&self) -> TraceFiles<'_> {
        TraceFiles {
            name: self.name.clone(),
            metadata: self.metadata.bytes(),
            streams: named(&self.streams),
            indices: named(&self.indices),
        }
    }
}

fn named(files: &[(String, Mapped)]) -> Vec<(String, &[u8])> {
    files.iter().map(|(name, mapped)| (name.clone(), mapped.bytes())).collect()
}

fn collect(root: &Path, directory: &Path, depth: usize, found: &mut Vec<CtfDirectory>) -> Result<()> {
    let doing = || format!("cannot read {}", directory.display());
    let mut entries: Vec<PathBuf> =
        fs::read_dir(directory).with_context(doing)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    entries.sort();
    let metadata = directory.join("metadata");
    if metadata.is_file() {
        let mut streams = Vec::new();
        for path in entries.iter().filter(|path| path.is_file() && **path != metadata) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if !name.starts_with('.') {
                streams.push((
                    name,
                    Mapped::open(path).with_context(|| format!("cannot read {}", path.display()))?,
                ));
            }
        }
        let name = directory.strip_prefix(root).unwrap_or(directory).display().to_string();
        let below = |name: &str| Some(directory.join(name)).filter(|path| is_followed(path));
        let symbols = below(BESIDE_CTF).and_then(|beside| Mapped::open(&beside.join(KALLSYMS_FILE)).ok());
        let metadata = Mapped::open(&metadata).with_context(doing)?;
        let index = below("index");
        let indices = streams.iter().filter_map(|(stream, _)| {
            let index = index.as_ref()?.join(format!("{stream}.idx"));
            Some((stream.clone(), Mapped::open(&index).ok()?))
        });
        let indices = indices.collect();
        found.push(CtfDirectory { name, metadata, streams, indices, symbols });
        return Ok(());
    }
    if depth < DEEPEST {
        for path in entries.iter().filter(|path| is_followed(path)) {
            collect(root, path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// A directory, not one to which another user's link leads.
fn is_followed(path: &Path) -> bool {
    path.is_dir() && leads_elsewhere(path).is_ok_and(|why| why.is_none())
}

/// A trace read with the symbols of another file.
pub struct WithSymbols<'s> {
    source: Box<dyn Source + 's>,
    symbols: Symbols,
}

impl<'s> WithSymbols<'s> {
    /// `source` with the symbols of another file.
    pub fn new(source: Box<dyn Source + 's>, symbols: Symbols) -> Self {
        WithSymbols { source, symbols }
    }
}

impl Source for WithSymbols<'_> {
    fn about(&self) -> &About {
        self.source.about()
    }

    fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        self.source.events(span)
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>> {
        self.source.streams(span)
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        self.source.pieces()
    }

    fn complete_from(&self) -> Option<Mono> {
        self.source.complete_from()
    }

    fn enrich(&self, window: &mut Window) {
        self.source.enrich(window);
    }
}

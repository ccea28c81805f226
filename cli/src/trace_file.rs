//! Recorded traces in: which format it is, by content, and the bytes of its files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::trace::catalogue::Catalogue;
use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::ftrace_text::FtraceText;
use lathunt_core::trace::kallsyms::Symbols;
use lathunt_core::trace::source::{Events, Info, Source, Span};
use lathunt_core::trace::{perf_data, trace_dat};
use lathunt_host::mapped::Mapped;

/// The files of a trace, mapped.
pub struct TraceFile {
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// One file, its format still to be seen from its first bytes.
    File(Mapped),
    /// Directories of CTF, each with its metadata and streams.
    Ctf(Vec<CtfDirectory>),
}

struct CtfDirectory {
    name: String,
    metadata: Mapped,
    streams: Vec<(String, Mapped)>,
}

/// Deepest nesting of directories in which traces of one session are looked for.
const DEEPEST: usize = 6;

impl TraceFile {
    /// Maps the trace at `path`: a file, a directory that holds `trace.dat`, or directories of CTF.
    ///
    /// # Errors
    /// One line: what is not there or cannot be read.
    pub fn open(path: &Path) -> Result<TraceFile> {
        let shown = path.display();
        let meta = fs::metadata(path).with_context(|| format!("cannot read {shown}"))?;
        if meta.is_dir() {
            if path.join("trace.dat").is_file() {
                return TraceFile::open(&path.join("trace.dat"));
            }
            let mut found = Vec::new();
            collect(path, path, 0, &mut found)?;
            if found.is_empty() {
                bail!("cannot read {shown}: the directory holds no trace (no trace.dat, no CTF metadata)");
            }
            return Ok(TraceFile { path: path.to_owned(), kind: Kind::Ctf(found) });
        }
        if !meta.is_file() {
            bail!("cannot read {shown}: no regular file");
        }
        let mapped = Mapped::open(path).with_context(|| format!("cannot read {shown}"))?;
        if mapped.bytes().is_empty() {
            bail!("cannot read {shown}: the file is empty");
        }
        Ok(TraceFile { path: path.to_owned(), kind: Kind::File(mapped) })
    }

    /// Opens what was mapped.
    ///
    /// # Errors
    /// One line: the format is unknown, not supported, or the file is damaged too early.
    pub fn source(&self) -> Result<Box<dyn Source + '_>> {
        let shown = self.path.display();
        let failed = |error: &dyn std::fmt::Display| anyhow!("cannot read {shown}: {error}");
        match &self.kind {
            Kind::Ctf(directories) => {
                let inputs: Vec<TraceFiles> = directories.iter().map(CtfDirectory::files).collect();
                Ok(Box::new(Ctf::open(&inputs).map_err(|error| failed(&error))?))
            }
            Kind::File(mapped) => {
                let bytes = mapped.bytes();
                if bytes.starts_with(b"PERFILE2") || bytes.starts_with(b"2ELIFREP") {
                    return Ok(Box::new(perf_data::PerfData::open(bytes).map_err(|error| failed(&error))?));
                }
                let magic = trace_dat::MAGIC;
                if bytes.starts_with(magic) || magic.starts_with(bytes) {
                    return Ok(Box::new(trace_dat::TraceDat::open(bytes).map_err(|error| failed(&error))?));
                }
                match FtraceText::open(bytes) {
                    Ok(text) => Ok(Box::new(text)),
                    Err(_) => {
                        bail!("cannot read {shown}: no trace.dat, CTF directory, perf.data or text of ftrace")
                    }
                }
            }
        }
    }
}

impl CtfDirectory {
    fn files(&self) -> TraceFiles<'_> {
        TraceFiles {
            name: self.name.clone(),
            metadata: self.metadata.bytes(),
            streams: self.streams.iter().map(|(name, mapped)| (name.clone(), mapped.bytes())).collect(),
        }
    }
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
        found.push(CtfDirectory { name, metadata: Mapped::open(&metadata).with_context(doing)?, streams });
        return Ok(());
    }
    if depth < DEEPEST {
        for path in entries.iter().filter(|path| path.is_dir()) {
            collect(root, path, depth + 1, found)?;
        }
    }
    Ok(())
}

/// A trace read with the symbols of another file.
pub struct WithSymbols<'s> {
    source: Box<dyn Source + 's>,
    symbols: Symbols,
}

impl<'s> WithSymbols<'s> {
    /// `source` with the symbols in the text of a `kallsyms` file.
    pub fn new(source: Box<dyn Source + 's>, kallsyms: Vec<u8>) -> Self {
        WithSymbols { source, symbols: Symbols::new(kallsyms) }
    }
}

impl Source for WithSymbols<'_> {
    fn info(&self) -> &Info {
        self.source.info()
    }

    fn catalogue(&self) -> &Catalogue {
        self.source.catalogue()
    }

    fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        self.source.events(span)
    }
}

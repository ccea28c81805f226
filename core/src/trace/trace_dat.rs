//! trace.dat of trace-cmd, versions 6 and 7.
//!
//! Specification: trace-cmd, Documentation/trace-cmd/trace-cmd.dat.v6.5.txt and …v7.5.txt; where these are ambiguous,
//! lib/trace-cmd/trace-input.c decides.
//!
//! Pitfalls: with a named instance (`trace-cmd record -B`) the table of the top buffer is all zero and BUFFER options
//! refer to the data; pages may be larger than 4096 bytes; the clock in a BUFFER option is that of the top buffer even
//! if the instance has another, so the TRACECLOCK option is used; version 7 compresses CPU data in independent chunks,
//! which are decompressed one at a time and per CPU.
//!
//! Not here: guests synchronised with their host (refused with a message); the text in files of `trace-cmd record -p
//! wakeup_rt` and other latency tracers, which have no events ([`latency_text`]).

pub(crate) mod metadata;
mod options;
mod pages;
mod sections;
mod stream;

use std::sync::OnceLock;

use super::catalogue::Catalogue;
use super::item::{Damage, Events, Span};
use super::merge::{self, Merged};
use super::source::{About, OpenError, Pieces, Source};
use crate::time::Cpu;
use metadata::{Buffer, CpuData, Metadata};
use pages::{CpuPages, Left};
use stream::Stream;

/// The first bytes of every such file.
pub const MAGIC: &[u8] = b"\x17\x08\x44tracing";

/// Numbers of the options.
pub(crate) use options::id as option;

/// An opened trace.dat.
#[derive(Debug)]
pub struct TraceDat<'a> {
    about: About,
    /// Class of each `common_type`; `u32::MAX` for unknown ones.
    class_of_id: Vec<u32>,
    time: TimeScale,
    cpus: Vec<CpuPages<'a>>,
    /// Time of the last event, computed on first use.
    end: OnceLock<Option<u64>>,
}

/// The text of a latency tracer (`wakeup_rt`, `irqsoff`), which trace-cmd records instead of events; `None` for all
/// other files.
#[must_use]
pub fn latency_text(file: &[u8]) -> Option<Vec<u8>> {
    Metadata::read(file).ok()?.text
}

/// Converts ring-buffer stamps to ns (options TSC2NSEC and OFFSET).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct TimeScale {
    mult: u32,
    shift: u32,
    offset_ns: i64,
}

impl TimeScale {
    #[inline]
    fn ns(self, stamp: u64) -> u64 {
        let scaled = match self.mult {
            0 => stamp,
            mult => {
                let scaled = (u128::from(stamp) * u128::from(mult)) >> self.shift.min(127);
                u64::try_from(scaled).unwrap_or(u64::MAX)
            }
        };
        scaled.wrapping_add_signed(self.offset_ns)
    }
}

impl<'a> TraceDat<'a> {
    /// Opens the bytes of a whole file. Damage after the description of the events is not an error: it is in
    /// [`Info::damage`](super::source::Info::damage), or found while reading.
    ///
    /// # Errors
    /// The file has another format, an unsupported feature, or damage before its event formats.
    pub fn open(file: &'a [u8]) -> Result<Self, OpenError> {
        let mut metadata = Metadata::read(file)?;
        if metadata.text.is_some() {
            let text = "a trace.dat that holds the text of a latency tracer and no events: explain reads it without a question";
            return Err(OpenError::Unsupported(text.into()));
        }
        metadata.tells_time()?;
        let buffers = std::mem::take(&mut metadata.buffers);
        let mut cpus = Vec::new();
        let mut left = Left::of(file);
        for (origin, buffer) in buffers.iter().enumerate() {
            for data in &buffer.cpus {
                cpus.push(CpuPages::open(file, &metadata, buffer, *data, origin as u16, &mut left));
            }
        }
        if metadata.info.damage.is_empty() && cpus.is_empty() {
            let what = "no buffer with events: the recorder did not finish, or only text was saved";
            metadata.info.damage.push(Damage::new(file.len() as u64, what));
        }
        metadata.info.origins = buffers.into_iter().map(|buffer| buffer.name).collect();
        Ok(Self::of(metadata, cpus))
    }

    /// Opens the files of an interrupted recorder: the start of the file, and a file with the pages of each CPU.
    ///
    /// # Errors
    /// As [`TraceDat::open`].
    pub fn open_unfinished(head: &'a [u8], pages: &[(Cpu, &'a [u8])]) -> Result<Self, OpenError> {
        let mut metadata = Metadata::read(head)?;
        let buffer = Buffer { page_size: metadata.page_size, ..Buffer::default() };
        let open = |&(Cpu(cpu), pages): &(Cpu, &'a [u8])| {
            let data = CpuData { cpu, offset: 0, size: pages.len() as u64 };
            CpuPages::open(pages, &metadata, &buffer, data, 0, &mut Left::of(pages))
        };
        let cpus: Vec<CpuPages<'a>> = pages.iter().map(open).collect();
        let what = "the recording did not come to its end: what the kernel still held then is missing";
        metadata.info.damage.push(Damage::new(head.len() as u64, what));
        metadata.info.origins = vec![String::new()];
        Ok(Self::of(metadata, cpus))
    }

    fn of(mut metadata: Metadata, cpus: Vec<CpuPages<'a>>) -> Self {
        let mut catalogue = Catalogue::default();
        let mut class_of_id = vec![u32::MAX; 1 << 16];
        for format in std::mem::take(&mut metadata.formats) {
            let class = catalogue.add(format.class);
            if let Some(slot) = class_of_id.get_mut(format.id as usize) {
                *slot = class;
            }
        }
        for pages in &cpus {
            metadata.info.damage.extend(pages.damage.iter().cloned());
        }
        let about = About { info: metadata.info, catalogue, symbols: metadata.symbols };
        TraceDat { about, class_of_id, time: metadata.time, cpus, end: OnceLock::new() }
    }
}

impl Source for TraceDat<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        let streams = self.cpus.iter().map(|pages| Stream::begin(self, pages, span)).collect();
        Box::new(Merged::new(streams, span))
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn merge::Stream + '_>> {
        self.cpus.iter().map(|pages| Box::new(Stream::begin(self, pages, span)) as _).collect()
    }

    fn pieces(&self) -> Vec<Pieces<'_>> {
        let boxed = |piece| Box::new(piece) as Box<dyn merge::Stream + '_>;
        self.cpus.iter().map(|pages| Box::new(Stream::pieces(self, pages).map(boxed)) as _).collect()
    }
}

//! What every trace format offers: a catalogue of event classes, and the records of all CPUs in the order of time.
//!
//! Two layers. This one is generic and allocates nothing per event: a [`Record`] is a time, a CPU, a class and the
//! bytes of the event; any field is read by name through its class. [`super::normalize`] turns records into
//! [`super::event::Event`]s.
//!
//! The seam to the host: it maps a file and hands over the bytes; a [`Source`] borrows them, is `Sync`, and may be
//! walked by several threads at once, each over its own stretch of time.

use std::collections::HashMap;
use std::fmt;

use super::catalogue::{Catalogue, EventClass};
use super::item::{Damage, Events, Record, Span};
use super::kallsyms::Symbols;
use super::merge::{Merged, Stream};
use super::window::Window;
use crate::time::{Mono, Tid};

/// The clock of a trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock {
    /// As the recorder names it: `mono`, `local`, `monotonic`; empty where not recorded.
    pub name: String,
    /// Add this to a time to get nanoseconds since 1970, where recorded.
    pub epoch_offset_ns: Option<i64>,
}

impl Clock {
    /// Whether times are `CLOCK_MONOTONIC`, so that they compare with those of other recorders.
    #[must_use]
    pub fn is_monotonic(&self) -> bool {
        matches!(self.name.as_str(), "mono" | "monotonic" | "perf_clock_monotonic")
    }
}

/// What a trace says of itself.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// `trace.dat v7`, `CTF 1.8`, `perf.data`, `ftrace text`.
    pub format: String,
    /// The clock of all times.
    pub clock: Clock,
    /// Number of CPUs of the traced machine, where recorded.
    pub cpus: Option<u32>,
    /// `uname` or what stands for it.
    pub machine: String,
    /// Names of threads, as saved when recording ended.
    pub comms: HashMap<Tid, String>,
    /// What must be added to recorded priorities to get the kernel's: 100 for LTTng, else 0.
    pub prio_bias: i32,
    /// Buffers (trace.dat) or traces (CTF) by name; the top buffer is the empty name.
    pub origins: Vec<String>,
    /// `printk_formats`: texts that bprint events refer to by address.
    pub printk_formats: HashMap<u64, String>,
    /// Memory maps of traced processes, as trace-cmd saves them (`PID COUNT COMM`, then `BEGIN END FILE` lines).
    pub proc_maps: String,
    /// What was wrong before any event was read.
    pub damage: Vec<Damage>,
    /// Facts worth showing that fit nowhere else: per-CPU statistics, boundaries the recorder wrote down.
    pub notes: Vec<String>,
    /// What limits every answer from it: lost packets, events without a time.
    pub limits: Vec<String>,
}

/// What every opened trace has, whatever its format.
#[derive(Debug, Default)]
pub struct About {
    /// What it says of itself.
    pub info: Info,
    /// Its event classes.
    pub catalogue: Catalogue,
    /// Kernel symbols saved with it, possibly none.
    pub symbols: Symbols,
}

/// A stream as the pieces that it is made of, in their order.
pub type Pieces<'s> = Box<dyn Iterator<Item = Box<dyn Stream + 's>> + Send + 's>;

/// An opened trace.
pub trait Source: Sync {
    /// What it is, which events it may have, how its kernel's addresses are called.
    fn about(&self) -> &About;
    /// Its streams, each in its own order of time: usually one per CPU. One that begins late finds its place without
    /// reading all that is before.
    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>>;
    /// The whole streams of [`Source::streams`], each cut into pieces that follow one another, where that is cheap: the
    /// pieces can be walked at once, also those of one stream. A piece is some ms of work, and opened when it is asked
    /// for.
    fn pieces(&self) -> Vec<Pieces<'_>> {
        let whole = |stream| Box::new(std::iter::once(stream)) as Pieces<'_>;
        self.streams(Span::ALL).into_iter().map(whole).collect()
    }
    /// What it says of itself.
    fn info(&self) -> &Info {
        &self.about().info
    }
    /// Its event classes.
    fn catalogue(&self) -> &Catalogue {
        &self.about().catalogue
    }
    /// Kernel symbols saved with it, possibly none.
    fn symbols(&self) -> &Symbols {
        &self.about().symbols
    }
    /// Records within `span`, of all streams in the order of time.
    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        Box::new(Merged::new(self.streams(span), span))
    }
    /// From when on all CPUs are recorded, where a recorder kept the newest events only: before that moment some are
    /// missing without a mark. `None`: from the beginning.
    fn complete_from(&self) -> Option<Mono> {
        None
    }
    /// Adds to `window` what this source knows beside its events: stacks, from when on each CPU is recorded.
    fn enrich(&self, window: &mut Window) {
        let _ = window;
    }
    /// The class of a record.
    fn class(&self, record: &Record<'_>) -> Option<&EventClass> {
        self.catalogue().get(record.class)
    }
}

/// Why a trace cannot be read at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The file is of another format; the text says of which, if that can be seen.
    Foreign(String),
    /// The right format, in a form this version does not read; the text says which and what to do.
    Unsupported(String),
    /// So broken that nothing can be read.
    Damaged(Damage),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Foreign(text) | OpenError::Unsupported(text) => f.write_str(text),
            OpenError::Damaged(damage) => write!(f, "damaged at {damage}"),
        }
    }
}

impl std::error::Error for OpenError {}

impl From<Damage> for OpenError {
    fn from(damage: Damage) -> Self {
        OpenError::Damaged(damage)
    }
}

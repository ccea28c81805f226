//! Interface of every trace format: a catalogue of event classes, and the records of all CPUs in time order.
//!
//! Two layers. This one is generic and allocates nothing per event: a [`Record`] is a time, a CPU, a class and the
//! bytes of the event; any field is read by name through its class. [`super::normalize`] turns records into
//! [`super::event::Event`]s.
//!
//! Interface to `host`: it maps a file and passes the bytes; a [`Source`] borrows them, is `Sync`, and may be walked by
//! several threads at once, each over its own time span.

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
    /// Name in the recorder: `mono`, `local`, `monotonic`; empty if not recorded.
    pub name: String,
    /// Added to a time, gives ns since 1970; `None`: not recorded.
    pub epoch_offset_ns: Option<i64>,
}

impl Clock {
    /// Whether times are `CLOCK_MONOTONIC`, so that they compare with those of other recorders.
    #[must_use]
    pub fn is_monotonic(&self) -> bool {
        matches!(self.name.as_str(), "mono" | "monotonic" | "perf_clock_monotonic")
    }
}

/// Metadata of a trace.
#[derive(Clone, Debug, Default)]
pub struct Info {
    /// `trace.dat v7`, `CTF 1.8`, `perf.data`, `ftrace text`.
    pub format: String,
    /// The clock of all times.
    pub clock: Clock,
    /// Number of CPUs of the traced machine, if recorded.
    pub cpus: Option<u32>,
    /// `uname` or an equivalent.
    pub machine: String,
    /// Names of threads, as saved when recording ended.
    pub comms: HashMap<Tid, String>,
    /// Added to recorded priorities, gives the kernel's: 100 for LTTng, else 0.
    pub prio_bias: i32,
    /// Likewise for those of wake-ups: 0 for lttng-modules before 2.7.1, which record them as the kernel has them.
    pub woken_prio_bias: i32,
    /// Buffers (trace.dat) or traces (CTF) by name; the top buffer is the empty name.
    pub origins: Vec<String>,
    /// `printk_formats`: texts that bprint events refer to by address.
    pub printk_formats: HashMap<u64, String>,
    /// Memory maps of traced processes, as trace-cmd saves them (`PID COUNT COMM`, then `BEGIN END FILE` lines).
    pub proc_maps: String,
    /// Damage found before the first event.
    pub damage: Vec<Damage>,
    /// Other facts to show: per-CPU statistics, limits noted by the recorder.
    pub notes: Vec<String>,
    /// Caveats for every answer from it: lost packets, events without a time.
    pub limits: Vec<String>,
    /// Number of losses that are not the recorder's: lines left out of a text, the time between two recordings in it.
    pub left_out: u64,
}

/// Common part of every opened trace.
#[derive(Debug, Default)]
pub struct About {
    /// Its metadata.
    pub info: Info,
    /// Its event classes.
    pub catalogue: Catalogue,
    /// Kernel symbols saved with it, possibly none.
    pub symbols: Symbols,
}

/// The pieces of a stream, in order.
pub type Pieces<'s> = Box<dyn Iterator<Item = Box<dyn Stream + 's>> + Send + 's>;

/// An opened trace.
pub trait Source: Sync {
    /// Its metadata, event classes and kernel symbols.
    fn about(&self) -> &About;
    /// Its streams, each in time order: usually one per CPU. A `span` that starts late is found without reading
    /// everything before.
    fn streams(&self, span: Span) -> Vec<Box<dyn Stream + '_>>;
    /// The whole streams of [`Source::streams`], cut into successive pieces where that is cheap: pieces can be walked
    /// in parallel, also those of one stream. A piece is some ms of work, and is opened on demand.
    fn pieces(&self) -> Vec<Pieces<'_>> {
        let whole = |stream| Box::new(std::iter::once(stream)) as Pieces<'_>;
        self.streams(Span::ALL).into_iter().map(whole).collect()
    }
    /// Its metadata.
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
    /// Records within `span`, of all streams, in time order.
    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        Box::new(Merged::new(self.streams(span), span))
    }
    /// Time from which all CPUs are recorded, if the recorder kept only the newest events: before it, events are
    /// missing without a mark. `None`: from the start.
    fn complete_from(&self) -> Option<Mono> {
        None
    }
    /// Adds the other facts of this source to `window`: stacks, and the start of the record of each CPU.
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
    /// The file has another format; the text names it, if it is recognised.
    Foreign(String),
    /// An unsupported variant of the format; the text names it, and what to do.
    Unsupported(String),
    /// So damaged that nothing can be read.
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

//! Items of a walk through any trace: uninterpreted events, losses, damage.

use crate::time::{Cpu, Mono};

/// Something invalid in the file. Everything not reported here was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: {what}")]
pub struct Damage {
    /// Offset in the file (in the data file, if a trace has several).
    pub offset: u64,
    /// What is wrong there and, if reading continues, what was skipped.
    pub what: String,
    /// It applies to the whole trace, and is reported once.
    pub is_general: bool,
}

impl Damage {
    /// Damage at `offset`.
    #[must_use]
    pub fn new(offset: u64, what: impl Into<String>) -> Self {
        Damage { offset, what: what.into(), is_general: false }
    }

    /// Damage of the whole trace, first found at `offset`.
    #[must_use]
    pub fn general(offset: u64, what: impl Into<String>) -> Self {
        Damage { is_general: true, ..Damage::new(offset, what) }
    }
}

/// Events that were not recorded, because a buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// CPU.
    pub cpu: Cpu,
    /// After this time, if known.
    pub after: Option<Mono>,
    /// Before this time.
    pub before: Mono,
    /// Number; `None`: unknown; 0: only switches that the recorder skipped or the kernel did not report.
    pub count: Option<u64>,
    /// Buffer or trace: an index into [`super::source::Info::origins`].
    pub origin: u16,
    /// Set if `after` and `before` are inferred: the recorder only reports a loss in this span (`to` included), and
    /// they are the longest gap between events in it.
    pub inferred_within: Option<Span>,
}

/// One uninterpreted event.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Time in ns of the trace's clock ([`super::source::Info::clock`]).
    pub at: Mono,
    /// CPU.
    pub cpu: Cpu,
    /// Its class: an index into the [`super::catalogue::Catalogue`].
    pub class: u32,
    /// Its buffer or trace: an index into [`super::source::Info::origins`].
    pub origin: u16,
    /// The bytes of its fields; the class has their layout.
    pub data: &'a [u8],
    /// Bit in `data` where the fields of the event start (0 for tracepoints).
    pub first_bit: u64,
}

/// An item of a walk through a trace.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Record<'a>),
    /// Events are missing here.
    Lost(Loss),
    /// The file is damaged here; the walk continues after it, or with the other streams.
    Damage(Damage),
}

/// A time span: `from` included, `to` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First time.
    pub from: Mono,
    /// End, excluded.
    pub to: Mono,
}

impl Span {
    /// All times.
    pub const ALL: Span = Span { from: Mono(0), to: Mono(u64::MAX) };
}

/// A walk over the records of all CPUs, ascending in time; its length is bounded by the size of the trace.
pub trait Events {
    /// The next item; `None` at the end, and from then on.
    fn next(&mut self) -> Option<Item<'_>>;
}

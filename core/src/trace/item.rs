//! What a walk through any trace meets: events not yet interpreted, losses, damage.

use crate::time::{Cpu, Mono};

/// Something in the file that is not as it must be. What is not named here was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("offset {offset}: {what}")]
pub struct Damage {
    /// Where in the file (the data file, where a trace is made of several).
    pub offset: u64,
    /// What is wrong there and, where reading goes on, what was skipped.
    pub what: String,
    /// It is so in the whole trace: one mention is enough.
    pub is_general: bool,
}

impl Damage {
    /// Damage at `offset`.
    #[must_use]
    pub fn new(offset: u64, what: impl Into<String>) -> Self {
        Damage { offset, what: what.into(), is_general: false }
    }

    /// What is so in the whole trace, first met at `offset`.
    #[must_use]
    pub fn general(offset: u64, what: impl Into<String>) -> Self {
        Damage { is_general: true, ..Damage::new(offset, what) }
    }
}

/// Events that were recorded nowhere, because a buffer was full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// On which CPU.
    pub cpu: Cpu,
    /// After this moment, where known.
    pub after: Option<Mono>,
    /// Before this moment.
    pub before: Mono,
    /// How many; `None`: some; 0: none that was to be recorded, only switches that were left out or not reported.
    pub count: Option<u64>,
    /// Which buffer or trace: an index into [`super::source::Info::origins`].
    pub origin: u16,
    /// `after` and `before` are inferred: the recorder only says that the loss lies in this span (`to` included),
    /// and they are the longest silence in it.
    pub inferred_within: Option<Span>,
}

/// One event, not yet interpreted.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// When, in nanoseconds of the trace's clock ([`super::source::Info::clock`]).
    pub at: Mono,
    /// On which CPU.
    pub cpu: Cpu,
    /// Its class: an index into the [`super::catalogue::Catalogue`].
    pub class: u32,
    /// Which buffer or trace it is from: an index into [`super::source::Info::origins`].
    pub origin: u16,
    /// The bytes its fields are in; layout as the class says.
    pub data: &'a [u8],
    /// Bit in `data` where the event's fields begin (0 for tracepoints).
    pub first_bit: u64,
}

/// What a walk through a trace meets.
#[derive(Clone, Debug)]
pub enum Item<'a> {
    /// An event.
    Event(Record<'a>),
    /// Events are missing here.
    Lost(Loss),
    /// The file is damaged here; the walk goes on behind, or with the other streams.
    Damage(Damage),
}

/// A stretch of time: `from` included, `to` excluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First moment.
    pub from: Mono,
    /// First moment that is too late.
    pub to: Mono,
}

impl Span {
    /// All there is.
    pub const ALL: Span = Span { from: Mono(0), to: Mono(u64::MAX) };
}

/// A walk over the records of all CPUs, ascending in time; never longer than the bytes allow.
pub trait Events {
    /// The next item; `None` at the end, and then always.
    fn next(&mut self) -> Option<Item<'_>>;
}

//! Splits a text into pieces of ascending time, so that it can be read in time order from any time on without keeping its
//! events: each walk parses the lines again.
//!
//! Text of `trace` and `trace-cmd report` is in order, and its pieces follow one another. Otherwise (files of single CPUs
//! one after another, lines of trace_pipe) a piece ends where time goes back, and pieces that overlap in time are merged.
//! Equal times keep the order of the lines.

use std::borrow::Cow;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::fields;
use super::line::{parse, EventLine, Line};
use super::lines::Lines;
use super::shapes::Shapes;
use super::{About, LossLine, Release};
use crate::time::{Cpu, Mono};
use crate::trace::item::{Damage, Item, Loss, Record};
use crate::trace::merge::Stream;

/// Maximum bytes of a piece, some ms of work; walks start, and release memory, in units of pieces. Small in tests, to have
/// many.
const LONGEST: usize = if cfg!(test) { 400 } else { 1 << 20 };

/// A part of the text whose events are in the order of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    /// Offset of its first event's line.
    pub begin: usize,
    /// Offset behind its last line.
    pub end: usize,
    /// Time of its first event.
    pub first: u64,
    /// Time of its last event.
    pub last: u64,
}

impl Piece {
    /// Sort key.
    pub fn key(&self) -> (u64, usize) {
        (self.first, self.begin)
    }
}

/// Builds the pieces from the events in the order of the lines.
#[derive(Default)]
pub(super) struct Cutter {
    pieces: Vec<Piece>,
}

impl Cutter {
    /// The line in `[begin, end)` is an event.
    pub fn event(&mut self, begin: usize, end: usize, at: u64) {
        match self.pieces.last_mut() {
            Some(piece) if at >= piece.last && end - piece.begin <= LONGEST => {
                (piece.end, piece.last) = (end, at);
            }
            _ => self.pieces.push(Piece { begin, end, first: at, last: at }),
        }
    }

    /// All pieces, by their first events.
    pub fn finish(mut self) -> Vec<Piece> {
        self.pieces.sort_unstable_by_key(Piece::key);
        self.pieces.shrink_to_fit();
        self.pieces
    }
}

/// The event in a line, if its time is valid.
pub(super) fn event_in(line: &str) -> Option<EventLine<'_>> {
    match parse(line) {
        Some(Line::Event(event)) if event.at <= Mono::LATEST.0 => Some(event),
        _ => None,
    }
}

/// The next event of a piece.
#[derive(Clone, Copy, Debug)]
struct Found<'t> {
    at: u64,
    line: usize,
    /// Offset of the next line of its piece.
    behind: usize,
    end: usize,
    /// The event, where the line is UTF-8.
    event: Option<EventLine<'t>>,
}

impl Found<'_> {
    fn key(&self) -> (u64, usize) {
        (self.at, self.line)
    }
}

impl PartialEq for Found<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Found<'_> {}

impl PartialOrd for Found<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Found<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// The current item.
#[derive(Clone, Copy)]
enum Hand {
    Event { cpu: u32, class: u32 },
    Lost { cpu: u32, count: Option<u64> },
}

/// Input of a walk.
pub(super) struct Ground<'t> {
    pub text: &'t [u8],
    pub about: &'t About,
    pub shapes: &'t Shapes,
    pub release: Option<&'t dyn Release>,
}

/// A walk over pieces, and over the losses among them.
pub(super) struct Walk<'t> {
    ground: Ground<'t>,
    pieces: &'t [Piece],
    losses: &'t [LossLine],
    from: u64,
    /// The next event of each started piece, except that of `current`.
    begun: BinaryHeap<Reverse<Found<'t>>>,
    current: Option<Found<'t>>,
    hand: Option<(u64, Hand)>,
    data: Vec<u8>,
    /// Number and range of the bytes read since memory was released.
    passed: usize,
    touched: (usize, usize),
}

impl<'t> Walk<'t> {
    /// Starts at time `from`; `pieces` are sorted by [`Piece::key`].
    pub fn new(ground: Ground<'t>, pieces: &'t [Piece], losses: &'t [LossLine], from: u64) -> Self {
        let mut walk = Walk {
            ground,
            pieces,
            losses: &losses[losses.partition_point(|loss| loss.at < from)..],
            from,
            begun: BinaryHeap::new(),
            current: None,
            hand: None,
            data: Vec::new(),
            passed: 0,
            touched: (usize::MAX, 0),
        };
        walk.go_on(None);
        walk
    }

    /// Selects the earliest event: `next` of the current piece, or that of another started piece, or of a piece that
    /// starts before.
    fn go_on(&mut self, mut next: Option<Found<'t>>) {
        loop {
            if let (Some(found), Some(Reverse(other))) = (next, self.begun.peek())
                && *other < found
            {
                self.begun.push(Reverse(found));
                next = None;
            }
            let earliest = next.or_else(|| self.begun.peek().map(|Reverse(found)| *found));
            match self.pieces.split_first() {
                Some((piece, rest)) if earliest.is_none_or(|found| piece.key() < found.key()) => {
                    self.pieces = rest;
                    if piece.last >= self.from {
                        let first = self.found(piece.begin, piece.end);
                        self.begun.extend(next.take().into_iter().chain(first).map(Reverse));
                    }
                }
                _ => break,
            }
        }
        self.current = next.or_else(|| self.begun.pop().map(|Reverse(found)| found));
        self.take();
    }

    /// The first event of a piece after offset `at` that is not before `from`.
    fn found(&mut self, at: usize, end: usize) -> Option<Found<'t>> {
        let mut lines = Lines::within(self.ground.text, at, end);
        let found = loop {
            let Some((line, text)) = lines.next() else { break None };
            let found = |at, event| Found { at, line, behind: lines.at(), end, event };
            let found = match text {
                Cow::Borrowed(text) => event_in(text).map(|event| found(event.at, Some(event))),
                Cow::Owned(text) => event_in(&text).map(|event| found(event.at, None)),
            };
            if found.is_some_and(|found| found.at >= self.from) {
                break found;
            }
        };
        self.pass(at, lines.at());
        found
    }

    /// Makes the earlier of the next loss and the next event the current item.
    fn take(&mut self) {
        let loss = self.losses.first();
        let is_lost = |loss: &&LossLine| self.current.is_none_or(|found| loss.key() <= found.key());
        if let Some(loss) = loss.filter(is_lost) {
            self.hand = Some((loss.at, Hand::Lost { cpu: loss.cpu, count: loss.count }));
            return;
        }
        self.hand = self.current.and_then(|found| {
            let hand = match found.event {
                Some(event) => self.record(&event),
                None => {
                    let (_, text) = Lines::within(self.ground.text, found.line, found.behind).next()?;
                    self.record(&event_in(&text)?)
                }
            };
            Some((found.at, hand?))
        });
    }

    /// Encodes an event as a record.
    fn record(&mut self, event: &EventLine<'_>) -> Option<Hand> {
        let (name, fields) = fields_of(event);
        self.ground.shapes.record(&fields, &mut self.data);
        let class = self.ground.shapes.class(&self.ground.about.catalogue, &name, &fields)?;
        Some(Hand::Event { cpu: event.cpu, class })
    }

    fn pass(&mut self, begin: usize, end: usize) {
        self.passed += end - begin;
        self.touched = (self.touched.0.min(begin), self.touched.1.max(end));
        if self.passed >= LONGEST {
            self.give_back();
        }
    }

    fn give_back(&mut self) {
        let (begin, end) = std::mem::replace(&mut self.touched, (usize::MAX, 0));
        self.passed = 0;
        if let (Some(release), Some(bytes)) = (self.ground.release, self.ground.text.get(begin..end)) {
            release.release(bytes);
        }
    }
}

impl Drop for Walk<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// The name and fields of an event; the common fields come first.
pub(super) fn fields_of<'l>(event: &EventLine<'l>) -> (Cow<'l, str>, fields::Fields<'l>) {
    let (name, own) = fields::parse(event.name, event.fields);
    let mut all: fields::Fields = Vec::with_capacity(own.len() + 2);
    all.push((Cow::Borrowed("common_pid"), fields::FieldValue::Number(event.tid.into())));
    let flags = event.flags.map(|flags| fields::FieldValue::Number(flags.into()));
    all.extend(flags.map(|flags| (Cow::Borrowed("common_flags"), flags)));
    all.extend(own);
    (name, all)
}

impl Stream for Walk<'_> {
    fn time(&self) -> Option<u64> {
        self.hand.map(|(at, _)| at)
    }

    fn item(&self) -> Item<'_> {
        match self.hand {
            Some((at, Hand::Event { cpu, class })) => Item::Event(Record {
                at: Mono(at),
                cpu: Cpu(cpu),
                class,
                origin: 0,
                data: &self.data,
                first_bit: 0,
            }),
            Some((at, Hand::Lost { cpu, count })) => Item::Lost(Loss {
                cpu: Cpu(cpu),
                after: None,
                before: Mono(at),
                count,
                origin: 0,
                inferred_within: None,
            }),
            None => Item::Damage(Damage::new(0, "the walk is over")),
        }
    }

    fn advance(&mut self) {
        match self.hand {
            Some((_, Hand::Lost { .. })) => {
                self.losses = self.losses.split_first().map_or(&[], |(_, rest)| rest);
                self.take();
            }
            Some((_, Hand::Event { .. })) => {
                let next = self.current.and_then(|found| self.found(found.behind, found.end));
                self.go_on(next);
            }
            None => {}
        }
    }
}

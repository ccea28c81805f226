//! A flight recording as a [`Source`], like any other trace.
//!
//! A record is 48 bytes of the file; event classes describe its fields. Their system is `flight`, because some have
//! fewer fields than the kernel event of the same name (no name of the thread switched out), and some more (the due
//! time of a timer). Chunks can be in any order, those of the worst peak first; a duplicate chunk (a ring that belongs
//! to two peaks) is read once. The walk of a CPU starts at its oldest ring; events overwritten before are not a loss,
//! and [`Source::enrich`] sets the start of the complete record. The time between two rings, and switches that a lean
//! recorder skipped, are losses.

use std::collections::BTreeMap;

use super::header::{i32_at, u32_at, u64_at};
use super::layout::{I32_CURRENT, KINDS, SWITCH, VECTORS, VECTOR_ENTRY, VECTOR_EXIT};
use super::{decode, vector, Header, NotAChunk, COMM as COMM_OF_A_TASK, HEADER_BYTES, RECORD_BYTES, SKIPPED};
use crate::printable;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::bytes::Order;
use crate::trace::catalogue::{Catalogue, EventClass, Field, Place};
use crate::trace::item::{Damage, Events, Item, Loss, Record, Span};
use crate::trace::kallsyms::Symbols;
use crate::trace::merge::{self, Merged};
use crate::trace::source::{About, Clock, Info, OpenError, Source};
use crate::trace::value::up_to_nul;
use crate::trace::window::Window;

/// System of its event classes.
pub const SYSTEM: &str = "flight";

/// An opened flight recording.
#[derive(Debug)]
pub struct Flight<'a> {
    bytes: &'a [u8],
    about: About,
    /// Class by kind, then entries and exits of the vectors.
    classes: Vec<u32>,
    cpus: BTreeMap<Cpu, Vec<Entry>>,
    complete_from: BTreeMap<Cpu, Mono>,
    /// Time from which all CPUs of the first freeze are recorded.
    all_from: Option<Mono>,
}

/// One item of a CPU.
#[derive(Clone, Copy, Debug)]
struct Entry {
    at: u64,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The record at this offset.
    Record(u32, usize),
    Lost(Option<u64>),
}

impl<'a> Flight<'a> {
    /// Reads the bytes of a whole `flight.bin`. `symbols` are those of the recording kernel, if available.
    ///
    /// # Errors
    /// If the first chunk cannot be read; later damage is in [`Info::damage`].
    pub fn open(bytes: &'a [u8], symbols: Symbols) -> Result<Self, OpenError> {
        let foreign = |NotAChunk { offset, expected }| {
            OpenError::Damaged(Damage::new(
                offset as u64,
                format!("no flight recording: {expected} expected"),
            ))
        };
        Header::parse(bytes).map_err(foreign)?;
        let mut flight = Flight {
            bytes,
            about: About {
                info: Info {
                    format: "flight recording".into(),
                    clock: Clock { name: "mono".into(), epoch_offset_ns: None },
                    origins: vec![String::new()],
                    ..Info::default()
                },
                catalogue: Catalogue::default(),
                symbols,
            },
            classes: Vec::new(),
            cpus: BTreeMap::new(),
            complete_from: BTreeMap::new(),
            all_from: None,
        };
        flight.describe();
        flight.read_chunks();
        flight.about.info.cpus = flight.cpus.keys().next_back().map(|cpu| cpu.0.saturating_add(1));
        Ok(flight)
    }

    fn describe(&mut self) {
        for (name, fields) in KINDS {
            self.add(name, fields);
        }
        for suffix in ["entry", "exit"] {
            for number in 0..VECTORS {
                let name = vector(number).map_or("", crate::trace::event::Vector::name);
                self.add(&if name.is_empty() { String::new() } else { format!("{name}_{suffix}") }, &[]);
            }
        }
    }

    fn add(&mut self, name: &str, fields: &[(&str, Place)]) {
        let field = |&(name, place): &(&str, Place)| Field { name: name.to_owned(), place };
        let class = match name {
            "" => u32::MAX,
            name => self.about.catalogue.add(EventClass {
                system: SYSTEM.to_owned(),
                name: name.to_owned(),
                fields: [("common_pid", I32_CURRENT)].iter().chain(fields).map(field).collect(),
                order: Order::Little,
                dynamic: None,
            }),
        };
        self.classes.push(class);
    }

    /// The class of a record; `None`: not a kind of this version.
    fn class_of(&self, record: &[u8]) -> Option<u32> {
        let index = match record[12] {
            kind @ (VECTOR_ENTRY | VECTOR_EXIT) => {
                let number = Some(u32_at(record, 28)).filter(|&number| number < VECTORS)?;
                let behind = if kind == VECTOR_ENTRY { 0 } else { VECTORS };
                KINDS.len() + (number + behind) as usize
            }
            kind => Some(usize::from(kind)).filter(|&kind| kind < KINDS.len())?,
        };
        self.classes.get(index).copied().filter(|&class| class != u32::MAX)
    }

    /// The chunks, without duplicates, by CPU and number, with the offsets of their records.
    fn chunks(&mut self) -> Vec<(Header, usize)> {
        let (mut at, mut chunks) = (0, Vec::new());
        while at < self.bytes.len() {
            match Header::parse(&self.bytes[at..]) {
                Ok(header) => {
                    chunks.push((header, at + HEADER_BYTES));
                    at = at.saturating_add(header.chunk_bytes());
                }
                Err(NotAChunk { offset, expected }) => {
                    let what = format!("{expected} expected; the rest of the recording cannot be read");
                    self.about.info.damage.push(Damage::new((at + offset) as u64, what));
                    break;
                }
            }
        }
        if at > self.bytes.len() {
            let what = "the last chunk is cut short";
            self.about.info.damage.push(Damage::new(self.bytes.len() as u64, what));
        }
        let key = |(header, _): &(Header, usize)| (header.cpu, header.id);
        chunks.sort_by_key(key);
        chunks.dedup_by_key(|chunk| key(chunk));
        chunks
    }

    fn read_chunks(&mut self) {
        let chunks = self.chunks();
        let mut now = Running::default();
        for (place, (header, begin)) in chunks.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| chunks[before].0).filter(|b| b.cpu == header.cpu);
            let follows = before.is_some_and(|before| before.id.checked_add(1) == Some(header.id))
                && header.overwritten == 0;
            if !follows {
                now = Running { switched: header.begin.0, task: None };
            }
            self.read_chunk(header, *begin, follows, before.is_none(), &mut now);
        }
        for entries in self.cpus.values_mut() {
            entries.sort_by_key(|entry| entry.at); // stable; an NMI may be recorded after later events
        }
        self.mark_late_begins(&chunks);
    }

    /// A CPU whose first ring started after the first freeze has a loss until then.
    fn mark_late_begins(&mut self, chunks: &[(Header, usize)]) {
        let oldest = chunks.iter().map(|(header, _)| header).min_by_key(|header| header.begin);
        let Some(end) = oldest.map(|header| header.frozen) else { return };
        for (cpu, &from) in self.complete_from.iter().filter(|(_, from)| **from > end) {
            let entries = self.cpus.entry(*cpu).or_default();
            entries.insert(0, Entry { at: from.0, what: What::Lost(None) });
        }
        let from = self.complete_from.values().filter(|from| **from <= end).max();
        self.all_from = from.copied();
    }

    fn read_chunk(&mut self, header: &Header, begin: usize, follows: bool, first: bool, now: &mut Running) {
        let body = self.bytes.get(begin..).unwrap_or_default();
        let present = (body.len() / RECORD_BYTES).min(header.records as usize);
        let mut entries = Vec::with_capacity(present);
        let lost = |at, count| Entry { at, what: What::Lost(count) };
        let (mut torn, mut latest) = (0u64, header.begin.0);
        for (i, record) in body.chunks_exact(RECORD_BYTES).take(present).enumerate() {
            let stamp = header.first_seq.wrapping_add(i as u64 + 1) as u32;
            if u32_at(record, 8) == stamp && record[12] == COMM_OF_A_TASK {
                let name = up_to_nul(&record[32..48]);
                let tid = Tid(i32_at(record, 20));
                let name = printable::line(&String::from_utf8_lossy(name)).into_owned();
                self.about.info.comms.insert(tid, name);
                continue;
            }
            let is_whole = u32_at(record, 8) == stamp && u64_at(record, 0) <= Mono::LATEST.0;
            let class = if is_whole { self.class_of(record) } else { None };
            let Some(class) = class else {
                torn += 1;
                continue;
            };
            let at = u64_at(record, 0);
            if torn > 0 {
                entries.push(lost(at, Some(std::mem::take(&mut torn))));
                now.task = None;
            }
            latest = latest.max(at);
            if record[12] == SWITCH {
                entries.extend(now.switch(record, at).map(|at| lost(at, Some(0))));
            }
            entries.push(Entry { at, what: What::Record(class, begin + i * RECORD_BYTES) });
        }
        let missing = u64::from(header.records) - present as u64 + torn;
        if missing > 0 {
            entries.push(lost(latest, Some(missing)));
            now.task = None;
        }
        let oldest = entries.iter().find(|entry| matches!(entry.what, What::Record(..)));
        let from = match (header.overwritten, oldest) {
            (0, _) | (_, None) => header.begin.0,
            (_, Some(entry)) => entry.at,
        };
        let whole = self.cpus.entry(header.cpu).or_default();
        if !follows && !first {
            whole.push(lost(from, None));
        }
        whole.extend(entries);
        // A later gap is a loss; the time before the first record is not.
        self.complete_from.entry(header.cpu).or_insert(Mono(from));
    }
}

/// State of the switches of a CPU before a record.
#[derive(Default)]
struct Running {
    /// Time of the last switch; else the start of the ring.
    switched: u64,
    /// Task switched in last, if nothing was lost since.
    task: Option<i32>,
}

impl Running {
    /// Start of the time in which switches are missing before this one: skipped by a lean recorder, or evident because
    /// another thread is switched out.
    fn switch(&mut self, record: &[u8], at: u64) -> Option<u64> {
        let skipped = (record[13] & SKIPPED != 0).then_some(self.switched + 1);
        let unseen = self.task.filter(|task| *task != i32_at(record, 16)).map(|_| at);
        (self.switched, self.task) = (at, Some(i32_at(record, 20)));
        skipped.or(unseen)
    }
}

impl Source for Flight<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        let streams = self.cpus.iter().map(|(&cpu, entries)| Stream::begin(self.bytes, cpu, entries, span));
        Box::new(Merged::new(streams.collect(), span))
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn merge::Stream + '_>> {
        let streams = self.cpus.iter().map(|(&cpu, entries)| Stream::begin(self.bytes, cpu, entries, span));
        streams.map(|stream| Box::new(stream) as _).collect()
    }

    fn complete_from(&self) -> Option<Mono> {
        self.all_from
    }

    fn enrich(&self, window: &mut Window) {
        window.is_selective = true;
        for (&cpu, &from) in &self.complete_from {
            let known = window.complete_from.entry(cpu).or_insert(from);
            *known = (*known).max(from);
        }
        let name = |address| {
            let (name, offset) = self.about.symbols.resolve(address)?;
            Some(format!("{name}+{offset:#x}"))
        };
        if let Ok(decoded) = decode(self.bytes, name) {
            window.stacks = decoded.stacks;
        }
    }
}

/// The items of one CPU.
#[derive(Debug)]
struct Stream<'t> {
    bytes: &'t [u8],
    cpu: Cpu,
    entries: &'t [Entry],
    next: usize,
    last: u64,
}

impl<'t> Stream<'t> {
    fn begin(bytes: &'t [u8], cpu: Cpu, entries: &'t [Entry], span: Span) -> Self {
        let next = entries.partition_point(|entry| entry.at < span.from.0);
        Stream { bytes, cpu, entries, next, last: 0 }
    }
}

impl merge::Stream for Stream<'_> {
    fn time(&self) -> Option<u64> {
        self.entries.get(self.next).map(|entry| entry.at)
    }

    fn item(&self) -> Item<'_> {
        let Some(&Entry { at, what }) = self.entries.get(self.next) else {
            return Item::Damage(Damage::new(0, "the walk is over"));
        };
        let (cpu, at) = (self.cpu, Mono(at));
        match what {
            What::Record(class, offset) => {
                let data = self.bytes.get(offset..offset + RECORD_BYTES).unwrap_or_default();
                Item::Event(Record { at, cpu, class, origin: 0, data, first_bit: 0 })
            }
            What::Lost(count) => {
                let after = (self.last > 0).then_some(Mono(self.last));
                Item::Lost(Loss { cpu, after, before: at, count, origin: 0, inferred_within: None })
            }
        }
    }

    fn advance(&mut self) {
        self.last = self.entries.get(self.next).map_or(self.last, |entry| entry.at);
        self.next = (self.next + 1).min(self.entries.len());
    }
}

#[cfg(test)]
mod tests;

//! A flight recording as a [`Source`]: the same questions as of any other trace.
//!
//! A record is what stands in the file: event classes say where the fields lie in its 48 bytes. Their system is
//! `flight`, because some say less than the kernel's own of the same name (no name of the thread switched out), and
//! some more (when a timer should have expired). A chunk that stands in the file twice (the ring before a peak
//! belongs to both peaks) is read once. The walk starts for each CPU where its ring does; what was overwritten before
//! is no loss, and [`Source::enrich`] says from where on the record is complete.

use std::collections::{BTreeMap, HashSet};

use super::header::{i32_at, u32_at, u64_at};
use super::{decode, vector, Header, NotAChunk, COMM as COMM_OF_A_TASK, HEADER_BYTES, RECORD_BYTES};
use crate::time::{Cpu, Mono, Tid};
use crate::trace::bytes::Order;
use crate::trace::catalogue::{up_to_nul, Catalogue, Element, EventClass, Field, Place};
use crate::trace::event::Window;
use crate::trace::kallsyms::Symbols;
use crate::trace::merge::{self, Merged};
use crate::trace::source::{About, Clock, Damage, Events, Info, Item, Loss, OpenError, Record, Source, Span};

/// The system of its event classes.
pub const SYSTEM: &str = "flight";

/// Names of the classes by kind of record, 0 unused; 8 and 9 have one for each vector instead.
const KINDS: [(&str, &[(&str, Place)]); 23] = [
    ("", &[]),
    (
        "sched_switch",
        &[
            ("prev_pid", I32_CURRENT),
            ("prev_prio", PRIO_A),
            ("preempted", FLAG),
            ("prev_state", WORD),
            ("next_pid", I32_TID),
            ("next_prio", PRIO_B),
            ("next_comm", COMM),
        ],
    ),
    ("sched_waking", WOKEN),
    ("sched_wakeup_new", WOKEN),
    (
        "sched_migrate_task",
        &[("pid", I32_TID), ("prio", PRIO_B), ("comm", COMM), ("orig_cpu", AUX), ("dest_cpu", WORD)],
    ),
    ("sched_pi_setprio", &[("pid", I32_TID), ("comm", COMM), ("oldprio", PRIO_A), ("newprio", PRIO_B)]),
    ("irq_handler_entry", &[("irq", WORD)]),
    ("irq_handler_exit", &[("irq", WORD)]),
    ("", &[]),
    ("", &[]),
    ("softirq_entry", &[("vec", WORD)]),
    ("softirq_exit", &[("vec", WORD)]),
    ("nmi_handler", &[("delta_ns", FIRST)]),
    ("hrtimer_expire_entry", &[("hrtimer", FIRST), ("function", SECOND), ("expires", EXPIRES)]),
    ("hrtimer_expire_exit", &[("hrtimer", FIRST)]),
    ("cpu_idle", &[("state", WORD)]),
    ("csd_function_entry", &[("csd", FIRST), ("func", SECOND)]),
    ("csd_function_exit", &[("csd", FIRST)]),
    ("page_fault", &[("address", FIRST), ("count", SECOND)]),
    ("", &[]),
    ("host_steal", &[("taken", FIRST), ("since", SECOND)]),
    ("sys_enter", &[("id", I32_TID), ("args[0]", FIRST), ("args[1]", SECOND), ("args[2]", EXPIRES)]),
    ("sys_exit", &[("id", I32_TID), ("ret", RESULT)]),
];
const WOKEN: &[(&str, Place)] = &[("pid", I32_TID), ("prio", PRIO_B), ("comm", COMM), ("target_cpu", WORD)];
const VECTOR_ENTRY: u8 = 8;
const VECTOR_EXIT: u8 = 9;
/// Numbers of vectors are below this.
const VECTORS: u32 = 16;

const I32_CURRENT: Place = int(16, 4, true);
const I32_TID: Place = int(20, 4, true);
const PRIO_A: Place = int(24, 2, true);
const PRIO_B: Place = int(26, 2, true);
const WORD: Place = int(28, 4, false);
const FLAG: Place = int(13, 1, false);
const AUX: Place = int(14, 2, false);
const EXPIRES: Place = int(24, 8, false);
const FIRST: Place = int(32, 8, false);
const RESULT: Place = int(32, 8, true);
const SECOND: Place = int(40, 8, false);
const COMM: Place =
    Place::Array { offset: 32, size: 16, element: Element { size: 1, signed: false, text: true } };

const fn int(offset: u32, size: u8, signed: bool) -> Place {
    Place::Int { offset, size, signed }
}

/// An opened flight recording.
#[derive(Debug)]
pub struct Flight<'a> {
    bytes: &'a [u8],
    about: About,
    /// Class by kind, then entries and exits of the vectors.
    classes: Vec<u32>,
    cpus: BTreeMap<Cpu, Vec<Entry>>,
    complete_from: BTreeMap<Cpu, Mono>,
}

/// One item of a CPU, in its order.
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
    /// Reads the bytes of a whole `flight.bin`. `symbols` are those of the kernel that recorded, if at hand.
    ///
    /// # Errors
    /// When not even the first chunk can be read; damage after it is in [`Info::damage`].
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

    /// The class of a record; `None`: of no kind of this version.
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

    fn read_chunks(&mut self) {
        let (mut at, mut seen) = (0, HashSet::new());
        let mut last: BTreeMap<Cpu, u64> = BTreeMap::new();
        while at < self.bytes.len() {
            let header = match Header::parse(&self.bytes[at..]) {
                Ok(header) => header,
                Err(NotAChunk { offset, expected }) => {
                    let what = format!("{expected} expected; the rest of the recording cannot be read");
                    self.about.info.damage.push(Damage::new((at + offset) as u64, what));
                    break;
                }
            };
            if seen.insert((header.cpu, header.id)) {
                let before = last.insert(header.cpu, header.id);
                let follows =
                    before.is_some_and(|id| id.checked_add(1) == Some(header.id)) && header.overwritten == 0;
                self.read_chunk(&header, at + HEADER_BYTES, follows, before.is_none());
            }
            at = at.saturating_add(header.chunk_bytes());
        }
        if at > self.bytes.len() {
            let what = "the last chunk is cut short";
            self.about.info.damage.push(Damage::new(self.bytes.len() as u64, what));
        }
        for entries in self.cpus.values_mut() {
            entries.sort_by_key(|entry| entry.at); // stable: chunks of several peaks may stand in any order
        }
    }

    fn read_chunk(&mut self, header: &Header, begin: usize, follows: bool, first: bool) {
        let body = self.bytes.get(begin..).unwrap_or_default();
        let present = (body.len() / RECORD_BYTES).min(header.records as usize);
        let mut entries = Vec::with_capacity(present);
        let (mut torn, mut latest) = (0u64, header.begin.0);
        for (i, record) in body.chunks_exact(RECORD_BYTES).take(present).enumerate() {
            let stamp = header.first_seq.wrapping_add(i as u64 + 1) as u32;
            if u32_at(record, 8) == stamp && record[12] == COMM_OF_A_TASK {
                let name = up_to_nul(&record[32..48]);
                let tid = Tid(i32_at(record, 20));
                self.about.info.comms.insert(tid, String::from_utf8_lossy(name).into_owned());
                continue;
            }
            let class = if u32_at(record, 8) == stamp { self.class_of(record) } else { None };
            let Some(class) = class else {
                torn += 1;
                continue;
            };
            let at = u64_at(record, 0);
            if torn > 0 {
                entries.push(Entry { at, what: What::Lost(Some(std::mem::take(&mut torn))) });
            }
            latest = latest.max(at);
            entries.push(Entry { at, what: What::Record(class, begin + i * RECORD_BYTES) });
        }
        let missing = u64::from(header.records) - present as u64 + torn;
        if missing > 0 {
            entries.push(Entry { at: latest, what: What::Lost(Some(missing)) });
        }
        let from = match (header.overwritten, entries.first()) {
            (0, _) | (_, None) => header.begin.0,
            (_, Some(entry)) => entry.at,
        };
        let whole = self.cpus.entry(header.cpu).or_default();
        if !follows && !first {
            whole.push(Entry { at: from, what: What::Lost(None) });
        }
        whole.extend(entries);
        // A later gap is a loss; what lies before the first record is none.
        self.complete_from.entry(header.cpu).or_insert(Mono(from));
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
        self.complete_from.values().max().copied()
    }

    fn enrich(&self, window: &mut Window) {
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
mod tests {
    use super::*;
    use crate::trace::event::{Event, Kind};
    use crate::trace::flight::tests::all_kinds;
    use crate::trace::normalize::Normalizer;

    fn events(flight: &Flight) -> Vec<Event> {
        let mut normalizer = Normalizer::new(flight);
        let (mut walk, mut events) = (flight.events(Span::ALL), Vec::new());
        while let Some(item) = walk.next() {
            events.extend(normalizer.item(&item));
        }
        events
    }

    #[test]
    fn the_source_tells_what_the_decoder_tells() {
        let bytes = all_kinds();
        let flight = Flight::open(&bytes, Symbols::default()).unwrap();
        let decoded = decode(&bytes, |_| None).unwrap();
        let read = events(&flight);
        assert_eq!(read.len(), decoded.events.len());
        for (ours, other) in read.iter().zip(&decoded.events) {
            assert_eq!((ours.at, ours.cpu, ours.current), (other.at, other.cpu, other.current));
            match (ours.kind, other.kind) {
                (Kind::Switch { prev, left_as, next }, Kind::Switch { prev: p, left_as: l, next: n }) => {
                    assert_eq!(
                        (prev.tid, prev.prio, left_as, next.tid, next.prio),
                        (p.tid, p.prio, l, n.tid, n.prio)
                    );
                }
                (a, b) => assert_eq!(std::mem::discriminant(&a), std::mem::discriminant(&b), "{a:?} {b:?}"),
            }
        }
        assert!(read.iter().any(|event| event.current.is_some_and(|tid| tid != Tid::IDLE)));
    }

    #[test]
    fn a_chunk_that_two_peaks_share_is_read_once() {
        let once = all_kinds();
        let twice = [once.as_slice(), once.as_slice()].concat();
        let count = |bytes: &[u8]| events(&Flight::open(bytes, Symbols::default()).unwrap()).len();
        assert_eq!(count(&twice), count(&once));
    }

    #[test]
    fn every_truncation_is_survived() {
        let bytes = all_kinds();
        for end in 0..bytes.len() {
            match Flight::open(&bytes[..end], Symbols::default()) {
                Ok(flight) => assert!(events(&flight).len() <= bytes.len() / RECORD_BYTES + 1),
                Err(error) => assert!(end < HEADER_BYTES, "{error}"),
            }
        }
    }
}

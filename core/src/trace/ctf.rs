//! CTF 1.8: LTTng kernel and user-space traces, `perf data convert --to-ctf`, barectf, our own tracer.
//!
//! Specification: diamon.org/ctf, version 1.8.3; where it is ambiguous, babeltrace 2 decides, whose output is the
//! oracle of the tests. A trace is a metadata file and stream files; several traces of one session are merged.
//!
//! Clocks: kernel and user-space metadata of one session carry the same clock uuid but epoch offsets that differ by
//! microseconds, because each was measured separately. Traces whose clocks have the same uuid are therefore merged by
//! the raw clock, and the offset is only used to show wall-clock time. Traces with different clocks (two machines) are
//! merged by their offsets, the only information available; so are clocks without a uuid, unless nothing distinguishes
//! them.
//!
//! Lost events: the counter in a packet gives the number discarded up to its end, since the end of the previous packet.
//! Within that span LTTng loses events when the packet is nearly full and the next one is not yet free: the loss is
//! reported at the longest gap between events in the span, and marked as inferred.
//!
//! Not here: CTF 2 (refused by name), lengths and tags that refer to packet headers (no tracer writes them).

mod compiler;
mod header;
mod index;
mod lexer;
mod metadata;
mod packet;
mod stream;
mod tsdl;
mod types;

use std::collections::{BTreeMap, BTreeSet};

use super::item::{Damage, Events, Span};
use super::merge::{self, Merged};
use super::source::{About, Clock, Info, OpenError, Source};
use metadata::Trace;
use packet::{find_packets, Packet};
use stream::Stream;

/// The files of one trace: a directory with `metadata`, its streams, and the `index/` of LTTng.
#[derive(Clone, Debug, Default)]
pub struct TraceFiles<'a> {
    /// Name of the directory, for messages.
    pub name: String,
    /// Contents of `metadata`.
    pub metadata: &'a [u8],
    /// Name and contents of each stream file.
    pub streams: Vec<(String, &'a [u8])>,
    /// Index files: name of the stream file, and contents of the index.
    pub indices: Vec<(String, &'a [u8])>,
}

/// One or several opened traces.
#[derive(Debug)]
pub struct Ctf<'a> {
    about: About,
    traces: Vec<TraceOf>,
    files: Vec<(String, &'a [u8])>,
    /// Packets of each stream, in time order.
    streams: Vec<Vec<Packet>>,
}

#[derive(Debug)]
struct TraceOf {
    metadata: Trace,
    /// Added to raw times if the traces have different clocks.
    offset_ns: i64,
}

/// Distinguishes the streams of one class, by the contents of their packets. The packets of an instance may be from
/// several CPUs, such as those of a thread, and share one numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum StreamKey {
    Instance(u64),
    Cpu(u32),
    File(u32),
}

impl StreamKey {
    fn of(packet: &Packet) -> StreamKey {
        match (packet.instance, packet.cpu) {
            (Some(instance), _) => StreamKey::Instance(instance),
            (None, Some(cpu)) => StreamKey::Cpu(cpu),
            (None, None) => StreamKey::File(packet.file),
        }
    }
}

impl<'a> Ctf<'a> {
    /// Opens traces that belong together. Damage in packets is not an error: it is in [`Info::damage`] or found while
    /// reading.
    ///
    /// # Errors
    /// A trace is not CTF, has another version, or its metadata cannot be read at all.
    pub fn open(inputs: &[TraceFiles<'a>]) -> Result<Self, OpenError> {
        let info = Info { format: "CTF 1.8".into(), ..Info::default() };
        let mut ctf = Ctf {
            about: About { info, ..About::default() },
            traces: Vec::new(),
            files: Vec::new(),
            streams: Vec::new(),
        };
        for input in inputs {
            let metadata = Trace::read(input.metadata, &mut ctf.about.catalogue)?;
            ctf.about.info.damage.extend(metadata.damage.iter().cloned());
            ctf.about.info.origins.push(input.name.clone());
            ctf.traces.push(TraceOf { metadata, offset_ns: 0 });
        }
        if ctf.traces.is_empty() {
            return Err(OpenError::Foreign("no CTF trace: no metadata file".into()));
        }
        ctf.set_clock();
        ctf.note_strangers();
        ctf.describe();
        ctf.collect_packets(inputs);
        Ok(ctf)
    }

    fn set_clock(&mut self) {
        let first = &self.traces[0].metadata.clock;
        let same = self.traces.iter().all(|trace| first.is_same(&trace.metadata.clock));
        let clock = Clock { name: first.name.clone(), epoch_offset_ns: Some(first.epoch_offset_ns()) };
        if same {
            self.about.info.clock = clock;
            return;
        }
        self.about.info.clock = Clock { name: "epoch".into(), epoch_offset_ns: Some(0) };
        self.about
            .info
            .notes
            .push("traces of different clocks: merged by their offsets to wall-clock time".into());
        for trace in &mut self.traces {
            trace.offset_ns = trace.metadata.clock.epoch_offset_ns();
        }
    }

    /// A directory may hold several sessions: across machines or boots, the same tid means different threads.
    fn note_strangers(&mut self) {
        let all = || self.traces.iter().map(|trace| &trace.metadata);
        let hosts: BTreeSet<&str> =
            all().filter_map(|trace| Some(trace.env.get("hostname")?.as_str())).collect();
        let boots: BTreeSet<&str> =
            all().map(|trace| trace.clock.uuid.as_str()).filter(|uuid| !uuid.is_empty()).collect();
        let told = match (hosts.len(), boots.len()) {
            (0 | 1, 0 | 1) => return,
            (0 | 1, boots) => format!("{boots} boots"),
            (machines, _) => format!("{machines} machines"),
        };
        self.about.info.notes.push(format!(
            "traces of {told} read as one: their threads have the same numbers; name the directory of one session"
        ));
    }

    fn describe(&mut self) {
        let kernel =
            self.traces.iter().find(|trace| trace.metadata.env.get("domain").is_some_and(|d| d == "kernel"));
        let env = &kernel.unwrap_or(&self.traces[0]).metadata.env;
        let keys = [
            "sysname",
            "hostname",
            "host",
            "kernel_release",
            "release",
            "kernel_version",
            "architecture",
            "machine",
        ];
        let words: Vec<&str> = keys.iter().filter_map(|key| env.get(*key)).map(String::as_str).collect();
        self.about.info.machine = words.join(" ");
        if env.get("tracer_name").is_some_and(|name| name.starts_with("lttng")) {
            let number = |key| env.get(key).and_then(|text| text.parse::<u32>().ok());
            let version = (number("tracer_major"), number("tracer_minor"), number("tracer_patchlevel"));
            // 5aa835c0 "Use MAX_RT_PRIO offset in sched_wakeup_template".
            let is_old = version.0.is_some() && version < (Some(2), Some(7), Some(1));
            self.about.info.prio_bias = 100;
            self.about.info.woken_prio_bias = if is_old { 0 } else { 100 };
        }
    }

    /// Packets by stream. Rotated files (tracefile or session rotation) become one stream.
    fn collect_packets(&mut self, inputs: &[TraceFiles<'a>]) {
        let mut streams: BTreeMap<(String, u64, StreamKey), Vec<Packet>> = BTreeMap::new();
        for (index, input) in inputs.iter().enumerate() {
            let trace = &self.traces[index].metadata;
            for (name, bytes) in &input.streams {
                let file = self.files.len() as u32;
                let mut damage = Vec::new();
                let mut packets = find_packets(bytes, file, trace, index as u16, &mut damage);
                if let Some((_, index)) = input.indices.iter().find(|(of, _)| of == name) {
                    let (missing, told) = index::missing(index, bytes.len() as u64, &packets);
                    damage.extend(told);
                    packets.extend(missing);
                    packets.sort_by_key(|packet| packet.offset); // stable: packets beyond the end stay in the order of the index
                }
                let named = |damage: Damage| Damage::new(damage.offset, format!("{name}: {}", damage.what));
                self.about.info.damage.extend(damage.into_iter().map(named));
                for packet in packets {
                    let whose = if trace.uuid.is_empty() { index.to_string() } else { trace.uuid.clone() };
                    let key = (whose, packet.stream, StreamKey::of(&packet));
                    streams.entry(key).or_default().push(packet);
                }
                self.files.push((name.clone(), bytes));
            }
        }
        let mut streams_of = self.traces.iter().flat_map(|trace| trace.metadata.streams.values());
        if !streams_of.any(|stream| stream.event_header.has_clock()) {
            self.about.info.limits.push(
                "the events say no time: when they were, and how long anything took, is not recorded".into(),
            );
        }
        let without_cpu = streams.values().flatten().any(|packet| packet.cpu.is_none());
        if without_cpu {
            let what = "packets do not say their CPU: it is given as 0 where events do not say it either";
            self.about.info.notes.push(what.into());
        }
        let lost: u64 = streams.values().map(|packets| lost_packets(packets)).sum();
        if lost > 0 {
            let were = if lost == 1 { "1 packet was" } else { &format!("{lost} packets were") };
            self.about.info.limits.push(format!(
                "{were} lost, as their numbers say: how many events were in them is not recorded"
            ));
        }
        let cpus = streams.values().flatten().filter_map(|packet| packet.cpu).max();
        self.about.info.cpus = cpus.and_then(|most| most.checked_add(1));
        self.streams = streams
            .into_values()
            .map(|mut packets| {
                // Within a file the order is kept, even if time goes backwards; files are sorted.
                let one_file = packets.windows(2).all(|pair| pair[0].file == pair[1].file);
                if !one_file {
                    packets.sort_by_key(|packet| (packet.begin, packet.sequence));
                }
                packets
            })
            .collect();
    }

    #[inline]
    fn ns(&self, trace: &TraceOf, cycles: u64) -> u64 {
        trace.metadata.clock.ns(cycles).wrapping_add_signed(trace.offset_ns)
    }
}

/// Number of packets missing within one stream.
fn lost_packets(packets: &[Packet]) -> u64 {
    let mut numbers: Vec<u64> = packets.iter().filter_map(|packet| packet.sequence).collect();
    numbers.sort_unstable();
    numbers.windows(2).map(|pair| (pair[1] - pair[0]).saturating_sub(1)).fold(0, u64::saturating_add)
}

impl Source for Ctf<'_> {
    fn about(&self) -> &About {
        &self.about
    }

    fn events(&self, span: Span) -> Box<dyn Events + '_> {
        let streams = self.streams.iter().map(|packets| Stream::begin(self, packets, span)).collect();
        Box::new(Merged::new(streams, span))
    }

    fn streams(&self, span: Span) -> Vec<Box<dyn merge::Stream + '_>> {
        self.streams.iter().map(|packets| Box::new(Stream::begin(self, packets, span)) as _).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::item::Item;
    use super::super::user_event::parse_declarations;
    use super::*;
    use crate::export::ctf;
    use crate::time::{Cpu, Mono};

    fn notes(traces: &[(&str, &str)]) -> Vec<String> {
        let text = |&(hostname, boot_id): &(&str, &str)| {
            let (hostname, boot_id) = (hostname.to_owned(), boot_id.to_owned());
            let (comm, created) = ("axis".to_owned(), String::new());
            let trace =
                ctf::Trace { uuid: [1; 16], boot_id, clock_offset_ns: 0, hostname, comm, pid: 7, created };
            ctf::metadata(&trace, &[])
        };
        let texts: Vec<String> = traces.iter().map(text).collect();
        let inputs: Vec<TraceFiles> = texts
            .iter()
            .map(|text| TraceFiles {
                name: String::new(),
                metadata: text.as_bytes(),
                ..TraceFiles::default()
            })
            .collect();
        Ctf::open(&inputs).unwrap().about.info.notes.clone()
    }

    #[test]
    fn a_stream_whose_thread_changes_cpus_has_lost_what_it_says_once() {
        let trace = ctf::Trace {
            uuid: [1; 16],
            boot_id: String::new(),
            clock_offset_ns: 0,
            hostname: String::new(),
            comm: String::new(),
            pid: 7,
            created: String::new(),
        };
        let metadata = ctf::metadata(&trace, &parse_declarations(b"event 0 a:b\nend\n").0);
        let mut stream = ctf::StreamWriter::new(trace.uuid, 1, 0, Mono(0));
        for (at, cpu, discarded) in [(100, 0, 0), (200, 1, 0), (300, 0, 3), (400, 1, 3)] {
            let writer = ctf::Writer { vpid: 7, vtid: 7, procname: b"axis", cpu, discarded };
            stream.open_for(&writer, 0);
            assert!(stream.event(0, Mono(at), &[]));
            stream.close(0);
        }
        let input = TraceFiles {
            name: String::new(),
            metadata: metadata.as_bytes(),
            streams: vec![("ring-1".to_owned(), stream.bytes())],
            ..TraceFiles::default()
        };
        let ctf = Ctf::open(&[input]).unwrap();
        let mut events = ctf.events(Span::ALL);
        let mut told = Vec::new();
        while let Some(item) = events.next() {
            told.push(match item {
                Item::Event(record) => (record.at.0, record.cpu, None),
                Item::Lost(loss) => (loss.before.0, loss.cpu, loss.count),
                Item::Damage(damage) => panic!("{damage:?}"),
            });
        }
        let on = |at, cpu, lost| (at, Cpu(cpu), lost);
        let expected =
            [on(100, 0, None), on(200, 1, None), on(300, 0, Some(3)), on(300, 0, None), on(400, 1, None)];
        assert_eq!(told, expected);
    }

    #[test]
    fn traces_of_other_machines_or_boots_are_not_read_as_one_without_a_word() {
        let boots = ["8b2e5f3a-0000-4000-8000-000000000001", "8b2e5f3a-0000-4000-8000-000000000002"];
        assert!(notes(&[("cell", boots[0]), ("cell", boots[0])]).is_empty());
        assert!(notes(&[("cell", boots[0]), ("cell", boots[1])]).iter().any(|note| note.contains("2 boots")));
        let machines = notes(&[("cell", boots[0]), ("gantry", boots[1])]);
        assert!(machines.iter().any(|note| note.contains("2 machines")));
    }
}

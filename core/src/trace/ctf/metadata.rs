//! The metadata of one trace: clocks, streams, event classes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::super::bytes::{Order, Reader};
use super::super::catalogue::{Catalogue, EventClass, Field, Place};
use super::super::item::Damage;
use super::super::source::OpenError;
use super::super::value::Element;
use super::compiler::Compiler;
use super::header::Header;
use super::tsdl::{self, Block};
use super::types::Type;
use crate::trace::layout::{Layout, Length, Node};

/// Magic number of packets of metadata.
const PACKETS: u32 = 0x75d1_1d57;

/// Fields of all events, contexts and headers, and 32 bytes each of their paths; a kernel with all events has 40,000 fields.
const MOST_NODES: usize = 1 << 19;

/// The metadata of one trace.
#[derive(Debug, Default)]
pub(super) struct Trace {
    pub uuid: String,
    pub packet_header: Layout,
    pub streams: HashMap<u64, Stream>,
    pub clock: Clock,
    pub env: HashMap<String, String>,
    pub damage: Vec<Damage>,
}

/// Streams of one kind (LTTng: a channel).
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub packet_context: Layout,
    pub event_header: Header,
    /// Class in the catalogue, layout after the event header, and its length in bits if that is fixed.
    pub events: Events,
    /// The event header always ends at a byte boundary.
    from_byte: bool,
}

/// Events by id; tracers count ids from 0.
#[derive(Debug, Default)]
pub(super) struct Events {
    dense: Vec<Option<Event>>,
    others: HashMap<u64, Event>,
}

impl Events {
    const DENSE: u64 = 1 << 12;

    #[inline]
    pub fn get(&self, id: u64) -> Option<&Event> {
        match self.dense.get(id as usize) {
            Some(event) if id < Self::DENSE => event.as_ref(),
            _ => self.others.get(&id),
        }
    }

    fn insert(&mut self, id: u64, event: Event) {
        if id >= Self::DENSE {
            self.others.insert(id, event);
            return;
        }
        let index = id as usize;
        if index >= self.dense.len() {
            self.dense.resize_with(index + 1, || None);
        }
        self.dense[index] = Some(event);
    }
}

/// One class of events in one stream.
#[derive(Debug)]
pub(super) struct Event {
    pub class: u32,
    pub layout: Arc<Layout>,
    pub fixed_bits: Option<u64>,
    /// The field with the CPU, if packets do not have it (perf before 4.13).
    pub cpu_leaf: Option<u16>,
}

/// The clock of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Clock {
    pub name: String,
    pub uuid: String,
    pub freq: u64,
    pub offset_s: i128,
    /// In cycles.
    pub offset: i128,
}

impl Default for Clock {
    fn default() -> Self {
        Clock { name: String::new(), uuid: String::new(), freq: 1_000_000_000, offset_s: 0, offset: 0 }
    }
}

impl Clock {
    pub fn ns(&self, cycles: u64) -> u64 {
        match self.freq {
            1_000_000_000 => cycles,
            freq => u64::try_from(u128::from(cycles) * 1_000_000_000 / u128::from(freq)).unwrap_or(u64::MAX),
        }
    }

    /// Whether `other` counts the same time: by their uuid, or without one if nothing distinguishes them.
    pub fn is_same(&self, other: &Clock) -> bool {
        let is_named = !self.uuid.is_empty() && self.uuid == other.uuid;
        self == other || is_named && (&self.name, self.freq) == (&other.name, other.freq)
    }

    /// The time of its zero since the epoch; the nearest limit if it does not fit.
    pub fn epoch_offset_ns(&self) -> i64 {
        let in_ns = |number: i128| number.saturating_mul(1_000_000_000);
        let sum = in_ns(self.offset_s).saturating_add(in_ns(self.offset) / i128::from(self.freq));
        sum.clamp(i64::MIN.into(), i64::MAX.into()) as i64
    }
}

impl Trace {
    /// Reads metadata; adds its events to `catalogue`.
    pub fn read(bytes: &[u8], catalogue: &mut Catalogue) -> Result<Trace, OpenError> {
        let mut trace = Trace::default();
        let text = text_of(bytes, &mut trace.damage)?;
        let (blocks, damage) = tsdl::parse(&text);
        trace.damage.extend(damage);
        if !blocks.iter().any(|block| block.kind == "trace") {
            let why = trace.damage.first().map_or(String::new(), |damage| format!(" ({damage})"));
            return Err(OpenError::Foreign(format!("not CTF 1.8: the metadata declare no trace{why}")));
        }
        let mut budget = MOST_NODES;
        for block in &blocks {
            trace.take(block, &mut budget)?;
        }
        // Without any, all events are in one stream without headers (CTF 1.8.3, 4.1).
        if trace.streams.is_empty() {
            trace.streams.insert(0, Stream::default());
        }
        let mut contexts = HashMap::new();
        for block in blocks.iter().filter(|block| block.kind == "stream") {
            contexts.entry(number_of(block, "id")).or_insert_with(|| block.type_of("event.context"));
        }
        for block in blocks.iter().filter(|block| block.kind == "event") {
            if let Err(damage) = trace.event(block, &contexts, catalogue, &mut budget) {
                trace.damage.push(damage);
            }
        }
        Ok(trace)
    }

    fn take(&mut self, block: &Block, budget: &mut usize) -> Result<(), OpenError> {
        match block.kind.as_str() {
            "trace" => {
                let version = (block.number("major").unwrap_or(1), block.number("minor").unwrap_or(8));
                if version.0 != 1 {
                    let text = format!("CTF {}.{}: this program reads CTF 1.8", version.0, version.1);
                    return Err(OpenError::Unsupported(text));
                }
                block.text("uuid").unwrap_or("").clone_into(&mut self.uuid);
                self.packet_header = compile(&[(block.type_of("packet.header"), "", false)], budget)?;
            }
            // LTTng declares one clock; of several, the first is used.
            "clock" if self.clock.name.is_empty() => self.clock = clock(block),
            "env" => {
                for key in block.attributes.keys() {
                    let number = block.number(key).map(|number| number.to_string());
                    let value = block.text(key).map(str::to_owned).or(number);
                    self.env.insert(key.clone(), value.unwrap_or_default());
                }
            }
            "stream" => {
                let header = compile(&[(block.type_of("event.header"), "", true)], budget)?;
                let stream = Stream {
                    packet_context: compile(&[(block.type_of("packet.context"), "", false)], budget)?,
                    from_byte: header.ends_at_byte(),
                    event_header: Header::of(header),
                    events: Events::default(),
                };
                self.streams.insert(number_of(block, "id"), stream);
            }
            _ => {}
        }
        Ok(())
    }

    fn event(
        &mut self,
        block: &Block,
        contexts: &HashMap<u64, Option<&Type>>,
        catalogue: &mut Catalogue,
        budget: &mut usize,
    ) -> Result<(), Damage> {
        let (id, stream_id) = (number_of(block, "id"), number_of(block, "stream_id"));
        let full_name = block.text("name").unwrap_or("");
        let stream_context = contexts.get(&stream_id).copied().flatten();
        let Some(stream) = self.streams.get_mut(&stream_id) else {
            return Err(Damage::new(
                0,
                format!("metadata: event '{full_name}' of stream {stream_id}, which is not declared"),
            ));
        };
        let parts = [
            (stream_context, "_context", false),
            (block.type_of("context"), "_context", false),
            (block.type_of("fields"), "", false),
        ];
        let layout = compile(&parts, budget)
            .map_err(|damage| Damage::new(0, format!("event '{full_name}': {}", damage.what)))?;
        let (system, name) = full_name.split_once(':').unwrap_or(("", full_name));
        let from_byte = stream.from_byte;
        let layout = Arc::new(layout);
        let (fields, order) = fields(&layout, from_byte);
        let fixed_bits = layout.fixed().1.filter(|_| from_byte);
        let class = catalogue.add(EventClass {
            system: system.to_owned(),
            name: name.to_owned(),
            fields,
            order,
            dynamic: Some(layout.clone()),
        });
        let packets_say = stream.packet_context.find("cpu_id").is_some();
        let cpu_leaf = layout.find("perf_cpu").filter(|_| !packets_say);
        stream.events.insert(id, Event { class, layout, fixed_bits, cpu_leaf });
        Ok(())
    }
}

fn compile(parts: &[(Option<&Type>, &str, bool)], budget: &mut usize) -> Result<Layout, Damage> {
    let mut compiler = Compiler::new(budget);
    for (declared, suffix, header) in parts {
        if let Some(declared) = declared {
            compiler.add(declared, suffix, *header)?;
        }
    }
    Ok(compiler.finish())
}

/// The number `key` of a block; 0 without it.
fn number_of(block: &Block, key: &str) -> u64 {
    block.number(key).unwrap_or(0) as u64
}

/// Fields at fixed bytes are read like those of tracepoints, all others by a walk.
fn fields(layout: &Layout, from_byte: bool) -> (Vec<Field>, Order) {
    let (places, _) = layout.fixed();
    let order = places.iter().find_map(|(_, node)| match node {
        Node::Int { order, bits: 16.., .. } => Some(*order),
        _ => None,
    });
    let order = order.unwrap_or(Order::Little);
    let named = layout.leaves.iter().enumerate().map(|(leaf, name)| {
        let fixed =
            places.get(leaf).filter(|_| from_byte).and_then(|(bit, node)| fixed_place(*bit, node, order));
        Field { name: name.clone(), place: fixed.unwrap_or(Place::Walked { leaf: leaf as u16 }) }
    });
    (named.collect(), order)
}

fn fixed_place(bit: u64, node: &Node, class_order: Order) -> Option<Place> {
    let offset = u32::try_from(bit / 8).ok().filter(|_| bit.is_multiple_of(8))?;
    match node {
        Node::Int { bits: bits @ (8 | 16 | 32 | 64), signed, order, .. }
            if *bits == 8 || *order == class_order =>
        {
            Some(Place::Int { offset, size: bits / 8, signed: *signed })
        }
        Node::Array { element, length: Length::Fixed(count @ 1..), .. } => match **element {
            Node::Int { bits: bits @ (8 | 16 | 32 | 64), signed, order, text, .. }
                if bits == 8 || order == class_order =>
            {
                let size = u32::try_from(count.checked_mul(u64::from(bits / 8))?).ok()?;
                Some(Place::Array { offset, size, element: Element { size: bits / 8, signed, text } })
            }
            _ => None,
        },
        _ => None,
    }
}

fn clock(block: &Block) -> Clock {
    let number = |key: &str| block.number(key);
    Clock {
        name: block.text("name").unwrap_or("").to_owned(),
        uuid: block.text("uuid").unwrap_or("").to_owned(),
        freq: number("freq")
            .and_then(|freq| u64::try_from(freq).ok())
            .filter(|&freq| freq > 0)
            .unwrap_or(1_000_000_000),
        offset_s: number("offset_s").unwrap_or(0),
        offset: number("offset").unwrap_or(0),
    }
}

/// The text of metadata, which LTTng writes in packets.
fn text_of<'a>(bytes: &'a [u8], damage: &mut Vec<Damage>) -> Result<Cow<'a, str>, OpenError> {
    let order = match bytes.get(..4) {
        Some(magic) if Order::Little.unsigned(magic) == u64::from(PACKETS) => Order::Little,
        Some(magic) if Order::Big.unsigned(magic) == u64::from(PACKETS) => Order::Big,
        _ if bytes.starts_with(b"/* CTF 1") => return Ok(String::from_utf8_lossy(bytes)),
        _ if bytes.first() == Some(&0x1e) => {
            return Err(OpenError::Unsupported(
                "CTF 2: this program reads CTF 1.8; convert with babeltrace2".into(),
            ));
        }
        _ => {
            return Err(OpenError::Foreign(
                "not CTF: the metadata begin with neither '/* CTF 1.8 */' nor 75d11d57".into(),
            ))
        }
    };
    let mut text = Vec::new();
    let mut at = 0usize;
    while at < bytes.len() {
        match packet(&bytes[at..], at as u64, order) {
            Ok((content, len)) => {
                text.extend_from_slice(content);
                at += len;
            }
            Err(broken) => {
                damage.push(broken);
                break;
            }
        }
    }
    Ok(Cow::Owned(String::from_utf8_lossy(&text).into_owned()))
}

fn packet(bytes: &[u8], base: u64, order: Order) -> Result<(&[u8], usize), Damage> {
    const HEADER: u64 = 37;
    let mut reader = Reader::new(bytes, base, order);
    if reader.u32("packet of metadata")? != PACKETS {
        return Err(Damage::new(base, "a packet of metadata without its magic number; the rest is not read"));
    }
    reader.take(20, "uuid and checksum")?;
    let content = u64::from(reader.u32("content size")?) / 8;
    let size = u64::from(reader.u32("packet size")?) / 8;
    let (compression, encryption) = (reader.u8("compression")?, reader.u8("encryption")?);
    if compression != 0 || encryption != 0 {
        return Err(Damage::new(base, "a packet of metadata that is compressed or encrypted"));
    }
    if content < HEADER || content > size {
        return Err(Damage::new(base, format!("a packet of metadata of {content} in {size} bytes")));
    }
    reader.take(3, "checksum kind and version")?;
    let text = reader.take((content - HEADER).min(reader.left() as u64), "metadata")?;
    Ok((text, (size as usize).min(bytes.len())))
}

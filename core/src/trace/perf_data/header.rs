//! The header of a perf.data: attributes of the events, tracing data, machine.

use super::super::bytes::{Order, Reader};
use super::super::item::Damage;
use super::super::source::{Clock, OpenError};
use super::super::trace_dat::metadata::Metadata;
use super::sample::{Attribute, Layouts, SampleLayout, Samples};

pub(super) const TRACING_DATA: u32 = 1;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CLOCK_DATA: u32 = 29;
/// PERF_TYPE_TRACEPOINT.
const TRACEPOINT: u32 = 2;
/// Maximum number of attributes; perf opens one per event (and per type of CPU).
const MOST_ATTRIBUTES: u64 = 1 << 16;

pub(super) struct Header<'a> {
    pub tracing: Metadata,
    pub samples: Samples<'a>,
}

#[derive(Clone, Copy)]
struct Section {
    offset: u64,
    size: u64,
}

impl<'a> Header<'a> {
    pub fn read(file: &'a [u8]) -> Result<Self, OpenError> {
        let order = match file.get(..8) {
            Some(b"PERFILE2") => Order::Little,
            Some(b"2ELIFREP") => Order::Big,
            _ => return Err(OpenError::Foreign("not a perf.data: it does not begin with PERFILE2".into())),
        };
        let mut reader = Reader::new(file, 0, order);
        reader.take(8, "magic number")?;
        reader.u64("size of the header")?;
        let attribute_size = reader.u64("size of an attribute")?;
        let attributes = section(&mut reader)?;
        let data = section(&mut reader)?;
        section(&mut reader)?;
        let mut features = Vec::new();
        for word in 0..4u32 {
            let bits = reader.u64("features")?;
            features.extend((0..64).filter(|bit| bits >> bit & 1 == 1).map(|bit| word * 64 + bit));
        }
        let (layouts, clock, sampled) = read_attributes(file, attributes, attribute_size, order)?;
        let sections = feature_sections(file, &features, data, order);
        let find = |wanted: u32| {
            sections.iter().find(|(feature, _)| *feature == wanted).map(|(_, section)| *section)
        };
        let is_there = |section: &Section| section.offset < file.len() as u64;
        let tracing = find(TRACING_DATA).filter(is_there).ok_or_else(|| {
            let (all, end) = (file.len() as u64, data.offset.saturating_add(data.size));
            if data.size == 0 || end > all || features.contains(&TRACING_DATA) {
                let what = format!(
                    "the file ends here, before its tracing data (behind {end}): copy the whole of it, and let perf record end by itself (Ctrl-C, not kill -9)"
                );
                return Damage::new(all, what).into();
            }
            OpenError::Unsupported("a perf.data without tracepoints (no tracing data)".into())
        })?;
        let mut tracing = Metadata::read_perf(bytes(file, tracing), tracing.offset)?;
        let info = &mut tracing.info;
        let words = ["Linux".to_owned()].into_iter();
        let facts = [HOSTNAME, OSRELEASE, ARCH]
            .iter()
            .filter_map(|&feature| text(bytes(file, find(feature)?), order));
        info.machine = words.chain(facts).collect::<Vec<_>>().join(" ");
        info.cpus = find(NRCPUS).and_then(|section| order.u32_at(bytes(file, section), 0));
        info.clock = Clock { name: clock, epoch_offset_ns: None };
        if let Some(section) = find(CLOCK_DATA) {
            let at = |offset| order.u64_at(bytes(file, section), offset);
            info.clock.epoch_offset_ns =
                at(8).zip(at(16)).map(|(wall, clock)| wall.wrapping_sub(clock) as i64);
        }
        let there = bytes(file, data);
        if (there.len() as u64) < data.size || data.size == 0 {
            let what =
                format!("{} bytes of records announced, the file has {} of them", data.size, there.len());
            info.damage.push(Damage::new(file.len() as u64, what));
        }
        if sampled {
            let what =
                "perf recorded only some of the events (-F or -c): what is between them is not what happened";
            info.damage.push(Damage::general(attributes.offset, what));
        }
        let samples = Samples { data: there, offset: data.offset, order, layouts: Layouts::new(&layouts) };
        Ok(Header { tracing, samples })
    }
}

fn section(reader: &mut Reader<'_>) -> Result<Section, Damage> {
    Ok(Section { offset: reader.u64("section")?, size: reader.u64("section")? })
}

/// The bytes of a section that the file has.
fn bytes(file: &[u8], section: Section) -> &[u8] {
    let all = file.len() as u64;
    let begin = section.offset.min(all);
    let end = section.offset.saturating_add(section.size).min(all);
    &file[begin as usize..end as usize]
}

fn feature_sections(file: &[u8], features: &[u32], data: Section, order: Order) -> Vec<(u32, Section)> {
    let table = Section { offset: data.offset.saturating_add(data.size), size: features.len() as u64 * 16 };
    let mut reader = Reader::new(bytes(file, table), table.offset, order);
    features
        .iter()
        .map_while(|&feature| section(&mut reader).ok().map(|section| (feature, section)))
        .collect()
}

/// Texts of features: length, then the text.
fn text(bytes: &[u8], order: Order) -> Option<String> {
    let len = order.u32_at(bytes, 0)? as usize;
    let text = bytes.get(4..4usize.checked_add(len)?)?;
    let text = String::from_utf8_lossy(text).trim_end_matches('\0').to_owned();
    (!text.is_empty()).then_some(text)
}

/// Bit number of a flag of an attribute: on big-endian machines C bit fields start at the other end.
fn bit_of(flag: u32, order: Order) -> u32 {
    match order {
        Order::Little => flag,
        Order::Big => 63 - flag,
    }
}

/// Layout of the samples of each attribute, name of the clock, and whether a tracepoint is only sampled.
fn read_attributes(
    file: &[u8],
    attributes: Section,
    size: u64,
    order: Order,
) -> Result<(Vec<Attribute>, String, bool), OpenError> {
    let all = bytes(file, attributes);
    if size < 64 + 16 || attributes.size / size.max(1) > MOST_ATTRIBUTES {
        return Err(Damage::new(16, format!("attributes of {size} bytes")).into());
    }
    let mut layouts = Vec::new();
    let mut clock = "perf";
    let mut sampled = false;
    let mut ids_left = file.len();
    for attribute in all.chunks_exact(size as usize) {
        let word = |at: usize| order.u64_at(attribute, at).unwrap_or(0);
        let flags = word(40);
        let is_set = |flag| flags >> bit_of(flag, order) & 1 == 1;
        let by_frequency = is_set(10);
        sampled |= order.u32_at(attribute, 0) == Some(TRACEPOINT) && (by_frequency || word(16) > 1);
        if is_set(25) && size >= 96 + 16 {
            clock = match order.u32_at(attribute, 92) {
                Some(1) => "mono",
                Some(4) => "mono_raw",
                Some(7) => "boot",
                _ => "perf",
            };
        }
        let tail = attribute.len() - 16;
        let ids = Section { offset: word(tail), size: word(tail + 8) };
        let ids = bytes(file, ids);
        let Some(left) = ids_left.checked_sub(ids.len()) else {
            return Err(Damage::new(attributes.offset, "attributes with more ids than the file holds").into());
        };
        ids_left = left;
        let ids = ids.chunks_exact(8).map(|id| order.unsigned(id)).collect();
        layouts.push((ids, SampleLayout::new(word(24), word(32), is_set(18))));
    }
    if layouts.is_empty() {
        return Err(
            Damage::new(attributes.offset, "no attributes: nothing says how records are laid out").into()
        );
    }
    Ok((layouts, clock.to_owned(), sampled))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_big_endian_machines_are_read_from_the_other_end() {
        let mut attribute = vec![0; 112];
        attribute[..4].copy_from_slice(&TRACEPOINT.to_be_bytes());
        attribute[24..32].copy_from_slice(&0x86u64.to_be_bytes());
        let flags = 1u64 << (63 - 18) | 1 << (63 - 25);
        attribute[40..48].copy_from_slice(&flags.to_be_bytes());
        attribute[92..96].copy_from_slice(&1u32.to_be_bytes());
        let section = Section { offset: 0, size: 112 };
        let (layouts, clock, sampled) = read_attributes(&attribute, section, 112, Order::Big).unwrap();
        assert_eq!((clock.as_str(), sampled), ("mono", false));
        assert_eq!(layouts[0].1, SampleLayout::new(0x86, 0, true));
    }
}

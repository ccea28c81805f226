//! Converts the other forms of perf.data into the usual one: pipe mode (`perf record -o -`) and compressed records
//! (`perf record -z`).
//!
//! Both are streams: pipe mode has attributes and tracing data among the records; a compressed file is one zstd stream
//! cut into records, whose content may start in one and end in a later one. The result is held in memory; files of the
//! usual form are not changed.

use super::super::bytes::Order;
use super::super::compression::{most_events, Inflater};
use super::super::item::Damage;
use super::super::source::OpenError;
use super::header::TRACING_DATA;
use super::sample::kind;

/// Maximum decompressed bytes held in memory.
const MOST: u64 = 4 << 30;
/// Bytes of a file header.
const FILE_HEADER: usize = 104;
const PIPE_HEADER: usize = 16;

const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const HEADER_FEATURE: u32 = 80;

/// A file of the usual form, with the damage found.
#[derive(Debug)]
pub struct Plain {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Where the stream ends early, if it does.
    pub damage: Option<Damage>,
}

/// The usual form of `file`; `None` if it has that form, or is not a perf.data.
///
/// # Errors
/// It has no attributes, or is too large.
pub fn plain(file: &[u8]) -> Result<Option<Plain>, OpenError> {
    let order = match file.get(..8) {
        Some(b"PERFILE2") => Order::Little,
        Some(b"2ELIFREP") => Order::Big,
        _ => return Ok(None),
    };
    if order.u64_at(file, 8) == Some(PIPE_HEADER as u64) {
        let mut stream = Stream::new(order);
        stream.read(file, PIPE_HEADER, file.len());
        return stream.into_file().map(Some);
    }
    let place = |at| Some((order.u64_at(file, at)?, order.u64_at(file, at + 8)?));
    let (Some((offset, size)), true) = (place(40), file.len() >= FILE_HEADER) else { return Ok(None) };
    let begin = usize::try_from(offset).map_or(file.len(), |offset| offset.min(file.len()));
    let end = offset.saturating_add(size).min(file.len() as u64) as usize;
    if size == 0 || !is_compressed(&file[begin..end], order) {
        return Ok(None);
    }
    if begin < FILE_HEADER {
        let what = format!("records that begin at {begin}, inside the header");
        return Err(Damage::new(40, what).into());
    }
    let mut stream = Stream::new(order);
    // The description before the records is kept; the records and the feature table after them move to the end.
    stream.records = [&file[..begin], &file[end..]].concat();
    let data = stream.records.len() as u64;
    stream.read(file, begin, end);
    let mut bytes = stream.records;
    let records = bytes.len() as u64 - data;
    let features: u32 = file[72..FILE_HEADER].iter().map(|byte| byte.count_ones()).sum();
    let table = file.get(end..end + 16 * features as usize).unwrap_or_default();
    for section in table.chunks_exact(16) {
        let offset = order.unsigned(&section[..8]);
        let moved = if offset < end as u64 { offset } else { offset - (end - begin) as u64 };
        bytes.extend_from_slice(&to_bytes(moved, order));
        bytes.extend_from_slice(&section[8..]);
    }
    bytes[40..48].copy_from_slice(&to_bytes(data, order));
    bytes[48..56].copy_from_slice(&to_bytes(records, order));
    Ok(Some(Plain { bytes, damage: stream.damage }))
}

/// Whether the records are compressed: perf compresses all samples or none.
fn is_compressed(records: &[u8], order: Order) -> bool {
    let mut at = 0;
    while let Some((kind, size)) = head(records, at, order) {
        if matches!(kind, kind::COMPRESSED | kind::COMPRESSED2 | kind::SAMPLE) {
            return kind != kind::SAMPLE;
        }
        let behind = if kind == kind::AUXTRACE { order.u64_at(records, at + 8).unwrap_or(0) } else { 0 };
        at = at.saturating_add(size).saturating_add(usize::try_from(behind).unwrap_or(usize::MAX));
    }
    false
}

/// Kind and size of the record at `at`.
fn head(records: &[u8], at: usize, order: Order) -> Option<(u32, usize)> {
    let size = order.unsigned(records.get(at.checked_add(6)?..at.checked_add(8)?)?) as usize;
    (size >= 8).then_some((order.u32_at(records, at)?, size))
}

fn to_bytes(number: u64, order: Order) -> [u8; 8] {
    match order {
        Order::Little => number.to_le_bytes(),
        Order::Big => number.to_be_bytes(),
    }
}

/// Contents collected from the records.
struct Stream {
    order: Order,
    records: Vec<u8>,
    /// Each with its ids.
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
    features: Vec<(u32, Vec<u8>)>,
    inflater: Inflater,
    /// Decompressed bytes that are not a whole record yet.
    pending: Vec<u8>,
    /// Maximum bytes of the result.
    most: usize,
    damage: Option<Damage>,
}

impl Stream {
    fn new(order: Order) -> Self {
        Stream {
            order,
            records: Vec::new(),
            attributes: Vec::new(),
            features: Vec::new(),
            inflater: Inflater::default(),
            pending: Vec::new(),
            most: 0,
            damage: None,
        }
    }

    fn read(&mut self, file: &[u8], begin: usize, end: usize) {
        self.most = usize::try_from(most_events(file.len() as u64).min(MOST)).unwrap_or(usize::MAX);
        let all = &file[..end];
        let mut at = begin;
        while at < end {
            let next = head(all, at, self.order)
                .and_then(|(kind, size)| Some((kind, all.get(at..)?.split_at_checked(size)?)));
            let Some((kind, (whole, behind))) = next else {
                self.broken(at, "a record that cannot be; the rest of the file is not read");
                return;
            };
            let Some(more) = self.record(kind, whole, behind, at) else {
                self.broken(at, "a record that cannot be; the rest of the file is not read");
                return;
            };
            at += whole.len() + more;
        }
        if !self.pending.is_empty() {
            self.broken(end, "the last compressed record is cut short");
        }
    }

    fn broken(&mut self, at: usize, what: &str) {
        self.damage.get_or_insert(Damage::new(at as u64, what));
    }

    /// Processes one record; returns the number of bytes after it that belong to it. `None`: nothing more can be read.
    fn record(&mut self, kind: u32, whole: &[u8], behind: &[u8], at: usize) -> Option<usize> {
        let body = whole.get(8..)?;
        let number = |at| self.order.u32_at(body, at).map_or(0, |number| number as usize);
        match kind {
            HEADER_ATTR => {
                let (attribute, ids) = body.split_at_checked(number(4).max(64))?;
                self.attributes.push((attribute.to_vec(), ids.to_vec()));
            }
            HEADER_TRACING_DATA => {
                let Some(data) = behind.get(..number(0)) else {
                    self.broken(at, "tracing data are cut short");
                    return None;
                };
                self.features.push((TRACING_DATA, data.to_vec()));
                return Some(data.len());
            }
            HEADER_FEATURE => {
                let feature = u32::try_from(self.order.u64_at(body, 0)?).ok()?;
                self.features.push((feature, body.get(8..)?.to_vec()));
            }
            kind::COMPRESSED => return self.unpack(body, at),
            kind::COMPRESSED2 => {
                let size = usize::try_from(self.order.u64_at(body, 0)?).ok()?;
                return self.unpack(body.get(8..)?.get(..size)?, at);
            }
            _ => {
                self.records.extend_from_slice(whole);
                if kind == kind::AUXTRACE {
                    let own = behind.get(..usize::try_from(self.order.u64_at(body, 0)?).ok()?)?;
                    self.records.extend_from_slice(own);
                    return Some(own.len());
                }
            }
        }
        Some(0)
    }

    fn unpack(&mut self, packed: &[u8], at: usize) -> Option<usize> {
        let left = self.most.saturating_sub(self.records.len());
        let unpacked = self.inflater.unpack(packed, left, &mut self.pending);
        if let Err(error) = &unpacked {
            self.broken(at, &format!("{error}; the rest of the file is not read"));
        }
        // Also the part before an early end.
        let mut whole = 0;
        while let Some((_, size)) = head(&self.pending, whole, self.order) {
            if whole + size > self.pending.len() {
                break;
            }
            whole += size;
        }
        self.records.extend(self.pending.drain(..whole));
        unpacked.is_ok().then_some(0)
    }
}

/// Builds a file section by section.
struct Writer {
    order: Order,
    bytes: Vec<u8>,
}

impl Writer {
    fn number(&mut self, number: u64) {
        self.bytes.extend_from_slice(&to_bytes(number, self.order));
    }

    fn section(&mut self, offset: usize, size: usize) {
        self.number(offset as u64);
        self.number(size as u64);
    }
}

impl Stream {
    /// The file that perf would have written in the usual form.
    fn into_file(self) -> Result<Plain, OpenError> {
        let Stream { order, records, attributes, mut features, damage, .. } = self;
        let Some(longest) = attributes.iter().map(|(attribute, _)| attribute.len()).max() else {
            let text =
                "a perf.data in pipe mode without attributes: nothing says how its records are laid out";
            return Err(OpenError::Unsupported(text.into()));
        };
        features.retain(|(feature, _)| *feature < 256);
        features.sort_by_key(|(feature, _)| *feature);
        features.dedup_by_key(|(feature, _)| *feature);
        let all_ids: usize = attributes.iter().map(|(_, ids)| ids.len()).sum();
        let entries = attributes.len() * (longest + 16);
        let data = FILE_HEADER + entries + all_ids;
        let mut file = Writer { order, bytes: Vec::with_capacity(data + records.len()) };
        file.bytes.extend_from_slice(if order == Order::Little { b"PERFILE2" } else { b"2ELIFREP" });
        file.number(FILE_HEADER as u64);
        file.number(longest as u64 + 16);
        file.section(FILE_HEADER, entries);
        file.section(data, records.len());
        file.section(0, 0);
        for word in 0..4 {
            let bits = features.iter().filter(|(feature, _)| feature / 64 == word);
            file.number(bits.fold(0, |bits, (feature, _)| bits | 1 << (feature % 64)));
        }
        let mut ids_at = FILE_HEADER + entries;
        for (attribute, ids) in &attributes {
            file.bytes.extend_from_slice(attribute);
            file.bytes.resize(file.bytes.len() + longest - attribute.len(), 0);
            file.section(ids_at, ids.len());
            ids_at += ids.len();
        }
        attributes.iter().for_each(|(_, ids)| file.bytes.extend_from_slice(ids));
        file.bytes.extend_from_slice(&records);
        let mut at = file.bytes.len() + features.len() * 16;
        for (_, body) in &features {
            file.section(at, body.len());
            at += body.len();
        }
        features.iter().for_each(|(_, body)| file.bytes.extend_from_slice(body));
        Ok(Plain { bytes: file.bytes, damage })
    }
}

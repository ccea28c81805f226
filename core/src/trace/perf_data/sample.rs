//! Records of the data section, and the offsets of their parts.

use std::collections::HashMap;

use super::super::bytes::Order;

/// Kinds of records (include/uapi/linux/perf_event.h, tools/lib/perf/include/perf/event.h).
pub(super) mod kind {
    pub const LOST: u32 = 2;
    pub const COMM: u32 = 3;
    pub const SAMPLE: u32 = 9;
    pub const LOST_SAMPLES: u32 = 13;
    pub const AUXTRACE: u32 = 71;
    pub const COMPRESSED: u32 = 81;
    pub const COMPRESSED2: u32 = 83;
}

mod bit {
    pub const IP: u64 = 1 << 0;
    pub const TID: u64 = 1 << 1;
    pub const TIME: u64 = 1 << 2;
    pub const ADDR: u64 = 1 << 3;
    pub const READ: u64 = 1 << 4;
    pub const CALLCHAIN: u64 = 1 << 5;
    pub const ID: u64 = 1 << 6;
    pub const CPU: u64 = 1 << 7;
    pub const PERIOD: u64 = 1 << 8;
    pub const STREAM_ID: u64 = 1 << 9;
    pub const RAW: u64 = 1 << 10;
    pub const IDENTIFIER: u64 = 1 << 16;
}

/// Offsets of the parts of a sample, in bytes after the record header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct SampleLayout {
    time: Option<usize>,
    cpu: Option<usize>,
    /// First byte after the parts of fixed size.
    rest: usize,
    sample_type: u64,
    read_format: u64,
    /// Other records also end with time and CPU.
    id_all: bool,
}

impl SampleLayout {
    pub fn new(sample_type: u64, read_format: u64, id_all: bool) -> Self {
        let mut at = 0;
        let (mut time, mut cpu) = (None, None);
        let order = [
            bit::IDENTIFIER,
            bit::IP,
            bit::TID,
            bit::TIME,
            bit::ADDR,
            bit::ID,
            bit::STREAM_ID,
            bit::CPU,
            bit::PERIOD,
        ];
        for part in order.into_iter().filter(|part| sample_type & part != 0) {
            match part {
                bit::TIME => time = Some(at),
                bit::CPU => cpu = Some(at),
                _ => {}
            }
            at += 8;
        }
        SampleLayout { time, cpu, rest: at, sample_type, read_format, id_all }
    }

    /// The raw data, as (start, end) in `body`.
    fn raw(&self, body: &[u8], order: Order) -> Option<(usize, usize)> {
        let mut at = self.rest;
        if self.sample_type & bit::READ != 0 {
            at = self.behind_read(body, order, at)?;
        }
        if self.sample_type & bit::CALLCHAIN != 0 {
            let count = usize::try_from(order.u64_at(body, at)?).ok()?;
            at = at.checked_add(count.checked_add(1)?.checked_mul(8)?)?;
        }
        if self.sample_type & bit::RAW == 0 {
            return None;
        }
        let len = order.u32_at(body, at)? as usize;
        Some((at + 4, (at + 4).checked_add(len)?.min(body.len())))
    }

    fn behind_read(&self, body: &[u8], order: Order, at: usize) -> Option<usize> {
        let has = |bit: u64| usize::from(self.read_format & bit != 0);
        let times = has(1) + has(2);
        let values = 1 + has(4) + has(16);
        if has(8) == 0 {
            return Some(at + 8 * (times + values));
        }
        let count = usize::try_from(order.u64_at(body, at)?).ok()?;
        at.checked_add(8 * (1 + times))?.checked_add(count.checked_mul(8 * values)?)
    }

    /// Time and CPU at the end of a record that is not a sample.
    fn trailer(&self, body: &[u8], order: Order) -> (Option<u64>, Option<u32>) {
        let parts = [bit::TID, bit::TIME, bit::ID, bit::STREAM_ID, bit::CPU, bit::IDENTIFIER];
        let size = 8 * parts.iter().filter(|part| self.sample_type & **part != 0).count();
        let (Some(begin), true) = (body.len().checked_sub(size), self.id_all) else { return (None, None) };
        let (mut time, mut cpu, mut at) = (None, None, begin);
        for part in parts.into_iter().filter(|part| self.sample_type & part != 0) {
            match part {
                bit::TIME => time = order.u64_at(body, at),
                bit::CPU => cpu = order.u32_at(body, at),
                _ => {}
            }
            at += 8;
        }
        (time, cpu)
    }
}

/// Ids of the events of one attribute, and the layout of their samples.
pub(super) type Attribute = (Vec<u64>, SampleLayout);

/// The layout of each sample, found by its id: the kernel numbers events consecutively.
#[derive(Debug)]
pub(super) struct Layouts {
    /// Each one once; the first is that of unknown ids, and of all samples if they have no id.
    layouts: Vec<SampleLayout>,
    /// The smallest id.
    first: u64,
    /// Index in `layouts` of each id from `first`.
    near: Vec<u32>,
    /// Ids too far from it.
    far: HashMap<u64, u32>,
}

/// Maximum number of ids of the table, 256 KB.
const NEAR: usize = 1 << 16;

impl Layouts {
    /// `attributes`: at least one. If several have an id, its layout is that of the first.
    pub fn new(attributes: &[Attribute]) -> Self {
        let (mut layouts, mut known) = (Vec::new(), HashMap::new());
        let mut index = |layout: &SampleLayout| {
            *known.entry(*layout).or_insert_with(|| {
                layouts.push(*layout);
                layouts.len() as u32 - 1
            })
        };
        let indices: Vec<u32> = attributes.iter().map(|(_, layout)| index(layout)).collect();
        let each = || {
            let all = attributes.iter().zip(&indices).rev();
            all.flat_map(|((ids, _), at)| ids.iter().map(|id| (*id, *at)))
        };
        let first = each().map(|(id, _)| id).min().unwrap_or(0);
        let (mut near, mut far) = (Vec::new(), HashMap::new());
        if layouts.len() > 1 {
            for (id, index) in each() {
                match usize::try_from(id - first) {
                    Ok(at) if at < NEAR => {
                        near.resize(near.len().max(at + 1), 0);
                        near[at] = index;
                    }
                    _ => drop(far.insert(id, index)),
                }
            }
        }
        Layouts { layouts, first, near, far }
    }

    fn of(&self, body: &[u8], order: Order) -> Option<&SampleLayout> {
        let first = &self.layouts[0];
        if self.layouts.len() == 1 || first.sample_type & bit::IDENTIFIER == 0 {
            return Some(first);
        }
        let id = order.u64_at(body, 0)?;
        let near = usize::try_from(id.wrapping_sub(self.first)).ok().and_then(|at| self.near.get(at));
        let index = near.or_else(|| self.far.get(&id)).copied().unwrap_or(0);
        Some(&self.layouts[index as usize])
    }
}

/// All records.
#[derive(Debug)]
pub(super) struct Samples<'a> {
    pub data: &'a [u8],
    /// Offset of `data` in the file.
    pub offset: u64,
    pub order: Order,
    pub layouts: Layouts,
}

/// One record.
#[derive(Clone, Copy, Debug)]
pub(super) struct PerfRecord<'a> {
    pub kind: u32,
    pub body: &'a [u8],
    pub time: Option<u64>,
    pub cpu: Option<u32>,
    /// Tracepoint data, of samples.
    pub raw: Option<&'a [u8]>,
    /// Offset of the next record in `data`.
    pub next: usize,
}

impl<'a> Samples<'a> {
    /// The record at `at`; `None` at the end, `Some(None)` if it is invalid.
    pub fn record(&self, at: usize) -> Option<Option<PerfRecord<'a>>> {
        if at >= self.data.len() {
            return None;
        }
        Some(self.record_there(at))
    }

    fn record_there(&self, at: usize) -> Option<PerfRecord<'a>> {
        let kind = self.order.u32_at(self.data, at)?;
        let size = self.order.unsigned(self.data.get(at + 6..at + 8)?) as usize;
        if size < 8 {
            return None;
        }
        let mut next = at.checked_add(size)?;
        let body = self.data.get(at + 8..next)?;
        let mut record = PerfRecord { kind, body, time: None, cpu: None, raw: None, next };
        if kind == kind::SAMPLE {
            let layout = self.layouts.of(body, self.order)?;
            record.time = layout.time.and_then(|at| self.order.u64_at(body, at));
            record.cpu = layout.cpu.and_then(|at| self.order.u32_at(body, at));
            record.raw = layout.raw(body, self.order).and_then(|(begin, end)| body.get(begin..end));
        } else if kind < 64 {
            (record.time, record.cpu) = self.layouts.layouts[0].trailer(body, self.order);
        } else if kind == kind::AUXTRACE {
            // Its data follow the record and are not counted in its size.
            next = next.checked_add(usize::try_from(self.order.u64_at(body, 0)?).ok()?)?;
            record.next = next;
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_has_the_layout_of_its_id_near_or_far_and_of_the_first_if_unknown() {
        let types = [0, bit::TIME, bit::CPU].map(|more| SampleLayout::new(bit::IDENTIFIER | more, 0, true));
        let [plain, timed, placed] = types;
        let layouts = Layouts::new(&[
            (vec![10, 11], plain),
            (vec![12, 11, 1 << 40], timed),
            (vec![13, u64::MAX], placed),
        ]);
        let of = |id: u64| *layouts.of(&id.to_le_bytes(), Order::Little).unwrap();
        let found = [10, 11, 12, 13, 1 << 40, u64::MAX, 9, 14, 1 << 41].map(of);
        assert_eq!(found, [plain, plain, timed, placed, timed, placed, plain, plain, plain]);
        assert_eq!(layouts.of(&[0; 4], Order::Little), None, "too short for an id");
    }
}

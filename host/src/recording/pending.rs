//! Flight records that are not explained yet, a few at a time. Each is up to half a megabyte, so they are kept
//! compressed.

use lathunt_core::time::{Cpu, Mono, Ns, Tid};

use crate::recorder::Frozen;

/// A thread and its switch-in: the key common to an activation and its flight record.
pub(super) type Moment = (Tid, Mono);

/// A waiting flight record, compressed to about a tenth.
pub struct Packed {
    frozen: Frozen, // its bytes, compressed if `length` has their original length
    length: Option<usize>,
}

impl Packed {
    /// Compresses; some ms for half a megabyte.
    #[must_use]
    pub fn new(mut frozen: Frozen) -> Packed {
        let packed = zstd::bulk::compress(&frozen.bytes, 1).ok();
        let length = packed.is_some().then_some(frozen.bytes.len());
        frozen.bytes = packed.unwrap_or(frozen.bytes);
        Packed { frozen, length }
    }

    /// Decompresses.
    #[must_use]
    pub fn unpacked(&self) -> Frozen {
        let Frozen { cpu, id, trigger, .. } = self.frozen;
        let bytes = self.length.and_then(|length| zstd::bulk::decompress(&self.frozen.bytes, length).ok());
        Frozen { cpu, id, bytes: bytes.unwrap_or_else(|| self.frozen.bytes.clone()), trigger }
    }

    /// CPU of its ring.
    pub(super) fn cpu(&self) -> Cpu {
        self.frozen.cpu
    }

    /// How late its victim was.
    pub(super) fn total(&self) -> Ns {
        self.frozen.trigger.victim.map_or(Ns::ZERO, |victim| victim.total)
    }
}

/// The oldest first.
pub(super) struct Pending {
    records: Vec<(Moment, Packed)>,
    least: Ns,
}

impl Pending {
    pub fn new() -> Pending {
        Pending { records: Vec::new(), least: Ns(u64::MAX) }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Moment, Packed)> {
        self.records.iter()
    }

    pub fn push(&mut self, moment: Moment, packed: Packed) {
        self.least = self.least.min(packed.total());
        self.records.push((moment, packed));
    }

    pub fn remove(&mut self, at: usize) -> (Moment, Packed) {
        let removed = self.records.remove(at);
        self.weigh();
        removed
    }

    /// Drops that of `moment`, of a case of `total`. About 1 ns if all are later than that: called for each activation.
    pub fn forget(&mut self, moment: Moment, total: Ns) {
        if total >= self.least {
            self.retain(|of| of != moment);
        }
    }

    pub fn retain(&mut self, keep: impl Fn(Moment) -> bool) {
        self.records.retain(|(moment, _)| keep(*moment));
        self.weigh();
    }

    pub fn take(&mut self) -> Vec<(Moment, Packed)> {
        std::mem::replace(self, Pending::new()).records
    }

    fn weigh(&mut self) {
        self.least = self.records.iter().map(|(_, packed)| packed.total()).min().unwrap_or(Ns(u64::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Trigger;

    #[test]
    fn a_record_comes_out_as_it_went_in() {
        let trigger = Trigger { victim: None, asked: true, at: Mono(5) };
        for bytes in
            [vec![], vec![7; 200_000], (0..50_000u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect()]
        {
            let frozen = Frozen { cpu: Cpu(1), id: 9, bytes, trigger };
            let out = Packed::new(frozen.clone()).unpacked();
            assert_eq!((out.cpu, out.id, out.trigger), (frozen.cpu, frozen.id, frozen.trigger));
            assert!(out.bytes == frozen.bytes, "{} bytes", frozen.bytes.len());
        }
        let even = Frozen { cpu: Cpu(0), id: 1, bytes: vec![7; 200_000], trigger };
        assert!(Packed::new(even).frozen.bytes.len() < 2_000);
    }
}

//! Flight records that nobody has explained yet, few at a time: each is up to half a megabyte.

use lathunt_core::time::{Mono, Ns, Tid};

use crate::recorder::Frozen;

/// A thread and when it was switched in: what an activation and its flight record have in common.
pub(super) type Moment = (Tid, Mono);

/// The oldest first.
pub(super) struct Pending {
    records: Vec<(Moment, Frozen)>,
    least: Ns,
}

impl Pending {
    pub fn new() -> Pending {
        Pending { records: Vec::new(), least: Ns(u64::MAX) }
    }

    pub fn len(&self) -> usize {
        self.records.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &(Moment, Frozen)> {
        self.records.iter()
    }

    /// How late the victim of a record was.
    pub fn total(frozen: &Frozen) -> Ns {
        frozen.trigger.victim.map_or(Ns::ZERO, |victim| victim.total)
    }

    pub fn push(&mut self, moment: Moment, frozen: Frozen) {
        self.least = self.least.min(Pending::total(&frozen));
        self.records.push((moment, frozen));
    }

    pub fn remove(&mut self, at: usize) -> (Moment, Frozen) {
        let removed = self.records.remove(at);
        self.weigh();
        removed
    }

    /// Drops that of `moment`, of a case of `total`. About 1 ns when none was so little late: asked for each activation.
    pub fn forget(&mut self, moment: Moment, total: Ns) {
        if total >= self.least {
            self.retain(|of| of != moment);
        }
    }

    pub fn retain(&mut self, keep: impl Fn(Moment) -> bool) {
        self.records.retain(|(moment, _)| keep(*moment));
        self.weigh();
    }

    pub fn take(&mut self) -> Vec<(Moment, Frozen)> {
        std::mem::replace(self, Pending::new()).records
    }

    fn weigh(&mut self) {
        self.least =
            self.records.iter().map(|(_, frozen)| Pending::total(frozen)).min().unwrap_or(Ns(u64::MAX));
    }
}

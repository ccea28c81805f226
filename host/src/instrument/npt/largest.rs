//! The largest gap of each second of one CPU. The measuring thread keeps them itself, so that none is lost if gaps come
//! faster than the follower takes them.

use std::collections::BTreeMap;

use lathunt_core::npt::text::GAPS_DROPPED;
use lathunt_core::run::Loss;
use lathunt_core::series::SecondMax;
use lathunt_core::time::{Mono, Ns};

use super::anchors::Anchors;

/// By the second since the measurement began.
#[derive(Debug, Default)]
pub(super) struct Largest {
    gaps: BTreeMap<u32, Gap>,
}

#[derive(Clone, Copy, Debug)]
struct Gap {
    /// Start and end.
    ticks: (u64, u64),
    begin: Mono,
    length: Ns,
}

impl Largest {
    /// Adds seconds with start and end in ticks, all of them before the newest anchor of `clock`.
    pub fn take(&mut self, gaps: Vec<(u32, u64, u64)>, clock: &Anchors) {
        for (second, begin, end) in gaps {
            let ticks = (begin, end);
            if self.gaps.get(&second).is_some_and(|known| known.ticks == ticks) {
                continue; // the anchors around it may be gone
            }
            let (begin, end) = (clock.mono(begin), clock.mono(end));
            self.gaps.insert(second, Gap { ticks, begin, length: end.since(begin) });
        }
    }

    /// The maxima, in order.
    pub fn seconds(&self) -> Vec<SecondMax> {
        self.gaps.iter().map(|(&second, gap)| SecondMax { second, max_ns: gap.length }).collect()
    }

    /// Start and length of each.
    pub fn gaps(&self) -> impl Iterator<Item = (Mono, Ns)> + '_ {
        self.gaps.values().map(|gap| (gap.begin, gap.length))
    }
}

/// The loss of gaps that found no room; `None`: none were lost.
pub(super) fn dropped(count: u64) -> Option<Loss> {
    (count > 0).then(|| Loss {
        counter: GAPS_DROPPED.to_owned(),
        count,
        meaning: "gaps that came faster than they could be read: counted as iterations, but without a cause, and only \
                  the largest of each second can be among the worst"
            .to_owned(),
        evidence_only: true,
    })
}

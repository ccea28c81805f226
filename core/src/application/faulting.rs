//! Page faults of a thread, by memory.

use serde::{Deserialize, Serialize};

/// Page faults of a thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Faulting {
    /// Wake-ups followed by page faults.
    pub wakeups: u64,
    /// Maximum number after one wake-up.
    pub most: u64,
    /// Place of the last fault after each wake-up, the most frequent first. Only the first [`Faulting::PLACES`]
    /// distinct pages are kept.
    pub places: Vec<FaultPlace>,
}

/// Memory with page faults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FaultPlace {
    /// Number of wake-ups.
    pub wakeups: u64,
    /// Address of the first fault.
    pub address: u64,
    /// A file, `heap`, `stack`, `anonymous memory`; `None`: not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl Faulting {
    /// Maximum number of distinct pages.
    pub const PLACES: usize = 16;
    const PAGE: u64 = 4096;

    /// Adds the `faults` after one wake-up, the last at `address`.
    pub(super) fn add(&mut self, faults: u64, address: u64) {
        self.wakeups += 1;
        self.most = self.most.max(faults);
        let page = |address: u64| address / Self::PAGE;
        let known = self.places.iter_mut().find(|place| page(place.address) == page(address));
        if let Some(place) = known {
            place.wakeups += 1;
        } else if self.places.len() < Self::PLACES {
            self.places.push(FaultPlace { wakeups: 1, address, memory: None });
        }
    }

    /// Names the memory of each address; pages of the same memory become one place.
    pub fn name(&mut self, memory: impl Fn(u64) -> Option<String>) {
        let mut places: Vec<FaultPlace> = Vec::new();
        for mut place in std::mem::take(&mut self.places) {
            place.memory = memory(place.address);
            let same = |other: &&mut FaultPlace| place.memory.is_some() && other.memory == place.memory;
            match places.iter_mut().find(same) {
                Some(other) => other.wakeups += place.wakeups,
                None => places.push(place),
            }
        }
        places.sort_by_key(|place| std::cmp::Reverse(place.wakeups));
        self.places = places;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_one_memory_are_one_place_and_the_most_frequent_comes_first() {
        let mut faulting = Faulting::default();
        for (faults, address) in [(3, 0x5000), (1, 0x9008), (1, 0x9ff8), (2, 0xa000), (1, 0x7000)] {
            faulting.add(faults, address);
        }
        faulting.name(|address| (address >= 0x9000).then(|| "heap".to_owned()));
        let told: Vec<_> =
            faulting.places.iter().map(|one| (one.wakeups, one.address, one.memory.as_deref())).collect();
        assert_eq!(told, [(3, 0x9008, Some("heap")), (1, 0x5000, None), (1, 0x7000, None)]);
        assert_eq!((faulting.wakeups, faulting.most), (5, 3));
    }

    #[test]
    fn wake_ups_are_counted_also_where_there_are_more_pages_than_are_told_apart() {
        let mut faulting = Faulting::default();
        (0..100).for_each(|page| faulting.add(1, page * Faulting::PAGE));
        assert_eq!((faulting.wakeups, faulting.places.len()), (100, Faulting::PLACES));
    }
}

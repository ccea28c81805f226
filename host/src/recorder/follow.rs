//! How the kernel side recognizes threads that join a selection: `struct followed` of src/bpf/follow.h, restated.

use lathunt_core::glob::{Glob, Place};

/// What selects a thread, besides being forked by a measured one.
#[derive(Clone, Debug)]
pub enum Follow {
    /// Nothing else.
    Forks,
    /// A name.
    Names(Names),
    /// Executing a program in this cgroup v2, or one below it.
    Cgroup {
        /// The kernel's number of the group.
        id: u64,
        /// Its depth below the root.
        level: u32,
    },
}

/// Name patterns as a state machine of at most 64 states, all of which are followed at once: a matching byte advances
/// state i to i + 1, and any byte keeps a state after a `*`. (Navarro and Raffinot, Flexible Pattern Matching in Strings,
/// 2002, 4.2: Shift-And.)
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    accepts: Box<[u64; 256]>,
    begin: u64,
    loops: u64,
    end: u64,
    states: u32,
}

impl Names {
    /// `None`: together they need more than 64 states.
    #[must_use]
    pub fn of(patterns: &[Glob]) -> Option<Names> {
        let mut names = Names { accepts: Box::new([0; 256]), begin: 0, loops: 0, end: 0, states: 0 };
        patterns.iter().try_for_each(|pattern| names.add(pattern))?;
        Some(names)
    }

    fn add(&mut self, pattern: &Glob) -> Option<()> {
        self.begin |= self.state()?;
        for place in pattern.places() {
            match place {
                Place::Any => self.loops |= self.state()?,
                Place::One(bytes) => {
                    let state = self.state()?;
                    let all = (0..=u8::MAX).zip(self.accepts.iter_mut());
                    all.filter(|(byte, _)| bytes.contains(*byte)).for_each(|(_, accepts)| *accepts |= state);
                    self.states += 1;
                }
            }
        }
        self.end |= self.state()?;
        self.states += 1;
        Some(())
    }

    fn state(&self) -> Option<u64> {
        1_u64.checked_shl(self.states)
    }

    /// The decision of the kernel side's `is_chosen_name`.
    #[cfg(test)]
    pub(crate) fn matches(&self, name: &[u8]) -> bool {
        let step =
            |states: u64, &byte: &u8| (states & self.accepts[usize::from(byte)]) << 1 | (states & self.loops);
        name.iter().fold(self.begin, step) & self.end != 0
    }
}

/// `enum followed_by`.
const BY_FORK_ALONE: u32 = 0;
const BY_NAME: u32 = 1;
const BY_CGROUP: u32 = 2;

impl Follow {
    /// `struct followed`.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let (names, cgroup, level, by) = match self {
            Follow::Forks => (None, 0, 0, BY_FORK_ALONE),
            Follow::Names(names) => (Some(names), 0, 0, BY_NAME),
            Follow::Cgroup { id, level } => (None, *id, *level, BY_CGROUP),
        };
        let none = [0; 256];
        let accepts = names.map_or(&none, |names| &*names.accepts);
        let states = names.map_or([0; 3], |names| [names.begin, names.loops, names.end]);
        let words = accepts.iter().chain(&states).chain([&cgroup]).flat_map(|word| word.to_ne_bytes());
        words.chain([level, by].iter().flat_map(|half| half.to_ne_bytes())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_beyond_64_states_are_none() {
        let long = |places: usize| Glob::new("?".repeat(places).as_bytes());
        assert!(Names::of(&[long(63)]).is_some_and(|names| names.matches(&[b'x'; 63])));
        assert_eq!(Names::of(&[long(64)]), None);
        assert!(Names::of(&[long(31), long(31)]).is_some_and(|names| names.matches(&[b'x'; 31])));
        assert_eq!(Names::of(&[long(31), long(32)]), None);
        let open = Glob::new(("?".repeat(63) + "*").as_bytes());
        assert!(Names::of(&[open]).is_some_and(|names| names.matches(&[b'x'; 70])));
    }
}

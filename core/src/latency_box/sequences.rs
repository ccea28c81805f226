//! Sequence numbers of stimuli in a responder: missing and repeated ones.

/// Window of remembered numbers, back from the highest.
const REMEMBERED: u64 = 1 << 16;
const WORDS: usize = (REMEMBERED / 64) as usize;

/// The numbers of one session.
#[derive(Clone, Debug)]
pub struct Sequences {
    seen: Box<[u64]>,
    highest: u64,
    came: u64,
    duplicated: u64,
    out_of_order: u64,
}

impl Default for Sequences {
    fn default() -> Sequences {
        Sequences { seen: vec![0; WORDS].into(), highest: 0, came: 0, duplicated: 0, out_of_order: 0 }
    }
}

impl Sequences {
    /// Adds a number; returns whether it is new. One before the window counts as a duplicate, so that no loss is
    /// hidden.
    pub fn take(&mut self, number: u64) -> bool {
        if number == 0 {
            return false;
        }
        if number > self.highest {
            // The numbers between are missing.
            let first = (self.highest + 1).max(number.saturating_sub(REMEMBERED - 1));
            (first..number).for_each(|missing| self.mark(missing, false));
            self.highest = number;
        } else {
            if self.highest - number >= REMEMBERED || self.has(number) {
                self.duplicated += 1;
                return false;
            }
            self.out_of_order += 1;
        }
        self.mark(number, true);
        self.came += 1;
        true
    }

    fn mark(&mut self, number: u64, came: bool) {
        let (word, bit) = ((number % REMEMBERED / 64) as usize, 1u64 << (number % 64));
        match came {
            true => self.seen[word] |= bit,
            false => self.seen[word] &= !bit,
        }
    }

    fn has(&self, number: u64) -> bool {
        self.seen[(number % REMEMBERED / 64) as usize] & (1 << (number % 64)) != 0
    }

    /// The highest number; 0: none.
    #[must_use]
    pub fn highest(&self) -> u64 {
        self.highest
    }

    /// Count of distinct numbers.
    #[must_use]
    pub fn came(&self) -> u64 {
        self.came
    }

    /// Count of repeated numbers.
    #[must_use]
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    /// Count of new numbers received after a higher one.
    #[must_use]
    pub fn out_of_order(&self) -> u64 {
        self.out_of_order
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_counted_is_what_came(steps in proptest::collection::vec((0u64..400, 0u64..60_000), 1..200)) {
            let mut sequences = Sequences::default();
            let (mut seen, mut highest, mut again, mut disorder) = (BTreeSet::new(), 0u64, 0, 0);
            for (forward, back) in steps {
                let number = (highest + forward).saturating_sub(if forward % 3 == 0 { back } else { 0 }).max(1);
                let is_new = seen.insert(number);
                prop_assert_eq!(sequences.take(number), is_new);
                again += u64::from(!is_new);
                disorder += u64::from(is_new && number < highest);
                highest = highest.max(number);
            }
            prop_assert_eq!((sequences.came(), sequences.highest()), (seen.len() as u64, highest));
            prop_assert_eq!((sequences.duplicated(), sequences.out_of_order()), (again, disorder));
        }
    }

    #[test]
    fn what_is_too_far_back_to_be_known_hides_no_loss() {
        let mut sequences = Sequences::default();
        assert!(sequences.take(1) && sequences.take(1_000_000));
        assert!(!sequences.take(2) && !sequences.take(0));
        assert_eq!((sequences.came(), sequences.duplicated()), (2, 1));
    }
}

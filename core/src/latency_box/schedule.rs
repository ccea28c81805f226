//! Due times of stimuli: an absolute schedule, independent of the answers.
//!
//! Times are ns since the start. A late box skips stimuli; each skipped one is counted and included in the latency from
//! the due time.

use crate::random::Random;
use crate::time::Ns;

/// Pattern of stimuli.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// One per interval.
    Periodic,
    /// Uniformly distributed between half and one and a half intervals.
    Random {
        /// Seed of the random numbers.
        seed: u64,
    },
    /// The interval grows from 0.5 to 1.5 times itself in this many steps, repeatedly: finds beats with periods of the
    /// machine under test.
    Swept {
        /// Steps of one sweep; at least 2.
        steps: u32,
    },
    /// This many at once, then the interval.
    Burst {
        /// Stimuli of one burst; at least 1.
        size: u32,
    },
}

/// The schedule of one channel.
#[derive(Clone, Debug)]
pub struct Schedule {
    pattern: Pattern,
    interval: u64,
    random: Random,
    step: u32,
    next: u64,
}

/// Stimuli skipped by a late sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Stimuli.
    pub count: u64,
    /// When the first of them was due.
    pub first: Ns,
}

impl Schedule {
    /// The first stimulus is due after one interval.
    #[must_use]
    pub fn new(pattern: Pattern, interval: Ns) -> Schedule {
        let seed = if let Pattern::Random { seed } = pattern { seed } else { 0 };
        let interval = interval.0.max(1);
        Schedule { pattern, interval, random: Random::new(seed), step: 0, next: interval }
    }

    /// When the next stimulus is due.
    #[must_use]
    pub fn due(&self) -> Ns {
        Ns(self.next)
    }

    /// Advances to the next stimulus.
    pub fn advance(&mut self) {
        self.next = self.next.saturating_add(self.distance());
    }

    fn distance(&mut self) -> u64 {
        let (half, interval) = (self.interval / 2, self.interval);
        match self.pattern {
            Pattern::Periodic => interval,
            Pattern::Random { .. } => self.random.between(half.max(1), (interval + half).max(1)),
            Pattern::Swept { steps } => {
                let steps = steps.max(2);
                self.step = (self.step + 1) % steps;
                (half + interval * u64::from(self.step) / u64::from(steps - 1)).max(1)
            }
            Pattern::Burst { size } => {
                self.step = (self.step + 1) % size.max(1);
                if self.step == 0 {
                    interval
                } else {
                    0
                }
            }
        }
    }

    /// Skips all stimuli due at `now` except the latest. A burst is not split: all of it is due at once.
    pub fn skip_until(&mut self, now: Ns) -> Skipped {
        let mut skipped = Skipped { count: 0, first: Ns(self.next) };
        if self.pattern == Pattern::Periodic {
            // In one step, also after a suspend of days.
            let passed = now.0.saturating_sub(self.next) / self.interval;
            self.next = self.next.saturating_add(passed.saturating_mul(self.interval));
            skipped.count = passed;
            return skipped;
        }
        loop {
            let mut after = self.clone();
            after.advance();
            // Iterates over at most a billion stimuli, for a long suspend.
            if after.next > now.0 || after.next == self.next || skipped.count >= 1_000_000_000 {
                return skipped;
            }
            *self = after;
            skipped.count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn dues(pattern: Pattern, n: usize) -> Vec<u64> {
        let mut schedule = Schedule::new(pattern, Ns(1_000));
        (0..n)
            .map(|_| {
                let due = schedule.due().0;
                schedule.advance();
                due
            })
            .collect()
    }

    #[test]
    fn each_pattern_keeps_its_distances() {
        assert_eq!(dues(Pattern::Periodic, 4), [1_000, 2_000, 3_000, 4_000]);
        assert_eq!(dues(Pattern::Burst { size: 3 }, 5), [1_000, 1_000, 1_000, 2_000, 2_000]);
        assert_eq!(dues(Pattern::Swept { steps: 3 }, 5), [1_000, 2_000, 3_500, 4_000, 5_000]);
        let random = dues(Pattern::Random { seed: 4 }, 1_000);
        assert!(random.windows(2).all(|pair| (500..=1_500).contains(&(pair[1] - pair[0]))));
        assert_eq!(random, dues(Pattern::Random { seed: 4 }, 1_000));
        assert_ne!(random, dues(Pattern::Random { seed: 5 }, 1_000));
    }

    proptest! {
        #[test]
        fn nothing_due_is_forgotten(pattern in 0..3usize, pauses in proptest::collection::vec(0u64..20_000, 1..200)) {
            let pattern = [Pattern::Periodic, Pattern::Random { seed: 1 }, Pattern::Swept { steps: 7 }][pattern];
            let mut schedule = Schedule::new(pattern, Ns(1_000));
            let (mut now, mut sent, mut skipped) = (0, 0, 0);
            for pause in pauses {
                now = schedule.due().0.max(now) + pause;
                skipped += schedule.skip_until(Ns(now)).count;
                prop_assert!(schedule.due().0 <= now);
                sent += 1;
                schedule.advance();
                prop_assert!(schedule.due().0 > now, "the latest that was due is sent");
            }
            let due = dues(pattern, 10_000).into_iter().filter(|&due| due <= now).count() as u64;
            prop_assert!(due == sent + skipped || due == 10_000);
        }
    }
}

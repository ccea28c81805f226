//! Was the wall clock set, did the machine sleep? Told from three clocks read together.
//!
//! Wall clock minus monotonic clock changes only when somebody sets the wall clock or the machine sleeps; boot clock minus
//! monotonic clock only when it sleeps. Slewing (NTP) moves the first difference by at most 500 ppm, far below what
//! counts as a step between two looks.

use crate::time::Ns;

/// Three clocks, read one right after the other, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_REALTIME` since 1970.
    pub wall_ns: i64,
    /// `CLOCK_MONOTONIC`: stands while the machine sleeps.
    pub mono_ns: i64,
    /// `CLOCK_BOOTTIME`: goes on while the machine sleeps.
    pub boot_ns: i64,
}

/// What happened between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The machine slept this long.
    Slept(Ns),
    /// The wall clock was set: ns forward, negative is back.
    Stepped(i64),
}

/// Smaller differences are slewing, or the time between the three readings.
const STEP_NS: i64 = 100_000_000;

/// Remembers the differences of the clocks.
#[derive(Clone, Copy, Debug)]
pub struct Timepiece {
    wall_less_boot: i64,
    boot_less_mono: i64,
}

impl Timepiece {
    /// Begins with a first look.
    #[must_use]
    pub fn new(first: Reading) -> Timepiece {
        Timepiece {
            wall_less_boot: first.wall_ns - first.boot_ns,
            boot_less_mono: first.boot_ns - first.mono_ns,
        }
    }

    /// What happened since the last look, in the order in which it makes sense to tell.
    pub fn look(&mut self, now: Reading) -> Vec<Change> {
        let next = Timepiece::new(now);
        let slept = next.boot_less_mono - self.boot_less_mono;
        let stepped = next.wall_less_boot - self.wall_less_boot;
        *self = next;
        let mut changes = Vec::new();
        if slept >= STEP_NS {
            changes.push(Change::Slept(Ns(slept as u64)));
        }
        if stepped.abs() >= STEP_NS {
            changes.push(Change::Stepped(stepped));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn reading(wall: i64, mono: i64, boot: i64) -> Reading {
        Reading { wall_ns: wall, mono_ns: mono, boot_ns: boot }
    }

    #[test]
    fn steps_and_sleep_are_told_apart_and_slewing_is_neither() {
        let mut timepiece = Timepiece::new(reading(1_000 * SECOND, 10 * SECOND, 20 * SECOND));
        assert_eq!(timepiece.look(reading(1_001 * SECOND, 11 * SECOND, 21 * SECOND)), []);
        // 500 ppm over a whole hour between two looks of a second each: below the limit every time
        assert_eq!(timepiece.look(reading(1_002 * SECOND + 500_000, 12 * SECOND, 22 * SECOND)), []);
        let hour = 3_600 * SECOND;
        assert_eq!(
            timepiece.look(reading(1_003 * SECOND + hour, 13 * SECOND, 23 * SECOND + hour)),
            [Change::Slept(Ns(hour as u64))]
        );
        assert_eq!(
            timepiece.look(reading(1_004 * SECOND, 14 * SECOND, 24 * SECOND + hour)),
            [Change::Stepped(-hour)]
        );
        assert_eq!(timepiece.look(reading(1_005 * SECOND, 15 * SECOND, 25 * SECOND + hour)), []);
    }

    #[test]
    fn a_clock_set_on_waking_up_is_both() {
        let mut timepiece = Timepiece::new(reading(1_000 * SECOND, 10 * SECOND, 10 * SECOND));
        let changes = timepiece.look(reading(1_100 * SECOND, 11 * SECOND, 61 * SECOND));
        assert_eq!(changes, [Change::Slept(Ns(50 * SECOND as u64)), Change::Stepped(49 * SECOND)]);
    }
}

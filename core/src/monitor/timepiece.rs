//! Detects clock steps and suspends, and converts CLOCK_MONOTONIC to the wall clock of that time, from three clocks
//! read together.
//!
//! Wall clock minus monotonic clock changes only if the wall clock is set or the machine is suspended; boot clock minus
//! monotonic clock only if it is suspended. Slewing (NTP) changes the first difference by at most 500 ppm, far less
//! than a step between two readings.

use std::collections::VecDeque;

use super::window::UnixMs;
use crate::time::{Mono, Ns};

/// Three clocks, read directly one after another, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// `CLOCK_REALTIME` since 1970.
    pub wall_ns: i64,
    /// `CLOCK_MONOTONIC`: stops during suspend.
    pub mono_ns: i64,
    /// `CLOCK_BOOTTIME`: runs during suspend.
    pub boot_ns: i64,
}

/// Change between two readings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The machine was suspended this long.
    Slept(Ns),
    /// The wall clock was set: ns forward, negative is back.
    Stepped(i64),
}

/// Smaller differences are slewing, or the time between the three readings.
const STEP_NS: i64 = 100_000_000;

/// Maximum number of remembered changes, to convert times of the past: a job may end several windows after its wake-up.
const MOST_SEGMENTS: usize = 16;

/// A time span without a change of the difference between wall and monotonic clock, except for slewing.
#[derive(Clone, Copy, Debug)]
struct Segment {
    /// When the change before it was detected.
    from_mono: i64,
    wall_less_mono: i64,
}

/// Remembers the differences of the clocks.
#[derive(Clone, Debug)]
pub struct ClockOffsets {
    wall_less_boot: i64,
    boot_less_mono: i64,
    /// The last one is current.
    segments: VecDeque<Segment>,
}

impl ClockOffsets {
    /// Starts with a first reading.
    #[must_use]
    pub fn new(first: Reading) -> ClockOffsets {
        ClockOffsets {
            wall_less_boot: first.wall_ns - first.boot_ns,
            boot_less_mono: first.boot_ns - first.mono_ns,
            segments: VecDeque::from([segment(first)]),
        }
    }

    /// Changes since the last reading, in a sensible order.
    pub fn look(&mut self, now: Reading) -> Vec<Change> {
        let (wall_less_boot, boot_less_mono) = (now.wall_ns - now.boot_ns, now.boot_ns - now.mono_ns);
        let slept = boot_less_mono - self.boot_less_mono;
        let stepped = wall_less_boot - self.wall_less_boot;
        (self.wall_less_boot, self.boot_less_mono) = (wall_less_boot, boot_less_mono);
        let mut changes = Vec::new();
        if slept >= STEP_NS {
            changes.push(Change::Slept(Ns(slept as u64)));
        }
        if stepped.abs() >= STEP_NS {
            changes.push(Change::Stepped(stepped));
        }
        self.follow(segment(now), !changes.is_empty());
        changes
    }

    fn follow(&mut self, now: Segment, changed: bool) {
        match self.segments.back_mut().filter(|_| !changed) {
            // Slewing: past times are off by at most 500 ppm of their age.
            Some(last) => last.wall_less_mono = now.wall_less_mono,
            None => self.segments.push_back(now),
        }
        while self.segments.len() > MOST_SEGMENTS {
            self.segments.pop_front();
        }
    }

    /// Converts `at` to the wall clock of that time, before later changes. For times before the first reading or all
    /// remembered changes, uses the earliest known difference.
    #[must_use]
    pub fn wall_of(&self, at: Mono) -> UnixMs {
        self.told(at, self.segments.len())
    }

    /// As [`ClockOffsets::wall_of`], but without the last change: for a window that ends with it, although slightly later.
    #[must_use]
    pub fn wall_before_change(&self, at: Mono) -> UnixMs {
        self.told(at, self.segments.len().saturating_sub(1))
    }

    fn told(&self, at: Mono, segments: usize) -> UnixMs {
        let at = i64::try_from(at.0).unwrap_or(i64::MAX);
        let then = self.segments.iter().take(segments).rev().find(|segment| segment.from_mono <= at);
        let offset = then.or(self.segments.front()).map_or(0, |segment| segment.wall_less_mono);
        UnixMs(at.saturating_add(offset).div_euclid(1_000_000))
    }
}

fn segment(now: Reading) -> Segment {
    Segment { from_mono: now.mono_ns, wall_less_mono: now.wall_ns - now.mono_ns }
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
        let mut timepiece = ClockOffsets::new(reading(1_000 * SECOND, 10 * SECOND, 20 * SECOND));
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
        let mut timepiece = ClockOffsets::new(reading(1_000 * SECOND, 10 * SECOND, 10 * SECOND));
        let changes = timepiece.look(reading(1_100 * SECOND, 11 * SECOND, 61 * SECOND));
        assert_eq!(changes, [Change::Slept(Ns(50 * SECOND as u64)), Change::Stepped(49 * SECOND)]);
    }

    /// `at` seconds of the monotonic clock, in seconds of the wall clock.
    fn wall(timepiece: &ClockOffsets, at: f64) -> f64 {
        timepiece.wall_of(Mono((at * 1e9) as u64)).as_secs()
    }

    #[test]
    fn a_moment_is_told_by_the_wall_clock_of_its_time() {
        let hour: i64 = 3_600;
        let mut timepiece = ClockOffsets::new(reading(1_000 * SECOND, 10 * SECOND, 10 * SECOND));
        // Slewed by 0.4 ms.
        timepiece.look(reading(1_001 * SECOND + 400_000, 11 * SECOND, 11 * SECOND));
        assert_eq!(wall(&timepiece, 9.5), 999.5);
        assert_eq!(wall(&timepiece, 10.999_7), 1_001.0);
        // Set forward by an hour, asleep for an hour, set back by two.
        let at = |seconds: i64, wall: i64, boot: i64| reading(wall * SECOND, seconds * SECOND, boot * SECOND);
        assert_eq!(timepiece.look(at(12, 1_002 + hour, 12)).len(), 1);
        assert_eq!(timepiece.look(at(13, 1_003 + 2 * hour, 13 + hour)).len(), 1);
        assert_eq!(timepiece.look(at(14, 1_004, 14 + hour)).len(), 1);
        timepiece.look(at(15, 1_005, 15 + hour));
        for (seconds, told) in [
            (10.5, 1_000.5),
            (11.5, 1_001.5),
            (12.5, 1_002.5 + hour as f64),
            (13.5, 1_003.5 + 2.0 * hour as f64),
            (14.5, 1_004.5),
            (16.0, 1_006.0),
        ] {
            assert!(
                (wall(&timepiece, seconds) - told).abs() < 0.001,
                "{seconds}: {}",
                wall(&timepiece, seconds)
            );
        }
    }

    #[test]
    fn what_ends_with_a_change_is_told_by_the_clock_before_it() {
        let mut timepiece = ClockOffsets::new(reading(1_000 * SECOND, 10 * SECOND, 10 * SECOND));
        let before = |timepiece: &ClockOffsets, seconds: u64| {
            timepiece.wall_before_change(Mono(seconds * SECOND as u64)).as_secs()
        };
        assert_eq!(before(&timepiece, 11), 1_001.0, "there is no other clock");
        timepiece.look(reading(8_202 * SECOND, 12 * SECOND, 12 * SECOND));
        assert_eq!([11, 13].map(|at| before(&timepiece, at)), [1_001.0, 1_003.0]);
        timepiece.look(reading(4_604 * SECOND, 14 * SECOND, 14 * SECOND));
        assert_eq!([11, 13, 15].map(|at| before(&timepiece, at)), [1_001.0, 8_203.0, 8_205.0]);
    }

    #[test]
    fn the_last_changes_are_remembered_and_no_more() {
        let mut timepiece = ClockOffsets::new(reading(0, 0, 0));
        for second in 1..1_000 {
            // Each second set forward by one more.
            assert_eq!(
                timepiece.look(reading(2 * second * SECOND, second * SECOND, second * SECOND)).len(),
                1
            );
        }
        assert_eq!(timepiece.segments.len(), MOST_SEGMENTS);
        assert_eq!(wall(&timepiece, 998.5), 2.0 * 998.0 + 0.5);
        assert_eq!(wall(&timepiece, 0.0), 984.0, "as after the oldest change that is remembered");
    }
}

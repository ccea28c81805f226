//! The time: `CLOCK_MONOTONIC`, read from the CPU's counter if the kernel trusts that too.
//!
//! The counter is anchored to `CLOCK_MONOTONIC` at least every millisecond: an NTP slew of 500 ppm adds less than 0.5 ns per
//! microsecond between anchors. The value never steps back.

use crate::arch;

/// Ns between anchors.
const ANCHOR_EVERY: u64 = 1_000_000;

/// A clock of one kernel thread.
#[derive(Debug)]
pub struct Clock {
    /// Ticks between anchors; 0: the counter is not used.
    anchor_ticks: u64,
    /// Ns per tick, 32.32 fixed point.
    rate: u64,
    ticks: u64,
    ns: u64,
    first: (u64, u64),
    last: u64,
}

/// `CLOCK_MONOTONIC` in ns; no system call if the vDSO serves it.
#[must_use]
#[inline]
pub fn monotonic() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// A clock of the kernel in ns.
#[must_use]
#[inline]
pub fn read(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writing; a clock that does not exist leaves it 0.
    unsafe { libc::clock_gettime(clock, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Converts an absolute time of another clock to `CLOCK_MONOTONIC`. A later step of the other clock is not followed.
#[must_use]
pub fn to_monotonic(clock: libc::clockid_t, time: u64) -> u64 {
    if clock == libc::CLOCK_MONOTONIC {
        return time;
    }
    let (before, other, after) = (monotonic(), read(clock), monotonic());
    let now = before + (after - before) / 2;
    if time >= other {
        now.saturating_add(time - other)
    } else {
        now.saturating_sub(other - time)
    }
}

impl Clock {
    /// Calibrates the counter for 2 ms if it is usable.
    #[must_use]
    pub fn new() -> Clock {
        let mut clock = Clock { anchor_ticks: 0, rate: 0, ticks: 0, ns: 0, first: (0, 0), last: 0 };
        if !arch::invariant() || !kernel_uses(arch::clocksource()) {
            return clock;
        }
        clock.first = pair();
        let mut now = pair();
        while now.1 < clock.first.1 + 2 * ANCHOR_EVERY {
            now = pair();
        }
        clock.take_anchor(now);
        clock
    }

    /// Whether the counter is used.
    #[must_use]
    pub fn uses_counter(&self) -> bool {
        self.anchor_ticks != 0
    }

    /// Now, in ns of `CLOCK_MONOTONIC`. Some 10 ns.
    #[inline(always)]
    pub fn now(&mut self) -> u64 {
        if self.anchor_ticks == 0 {
            return monotonic();
        }
        let passed = arch::counter().wrapping_sub(self.ticks);
        let now = if passed < self.anchor_ticks {
            self.ns + ((passed * self.rate) >> 32)
        } else {
            let now = pair();
            self.take_anchor(now);
            now.1
        };
        self.last = self.last.max(now);
        self.last
    }

    #[cold]
    fn take_anchor(&mut self, now: (u64, u64)) {
        let (ticks, ns) = (now.0.wrapping_sub(self.first.0), now.1 - self.first.1);
        if ticks > 0 {
            self.rate = ((u128::from(ns) << 32) / u128::from(ticks)) as u64;
            self.anchor_ticks = (u128::from(ANCHOR_EVERY) * u128::from(ticks) / u128::from(ns.max(1))) as u64;
        }
        // The last second determines the rate: the kernel adjusts it.
        if ns > 1_000_000_000 {
            self.first = (self.ticks, self.ns);
        }
        (self.ticks, self.ns) = now;
    }
}

#[cfg(test)]
impl Clock {
    /// Reads this many ns less from now on, and is never corrected. No effect if the counter is not used.
    pub(crate) fn lag(&mut self, ns: u64) {
        if self.uses_counter() {
            self.take_anchor(pair());
            self.ns -= ns;
            self.anchor_ticks = u64::MAX;
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

/// Counter and time of one moment. Another program that ran between the readings would put them milliseconds apart: of three
/// tries the one that took the fewest ticks counts.
fn pair() -> (u64, u64) {
    narrowest([(); 3].map(|()| (arch::counter(), monotonic(), arch::counter())))
}

/// Out of (counter before, time in ns, counter after).
fn narrowest(tries: [(u64, u64, u64); 3]) -> (u64, u64) {
    let took = |&(before, _, after): &(u64, u64, u64)| after.wrapping_sub(before);
    let best = tries.iter().min_by_key(|reading| took(reading)).unwrap_or(&tries[0]);
    (best.0.wrapping_add(took(best) / 2), best.1)
}

fn kernel_uses(name: &[u8]) -> bool {
    std::fs::read("/sys/devices/system/clocksource/clocksource0/current_clocksource")
        .is_ok_and(|text| text.trim_ascii_end() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_follows_the_kernels_and_never_steps_back() {
        let mut clock = Clock::new();
        let mut last = 0;
        let end = monotonic() + 30_000_000;
        while monotonic() < end {
            let (before, now, after) = (monotonic(), clock.now(), monotonic());
            assert!(now >= last);
            last = now;
            // Between two kernel readings, except for the rate's error within a millisecond.
            assert!(now + 2000 >= before && now <= after + 2000, "{before} {now} {after}");
        }
    }

    #[test]
    fn a_reading_that_others_interrupted_does_not_count() {
        assert_eq!(
            narrowest([(100, 7, 9_000_100), (9_000_200, 9_007, 9_000_240), (9_000_300, 9_107, 9_000_360)]),
            (9_000_220, 9_007)
        );
        assert_eq!(narrowest([(u64::MAX - 9, 5, 10), (50, 6, 900), (950, 7, 2000)]), (0, 5), "it wraps");
    }

    #[test]
    fn a_time_of_another_clock_becomes_monotonic() {
        let later = read(libc::CLOCK_REALTIME) + 5_000_000;
        let converted = to_monotonic(libc::CLOCK_REALTIME, later);
        let expected = monotonic() + 5_000_000;
        assert!(converted <= expected && expected - converted < 1_000_000_000);
    }
}

//! Converts ticks of the loop's clock to CLOCK_MONOTONIC: both are read together every few ms; times in between are
//! interpolated. Accurate to some 20 ns, unless NTP changes the rate of the clock in between.

use std::collections::VecDeque;

use lathunt_core::time::Mono;

use super::turn::Read;
use crate::clock::mono as now;

/// Moments at which both clocks were read.
pub(super) struct Anchors {
    read: Read,
    kept: VecDeque<(u64, Mono)>,
}

impl Anchors {
    pub fn new(read: Read) -> Anchors {
        let mut anchors = Anchors { read, kept: VecDeque::new() };
        anchors.anchor();
        anchors
    }

    /// Keeps the closest of a few pairs of reads.
    pub fn anchor(&mut self) {
        const KEPT: usize = 4_096;
        let pair = |_| {
            let (before, ticks, after) = (now(), self.read.ticks(), now());
            (after.since(before), ticks, Mono(before.0 / 2 + after.0 / 2))
        };
        if let Some((_, ticks, mono)) = (0..8).map(pair).min() {
            self.kept.push_back((ticks, mono));
        }
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
    }

    /// `ticks` on CLOCK_MONOTONIC, interpolated between the anchors around it.
    pub fn mono(&self, ticks: u64) -> Mono {
        if self.read == Read::Gettime {
            return Mono(ticks);
        }
        let at = self.kept.partition_point(|(known, _)| *known <= ticks);
        let high = at.clamp(1, self.kept.len().saturating_sub(1).max(1));
        let (Some(&(t0, m0)), Some(&(t1, m1))) = (self.kept.get(high - 1), self.kept.get(high)) else {
            return self.kept.front().map_or(Mono(0), |(_, mono)| *mono);
        };
        let share = ticks.wrapping_sub(t0) as i64 as f64 / t1.wrapping_sub(t0).max(1) as f64;
        Mono(m0.0.saturating_add_signed((share * m1.since(m0).0 as f64).round() as i64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_between_two_anchors_is_between_their_times() {
        let mut anchors = Anchors::new(Read::best().0);
        std::thread::sleep(std::time::Duration::from_millis(5));
        let (before, ticks, after) = (now(), anchors.read.ticks(), now());
        std::thread::sleep(std::time::Duration::from_millis(5));
        anchors.anchor();
        let told = anchors.mono(ticks).0;
        // 1 µs, for a machine that interrupts the reads of an anchor.
        assert!(
            (before.0.saturating_sub(1_000)..=after.0 + 1_000).contains(&told),
            "{before} {told} {after}"
        );
    }
}

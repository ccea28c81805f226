//! The loop: read the clock, compute the time since the previous read, call the probe, repeat.
//!
//! One loop is compiled for each way to read the clock and each kind of probe, all inlined, so that an iteration has no
//! branch on either.

use lathunt_core::npt::turns::Turns;
use lathunt_core::time::Ns;

use crate::arch;
use crate::clock::mono as now;
use crate::error::{Error, Result};
use crate::tree::{Tree, LIVE};

/// How an iteration reads the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// The processor's counter, unordered (x86: RDTSC).
    Plain,
    /// The counter after all earlier instructions (RDTSCP).
    Ordered,
    /// The counter with fences on both sides.
    Fenced,
    /// `clock_gettime(CLOCK_MONOTONIC)`: for a counter that is not invariant.
    Gettime,
}

impl Read {
    /// The fastest that can be trusted here, and why it is not the counter.
    #[must_use]
    pub fn best() -> (Read, Option<String>) {
        match untrusted() {
            None => (Read::Plain, None),
            Some(why) => (Read::Gettime, Some(format!("read by clock_gettime: {why}"))),
        }
    }

    /// This way, if it can be trusted.
    ///
    /// # Errors
    /// If the counter cannot serve as a clock here.
    pub fn checked(self) -> Result<Read> {
        match untrusted() {
            Some(why) if self != Read::Gettime => {
                Err(Error::refused("use", "the processor's counter as a clock", why))
            }
            _ => Ok(self),
        }
    }

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Read::Plain => "plain",
            Read::Ordered => "ordered",
            Read::Fenced => "fenced",
            Read::Gettime => "gettime",
        }
    }

    /// The clock now, in its ticks.
    #[inline(always)]
    pub(super) fn ticks(self) -> u64 {
        match self {
            Read::Plain => arch::counter_plain(),
            Read::Ordered => arch::counter_ordered(),
            Read::Fenced => arch::counter(),
            Read::Gettime => now().0,
        }
    }

    /// Length of a tick, ns: stated, or measured over 100 ms.
    pub(super) fn tick_ns(self) -> f64 {
        if self == Read::Gettime {
            return 1.0;
        }
        let (from, begin) = (arch::counter(), now());
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (to, end) = (arch::counter(), now());
        end.since(begin).0 as f64 / to.wrapping_sub(from).max(1) as f64
    }
}

/// Why the counter cannot serve as a clock; `None`: it can. Follows the kernel's own choice, which watches the counter.
fn untrusted() -> Option<String> {
    if arch::counter_is_invariant() != Some(true) {
        return Some("the processor does not promise a counter of constant rate".to_owned());
    }
    let source = Tree::new(std::path::Path::new(LIVE))
        .text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let trusted = ["tsc", "arch_sys_counter", "kvm-clock", "hyperv_clocksource_tsc_page"];
    match source {
        Some(source) if !trusted.contains(&source.as_str()) => {
            Some(format!("the kernel's clock source is {source}"))
        }
        _ => None,
    }
}

/// The event in each iteration.
pub(super) trait Probe {
    /// One event; `turn` and `ticks` are its payload.
    fn fire(&mut self, turn: u64, ticks: u64);
}

/// What happens at a gap; not part of any iteration.
pub(super) trait OnGap {
    /// An iteration from `begin` to `end` was a gap.
    fn gap(&mut self, begin: u64, end: u64);
}

/// Uninterrupted cost of handling a gap: the smallest number of ticks seen so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Handling(Option<u64>);

impl Handling {
    /// The part of `spent` that is the handling itself. The first value is accepted up to 10 µs.
    fn usual(&mut self, spent: u64, turns: &Turns) -> u64 {
        let least = spent.min(self.0.unwrap_or(spent));
        let believed = self.0.is_some() || turns.ns(spent) < Ns::from_us(10);
        self.0 = Some(least);
        if believed {
            least
        } else {
            0
        }
    }
}

/// Runs `count` iterations from the read `last` on; returns the last read. `read` is a constant at each call.
#[inline(always)]
pub(super) fn turns(
    read: Read,
    probe: &mut impl Probe,
    turns: &mut Turns,
    gaps: &mut impl OnGap,
    handling: &mut Handling,
    count: u64,
    mut last: u64,
) -> u64 {
    let mut turn = 0;
    while turn < count {
        let mut short = turns.short();
        let (begin, end) = loop {
            if turn == count {
                return last;
            }
            probe.fire(turn, last);
            turn += 1;
            let now = read.ticks();
            if !short.count(now.wrapping_sub(last)) {
                break (last, now);
            }
            last = now;
        };
        drop(short); // counts the iteration before the gap
        last = long(read, turns, gaps, handling, (begin, end));
    }
    last
}

/// A gap. Handling it here is not measured, unless the handling itself is interrupted for the length of a gap: the time
/// beyond the usual is the next gap.
#[cold]
#[inline(never)]
fn long(
    read: Read,
    turns: &mut Turns,
    gaps: &mut impl OnGap,
    handling: &mut Handling,
    (mut begin, mut end): (u64, u64),
) -> u64 {
    loop {
        // Negative time is ignored: the counters of two CPUs would have to differ, and the thread is pinned.
        let ticks = if (end.wrapping_sub(begin) as i64) < 0 { 0 } else { end - begin };
        turns.long(ticks);
        if !turns.is_long(ticks) {
            return end; // beyond the table, not a gap
        }
        gaps.gap(begin, end);
        let after = read.ticks();
        begin = end.wrapping_add(handling.usual(after.wrapping_sub(end), turns));
        if !turns.is_long(after.wrapping_sub(begin)) {
            return after;
        }
        end = after;
    }
}

struct Nothing;

impl Probe for Nothing {
    #[inline(always)]
    fn fire(&mut self, _: u64, _: u64) {}
}

impl OnGap for Nothing {
    fn gap(&mut self, _: u64, _: u64) {}
}

/// ns of an iteration without and with statistics, measured over `count` iterations each: the cost of observing.
#[must_use]
pub fn cost_of_statistics(count: u64) -> (f64, f64) {
    let tick_ns = Read::Plain.tick_ns();
    let mut table = Turns::new(tick_ns, Ns::from_us(1));
    let per_turn = |from: u64, to: u64| to.wrapping_sub(from) as f64 * tick_ns / count as f64;
    let mut handling = Handling::default();
    turns(Read::Plain, &mut Nothing, &mut table, &mut Nothing, &mut handling, 10_000, arch::counter());
    let begin = arch::counter();
    for _ in 0..count {
        std::hint::black_box(Read::Plain.ticks());
    }
    let bare = per_turn(begin, arch::counter());
    let begin = arch::counter();
    turns(Read::Plain, &mut Nothing, &mut table, &mut Nothing, &mut handling, count, begin);
    (bare, per_turn(begin, arch::counter()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `usual` for each gap, and once longer.
    struct Slow {
        usual: Ns,
        once: Option<Ns>,
        seen: Vec<u64>,
    }

    impl OnGap for Slow {
        fn gap(&mut self, begin: u64, end: u64) {
            self.seen.push(end - begin);
            let until = now() + self.usual + self.once.take_if(|_| self.seen.len() == 3).unwrap_or(Ns::ZERO);
            while now() < until {}
        }
    }

    /// Reading a model-specific register takes longer than the shortest threshold: handling must not count as a gap each
    /// time, and an interruption of it must be one, of its own length.
    #[test]
    fn handling_a_gap_is_none_unless_it_is_interrupted() {
        let mut table = Turns::new(1.0, Ns(1_000));
        let mut gaps = Slow { usual: Ns::from_us(300), once: Some(Ns::from_ms(200)), seen: Vec::new() };
        let mut handling = Handling::default();
        for _ in 0..20 {
            let end = now().0;
            long(Read::Gettime, &mut table, &mut gaps, &mut handling, (end - 5_000, end));
        }
        let longest = gaps.seen.iter().copied().max().unwrap_or(0);
        assert!((190_000_000..3_000_000_000).contains(&longest), "{:?}", gaps.seen);
        assert!((20..400).contains(&gaps.seen.len()), "{:?}", gaps.seen);
        assert_eq!(gaps.seen.iter().filter(|&&gap| gap == 5_000).count(), 20);
    }
}

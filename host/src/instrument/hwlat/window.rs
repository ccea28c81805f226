//! The loop itself, for one window: each moment of it is in an iteration or a gap, or is not counted as watched.
//!
//! Handling a gap takes longer than the threshold, so it is left out, with everything that happens meanwhile.

use lathunt_core::time::{Mono, Ns};

use crate::{arch, clock};

/// The clocks that the loop reads.
pub(super) trait Clocks {
    /// CLOCK_MONOTONIC.
    fn mono(&self) -> Mono;
    /// The processor's counter.
    fn counter(&self) -> u64;
}

/// Those of the machine.
pub(super) struct Live;

impl Clocks for Live {
    #[inline]
    fn mono(&self) -> Mono {
        clock::mono()
    }

    #[inline]
    fn counter(&self) -> u64 {
        arch::counter()
    }
}

/// A gap by both clocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Span {
    pub begin: Mono,
    pub end: Mono,
    pub counter_ns: Ns,
}

impl Span {
    pub fn gap(&self) -> Ns {
        self.end.since(self.begin)
    }
}

/// How long it took to handle a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Handled {
    /// Much less than the threshold: part of the next iteration.
    AtOnce,
    /// Perhaps longer: that time is not watched.
    Slowly,
}

/// Settings of the loop.
pub(super) struct Loop {
    /// Length of a window.
    pub width: Ns,
    /// Smallest gap.
    pub threshold: Ns,
    /// Length of a tick of the counter, in ns.
    pub tick_ns: f64,
}

impl Loop {
    /// Spins for one window; `look` is called in each iteration, `keep` with each gap. Returns the time watched: all of it is
    /// in iterations shorter than the threshold, and in gaps.
    pub fn run<C: Clocks>(&self, clocks: &C, look: impl Fn(), keep: &mut impl FnMut(Span) -> Handled) -> Ns {
        let (mut before, mut ticks) = both(clocks, self.threshold);
        let (begin, mut left_out) = (before, Ns::ZERO);
        while before.since(begin) < self.width {
            look();
            let (now, counter) = (clocks.mono(), clocks.counter());
            if !self.is_gap(self.span((before, ticks), (now, counter))) {
                (before, ticks) = (now, counter);
                continue;
            }
            // A stall between the two reads above shows in one of them only; reading again, both have it.
            let again = both(clocks, self.threshold);
            let restart = match keep(self.span((before, ticks), again)) {
                Handled::AtOnce => again,
                Handled::Slowly => both(clocks, self.threshold),
            };
            left_out = left_out + restart.0.since(again.0);
            (before, ticks) = restart;
        }
        before.since(begin).saturating_sub(left_out)
    }

    fn span(&self, from: (Mono, u64), to: (Mono, u64)) -> Span {
        let counter_ns = Ns((to.1.wrapping_sub(from.1) as f64 * self.tick_ns) as u64);
        Span { begin: from.0, end: to.0, counter_ns }
    }

    fn is_gap(&self, span: Span) -> bool {
        span.gap() >= self.threshold || span.counter_ns >= self.threshold
    }
}

/// Maximum number of reads of both clocks; enough unless the threshold is less than the cost of a read.
const READS: usize = 100;

/// Both clocks at one moment: read again if something came in between.
fn both<C: Clocks>(clocks: &C, threshold: Ns) -> (Mono, u64) {
    let mut nearest: Option<(Ns, (Mono, u64))> = None;
    for _ in 0..READS {
        let (before, counter, after) = (clocks.mono(), clocks.counter(), clocks.mono());
        let took = after.since(before);
        if nearest.is_none_or(|(least, _)| took < least) {
            nearest = Some((took, (before, counter)));
        }
        if took < threshold {
            break;
        }
    }
    nearest.map_or_else(|| (clocks.mono(), clocks.counter()), |(_, read)| read)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    const READ: u64 = 1_000;
    const THRESHOLD: Ns = Ns::from_us(10);
    const WIDTH: Ns = Ns::from_ms(3);
    const STALL: u64 = 1_000_000;
    /// A read of a file or a message to another thread.
    const HANDLING: u64 = 50_000;

    /// Each read takes 1 µs; before or after the value of one of them is taken, the CPU stalls.
    struct Stalls {
        now: Cell<u64>,
        reads: Cell<u64>,
        first: u64,
        second: u64,
    }

    impl Stalls {
        fn read(&self) -> u64 {
            let nth = self.reads.replace(self.reads.get() + 1);
            let stall = if nth == self.first || nth == self.second { STALL } else { 0 };
            let value = self.now.get() + READ / 2 + if nth.is_multiple_of(2) { stall } else { 0 };
            self.now.set(self.now.get() + READ + stall);
            value
        }
    }

    impl Clocks for Stalls {
        fn mono(&self) -> Mono {
            Mono(self.read())
        }

        fn counter(&self) -> u64 {
            self.read()
        }
    }

    struct Times {
        gaps: Ns,
        watched: Ns,
        /// Of the reads, without stalls.
        reads: Ns,
        all: Ns,
    }

    fn run(first: u64, second: u64, handled: Handled, threshold: Ns) -> Times {
        let clocks = Stalls { now: Cell::new(5_000), reads: Cell::new(0), first, second };
        let loops = Loop { width: WIDTH, threshold, tick_ns: 1.0 };
        let mut gaps = Ns::ZERO;
        let mut keep = |span: Span| {
            gaps = gaps + span.gap();
            if handled == Handled::Slowly {
                clocks.now.set(clocks.now.get() + HANDLING);
                clocks.read(); // a stall may be there, too
            }
            handled
        };
        let watched = loops.run(&clocks, || {}, &mut keep);
        Times { gaps, watched, reads: Ns(clocks.reads.get() * READ), all: Ns(clocks.now.get() - 5_000) }
    }

    #[test]
    fn a_stall_at_any_moment_is_a_gap_or_is_not_watched() {
        let undisturbed = run(u64::MAX, u64::MAX, Handled::Slowly, THRESHOLD);
        assert_eq!(undisturbed.gaps, Ns::ZERO);
        assert!(undisturbed.watched >= WIDTH && undisturbed.watched <= undisturbed.all);
        let (mut both_found, mut one_left_out) = (0, 0);
        for handled in [Handled::AtOnce, Handled::Slowly] {
            for first in [0, 1, 2, 3, 4, 50, 51, 52, 53, 100, 101] {
                for second in 0..200 {
                    let Times { gaps, watched, reads, all } = run(first, second, handled, THRESHOLD);
                    let case =
                        format!("{first}, {second}, {handled:?}: gaps {gaps}, watched {watched} of {all}");
                    // The rest of the watched time was iterations without a stall.
                    assert!(gaps <= watched && watched.saturating_sub(gaps) <= reads, "lost a stall: {case}");
                    assert!(watched <= all, "{case}");
                    both_found += u32::from(gaps >= Ns(2 * STALL));
                    one_left_out += u32::from(all.saturating_sub(watched) >= Ns(STALL));
                }
            }
        }
        assert!(both_found > 1_000 && one_left_out > 100, "{both_found} {one_left_out}");
    }

    #[test]
    fn a_threshold_below_the_cost_of_a_read_ends_too() {
        let Times { gaps, watched, .. } = run(u64::MAX, u64::MAX, Handled::AtOnce, Ns(1));
        assert!(gaps > Ns::ZERO && watched >= WIDTH && gaps <= watched);
    }
}

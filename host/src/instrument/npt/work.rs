//! Memory traffic between two reads of the clock: what the rest of the machine does to the caches and the memory bus
//! then shows in the iterations, as it does in a real program. Source: oslat's `--workload memmove` (rt-tests).

use lathunt_core::time::Ns;

use super::turn::Probe;
use crate::clock;

/// The work of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Bytes copied from one buffer to another.
    pub bytes: usize,
    /// Its usual duration here, without interruptions.
    pub usual: Ns,
}

/// Copies from which the usual duration is taken.
const COPIES: usize = 64;

impl Work {
    /// Copying `bytes`; how long that usually takes is measured now.
    #[must_use]
    pub fn memmove(bytes: usize) -> Work {
        let mut buffers = Buffers::new(bytes);
        let mut durations: Vec<u64> = (0..COPIES)
            .map(|_| {
                let begin = clock::mono();
                buffers.fire(0, 0);
                clock::mono().since(begin).0
            })
            .collect();
        durations.sort_unstable();
        Work { bytes, usual: Ns(durations[COPIES / 2]) }
    }

    /// At most `most` iterations, and no more than last for `length`.
    pub(super) fn at_most(self, most: u64, length: Ns) -> u64 {
        (length.0 / self.usual.0.max(1)).clamp(1, most)
    }
}

/// Memory of one thread.
pub(super) struct Buffers {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Buffers {
    /// Both are written once, so that no iteration is the first to touch a page.
    pub fn new(bytes: usize) -> Buffers {
        Buffers { from: vec![1; bytes], to: vec![2; bytes] }
    }
}

impl Probe for Buffers {
    #[inline(always)]
    fn fire(&mut self, _: u64, _: u64) {
        self.to.copy_from_slice(std::hint::black_box(&self.from));
        std::hint::black_box(&mut self.to);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_bytes_take_longer_and_fewer_iterations_fit_into_a_time() {
        let (few, many) = (Work::memmove(64), Work::memmove(8 << 20));
        assert!(many.usual > few.usual, "{few:?} {many:?}");
        let work = Work { bytes: 1, usual: Ns::from_us(10) };
        assert_eq!([1, 100, 100_000].map(|us| work.at_most(4_096, Ns::from_us(us))), [1, 10, 4_096]);
    }
}

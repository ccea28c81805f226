//! Where each measured thread slept when recording began (src/bpf/start.h), or before it was first woken as a measured one
//! (src/bpf/first_block.h).
//!
//! If that is its main wait, a job is released when the wait ends; otherwise the wait is inside a job, which continues then. A
//! thread that never runs during the recording has no activation.

use std::collections::HashMap;

use lathunt_core::time::Tid;
use lathunt_core::trace::activation::{Activation, Via, WORDS};

/// Activations of length 0, of threads that have not been woken since.
#[derive(Default)]
pub(super) struct Begun(HashMap<Tid, Activation>);

impl Begun {
    /// Reads what the iterator wrote: records of activations.
    pub fn read(written: &[u8]) -> Begun {
        let records = written.chunks_exact(WORDS * 8).filter_map(|record| {
            let word = |at: usize| record[at * 8..][..8].try_into().map(u64::from_ne_bytes);
            let mut words = [0; WORDS];
            for (at, value) in words.iter_mut().enumerate() {
                *value = word(at).ok()?;
            }
            Activation::parse(&words, 0)
        });
        Begun(records.map(|begun| (begun.thread.tid, begun)).collect())
    }

    /// Keeps `activation` if it only tells where its thread blocks. Of two of one block the first is kept: it was recorded in
    /// the block itself, and has the call site.
    pub fn keep(&mut self, activation: &Activation) -> bool {
        let tells_where = activation.via == Via::Unknown && activation.waking == activation.blocked;
        if tells_where {
            let kept = self.0.entry(activation.thread.tid).or_insert(*activation);
            if (kept.tgid, kept.blocks) != (activation.tgid, activation.blocks) {
                *kept = *activation;
            }
        }
        tells_where
    }

    /// The one that `first` follows, once: `first` is the first recorded activation of its thread, complete or not. `None` if
    /// others came between, or the thread id is that of another thread by now.
    pub fn before(&mut self, first: &Activation) -> Option<Activation> {
        let begun = self.0.remove(&first.thread.tid)?;
        let follows = begun.tgid == first.tgid && begun.blocked <= first.waking && !first.is_first();
        follows.then_some(begun)
    }

    /// Those of threads not seen since.
    pub fn unseen(&self) -> impl Iterator<Item = &Activation> {
        self.0.values()
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::{Mono, Ns};

    use super::*;

    /// Of process 4, as the iterator writes it: asleep at `at`.
    fn record(tid: u32, at: u64) -> [u64; WORDS] {
        let mut words = [0; WORDS];
        (words[0], words[1], words[4], words[5]) = (1, at, at, at);
        (words[9], words[12], words[13]) = (4 << 32 | u64::from(tid), 3 << 56, 6 << 32 | 4);
        words
    }

    /// The same thread, woken at `at` for the `blocks`th time.
    fn woken(tid: u32, at: u64, blocks: u16) -> Activation {
        let via_thread =
            Activation { via: Via::Thread, blocks, ..Activation::parse(&record(tid, at), 0).unwrap() };
        Activation { blocked: via_thread.blocked + Ns(10), ..via_thread }
    }

    #[test]
    fn the_first_activation_of_a_thread_is_preceded_by_the_place_where_it_slept() {
        let written: Vec<u8> = (1..=5).flat_map(|tid| record(tid, 100)).flat_map(u64::to_ne_bytes).collect();
        let mut begun = Begun::read(&written);
        assert_eq!(begun.before(&woken(1, 100, 7)).map(|begun| begun.blocked), Some(Mono(100)));
        assert_eq!(begun.before(&woken(1, 200, 8)), None, "once");
        assert_eq!(begun.before(&woken(2, 99, 7)), None, "it slept again since");
        assert_eq!(begun.before(&woken(3, 200, 1)), None, "a new thread with that id");
        let another = Activation { tgid: Tid(9), ..woken(4, 200, 7) };
        assert_eq!(begun.before(&another), None, "of another process");
        assert!(begun.before(&woken(5, 200, 7)).is_some() && begun.before(&woken(6, 200, 7)).is_none());
        assert!(Begun::read(&written[..WORDS * 8 - 1]).0.is_empty(), "cut off");
        let blocks = Activation::parse(&record(7, 300), 0).unwrap();
        assert!(begun.keep(&blocks) && !begun.keep(&woken(7, 400, 7)));
        assert!(begun.keep(&Activation::parse(&record(7, 350), 0).unwrap()), "the same block");
        assert_eq!(begun.before(&woken(7, 400, 7)), Some(blocks));
    }
}

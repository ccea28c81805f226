//! The running thread of each CPU, by its last context switch, and whether a switch was not recorded.
//!
//! Some kernels do not report every switch (for example from the idle task of one CPU), without reporting a loss: then
//! the thread switched out is not the one switched in last.

use std::collections::hash_map::Entry;

use crate::hash::HashMap;
use crate::time::{Cpu, Mono, Ns, Tid};

/// Maximum time between two records of the same event in two buffers.
pub(super) const TWICE: Ns = Ns::from_us(20);

/// The last switch of each CPU since events of it were lost.
#[derive(Default)]
pub(super) struct Turns {
    last: HashMap<Cpu, LastSwitch>,
    /// Number of CPUs on which each thread was switched in last: a trace may have thousands of CPUs.
    came: HashMap<Tid, u32>,
}

struct LastSwitch {
    left: Tid,
    came: Tid,
    at: Mono,
}

/// How the thread that is switched out came to the CPU.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was switched in last.
    Known,
    /// It is the first one, or the first since events were lost.
    First,
    /// Neither its switch-in nor the switch-out of this thread, which was switched in last, was recorded.
    Unseen(Tid),
    /// Not a new switch: another buffer recorded it too.
    Again,
}

impl Turns {
    /// Processes the next switch of `cpu`.
    pub fn switch(&mut self, cpu: Cpu, left: Tid, came: Tid, at: Mono) -> Came {
        let before = self.last.insert(cpu, LastSwitch { left, came, at });
        before.iter().for_each(|turn| self.leaves(turn.came));
        *self.came.entry(came).or_default() += 1;
        match before {
            Some(turn) if turn.came == left => Came::Known,
            Some(turn) if (turn.left, turn.came) == (left, came) && at.since(turn.at) < TWICE => Came::Again,
            Some(turn) => Came::Unseen(turn.came),
            None => Came::First,
        }
    }

    /// Events of this CPU are missing: its running thread is not known.
    pub fn lost(&mut self, cpu: Cpu) {
        if let Some(turn) = self.last.remove(&cpu) {
            self.leaves(turn.came);
        }
    }

    fn leaves(&mut self, tid: Tid) {
        if let Entry::Occupied(mut cpus) = self.came.entry(tid) {
            *cpus.get_mut() -= 1;
            if *cpus.get() == 0 {
                cpus.remove();
            }
        }
    }

    /// Number of CPUs whose running thread is known.
    pub fn known(&self) -> usize {
        self.last.len()
    }

    /// Whether `tid` was switched in last on some CPU.
    pub fn has(&self, tid: Tid) -> bool {
        self.came.contains_key(&tid)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_thread_is_on_a_cpu_if_it_was_switched_in_last(
            steps in proptest::collection::vec((0..4_u32, 0..5_i32, 0..5_i32, 0..4_u8), 0..60)
        ) {
            let (mut turns, mut last) = (Turns::default(), std::collections::BTreeMap::new());
            for (at, (cpu, left, came, kind)) in steps.into_iter().enumerate() {
                if kind == 0 {
                    turns.lost(Cpu(cpu));
                    last.remove(&cpu);
                } else {
                    let _ = turns.switch(Cpu(cpu), Tid(left), Tid(came), Mono(at as u64 * 10_000));
                    last.insert(cpu, came);
                }
                for tid in 0..5 {
                    proptest::prop_assert_eq!(turns.has(Tid(tid)), last.values().any(|came| *came == tid));
                }
                proptest::prop_assert_eq!(turns.known(), last.len());
            }
        }
    }
}

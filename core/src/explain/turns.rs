//! The running thread of each CPU, by its last context switch, and whether a switch was not recorded.
//!
//! Some kernels do not report every switch (for example from the idle task of one CPU), without reporting a loss: then
//! the thread switched out is not the one switched in last.

use std::collections::BTreeMap;

use crate::time::{Cpu, Mono, Ns, Tid};

/// Maximum time between two records of the same event in two buffers.
pub(super) const TWICE: Ns = Ns::from_us(20);

/// The last switch of each CPU since events of it were lost.
#[derive(Default)]
pub(super) struct Turns {
    last: BTreeMap<Cpu, LastSwitch>,
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
        match before {
            Some(turn) if turn.came == left => Came::Known,
            Some(turn) if (turn.left, turn.came) == (left, came) && at.since(turn.at) < TWICE => Came::Again,
            Some(turn) => Came::Unseen(turn.came),
            None => Came::First,
        }
    }

    /// Events of this CPU are missing: its running thread is not known.
    pub fn lost(&mut self, cpu: Cpu) {
        self.last.remove(&cpu);
    }

    /// Whether the running thread of this CPU is known.
    pub fn knows(&self, cpu: Cpu) -> bool {
        self.last.contains_key(&cpu)
    }

    /// Whether `tid` was switched in last on some CPU.
    pub fn has(&self, tid: Tid) -> bool {
        self.last.values().any(|turn| turn.came == tid)
    }
}

//! Which thread has each CPU, by its last context switch, and whether a switch in between was not recorded.
//!
//! Some kernels do not report every switch (from the idle task of one CPU, say), without a mark of loss: then a thread
//! leaves a CPU on which another was switched in last.

use std::collections::BTreeMap;

use crate::time::{Cpu, Mono, Ns, Tid};

/// Within this time the same event is the same, recorded by two buffers.
pub(super) const TWICE: Ns = Ns::from_us(20);

/// The last switch of each CPU since events of it were lost.
#[derive(Default)]
pub(super) struct Turns {
    last: BTreeMap<Cpu, Turn>,
}

struct Turn {
    left: Tid,
    came: Tid,
    at: Mono,
}

/// How the thread that leaves a CPU came onto it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Came {
    /// It was the last one to be switched in.
    Known,
    /// It is the first to leave, or the first since events were lost.
    First,
    /// Its switch-in was not recorded, nor that this one left, which was the last one to be switched in.
    Unseen(Tid),
    /// Nobody leaves: another buffer recorded the same switch.
    Again,
}

impl Turns {
    /// Takes the next switch of `cpu`.
    pub fn switch(&mut self, cpu: Cpu, left: Tid, came: Tid, at: Mono) -> Came {
        let before = self.last.insert(cpu, Turn { left, came, at });
        match before {
            Some(turn) if turn.came == left => Came::Known,
            Some(turn) if (turn.left, turn.came) == (left, came) && at.since(turn.at) < TWICE => Came::Again,
            Some(turn) => Came::Unseen(turn.came),
            None => Came::First,
        }
    }

    /// Events of this CPU are missing: who has it is not known.
    pub fn lost(&mut self, cpu: Cpu) {
        self.last.remove(&cpu);
    }

    /// Whether it is known who has this CPU.
    pub fn knows(&self, cpu: Cpu) -> bool {
        self.last.contains_key(&cpu)
    }

    /// Whether `tid` was the last to be switched in on some CPU.
    pub fn has(&self, tid: Tid) -> bool {
        self.last.values().any(|turn| turn.came == tid)
    }
}

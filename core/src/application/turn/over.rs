//! Where turns begin; and those that are over, for the chain that their thread is a link of.

use super::super::chain::Seen;
use super::{Log, Turn};
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, Via};

impl Turn {
    /// Released at `begin` by `activation`.
    pub(super) fn released(activation: &Activation, begin: Mono) -> Turn {
        Turn {
            begin,
            execution: Ns::ZERO,
            late: None,
            via: activation.via,
            waker: activation.waker.tid,
            waking: activation.waking,
            part: begin,
            longest: Ns::ZERO,
        }
    }
}

impl Log {
    /// Turns are to be taken.
    pub fn ask_for_turns(&mut self, wanted: bool) {
        self.turns = self.turns.take().or(wanted.then(Vec::new));
    }

    /// Those that are over, and the name of the thread.
    pub fn take_turns(&mut self) -> (String, Vec<Seen>) {
        let comm = self.comm.map(|comm| comm.text()).unwrap_or_default();
        (comm, self.turns.as_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The part of a turn that was due at `begin` is over with `last`.
    pub(super) fn is_over(&mut self, turn: &Turn, begin: Mono, last: &Activation) {
        let waker = (turn.via == Via::Thread && begin == turn.begin).then_some(turn.waker);
        let (tid, waking) = (last.thread.tid, turn.waking);
        let seen = Seen { tid, waker, waking, begin, end: last.blocked };
        self.turns.iter_mut().for_each(|turns| turns.push(seen));
    }
}

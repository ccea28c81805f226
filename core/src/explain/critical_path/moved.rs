//! A thread was moved to the CPU on which it waits, by another one.

use std::fmt;

use super::changes::{Mover, AFFINITY, CPUSET};
use super::Walk;
use crate::explain::thread::Stretch;
use crate::explain::wait::is_stopper;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Prio, Tid};
use crate::trace::event::{Kind as What, LeftAs};

/// A thread was moved to the CPU on which it waits: its affinity or cpuset was changed.
pub(super) struct Moved {
    /// By whom.
    pub by: Thread,
    /// By which call.
    pub how: String,
    /// The CPU on which it was before.
    pub from: Cpu,
    /// That one was free meanwhile: without the change it would have run there.
    pub was_free: bool,
}

impl fmt::Display for Moved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Moved { by, how, from, .. } = self;
        write!(f, "to which {by} ({how}) had moved it from CPU {from}")
    }
}

impl Moved {
    /// `moved by admin`, if that is why it waited.
    pub fn cause(&self) -> Option<String> {
        self.was_free.then(|| format!("moved to a busy CPU by {}", self.by.comm))
    }

    /// What to do about it, where `busy` is the thread on the new CPU.
    pub fn advice(&self, thread: &str, busy: &str) -> String {
        let Moved { by, how, from, .. } = self;
        let by = &by.comm;
        format!(
            "{by} moved {thread} ({how}) from CPU {from}, which was free, to the CPU of {busy}: leave {thread} on CPU {from}, or keep {busy} off its new CPUs"
        )
    }
}

impl Walk<'_, '_> {
    /// Whether `thread` was moved to `cpu` on which it waits, by a change of its affinity or cpuset: at the start of the wait,
    /// or earlier in the interval and without a move since then.
    pub(super) fn moved_there(
        &self,
        thread: &Thread,
        prio: Option<Prio>,
        stretch: &Stretch,
        cpu: Cpu,
    ) -> Option<Moved> {
        let moves = self.record.events_of(thread.tid, self.since, Mono(stretch.begin.0 + 1)).rev();
        let mut moves = moves.filter_map(|(index, event)| match event.kind {
            What::Migrate { task, from, to } if task.tid == thread.tid => Some((index, from, to)),
            _ => None,
        });
        let (mover, from) = match moves.next() {
            Some((index, from, to)) if to == cpu => (self.mover(thread.tid, index)?, from),
            _ => self.stopped_off(thread.tid, Mono(stretch.begin.0 + 1)).filter(|(_, from)| *from != cpu)?,
        };
        let (by, how) = match mover {
            Mover::Call { by, name } => (by, name),
            Mover::Affinity(by) => (by, AFFINITY.to_owned()),
            Mover::Cpuset(by) => (by, CPUSET.to_owned()),
            Mover::Offline(_) | Mover::Scheduler(_) => return None,
        };
        let below = prio.filter(|prio| prio.is_realtime());
        let was_free = by.tid != thread.tid && self.is_free(from, stretch.begin, stretch.end, below);
        Some(Moved { by, how, from, was_free })
    }

    /// What had the stopper of CPU `from` take `tid` off it at `at`, where the event of its migration is missing.
    fn stopped_off(&self, tid: Tid, until: Mono) -> Option<(Mover, Cpu)> {
        let mut last = self.record.events_of(tid, self.since, until).rev();
        let (_, left) = last.find(|(_, event)| matches!(event.kind, What::Switch { .. }))?;
        let What::Switch { prev, left_as, next } = left.kind else { return None };
        let by = self.record.thread(next, left.at);
        let is_stopped = prev.tid == tid && !matches!(left_as, LeftAs::Blocked(_)) && is_stopper(&by.comm);
        Some((self.asker_of(&by, left.at).filter(|_| is_stopped)?, left.cpu))
    }
}

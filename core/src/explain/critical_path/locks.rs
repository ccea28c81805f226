//! Contended locks of the kernel that a thread waits for, by its events up to a time.

use super::links::Linked;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, Kind};

/// Number of events searched back.
const FEW: usize = 64;

/// Whether a contended lock is one that only spins: LCB_F_SPIN and LCB_F_PERCPU alone (include/trace/events/lock.h).
pub fn only_spins(flags: u32) -> bool {
    flags & !(1 | 16) == 0
}

/// Contended locks of the kernel that a thread waits for: event, lock and type, outermost first. Waits nest: for the lock
/// that guards the queue of another one.
#[derive(Default)]
pub struct OpenLocks(pub Vec<(u32, u64, u32)>);

impl OpenLocks {
    /// The next event of the thread. Those of interrupts are not its own.
    pub fn step(&mut self, index: u32, event: &Event) {
        match event.kind {
            _ if event.level.is_interrupt() => {}
            Kind::ContentionBegin { lock, flags } => {
                // In a spin nothing else is waited for: its end was lost.
                self.0.pop_if(|(_, _, flags)| only_spins(*flags));
                self.0.push((index, lock, flags));
            }
            Kind::ContentionEnd { lock, .. } => {
                let place = self.0.iter().rposition(|(_, of, _)| *of == lock);
                self.0.truncate(place.unwrap_or(self.0.len()));
            }
            _ => self.0.clear(),
        }
    }
}

impl Linked<'_, '_> {
    /// The contended locks that `tid` waits for at `at`, outermost first.
    #[must_use]
    pub fn open_locks(&self, tid: Tid, at: Mono) -> OpenLocks {
        let is_contention =
            |event: &Event| matches!(event.kind, Kind::ContentionBegin { .. } | Kind::ContentionEnd { .. });
        let last = self.doings(tid, at).take(FEW).take_while(|(_, event)| is_contention(event));
        let last: Vec<(u32, &Event)> = last.collect();
        let mut open = OpenLocks::default();
        last.into_iter().rev().for_each(|(index, event)| open.step(index, event));
        open
    }
}

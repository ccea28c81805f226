//! Unrecorded switches from idle: the time from which a CPU is not known to be idle.
//!
//! Some kernels do not report switches from the idle task. A thread woken on an idle CPU runs there after the interrupt
//! that woke it or was sent for it; idle slices after that are unknown, unless a switch proves them.

use super::{Context, Timeline};
use crate::time::Mono;

impl Timeline {
    /// A thread was woken for this CPU at `woken`, and an event at `until` shows that it had run: its own first event
    /// here (`is_here`), else another. No switch shows its start.
    pub fn ran_unseen(&mut self, woken: Mono, until: Mono, is_here: bool) {
        let first = self.slices.partition_point(|slice| slice.end <= woken);
        let Some(from) = self.free_from(first, woken, until) else { return };
        let mut place = self.slices.partition_point(|slice| slice.end <= from);
        while let Some(&slice) = self.slices.get(place).filter(|slice| slice.begin < until) {
            let is_idle = matches!(slice.context, Context::Idle(_));
            // Before its own first event, an idle slice that is not inferred is proved.
            if is_idle && (!is_here || slice.inferred) {
                place = self.forget(place, from);
                // An event shows that the CPU is idle again.
                if !is_here {
                    return;
                }
            }
            place += 1;
        }
    }

    /// When the idle CPU, woken at `woken`, has left its interrupt or idle state; `None`: another thread runs there.
    fn free_from(&self, first: usize, woken: Mono, until: Mono) -> Option<Mono> {
        let (mut from, mut sleeps, mut is_out) = (woken, false, false);
        for slice in self.slices[first..].iter().take_while(|slice| slice.begin < until) {
            match slice.context {
                Context::Idle(_) if is_out => break,
                Context::Idle(Some(_)) => sleeps = true,
                Context::Idle(None) if sleeps => return Some(slice.begin),
                Context::Idle(None) => {}
                context if context.is_hard() || matches!(context, Context::Softirq(_) | Context::Nmi) => {
                    (from, is_out) = (slice.end, true);
                }
                _ => return None,
            }
        }
        Some(from)
    }

    /// Marks the slice at `place` as unknown from `from`; returns the index of that part.
    fn forget(&mut self, mut place: usize, from: Mono) -> usize {
        let slice = self.slices[place];
        if slice.begin < from {
            self.slices[place].end = from;
            place += 1;
            self.slices.insert(place, super::Slice { begin: from, ..slice });
        }
        self.slices[place].context = Context::Unknown;
        place
    }
}

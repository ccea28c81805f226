//! Events lost without a word: what the thread itself does shows that no interrupt is open, an exit without an entry that
//! one was, and a switch from another task that the switch to that one is missing. In between the context is unknown.

use super::{Context, Frame, Reader, Slice};
use crate::time::Ns;
use crate::trace::event::{Event, Kind, Level, TaskRef};

/// An interrupt handles its due timers one after the other; from one to the next takes less.
const AT_ONCE: Ns = Ns::from_us(50);
/// Maximum number of timers of one interrupt that are compared.
const MOST_TIMERS: usize = 16;

impl Reader {
    /// Closes interrupts that cannot be open here, because the thread itself does something: their exits were lost.
    pub(super) fn rule_out(&mut self, event: &Event) {
        // A switch closes them itself.
        let is_own = is_of_thread(event) && !matches!(event.kind, Kind::Switch { .. });
        if is_own {
            let open = self.hard.take();
            self.discard(open);
        }
        if self.hard.top().is_some_and(|open| event.level == Level::Thread && open.level == Level::Hard) {
            let open = self.hard.take();
            self.discard(open);
        }
        let below = self.hard.top().is_none();
        let is_over =
            |open: &mut Frame| is_own || event.level == Level::Thread && open.level == Level::Softirq;
        if below && let Some(over) = self.soft.take_if(is_over) {
            self.discard([over]);
            self.functions = [None; 2];
        }
    }

    /// Another interrupt starts or ends: one without a recorded entry, whose end is not recorded either, is over.
    pub(super) fn end_unseen(&mut self) {
        let ended = self.hard.end(Context::Unseen(Level::Hard));
        self.discard(ended);
    }

    /// A timer that expires for a second time in one interrupt, long after its last event: an exit and the next entry are
    /// missing in between.
    pub(super) fn expires(&mut self, timer: u64) {
        if self.hard.top().is_none() {
            return;
        }
        if !self.expired.contains(&timer) {
            if self.expired.len() < MOST_TIMERS {
                self.expired.push(timer);
            }
        } else if let Some(slice) = self.slices.last_mut().filter(|slice| slice.length() >= AT_ONCE) {
            slice.context = Context::Unknown;
        }
    }

    /// Notes up to where no interrupt can have been open.
    pub(super) fn note_free(&mut self, event: &Event) {
        let is_of_thread = event.level == Level::Thread || is_of_thread(event);
        let is_of_softirq = matches!(event.kind, Kind::SoftirqEntry { .. } | Kind::SoftirqExit { .. });
        let is_of_hard = matches!(
            event.kind,
            Kind::IrqEntry { .. } | Kind::IrqExit { .. } | Kind::VectorEntry(_) | Kind::VectorExit(_)
        );
        if is_of_thread || is_of_softirq {
            self.soft_free = self.slices.len();
        }
        if is_of_thread || is_of_softirq || is_of_hard || event.level == Level::Softirq {
            self.hard_free = self.slices.len();
        }
    }

    /// The exit of `context`, whose entry was lost without a word: it began in one of the slices since no such interrupt
    /// can have been open.
    pub(super) fn was_entered_unseen(&mut self, context: Context) {
        let is_softirq = |of: Context| matches!(of, Context::Softirq(_));
        let from = if is_softirq(context) { self.soft_free } else { self.hard_free };
        let is_below = |of: Context| of.is_task() || is_softirq(of) && !is_softirq(context);
        for slice in self.slices[from..].iter_mut().filter(|slice| is_below(slice.context)) {
            slice.context = Context::Unknown;
        }
    }

    /// The thread for which an interrupt ended the idle loop is switched in directly after it: it ran since then.
    pub(super) fn ran_since_the_kick(&mut self, index: u32, task: TaskRef) {
        let occurrence = self.task_occurrence;
        if let Some(slice) = self.slices.last_mut().filter(|slice| slice.context == Context::Idle(None)) {
            *slice = Slice {
                context: Context::Thread(task.tid),
                task: Some(task),
                occurrence,
                proof: Some(index),
                inferred: true,
                ..*slice
            };
        }
    }

    /// Another task runs than expected: its switch-in was not recorded. Some CPUs never record any switch-out of the
    /// idle task, so the first event of the next thread replaces it, marked as inferred.
    pub(super) fn contradict(&mut self, idle_without_switch: bool) {
        for slice in self.slices[self.sure_from..].iter_mut().filter(|slice| slice.context.is_task()) {
            if idle_without_switch {
                slice.inferred = true;
            } else {
                slice.context = Context::Unknown;
            }
        }
    }
}

/// Whether only the thread itself does this, not an interrupt.
fn is_of_thread(event: &Event) -> bool {
    matches!(
        event.kind,
        Kind::Switch { .. } | Kind::SysEnter { .. } | Kind::SysExit { .. } | Kind::UserFault { .. }
    )
}

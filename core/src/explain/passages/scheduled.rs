//! Passages between events of the kernel: wake-ups, system calls, what ran at a moment, from an interrupt to its thread.

use super::{Begun, Question, Search, MOST};
use crate::trace::event::{Event, Kind};

impl Search<'_> {
    /// The questions that are not about markers.
    pub(super) fn scheduled(&mut self, event: &Event) {
        match (self.question, event.kind) {
            (Question::Wakeups, Kind::Waking { task, .. } | Kind::Wakeup { task, .. }) => {
                self.woken(task.tid, event.at);
            }
            (Question::Wakeups, Kind::Switch { prev, left_as, next }) => {
                self.switched(event, prev.tid, left_as, next.tid);
            }
            (Question::Syscall(wanted), Kind::SysEnter { id, args }) if id == *wanted => {
                self.found.is_call_unseen = false;
                if let Some(tid) = event.current {
                    let begun = Begun::new(event.at, tid, Some(args[0].to_string()));
                    let earlier = self.by_thread.insert(tid, begun);
                    self.found.unmatched_begins += u64::from(earlier.is_some());
                }
            }
            (Question::Syscall(wanted), Kind::SysExit { id, .. }) if id == *wanted || id < 0 => {
                self.found.is_call_unseen &= id != *wanted;
                let Some(tid) = event.current else { return };
                match self.by_thread.remove(&tid) {
                    Some(begun) => self.keep(begun, tid, event),
                    None => self.found.unmatched_ends += 1,
                }
            }
            (Question::At(moment), Kind::Switch { prev, next, .. }) => {
                let named = self.whose.tid.is_some() || self.whose.comm.is_some();
                for (tid, was_on) in [(prev.tid, true), (next.tid, false)] {
                    let begun = Begun::new(event.at, tid, None);
                    let before = self.by_thread.insert(tid, begun);
                    let holds = |begun: &Begun| begun.at <= *moment && *moment < event.at;
                    if let Some(begun) = before.filter(|begun| holds(begun) && (was_on || named)) {
                        self.keep(begun, tid, event);
                    }
                }
            }
            (Question::IrqToThread(line, tid), Kind::IrqEntry { irq, .. }) if irq == *line => {
                let begun = Begun::new(event.at, *tid, None);
                self.by_thread.entry(*tid).or_insert(begun);
            }
            (Question::IrqToThread(_, tid), Kind::Switch { next, .. }) if next.tid == *tid => {
                if let Some(begun) = self.by_thread.remove(tid).filter(|_| self.in_order.len() < MOST) {
                    self.in_order.push((begun.at, *event));
                }
            }
            _ => {}
        }
    }
}

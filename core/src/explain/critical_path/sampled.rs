//! A thread's own time in a record without all system calls: the calls in which interrupts found it, and the handlers of signals
//! that started there.

use std::collections::BTreeMap;

use super::blocked::signal_name;
use super::Walk;
use crate::explain::cpu::{Context, Slice};
use crate::explain::thread::Stretch;
use crate::series::Thread;
use crate::time::Ns;
use crate::trace::event::{Event, Kind as What};

/// Where interrupts found a thread.
pub(super) struct Interrupted {
    /// For sentences: `; each of 3 interrupts found it in the system call mmap`.
    pub said: String,
    /// The system call; `None`: a page fault.
    pub call: Option<String>,
}

impl Walk<'_, '_> {
    /// In what most interrupts found `thread`. A timer that is due when it is armed interrupts the call that arms it: that
    /// interrupt says nothing of the rest.
    pub(super) fn interrupted(&self, thread: &Thread, stretch: &Stretch) -> Option<Interrupted> {
        let mut found: BTreeMap<Option<i32>, u32> = BTreeMap::new();
        let mut all = 0;
        let mut events = self.record.events_on(stretch.cpu?, stretch.begin, stretch.end).peekable();
        let mut expired = false;
        while let Some((_, event)) = events.next() {
            match event.kind {
                What::VectorEntry(_) | What::IrqEntry { .. } => expired = false,
                What::TimerExpireEntry { .. } => expired = true,
                _ => {}
            }
            let What::InCall { call, at_fault } = event.kind else { continue };
            let sleeps = call.is_some_and(|call| self.record.call_name(call).ends_with("nanosleep"));
            let expires = |(_, next): &(u32, &Event)| matches!(next.kind, What::TimerExpireEntry { .. });
            let is_its_timer = sleeps && (expired || events.peek().is_some_and(expires));
            if event.current == Some(thread.tid) && !is_its_timer {
                all += 1;
                *found.entry(call).or_default() += u32::from(call.is_some() || at_fault);
            }
        }
        let (&call, &count) = found.iter().max_by_key(|(_, count)| **count)?;
        let said = match (count, all) {
            (1, 1) => "the only interrupt meanwhile".to_owned(),
            (count, all) if count == all => format!("each of {all} interrupts"),
            (count, all) => format!("{count} of {all} interrupts"),
        };
        let call = call.map(|call| self.record.call_name(call));
        let place = match &call {
            Some(name) => format!("in the system call {name}"),
            None => "at an instruction that caused a page fault".to_owned(),
        };
        (count * 2 > all).then(|| Interrupted { said: format!("; {said} found it {place}"), call })
    }

    /// Handlers of one signal that took half of the span, if they took all of the time since they started.
    pub(super) fn unreturned_handler(&self, thread: &Thread, stretch: &Stretch, rest: Ns) -> Option<String> {
        if !self.record.window.only_blocking_calls {
            return None;
        }
        let cpu = stretch.cpu?;
        let mut taken = self.record.events_on(cpu, stretch.begin, stretch.end);
        let (first, sig) = taken.find_map(|(_, event)| match event.kind {
            What::SignalDeliver { sig, .. } if event.current == Some(thread.tid) => Some((event.at, sig)),
            _ => None,
        })?;
        let sent = self
            .linked
            .signalled(thread.tid, first)
            .filter(|(_, sent)| matches!(sent.kind, What::SignalGenerate { sig: of, .. } if of == sig));
        let by = sent.and_then(|(index, _)| self.linked.actor(index));
        let by = by.map_or(String::new(), |by| format!(" from {by}"));
        let slices = self.record.slices(cpu, first.max(stretch.begin), stretch.end);
        let own = slices.iter().filter(|slice| slice.context == Context::Thread(thread.tid));
        let net = own.map(Slice::length).sum::<Ns>().min(rest);
        (net.0 * 2 >= rest.0).then(|| {
            let name = signal_name(sig);
            format!(
                ", up to {net} of it in the handler of signal {sig} ({name}){by}, whose end is not recorded"
            )
        })
    }
}

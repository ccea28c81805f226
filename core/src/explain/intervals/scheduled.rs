//! Intervals between events of the kernel: wake-ups, system calls, the run at a given time, from an interrupt to its
//! thread.

use super::{Begun, Question, Search, MOST};
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind};

impl Search<'_> {
    /// From an interrupt to its thread: each wake-up ends one interval.
    pub(super) fn fed(&mut self, event: &Event) {
        let (Question::IrqToThread(_, wanted), Some(feeding)) = (self.question, &mut self.feeding) else {
            return;
        };
        if let Kind::Waking { task, target_cpu: Some(cpu), .. } = event.kind {
            self.aimed_at.insert(task.tid, cpu);
        }
        let Some((tid, at)) = feeding.take(event, self.normalizer.strings()).filter(|(tid, _)| tid == wanted)
        else {
            return;
        };
        // After a preemption it is in the same interval.
        if self.fed_since.replace(at) != Some(at) {
            self.keep(Begun::new(at, tid, None), tid, event);
        }
    }

    /// The interrupt after which the thread still waited for a CPU when the trace ended.
    pub(super) fn fed_unfinished(&mut self, tid: Tid) {
        let woken = self.feeding.as_ref().and_then(|feeding| feeding.woken(tid));
        let is_off = self.switched.get(&tid).is_none_or(|known| known.is_off || !known.was_switched);
        if let Some(since) = woken.filter(|since| is_off && self.fed_since != Some(*since)) {
            self.keep_unfinished(Begun::new(since, tid, None));
        }
    }

    /// The run of each CPU, or the time off the CPU of a given thread, that the trace cuts at its end.
    pub(super) fn cut_at_end(&mut self, moment: Mono) {
        if self.found.reach.is_none_or(|(_, last)| last < moment) {
            return;
        }
        let named = self.whose.tid.is_some() || self.whose.comm.is_some();
        let open: Vec<Begun> = self.by_thread.drain().map(|(_, begun)| begun).collect();
        for begun in open.into_iter().filter(|begun| begun.at <= moment) {
            if named || self.switched.get(&begun.tid).is_some_and(|known| !known.is_off) {
                self.keep_unfinished(begun);
            }
        }
    }

    /// The queries without markers.
    pub(super) fn scheduled(&mut self, event: &Event) {
        match (self.question, event.kind) {
            (Question::Wakeups, Kind::Waking { task, target_cpu, new, .. }) => {
                (self.has_wakeup, self.has_start) = (true, self.has_start || new);
                self.aimed_at.extend(target_cpu.map(|cpu| (task.tid, cpu)));
                self.woken(task, event.at);
            }
            (Question::Wakeups, Kind::Wakeup { task, target_cpu }) => {
                self.has_wakeup = true;
                let cpu = target_cpu.unwrap_or(event.cpu);
                self.aimed_at.insert(task.tid, cpu);
                self.woken_at_last(task, event.at);
            }
            (Question::Wakeups, Kind::Migrate { task, to, .. }) => _ = self.aimed_at.insert(task.tid, to),
            (Question::Threshold, Kind::Marker { text }) => {
                let late = over_threshold(self.normalizer.strings().get(text));
                if let (Some(late), Some(tid)) = (late, event.current) {
                    let begin = Mono(event.at.0.saturating_sub(late.0));
                    self.keep(Begun::new(begin, tid, None), tid, event);
                }
            }
            (Question::Wakeups, Kind::Switch { prev, left_as, next }) => {
                self.switched(event, prev.tid, left_as, next.tid);
            }
            (Question::Syscall(wanted), Kind::SysEnter { id, args }) if id == *wanted => {
                self.found.is_call_unseen = false;
                if let Some(tid) = event.current {
                    let begun = Begun::new(event.at, tid, Some(args[0].to_string()));
                    let earlier = self.by_thread.insert(tid, begun);
                    earlier.iter().for_each(|earlier| self.unended(earlier, event.at));
                    self.found.unmatched_begins += u64::from(earlier.is_some());
                }
            }
            (Question::Syscall(wanted), Kind::SysExit { id, .. }) if id == *wanted || id < 0 => {
                self.found.is_call_unseen &= id != *wanted;
                let Some(tid) = event.current else { return };
                let begun = self.by_thread.remove(&tid);
                let before = self.ended.insert(tid, event.at);
                match begun {
                    Some(begun) => self.keep(begun, tid, event),
                    None => {
                        self.found.unmatched_ends += 1;
                        if id == *wanted {
                            self.without_start(tid, before, event.at);
                        }
                    }
                }
            }
            (Question::At(moment), Kind::Switch { prev, next, .. }) => {
                let named = self.whose.tid.is_some() || self.whose.comm.is_some();
                for (tid, was_on) in [(prev.tid, true), (next.tid, false)] {
                    self.aimed_at.insert(tid, event.cpu);
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

/// `hit latency threshold (1234 > 500)`, as cyclictest writes it with --breaktrace --tracemark; in µs, its default unit.
fn over_threshold(text: &str) -> Option<Ns> {
    let (_, behind) = text.split_once("hit latency threshold (")?;
    let number = behind.split_once(" > ")?.0;
    Some(Ns(number.trim().parse::<u64>().ok()?.checked_mul(1_000)?))
}

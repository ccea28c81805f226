//! Explains a late wake-up from its flight record, with or without its activation.

use lathunt_core::comm::Comm;
use lathunt_core::explain::{self, Explanation, Interval, Standstills, WakeInterval};
use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Mono, Tid};
use lathunt_core::trace::activation::{Activation, Via};
use lathunt_core::trace::event::{Event, Kind, Level, TaskRef};
use lathunt_core::trace::window::{Overdue, Window};

use super::memory::Memory;
use crate::recorder::Frozen;
use crate::symbols::Symbols;

/// Context needed besides the record.
pub(super) struct Evidence {
    pub symbols: Symbols,
    /// The preemption model in force.
    pub preemption: Option<String>,
    /// What memory page faults were in.
    pub memory: Memory,
    /// When recording began.
    pub began: Mono,
    /// Stalls proved by the cases of other CPUs.
    pub standstills: Standstills,
}

impl Evidence {
    /// With the activation, a waking on another CPU is known, which is in that CPU's ring and not in this one.
    pub fn explain(&self, frozen: &Frozen, activation: Option<&Activation>) -> Option<Explanation> {
        let victim = frozen.trigger.victim?;
        let mut window = frozen.decode(&self.symbols).ok()?;
        window.preemption.clone_from(&self.preemption);
        window.began = Some(self.began);
        window.from_arming = true; // every recording checks when timers are armed (due_since in src/bpf/due.h)
        let begin = Mono(victim.switched_in.0.saturating_sub(victim.total.0));
        let (tid, cpu, end) = (victim.tid, frozen.cpu, victim.switched_in);
        window.standstills = self.standstills.beside(cpu, begin, end);
        if let Some(a) = activation {
            add_waking(&mut window, a);
            note_overdue(&mut window, a);
        }
        let plain = activation.map_or_else(|| woken_at(&window, tid, begin), |a| a.timer.is_none());
        Some(match plain {
            true => explain::explain_wakeup(&window, &WakeInterval { tid, cpu, begin, end }),
            false => explain::explain_timer_wakeup(&window, &Interval { tid, cpu, begin, end }),
        })
    }

    /// Explains a flight record without its activation.
    pub fn alone(&self, frozen: &Frozen) -> Option<Peak> {
        let victim = frozen.trigger.victim?;
        let begin = Mono(victim.switched_in.0.saturating_sub(victim.total.0));
        let explanation = self.explain(frozen, None);
        let window = frozen.decode(&self.symbols).ok();
        let woken = begin < self.began || window.is_some_and(|window| woken_at(&window, victim.tid, begin));
        Some(Peak {
            quantity: if woken { Quantity::Wakeup } else { Quantity::TimerWakeup },
            cpu: frozen.cpu,
            begin,
            total_ns: victim.total,
            victim: Thread { tid: victim.tid, comm: Comm::new(victim.comm).text(), prio: Some(victim.prio) },
            culprit: explanation.as_ref().map(|explanation| explanation.cause.clone()),
            no_evidence: explanation.is_none().then(|| "its flight record is damaged".to_owned()),
            explanation,
            context: None,
            during_action: false,
            counted_as: None,
        })
    }
}

/// Notes that something else woke its thread before the late timer of its sleep did: a timer that wakes a thread does so
/// in its handler, which begins before.
pub(super) fn note_overdue(window: &mut Window, a: &Activation) {
    let Some((due, entry)) = a.timer.filter(|_| a.is_woken_instead() && !a.is_thawed()) else { return };
    let handles = |event: &Event| event.at == entry && matches!(event.kind, Kind::TimerExpireEntry { .. });
    if !window.events.iter().any(handles) {
        let (tid, expires) = (a.thread.tid, Mono(due.0.saturating_add(a.slack.0)));
        window.overdue.push(Overdue { tid, due, expires, woken: a.waking });
    }
}

/// Adds the waking of `a` if the rings lost it, and that a thread did it, which what the rings lost of its CPU does not
/// make doubtful.
pub(super) fn add_waking(window: &mut Window, a: &Activation) {
    let level = if a.via == Via::Thread { Level::Thread } else { Level::Unsaid };
    if woken_at(window, a.thread.tid, a.waking) {
        let first = window.events.partition_point(|event| event.at < a.waking);
        let same = window.events[first..].iter_mut().take_while(|event| event.at == a.waking);
        let is_it = |event: &&mut Event| {
            matches!(event.kind, Kind::Waking { task, .. } if task.tid == a.thread.tid)
                && event.current == Some(a.waker.tid)
                && level == Level::Thread
        };
        same.filter(is_it).for_each(|event| event.level = level);
        return;
    }
    let comm = Some(window.strings.intern(&a.thread.comm.text()));
    let task = TaskRef { tid: a.thread.tid, prio: Some(a.thread.prio), comm };
    let kind = Kind::Waking { task, target_cpu: Some(a.cpu), new: false, waker_prio: Some(a.waker.prio) };
    let place = window.events.partition_point(|event| event.at <= a.waking);
    let (current, cpu) = match a.via {
        Via::Unknown => (None, a.cpu), // of a waker that is not known
        _ => (Some(a.waker.tid), a.waker_cpu),
    };
    let event = Event { at: a.waking, cpu, current, level, kind };
    window.events.insert(place, event);
}

fn woken_at(window: &Window, tid: Tid, at: Mono) -> bool {
    let wakes = |kind: &Kind| matches!(kind, Kind::Waking { task, .. } if task.tid == tid);
    window.events.iter().any(|event| event.at == at && wakes(&event.kind))
}

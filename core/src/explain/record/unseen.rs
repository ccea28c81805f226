//! Runs of threads without recorded switches: the wakings of each thread, and its next event.

use super::Record;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind};

/// A thread woken for a CPU that may be idle, whose run has no switch.
struct Unseen {
    cpu: Cpu,
    woken: Mono,
    /// Time of the event that shows that it had run.
    until: Mono,
    /// That event is its own first one on that CPU.
    is_here: bool,
}

impl Record<'_> {
    /// Marks CPUs as not idle where a thread ran without recorded switches.
    pub(super) fn forget_unseen_turns(&mut self) {
        let mut found = Vec::new();
        for (&tid, events) in self.of_thread.iter().filter(|(tid, _)| **tid != Tid::IDLE) {
            turns(tid, events.iter().map(|&index| self.event(index)), &mut found);
        }
        for Unseen { cpu, woken, until, is_here } in found {
            if let Some(timeline) = self.timelines.get_mut(&cpu) {
                timeline.ran_unseen(woken, until, is_here);
            }
        }
    }
}

fn turns<'e>(tid: Tid, events: impl Iterator<Item = &'e Event>, found: &mut Vec<Unseen>) {
    let mut woken: Option<(Mono, Cpu)> = None;
    let mut is_placed = false; // a waking has the previous CPU, `sched_wakeup` the new one
    for event in events {
        match event.kind {
            Kind::Waking { task, target_cpu, .. } if task.tid == tid => {
                if let Some((woken, cpu)) = woken.filter(|_| is_placed) {
                    found.push(Unseen { cpu, woken, until: event.at, is_here: false });
                }
                (woken, is_placed) = (target_cpu.map(|cpu| (event.at, cpu)), false);
            }
            Kind::Wakeup { task, target_cpu } if task.tid == tid => {
                (woken, is_placed) = (target_cpu.map(|cpu| (event.at, cpu)), true);
            }
            Kind::Migrate { task, to, .. } if task.tid == tid => {
                woken = woken.map(|_| (event.at, to));
            }
            Kind::Switch { .. } => woken = None,
            _ if event.current == Some(tid) => {
                if let Some((woken, cpu)) = woken.take().filter(|(_, cpu)| *cpu == event.cpu) {
                    found.push(Unseen { cpu, woken, until: event.at, is_here: true });
                }
            }
            _ => {}
        }
    }
}

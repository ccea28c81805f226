//! Turns of threads that no switch shows: each thread's wakings, and what is recorded of it next.

use super::Record;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind};

/// A thread that was woken for an idle CPU, perhaps, and of whose turn no switch tells.
struct Unseen {
    cpu: Cpu,
    woken: Mono,
    /// What shows that it had run.
    until: Mono,
    /// Its own first event on that CPU.
    is_here: bool,
}

impl Record<'_> {
    /// Takes back that CPUs were idle where a thread ran unseen.
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
    let mut is_placed = false; // a waking tells the CPU that it had, and `sched_wakeup` the one it gets
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

//! Which thread an interrupt feeds: whom its handler wakes, its softirq, its thread, the worker of what it queued.
//!
//! What an interrupt sets going carries the moment of its entry: a thread until it blocks again, a work item until it
//! is executed, a raised softirq until it has run. Of several interrupts on the way to one wake-up the first counts.
//! Interrupts of other lines and vectors hand on nothing, also where they interrupt one of these; nor do threads that
//! are no part of the kernel's handling of interrupts: what they wake others for is their own affair.

use std::collections::HashMap;

use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Strings};

/// Softirqs that a device's interrupt raises, where `softirq_raise` is not recorded: NET_TX to TASKLET.
const OF_DEVICES: std::ops::RangeInclusive<u8> = 2..=6;

/// Names of the kernel's threads that handle interrupts begin like this.
const HANDLERS: [&str; 5] = ["irq/", "ksoftirqd/", "ktimers/", "kworker/", "napi/"];

/// What runs on a CPU instead of its thread.
#[derive(Clone, Copy, Default)]
struct Interrupted {
    /// A hard interrupt: when it began, if it is of our line.
    hard: Option<Option<Mono>>,
    soft: Option<Option<Mono>>,
}

/// Follows one interrupt line.
pub(super) struct Feeding {
    line: u32,
    cpus: HashMap<Cpu, Interrupted>,
    raised: HashMap<(Cpu, u8), Mono>,
    raises_are_recorded: bool,
    works: HashMap<u64, Mono>,
    /// What workers execute, and since which interrupt.
    executing: HashMap<Tid, Option<Mono>>,
    /// Woken since which interrupt, and whether the thread handles interrupts.
    threads: HashMap<Tid, (Mono, bool)>,
}

impl Feeding {
    pub fn new(line: u32, raises_are_recorded: bool) -> Self {
        Feeding {
            line,
            cpus: HashMap::new(),
            raised: HashMap::new(),
            raises_are_recorded,
            works: HashMap::new(),
            executing: HashMap::new(),
            threads: HashMap::new(),
        }
    }

    /// Since which interrupt the context of `event` works for it.
    fn context(&self, event: &Event) -> Option<Mono> {
        let Interrupted { hard, soft } = self.cpus.get(&event.cpu).copied().unwrap_or_default();
        if let Some(interrupt) = hard.or(soft) {
            return interrupt;
        }
        let tid = event.current?;
        match self.executing.get(&tid) {
            Some(item) => *item,
            None => self.threads.get(&tid).filter(|(_, handles)| *handles).map(|(since, _)| *since),
        }
    }

    /// Takes the next event. At the switch-in of a thread that was woken on behalf of the interrupt: since when.
    pub fn take(&mut self, event: &Event, strings: &Strings) -> Option<(Tid, Mono)> {
        let cpu = event.cpu;
        match event.kind {
            Kind::IrqEntry { irq, .. } => {
                let since = (irq == self.line).then_some(event.at);
                self.cpus.entry(cpu).or_default().hard = Some(since);
                if since.is_some() && !self.raises_are_recorded {
                    for vec in OF_DEVICES {
                        self.raised.entry((cpu, vec)).or_insert(event.at);
                    }
                }
            }
            Kind::VectorEntry(_) => self.cpus.entry(cpu).or_default().hard = Some(None),
            Kind::IrqExit { .. } | Kind::VectorExit(_) => self.cpus.entry(cpu).or_default().hard = None,
            Kind::SoftirqRaise { vec } => {
                if let Some(since) = self.context(event) {
                    self.raised.entry((cpu, vec)).or_insert(since);
                }
            }
            Kind::SoftirqEntry { vec } => {
                let since = self.raised.remove(&(cpu, vec));
                self.cpus.entry(cpu).or_default().soft = Some(since);
            }
            Kind::SoftirqExit { .. } => {
                self.cpus.entry(cpu).or_default().soft = None;
                if !self.raises_are_recorded {
                    // All that the interrupt raised have had their turn, or will not have been its.
                    self.raised.retain(|(of, _), _| *of != cpu);
                }
            }
            Kind::WorkQueue { work, .. } => {
                if let Some(since) = self.context(event) {
                    self.works.entry(work).or_insert(since);
                }
            }
            Kind::WorkStart { work, .. } => {
                let since = self.works.remove(&work);
                event.current.map(|tid| self.executing.insert(tid, since));
            }
            Kind::WorkEnd { .. } => {
                event.current.map(|tid| self.executing.insert(tid, None));
            }
            Kind::Waking { task, .. } | Kind::Wakeup { task, .. } => {
                if let Some(since) = self.context(event) {
                    let name = task.comm.map_or("", |comm| strings.get(comm));
                    let handles = HANDLERS.iter().any(|start| name.starts_with(start));
                    self.threads.entry(task.tid).or_insert((since, handles));
                }
            }
            Kind::Switch { prev, left_as, next } => {
                if left_as != LeftAs::Runnable {
                    self.threads.remove(&prev.tid);
                }
                return self.threads.get(&next.tid).map(|&(since, _)| (next.tid, since));
            }
            _ => {}
        }
        None
    }

    /// Events of a CPU are missing: what it is doing now is not known.
    pub fn lost(&mut self, cpu: Cpu) {
        self.cpus.remove(&cpu);
        self.raised.retain(|(of, _), _| *of != cpu);
    }
}

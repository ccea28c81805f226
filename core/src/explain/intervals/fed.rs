//! Links an interrupt to the threads that it leads to: those woken by its handler, its softirq, its thread, and the
//! workers of its work items.
//!
//! The time of the interrupt's entry is passed on: to a thread until it blocks again, to a work item until it is
//! executed, to a raised softirq until it has run. If several interrupts lead to one wake-up, the first counts.
//! Interrupts of other lines and vectors pass nothing on, even if they interrupt one of these; nor do threads that are
//! not part of interrupt handling.

use crate::hash::HashMap;
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Strings};

/// Softirqs assumed to be raised by a device interrupt if `softirq_raise` is not recorded: NET_TX to TASKLET.
const OF_DEVICES: std::ops::RangeInclusive<u8> = 2..=6;

/// Name prefixes of kernel threads that handle interrupts.
const HANDLERS: [&str; 5] = ["irq/", "ksoftirqd/", "ktimers/", "kworker/", "napi/"];

/// The interrupts open on a CPU.
#[derive(Clone, Copy, Default)]
struct Interrupted {
    /// A hard interrupt: its start, if it is of our line.
    hard: Option<Option<Mono>>,
    /// A softirq, likewise.
    soft: Option<Option<Mono>>,
}

/// Follows one interrupt line.
pub(super) struct Feeding {
    line: u32,
    cpus: HashMap<Cpu, Interrupted>,
    /// PREEMPT_RT: softirqs whose thread was preempted in them, by thread.
    suspended: HashMap<Tid, Option<Mono>>,
    raised: HashMap<(Cpu, u8), Mono>,
    raises_are_recorded: bool,
    /// CPUs in a round of softirqs since an interrupt of the line, with the last softirq that has run.
    rounds: HashMap<Cpu, u8>,
    works: HashMap<u64, Mono>,
    /// Workers, with the interrupt of their current work item.
    executing: HashMap<Tid, Option<Mono>>,
    /// Threads, with the interrupt of their waking, and whether they handle interrupts.
    threads: HashMap<Tid, (Mono, bool)>,
}

impl Feeding {
    pub fn new(line: u32, raises_are_recorded: bool) -> Self {
        Feeding {
            line,
            cpus: HashMap::default(),
            suspended: HashMap::default(),
            raised: HashMap::default(),
            raises_are_recorded,
            rounds: HashMap::default(),
            works: HashMap::default(),
            executing: HashMap::default(),
            threads: HashMap::default(),
        }
    }

    /// The interrupt that the context of `event` works for.
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

    /// Processes the next event. At the switch-in of a thread woken for the interrupt, returns the thread and the time
    /// of the interrupt.
    pub fn take(&mut self, event: &Event, strings: &Strings) -> Option<(Tid, Mono)> {
        let cpu = event.cpu;
        match event.kind {
            Kind::IrqEntry { irq, .. } => {
                let since = (irq == self.line).then_some(event.at);
                self.cpus.entry(cpu).or_default().hard = Some(since);
                if since.is_some() && !self.raises_are_recorded {
                    self.rounds.remove(&cpu);
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
                if self.rounds.get(&cpu).is_some_and(|last| vec <= *last) {
                    self.end_round(cpu);
                }
                let since = self.raised.remove(&(cpu, vec));
                self.cpus.entry(cpu).or_default().soft = Some(since);
            }
            Kind::SoftirqExit { vec } => {
                self.cpus.entry(cpu).or_default().soft = None;
                if !self.raises_are_recorded {
                    // Softirqs run in the order of their numbers: the next ones may be the interrupt's as well.
                    self.raised.retain(|(of, raised), _| *of != cpu || *raised > vec);
                    self.rounds.insert(cpu, vec);
                }
            }
            Kind::SysEnter { .. } | Kind::SysExit { .. } => self.end_round(cpu),
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
                self.end_round(cpu);
                let left = self.cpus.remove(&cpu).and_then(|interrupted| interrupted.soft);
                if let Some(open) = left.filter(|_| prev.tid != Tid::IDLE) {
                    self.suspended.insert(prev.tid, open);
                }
                if let Some(open) = self.suspended.remove(&next.tid) {
                    self.cpus.insert(cpu, Interrupted { hard: None, soft: Some(open) });
                }
                if left_as != LeftAs::Runnable {
                    self.threads.remove(&prev.tid);
                }
                return self.threads.get(&next.tid).map(|&(since, _)| (next.tid, since));
            }
            _ => {}
        }
        None
    }

    /// The interrupt that `tid` was woken for, until it blocks again.
    pub fn woken(&self, tid: Tid) -> Option<Mono> {
        self.threads.get(&tid).map(|(since, _)| *since)
    }

    /// All softirqs that the interrupt raised have run, if one has: later ones are not its own.
    fn end_round(&mut self, cpu: Cpu) {
        if self.rounds.remove(&cpu).is_some() {
            self.raised.retain(|(of, _), _| *of != cpu);
        }
    }

    /// Events of a CPU are missing: its context is not known.
    pub fn lost(&mut self, cpu: Cpu) {
        self.cpus.remove(&cpu);
        self.suspended.clear();
        self.rounds.remove(&cpu);
        self.raised.retain(|(of, _), _| *of != cpu);
    }
}

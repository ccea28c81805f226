//! Contradictions in the sequence of events: they prove that the trace lost events without reporting it, as where lines of a
//! text were removed.
//!
//! Each start has one end (where ends are recorded), a thread runs only after a switch to it, and a sleep ends by a waking.
//! After a loss that the trace reports, nothing is compared with events before it. A missing event that has no partner is not
//! noticed; where several are missing, others have one.

use crate::hash::{HashMap, HashSet};
use crate::time::{Cpu, Mono, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Vector};

/// An event that contradicts those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction {
    /// Its time: the missing event is before it.
    pub at: Mono,
    /// Its CPU.
    pub cpu: Cpu,
    /// The event that is missing.
    pub missing: &'static str,
}

/// Something that starts and ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Pair {
    Irq(Cpu, u32),
    Vector(Cpu, Vector),
    Softirq(Cpu, u8),
    Timer(Cpu, u64),
    Wheel(Cpu, u64),
    Csd(Cpu, u64),
    Work(Tid),
}

/// Events of which one is a partner of the other: a recording may have only some of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Partners {
    Irq,
    Vector(Vector),
    Softirq,
    Timer,
    Wheel,
    Csd,
    /// Of the call with this number.
    Call(i32),
    Work,
    /// A sleep of this thread and the waking that ends it.
    Sleep(Tid),
}

impl Pair {
    fn partners(self) -> Partners {
        match self {
            Pair::Irq(..) => Partners::Irq,
            Pair::Vector(_, vector) => Partners::Vector(vector),
            Pair::Softirq(..) => Partners::Softirq,
            Pair::Timer(..) => Partners::Timer,
            Pair::Wheel(..) => Partners::Wheel,
            Pair::Csd(..) => Partners::Csd,
            Pair::Work(_) => Partners::Work,
        }
    }
}

/// What the events up to now say of a thread.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    /// Its switch-in was the last event, or a waking since then.
    Running {
        woken: bool,
    },
    Blocked,
    /// Runnable.
    Waits,
}

/// Reads events in time order.
#[derive(Default)]
pub(super) struct Contradictions {
    pairs: HashMap<Pair, bool>,
    /// The system call in which a thread is, by its number.
    calls: HashMap<Tid, i32>,
    on: HashMap<Cpu, Tid>,
    threads: HashMap<Tid, Of>,
    has_wakings: bool,
    /// Only some threads are recorded: see [`Window::is_selective`](crate::trace::window::Window::is_selective).
    is_selective: bool,
    /// Pairs of which a start and its end were seen.
    complete: HashSet<Partners>,
    found: Vec<(Contradiction, Option<Partners>)>,
}

impl Contradictions {
    /// `has_wakings`: `sched_waking` is recorded; `is_selective`: of some threads.
    pub fn new(has_wakings: bool, is_selective: bool) -> Contradictions {
        Contradictions { has_wakings, is_selective, ..Contradictions::default() }
    }

    /// All that were found, ascending in time. A start without an end, or an end without a start, is one only where the others
    /// of its kind have both.
    pub fn found(self) -> Vec<Contradiction> {
        let counts = |partners: Option<Partners>| partners.is_none_or(|pair| self.complete.contains(&pair));
        self.found.iter().filter(|(_, partners)| counts(*partners)).map(|(found, _)| *found).collect()
    }

    /// The next event.
    pub fn step(&mut self, event: &Event) {
        let cpu = event.cpu;
        match event.kind {
            Kind::Lost { .. } => {
                let found = std::mem::take(&mut self.found);
                let complete = std::mem::take(&mut self.complete);
                *self = Contradictions {
                    complete,
                    found,
                    ..Contradictions::new(self.has_wakings, self.is_selective)
                };
                return;
            }
            Kind::Switch { prev, left_as, next } => self.switch(event, (prev.tid, left_as), next.tid),
            // Between a switch and its event others may name the thread that leaves.
            Kind::Other { .. } => {}
            _ => self.see(event),
        }
        match event.kind {
            Kind::IrqEntry { irq, .. } => self.start(event, Pair::Irq(cpu, irq), "irq_handler_exit"),
            Kind::IrqExit { irq } => self.end(event, Pair::Irq(cpu, irq), "irq_handler_entry"),
            Kind::VectorEntry(vector) => {
                self.start(event, Pair::Vector(cpu, vector), "the exit of an interrupt vector");
            }
            Kind::VectorExit(vector) => {
                self.end(event, Pair::Vector(cpu, vector), "the entry of an interrupt vector");
            }
            Kind::SoftirqEntry { vec } => self.start(event, Pair::Softirq(cpu, vec), "softirq_exit"),
            Kind::SoftirqExit { vec } => self.end(event, Pair::Softirq(cpu, vec), "softirq_entry"),
            Kind::TimerExpireEntry { timer, .. } => {
                self.start(event, Pair::Timer(cpu, timer), "hrtimer_expire_exit");
            }
            Kind::TimerExpireExit { timer } => {
                self.end(event, Pair::Timer(cpu, timer), "hrtimer_expire_entry");
            }
            Kind::WheelExpireEntry { timer, .. } => {
                self.start(event, Pair::Wheel(cpu, timer), "timer_expire_exit");
            }
            Kind::WheelExpireExit { timer } => self.end(event, Pair::Wheel(cpu, timer), "timer_expire_entry"),
            Kind::CsdEntry { csd, .. } => self.start(event, Pair::Csd(cpu, csd), "csd_function_exit"),
            Kind::CsdExit { csd } => self.end(event, Pair::Csd(cpu, csd), "csd_function_entry"),
            Kind::Waking { task, new: false, .. } => self.wake(task.tid),
            Kind::Waking { task, new: true, .. } => _ = self.threads.insert(task.tid, Of::Waits),
            Kind::Fork { child, .. } => {
                self.calls.remove(&child.tid);
                self.threads.remove(&child.tid);
            }
            _ => {}
        }
        let Some(tid) = event.current else { return };
        match event.kind {
            Kind::SysEnter { id, .. } if !self.is_selective => {
                if let Some(before) = self.calls.insert(tid, id) {
                    self.find(event, "sys_exit", Some(Partners::Call(before)));
                }
            }
            Kind::SysExit { id, .. } => self.call_ends(tid, id),
            Kind::WorkStart { .. } => self.start(event, Pair::Work(tid), "workqueue_execute_end"),
            Kind::WorkEnd { .. } => self.end(event, Pair::Work(tid), "workqueue_execute_start"),
            _ => {}
        }
    }

    /// `partners`: it counts only where the record has both of these.
    fn find(&mut self, event: &Event, missing: &'static str, partners: Option<Partners>) {
        self.found.push((Contradiction { at: event.at, cpu: event.cpu, missing }, partners));
    }

    fn start(&mut self, event: &Event, pair: Pair, missing: &'static str) {
        if self.pairs.insert(pair, true) == Some(true) {
            self.find(event, missing, Some(pair.partners()));
        }
    }

    fn end(&mut self, event: &Event, pair: Pair, missing: &'static str) {
        match self.pairs.insert(pair, false) {
            Some(true) => _ = self.complete.insert(pair.partners()),
            Some(false) => self.find(event, missing, Some(pair.partners())),
            None => {}
        }
    }

    /// A call that seccomp refuses has an end only.
    fn call_ends(&mut self, tid: Tid, id: i32) {
        if self.calls.remove(&tid) == Some(id) {
            self.complete.insert(Partners::Call(id));
        }
    }

    /// The event names the thread on its CPU. Not all kernels report switches to and from the idle task.
    fn see(&mut self, event: &Event) {
        let Some(tid) = event.current else { return };
        let before = self.on.insert(event.cpu, tid);
        if before.is_some_and(|before| before != tid && before != Tid::IDLE && tid != Tid::IDLE)
            && !self.is_selective
        {
            self.find(event, "sched_switch", None);
        }
        if before != Some(tid) {
            self.threads.remove(&tid);
            self.threads.remove(&before.unwrap_or(tid));
        }
    }

    fn switch(&mut self, event: &Event, (prev, left_as): (Tid, LeftAs), next: Tid) {
        let before = self.on.insert(event.cpu, next);
        if before.is_some_and(|before| before != prev && before != Tid::IDLE && prev != Tid::IDLE)
            && !self.is_selective
        {
            self.find(event, "sched_switch", None);
        }
        if prev != Tid::IDLE {
            let woken = matches!(self.threads.get(&prev), Some(Of::Running { woken: true }));
            let now = match left_as {
                LeftAs::Runnable => Some(Of::Waits),
                // A waking on the way to sleep ends that sleep.
                LeftAs::Blocked(_) if woken => None,
                LeftAs::Blocked(_) => Some(Of::Blocked),
                LeftAs::Dead => None,
            };
            match now {
                Some(now) => _ = self.threads.insert(prev, now),
                None => _ = self.threads.remove(&prev),
            }
        }
        if next != Tid::IDLE {
            let was = self.threads.insert(next, Of::Running { woken: false });
            if self.has_wakings && was == Some(Of::Blocked) {
                let of_thread = self.is_selective.then_some(Partners::Sleep(next));
                self.find(event, "sched_waking", of_thread);
            }
        }
    }

    fn wake(&mut self, tid: Tid) {
        if self.is_selective {
            self.complete.insert(Partners::Sleep(tid));
        }
        let now = match self.threads.get(&tid) {
            Some(Of::Running { .. }) => Of::Running { woken: true },
            Some(Of::Blocked | Of::Waits) => Of::Waits,
            None => return,
        };
        self.threads.insert(tid, now);
    }
}

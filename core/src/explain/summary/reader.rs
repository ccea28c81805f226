//! The walk behind a summary.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::{Interrupter, OfCpu, OfThread, Summary, Wakeups};
use crate::explain::record::{softirq_name, vector_name};
use crate::histogram::{Histogram, Layout};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Sym, TaskRef};
use crate::trace::normalize::Normalizer;
use crate::trace::source::{Item, Source, Span};

/// CPUs that are summed up; the kernel has 8192 at most.
const MOST_CPUS: usize = 1 << 14;

#[derive(Clone, Copy, Default, PartialEq)]
enum Doing {
    #[default]
    Unknown,
    Running,
    Ready,
    Blocked,
}

#[derive(Default)]
struct Task {
    sums: OfThread,
    comm: Option<Sym>,
    doing: Doing,
    since: Mono,
    woken: Option<Mono>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    Irq(u32, Option<Sym>),
    Vector(crate::trace::event::Vector),
    Softirq(u8),
}

#[derive(Default)]
struct State {
    sums: OfCpu,
    running: Option<Tid>,
    since: Mono,
    /// Open interrupt levels: hard, soft; when they began and how much a deeper one took.
    hard: Option<(Line, Mono)>,
    soft: Option<(Line, Mono, Ns)>,
}

struct Reader {
    /// By number; `None` where no event was.
    cpus: Vec<Option<State>>,
    tasks: HashMap<Tid, Task, BuildHasherDefault<ByNumber>>,
    lines: BTreeMap<Line, (u64, Ns, Ns)>,
    latencies: Histogram,
    reach: Option<(Mono, Mono)>,
    events: u64,
    damage: Vec<String>,
}

/// Summarizes a trace.
#[must_use]
pub fn summarize(source: &dyn Source) -> Summary {
    let mut normalizer = Normalizer::new(source);
    let mut reader = Reader {
        cpus: Vec::new(),
        tasks: HashMap::default(),
        lines: BTreeMap::new(),
        latencies: Histogram::new(Layout::LATENCY),
        reach: None,
        events: 0,
        damage: Vec::new(),
    };
    let needed: Vec<bool> = source.catalogue().classes().iter().map(|class| is_needed(&class.name)).collect();
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        if let Item::Damage(damage) = &item {
            if reader.damage.len() < 20 {
                reader.damage.push(damage.to_string());
            }
        }
        match &item {
            // Most events say nothing that is summed up: they are counted and not looked into.
            Item::Event(record) if !needed.get(record.class as usize).copied().unwrap_or(false) => {
                reader.count(record.at, record.cpu);
            }
            item => {
                if let Some(event) = normalizer.item(item) {
                    reader.step(&event);
                }
            }
        }
    }
    drop(walk);
    reader.finish(&normalizer, source)
}

/// Whether events of this name are summed up.
fn is_needed(name: &str) -> bool {
    const NEEDED: [&str; 4] = ["sched_switch", "sched_waking", "sched_wakeup_new", "sched_migrate_task"];
    let edge = name.strip_suffix("_entry").or(name.strip_suffix("_exit"));
    NEEDED.contains(&name)
        || edge.is_some_and(|of| {
            let other = ["hrtimer_expire", "timer_expire", "timer_hrtimer_expire", "csd_function", "ipi"];
            !other.contains(&of) && !of.starts_with("syscall")
        })
}

/// Hashes small numbers that come one by one: threads' ids.
#[derive(Default)]
struct ByNumber(u64);

impl Hasher for ByNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    fn write_i32(&mut self, number: i32) {
        self.write_u64(u64::from(number as u32));
    }

    fn write_u64(&mut self, number: u64) {
        let mixed = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32); // the table takes its place from the low bits and its tag from the high ones
    }
}

impl Reader {
    /// The CPU's state, new at its first event; `None`: a number that no machine has.
    fn cpu(&mut self, cpu: Cpu, at: Mono) -> Option<&mut State> {
        let index = cpu.0 as usize;
        if index >= self.cpus.len() && index < MOST_CPUS {
            self.cpus.resize_with(index + 1, || None);
        }
        let slot = self.cpus.get_mut(index)?;
        Some(slot.get_or_insert_with(|| State { since: at, ..State::default() }))
    }

    fn known(&mut self, cpu: Cpu) -> Option<&mut State> {
        self.cpus.get_mut(cpu.0 as usize)?.as_mut()
    }

    fn count(&mut self, at: Mono, cpu: Cpu) {
        if let Some(state) = self.cpu(cpu, at) {
            state.sums.events += 1;
        }
        self.events += 1;
        let (first, last) = self.reach.unwrap_or((at, at));
        self.reach = Some((first.min(at), last.max(at)));
    }

    fn step(&mut self, event: &Event) {
        if let Kind::Lost { count } = event.kind {
            let Some(state) = self.cpu(event.cpu, event.at) else { return };
            state.sums.lost += count.unwrap_or(1);
            (state.hard, state.soft, state.running) = (None, None, None);
            state.since = event.at;
            return;
        }
        self.count(event.at, event.cpu);
        let Some(state) = self.cpus.get_mut(event.cpu.0 as usize).and_then(Option::as_mut) else { return };
        match event.kind {
            Kind::Switch { prev, left_as, next } => self.switch(event, prev, left_as, next),
            Kind::Waking { task, .. } => {
                let task = self.tasks.entry(task.tid).or_default();
                if task.doing != Doing::Running && task.doing != Doing::Ready {
                    task.change(Doing::Ready, event.at);
                    task.woken = Some(event.at);
                }
            }
            Kind::Migrate { task, .. } => self.tasks.entry(task.tid).or_default().sums.migrations += 1,
            Kind::IrqEntry { irq, name } => state.hard = Some((Line::Irq(irq, name), event.at)),
            Kind::VectorEntry(vector) => state.hard = Some((Line::Vector(vector), event.at)),
            Kind::SoftirqEntry { vec } => state.soft = Some((Line::Softirq(vec), event.at, Ns::ZERO)),
            Kind::IrqExit { .. } | Kind::VectorExit(_) => self.hard_exit(event),
            Kind::SoftirqExit { vec } => self.soft_exit(event, vec),
            _ => {}
        }
    }

    fn hard_exit(&mut self, event: &Event) {
        let Some(state) = self.known(event.cpu) else { return };
        let Some((line, since)) = state.hard.take() else { return };
        let same = match (line, event.kind) {
            (Line::Irq(irq, _), Kind::IrqExit { irq: ended }) => irq == ended,
            (Line::Vector(vector), Kind::VectorExit(ended)) => vector == ended,
            _ => false,
        };
        if same {
            let net = event.at.since(since);
            if let Some((_, _, taken)) = &mut state.soft {
                *taken = *taken + net;
            }
            self.interrupted(event, line, net);
        }
    }

    fn soft_exit(&mut self, event: &Event, vec: u8) {
        let Some(state) = self.known(event.cpu) else { return };
        if let Some((line, since, taken)) = state.soft.take().filter(|(line, ..)| *line == Line::Softirq(vec))
        {
            self.interrupted(event, line, event.at.since(since).saturating_sub(taken));
        }
    }

    fn interrupted(&mut self, event: &Event, line: Line, net: Ns) {
        let sums = self.lines.entry(line).or_default();
        *sums = (sums.0 + 1, sums.1 + net, sums.2.max(net));
        if let Some(state) = self.known(event.cpu) {
            state.sums.interrupted_ns = state.sums.interrupted_ns + net;
        }
        if let Some(task) = event.current.and_then(|tid| self.tasks.get_mut(&tid)) {
            task.sums.interrupted_ns = task.sums.interrupted_ns + net;
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskRef, left_as: LeftAs, next: TaskRef) {
        let Some(state) = self.known(event.cpu) else { return };
        let net = event.at.since(state.since);
        if state.running.is_none_or(|tid| tid == prev.tid) {
            let sum = if prev.tid == Tid::IDLE { &mut state.sums.idle_ns } else { &mut state.sums.busy_ns };
            *sum = *sum + net;
        }
        let began = state.running.is_none().then_some(state.since);
        state.sums.switches += 1;
        state.since = event.at;
        state.running = Some(next.tid);
        if prev.tid != Tid::IDLE {
            let task = self.tasks.entry(prev.tid).or_default();
            task.comm = prev.comm.or(task.comm);
            if let (Some(began), Doing::Unknown) = (began, task.doing) {
                (task.doing, task.since) = (Doing::Running, began);
            }
            let doing = if left_as == LeftAs::Runnable { Doing::Ready } else { Doing::Blocked };
            task.change(doing, event.at);
            task.woken = None;
        }
        if next.tid != Tid::IDLE {
            let task = self.tasks.entry(next.tid).or_default();
            task.comm = next.comm.or(task.comm);
            task.change(Doing::Running, event.at);
            if let Some(woken) = task.woken.take() {
                let latency = event.at.since(woken);
                task.sums.wakeups += 1;
                task.sums.worst_wakeup_ns = Some(task.sums.worst_wakeup_ns.unwrap_or_default().max(latency));
                self.latencies.record(latency);
            }
        }
    }

    fn finish(mut self, normalizer: &Normalizer, source: &dyn Source) -> Summary {
        let (first, last) = self.reach.unwrap_or_default();
        let text = |sym: Sym| normalizer.strings().get(sym).to_owned();
        let mut cpus = Vec::new();
        let states = std::mem::take(&mut self.cpus).into_iter().enumerate();
        for (cpu, mut state) in states.filter_map(|(cpu, state)| Some((Cpu(cpu as u32), state?))) {
            let rest = last.since(state.since);
            match state.running {
                Some(Tid::IDLE) => state.sums.idle_ns = state.sums.idle_ns + rest,
                Some(_) => state.sums.busy_ns = state.sums.busy_ns + rest,
                None => {}
            }
            cpus.push(OfCpu { cpu, ..state.sums });
        }
        let mut threads = Vec::new();
        for (tid, mut task) in std::mem::take(&mut self.tasks) {
            task.change(Doing::Unknown, last);
            let saved = || source.info().comms.get(&tid).cloned().unwrap_or_default();
            threads.push(OfThread { tid, comm: task.comm.map_or_else(saved, text), ..task.sums });
        }
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.run_ns), thread.tid));
        let name = |line: Line| match line {
            Line::Irq(irq, Some(name)) => format!("hard IRQ {irq} ({})", text(name)),
            Line::Irq(irq, None) => format!("hard IRQ {irq}"),
            Line::Vector(vector) => vector_name(vector),
            Line::Softirq(vec) => format!("softirq {}", softirq_name(vec)),
        };
        let lines = self.lines.iter().map(|(&line, &(count, total_ns, worst_ns))| Interrupter {
            name: name(line),
            count,
            total_ns,
            worst_ns,
        });
        let mut interrupters: Vec<Interrupter> = lines.collect();
        interrupters.sort_by_key(|interrupter| std::cmp::Reverse(interrupter.total_ns));
        let at = |share: f64| self.latencies.quantile(share).unwrap_or_default();
        let wakeups = Wakeups {
            count: self.latencies.count(),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            worst_ns: self.latencies.max().unwrap_or_default(),
        };
        let damage = self.damage;
        Summary {
            events: self.events,
            span_ns: last.since(first),
            cpus,
            threads,
            interrupters,
            wakeups,
            damage,
        }
    }
}

impl Task {
    fn change(&mut self, doing: Doing, at: Mono) {
        let net = at.since(self.since);
        match self.doing {
            Doing::Unknown => {}
            Doing::Running => self.sums.run_ns = self.sums.run_ns + net,
            Doing::Ready => self.sums.ready_ns = self.sums.ready_ns + net,
            Doing::Blocked => self.sums.blocked_ns = self.sums.blocked_ns + net,
        }
        (self.doing, self.since) = (doing, at);
    }
}

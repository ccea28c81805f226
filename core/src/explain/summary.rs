//! A whole trace at a glance: what each CPU and each thread did, who interrupted most, how long wake-ups took.
//!
//! One walk, constant memory per CPU and thread. Intervals are those of the scheduler's events; time in interrupts is
//! counted for their CPU and is part of the running time of the thread that they interrupted, and shown beside it.

use std::collections::{BTreeMap, HashMap};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::record::{softirq_name, vector_name};
use crate::histogram::{Histogram, Layout};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, LeftAs, Sym, TaskRef};
use crate::trace::normalize::Normalizer;
use crate::trace::source::{Item, Source, Span};

/// What one CPU did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfCpu {
    /// Which.
    pub cpu: Cpu,
    /// Events read.
    pub events: u64,
    /// Events lost, where counted.
    pub lost: u64,
    /// A thread had it.
    pub busy_ns: Ns,
    /// The idle task had it.
    pub idle_ns: Ns,
    /// In interrupts and softirqs (part of the two).
    pub interrupted_ns: Ns,
    /// Context switches.
    pub switches: u64,
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfThread {
    /// Which.
    pub tid: Tid,
    /// Its last name.
    pub comm: String,
    /// On a CPU, with what interrupted it there.
    pub run_ns: Ns,
    /// Runnable without a CPU.
    pub ready_ns: Ns,
    /// Blocked.
    pub blocked_ns: Ns,
    /// Of the running time, in interrupts.
    pub interrupted_ns: Ns,
    /// Wake-ups.
    pub wakeups: u64,
    /// The longest from waking to switched in; `None` without any.
    pub worst_wakeup_ns: Option<Ns>,
    /// Migrations.
    pub migrations: u64,
}

/// An interrupt source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interrupter {
    /// `hard IRQ 25 (virtio0)`, `vector local_timer`, `softirq NET_RX`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Time in it, without what interrupted it in turn.
    pub total_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// Wake-up latencies of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Wakeups {
    /// How many.
    pub count: u64,
    /// Half were at most this (to the resolution of the histogram: 1 µs).
    pub median_ns: Ns,
    /// 99 % were at most this.
    pub p99_ns: Ns,
    /// 99.9 % were at most this.
    pub p999_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Events read.
    pub events: u64,
    /// From the first to the last.
    pub span_ns: Ns,
    /// Per CPU.
    pub cpus: Vec<OfCpu>,
    /// Per thread, most running time first.
    pub threads: Vec<OfThread>,
    /// Most time first.
    pub interrupters: Vec<Interrupter>,
    /// Real-time threads' and others' together.
    pub wakeups: Wakeups,
    /// Damage met.
    pub damage: Vec<String>,
}

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
    cpus: BTreeMap<Cpu, State>,
    tasks: HashMap<Tid, Task>,
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
        cpus: BTreeMap::new(),
        tasks: HashMap::new(),
        lines: BTreeMap::new(),
        latencies: Histogram::new(Layout::LATENCY),
        reach: None,
        events: 0,
        damage: Vec::new(),
    };
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        if let Item::Damage(damage) = &item {
            if reader.damage.len() < 20 {
                reader.damage.push(damage.to_string());
            }
        }
        if let Some(event) = normalizer.item(&item) {
            reader.step(&event);
        }
    }
    drop(walk);
    reader.finish(&normalizer, source)
}

impl Reader {
    fn step(&mut self, event: &Event) {
        let state =
            self.cpus.entry(event.cpu).or_insert_with(|| State { since: event.at, ..State::default() });
        if let Kind::Lost { count } = event.kind {
            state.sums.lost += count.unwrap_or(1);
            (state.hard, state.soft, state.running) = (None, None, None);
            state.since = event.at;
            return;
        }
        self.events += 1;
        state.sums.events += 1;
        let first = self.reach.map_or(event.at, |(first, _)| first.min(event.at));
        self.reach = Some((first, event.at.max(first)));
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
        let Some(state) = self.cpus.get_mut(&event.cpu) else { return };
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
        let Some(state) = self.cpus.get_mut(&event.cpu) else { return };
        if let Some((line, since, taken)) = state.soft.take().filter(|(line, ..)| *line == Line::Softirq(vec))
        {
            self.interrupted(event, line, event.at.since(since).saturating_sub(taken));
        }
    }

    fn interrupted(&mut self, event: &Event, line: Line, net: Ns) {
        let sums = self.lines.entry(line).or_default();
        *sums = (sums.0 + 1, sums.1 + net, sums.2.max(net));
        if let Some(state) = self.cpus.get_mut(&event.cpu) {
            state.sums.interrupted_ns = state.sums.interrupted_ns + net;
        }
        if let Some(task) = event.current.and_then(|tid| self.tasks.get_mut(&tid)) {
            task.sums.interrupted_ns = task.sums.interrupted_ns + net;
        }
    }

    fn switch(&mut self, event: &Event, prev: TaskRef, left_as: LeftAs, next: TaskRef) {
        let Some(state) = self.cpus.get_mut(&event.cpu) else { return };
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
        for (cpu, mut state) in std::mem::take(&mut self.cpus) {
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

/// Lines of each table on the terminal.
const MOST: usize = 20;

impl Summary {
    /// The terminal text, at most 100 columns.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{} events in {}\n\n", self.events, self.span_ns);
        text.push_str("CPU       events     lost        busy        idle interrupted  switches\n");
        for cpu in &self.cpus {
            text.push_str(&format!(
                "{:>3} {:>12} {:>8} {:>11} {:>11} {:>11} {:>9}\n",
                cpu.cpu, cpu.events, cpu.lost, cpu.busy_ns, cpu.idle_ns, cpu.interrupted_ns, cpu.switches
            ));
        }
        text.push_str("\nthread                           run       ready     blocked interrupted  wakeups  worst wakeup\n");
        for thread in self.threads.iter().take(MOST) {
            let worst = thread.worst_wakeup_ns.map_or("-".to_owned(), |worst| worst.to_string());
            let name: String = format!("{}/{}", thread.comm, thread.tid).chars().take(24).collect();
            text.push_str(&format!(
                "{name:<24} {:>11} {:>11} {:>11} {:>11} {:>8} {worst:>13}\n",
                thread.run_ns, thread.ready_ns, thread.blocked_ns, thread.interrupted_ns, thread.wakeups
            ));
        }
        if self.threads.len() > MOST {
            text.push_str(&format!("… and {} more\n", self.threads.len() - MOST));
        }
        text.push_str("\ninterrupter                              count       total       worst\n");
        for interrupter in self.interrupters.iter().take(MOST) {
            let name: String = interrupter.name.chars().take(36).collect();
            let (count, total, worst) = (interrupter.count, interrupter.total_ns, interrupter.worst_ns);
            text.push_str(&format!("{name:<36} {count:>9} {total:>11} {worst:>11}\n"));
        }
        let Wakeups { count, median_ns, p99_ns, p999_ns, worst_ns } = &self.wakeups;
        text.push_str(&format!(
            "\n{count} wake-ups: median {median_ns}, 99 % {p99_ns}, 99.9 % {p999_ns}, worst {worst_ns}\n"
        ));
        for damage in &self.damage {
            text.push_str(&format!("! the file is damaged at {damage}\n"));
        }
        text
    }
}

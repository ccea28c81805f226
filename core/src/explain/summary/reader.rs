//! State of each CPU and thread of a summary, updated step by step.

mod wakeups;

use super::digest::{Batch, Left, Step, What, MOST_CPUS};
use super::line::Line;
use super::tasks::{Doing, Tasks};
use super::{Interrupter, OfCpu, OfThread, Summary};
use crate::explain::silence::{Silence, Silences};
use crate::explain::turns::TWICE;
use crate::hash::HashMap;
use crate::histogram::{Histogram, Layout};
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::{Strings, Sym};
use crate::trace::item::Damage;
use crate::trace::source::Source;

/// Maximum number of damage reports.
const MOST_DAMAGE: usize = 20;

/// Maximum nesting of hard interrupts: beyond it, exits were lost.
const DEEPEST: usize = 8;

/// The thread that is switched out.
struct Leaving {
    tid: Tid,
    comm: Sym,
    left_as: Left,
}

#[derive(Default)]
struct State {
    sums: OfCpu,
    running: Option<Tid>,
    since: Mono,
    /// The thread switched out last.
    left: Tid,
    /// Open interrupts: hard ones (outermost first), soft; with their start and the time of nested ones.
    hard: Vec<(Line, Mono, Ns)>,
    soft: Option<(Line, Mono, Ns)>,
    /// PREEMPT_RT: softirqs whose thread was preempted in them, by thread, with the time of the preemption.
    suspended: HashMap<Tid, (Mono, (Line, Mono, Ns))>,
}

impl State {
    /// Handlers may be interrupted, but not by their own line: then its exit was lost.
    fn hard_entry(&mut self, line: Line, at: Mono) {
        let same = self.hard.iter().position(|(open, ..)| *open == line);
        self.hard.truncate(same.unwrap_or(if self.hard.len() < DEEPEST { DEEPEST } else { 0 }));
        self.hard.push((line, at, Ns::ZERO));
    }

    /// A preempted softirq continues when its thread runs again, and does not count the time between.
    fn switch_softirq(&mut self, at: Mono, prev: Tid, next: Tid) {
        if let Some(open) = self.soft.take().filter(|_| prev != Tid::IDLE) {
            self.suspended.insert(prev, (at, open));
        }
        if let Some((left, (line, since, taken))) = self.suspended.remove(&next) {
            self.soft = Some((line, since, taken + at.since(left)));
        }
    }
}

/// The sums so far.
pub(super) struct Reader {
    strings: Strings,
    /// By number; `None` without events.
    cpus: Vec<Option<State>>,
    tasks: Tasks,
    lines: HashMap<Line, Sums>,
    latencies: Histogram,
    reach: Option<(Mono, Mono)>,
    events: u64,
    counts: Vec<u64>, // events by CPU number
    damage: Vec<Damage>,
    /// Latest time before which events are missing.
    lost_until: Mono,
    spanning_losses: u64,
    longest_spanning: Option<Ns>,
    unseen_switch_ins: u64,
    longest_unseen: Option<Ns>,
    silences: Silences,
}

/// Sums of an interrupt.
#[derive(Default)]
struct Sums {
    count: u64,
    total: Ns,
    worst: Ns,
}

impl Default for Reader {
    fn default() -> Self {
        Reader {
            strings: Strings::default(),
            cpus: Vec::new(),
            tasks: Tasks::default(),
            lines: HashMap::default(),
            latencies: Histogram::new(Layout::LATENCY),
            reach: None,
            events: 0,
            counts: Vec::new(),
            damage: Vec::new(),
            lost_until: Mono(0),
            spanning_losses: 0,
            longest_spanning: None,
            unseen_switch_ins: 0,
            longest_unseen: None,
            silences: Silences::default(),
        }
    }
}

impl Reader {
    /// A reader of a record that is complete from this time.
    pub fn complete_from(from: Option<Mono>) -> Self {
        Reader { lost_until: from.unwrap_or_default(), ..Reader::default() }
    }

    /// The reader's own symbol for a text.
    pub fn intern(&mut self, text: &str) -> Sym {
        self.strings.intern(text)
    }

    /// Adds the counts of a batch.
    pub fn count(&mut self, batch: &Batch) {
        for &(cpu, events) in &batch.counts {
            self.events += events;
            let index = cpu.0 as usize;
            if index < MOST_CPUS {
                self.counts.resize(self.counts.len().max(index + 1), 0);
                self.counts[index] += events;
            }
        }
        if let Some((from, to)) = batch.reach {
            let (first, last) = self.reach.unwrap_or((from, to));
            self.reach = Some((first.min(from), last.max(to)));
        }
    }

    /// The state of the CPU, created at its first event; `None`: an impossible number.
    fn cpu(&mut self, cpu: Cpu, at: Mono) -> Option<&mut State> {
        let index = cpu.0 as usize;
        if index >= self.cpus.len() && index < MOST_CPUS {
            self.cpus.resize_with(index + 1, || None);
        }
        let slot = self.cpus.get_mut(index)?;
        Some(slot.get_or_insert_with(|| State { since: at, ..State::default() }))
    }

    /// Processes one step of `batch`; `symbols` maps its symbols to the reader's.
    #[inline]
    pub fn step(&mut self, step: &Step, batch: &Batch, symbols: &[Sym]) {
        let own = |sym: Sym| symbols.get(sym.0 as usize).copied().unwrap_or_default();
        let Step { at, cpu, what } = *step;
        if let What::Damage(index) = what {
            self.damaged(batch.damage.get(index as usize));
            return;
        }
        self.silences.event(cpu, at);
        let Some(state) = self.cpu(cpu, at) else { return };
        match what {
            What::Switch { prev, prev_comm, left_as, next, next_comm } => {
                let leaving = Leaving { tid: prev, comm: own(prev_comm), left_as };
                self.switch(at, cpu, leaving, next, own(next_comm));
            }
            What::Waking(tid) => {
                let unseen = self.tasks.of(tid).wake(at);
                self.unseen_switch_in(unseen);
            }
            What::Migrate(tid, to) => {
                self.tasks.of(tid).sums.migrations += 1;
                if to != cpu {
                    self.silences.moved(tid, to, at);
                }
            }
            What::IrqEntry { irq, name } => state.hard_entry(Line::Irq(irq, own(name)), at),
            What::VectorEntry(vector) => state.hard_entry(Line::Vector(vector), at),
            What::SoftirqEntry(vec) => {
                state.hard.clear();
                state.soft = Some((Line::Softirq(vec), at, Ns::ZERO));
            }
            What::IrqExit { irq, current } => {
                self.hard_exit(at, cpu, current, |line| matches!(line, Line::Irq(of, _) if of == irq));
            }
            What::VectorExit { vector, current } => {
                self.hard_exit(at, cpu, current, |line| line == Line::Vector(vector));
            }
            What::SoftirqExit { vec, current } => self.soft_exit(at, cpu, current, vec),
            What::Lost(index) => {
                match batch.losses.get(index as usize).copied().flatten() {
                    Some(lost) => state.sums.lost = state.sums.lost.saturating_add(lost),
                    None => state.sums.lost_uncounted += 1,
                }
                let was_running = state.running.take();
                state.hard.clear();
                state.suspended.clear();
                (state.soft, state.since) = (None, at);
                self.lost_until = self.lost_until.max(at);
                if let Some(task) = was_running.and_then(|tid| self.tasks.known(tid)) {
                    task.forget(at);
                }
            }
            What::First | What::Damage(_) => {}
        }
    }

    fn damaged(&mut self, damage: Option<&Damage>) {
        let Some(damage) = damage.filter(|_| self.damage.len() < MOST_DAMAGE) else { return };
        let is_known = |known: &Damage| {
            known.what == damage.what && (known.offset == damage.offset || damage.is_general)
        };
        if !self.damage.iter().any(is_known) {
            self.damage.push(damage.clone());
        }
    }

    fn hard_exit(&mut self, at: Mono, cpu: Cpu, current: Option<Tid>, is_same: impl Fn(Line) -> bool) {
        let Some(state) = self.cpu(cpu, at) else { return };
        let Some(place) = state.hard.iter().rposition(|(line, ..)| is_same(*line)) else { return };
        let (line, since, taken) = state.hard[place];
        state.hard.truncate(place); // the exits of those inside it were lost
        let net = at.since(since).saturating_sub(taken);
        if let Some((_, _, taken)) = state.hard.last_mut() {
            *taken = *taken + at.since(since);
        }
        if let Some((_, _, taken)) = &mut state.soft {
            *taken = *taken + net;
        }
        self.interrupted(at, cpu, current, line, net);
    }

    fn soft_exit(&mut self, at: Mono, cpu: Cpu, current: Option<Tid>, vec: u8) {
        let Some(state) = self.cpu(cpu, at) else { return };
        let open = state.soft.take().filter(|(line, ..)| *line == Line::Softirq(vec));
        if let Some((line, since, taken)) = open {
            self.interrupted(at, cpu, current, line, at.since(since).saturating_sub(taken));
        }
    }

    fn interrupted(&mut self, at: Mono, cpu: Cpu, current: Option<Tid>, line: Line, net: Ns) {
        let sums = self.lines.entry(line).or_default();
        (sums.count, sums.total, sums.worst) = (sums.count + 1, sums.total + net, sums.worst.max(net));
        let Some(state) = self.cpu(cpu, at) else { return };
        state.sums.interrupted_ns = state.sums.interrupted_ns.map_or(Some(net), |sum| Some(sum + net));
        if let Some(task) = current.or(state.running).and_then(|tid| self.tasks.known(tid)) {
            task.sums.interrupted_ns = task.sums.interrupted_ns.map_or(Some(net), |sum| Some(sum + net));
        }
    }

    /// A wake-up without a recorded switch-in, with its maximum latency.
    fn unseen_switch_in(&mut self, most: Option<Ns>) {
        self.unseen_switch_ins += u64::from(most.is_some());
        self.longest_unseen = self.longest_unseen.max(most);
    }

    fn switch(&mut self, at: Mono, cpu: Cpu, prev: Leaving, next: Tid, next_comm: Sym) {
        let lost_until = self.lost_until;
        let Some(state) = self.cpu(cpu, at) else { return };
        let net = at.since(state.since);
        if state.running == Some(next) && state.left == prev.tid && net < TWICE {
            return; // two buffers recorded it
        }
        state.left = prev.tid;
        state.hard.clear();
        state.switch_softirq(at, prev.tid, next);
        let unseen = state.running.filter(|tid| *tid != prev.tid);
        state.sums.unseen_switches += u64::from(unseen.is_some());
        if state.running.is_none_or(|tid| tid == prev.tid) {
            let sum = if prev.tid == Tid::IDLE { &mut state.sums.idle_ns } else { &mut state.sums.busy_ns };
            *sum = *sum + net;
        }
        let began = state.running.is_none().then_some(state.since);
        state.sums.switches += 1;
        state.since = at;
        state.running = Some(next);
        if let Some(tid) = unseen {
            // The run time of the first and the start of the second thread are not known.
            if let Some(task) = self.tasks.known(tid).filter(|task| task.on == cpu) {
                task.forget(at);
                task.is_off = true;
            }
            self.tasks.of(prev.tid).forget(at);
        }
        if prev.tid != Tid::IDLE {
            let task = self.tasks.of(prev.tid);
            task.is_named(prev.comm);
            if let (Some(began), Doing::Unknown) = (began, task.doing) {
                (task.doing, task.since) = (Doing::Running, began);
            }
            let doing = match prev.left_as {
                Left::Runnable => Doing::Ready,
                Left::Blocked => Doing::Blocked,
                Left::Dead => Doing::Unknown,
            };
            task.change(doing, at);
            let unseen_before = match began {
                _ if unseen.is_some() => Mono(u64::MAX),
                Some(_) => lost_until,
                None => Mono(0),
            };
            let unseen = task.leave(at, prev.left_as, unseen_before);
            self.unseen_switch_in(unseen);
        }
        if next != Tid::IDLE {
            let task = self.tasks.of(next);
            task.is_named(next_comm);
            if task.doing == Doing::Running {
                task.forget(at); // its switch-out on another CPU was not recorded
            }
            let on_its_way = task.left_woken.take().filter(|_| task.woken.is_none());
            if on_its_way.is_some() && task.doing == Doing::Blocked {
                task.doing = Doing::Ready;
            }
            task.change(Doing::Running, at);
            (task.on, task.is_off) = (cpu, false);
            if let Some(woken) = task.woken.take().or(on_its_way) {
                let latency = at.since(woken);
                if woken < self.lost_until {
                    self.spanning_losses += 1;
                    self.longest_spanning = self.longest_spanning.max(Some(latency));
                    return;
                }
                task.sums.wakeups += 1;
                task.sums.worst_wakeup_ns = Some(task.sums.worst_wakeup_ns.unwrap_or_default().max(latency));
                self.latencies.record(latency);
            }
        }
    }

    /// The sums of all that was read.
    pub fn finish(mut self, source: &dyn Source) -> Summary {
        let (first, last) = self.reach.unwrap_or_default();
        let wakeups = self.wakeups(last);
        let text = |sym: Sym| self.strings.get(sym).to_owned();
        let silent: Vec<Silence> = self.silences.found(last).collect();
        let not_interrupted = (!self.lines.is_empty()).then_some(Ns::ZERO);
        let mut cpus = Vec::new();
        let states = std::mem::take(&mut self.cpus).into_iter().enumerate();
        for (cpu, mut state) in states.filter_map(|(cpu, state)| Some((Cpu(cpu as u32), state?))) {
            // Its activity during the silence is not known.
            let until = silent.binary_search_by_key(&cpu, |one| one.cpu).map_or(last, |at| silent[at].last);
            let rest = until.since(state.since);
            if let Some(tid) = state.running {
                let sum = if tid == Tid::IDLE { &mut state.sums.idle_ns } else { &mut state.sums.busy_ns };
                *sum = *sum + rest;
            }
            let events = self.counts.get(cpu.0 as usize).copied().unwrap_or(0);
            cpus.push(OfCpu { cpu, events, ..state.sums.of(last.since(first), not_interrupted) });
        }
        let mut threads = Vec::new();
        let tasks = std::mem::take(&mut self.tasks.all).into_iter();
        for (tid, mut task) in tasks.filter(|(tid, _)| *tid != Tid::IDLE) {
            task.change(Doing::Unknown, last);
            let saved = || source.info().comms.get(&tid).cloned().unwrap_or_default();
            let comm = if task.comm == Sym(0) { saved() } else { text(task.comm) };
            task.sums.interrupted_ns = task.sums.interrupted_ns.or(not_interrupted);
            task.sums.earlier = task.earlier.iter().map(|&comm| text(comm)).collect();
            threads.push(OfThread { tid, comm, ..task.sums });
        }
        threads.sort_by_key(|thread| (std::cmp::Reverse(thread.run_ns), thread.tid));
        let comms: HashMap<Tid, &str> = threads.iter().map(|thread| (thread.tid, &*thread.comm)).collect();
        let comm = |silence: &Silence| comms.get(&silence.moved.0).copied().unwrap_or_default();
        let unrecorded = self.silences.unrecorded();
        let unrecorded = unrecorded.map(|of| of.told(comms.get(&of.moved.0).copied().unwrap_or_default()));
        let silent =
            unrecorded.into_iter().chain(silent.iter().map(|silence| silence.told(comm(silence)))).collect();
        let lines = self.lines.iter().map(|(&line, sums)| Interrupter {
            name: line.name(&self.strings),
            count: sums.count,
            total_ns: sums.total,
            worst_ns: sums.worst,
        });
        let mut interrupters: Vec<Interrupter> = lines.collect();
        interrupters.sort_by(|a, b| (b.total_ns, &a.name).cmp(&(a.total_ns, &b.name)));
        let damage = source.info().damage.iter().take(MOST_DAMAGE).chain(&self.damage);
        let damage = damage.map(ToString::to_string).collect();
        Summary {
            format: "lathunt-summary".to_owned(),
            version: 1,
            events: self.events,
            span_ns: last.since(first),
            cpus,
            threads,
            interrupters,
            wakeups,
            silent,
            damage,
        }
    }
}

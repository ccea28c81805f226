//! The worst wake-ups of each CPU: an activation and the flight record of the same moment meet here.
//!
//! Both name the thread and the moment it was switched in; either may come first (the activation is recorded when its
//! thread blocks, the flight record a little after the switch), and either may never come.

use std::collections::{BTreeMap, HashMap};

use lathunt_core::application::policy_name;
use lathunt_core::comm::Comm;
use lathunt_core::explain::{self, Explanation, TimerPassage, WakePassage};
use lathunt_core::export::latency_hist;
use lathunt_core::peak::{Context, Peak, Worst};
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::activation::{Activation, Via};
use lathunt_core::trace::event::{Event, Kind, TaskRef, Window};

use super::window::Key;
use super::Settings;
use crate::recorder::Frozen;
use crate::symbols::Symbols;

/// Flight records that wait for their activation.
const WAITING: usize = 32;
/// Threads whose worst case is kept with its circumstances.
const THREADS: usize = 1024;

type Moment = (Tid, Mono);

/// Quantities of activations.
const QUANTITIES: [Quantity; 4] =
    [Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup, Quantity::SharedPrio];

/// Of one quantity on one CPU.
#[derive(Clone, Copy, Default)]
struct Extremes {
    smallest: Option<Ns>,
    largest: Option<Largest>,
}

#[derive(Clone, Copy)]
struct Largest {
    latency: Ns,
    at: Mono, // when it ended
    activation: Activation,
}

impl Largest {
    fn worst(&self, quantity: Quantity, cpu: Cpu) -> latency_hist::Worst {
        let a = &self.activation;
        let timer = match quantity {
            Quantity::Timer | Quantity::TimerWakeup => a.timer_part().unwrap_or_default(),
            _ => Ns::ZERO,
        };
        let (victim, before) = (a.thread.thread(), a.before.thread());
        latency_hist::Worst { quantity, cpu, latency: self.latency, timer, victim, before, at: self.at }
    }
}

/// One of the worst.
#[derive(Clone)]
struct Case {
    moment: Moment,
    peak: Peak,
    activation: Option<Activation>,
    bytes: Option<Vec<u8>>,
}

/// The worst of all CPUs, and of each thread.
pub(super) struct Book {
    limit: usize,
    threshold: Ns,
    flight: bool, // a flight record is half a megabyte
    preemption: Option<String>,
    symbols: Symbols,
    worst: BTreeMap<Cpu, Worst<Case>>,
    of_thread: HashMap<Tid, Case>,
    waiting: Vec<(Moment, Frozen)>,
    extremes: BTreeMap<Cpu, [Extremes; QUANTITIES.len()]>,
    last: BTreeMap<Cpu, String>,
}

impl Book {
    /// Keeps [`Settings::peaks`] for each CPU; flight records are taken from the threshold on.
    #[must_use]
    pub fn new(settings: &Settings, symbols: Symbols) -> Book {
        Book {
            limit: settings.peaks,
            threshold: settings.threshold,
            flight: settings.flight,
            preemption: settings.preemption.clone(),
            symbols,
            worst: BTreeMap::new(),
            of_thread: HashMap::new(),
            waiting: Vec::new(),
            extremes: BTreeMap::new(),
            last: BTreeMap::new(),
        }
    }

    /// The worst so far belong to a window that has ended. Flight records that wait are taken along, unless they are
    /// from before `since`: their activation was no case.
    pub fn begin_window(&mut self, since: Mono) {
        self.waiting.retain(|((_, switched_in), _)| *switched_in >= since);
        self.worst.clear();
        self.of_thread.clear();
        self.extremes.clear();
    }

    /// A wake-up, in whatever order.
    pub fn activation(&mut self, a: &Activation) {
        self.extremes(a);
        let (limit, total) = (self.limit, a.latency());
        let kept =
            !a.shared && self.worst.entry(a.cpu).or_insert_with(|| Worst::new(limit)).would_keep(total);
        let known = self.of_thread.get(&a.thread.tid).map(|case| case.peak.total_ns);
        let of_thread = known.map_or(self.of_thread.len() < THREADS, |known| total > known);
        if !kept && !of_thread {
            return;
        }
        let case = self.case(a);
        if kept {
            self.last.insert(a.cpu, case.peak.culprit.clone().unwrap_or_default());
            self.offer(case.clone());
        }
        if of_thread {
            // The worst of a thread is told, its flight record is not kept.
            self.of_thread.insert(a.thread.tid, Case { bytes: None, ..case });
        }
    }

    fn case(&mut self, a: &Activation) -> Case {
        let moment = (a.thread.tid, a.switched_in);
        let waits = self.waiting.iter().position(|(of, _)| *of == moment);
        let frozen = waits.map(|at| self.waiting.swap_remove(at).1);
        let mut peak = self.plain(a);
        if let Some(explanation) = frozen.as_ref().and_then(|frozen| self.explain(frozen, Some(a))) {
            peak.culprit = Some(explanation.cause.clone());
            peak.no_evidence = None;
            peak.explanation = Some(explanation);
        }
        let bytes = frozen.map(|frozen| frozen.bytes).filter(|_| self.flight);
        Case { moment, peak, activation: Some(*a), bytes }
    }

    /// Without evidence: who had the CPU before.
    fn plain(&self, a: &Activation) -> Peak {
        let reason = if a.shared {
            "a task of equal priority had the CPU: the order of SCHED_FIFO".to_owned()
        } else if a.latency() < self.threshold {
            format!("below the threshold of {}, from which flight records are kept", self.threshold)
        } else {
            "no flight record was kept for it (a worse one came at the same time, or all buffers were in use)"
                .to_owned()
        };
        let context = context(a);
        Peak {
            quantity: if a.timer.is_some() { Quantity::TimerWakeup } else { Quantity::Wakeup },
            cpu: a.cpu,
            begin: a.begin(),
            total_ns: a.latency(),
            victim: a.thread.thread(),
            culprit: Some(context.before.to_string()),
            no_evidence: Some(reason),
            explanation: None,
            context: Some(context),
        }
    }

    /// A flight record, of a late wake-up that the kernel side saw.
    pub fn evidence(&mut self, frozen: Frozen) {
        let Some(victim) = frozen.trigger.victim else { return };
        let (limit, cpu) = (self.limit, frozen.cpu);
        let moment = (victim.tid, victim.switched_in);
        if self.of_thread.get(&victim.tid).is_some_and(|case| case.moment == moment) {
            if let Some(case) = self.of_thread.remove(&victim.tid) {
                let case = self.with_evidence(case, &frozen);
                self.of_thread.insert(victim.tid, Case { bytes: None, ..case });
            }
        }
        let of_thread = self.of_thread.get(&victim.tid).is_some_and(|case| case.moment == moment);
        let book = self.worst.entry(cpu).or_insert_with(|| Worst::new(limit));
        if !book.iter().any(|(_, case)| case.moment == moment) {
            if of_thread {
                return; // its activation came, and was none of the worst of the CPU
            }
            if self.waiting.len() >= WAITING {
                self.waiting.remove(0);
            }
            self.waiting.push((moment, frozen));
            return;
        }
        let kept = std::mem::replace(book, Worst::new(limit)).into_vec();
        let mut fresh = Worst::new(limit);
        for (total, case) in kept {
            let mine = case.moment == moment;
            fresh.offer(total, if mine { self.with_evidence(case, &frozen) } else { case });
        }
        self.worst.insert(cpu, fresh);
    }

    fn with_evidence(&mut self, mut case: Case, frozen: &Frozen) -> Case {
        if let Some(explanation) = self.explain(frozen, case.activation.as_ref()) {
            self.last.insert(frozen.cpu, explanation.cause.clone());
            case.peak.culprit = Some(explanation.cause.clone());
            case.peak.explanation = Some(explanation);
            case.peak.no_evidence = None;
            case.bytes = self.flight.then(|| frozen.bytes.clone());
        }
        case
    }

    /// With the activation, a waking on another CPU is known, which is in that CPU's ring and not in this one.
    fn explain(&self, frozen: &Frozen, activation: Option<&Activation>) -> Option<Explanation> {
        let victim = frozen.trigger.victim?;
        let mut window = frozen.decode(&self.symbols).ok()?;
        window.preemption.clone_from(&self.preemption);
        let begin = Mono(victim.switched_in.0.saturating_sub(victim.total.0));
        let (tid, cpu, end) = (victim.tid, frozen.cpu, victim.switched_in);
        if let Some(a) = activation {
            add_waking(&mut window, a);
        }
        let plain = activation.map_or_else(|| woken_at(&window, tid, begin), |a| a.timer.is_none());
        Some(match plain {
            true => explain::explain_wakeup(&window, &WakePassage { tid, cpu, begin, end }),
            false => explain::explain_peak(&window, &TimerPassage { tid, cpu, begin, end }),
        })
    }

    fn offer(&mut self, case: Case) {
        if let Some(book) = self.worst.get_mut(&case.peak.cpu) {
            book.offer(case.peak.total_ns, case);
        }
    }

    fn extremes(&mut self, a: &Activation) {
        let wakeup = if a.shared { Quantity::SharedPrio } else { Quantity::Wakeup };
        let both = a.timer.filter(|_| !a.shared).map(|_| (Quantity::TimerWakeup, a.latency(), a.switched_in));
        let timer = a.timer_part().zip(a.timer).map(|(part, (_, entry))| (Quantity::Timer, part, entry));
        let all = [Some((wakeup, a.switched_in.since(a.waking), a.switched_in)), timer, both];
        let extremes = self.extremes.entry(a.cpu).or_default();
        for (quantity, latency, at) in all.into_iter().flatten() {
            let Some(of) = QUANTITIES.iter().position(|&known| known == quantity) else { continue };
            let Extremes { smallest, largest } = &mut extremes[of];
            *smallest = Some(smallest.map_or(latency, |smallest| latency.min(smallest)));
            if largest.is_none_or(|known| latency > known.latency) {
                *largest = Some(Largest { latency, at, activation: *a });
            }
        }
    }

    fn of(&self, (quantity, cpu): Key) -> Option<&Extremes> {
        let of = QUANTITIES.iter().position(|&known| known == quantity)?;
        self.extremes.get(&cpu).map(|all| &all[of])
    }

    /// The sample of a series that is exactly `max`, with what is known of it; `None`: nothing but its size.
    #[must_use]
    pub fn peak_of(&self, (quantity, cpu): Key, max: Ns) -> Option<Peak> {
        let Some(largest) = self.of((quantity, cpu)).and_then(|of| of.largest).filter(|of| of.latency == max)
        else {
            return self.unfinished(quantity, cpu, max);
        };
        let a = &largest.activation;
        let moment = (a.thread.tid, a.switched_in);
        let of_cpu = self.worst.get(&cpu).into_iter().flat_map(|worst| worst.iter().map(|(_, case)| case));
        let mut cases = of_cpu.chain(self.of_thread.get(&a.thread.tid));
        let known = cases.find(|case| case.moment == moment).map(|case| case.peak.clone());
        let begin = Mono(largest.at.0.saturating_sub(max.0));
        let peak = known.unwrap_or_else(|| self.plain(a));
        Some(Peak { quantity, begin, total_ns: max, ..peak })
    }

    /// The same of a task that was late and has not blocked since: its flight record waits.
    fn unfinished(&self, quantity: Quantity, cpu: Cpu, max: Ns) -> Option<Peak> {
        let mine = |frozen: &&Frozen| {
            frozen.cpu == cpu && frozen.trigger.victim.as_ref().is_some_and(|victim| victim.total == max)
        };
        let frozen = self.waiting.iter().map(|(_, frozen)| frozen).find(mine)?;
        self.of_frozen(frozen).filter(|peak| peak.quantity == quantity)
    }

    /// From which latency on a flight record of `cpu` is of use.
    #[must_use]
    pub fn useful_from(&self, cpu: Cpu) -> Ns {
        let full = self.worst.get(&cpu).filter(|book| book.iter().count() >= self.limit);
        let least = full.and_then(|book| book.iter().last());
        least.map_or(self.threshold, |(least, _)| self.threshold.max(*least + Ns(1)))
    }

    /// The culprit of the latest of the worst on `cpu`.
    #[must_use]
    pub fn last_culprit(&self, cpu: Cpu) -> &str {
        self.last.get(&cpu).map_or("", String::as_str)
    }

    /// The worst wake-up of `tid`.
    #[must_use]
    pub fn worst_of(&self, tid: Tid) -> Option<Peak> {
        self.of_thread.get(&tid).map(|case| case.peak.clone())
    }

    /// The smallest of a quantity on a CPU.
    #[must_use]
    pub fn smallest(&self, key: Key) -> Option<Ns> {
        self.of(key)?.smallest
    }

    /// The worst case of each quantity and CPU.
    #[must_use]
    pub fn of_quantities(&self) -> Vec<latency_hist::Worst> {
        let one = |(&cpu, all): (&Cpu, &[Extremes; QUANTITIES.len()])| {
            let of = QUANTITIES.into_iter().zip(all);
            of.filter_map(|(quantity, one)| Some(one.largest?.worst(quantity, cpu))).collect::<Vec<_>>()
        };
        self.extremes.iter().flat_map(one).collect()
    }

    /// Flight records whose activation never ended become cases of their own.
    pub fn close(&mut self) {
        for (moment, frozen) in std::mem::take(&mut self.waiting) {
            if let Some(peak) = self.of_frozen(&frozen) {
                self.offer(Case { moment, peak, activation: None, bytes: Some(frozen.bytes) });
            }
        }
    }

    /// What a flight record tells without its activation.
    fn of_frozen(&self, frozen: &Frozen) -> Option<Peak> {
        let victim = frozen.trigger.victim?;
        let begin = Mono(victim.switched_in.0.saturating_sub(victim.total.0));
        let explanation = self.explain(frozen, None);
        let window = frozen.decode(&self.symbols).ok();
        let woken = window.is_some_and(|window| woken_at(&window, victim.tid, begin));
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
        })
    }

    /// The worst, worst first, with the flight records of those that have one.
    #[must_use]
    pub fn peaks(&self) -> (Vec<Peak>, Vec<u8>) {
        let mut all: Vec<&Case> =
            self.worst.values().flat_map(|book| book.iter().map(|(_, case)| case)).collect();
        all.sort_by_key(|case| (std::cmp::Reverse(case.peak.total_ns), case.peak.begin));
        let bytes = all.iter().filter_map(|case| case.bytes.as_deref()).flatten().copied().collect();
        (all.into_iter().map(|case| case.peak.clone()).collect(), bytes)
    }
}

fn add_waking(window: &mut Window, a: &Activation) {
    if woken_at(window, a.thread.tid, a.waking) {
        return;
    }
    let comm = Some(window.strings.intern(&a.thread.comm.text()));
    let task = TaskRef { tid: a.thread.tid, prio: Some(a.thread.prio), comm };
    let kind = Kind::Waking { task, target_cpu: Some(a.cpu) };
    let place = window.events.partition_point(|event| event.at <= a.waking);
    let current = Some(a.waker.tid);
    window.events.insert(place, Event { at: a.waking, cpu: a.waker_cpu, current, kind });
}

fn woken_at(window: &Window, tid: Tid, at: Mono) -> bool {
    let wakes = |kind: &Kind| matches!(kind, Kind::Waking { task, .. } if task.tid == tid);
    window.events.iter().any(|event| event.at == at && wakes(&event.kind))
}

fn context(a: &Activation) -> Context {
    Context {
        policy: policy_name(a.policy).to_owned(),
        timer_ns: a.timer_part(),
        before: a.before.thread(),
        woken_by: match a.via {
            Via::Timer => "timer",
            Via::Interrupt => "interrupt",
            Via::Thread => "thread",
        }
        .to_owned(),
        waker: a.waker.thread(),
    }
}

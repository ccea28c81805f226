//! The worst wake-ups of each CPU: joins an activation and the flight record of the same moment.
//!
//! Both contain the thread and its switch-in time; either may come first (the activation is recorded when its thread
//! blocks, the flight record soon after the switch), and either may never come.
//!
//! Explaining a flight record takes milliseconds, and most cases are soon replaced by worse ones: it is deferred until a
//! result is requested, or until too many wait.

use std::collections::{BTreeMap, HashMap};

use lathunt_core::explain::{explain_part, Standstills};
use lathunt_core::peak::{Peak, Worst};
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::activation::Activation;
use lathunt_core::trace::window::Standstill;

use super::circumstances::{context, held_before};
use super::evidence::Evidence;
use super::extremes::Extremes;
use super::memory::Memory;
use super::pending::{Moment, Packed, Pending};
use super::window::Key;
use super::Settings;
use crate::recorder::Frozen;
use crate::symbols::Symbols;

/// Flight records that wait for their activation, or for their explanation.
const PENDING: usize = 32;
/// Of these, for their activation.
const WAITING: usize = 16;
/// For this long after its end a case may be explained again, with what another CPU's case proved.
const AGAIN: Ns = Ns::from_ms(1_000);
/// Key of the worst case of all threads beyond [`Settings::threads`].
const OTHERS: Tid = Tid(0);

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
    threads: usize, // whose worst case is kept with its circumstances
    threshold: Ns,
    flight: bool, // a flight record is half a megabyte
    evidence: Evidence,
    worst: BTreeMap<Cpu, Worst<Case>>,
    of_thread: BTreeMap<Tid, Case>,
    wakeups: HashMap<(Tid, bool), Activation>, // of each thread that with the longest wake-up, its timer left out; shared or not
    pending: Pending,
    explained: Vec<(Moment, Packed)>, // lately
    extremes: Extremes,
    last: BTreeMap<Cpu, (Mono, String)>,
}

impl Book {
    /// Keeps [`Settings::peaks`] per CPU; flight records are taken from the threshold on.
    #[must_use]
    pub fn new(settings: &Settings, symbols: Symbols, began: Mono) -> Book {
        Book {
            limit: settings.peaks,
            threads: settings.threads,
            threshold: settings.threshold,
            flight: settings.flight,
            evidence: Evidence {
                symbols,
                preemption: settings.preemption.clone(),
                memory: Memory::default(),
                began,
                standstills: Standstills::default(),
            },
            worst: BTreeMap::new(),
            of_thread: BTreeMap::new(),
            wakeups: HashMap::new(),
            pending: Pending::new(),
            explained: Vec::new(),
            extremes: Extremes::default(),
            last: BTreeMap::new(),
        }
    }

    /// The worst so far belong to a window that has ended. Waiting flight records are carried over, unless they are from
    /// before `since`: their activation was not a case.
    pub fn begin_window(&mut self, since: Mono) {
        self.pending.retain(|(_, switched_in)| switched_in >= since);
        self.worst.clear();
        self.of_thread.clear();
        self.wakeups.clear();
        self.extremes.clear();
    }

    /// Adds a wake-up; the order does not matter.
    pub fn activation(&mut self, a: &Activation) {
        self.evidence.memory.see(a);
        self.extremes.add(a);
        if a.awake && a.timer.is_none() {
            return; // not a latency: it had the CPU
        }
        self.wakeup(a);
        let (limit, total) = (self.limit, a.latency());
        let kept = !a.waited_in_order()
            && self.worst.entry(a.cpu).or_insert_with(|| Worst::new(limit)).would_keep(total);
        let thread =
            if self.of_thread.len() < self.threads { a.thread.tid } else { self.kept_as(a.thread.tid) };
        // The id of a thread that has ended may have been reused.
        let same =
            |case: &&Case| thread == OTHERS || case.activation.is_none_or(|known| known.tgid == a.tgid);
        let own = |in_order: bool, total: Ns| (!in_order, total); // waits behind a task of equal priority rank below
        let known = self.of_thread.get(&thread).filter(same);
        let known =
            known.map(|case| own(case.activation.is_some_and(|of| of.waited_in_order()), case.peak.total_ns));
        let of_thread = known.is_none_or(|known| own(a.waited_in_order(), total) > known);
        let moment = (a.thread.tid, a.switched_in);
        if !kept && !of_thread {
            // It was among the worst when its flight record was taken, and is not any more.
            self.pending.forget(moment, total);
            return;
        }
        let case = Case { moment, peak: self.plain(a), activation: Some(*a), bytes: None };
        if kept {
            self.told(a.cpu, a.switched_in, case.peak.culprit.clone());
            self.offer(case.clone());
        }
        if of_thread && let Some(smaller) = self.of_thread.insert(thread, case) {
            self.forget(&smaller);
        }
    }

    fn wakeup(&mut self, a: &Activation) {
        let Some(wakeup) = a.wakeup() else { return };
        let key = (a.thread.tid, a.shared);
        let known = self.wakeups.get(&key);
        let has_room = known.is_some() || self.wakeups.len() < 2 * self.threads;
        let known = known.filter(|known| known.tgid == a.tgid).map(Activation::wakeup);
        if has_room && known.flatten().is_none_or(|known| wakeup > known) {
            self.wakeups.insert(key, *a);
        }
    }

    /// Drops the flight record if it belongs to no case any more.
    fn forget(&mut self, case: &Case) {
        if !self.is_case(case.moment) {
            self.pending.forget(case.moment, case.peak.total_ns);
        }
    }

    /// The key under which the worst case of a thread is kept.
    fn kept_as(&self, tid: Tid) -> Tid {
        if self.of_thread.contains_key(&tid) {
            tid
        } else {
            OTHERS
        }
    }

    fn is_case(&self, moment: Moment) -> bool {
        let mut of_cpus = self.worst.values().flat_map(Worst::iter);
        self.of_thread.get(&self.kept_as(moment.0)).is_some_and(|case| case.moment == moment)
            || of_cpus.any(|(_, case)| case.moment == moment)
    }

    fn told(&mut self, cpu: Cpu, at: Mono, culprit: Option<String>) {
        let (last, told) = self.last.entry(cpu).or_default();
        if at >= *last {
            (*last, *told) = (at, culprit.unwrap_or_default());
        }
    }

    /// Without evidence.
    fn plain(&self, a: &Activation) -> Peak {
        let reason = if a.execution == Ns::ZERO && a.blocked == a.switched_in {
            "it still waited when recording ended".to_owned()
        } else if a.waited_in_order() {
            "a task of equal priority had the CPU: the order of SCHED_FIFO".to_owned()
        } else if a.latency() < self.threshold {
            format!("below the threshold of {}, from which flight records are kept", self.threshold)
        } else if a.latency() < self.useful_from(a.cpu) {
            format!("{} worse ones of its CPU are kept, and no flight records of others", self.limit)
        } else {
            "no flight record was kept for it (a worse one came at the same time, or all buffers were in use)"
                .to_owned()
        };
        let context = context(a);
        let quantity = if a.timer.is_some() { Quantity::TimerWakeup } else { Quantity::Wakeup };
        Peak {
            quantity,
            cpu: a.cpu,
            begin: a.begin(),
            total_ns: a.latency(),
            victim: a.thread.thread(),
            culprit: held_before(a, quantity),
            no_evidence: Some(reason),
            explanation: None,
            context: Some(context),
            during_action: false,
            counted_as: None,
        }
    }

    /// Adds a flight record, of a late wake-up seen by the kernel side.
    pub fn evidence(&mut self, frozen: Frozen) {
        let Some(victim) = frozen.trigger.victim else { return };
        self.pending.push((victim.tid, victim.switched_in), Packed::new(frozen));
        if self.pending.len() > PENDING {
            self.make_room();
        }
    }

    /// Drops one flight record: the smallest if many wait for their activations, else explains that of the worst case,
    /// which is the most likely to stay one.
    fn make_room(&mut self) {
        let numbered = self.pending.iter().enumerate();
        let (waiting, cases): (Vec<_>, Vec<_>) = numbered
            .map(|(at, (moment, packed))| (packed.total(), at, self.is_case(*moment)))
            .partition(|(_, _, is_case)| !is_case);
        let least = waiting.iter().min().filter(|_| waiting.len() > WAITING);
        if let Some((_, least, _)) = least {
            self.pending.remove(*least);
        } else if let Some((_, worst, _)) = cases.iter().max() {
            let of_it = self.pending.remove(*worst);
            self.explain_all(vec![of_it]);
        }
    }

    /// Explains every case that has a flight record: some ms each.
    pub fn explain_cases(&mut self) {
        let records = self.pending.take();
        self.explain_all(records);
    }

    /// Records without a case keep waiting for their activation. What one case proves about a stalled CPU is used for all
    /// others, in any order.
    fn explain_all(&mut self, records: Vec<(Moment, Packed)>) {
        let mut proved = Vec::new();
        for (moment, packed) in records {
            match self.explain_case(moment, &packed) {
                Some(new) => {
                    proved.extend(new);
                    self.explained.push((moment, packed));
                }
                None => self.pending.push(moment, packed),
            }
        }
        let explained = std::mem::take(&mut self.explained);
        for (moment, packed) in &explained {
            let begin = Mono(moment.1 .0.saturating_sub(packed.total().0));
            if proved.iter().any(|standstill| standstill.concerns(packed.cpu(), begin, moment.1)) {
                self.explain_case(*moment, packed);
            }
        }
        let newest = explained.iter().map(|(moment, _)| moment.1).max().unwrap_or_default();
        self.explained = explained.into_iter().filter(|(moment, _)| newest.since(moment.1) < AGAIN).collect();
    }

    /// The stalls it proves; `None` if there is no such case.
    fn explain_case(&mut self, moment: Moment, packed: &Packed) -> Option<Vec<Standstill>> {
        let is_it = |case: &&mut Case| case.moment == moment;
        let thread = self.kept_as(moment.0);
        let of_thread = self.of_thread.get_mut(&thread).filter(is_it);
        let of_cpu = self.worst.get_mut(&packed.cpu()).and_then(|worst| worst.values_mut().find(is_it));
        let activation = of_thread.or(of_cpu).map(|case| case.activation)?;
        let frozen = self.unpacked(packed);
        let Some(explanation) = self.evidence.explain(&frozen, activation.as_ref()) else {
            return Some(Vec::new());
        };
        let proved = self.evidence.standstills.note(frozen.cpu, &explanation);
        self.told(frozen.cpu, moment.1, Some(explanation.cause.clone()));
        let of_thread = self.of_thread.get_mut(&thread).filter(is_it);
        let of_cpu = self.worst.get_mut(&frozen.cpu).and_then(|worst| worst.values_mut().find(is_it));
        // The worst case of a thread is reported, but its flight record is not kept.
        let bytes = (self.flight && of_cpu.is_some()).then_some(frozen.bytes);
        for (case, bytes) in of_thread.into_iter().zip([None]).chain(of_cpu.into_iter().zip([bytes])) {
            case.peak.culprit = Some(explanation.cause.clone());
            case.peak.explanation = Some(explanation.clone());
            case.peak.no_evidence = None;
            case.bytes = bytes;
        }
        Some(proved)
    }

    /// With code information added to its stacks.
    fn unpacked(&self, packed: &Packed) -> Frozen {
        let mut frozen = packed.unpacked();
        frozen.note_code(&self.evidence.symbols);
        frozen
    }

    /// Context needed to explain a record.
    #[must_use]
    pub fn evidence_of(&self) -> &Evidence {
        &self.evidence
    }

    fn offer(&mut self, case: Case) {
        let limit = self.limit;
        let book = self.worst.entry(case.peak.cpu).or_insert_with(|| Worst::new(limit));
        if let Some(smaller) = book.offer(case.peak.total_ns, case) {
            self.forget(&smaller);
        }
    }

    /// The sample of a series that is exactly `max`, with its context; `None`: only its size is known.
    #[must_use]
    pub fn peak_of(&self, (quantity, cpu): Key, max: Ns) -> Option<Peak> {
        let Some(largest) = self.extremes.largest((quantity, cpu)).filter(|of| of.latency == max) else {
            return self.unfinished(quantity, cpu, max);
        };
        Some(self.sample(&largest.activation, quantity, largest.at, max))
    }

    /// The same of a thread.
    #[must_use]
    pub fn peak_of_thread(&self, tid: Tid, quantity: Quantity, max: Ns) -> Option<Peak> {
        let shared = quantity == Quantity::SharedPrio;
        let of_wakeup = self.wakeups.get(&(tid, shared)).filter(|a| a.wakeup() == Some(max));
        if let Some(a) = of_wakeup.filter(|_| shared || quantity == Quantity::Wakeup) {
            return Some(self.sample(a, quantity, a.switched_in, max));
        }
        self.worst_of(tid).filter(|worst| worst.quantity == quantity && worst.total_ns == max)
    }

    /// A wake-up with its context, as a sample of `quantity` that ended at `end`.
    pub fn sample(&self, a: &Activation, quantity: Quantity, end: Mono, total_ns: Ns) -> Peak {
        let moment = (a.thread.tid, a.switched_in);
        let of_cpu = self.worst.get(&a.cpu).into_iter().flat_map(|worst| worst.iter().map(|(_, case)| case));
        let mut cases = of_cpu.chain(self.of_thread.get(&self.kept_as(a.thread.tid)));
        let known = cases.find(|case| case.moment == moment).map(|case| case.peak.clone());
        let peak = known.unwrap_or_else(|| self.plain(a));
        let begin = Mono(end.0.saturating_sub(total_ns.0));
        let of_part = peak.explanation.as_ref().and_then(|told| explain_part(told, begin, total_ns));
        let explanation = of_part.or(peak.explanation);
        let told = explanation.as_ref().map(|told| told.cause.clone());
        let culprit = told.or_else(|| held_before(a, quantity));
        Peak { quantity, begin, total_ns, culprit, explanation, ..peak }
    }

    /// The same for a task that was late and has not blocked since: its flight record is waiting.
    fn unfinished(&self, quantity: Quantity, cpu: Cpu, max: Ns) -> Option<Peak> {
        let mine = |packed: &&Packed| packed.cpu() == cpu && packed.total() == max;
        let packed = self.pending.iter().map(|(_, packed)| packed).find(mine)?;
        self.evidence.alone(&packed.unpacked()).filter(|peak| peak.quantity == quantity)
    }

    /// The smallest latency for which a flight record of `cpu` is useful.
    #[must_use]
    pub fn useful_from(&self, cpu: Cpu) -> Ns {
        let full = self.worst.get(&cpu).filter(|book| book.iter().count() >= self.limit);
        let least = full.and_then(|book| book.iter().last());
        least.map_or(self.threshold, |(least, _)| self.threshold.max(*least + Ns(1)))
    }

    /// The culprit of the latest of the worst on `cpu`.
    #[must_use]
    pub fn last_culprit(&self, cpu: Cpu) -> &str {
        self.last.get(&cpu).map_or("", |(_, culprit)| culprit)
    }

    /// The worst wake-up of `tid`.
    #[must_use]
    pub fn worst_of(&self, tid: Tid) -> Option<Peak> {
        self.of_thread.get(&tid).map(|case| case.peak.clone())
    }

    /// The smallest of a quantity on a CPU.
    #[must_use]
    pub fn smallest(&self, key: Key) -> Option<Ns> {
        self.extremes.smallest(key)
    }

    /// Flight records whose activation never ended become cases of their own.
    pub fn close(&mut self) {
        self.explain_cases();
        for (moment, packed) in self.pending.take() {
            let frozen = self.unpacked(&packed);
            if let Some(peak) = self.evidence.alone(&frozen) {
                let bytes = self.flight.then_some(frozen.bytes);
                self.offer(Case { moment, peak, activation: None, bytes });
            }
        }
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

#[cfg(test)]
pub(super) mod tests;

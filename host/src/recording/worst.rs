//! The worst wake-ups of each CPU: an activation and the flight record of the same moment meet here.
//!
//! Both name the thread and the moment it was switched in; either may come first (the activation is recorded when its
//! thread blocks, the flight record a little after the switch), and either may never come.
//!
//! To explain a flight record takes milliseconds, and most cases are soon driven out by worse ones: it waits until
//! somebody looks, or until too many wait.

use std::collections::BTreeMap;

use lathunt_core::application::policy_name;
use lathunt_core::explain::Standstills;
use lathunt_core::peak::{Context, Peak, Worst};
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::activation::{Activation, Via};
use lathunt_core::trace::event::Standstill;

use super::evidence::Evidence;
use super::extremes::Extremes;
use super::pending::{Moment, Packed, Pending};
use super::window::Key;
use super::Settings;
use crate::recorder::Frozen;
use crate::symbols::Symbols;

/// Flight records that wait for their activation, or to be explained.
const PENDING: usize = 32;
/// Of these, for their activation.
const WAITING: usize = 16;
/// For so long after its end a case may be explained once more, with what that of another CPU proved.
const AGAIN: Ns = Ns::from_ms(1_000);
/// Why one without evidence was late that had the CPU all the time.
const ON_THE_WAY: &str = "its timer, served late while it was still on its way to sleep";
/// Of threads beyond [`Settings::threads`], the worst case of all is kept.
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
    pending: Pending,
    explained: Vec<(Moment, Packed)>, // lately
    extremes: Extremes,
    last: BTreeMap<Cpu, (Mono, String)>,
}

impl Book {
    /// Keeps [`Settings::peaks`] for each CPU; flight records are taken from the threshold on.
    #[must_use]
    pub fn new(settings: &Settings, symbols: Symbols) -> Book {
        Book {
            limit: settings.peaks,
            threads: settings.threads,
            threshold: settings.threshold,
            flight: settings.flight,
            evidence: Evidence {
                symbols,
                preemption: settings.preemption.clone(),
                standstills: Standstills::default(),
            },
            worst: BTreeMap::new(),
            of_thread: BTreeMap::new(),
            pending: Pending::new(),
            explained: Vec::new(),
            extremes: Extremes::default(),
            last: BTreeMap::new(),
        }
    }

    /// The worst so far belong to a window that has ended. Flight records that wait are taken along, unless they are
    /// from before `since`: their activation was no case.
    pub fn begin_window(&mut self, since: Mono) {
        self.pending.retain(|(_, switched_in)| switched_in >= since);
        self.worst.clear();
        self.of_thread.clear();
        self.extremes.clear();
    }

    /// A wake-up, in whatever order.
    pub fn activation(&mut self, a: &Activation) {
        self.extremes.add(a);
        if a.awake && a.timer.is_none() {
            return; // no latency: it had the CPU
        }
        let (limit, total) = (self.limit, a.latency());
        let kept =
            !a.shared && self.worst.entry(a.cpu).or_insert_with(|| Worst::new(limit)).would_keep(total);
        let thread =
            if self.of_thread.len() < self.threads { a.thread.tid } else { self.kept_as(a.thread.tid) };
        let known = self.of_thread.get(&thread).map(|case| case.peak.total_ns);
        let of_thread = known.is_none_or(|known| total > known);
        let moment = (a.thread.tid, a.switched_in);
        if !kept && !of_thread {
            // It was of the worst when its flight record was taken, and is not any more.
            self.pending.forget(moment, total);
            return;
        }
        let case = Case { moment, peak: self.plain(a), activation: Some(*a), bytes: None };
        if kept {
            self.told(a.cpu, a.switched_in, case.peak.culprit.clone());
            self.offer(case.clone());
        }
        if of_thread {
            if let Some(smaller) = self.of_thread.insert(thread, case) {
                self.forget(&smaller);
            }
        }
    }

    /// The flight record of what is perhaps no case any more.
    fn forget(&mut self, case: &Case) {
        if !self.is_case(case.moment) {
            self.pending.forget(case.moment, case.peak.total_ns);
        }
    }

    /// Under which id the worst case of a thread is filed.
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

    /// Without evidence: who had the CPU before.
    fn plain(&self, a: &Activation) -> Peak {
        let reason = if a.shared {
            "a task of equal priority had the CPU: the order of SCHED_FIFO".to_owned()
        } else if a.latency() < self.threshold {
            format!("below the threshold of {}, from which flight records are kept", self.threshold)
        } else if a.latency() < self.useful_from(a.cpu) {
            format!("{} worse ones of its CPU are kept, and no flight records of lesser ones", self.limit)
        } else {
            "no flight record was kept for it (a worse one came at the same time, or all buffers were in use)"
                .to_owned()
        };
        let context = context(a);
        let culprit = if a.awake { ON_THE_WAY.to_owned() } else { context.before.to_string() };
        Peak {
            quantity: if a.timer.is_some() { Quantity::TimerWakeup } else { Quantity::Wakeup },
            cpu: a.cpu,
            begin: a.begin(),
            total_ns: a.latency(),
            victim: a.thread.thread(),
            culprit: Some(culprit),
            no_evidence: Some(reason),
            explanation: None,
            context: Some(context),
        }
    }

    /// A flight record, of a late wake-up that the kernel side saw.
    pub fn evidence(&mut self, frozen: Frozen) {
        let Some(victim) = frozen.trigger.victim else { return };
        self.pending.push((victim.tid, victim.switched_in), Packed::new(frozen));
        if self.pending.len() > PENDING {
            self.make_room();
        }
    }

    /// One flight record less: the least when many wait for their activations, else that of the worst case, which is
    /// the most likely to stay one.
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

    /// Those without a case go on waiting for their activation. What one case proves of a CPU that stood still, the others
    /// are explained with, whichever came first.
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

    /// What it proves of CPUs that stood still; `None` when there is no such case.
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
        // The worst of a thread is told, its flight record is not kept.
        let bytes = (self.flight && of_cpu.is_some()).then_some(frozen.bytes);
        for (case, bytes) in of_thread.into_iter().zip([None]).chain(of_cpu.into_iter().zip([bytes])) {
            case.peak.culprit = Some(explanation.cause.clone());
            case.peak.explanation = Some(explanation.clone());
            case.peak.no_evidence = None;
            case.bytes = bytes;
        }
        Some(proved)
    }

    /// With what the kernel's code says beside its stacks.
    fn unpacked(&self, packed: &Packed) -> Frozen {
        let mut frozen = packed.unpacked();
        frozen.note_code(&self.evidence.symbols);
        frozen
    }

    fn offer(&mut self, case: Case) {
        let limit = self.limit;
        let book = self.worst.entry(case.peak.cpu).or_insert_with(|| Worst::new(limit));
        if let Some(smaller) = book.offer(case.peak.total_ns, case) {
            self.forget(&smaller);
        }
    }

    /// The sample of a series that is exactly `max`, with what is known of it; `None`: nothing but its size.
    #[must_use]
    pub fn peak_of(&self, (quantity, cpu): Key, max: Ns) -> Option<Peak> {
        let Some(largest) = self.extremes.largest((quantity, cpu)).filter(|of| of.latency == max) else {
            return self.unfinished(quantity, cpu, max);
        };
        let a = &largest.activation;
        let moment = (a.thread.tid, a.switched_in);
        let of_cpu = self.worst.get(&cpu).into_iter().flat_map(|worst| worst.iter().map(|(_, case)| case));
        let mut cases = of_cpu.chain(self.of_thread.get(&self.kept_as(a.thread.tid)));
        let known = cases.find(|case| case.moment == moment).map(|case| case.peak.clone());
        let begin = Mono(largest.at.0.saturating_sub(max.0));
        let peak = known.unwrap_or_else(|| self.plain(a));
        Some(Peak { quantity, begin, total_ns: max, ..peak })
    }

    /// The same of a task that was late and has not blocked since: its flight record waits.
    fn unfinished(&self, quantity: Quantity, cpu: Cpu, max: Ns) -> Option<Peak> {
        let mine = |packed: &&Packed| packed.cpu() == cpu && packed.total() == max;
        let packed = self.pending.iter().map(|(_, packed)| packed).find(mine)?;
        self.evidence.alone(&packed.unpacked()).filter(|peak| peak.quantity == quantity)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Trigger;
    use lathunt_core::comm::Comm;
    use lathunt_core::cpuset::CpuSet;
    use lathunt_core::time::Prio;
    use lathunt_core::trace::activation::{Point, Who};
    use lathunt_core::trace::flight::{Header, Victim, TRIGGER_KERNEL};

    const CPU: Cpu = Cpu(1);

    fn book(limit: usize) -> Book {
        let cpus: CpuSet = "1".parse().unwrap();
        let settings = Settings { peaks: limit, threshold: Ns(10), ..Settings::on(cpus) };
        Book::new(&settings, Symbols::none())
    }

    /// Of thread `tid`, `latency` long, the `number`th.
    fn late(tid: i32, latency: u64, number: u64) -> (Activation, Frozen) {
        let who = |tid| Who { tid: Tid(tid), prio: Prio(50), comm: Comm::cut("late") };
        let switched_in = Mono(1_000_000 * number + latency);
        let activation = Activation {
            thread: who(tid),
            tgid: Tid(tid),
            policy: 1,
            cpu: CPU,
            waking: Mono(1_000_000 * number),
            timer: None,
            switched_in,
            blocked: Mono(switched_in.0 + 5),
            execution: Ns(5),
            preemptions: 0,
            faults: 0,
            fault_address: 0,
            point: Point::default(),
            via: Via::Thread,
            waker: who(900),
            waker_cpu: CPU,
            before: who(901),
            shared: false,
            armed_late: false,
            awake: false,
            stayed: false,
            blocks: 0,
            late_sleeps: None,
        };
        let victim = Victim {
            total: Ns(latency),
            switched_in,
            tid: Tid(tid),
            prio: Prio(50),
            comm: *b"late\0\0\0\0\0\0\0\0\0\0\0\0",
        };
        let header = Header {
            cpu: CPU,
            trigger: TRIGGER_KERNEL,
            id: number,
            begin: Mono(0),
            frozen: activation.blocked,
            first_seq: 0,
            records: 0,
            stacks: 0,
            overwritten: 0,
            victim: Some(victim),
        };
        let trigger = Trigger { victim: Some(victim), asked: false, at: activation.blocked };
        (activation, Frozen { cpu: CPU, id: number, bytes: header.to_bytes().to_vec(), trigger })
    }

    #[test]
    fn whichever_comes_first_a_case_has_its_explanation_and_its_record_when_somebody_looks() {
        let mut book = book(2);
        let (first, record) = late(5, 300, 1);
        book.activation(&first);
        book.evidence(record);
        let (second, record) = late(6, 400, 2);
        book.evidence(record);
        book.activation(&second);
        let (third, _) = late(7, 200, 3);
        book.activation(&third);
        let (peaks, _) = book.peaks();
        assert!(peaks.iter().all(|peak| peak.explanation.is_none()), "it costs nothing until then");
        book.explain_cases();
        let (peaks, bytes) = book.peaks();
        let explained: Vec<(u64, bool)> = peaks
            .iter()
            .map(|peak| (peak.total_ns.0, peak.explanation.is_some() && peak.no_evidence.is_none()))
            .collect();
        assert_eq!(explained, [(400, true), (300, true)]);
        assert_eq!(bytes.len(), 2 * late(5, 1, 1).1.bytes.len());
        assert!(book.worst_of(Tid(5)).unwrap().explanation.is_some());
        assert!(book.worst_of(Tid(7)).unwrap().explanation.is_none(), "it had no flight record");
    }

    #[test]
    fn records_wait_in_a_bounded_number_and_none_of_a_worst_case_is_lost() {
        let mut book = book(60);
        for number in 1..=60 {
            let (activation, record) = late(number as i32, 100 + number, number);
            book.evidence(record);
            book.activation(&activation);
            assert!(book.pending.len() <= PENDING);
        }
        book.explain_cases();
        assert!(book.peaks().0.iter().all(|peak| peak.explanation.is_some()) && book.pending.len() == 0);
    }

    #[test]
    fn what_is_no_case_any_more_keeps_no_record_and_what_never_ends_becomes_one() {
        let mut book = book(1);
        for (number, latency) in [(1, 100), (2, 200), (3, 150)] {
            let (activation, record) = late(5, latency, number);
            book.evidence(record);
            book.activation(&activation);
        }
        assert_eq!(book.pending.len(), 1, "of the largest");
        for number in 4..100 {
            book.evidence(late(5, 300 + number, number).1);
        }
        assert!(book.pending.len() <= PENDING);
        book.close();
        assert_eq!(book.peaks().0[0].total_ns, Ns(399), "it has not blocked, and is told all the same");
    }
}

//! The worst cases of each CPU, from the report of a measuring thread to the explanation.
//!
//! A peak arrives in two parts: the sample (from the measuring thread, through a queue) and the frozen flight record
//! (from the recorder). They are matched by the id of the freeze, in either order. Only the K worst of a CPU are
//! explained; a case displaced by a larger one is dropped with its evidence. If the case of one CPU proves a stall of
//! the machine, the cases of other CPUs are explained with that, earlier ones again.

use std::collections::BTreeMap;

use lathunt_core::explain::{self, Explanation, Interval, Standstills};
use lathunt_core::peak::{Peak, Worst};
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono, Tid};
use lathunt_core::trace::window::Standstill;
use lathunt_host::instrument::peak_queue::NewPeak;
use lathunt_host::recorder::Frozen;
use lathunt_host::symbols::Symbols;

/// A sample that waits for its flight record, or has it.
#[derive(Clone, Debug)]
struct Case {
    peak: NewPeak,
    explanation: Option<Explanation>,
    no_evidence: Option<String>,
    evidence: Option<Frozen>,
}

/// The worst cases of one CPU.
#[derive(Debug)]
struct Book {
    victim: Thread,
    worst: Worst<Case>,
    last_cause: String,
}

/// The worst cases of all CPUs.
#[derive(Debug)]
pub struct Peaks {
    books: BTreeMap<Cpu, Book>,
    waiting: Vec<(Cpu, NewPeak)>,
    last: Vec<Frozen>, // from the previous call: a report follows its freeze by microseconds, and two may share one
    standstills: Standstills,
    stopped: Vec<(Mono, Mono)>, // times in which this process was stopped by a signal
    preemption: Option<String>,
}

/// State of a sample.
pub enum Known<'a> {
    /// It is one of the worst; with its flight record, empty if there is none.
    Case(Box<Peak>, &'a [u8]),
    /// The same, but its flight record has not arrived yet; the victim.
    Soon(&'a Thread),
    /// It is not one of the worst; the victim.
    Nothing(Option<&'a Thread>),
}

/// A peak with the flight record that explains it.
pub struct Kept {
    /// For the run file.
    pub peak: Peak,
    /// For the evidence file.
    pub evidence: Option<Vec<u8>>,
}

impl Peaks {
    /// Keeps `limit` worst cases per victim; `preemption` is the kernel's model, for the wording of causes.
    #[must_use]
    pub fn new(
        victims: impl IntoIterator<Item = (Cpu, Thread)>,
        limit: usize,
        preemption: Option<String>,
    ) -> Peaks {
        let book = |victim| Book { victim, worst: Worst::new(limit), last_cause: String::new() };
        let books = victims.into_iter().map(|(cpu, victim)| (cpu, book(victim))).collect();
        let (standstills, stopped) = (Standstills::default(), Vec::new());
        Peaks { books, waiting: Vec::new(), last: Vec::new(), standstills, stopped, preemption }
    }

    /// Notes that this process was stopped by a signal from `begin` to `end`, for the cases explained from now on.
    pub fn stopped(&mut self, begin: Mono, end: Mono) {
        self.stopped.push((begin, end));
    }

    /// Adds a new peak of a measuring thread. `no_recorder`: reason for missing evidence.
    pub fn report(&mut self, cpu: Cpu, peak: NewPeak, no_recorder: Option<&str>) {
        match (no_recorder, peak.freeze) {
            (Some(reason), _) => self.enter(cpu, Case::without(peak, reason)),
            (None, None) => self.enter(
                cpu,
                Case::without(peak, "all flight buffers of this CPU were still being read for earlier peaks"),
            ),
            (None, Some(_)) => self.waiting.push((cpu, peak)),
        }
    }

    /// Adds the records frozen since the last call.
    pub fn evidence(&mut self, frozen: Vec<Frozen>, symbols: &Symbols) {
        for record in std::mem::take(&mut self.last).iter().chain(&frozen) {
            self.explain(record, symbols);
        }
        self.last = frozen;
        self.last.retain(|record| record.trigger.asked);
    }

    /// Explains the peaks that wait for `frozen`.
    fn explain(&mut self, frozen: &Frozen, symbols: &Symbols) {
        let (mine, others): (Vec<_>, Vec<_>) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|(cpu, peak)| *cpu == frozen.cpu && peak.freeze == Some(frozen.id));
        self.waiting = others;
        let mut frozen = frozen.clone();
        if !mine.is_empty() {
            frozen.note_code(symbols);
        }
        for (cpu, peak) in mine {
            let Some(book) = self.books.get(&cpu).filter(|book| book.worst.would_keep(peak.latency)) else {
                continue;
            };
            match self.explanation(&peak, book.victim.tid, &frozen, symbols) {
                Ok(explanation) => {
                    let new = self.standstills.note(cpu, &explanation);
                    self.enter(cpu, Case::explained(peak, explanation, frozen.clone()));
                    self.explain_again(&new, symbols);
                }
                Err(damage) => {
                    let reason = format!("its flight record is damaged: {damage}");
                    self.enter(cpu, Case::without(peak, &reason));
                }
            }
        }
    }

    fn explanation(
        &self,
        peak: &NewPeak,
        victim: Tid,
        frozen: &Frozen,
        symbols: &Symbols,
    ) -> Result<Explanation, String> {
        let (cpu, begin, end) = (frozen.cpu, peak.expected, peak.woken);
        let mut window = frozen.decode(symbols).map_err(|damage| damage.to_string())?;
        window.preemption.clone_from(&self.preemption);
        window.stopped.clone_from(&self.stopped);
        window.standstills = self.standstills.beside(cpu, begin, end);
        Ok(explain::explain_peak(&window, &Interval { tid: victim, cpu, begin, end }))
    }

    /// Explains again the cases that stalls of other CPUs may have affected.
    fn explain_again(&mut self, new: &[Standstill], symbols: &Symbols) {
        let mut books = std::mem::take(&mut self.books);
        for (cpu, book) in &mut books {
            let concerned = |case: &&mut Case| {
                new.iter().any(|still| still.concerns(*cpu, case.peak.expected, case.peak.woken))
            };
            for case in book.worst.values_mut().filter(concerned) {
                let Some(frozen) = &case.evidence else { continue };
                case.explanation = self
                    .explanation(&case.peak, book.victim.tid, frozen, symbols)
                    .ok()
                    .or(case.explanation.take());
            }
        }
        self.books = books;
    }

    fn enter(&mut self, cpu: Cpu, case: Case) {
        let Some(book) = self.books.get_mut(&cpu) else { return };
        if let Some(explanation) = &case.explanation {
            book.last_cause.clone_from(&explanation.cause);
        }
        book.worst.offer(case.peak.latency, case);
    }

    /// Cause of the latest explained peak of `cpu`; empty before the first.
    #[must_use]
    pub fn last_cause(&self, cpu: Cpu) -> &str {
        self.books.get(&cpu).map_or("", |book| &book.last_cause)
    }

    /// Whether a flight record is still expected.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// State of the sample of `cpu` that was due at `expected`.
    #[must_use]
    pub fn find(&self, cpu: Cpu, expected: Mono) -> Known<'_> {
        let Some(book) = self.books.get(&cpu) else { return Known::Nothing(None) };
        if self.waiting.iter().any(|(on, peak)| *on == cpu && peak.expected == expected) {
            return Known::Soon(&book.victim);
        }
        match book.worst.iter().map(|(_, case)| case).find(|case| case.peak.expected == expected) {
            Some(case) => Known::Case(
                Box::new(case.peak(cpu, &book.victim)),
                case.evidence.as_ref().map_or(&[][..], |frozen| &frozen.bytes),
            ),
            None => Known::Nothing(Some(&book.victim)),
        }
    }

    /// All kept cases, worst first. Peaks whose record never arrived are included, and say so.
    #[must_use]
    pub fn finish(mut self) -> Vec<Kept> {
        for (cpu, peak) in std::mem::take(&mut self.waiting) {
            self.enter(cpu, Case::without(peak, "the measurement ended before its flight record was read"));
        }
        let kept = |(cpu, victim, case): (Cpu, &Thread, &Case)| Kept {
            peak: case.peak(cpu, victim),
            evidence: case.evidence.as_ref().map(|frozen| frozen.bytes.clone()),
        };
        self.cases().into_iter().map(kept).collect()
    }

    /// The result of [`Peaks::finish`] at this moment.
    #[must_use]
    pub fn so_far(&self) -> Vec<Peak> {
        self.cases().into_iter().map(|(cpu, victim, case)| case.peak(cpu, victim)).collect()
    }

    fn cases(&self) -> Vec<(Cpu, &Thread, &Case)> {
        let mut all: Vec<(Cpu, &Thread, &Case)> = Vec::new();
        for (&cpu, book) in &self.books {
            all.extend(book.worst.iter().map(|(_, case)| (cpu, &book.victim, case)));
        }
        all.sort_by_key(|(_, _, case)| (std::cmp::Reverse(case.peak.latency), case.peak.expected));
        all
    }
}

impl Case {
    fn explained(peak: NewPeak, explanation: Explanation, evidence: Frozen) -> Case {
        Case { peak, explanation: Some(explanation), no_evidence: None, evidence: Some(evidence) }
    }

    fn without(peak: NewPeak, reason: &str) -> Case {
        Case { peak, explanation: None, no_evidence: Some(reason.to_owned()), evidence: None }
    }

    fn peak(&self, cpu: Cpu, victim: &Thread) -> Peak {
        Peak {
            quantity: Quantity::Cyclic,
            cpu,
            begin: self.peak.expected,
            total_ns: self.peak.latency,
            victim: victim.clone(),
            culprit: self.explanation.as_ref().map(|explanation| explanation.cause.clone()),
            explanation: self.explanation.clone(),
            no_evidence: self.no_evidence.clone(),
            context: None,
            during_action: false,
            counted_as: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use lathunt_core::time::{Ns, Tid};
    use lathunt_host::recorder::Trigger;

    use super::*;

    fn peak(freeze: u64) -> NewPeak {
        NewPeak {
            latency: Ns(900),
            expected: Mono(100),
            woken: Mono(1_000),
            freeze: Some(freeze),
            cpu: Cpu(1),
        }
    }

    fn record(id: u64) -> Frozen {
        let trigger = Trigger { victim: None, asked: true, at: Mono(1_100) };
        Frozen { cpu: Cpu(1), id, bytes: Vec::new(), trigger }
    }

    /// Why the only case has no explanation: an empty record is damaged.
    fn reason(peaks: Peaks) -> String {
        peaks.finish()[0].peak.no_evidence.clone().unwrap_or_default()
    }

    fn none_yet() -> Peaks {
        let victim = Thread { tid: Tid(7), comm: "cyclic/1".to_owned(), prio: None };
        Peaks::new([(Cpu(1), victim)], 8, None)
    }

    #[test]
    fn a_flight_record_that_comes_before_the_report_of_its_peak_is_not_lost() {
        let mut peaks = none_yet();
        peaks.evidence(vec![record(3)], &Symbols::none());
        peaks.report(Cpu(1), peak(3), None);
        peaks.evidence(Vec::new(), &Symbols::none());
        assert!(!peaks.is_waiting());
        assert!(reason(peaks).contains("damaged"));
    }

    #[test]
    fn two_peaks_may_share_a_flight_record_and_be_reported_one_after_the_other() {
        let mut peaks = none_yet();
        peaks.report(Cpu(1), peak(3), None);
        peaks.evidence(vec![record(3)], &Symbols::none());
        peaks.report(Cpu(1), NewPeak { latency: Ns(800), ..peak(3) }, None);
        peaks.evidence(Vec::new(), &Symbols::none());
        let kept = peaks.finish();
        let damaged = |kept: &Kept| kept.peak.no_evidence.as_ref().is_some_and(|why| why.contains("damaged"));
        assert!(kept.len() == 2 && kept.iter().all(damaged));
    }

    #[test]
    fn records_that_nobody_asks_for_are_forgotten_in_time() {
        let mut peaks = none_yet();
        peaks.evidence(vec![record(3)], &Symbols::none());
        peaks.evidence(Vec::new(), &Symbols::none());
        peaks.report(Cpu(1), peak(3), None);
        peaks.evidence(Vec::new(), &Symbols::none());
        assert!(reason(peaks).contains("ended before"));
    }
}

//! Windows from the kernel recorder: the only place of the monitor that knows it.
//!
//! The recorder counts from its start on; a window is the difference of two looks, with the exact maximum that the
//! kernel side kept in between. Evidence: the kernel side freezes its flight ring when a task is later than a threshold
//! that follows the worst of the window ([`Threshold`]); what is frozen is explained at once, and each series of the window
//! takes the explanation of exactly its maximum, or none.

use std::collections::BTreeMap;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::explain::{self, TimerPassage, WakePassage};
use lathunt_core::histogram::Histogram;
use lathunt_core::monitor::export::Interrupts;
use lathunt_core::monitor::threshold::Threshold;
use lathunt_core::monitor::window::{SeriesKey, WindowSeries};
use lathunt_core::peak::Peak;
use lathunt_core::run::Loss;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::trace::event::{Kind, Window as Evidence, SOFTIRQS};
use lathunt_core::trace::flight::Victim;

use super::clocks;
use crate::error::Result;
use crate::recorder::{Frozen, Look, Options, Recorder, Source as TakenBy};
use crate::symbols::Symbols;

/// Evidence kept for one CPU within a window: more than its series can need.
const MOST_PEAKS: usize = 64;

/// A late wake-up with evidence, and the parts of it that are samples of other series.
struct Case {
    peak: Peak,
    timer: Option<Ns>,
    wakeup: Option<Ns>,
}

/// The running recorder, as a monitor sees it.
pub struct Source {
    recorder: Recorder,
    symbols: Symbols,
    preemption: Option<String>,
    thresholds: BTreeMap<Cpu, Threshold>,
    cases: BTreeMap<Cpu, Vec<Case>>,
    before: BTreeMap<SeriesKey, Seen>,
}

/// What a series was at the end of the last window.
#[derive(Clone)]
struct Seen {
    histogram: Histogram,
    lost: u64,
}

impl Source {
    /// Attaches the recorder on `cpus`, which may be offline: they are recorded when they come.
    /// `preemption` is the kernel's model, for the wording of causes. Also returned: what cannot be recorded here, and
    /// what that costs, one line each.
    ///
    /// # Errors
    /// What the kernel lacks or refuses, in one line.
    pub fn start(cpus: &CpuSet, preemption: Option<String>) -> Result<(Source, Vec<String>)> {
        let thresholds: BTreeMap<Cpu, Threshold> =
            cpus.iter().map(|cpu| (cpu, Threshold::default())).collect();
        let first = Threshold::default().get();
        let options =
            Options { peaks_threshold: Some(first), late_timer_stack: first, ..Options::on(cpus.clone()) };
        let recorder = Recorder::start(&options)?;
        let mut notes = recorder.notes().to_vec();
        let symbols = Symbols::read().unwrap_or_else(|error| {
            notes.push(format!("{error}: kernel stacks show addresses instead of names"));
            Symbols::none()
        });
        let source = Source {
            recorder,
            symbols,
            preemption,
            thresholds,
            cases: BTreeMap::new(),
            before: BTreeMap::new(),
        };
        Ok((source, notes))
    }

    /// Takes and explains what was frozen; call it some ten times a second, and soon again when it says that there was
    /// something: then more may follow. `elapsed` of `length` of the window are over.
    pub fn poll(&mut self, elapsed: Ns, length: Ns) -> bool {
        let taken = self.recorder.take_frozen();
        let busy = !taken.is_empty();
        for frozen in taken {
            let Some(victim) = frozen.trigger.victim else { continue };
            if let Some(threshold) = self.thresholds.get_mut(&frozen.cpu) {
                threshold.crossed(victim.total);
            }
            let case = self.case(&frozen, &victim);
            let cases = self.cases.entry(frozen.cpu).or_default();
            cases.push(case);
            if cases.len() > MOST_PEAKS {
                cases.sort_by_key(|case| std::cmp::Reverse(case.peak.total_ns));
                cases.truncate(MOST_PEAKS);
            }
        }
        for (&cpu, threshold) in &mut self.thresholds {
            threshold.time_passes(elapsed, length);
            self.recorder.set_threshold(cpu, threshold.get());
            self.recorder.set_late_timer_stack(cpu, threshold.get());
        }
        busy
    }

    fn case(&self, frozen: &Frozen, victim: &Victim) -> Case {
        let cpu = frozen.cpu;
        let (begin, end) = (Mono(victim.switched_in.0.saturating_sub(victim.total.0)), victim.switched_in);
        let thread = Thread { tid: victim.tid, comm: name(victim), prio: Some(victim.prio) };
        let peak = Peak {
            quantity: Quantity::Wakeup,
            cpu,
            begin,
            total_ns: victim.total,
            victim: thread,
            culprit: None,
            explanation: None,
            no_evidence: None,
            context: None,
        };
        let mut evidence = match frozen.decode(&self.symbols) {
            Ok(evidence) => evidence,
            Err(damage) => {
                let no_evidence = Some(format!("its flight record is damaged: {damage}"));
                return Case { peak: Peak { no_evidence, ..peak }, timer: None, wakeup: None };
            }
        };
        evidence.preemption.clone_from(&self.preemption);
        let tid = victim.tid;
        let waking = waking(&evidence, &peak, end);
        let of_timer = waking.is_none_or(|waking| waking > begin);
        let explanation = match of_timer {
            true => explain::explain_peak(&evidence, &TimerPassage { tid, cpu, begin, end }),
            false => explain::explain_wakeup(&evidence, &WakePassage { tid, cpu, begin, end }),
        };
        let culprit = Some(explanation.cause.clone());
        let quantity = if of_timer { Quantity::TimerWakeup } else { Quantity::Wakeup };
        let timer = waking.filter(|_| of_timer).and_then(|waking| handler(&evidence, begin, waking));
        Case {
            peak: Peak { quantity, culprit, explanation: Some(explanation), ..peak },
            timer: timer.map(|handler| handler.since(begin)),
            wakeup: waking.map(|waking| end.since(waking)),
        }
    }

    /// Closes the window: what each series counted since the last call, with the evidence of its maximum.
    pub fn close(&mut self) -> Vec<WindowSeries> {
        let looks = self.recorder.look();
        let mut cases = std::mem::take(&mut self.cases);
        let mut largest: BTreeMap<Cpu, Ns> = BTreeMap::new();
        let mut closed = Vec::new();
        for look in looks {
            let Some(cpu) = look.series.cpu else { continue };
            let key = SeriesKey { quantity: look.series.quantity, cpu };
            let Some(series) = self.window_of(key, look, cases.entry(cpu).or_default()) else { continue };
            if let Some(max) = series.histogram.max() {
                let largest = largest.entry(cpu).or_default();
                *largest = max.max(*largest);
            }
            closed.push(series);
        }
        for (cpu, threshold) in &mut self.thresholds {
            threshold.begin(largest.get(cpu).copied());
            self.recorder.set_threshold(*cpu, threshold.get());
            self.recorder.set_late_timer_stack(*cpu, threshold.get());
        }
        closed
    }

    fn window_of(&mut self, key: SeriesKey, look: Look, cases: &mut [Case]) -> Option<WindowSeries> {
        let empty = || Seen { histogram: Histogram::new(look.series.histogram.layout()), lost: 0 };
        let before = self.before.get(&key).cloned().unwrap_or_else(empty);
        let max = look.max.unwrap_or_default();
        let histogram = look.series.histogram.since(&before.histogram, max).ok()?;
        let lost = look.series.lost.saturating_sub(before.lost);
        self.before.insert(key, Seen { histogram: look.series.histogram, lost: look.series.lost });
        if histogram.count() == 0 && lost == 0 {
            return None;
        }
        let peak = histogram.max().and_then(|max| of_maximum(key, max, cases));
        let peak_at = peak.as_ref().map(|peak| clocks::wall_of(peak.begin + peak.total_ns));
        Some(WindowSeries { key, histogram, lost, peak, peak_at })
    }

    /// Every series since the recorder began, for exporters that want totals.
    #[must_use]
    pub fn totals(&self) -> Vec<(SeriesKey, Histogram, u64)> {
        let series = self.recorder.series().into_iter().filter(|series| series.histogram.count() > 0);
        series
            .filter_map(|series| {
                let key = SeriesKey { quantity: series.quantity, cpu: series.cpu? };
                Some((key, series.histogram, series.lost))
            })
            .collect()
    }

    /// Who took time from threads since the recorder began, by class.
    #[must_use]
    pub fn interrupts(&self) -> Vec<Interrupts> {
        let mut classes: BTreeMap<(Cpu, String), (u64, Ns)> = BTreeMap::new();
        for taken in self.recorder.interference() {
            let sum = classes.entry((taken.cpu, class(&taken.source))).or_default();
            *sum = (sum.0 + taken.count, sum.1 + taken.total_ns);
        }
        let one = |((cpu, class), (count, total))| Interrupts { cpu, class, count, total };
        classes.into_iter().map(one).collect()
    }

    /// Loss counters above zero since the recorder began.
    #[must_use]
    pub fn losses(&self) -> Vec<Loss> {
        self.recorder.losses()
    }
}

/// A name of a bounded set: never that of a line or a driver.
fn class(source: &TakenBy) -> String {
    match source {
        TakenBy::Irq(..) => "io".to_owned(),
        TakenBy::Vector(vector) => vector.name().to_owned(),
        TakenBy::Softirq(number) => match SOFTIRQS.get(usize::from(*number)) {
            Some(name) => format!("softirq_{}", name.to_lowercase()),
            None => "softirq_other".to_owned(),
        },
        TakenBy::Nmi => "nmi".to_owned(),
    }
}

/// The case whose sample of `key` is exactly `max`.
fn of_maximum(key: SeriesKey, max: Ns, cases: &[Case]) -> Option<Peak> {
    let sample = |case: &&Case| match key.quantity {
        Quantity::Timer => case.timer == Some(max),
        Quantity::Wakeup => case.wakeup == Some(max),
        _ => case.peak.quantity == key.quantity && case.peak.total_ns == max,
    };
    let case = cases.iter().find(sample)?;
    let begin = match (key.quantity, case.wakeup) {
        (Quantity::Wakeup, Some(wakeup)) => Mono((case.peak.begin + case.peak.total_ns).0 - wakeup.0),
        _ => case.peak.begin,
    };
    Some(Peak { quantity: key.quantity, begin, total_ns: max, ..case.peak.clone() })
}

fn name(victim: &Victim) -> String {
    let text = victim.comm.split(|&byte| byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).into_owned()
}

/// When the victim was woken, within the passage.
fn waking(evidence: &Evidence, peak: &Peak, end: Mono) -> Option<Mono> {
    let of_victim = |kind: &Kind| matches!(kind, Kind::Waking { task, .. } if task.tid == peak.victim.tid);
    let events = evidence.events.iter().filter(|event| event.at >= peak.begin && event.at <= end);
    events.filter(|event| of_victim(&event.kind)).map(|event| event.at).min()
}

/// When the handler of the timer began that woke the victim.
fn handler(evidence: &Evidence, begin: Mono, waking: Mono) -> Option<Mono> {
    let entries = evidence.events.iter().filter(|event| event.at >= begin && event.at <= waking);
    let entries = entries.filter(|event| matches!(event.kind, Kind::TimerExpireEntry { .. }));
    entries.map(|event| event.at).max()
}

//! The measurement under load: threads measure, the recorder records, and this loop reads both every 20 ms.
//!
//! This loop runs at SCHED_OTHER (nice -15, so that the load does not keep it from reading) and touches the measuring threads
//! only through their relaxed counters. The run so far is saved once a second, so that a kill loses one second.

use std::time::Duration;

use lathunt_core::conditions::{LeftCpu, ENDED_BY_STOP_AT};
use lathunt_core::on_late;
use lathunt_core::peak::Peak;
use lathunt_core::run::{Interference, Loss};
use lathunt_core::series::{Series, Thread};
use lathunt_core::time::{Cpu, Mono, Ns, Prio};
use lathunt_host::clock;
use lathunt_host::instrument::cyclic::{self, Alignment, Cyclic, Hooks, Live, OnPeak, ThreadSpec};
use lathunt_host::instrument::peak_queue::{peak_queue, NewPeak, PeakReceiver, PeakSender};
use lathunt_host::recorder::{self, Freezer, Recorder};
use lathunt_host::sched::{self, Policy};
use lathunt_host::signals;
use lathunt_host::symbols::Symbols;

use super::late::Actions;
use super::peaks::{Kept, Peaks};
use crate::live::state::{Progress, Row};
use crate::live::Display;
use crate::until::Until;

const TURN: Duration = Duration::from_millis(20);
/// A shorter stop is in the flight records.
const SHORTEST_STOP: Ns = Ns::from_ms(100);
const COLLECTOR_NICE: i32 = -15;
const SAVE_EVERY: Ns = Ns(1_000_000_000);
/// How long to wait for frozen records after the end.
const LAST_RECORDS: Ns = Ns::from_ms(500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Setting {
    /// CPUs, one thread each.
    pub cpus: Vec<Cpu>,
    /// Policy of the measuring threads.
    pub policy: Policy,
    /// Their priority if the policy has one.
    pub priority: i32,
    /// Period of the threads.
    pub interval: Ns,
    /// Start of the first period; `None`: at once.
    pub begin: Option<Mono>,
    /// Limit whose first exceedance ends it.
    pub stop_at: Option<Ns>,
    /// Maximum length; `None`: until the claim is settled.
    pub duration: Option<Ns>,
    /// Deadline that refutes `until`.
    pub deadline: Option<Ns>,
    /// Claim that ends it early.
    pub until: Option<Until>,
    /// Worst cases kept per CPU.
    pub peaks: usize,
    /// Latencies below this are not worth a flight record.
    pub peak_floor: Ns,
    /// Preemption model in force: `none`, `voluntary`, `lazy`, `full`, `rt`.
    pub preemption: Option<String>,
    /// Whether memory can be locked.
    pub lock_memory: bool,
}

/// Results.
pub struct Measured {
    /// One per CPU, then the recorder's.
    pub series: Vec<Series>,
    /// The worst cases with their evidence.
    pub kept: Vec<Kept>,
    /// Time taken from threads.
    pub interference: Vec<Interference>,
    /// Loss counters above zero.
    pub losses: Vec<Loss>,
    /// Its start.
    pub begun: Mono,
    /// Actual length.
    pub duration: Ns,
    /// A signal ended it early.
    pub is_stopped: bool,
    /// Measuring threads that were not on their CPU all the time.
    pub left: Vec<LeftCpu>,
    /// Why a measuring thread ended early.
    pub failures: Vec<String>,
    /// The latency that ended it, in one line.
    pub stopped_at: Option<String>,
}

/// The recorder, or why there is none.
pub enum Recording {
    /// Running.
    On(Box<Recorder>, Symbols),
    /// Not available: the reason, for the user.
    Off(String),
}

/// Intermediate results, for files that survive a kill.
pub struct SoFar {
    /// Series of the measuring threads.
    pub series: Vec<Series>,
    /// Peaks explained so far.
    pub peaks: Vec<Peak>,
    /// Time measured.
    pub elapsed: Ns,
    /// Actions on late cases.
    pub on_late: Option<on_late::OnLate>,
}

/// Runs in a measuring thread when a latency enters its worst: requests the flight record, reports the sample.
struct Report {
    freezer: Option<Freezer>,
    freeze_from: Ns,
    sender: PeakSender,
}

impl OnPeak for Report {
    fn peak(&mut self, expected: Mono, woken: Mono, latency: Ns) -> Option<u64> {
        let freezer = self.freezer.as_ref().filter(|_| latency >= self.freeze_from);
        let freeze = freezer.and_then(Freezer::freeze);
        self.sender.send(NewPeak { expected, woken, latency, freeze, cpu: sched::current_cpu() });
        freeze
    }
}

/// Measures. `save` is called once a second.
///
/// # Errors
/// If the measuring threads cannot be started.
pub fn measure(
    setting: &Setting,
    recording: &mut Recording,
    display: &mut Display,
    actions: &mut Actions,
    mut save: impl FnMut(SoFar),
) -> anyhow::Result<Measured> {
    let (mut hooks, mut receivers) = hooks(setting, recording, setting.peak_floor);
    actions.watch(&mut hooks);
    let cyclic = Cyclic::start(options(setting), hooks)?;
    let _ = sched::set_nice(COLLECTOR_NICE); // if refused, some peaks may have no evidence, and say so
    let begun = cyclic.begun();
    let mut peaks = Peaks::new(victims(&cyclic, setting), setting.peaks, setting.preemption.clone());
    let mut saved = Ns::ZERO;
    let (mut is_over, mut until) = (false, setting.until);
    let mut looked = clock::mono();
    while signals::stop_requested().is_none() && !is_over {
        std::thread::sleep(TURN);
        // A SIGCONT after a pause of this loop ended a stop of this process.
        let stop = signals::take_continued().filter(|&at| at.since(looked) >= SHORTEST_STOP);
        stop.into_iter().for_each(|end| peaks.stopped(looked, end));
        looked = clock::mono();
        collect(setting, &mut receivers, recording, &mut peaks);
        actions.look(&setting.cpus, &peaks, recording);
        let elapsed = clock::mono().since(begun);
        let is_settled =
            until.as_mut().is_some_and(|until| until.is_settled(&cyclic, setting.deadline, elapsed));
        is_over = !cyclic.is_running() || is_settled;
        if display.is_due() {
            display.show(&progress(setting, until, &cyclic, &peaks, elapsed));
        }
        if elapsed.saturating_sub(saved) >= SAVE_EVERY {
            saved = elapsed;
            let series = cyclic.snapshot().into_iter().map(|result| result.series).collect();
            save(SoFar { series, peaks: peaks.so_far(), elapsed, on_late: actions.so_far() });
        }
    }
    let is_stopped = !is_over && cyclic.is_running();
    let stopped_at = cyclic.broke().zip(setting.stop_at).map(|((at, latency), limit)| {
        let (latency, limit) = latency.told_apart(limit);
        format!("{ENDED_BY_STOP_AT}{latency} on CPU {}, above {limit}", setting.cpus[at])
    });
    // Later activations were not due: --stop-at ended the measurement with that sample.
    let duration = cyclic.broke_at().unwrap_or_else(clock::mono).since(begun);
    let results = cyclic.finish();
    let waited_from = clock::mono();
    collect(setting, &mut receivers, recording, &mut peaks);
    while peaks.is_waiting() && clock::mono().since(waited_from) < LAST_RECORDS {
        std::thread::sleep(TURN);
        collect(setting, &mut receivers, recording, &mut peaks);
    }
    actions.look(&setting.cpus, &peaks, recording);
    let mut losses = queue_losses(&receivers);
    let (mut series, mut failures) = (Vec::new(), Vec::new());
    let left = results.iter().filter_map(|result| result.left.clone()).collect();
    for result in results {
        failures.extend(result.error);
        let label = result.series.label();
        failures.extend(result.rescheduled.map(|how| format!("{label}: {how}")));
        series.push(result.series);
    }
    let mut interference: Vec<Interference> = Vec::new();
    if let Recording::On(recorder, _) = recording {
        series.extend(recorder.series().into_iter().filter(|series| series.histogram.count() > 0));
        interference = recorder.interference().into_iter().map(taken).collect();
        interference.sort_by_key(|taken| std::cmp::Reverse(taken.total_ns));
        losses.extend(recorder.losses());
    }
    let kept = peaks.finish();
    Ok(Measured {
        series,
        kept,
        interference,
        losses,
        begun,
        duration,
        is_stopped,
        left,
        failures,
        stopped_at,
    })
}

fn taken(by: recorder::Interference) -> Interference {
    let recorder::Interference { cpu, source, count, total_ns, max_ns } = by;
    Interference { cpu, source: source.to_string(), count, total_ns, max_ns }
}

fn options(setting: &Setting) -> cyclic::Options {
    let spec = |&cpu| ThreadSpec { cpu: Some(cpu), priority: setting.priority, interval: setting.interval };
    cyclic::Options {
        threads: setting.cpus.iter().map(spec).collect(),
        policy: setting.policy,
        duration: setting.duration,
        peaks: setting.peaks,
        peak_floor: setting.peak_floor,
        break_at: setting.stop_at,
        alignment: setting.begin.map_or(Alignment::None, |begin| Alignment::At(begin.0)),
        lock_memory: setting.lock_memory,
        ..cyclic::Options::on([])
    }
}

/// One hook per thread: it reports every new peak and requests the flight record of those from `freeze_from` on.
fn hooks(setting: &Setting, recording: &Recording, freeze_from: Ns) -> (Vec<Hooks>, Vec<PeakReceiver>) {
    let one = |&cpu| {
        let (sender, receiver) = peak_queue();
        let freezer = match recording {
            Recording::On(recorder, _) => Some(recorder.freezer(cpu)),
            Recording::Off(_) => None,
        };
        (Hooks { peak: Some(Box::new(Report { freezer, freeze_from, sender })), sample: None }, receiver)
    };
    setting.cpus.iter().map(one).unzip()
}

fn victims<'a>(cyclic: &'a Cyclic, setting: &'a Setting) -> impl Iterator<Item = (Cpu, Thread)> + 'a {
    setting.cpus.iter().enumerate().map(|(index, &cpu)| {
        let prio = if setting.policy.is_realtime() { Prio::from_rt(setting.priority) } else { Prio(120) };
        (cpu, Thread { tid: cyclic.tid(index), comm: format!("cyclic/{index}"), prio: Some(prio) })
    })
}

/// Joins samples and flight records.
fn collect(setting: &Setting, receivers: &mut [PeakReceiver], recording: &mut Recording, peaks: &mut Peaks) {
    let no_recorder = match recording {
        Recording::On(..) => None,
        Recording::Off(reason) => Some(reason.as_str()),
    };
    for (&cpu, receiver) in setting.cpus.iter().zip(receivers) {
        while let Some(peak) = receiver.take() {
            peaks.report(cpu, peak, no_recorder);
        }
    }
    if let Recording::On(recorder, symbols) = recording {
        peaks.evidence(recorder.poll(), symbols);
    }
}

fn queue_losses(receivers: &[PeakReceiver]) -> Vec<Loss> {
    let count: u64 = receivers.iter().map(PeakReceiver::dropped).sum();
    let meaning =
        "peaks whose report found the queue full: they are in the series, but not in the list of peaks";
    let counter = "peak_queue_full".to_owned();
    let loss = Loss { counter, count, meaning: meaning.to_owned(), evidence_only: true };
    (count > 0).then_some(loss).into_iter().collect()
}

fn progress(
    setting: &Setting,
    until: Option<Until>,
    cyclic: &Cyclic,
    peaks: &Peaks,
    elapsed: Ns,
) -> Progress {
    let row = |(index, &cpu): (usize, &Cpu)| {
        let Live { count, min, now, avg_ns, max, missed, .. } = cyclic.live(index);
        Row {
            label: format!("CPU {cpu}"),
            count,
            min,
            now,
            mean_ns: avg_ns,
            p999: cyclic.quantile(index, 0.999),
            max,
            missed,
            culprit: peaks.last_cause(cpu).to_owned(),
        }
    };
    Progress {
        phase: until.map_or("measuring".to_owned(), |until| until.phase("measuring")),
        elapsed,
        planned: until.map_or(setting.duration, |until| until.estimate()),
        remark: None,
        rows: setting.cpus.iter().enumerate().map(row).collect(),
    }
}

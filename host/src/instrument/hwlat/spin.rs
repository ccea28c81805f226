//! A loop in user space that never stops, on every watched CPU at once: each iteration reads the processor's counter and
//! CLOCK_MONOTONIC; one that took too long is a gap. Interrupts are on, so a gap is first compared with the kernel recorder's
//! events on that CPU, then with SMIs and stolen time. The loop runs for `width` of each `window` (see `window`).
//!
//! FIFO only if a CPU stays free for everything else; otherwise as an ordinary thread, whose preemptions the recorder shows.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use lathunt_core::conditions::{Capability, LeftCpu};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::{explain_interval, Interval, Kind, Segment};
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::hwlat::classify::{classify, Evidence};
use lathunt_core::hwlat::{Found, Gap};
use lathunt_core::peak::Worst;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};

use super::super::own_cpu::OwnCpu;
use super::window::{Handled, Live, Loop, Span};
use super::{Options, KEPT};
use crate::clock;
use crate::error::{Error, Result};
use crate::facts::counters;
use crate::recorder::{self, Freezer, Frozen, Recorder};
use crate::sched::{self, Policy};
use crate::symbols::Symbols;
use crate::topology::Topology;
use crate::tree::{Tree, LIVE};
use crate::{arch, signals, threads};

/// A gap as measured by the loop.
#[derive(Clone, Debug)]
struct Raw {
    cpu: Cpu,
    tid: Tid,
    span: Span,
    smi: Option<u64>,
    steal_ns: Option<Ns>,
    freeze: Option<u64>,
    /// The loop was on another CPU, at its start or end: nothing that is known of `cpu` explains it.
    elsewhere: bool,
}

/// Results of one thread.
struct Watched {
    cpu: Cpu,
    gaps: Histogram,
    time: Ns,
    left: Option<LeftCpu>,
}

/// Spins for the duration, or until a signal.
///
/// # Errors
/// If a CPU or the priority is refused.
pub fn run(options: &Options, topology: &Topology) -> Result<Found> {
    let mut notes = Vec::new();
    let refused = match topology.housekeeping(&options.cpus) {
        None => Some("no CPU stays free for everything else".to_owned()),
        Some(_) => sched::may_be_realtime(PRIORITY).err().map(|error| error.to_string()),
    };
    let fifo = refused.is_none();
    notes.extend(refused.map(|why| format!("watched as ordinary threads: {why}")));
    let mut recorder = match Recorder::start(&recorder::Options::on(options.cpus.clone())) {
        Ok(recorder) => Some(recorder),
        Err(error) => {
            notes.push(format!("no record of the kernel: {error}"));
            notes.extend(
                recorder::capability().into_iter().filter(|c: &Capability| !c.present).map(|c| c.note),
            );
            None
        }
    };
    let (sender, receiver) = channel();
    let threads: Vec<_> = options
        .cpus
        .iter()
        .map(|cpu| {
            let freezer = recorder.as_ref().map(|recorder| recorder.freezer(cpu));
            let (options, sender) = (options.clone(), sender.clone());
            threads::spawn(move || watch(cpu, &options, fifo, freezer, &sender))
        })
        .collect::<Result<_>>()?;
    drop(sender);
    let book = collect(&receiver, recorder.as_mut(), fifo);
    let (mut histograms, mut watched, mut left) = (BTreeMap::new(), None, Vec::new());
    for thread in threads {
        let ended = |_| Error::refused("watch", "a CPU", "the watching thread ended early");
        let one = thread.join().map_err(ended)??;
        watched = Some(watched.map_or(one.time, |least: Ns| least.min(one.time)));
        histograms.insert(one.cpu, one.gaps);
        left.extend(one.left);
    }
    Ok(Found {
        detector: "spin",
        watched_ns: watched.unwrap_or_default(),
        gaps: histograms.values().map(Histogram::count).sum(),
        max_ns: histograms.values().filter_map(Histogram::max).max(),
        histograms,
        worst: judged(book, options, recorder.is_some()),
        samples: Vec::new(),
        notes,
        left,
    })
}

/// Below the kernel's own threads of 99, above all applications.
const PRIORITY: i32 = 95;

/// The loop of one CPU.
fn watch(
    cpu: Cpu,
    options: &Options,
    fifo: bool,
    freezer: Option<Freezer>,
    sender: &Sender<Raw>,
) -> Result<Watched> {
    sched::pin(cpu)?;
    let tick_ns = tick_ns();
    if fifo {
        sched::limit_rt_time(Ns(options.width.0.saturating_mul(2).max(1_000_000_000)))?;
        sched::set_policy(Policy::Fifo, PRIORITY)?;
    }
    sched::prefault_stack();
    let (tid, begin) = (sched::tid(), clock::mono());
    let own_cpu = OwnCpu::new(Some(cpu));
    let mut watched = Watched { cpu, gaps: Histogram::new(Layout::LATENCY), time: Ns::ZERO, left: None };
    let mut worst: Worst<()> = Worst::new(KEPT);
    while clock::mono().since(begin) < options.duration && signals::stop_requested().is_none() {
        // SMIs and stolen time of the pauses between windows do not explain a gap.
        let (mut smi, mut steal) = (smi_of(cpu), steal_of(cpu));
        let mut keep = |span: Span| {
            let elsewhere = own_cpu.look(0);
            watched.gaps.record(span.gap());
            if !worst.would_keep(span.gap()) {
                return Handled::AtOnce;
            }
            worst.offer(span.gap(), ());
            let freeze = freezer.as_ref().filter(|_| !elsewhere).and_then(Freezer::freeze);
            let (smi_now, steal_now) = (smi_of(cpu), steal_of(cpu));
            let raw = Raw {
                cpu,
                tid,
                span,
                smi: counters::grown(smi, smi_now).filter(|_| !elsewhere),
                steal_ns: counters::grown(steal, steal_now).map(Ns).filter(|_| !elsewhere),
                freeze,
                elsewhere,
            };
            (smi, steal) = (smi_now, steal_now);
            let _ = sender.send(raw); // the receiver lives as long as the senders
            Handled::Slowly
        };
        let loops = Loop { width: options.width, threshold: options.threshold, tick_ns };
        let time = loops.run(&Live, || _ = own_cpu.look(1), &mut keep);
        watched.time = watched.time + time;
        std::thread::sleep(Duration::from_nanos(
            options.window.0.saturating_sub(options.width.0).max(1_000_000),
        ));
    }
    own_cpu.look_at_affinity();
    watched.left = own_cpu.left();
    Ok(watched)
}

fn tick_ns() -> f64 {
    if let Some(hz) = arch::counter_hz() {
        return 1e9 / hz as f64;
    }
    let (begin, from) = (Instant::now(), arch::counter());
    std::thread::sleep(Duration::from_millis(50));
    let (to, elapsed) = (arch::counter(), begin.elapsed());
    elapsed.as_secs_f64() * 1e9 / (to - from).max(1) as f64
}

fn smi_of(cpu: Cpu) -> Option<u64> {
    counters::smi_count(&Tree::new(std::path::Path::new(LIVE)), cpu)
}

fn steal_of(cpu: Cpu) -> Option<u64> {
    Some(counters::steal(&Tree::new(std::path::Path::new(LIVE)))?.get(&cpu)?.0)
}

/// Gaps with the flight record that belongs to each.
type Book = Vec<(Raw, Option<Frozen>)>;

/// Collects until the last thread ends; records arrive up to a second after their gap. `apart`: this runs on a CPU that is
/// not watched and may collect at once; else rarely, because it takes time from the watched CPUs.
fn collect(receiver: &Receiver<Raw>, mut recorder: Option<&mut Recorder>, apart: bool) -> Book {
    const SELDOM: Duration = Duration::from_millis(100);
    let (mut gaps, mut records, mut open) = (Vec::new(), HashMap::new(), true);
    let mut ended: Option<Instant> = None;
    loop {
        match receiver.recv_timeout(if apart { SELDOM / 10 } else { SELDOM }) {
            Ok(raw) => {
                gaps.push(raw);
                std::thread::sleep(if apart { Duration::ZERO } else { SELDOM });
                gaps.extend(receiver.try_iter());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => open = false,
        }
        if let Some(recorder) = recorder.as_deref_mut() {
            records.extend(recorder.poll().into_iter().map(|frozen| ((frozen.cpu, frozen.id), frozen)));
        }
        if !open {
            let since = ended.get_or_insert_with(Instant::now);
            let waits = gaps
                .iter()
                .any(|raw: &Raw| raw.freeze.is_some_and(|id| !records.contains_key(&(raw.cpu, id))));
            if recorder.is_none() || !waits || since.elapsed() > Duration::from_millis(500) {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    let record = |raw: &Raw| raw.freeze.and_then(|id| records.get(&(raw.cpu, id)).cloned());
    gaps.into_iter().map(|raw| (raw.clone(), record(&raw))).collect()
}

/// The worst of all CPUs, each judged.
fn judged(book: Book, options: &Options, recorded: bool) -> Vec<Gap> {
    let symbols = Symbols::read().unwrap_or_else(|_| Symbols::none());
    let hypervisor = arch::hypervisor();
    let here = book.iter().map(|(raw, _)| raw).filter(|raw| !raw.elsewhere);
    let spans: Vec<(Cpu, Mono, Mono)> = here.map(|raw| (raw.cpu, raw.span.begin, raw.span.end)).collect();
    let mut book = book;
    book.sort_by_key(|(raw, _)| std::cmp::Reverse(raw.span.gap()));
    book.truncate(KEPT);
    let judge = |(raw, frozen): (Raw, Option<Frozen>)| {
        let together: CpuSet = spans
            .iter()
            .filter(|(_, begin, end)| *begin < raw.span.end && raw.span.begin < *end)
            .map(|(cpu, ..)| *cpu)
            .collect();
        let ran = frozen.as_ref().and_then(|frozen| software(&raw, frozen, &symbols));
        let threads = ran.iter().flatten().filter_map(|leaf| leaf.thread.clone()).collect();
        let part = |leaf: Segment| (leaf.label, leaf.duration_ns);
        let unrecorded = match (frozen, raw.freeze) {
            _ if raw.elsewhere => "the loop was on another CPU",
            (Some(_), _) => "the kernel's record does not reach back that far",
            (None, Some(_)) => "the kernel's record of it did not arrive in time",
            (None, None) => "all buffers of the kernel's record were full of earlier gaps",
        };
        let evidence = Evidence {
            gap_ns: raw.span.gap(),
            counter_ns: Some(raw.span.counter_ns),
            threshold_ns: options.threshold,
            software: ran.map(|leaves| leaves.into_iter().map(part).collect()),
            unrecorded: (recorded || raw.elsewhere).then_some(unrecorded),
            smi: raw.smi,
            steal_ns: raw.steal_ns,
            hypervisor: hypervisor.clone(),
            interrupts_off: false,
            nmi: None,
            together: (options.cpus.len() > 1 && !raw.elsewhere)
                .then_some((together.len(), options.cpus.len())),
        };
        let judgement = classify(&evidence);
        Gap { cpu: raw.cpu, at: raw.span.begin, gap_ns: evidence.gap_ns, judgement, threads }
    };
    book.into_iter().map(judge).collect()
}

/// Everything except the loop itself that used the CPU inside the gap; `None` if the record does not cover it.
fn software(raw: &Raw, frozen: &Frozen, symbols: &Symbols) -> Option<Vec<Segment>> {
    let window = frozen.decode(symbols).ok()?;
    let interval = Interval { tid: raw.tid, cpu: raw.cpu, begin: raw.span.begin, end: raw.span.end };
    let explanation = explain_interval(&Record::new(&window), &interval);
    let leaves = explanation.tree.leaves();
    if leaves.iter().any(|leaf| leaf.kind == Kind::Lost) {
        return None;
    }
    let own = |kind: Kind| matches!(kind, Kind::ReturnToUser | Kind::Running | Kind::Passage);
    Some(leaves.into_iter().filter(|leaf| !own(leaf.kind)).cloned().collect())
}

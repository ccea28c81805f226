//! The other side of the measurement, on a CPU that is not measured: starts probe, recorder and threads, copies the kernel's
//! record, attributes gaps, and stops everything.

use std::path::Path;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lathunt_core::npt::ledger::{ExplainedGap, Ledger};
use lathunt_core::peak::{Peak, Worst};
use lathunt_core::run::Loss;
use lathunt_core::time::{Cpu, Mono, Ns};

use super::anchors::Anchors;
use super::followed::Lane;
use super::lane::{self, Shared, STOP};
use super::largest::{self, Largest};
use super::probe::Session;
use super::record::Pieces;
use super::{Found, Options, KEPT};
use crate::clock::mono as now;
use crate::error::{Error, Result};
use crate::facts::counters;
use crate::recorder::{self, Freezer, Recorder};
use crate::symbols::Symbols;
use crate::topology::Topology;
use crate::tree::{Tree, LIVE};
use crate::{arch, sched, signals};

/// Polling interval of the follower: the flight ring holds 4096 events, and its buffers eight times that.
const TURN: Duration = Duration::from_millis(20);
/// How long to wait for the last pieces of the record.
const LAST: Duration = Duration::from_millis(500);

/// Progress of one CPU.
#[derive(Clone, Copy, Debug)]
pub struct Live {
    /// Where.
    pub cpu: Cpu,
    /// Iterations so far.
    pub done: u64,
    /// Gaps so far.
    pub gaps: u64,
    /// The longest; `None` before the first.
    pub longest: Option<Ns>,
}

/// Measures until all threads have done their iterations, a signal asks for the end, or `live` returns true. That is called
/// every 20 ms, with the gaps above [`Options::late`] that have been attributed.
///
/// # Errors
/// If probe, CPU or priority is refused.
pub fn measure(options: &Options, mut live: impl FnMut(&[Live], Vec<Peak>) -> bool) -> Result<Found> {
    let topology = Topology::read(Path::new(LIVE))?;
    let mut options = options.clone();
    let mut notes = Vec::new();
    options.read = options.read.checked()?;
    let others = topology.online.minus(&options.cpus);
    if options.priority > 0 && others.is_empty() {
        options.priority = 0;
        notes.push("measured as ordinary threads: no CPU stays free for everything else".to_owned());
    }
    let session = Session::start(options.probe, options.trace_kernel, &options.cpus, options.loops)?; // forks: before any thread
    if let Err(error) = sched::lock_memory() {
        notes.push(format!("memory is not locked: {error}"));
    }
    let old = sched::affinity()?;
    if !others.is_empty() {
        sched::set_affinity(&others)?;
    }
    let recorder = start_recorder(&options, &mut notes);
    let mut follower = Follower::start(&options, &session, recorder)?;
    follower.follow(&mut live);
    let _ = sched::set_affinity(&old);
    let mut found = follower.finish(notes)?;
    found.notes.extend(session.finish()?);
    Ok(found)
}

fn start_recorder(options: &Options, notes: &mut Vec<String>) -> Option<Recorder> {
    if !options.record {
        return None;
    }
    match Recorder::start(&recorder::Options::on(options.cpus.clone())) {
        Ok(recorder) => {
            notes.extend(recorder.notes().iter().cloned());
            Some(recorder)
        }
        Err(error) => {
            notes.push(format!("no record of the kernel, so gaps have no cause: {error}"));
            None
        }
    }
}

struct Follower<'a> {
    options: &'a Options,
    lanes: Vec<Lane>,
    recorder: Option<Recorder>,
    symbols: Symbols,
    clock: Anchors,
    tick_ns: f64,
    ledger: Ledger,
    gaps: Vec<ExplainedGap>,
    late: Vec<Peak>,
    begin: Mono,
    over: bool, // a consumer has ended it
}

impl<'a> Follower<'a> {
    fn start(options: &'a Options, session: &Session, recorder: Option<Recorder>) -> Result<Follower<'a>> {
        let tick_ns = options.read.tick_ns();
        let (probes, work) = (options.probe.calls_kernel(), options.work.map(|work| work.usual));
        let mut follower = Follower {
            options,
            lanes: Vec::new(),
            symbols: Symbols::read().unwrap_or_else(|_| Symbols::none()),
            clock: Anchors::new(options.read),
            tick_ns,
            ledger: Ledger::new(options.threshold, arch::hypervisor(), probes, work),
            gaps: Vec::new(),
            late: Vec::new(),
            begin: now(),
            over: false,
            recorder,
        };
        for cpu in options.cpus.iter() {
            let shared = Arc::new(Shared::new(cpu));
            shared.follower.store(options.read.ticks(), Relaxed);
            let (armed, theirs, copy) = (session.arm()?, Arc::clone(&shared), options.clone());
            let freezer = follower.recorder.as_ref().map(|recorder| recorder.freezer(cpu));
            let sees = freezer.clone();
            let body = move || lane::run(cpu, &copy, tick_ns, armed, sees, &theirs);
            let thread = std::thread::Builder::new().name(format!("npt/{cpu}")).spawn(body);
            let thread = thread.map_err(|error| Error::new("start", "a measuring thread", error))?;
            follower.lanes.push(Lane {
                cpu,
                shared,
                thread: Some(thread),
                freezer,
                pieces: Pieces::default(),
                largest: Largest::default(),
                begun: None,
                stolen: None,
                stolen_exactly: None,
                worst: Worst::new(options.worst),
            });
        }
        Ok(follower)
    }

    fn follow(&mut self, live: &mut impl FnMut(&[Live], Vec<Peak>) -> bool) {
        let mut over = false;
        while self.lanes.iter().any(|lane| lane.thread.as_ref().is_some_and(|thread| !thread.is_finished())) {
            std::thread::sleep(TURN);
            let stop = over || signals::stop_requested().is_some() || self.failed();
            let clock = if stop { STOP } else { self.options.read.ticks() };
            self.lanes.iter().for_each(|lane| lane.shared.follower.store(clock, Relaxed));
            self.turn();
            let late = std::mem::take(&mut self.late);
            over |= live(&self.live(), late);
            self.over = over;
        }
    }

    /// A thread that ended before it began has an error to report.
    fn failed(&self) -> bool {
        let early = |lane: &Lane| {
            lane.thread.as_ref().is_some_and(JoinHandle::is_finished) && lane.shared.begun.load(Acquire) == 0
        };
        self.lanes.iter().any(early)
    }

    fn live(&self) -> Vec<Live> {
        let of = |lane: &Lane| Live {
            cpu: lane.cpu,
            done: lane.shared.done.load(Relaxed),
            gaps: lane.shared.gaps.load(Relaxed),
            longest: Some(lane.shared.longest.load(Relaxed))
                .filter(|&ticks| ticks > 0)
                .map(|ticks| Ns((ticks as f64 * self.tick_ns) as u64)),
        };
        self.lanes.iter().map(of).collect()
    }

    /// Collects new gaps and pieces of the record, and enters attributions into the ledger.
    fn turn(&mut self) {
        let raws: Vec<Vec<lane::Raw>> =
            self.lanes.iter().map(|lane| std::iter::from_fn(|| lane.shared.take()).collect()).collect();
        let largest: Vec<Vec<_>> = self.lanes.iter().map(|lane| lane.shared.of_seconds().collect()).collect();
        self.clock.anchor(); // after all of them
        let steal = counters::steal(&Tree::new(Path::new(LIVE)));
        for ((lane, raws), largest) in self.lanes.iter_mut().zip(raws).zip(largest) {
            let stolen = steal.as_ref().and_then(|all| all.get(&lane.cpu).copied());
            let delta = stolen.zip(lane.stolen).map(|(now, before)| now.saturating_sub(before));
            lane.stolen = stolen;
            lane.take(raws, &self.clock, delta);
            lane.largest.take(largest, &self.clock);
            if self.recorder.is_none() {
                for seen in lane.pieces.give_up() {
                    self.late.extend(lane.late(&seen, self.options));
                    self.gaps.extend(self.ledger.add(seen.gap, seen.shares));
                }
            } else if lane.pieces.is_waiting() {
                lane.freezer.as_ref().map(Freezer::freeze);
            }
        }
        self.gather();
        self.gaps.truncate(KEPT);
    }

    fn gather(&mut self) {
        let Some(recorder) = &mut self.recorder else { return };
        for frozen in recorder.poll() {
            let Some(lane) = self.lanes.iter_mut().find(|lane| lane.cpu == frozen.cpu) else { continue };
            let tid = lane.shared.tid();
            let worst = &lane.worst;
            let seen = lane.pieces.piece(&frozen, &self.symbols, tid, |gap| worst.would_keep(gap));
            for seen in seen {
                self.late.extend(lane.late(&seen, self.options));
                lane.keep(&seen, self.options.priority);
                let told = self.ledger.add(seen.gap, seen.shares);
                self.gaps.extend(told);
            }
        }
    }

    fn finish(mut self, notes: Vec<String>) -> Result<Found> {
        let duration = now().since(self.begin);
        let mut series = Vec::new();
        let mut unfinished = 0;
        for index in 0..self.lanes.len() {
            let Some(thread) = self.lanes[index].thread.take() else { continue };
            let ended = |_| Error::refused("measure", "a CPU", "the measuring thread ended early");
            let turns = thread.join().map_err(ended)??;
            unfinished += u64::from(turns.figures().map_or(0, |figures| figures.count) < self.options.loops);
            series.push(self.lanes[index].series(&turns, self.options));
        }
        let stopped_by = signals::stop_requested();
        let mut ended_early = None;
        if unfinished > 0 && stopped_by.is_none() && !self.over {
            ended_early = Some("ended early: the follower got no CPU time for 10 s".to_owned());
        }
        self.await_record();
        for lane in &mut self.lanes {
            for seen in lane.pieces.give_up() {
                lane.keep(&seen, self.options.priority);
                self.gaps.extend(self.ledger.add(seen.gap, None));
            }
        }
        let recorded = self.recorder.is_some();
        for lane in self.lanes.iter_mut().filter(|lane| recorded && lane.shared.dropped.load(Relaxed) > 0) {
            lane.keep_dropped(self.options.priority);
        }
        self.gaps.extend(self.ledger.settle());
        self.gaps.truncate(KEPT);
        for (lane, series) in self.lanes.iter().zip(&mut series) {
            series.set_seconds(lane.largest.seconds());
        }
        let losses = self.losses();
        let left = self.lanes.iter().filter_map(|lane| lane.shared.own_cpu.left()).collect();
        let rescheduled =
            |lane: &Lane| Some(format!("CPU {}: {}", lane.cpu, lane.shared.own_cpu.rescheduled()?));
        let ended_early = ended_early.or_else(|| self.lanes.iter().find_map(rescheduled));
        Ok(Found {
            left,
            series,
            sources: self.ledger.rows(),
            worst: self.worst(),
            attributed_of_large: self.ledger.attributed_of_large(),
            entry_ns: self.ledger.entry_ns(),
            gaps: self.gaps,
            losses,
            notes,
            duration,
            stopped_by,
            ended_early,
        })
    }

    fn await_record(&mut self) {
        let begin = Instant::now();
        self.turn();
        while self.lanes.iter().any(|lane| lane.pieces.is_waiting()) && begin.elapsed() < LAST {
            std::thread::sleep(TURN);
            self.turn();
        }
    }

    /// The worst of all CPUs; the culprit is the one that the ledger names.
    fn worst(&self) -> Vec<Peak> {
        let mut peaks: Vec<Peak> =
            self.lanes.iter().flat_map(|lane| lane.worst.iter().map(|(_, peak)| peak.clone())).collect();
        for peak in &mut peaks {
            let told = self.gaps.iter().find(|told| told.gap.cpu == peak.cpu && told.gap.begin == peak.begin);
            let Some(told) = told else { continue };
            peak.culprit = told.parts.first().map(|part| part.name.clone());
            if let Some(explanation) = &mut peak.explanation {
                told.retell(explanation);
            }
        }
        peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
        peaks
    }

    fn losses(&self) -> Vec<Loss> {
        let mut losses = self.recorder.as_ref().map(Recorder::losses).unwrap_or_default();
        let dropped: u64 = self.lanes.iter().map(|lane| lane.shared.dropped.load(Relaxed)).sum();
        losses.extend(largest::dropped(dropped));
        losses
    }
}

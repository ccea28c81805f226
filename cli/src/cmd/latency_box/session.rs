//! The measurement of `lathunt box`: opens the channels, watches, judges, writes.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::latency_box::lines;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Mono, Ns};
use lathunt_host::beneath::Readers;
use lathunt_host::latency_box::{Finished, Options};
use lathunt_host::tree::LIVE;
use lathunt_host::{pm_qos, sched, signals};

use super::open::{self, Place};
use super::record::{Recording, NO_EVENTS};
use super::{calibrate, serve, table, watch};
use crate::cmd::latency_box::BoxArgs;
use crate::file::{self, target, write_atomic, RUN_FILE};
use crate::{exit, out, stopped};

/// Measures all channels, or pairs, at the same time.
///
/// # Errors
/// As [`crate::cmd::latency_box::run`].
pub fn run(args: &BoxArgs) -> Result<ExitCode> {
    let file = args.output.as_deref().map(output).transpose()?;
    let lines_file = args.lines.as_deref().map(|path| target(path, "histogram.txt")).transpose()?;
    let mut prepared = Prepared::new(args)?;
    let calibration = if args.calibrate { calibrate::all(args, &prepared)? } else { Vec::new() };
    let mut recording = args.record.then(|| Recording::start(&mut prepared.conditions)).transpose()?;
    let before = crate::conditions::before_measuring(&prepared.cpus);
    let ends = open::all(args, &prepared, recording.as_mut())?;
    let server = args.listen.as_deref().map(serve::Server::start).transpose()?;
    let others = watch::Others { server: server.as_ref(), recording: recording.as_mut() };
    let (finished, elapsed) = watch::follow(args, ends, others, &prepared.conditions);
    prepared.conditions.duration_s = Some(elapsed.as_secs());
    prepared.conditions.during = before.during(Path::new(LIVE), &prepared.cpus);
    let mut run = to_run(prepared.conditions, &finished);
    run.calibration = calibration;
    recording.iter().for_each(|recording| recording.explain(&mut run, &finished));
    stopped::mark(&mut run, elapsed, args.duration);
    // A verdict after a failed calibration is void: the rules of every verdict report that.
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Roundtrip));
    nobody_there(&finished)?;
    finish(args, &run, &finished, file.as_deref(), lines_file.as_deref())
}

/// State before the first stimulus.
pub struct Prepared {
    pub(super) conditions: Conditions,
    pub(super) cpus: CpuSet,
    pub(super) place: Place,
}

impl Prepared {
    /// Privileges, CPUs, locked memory, signals.
    ///
    /// # Errors
    /// If a CPU does not exist.
    pub fn new(args: &BoxArgs) -> Result<Prepared> {
        let cpus = open::cpus(args)?;
        let mut conditions = gather(&cpus);
        let notes = realtime(args.priority, args.no_mlock);
        let priority = if notes.ordinary { 0 } else { args.priority };
        notes.lines.iter().for_each(|note| eprintln!("warning: {note}"));
        conditions.notes.extend(notes.lines);
        signals::install()?;
        Ok(Prepared { conditions, place: Place { cpus: cpus.iter().collect(), priority }, cpus })
    }
}

/// Facts about the machine and this command.
pub(super) fn gather(cpus: &CpuSet) -> Conditions {
    let mut conditions = crate::conditions::of_this_run(cpus);
    conditions.machine.cpus_measured = Some(cpus.to_string());
    conditions.knobs.cpu_dma_latency_us = pm_qos::read().ok();
    conditions.knobs.cpu_dma_latency_holders = pm_qos::holders();
    conditions
}

/// Missing privileges of this process.
pub struct Rights {
    /// It measures or answers as an ordinary thread.
    pub ordinary: bool,
    /// The reason, and other notes.
    pub lines: Vec<String>,
}

/// Requests a real-time priority and locked memory; reports refusals.
pub fn realtime(priority: i32, no_mlock: bool) -> Rights {
    let mut rights = Rights { ordinary: priority == 0, lines: Vec::new() };
    if priority > 0 && !sched::denied::has_realtime_right(priority) {
        let why = sched::denied::why_no_realtime(priority);
        rights
            .lines
            .push(format!("runs as ordinary threads (SCHED_OTHER), not at priority {priority}: {why}"));
        rights.ordinary = true;
    }
    if !no_mlock
        && !rights.ordinary
        && let Err(error) = sched::lock_memory()
    {
        rights.lines.push(format!("runs without locked memory: {error}; --no-mlock does not try"));
    }
    if !rights.ordinary
        && let Err(error) = sched::limit_rt_time(Ns::from_ms(2_000))
    {
        rights.lines.push(format!("no limit of real-time CPU time: {error}"));
    }
    rights
}

/// Destination of the run: a directory that is created, or a file.
pub(super) fn output(path: &Path) -> Result<PathBuf> {
    let is_file = path.extension().is_some_and(|ending| ending == "json");
    if !is_file && !path.exists() {
        file::directory(path, Readers::Umask)?;
    }
    target(path, RUN_FILE)
}

/// No answer to hello is an error, not a measurement.
pub(super) fn nobody_there(finished: &[(Options, Finished)]) -> Result<()> {
    let Some((options, one)) = finished.iter().find(|(_, one)| !one.welcomed) else { return Ok(()) };
    if finished.iter().any(|(_, one)| one.counts.sent > 0) {
        return Ok(()); // the others were measured: the silent one is in the run, without a sample
    }
    if let Some(signal) = signals::stop_requested() {
        bail!("ended by signal {signal} before a responder answered on {}", options.name);
    }
    let trouble = one.trouble.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
    bail!(
        "no answer on {} within {}{trouble}: start `lathunt respond {}` at the other end, or check the line",
        options.name,
        options.patience,
        options.name
    )
}

pub(super) fn to_run(conditions: Conditions, finished: &[(Options, Finished)]) -> Run {
    let mut run = Run::new(conditions);
    for (options, one) in finished {
        run.complete &= !one.closed;
        run.conditions
            .during
            .ended_early
            .extend(one.changed.iter().map(|how| format!("{}: {how}", options.name)));
        run.series.extend(one.series.iter().cloned());
        run.conditions.notes.extend(one.facts.iter().cloned());
        run.conditions.notes.extend(one.trouble.iter().map(|trouble| format!("{}: {trouble}", options.name)));
        let victim = one.series.first().and_then(|series| series.thread.clone()).unwrap_or_default();
        run.peaks.extend(one.worst.iter().map(|trip| peak(options, &victim, trip)));
    }
    run.peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
    run
}

fn peak(options: &Options, victim: &Thread, trip: &lathunt_host::latency_box::tally::WorstTrip) -> Peak {
    let sample = &trip.sample;
    let (received, answered) = sample.there;
    let turnaround = Ns(answered.saturating_sub(received));
    let parts = match trip.outward_and_return {
        Some((outward, inward)) => format!("{outward} outward, {turnaround} in the responder, {inward} back"),
        None => format!("{turnaround} in the responder, the rest on the way"),
    };
    Peak {
        quantity: Quantity::Roundtrip,
        cpu: options.place.cpu.unwrap_or_default(),
        begin: Mono(sample.flight.sent),
        total_ns: sample.latency,
        victim: victim.clone(),
        culprit: None,
        explanation: None,
        no_evidence: Some(format!("{}, stimulus {}: {parts}; {NO_EVENTS}", options.name, sample.sequence)),
        context: None,
        during_action: false,
        counted_as: None,
    }
}

/// Prints, saves, and returns the outcome.
pub(super) fn finish(
    args: &BoxArgs,
    run: &Run,
    finished: &[(Options, Finished)],
    file: Option<&Path>,
    lines_file: Option<&Path>,
) -> Result<ExitCode> {
    let text = if args.json { run.to_json() + "\n" } else { table::of(run, args.quiet) };
    let saved = file.map_or(Ok(()), |file| write_atomic(file, run.to_json().as_bytes()));
    let lines = lines_file.map_or(Ok(()), |file| write_lines(file, run));
    exit::all([out::print(&text).map_err(Into::into), saved, lines])?;
    for (options, one) in finished {
        if let Some(trouble) = &one.trouble {
            eprintln!("warning: {}: {trouble}", options.name);
        }
    }
    if let Some(code) = say_broke(args, finished) {
        return Ok(code);
    }
    let code = exit::of(run.verdict.as_ref());
    let open = run.of(Quantity::Roundtrip).any(|series| series.lost > 0 || series.histogram.count() == 0);
    let failed = run.calibration.iter().any(|one| !one.passed);
    Ok(match code == ExitCode::SUCCESS && (open || failed || !run.complete) {
        true => exit::INCONCLUSIVE.into(),
        false => code,
    })
}

/// The channel and the round trip that ended the measurement (`-b`).
pub(super) fn broke(finished: &[(Options, Finished)]) -> Option<(&str, Ns)> {
    finished.iter().find_map(|(options, one)| Some((options.name.as_str(), one.broke?)))
}

/// The exit status of a measurement ended by `-b`, after a line about it.
pub(super) fn say_broke(args: &BoxArgs, finished: &[(Options, Finished)]) -> Option<ExitCode> {
    let (name, latency) = broke(finished)?;
    let (latency, limit) = latency.told_apart(args.break_at.unwrap_or_default());
    eprintln!("stopped: {latency} on {name}, above {limit}");
    Some(exit::EXCEEDED.into())
}

fn write_lines(file: &Path, run: &Run) -> Result<()> {
    let mut sum = [0u64; lines::LINES];
    for series in run.of(Quantity::Roundtrip) {
        let one = lines::lines_of(&series.histogram).context("the histogram has no rows of 1 µs")?;
        sum.iter_mut().zip(one).for_each(|(sum, count)| *sum = sum.saturating_add(count));
    }
    write_atomic(file, lines::write(&sum).as_bytes())
}

//! `lathunt box --pair preempt`: threads of rising priority on one CPU, each released while the next lower one computes.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Result};
use lathunt_core::numbers::counted;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::latency_box::preempt::{Chain, Level, Options};
use lathunt_host::tree::LIVE;
use lathunt_host::{sched, signals};

use super::record::{self, Recording, NO_EVENTS};
use super::session::{output, Prepared};
use super::table;
use crate::cmd::latency_box::BoxArgs;
use crate::file::write_atomic;
use crate::live::state::{Progress, Row};
use crate::live::Display;
use crate::{exit, out, stopped};

/// Measures a chain on each CPU.
///
/// # Errors
/// Without the right to real-time priorities there is nothing to verify; else as [`super::session::run`].
pub fn run(args: &BoxArgs, levels: u32) -> Result<ExitCode> {
    let priority = args.priority;
    if priority == 0 {
        bail!(
            "--pair preempt needs real-time priorities: -p is that of the highest thread, {levels} or more"
        );
    }
    if !sched::denied::has_realtime_right(priority) {
        let why = sched::denied::why_no_realtime(priority);
        bail!("--pair preempt cannot run without real-time priorities, ordinary threads do not preempt one another: {why}");
    }
    let file = args.output.as_deref().map(output).transpose()?;
    let mut prepared = Prepared::new(args)?;
    let mut recording = args.record.then(|| Recording::start(&mut prepared.conditions)).transpose()?;
    let before = crate::conditions::before_measuring(&prepared.cpus);
    let options = |&cpu| Options {
        cpu,
        priority,
        levels,
        interval: args.interval,
        duration: args.duration,
        timeout: args.timeout,
        break_at: args.break_at,
        worst: usize::from(args.worst),
    };
    let mut chains = Vec::new();
    for cpu in &prepared.place.cpus {
        let trips: Vec<_> = match &mut recording {
            Some(recording) => (0..levels).map(|_| recording.channel(args.worst)).collect(),
            None => Vec::new(),
        };
        chains.push(Chain::start(options(cpu), &trips)?);
    }
    let elapsed = follow(args, &chains, recording.as_mut());
    chains.iter_mut().for_each(Chain::stop);
    prepared.conditions.duration_s = Some(elapsed.as_secs());
    prepared.conditions.during = before.during(Path::new(LIVE), &prepared.cpus);
    prepared.conditions.during.ended_early.extend(chains.iter().flat_map(Chain::changed));
    let mut run = Run::new(prepared.conditions);
    run.series.extend(chains.iter().flat_map(Chain::series));
    run.peaks = peaks(&chains, usize::from(args.worst), recording.as_ref());
    run.losses.extend(recording.iter().flat_map(Recording::losses));
    stopped::mark(&mut run, elapsed, args.duration);
    run.verdict = Some(exit::judged(args.deadline, &run, Quantity::Preemption));
    let text = if args.json {
        run.to_json() + "\n"
    } else {
        shown(&chains) + &table::cases(&run) + &table::verdict(&run)
    };
    let saved = file.map_or(Ok(()), |file| write_atomic(&file, run.to_json().as_bytes()));
    exit::all([out::print(&text).map_err(Into::into), saved])?;
    if let Some(latency) = chains.iter().find_map(Chain::broke) {
        let (latency, limit) = latency.told_apart(args.break_at.unwrap_or_default());
        eprintln!("stopped: {latency}, above {limit}");
        return Ok(exit::EXCEEDED.into());
    }
    Ok(exit::of(run.verdict.as_ref()))
}

/// Runs until all chains are over. Returns their duration.
fn follow(args: &BoxArgs, chains: &[Chain], mut recording: Option<&mut Recording>) -> Ns {
    let mut display = Display::new(args.quiet || args.json);
    loop {
        let running = chains.iter().filter(|chain| chain.is_running()).count();
        if running == 0 {
            break;
        }
        let stop = signals::stop_requested().is_some() || sched::rt_time_exceeded();
        if stop || (args.break_at.is_some() && running < chains.len()) {
            chains.iter().for_each(Chain::end);
        }
        if display.is_due() || signals::take_status_request() {
            display.show(&progress(args, chains));
        }
        recording.iter_mut().for_each(|recording| recording.look());
        std::thread::sleep(if recording.is_some() { record::TURN } else { Duration::from_millis(20) });
    }
    display.finish();
    recording.into_iter().for_each(Recording::look);
    chains.iter().map(Chain::elapsed).max().unwrap_or_default()
}

fn progress(args: &BoxArgs, chains: &[Chain]) -> Progress {
    let row = |chain: &Chain, level: &Level| {
        let histogram = level.histogram();
        let violated = level.violations();
        Row {
            label: format!("CPU {}, {}", chain.options().cpu, level.step()),
            count: histogram.count(),
            min: histogram.min(),
            now: level.last(),
            mean_ns: histogram.mean_ns(),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
            missed: 0,
            culprit: if violated > 0 { format!("{violated} out of order") } else { String::new() },
        }
    };
    Progress {
        phase: "preemptions".to_owned(),
        elapsed: chains.iter().map(Chain::elapsed).max().unwrap_or_default(),
        planned: args.duration,
        remark: Some("order"),
        rows: chains
            .iter()
            .flat_map(|chain| chain.levels().iter().map(move |level| row(chain, level)))
            .collect(),
    }
}

fn peaks(chains: &[Chain], most: usize, recording: Option<&Recording>) -> Vec<Peak> {
    let mut peaks: Vec<(usize, u64, Peak)> = Vec::new();
    let mut number = 0;
    for chain in chains {
        for level in chain.levels() {
            let peak = |one: &lathunt_host::latency_box::preempt::WorstPreemption| Peak {
                quantity: Quantity::Preemption,
                cpu: chain.options().cpu,
                begin: one.released,
                total_ns: one.latency,
                victim: level.thread(),
                culprit: None,
                explanation: None,
                no_evidence: Some(format!("{}, cycle {}: {NO_EVENTS}", level.step(), one.cycle)),
                context: None,
                during_action: false,
                counted_as: None,
            };
            peaks.extend(level.worst().iter().map(|one| (number, u64::from(one.cycle), peak(one))));
            number += 1;
        }
    }
    peaks.sort_by_key(|(.., peak)| (std::cmp::Reverse(peak.total_ns), peak.begin));
    peaks.truncate(most * chains.len());
    for (number, cycle, peak) in &mut peaks {
        recording.iter().for_each(|recording| recording.explain_preemption(*number, *cycle, peak));
    }
    peaks.into_iter().map(|(.., peak)| peak).collect()
}

fn shown(chains: &[Chain]) -> String {
    let mut text = String::new();
    for chain in chains {
        let title = format!("preempt CPU {}, release → running", chain.options().cpu);
        table::head(&mut text, &title);
        let (mut violated, mut lost) = (0, 0);
        for level in chain.levels() {
            table::row(&mut text, &level.step(), &level.histogram());
            violated += level.violations();
            lost += level.counts().lost;
        }
        let cycles = chain.levels()[0].counts().sent;
        let _ = writeln!(
            text,
            "  {}, {} missed; order violated {}; {} without a run",
            counted(cycles, "cycle"),
            chain.missed(),
            counted(violated, "time"),
            counted(lost, "release")
        );
    }
    text
}

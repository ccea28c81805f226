//! `lathunt hwlat`: does hardware, firmware or the host steal time?

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{bail, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::hwlat::{text, Hwlat, FORMAT, VERSION};
use lathunt_core::numbers;
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::time::Ns;
use lathunt_host::facts::counters::grown;
use lathunt_host::instrument::hwlat::{smi_counts, spin, tracer, Options};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{arch, facts, signals, wall};

use super::units;
use crate::file::{target, write_atomic, RUN_FILE};
use crate::live::ticker::Ticker;
use crate::{exit, out, stopped};

/// Detect time taken by hardware, firmware or the hypervisor.
///
/// Uses the hwlat tracer of the kernel, in a private instance, if there is one. Otherwise a loop runs on every CPU, and its
/// gaps are matched with a kernel recording, SMI counts and steal time. Each gap is reported with its cause, or as "cannot
/// tell". Do not run this on a production system: both methods keep CPUs busy for --width of every --window.
#[derive(Debug, clap::Args)]
pub struct HwlatArgs {
    /// Length of the measurement
    #[arg(short = 'D', long, value_name = "TIME", default_value = "120s", value_parser = units::seconds)]
    duration: Ns,
    /// Period of the sampling windows; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = units::microseconds)]
    window: Ns,
    /// Sampling time in each window, shorter than --window; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = units::microseconds)]
    width: Ns,
    /// Shortest gap to report; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = units::microseconds)]
    threshold: Ns,
    /// Exit with status 2 if a gap above this was not caused by the kernel, with 3 if the cause of a gap above this is unknown,
    /// or less than 30 s were watched (-D 60s); bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    hardlimit: Option<Ns>,
    /// CPUs to watch [default: all]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Detector: tracer, spin, both, or auto (the tracer if there is one)
    #[arg(long, value_name = "DETECTOR", default_value = "auto", value_parser = ["auto", "tracer", "spin", "both"])]
    detector: String,
    /// Run the tracer on all CPUs at the same time, as the loop always does, instead of on one CPU after the other
    #[arg(long)]
    per_cpu: bool,
    /// Also print the histogram of the gaps (non-empty buckets)
    #[arg(long)]
    histogram: bool,
    /// Write the gaps as a run to this file, or to run.lathunt.json in this directory, for `lathunt plot`
    #[arg(short = 'o', long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Watches and prints.
///
/// # Errors
/// If the CPUs do not exist, the times make no sense, or the requested detector does not work here.
pub fn run(args: HwlatArgs) -> Result<ExitCode> {
    if args.width >= args.window {
        bail!("cannot watch {} of every {}: --width must be shorter than --window", args.width, args.window);
    }
    let output = args.output.as_deref().map(|path| target(path, RUN_FILE)).transpose()?;
    let topology = Topology::read(Path::new(LIVE))?;
    let cpus = topology.select(args.cpus.as_ref())?;
    let missing = tracer::missing();
    let (with_tracer, with_spin) = match (args.detector.as_str(), &missing) {
        ("spin", _) => (false, true),
        ("auto", Some(_)) => (false, true),
        ("auto", None) => (true, false),
        (_, Some(reason)) => bail!("cannot use the kernel's tracer: {reason}; try --detector spin"),
        (which, None) => (true, which == "both"),
    };
    if args.per_cpu && args.detector == "spin" {
        bail!("--per-cpu belongs to the kernel's tracer: the loop always watches all CPUs at the same time");
    }
    signals::install()?;
    let started = wall::now_rfc3339();
    let options = Options {
        cpus: cpus.clone(),
        duration: args.duration,
        window: args.window,
        width: args.width,
        threshold: args.threshold,
    };
    let before = smi_counts(&cpus);
    let begun = Instant::now();
    let mut found = Vec::new();
    if with_tracer {
        let _shown = Ticker::start("watching with the kernel's tracer", args.duration);
        found.push(tracer::run(&options, args.per_cpu, |_| ())?);
    }
    if with_spin {
        let _shown = Ticker::start("watching with a loop", args.duration);
        let mut spun = spin::run(&options, &topology)?;
        spun.notes.extend(missing.filter(|_| args.detector == "auto"));
        found.push(spun);
    }
    let after = smi_counts(&cpus);
    let early = stopped::by_signal(Ns(begun.elapsed().as_nanos() as u64), &stopped::length(args.duration));
    found.last_mut().into_iter().for_each(|found| found.notes.extend(early.clone()));
    let report = Hwlat {
        format: FORMAT,
        version: VERSION,
        cpus: cpus.to_string(),
        threshold_ns: args.threshold,
        window_ns: args.window,
        width_ns: args.width,
        hypervisor: arch::hypervisor(),
        smi: before.zip(after).and_then(|(before, after)| {
            before.iter().zip(&after).map(|(&before, &after)| grown(Some(before), Some(after))).sum()
        }),
        found,
    };
    let mut told = if args.json { report.to_json() + "\n" } else { text::text(&report) };
    if args.histogram && !args.json {
        told += &histograms(&report);
    }
    // A failure to write the file does not suppress stdout, nor the reverse.
    let run = || {
        let mut run = to_run(&report, &cpus, started);
        early.iter().for_each(|why| run.stopped(why.clone()));
        run.to_json()
    };
    let saved = output.map_or(Ok(()), |file| write_atomic(&file, run().as_bytes()));
    exit::all([out::print(&told).map_err(Into::into), saved])?;
    let judged = args.hardlimit.map_or(ExitCode::SUCCESS, |limit| verdict(&report, limit));
    let left = report.found.iter().flat_map(|found| &found.left).map(ToString::to_string);
    let too_short = args.hardlimit.and_then(|_| report.watched_too_short());
    let doubts: Vec<String> = early.into_iter().chain(left).chain(too_short).collect();
    if judged != ExitCode::SUCCESS || doubts.is_empty() {
        return Ok(judged);
    }
    doubts.iter().for_each(|why| eprintln!("inconclusive: {why}"));
    Ok(exit::INCONCLUSIVE.into())
}

/// Only the worst gaps are judged: if more are above the limit, the cause of the others is unknown.
fn verdict(report: &Hwlat, limit: Ns) -> ExitCode {
    if report.worst_surely_not_software().is_some_and(|worst| worst > limit) {
        return exit::EXCEEDED.into();
    }
    if let Some(worst) = report.worst_not_software().filter(|&worst| worst > limit) {
        let (worst, limit) = worst.told_apart(limit);
        eprintln!("lathunt: inconclusive: the source of {worst}, more than {limit}, cannot be identified");
        return exit::INCONCLUSIVE.into();
    }
    match report.not_judged_above(limit) {
        0 => ExitCode::SUCCESS,
        others => {
            let others = numbers::more(others, "gap");
            eprintln!(
                "lathunt: inconclusive: only the worst gaps are judged, and there are {others} above {limit}; keep software off these CPUs \
                 (isolate), or raise --threshold"
            );
            exit::INCONCLUSIVE.into()
        }
    }
}

/// The gaps as a run; with two detectors, those of the first, the kernel's.
fn to_run(report: &Hwlat, cpus: &CpuSet, started: Option<String>) -> Run {
    let mut conditions = facts::gather(Path::new(LIVE), cpus);
    conditions.started = started;
    conditions.command = Some(crate::conditions::command_line());
    let mut run = Run::new(conditions);
    for found in &report.found {
        run.conditions.notes.extend(found.notes.iter().cloned());
        run.conditions.during.left_cpu.extend(found.left.iter().cloned());
        for (cpu, gaps) in &found.histograms {
            let same = run.series.iter_mut().find(|series| series.cpu == Some(*cpu));
            if same.is_none_or(|series| series.histogram.merge(gaps).is_err()) {
                run.series.push(Series::new(Quantity::Hardware, Some(*cpu), gaps.clone()));
            }
        }
    }
    let worst = report.found.iter().flat_map(|found| &found.worst);
    run.peaks.extend(worst.map(|gap| Peak {
        quantity: Quantity::Hardware,
        cpu: gap.cpu,
        begin: gap.at,
        total_ns: gap.gap_ns,
        victim: Default::default(),
        culprit: gap.judgement.culprit(gap.gap_ns).map(str::to_owned),
        explanation: None,
        no_evidence: Some(format!(
            "{}: {}",
            gap.judgement.told(gap.gap_ns),
            gap.judgement.reasons.join("; ")
        )),
        context: None,
        during_action: false,
        counted_as: None,
    }));
    run.peaks.sort_by_key(|peak| std::cmp::Reverse(peak.total_ns));
    run
}

fn histograms(report: &Hwlat) -> String {
    let mut text = String::new();
    for found in &report.found {
        for (cpu, histogram) in &found.histograms {
            let _ = writeln!(text, "\nGaps on CPU {cpu}, {}", found.detector); // writing to a String cannot fail
            for (low, high, count) in histogram.occupied() {
                let _ = writeln!(text, "  {:>12.3} to {:>12.3} µs {count:>12}", low.as_us(), high.as_us());
            }
        }
    }
    text
}

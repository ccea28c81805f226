//! `lathunt isolate verify`: what still interrupts the isolated CPUs.
//!
//! The instruments run there as separate processes (this binary again), so that no other thread of this process does.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{bail, Context, Result};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::isolate::interrupts::{self, Line};
use lathunt_core::isolate::verify::{Gap, Latency, Verdict, Watched};
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::isolate::tenant::IsolatedProgram;
use lathunt_host::isolate::{survey, Isolation};
use lathunt_host::load::{Load, LoadSpec};
use lathunt_host::topology::Topology;
use lathunt_host::tree::{Tree, LIVE};
use lathunt_host::{facts, knob, signals};

use super::{show, start, Optional, NONE_YET};
use crate::cmd::units::seconds;
use crate::{exit, out};

/// How long and under which load.
#[derive(Debug, clap::Args)]
pub struct How {
    /// Time to watch; `cyclic` also runs for half of it before (without -c: on other CPUs) and after
    #[arg(short = 'D', long, value_name = "TIME", default_value = "60s", value_parser = seconds)]
    duration: Ns,
    /// Load on the other CPUs: auto (stress-ng if installed), builtin, none, or a command
    #[arg(long, value_name = "LOAD", default_value = "auto")]
    load: LoadSpec,
    /// Shortest gap of the spinning loop that counts; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = crate::cmd::units::microseconds)]
    threshold: Ns,
}

pub(super) fn run(what: &Optional, how: &How) -> Result<ExitCode> {
    signals::install()?;
    let common = &what.more.common;
    let stays = knob::left(&common.directory_in_use()).is_ok_and(|left| left.kept && !left.booted_since);
    if what.cpus.is_none() && !stays {
        bail!(NONE_YET);
    }
    let half = Ns((how.duration.0 / 2).max(1_000_000_000));
    let mut load =
        Load::start(&how.load, Duration::from_nanos(how.duration.0 * 2) + Duration::from_secs(30))?;
    let mut watched = Watched { load: load.describe(), ..Watched::default() };
    if let Some(cpus) = &what.cpus {
        talk(common.quiet, "cyclic before");
        watched.before = latency(cpus, None, half, &mut watched.notes, &mut |_| Ok(()))?;
    }
    let mut isolation = match &what.cpus {
        None => Isolation::resume(&common.directory_in_use())?,
        Some(cpus) => start(&what.more.request(cpus.clone()), common, false)?,
    };
    let mut done = watch(&mut isolation, how, half, common.quiet, &mut watched);
    if done.is_ok() && what.cpus.is_none() {
        talk(common.quiet, "cyclic on other CPUs, to compare");
        done = beside(&mut isolation, half, &mut watched);
    }
    let restored = match stays {
        true => isolation.keep().map(|()| Vec::new()),
        false => isolation.restore(),
    };
    let ended = load.stop();
    done?;
    if let Some(early) = ended?.early {
        watched.notes.push(format!("the load ended early: {early}"));
    }
    let restored = restored?;
    if show::failed(&restored) > 0 {
        eprint!("{}", show::restored(&restored, common.quiet));
    }
    let text = match common.json {
        true => json(&watched)?,
        false => watched.text(),
    };
    out::print(&text)?;
    Ok(match watched.verdict() {
        Verdict::Isolated => ExitCode::SUCCESS,
        Verdict::NotIsolated => exit::EXCEEDED.into(),
        Verdict::Inconclusive => exit::INCONCLUSIVE.into(),
    })
}

/// CPUs that were already isolated cannot be measured in their former state: the same number of other CPUs are
/// measured instead.
fn beside(isolation: &mut Isolation, half: Ns, watched: &mut Watched) -> Result<()> {
    let count = isolation.plan.cpus.len();
    let others: CpuSet = isolation.plan.housekeeping.iter().take(count).collect();
    watched.beside = latency(&others, None, half, &mut watched.notes, &mut |_| Ok(()))?;
    Ok(())
}

fn talk(quiet: bool, phase: &str) {
    if !quiet {
        eprintln!("{phase} …");
    }
}

fn json(watched: &Watched) -> Result<String> {
    let value = serde_json::json!({
        "format": "lathunt-isolation",
        "version": 1,
        "movable_interrupts": watched.movable(),
        "verdict": watched.verdict(),
        "holds": watched.verdict() == Verdict::Isolated,
        "findings": watched.findings(),
        "watched": watched,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

/// Records interruptions while the loop spins, then runs cyclic.
fn watch(isolation: &mut Isolation, how: &How, half: Ns, quiet: bool, watched: &mut Watched) -> Result<()> {
    let topology = Topology::read(std::path::Path::new(LIVE))?;
    let (cpus, cgroup) = (isolation.plan.cpus.clone(), isolation.cgroup());
    watched.cpus = cpus.clone();
    watched.nohz_full = topology.nohz_full.clone();
    watched.rcu_nocbs = !isolation.plan.boot.iter().any(|word| word.starts_with("rcu_nocbs="));
    (watched.managed, watched.moving) = isolation.interrupts()?;
    talk(quiet, "watching");
    let (begin, before) = (Instant::now(), counts()?);
    // 90 of 100 ms, so that bound work (and throttling, at 95 %) does not fall into the gaps.
    let arguments =
        ["hwlat", "--detector", "spin", "--window", "100ms", "--width", "90ms", "--json", "--threshold"];
    let mut arguments: Vec<String> = arguments.map(str::to_owned).into();
    arguments.extend([format!("{}ns", how.threshold.0), "-D".into(), format!("{}ns", how.duration.0)]);
    let mut foreign = Vec::new();
    let said = instrument(&arguments, &cpus, cgroup.as_deref(), &mut |pid| {
        let known = isolation.drifted.len();
        let moved = isolation.turn(&[pid])?;
        foreign.extend(moved.named.iter().map(|thread| format!("{thread}: moved")));
        foreign.extend(isolation.drifted.iter().skip(known).cloned());
        Ok(())
    });
    watched.came = interrupts::between(&before, &counts()?);
    watched.seconds = begin.elapsed().as_secs_f64();
    watched.cut_short = signals::stop_requested().is_some();
    watched.foreign = foreign;
    match said.and_then(|said| gaps(&said, &mut watched.notes)) {
        Ok((gaps, threads)) => {
            watched.gaps = Some(gaps);
            watched.foreign.extend(programs(threads)?);
        }
        Err(error) => watched.notes.push(format!("the spinning loop could not run: {error:#}")),
    }
    talk(quiet, "cyclic isolated");
    watched.after = latency(&cpus, cgroup.as_deref(), half, &mut watched.notes, &mut |pid| {
        isolation.turn(&[pid]).map(|_| ())
    })?;
    Ok(())
}

fn counts() -> Result<Vec<Line>> {
    let read = |path: &str| std::fs::read_to_string(path).with_context(|| format!("cannot read {path}"));
    Ok(interrupts::parse(&read("/proc/interrupts")?, &read("/proc/softirqs")?))
}

/// Runs this binary on `cpus` and returns its output; `each` is called twice a second with its process id.
fn instrument(
    arguments: &[String],
    cpus: &CpuSet,
    cgroup: Option<&std::path::Path>,
    each: &mut dyn FnMut(i32) -> lathunt_host::error::Result<()>,
) -> Result<String> {
    let own = std::env::current_exe().context("cannot find the program file of lathunt")?;
    let mut command = vec![own.into_os_string()];
    command.extend(arguments.iter().map(OsString::from));
    command.extend(["-c".into(), cpus.to_string().into()]);
    let mut tenant = IsolatedProgram::start_heard(&command, cpus, cgroup)?;
    let (mut scanned, mut asked) = (Instant::now(), false);
    loop {
        if let Some(status) = tenant.ended()? {
            // 2 and 3 are its verdicts.
            if !matches!(status.code(), Some(0 | 2 | 3)) {
                bail!("`lathunt {}` ended with {status}", arguments.join(" "));
            }
            return Ok(tenant.said()?);
        }
        if let (Some(signal), false) = (signals::stop_requested(), asked) {
            tenant.pass_on(signal);
            asked = true;
        }
        if scanned.elapsed() > Duration::from_millis(500) && !asked {
            each(tenant.pid())?;
            scanned = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn latency(
    cpus: &CpuSet,
    cgroup: Option<&std::path::Path>,
    duration: Ns,
    notes: &mut Vec<String>,
    each: &mut dyn FnMut(i32) -> lathunt_host::error::Result<()>,
) -> Result<Option<Latency>> {
    if signals::stop_requested().is_some() {
        return Ok(None);
    }
    let arguments = ["cyclic", "--json", "-q", "-D"].map(str::to_owned).into_iter();
    let arguments: Vec<String> = arguments.chain([format!("{}ns", duration.0)]).collect();
    let (begin, before) =
        (Instant::now(), [facts::counters::steal, facts::counters::idle].map(|of| time(of, cpus)));
    let run = Run::from_json(&instrument(&arguments, cpus, cgroup, each)?)?;
    let wall = begin.elapsed().as_nanos() as f64 * cpus.len() as f64;
    let after = [facts::counters::steal, facts::counters::idle].map(|of| time(of, cpus));
    let [stolen_ns, idle] = std::array::from_fn(|i| Some(Ns(after[i]?.0.saturating_sub(before[i]?.0))));
    let idle = idle.map(|idle| (idle.0 as f64 / wall).min(1.0));
    notes.extend(
        run.conditions.notes.iter().filter(|note| !notes.contains(note)).cloned().collect::<Vec<_>>(),
    );
    let mut all = None;
    for series in run.of(Quantity::Cyclic) {
        match &mut all {
            None => all = Some(series.histogram.clone()),
            Some(sum) => sum.merge(&series.histogram).context("cannot merge the series of the CPUs")?,
        }
    }
    Ok(all.and_then(|sum| {
        let at = |share: f64| sum.quantile(share);
        let (samples, max_ns) = (sum.count(), sum.max()?);
        Some(Latency { samples, median_ns: at(0.5)?, p999_ns: at(0.999)?, max_ns, stolen_ns, idle })
    }))
}

/// The sum over `cpus` of one of the kernel's times since boot.
fn time(of: fn(&Tree) -> Option<BTreeMap<Cpu, Ns>>, cpus: &CpuSet) -> Option<Ns> {
    let all = of(&Tree::new(std::path::Path::new(LIVE)))?;
    Some(Ns(all.iter().filter(|(cpu, _)| cpus.contains(**cpu)).map(|(_, time)| time.0).sum()))
}

/// The gaps in the output of `hwlat --json`.
/// Of threads that ran on an isolated CPU, those of programs other than the loop, once each: per-CPU kernel threads cannot be
/// kept away. A thread that has ended was a program's: those of the kernel stay.
fn programs(threads: Vec<Thread>) -> Result<BTreeSet<String>> {
    let survey = survey::read(std::path::Path::new(LIVE))?;
    let own = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    let is_foreign = |thread: &Thread| {
        let known = survey.threads.iter().find(|one| one.tid == thread.tid.0);
        let of_kernel = known.map_or(thread.comm.starts_with("kworker/"), |known| known.kernel);
        !of_kernel && thread.comm != own.trim_end()
    };
    Ok(threads.into_iter().filter(is_foreign).map(|thread| format!("{thread}: it ran there")).collect())
}

/// The worst gaps, and the threads that ran in them.
fn gaps(said: &str, notes: &mut Vec<String>) -> Result<(Vec<Gap>, Vec<Thread>)> {
    let value: serde_json::Value = serde_json::from_str(said).context("its report is not JSON")?;
    let found = &value["found"][0];
    let list = |value: &serde_json::Value| value.as_array().cloned().unwrap_or_default();
    notes.extend(list(&found["notes"]).iter().map(|note| note.as_str().unwrap_or_default().to_owned()));
    let mut threads = Vec::new();
    let mut gap = |one: serde_json::Value| {
        let one: lathunt_core::hwlat::Gap = serde_json::from_value(one).context("a gap of its report")?;
        threads.extend(one.threads);
        Ok(Gap {
            cpu: one.cpu,
            gap_ns: one.gap_ns,
            cause: one.judgement.told(one.gap_ns),
            reasons: one.judgement.reasons.join("; "),
        })
    };
    let gaps = list(&found["worst"]).into_iter().map(&mut gap).collect::<Result<_>>()?;
    Ok((gaps, threads))
}

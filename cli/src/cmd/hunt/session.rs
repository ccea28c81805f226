//! The main command: facts → calibration → measurement under load, recorded → explanations → verdict → files.
//!
//! Missing prerequisites (root, BPF, a load generator) narrow the result and are named; only the impossibility to measure
//! is an error. The output directory is created first, so that an unwritable disk is reported before the measurement and
//! not after it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::judge::{self, Rules};
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::stats::claim::Claim;
use lathunt_core::time::Ns;
use lathunt_host::load::{Load, LoadSpec};
use lathunt_host::privileges::{self, Capability};
use lathunt_host::recorder::{self, Recorder};
use lathunt_host::sched::{self, Policy};
use lathunt_host::symbols::Symbols;
use lathunt_host::topology::Topology;
use lathunt_host::{knob, signals};

use super::measure::{self, Recording, Setting, SoFar};
use super::{calibrate, finish, idle, late};
use crate::live::Display;
use crate::on_late::{OnLate, Wanted};
use crate::outdir::Output;
use crate::start_at::StartAt;
use crate::stopped;
use crate::strict::Strict;
use crate::until::{self, Until};

/// Options of the command.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Maximum length; `None`: as long as `until` takes, or a minute.
    pub duration: Option<Ns>,
    /// Claim to prove.
    pub until: Option<Claim>,
    /// CPUs; `None`: all online CPUs.
    pub cpus: Option<CpuSet>,
    /// Priority of the measuring threads.
    pub priority: i32,
    /// Period of the threads.
    pub interval: Ns,
    /// Latency that must not be exceeded.
    pub deadline: Option<Ns>,
    /// Further conditions of a PASS.
    pub strict: Strict,
    /// The first latency above this ends the measurement.
    pub stop_at: Option<Ns>,
    /// Limits of idle states.
    pub idle: idle::Wanted,
    /// Start time; `None`: when ready.
    pub start_at: Option<StartAt>,
    /// Actions on late cases.
    pub on_late: Wanted,
    /// `auto`, `none`, or a command.
    pub load: String,
    /// Worst cases kept per CPU.
    pub peaks: usize,
    /// Output directory.
    pub output: Option<PathBuf>,
    /// Print the run file on stdout.
    pub json: bool,
    /// Print only the verdict.
    pub quiet: bool,
}

impl Plan {
    /// `None`: as long as the claim takes.
    fn length(&self) -> Option<Ns> {
        self.duration.or(self.until.is_none().then_some(MINUTE))
    }
}

const MINUTE: Ns = Ns(60 * 1_000_000_000);

/// Root of the file system whose /proc and /sys are read.
const ROOT: &str = "/";

/// Runs the main command.
///
/// # Errors
/// If nothing could be measured, or the result could not be written.
pub fn run(plan: &Plan) -> anyhow::Result<ExitCode> {
    signals::install()?;
    signals::watch_continued()?;
    let mut display = Display::new(plan.quiet);
    for restored in knob::recover(&knob::default_directory())? {
        display.say(&format!("restored after a killed lathunt: {restored}"));
    }
    let topology = Topology::read(Path::new(ROOT))?;
    let cpus = topology.select(plan.cpus.as_ref())?;
    let until = match plan.until {
        Some(claim) => Some(Until::at(claim, plan.interval, cpus.iter().count())?),
        None => None,
    };
    plan.start_at.map_or(Ok(()), StartAt::check)?;
    let mut conditions = conditions(&cpus, plan);
    let mut rounds = idle::Rounds::new(plan.idle, plan.length(), &cpus)?;
    let mut on_late = OnLate::start(&plan.on_late, plan.deadline, &cpus)?;
    let output = Output::create(plan.output.as_deref(), conditions.started.as_deref())?;
    conditions.notes.extend(rounds.as_ref().map(idle::Rounds::note));
    let limit = idle::Limit::set(plan.idle, &cpus, &mut conditions)?;
    let mut recording = start_recorder(&topology.online, &mut display);
    still_wanted()?;
    let setting = setting(plan, &cpus, &mut conditions, &mut display);
    let calibration = match setting.policy.is_realtime() {
        true => calibrate::calibrate(&setting, &mut recording, &mut display),
        false => {
            display.say("not calibrated: a known disturbance needs real-time priority");
            Vec::new()
        }
    };
    still_wanted()?;
    let setting = Setting { until, peak_floor: calibrate::peak_floor(&calibration), ..setting };

    let mut load = start_load(plan, &mut display)?;
    conditions.load = Some(load.describe());
    let before = crate::conditions::before_measuring(&cpus);
    give_up_rights(&output)?;
    let begin = match plan.start_at {
        Some(start) => match start.wait()? {
            Some(begin) => Some(begin),
            None => anyhow::bail!("--start-at {start}: stopped by a signal before that time"),
        },
        None => None,
    };
    let setting = Setting { begin: begin.as_ref().map(|begin| begin.mono), ..setting };
    still_wanted()?;
    conditions.common_start = begin.map(|begin| begin.common);
    let base = Run { calibration: calibration.clone(), ..Run::new(conditions) };
    let mut actions = late::Actions::new(&mut on_late, &mut rounds, &output);
    let measured = measure::measure(&setting, &mut recording, &mut display, &mut actions, |so_far| {
        load.look();
        output.save(&partial(&base, so_far, plan));
    })?;
    let mut during = before.during(Path::new(ROOT), &cpus);
    during.load_ended_early = load.ended_early();
    let load_left = match load.stop() {
        Ok(ended) => {
            during.load_cpu_ns = ended.cpu;
            None
        }
        Err(error) => Some(error.to_string()),
    };
    during.load_over_time = load.over_time(measured.begun, measured.begun + measured.duration);
    during.left_cpu.clone_from(&measured.left);
    during.ended_early.clone_from(&measured.failures);
    drop(recording);
    limit.restore()?;
    display.finish();

    let mut run = base;
    run.conditions.during = during;
    run.conditions.duration_s = Some(measured.duration.as_secs());
    run.conditions.notes.extend(load_left);
    run.idle = rounds.map(|rounds| rounds.finish(&setting.cpus));
    let took = measured.duration;
    let stopped_at = measured.stopped_at.clone();
    let (is_stopped, flight) = (measured.is_stopped, finish::fill(&mut run, measured));
    match until {
        Some(until) => until.conclude_instrument(&mut run, Quantity::Cyclic, plan.deadline, took),
        None if is_stopped => stopped::mark(&mut run, took, plan.length()),
        None => {}
    }
    run.conditions.notes.extend(stopped_at.clone());
    on_late.into_iter().for_each(|on_late| on_late.finish(&mut run));
    let code = finish::finish(plan, run, &flight, &output)?;
    Ok(match stopped_at {
        Some(why) => {
            eprintln!("{why}");
            crate::exit::EXCEEDED.into()
        }
        None => code,
    })
}

/// Before the measurement a signal ends the command: a run without a sample would only tell of what was not done.
fn still_wanted() -> anyhow::Result<()> {
    match signals::stop_requested() {
        None => Ok(()),
        Some(signal) => anyhow::bail!(
            "stopped by {} before the measurement began: nothing was measured",
            signals::name(signal)
        ),
    }
}

fn conditions(cpus: &CpuSet, plan: &Plan) -> Conditions {
    let mut conditions = crate::conditions::of_this_run(cpus);
    conditions.machine.cpus_measured = Some(cpus.to_string());
    conditions.duration_s = plan.length().map(Ns::as_secs);
    conditions
}

fn start_recorder(online: &CpuSet, display: &mut Display) -> Recording {
    match Recorder::start(&recorder::Options::on(online.clone())) {
        Ok(recorder) => {
            let symbols = Symbols::read().unwrap_or_else(|error| {
                display.say(&format!("{error}\n  it costs: kernel stacks show addresses instead of names"));
                Symbols::none()
            });
            Recording::On(Box::new(recorder), symbols.with_code())
        }
        Err(error) => {
            let reason = format!("no kernel recorder: {error}");
            display.say(&format!("{reason}\n  it costs: worst cases are measured but not explained"));
            Recording::Off(reason)
        }
    }
}

/// Real-time priority and locked memory if allowed; otherwise measures without and says so.
fn setting(plan: &Plan, cpus: &CpuSet, conditions: &mut Conditions, display: &mut Display) -> Setting {
    let mut policy = Policy::Fifo;
    if let Err(error) = sched::may_be_realtime(plan.priority) {
        let note = format!("measuring without real-time priority: {error}");
        display.say(&format!(
            "{note}\n  it costs: the latencies are those of an ordinary task, not of a real-time one"
        ));
        conditions.notes.push(note);
        policy = Policy::Other;
    }
    let lock_memory = match sched::lock_memory() {
        Ok(()) => true,
        Err(error) => {
            let note = format!("measuring without locked memory: {error}");
            display.say(&format!(
                "{note}\n  it costs: page faults of the instrument itself may appear as latency"
            ));
            conditions.notes.push(note);
            false
        }
    };
    Setting {
        cpus: cpus.iter().collect(),
        policy,
        priority: plan.priority,
        interval: plan.interval,
        begin: None,
        stop_at: plan.stop_at,
        duration: plan.length(),
        deadline: plan.deadline,
        until: None,
        peaks: plan.peaks,
        peak_floor: Ns::ZERO,
        preemption: conditions.kernel.preemption_model(),
        lock_memory,
    }
}

fn start_load(plan: &Plan, display: &mut Display) -> anyhow::Result<Load> {
    let Ok(spec) = plan.load.parse::<LoadSpec>();
    let wait = plan.start_at.and_then(StartAt::left).unwrap_or_default();
    let length = plan.length().unwrap_or(until::LONGEST);
    let load = Load::start(&spec, Duration::from_nanos(wait.0.saturating_add(length.0)))?;
    display.say(&format!("load: {}", load.describe()));
    Ok(load)
}

/// Everything is attached and the load runs: of root's rights, only those are kept that the measuring threads and the rest
/// need.
fn give_up_rights(output: &Output) -> anyhow::Result<()> {
    let mut kept = vec![Capability::Bpf, Capability::Perfmon, Capability::Syslog];
    kept.extend([Capability::SysNice, Capability::IpcLock]);
    kept.extend(output.needs());
    Ok(privileges::keep(&kept)?)
}

/// The run so far: the file that a killed hunt leaves. Deadlines exceeded so far count.
fn partial(base: &Run, so_far: SoFar, plan: &Plan) -> Run {
    let SoFar { series, peaks, on_late, .. } = so_far;
    let mut run = Run { complete: false, series, peaks, on_late, ..base.clone() };
    run.conditions.duration_s = Some(so_far.elapsed.as_secs());
    run.verdict = Some(plan.strict.judge(judge::judge(&run, plan.deadline, &Rules::hunt())));
    run
}

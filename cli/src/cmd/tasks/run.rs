//! `lathunt tasks run`: runs the set on this machine.

mod log;
mod places;
mod stretch;
mod watch;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Context, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::report::task_set::table;
use lathunt_core::run::Run;
use lathunt_core::tasks::outcome::{self, Executed, Plan};
use lathunt_core::tasks::program::{Program, Rule, Scheduler};
use lathunt_core::tasks::set::TaskSet;
use lathunt_core::tasks::throttling;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::facts::counters::Counters;
use lathunt_host::tasks::{execute, Options, Preemption, Speeds};
use lathunt_host::tree::LIVE;
use lathunt_host::{pingpong, sched, signals, wall};

use super::super::units::seconds;
use super::{read, warn};
use crate::outdir::Output;
use crate::own::Kind;
use crate::{exit, file, out, stopped};
use log::Logs;
use places::Places;
use watch::Display;

/// Run a task set: one thread per task instance, with rt-app's semantics of every event.
///
/// The response time of a job counts from its nominal release, however late its thread was woken. A job still running at the
/// end of the run counts with the time it has taken so far, a job released but not started with its delay. The deadline of a
/// job is "deadline" or "dl-deadline", else "period" or "dl-period", else the period of its timer.
///
/// By default, each thread has the policy given in the file. --scheduler sets one policy for all threads: fifo and rr use the
/// priorities of the file, or deadline-monotonic ones if a thread has none; deadline uses dl-runtime, dl-deadline and
/// dl-period, or derives them from work and period, with a budget of 2 % and 100 µs above the work for wake-ups and locks,
/// which it also pays for (a budget that was used up is reported). fiber-fp and fiber-edf schedule in user space: all threads are fibers of
/// one kernel thread, on one CPU, with SCHED_FIFO 90 if permitted, else SCHED_OTHER. The result reports the time away, in which
/// the kernel ran something else than the fibers.
///
/// On a machine with two or more CPUs, one CPU is left free. Ctrl-C ends the run and prints its summary. A run without a length
/// also ends if all remaining threads wait for each other.
///
/// Exit status: 0 no deadline was missed in enough jobs to claim that, or no task has a deadline; 1 error; 2 a deadline was
/// missed; 3 inconclusive: none was missed, but there were too few jobs, priorities were ordinary, or the run ended early.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Task set in rt-app's JSON; - is stdin
    #[arg(value_name = "SET.json")]
    set: PathBuf,
    /// Scheduler of all threads [default: the policy of each thread in the file]
    #[arg(short = 's', long, value_enum, value_name = "NAME")]
    scheduler: Option<Chosen>,
    #[command(flatten)]
    common: Common,
    /// Directory for a log of each thread in the columns of rt-app, one line per job
    #[arg(long, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Interruption of a running fiber; with fiber-fp and fiber-edf
    #[arg(long, value_enum, value_name = "METHOD", default_value = "measured")]
    preemption: Interrupt,
    /// Write the events of the fiber scheduler up to the first late job, for `lathunt explain FILE --between event:job_release
    /// event:job_done --pair job`; with fiber-fp and fiber-edf
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Print the run as JSON instead of the table
    #[arg(long)]
    json: bool,
}

/// Options that `compare` has as well.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Common {
    /// Length of the run: 10s, 5m [default: "duration" of the file, else until the tasks end or Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    pub duration: Option<Ns>,
    /// CPUs of threads without CPUs in the file [default: all that this process may use, minus one]
    #[arg(short, long, value_name = "LIST")]
    pub cpus: Option<CpuSet>,
    /// Directory for run.lathunt.json and report.html [default: none]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Print only the result, no progress
    #[arg(short, long)]
    pub quiet: bool,
}

/// How a running fiber is interrupted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Interrupt {
    /// The better of the two, measured at the start
    #[default]
    Measured,
    /// A POSIX timer, which a PREEMPT_RT kernel expires in a thread
    Timer,
    /// A helper thread that sleeps and sends the signal
    Helper,
}

impl Interrupt {
    fn preemption(self) -> Preemption {
        match self {
            Interrupt::Measured => Preemption::Measure,
            Interrupt::Timer => Preemption::Timer,
            Interrupt::Helper => Preemption::Helper,
        }
    }
}

/// Schedulers that can be chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Chosen {
    /// SCHED_FIFO for all threads
    Fifo,
    /// SCHED_RR for all threads
    Rr,
    /// SCHED_DEADLINE for all threads: earliest deadline first, each with a budget
    Deadline,
    /// SCHED_OTHER for all threads
    Other,
    /// Fixed priorities in user space: all threads are fibers of one kernel thread; needs no privileges
    FiberFp,
    /// Earliest deadline first in user space, the same way
    FiberEdf,
}

impl Chosen {
    pub(super) fn scheduler(self) -> Scheduler {
        match self {
            Chosen::Fifo => Scheduler::Fifo,
            Chosen::Rr => Scheduler::RoundRobin,
            Chosen::Deadline => Scheduler::Deadline,
            Chosen::Other => Scheduler::Other,
            Chosen::FiberFp => Scheduler::FiberFixed,
            Chosen::FiberEdf => Scheduler::FiberEdf,
        }
    }
}

/// Why a worst job has no explanation, and how to get one.
const NO_EVIDENCE: &str =
    "tasks run records no kernel events; 'lathunt record -- lathunt tasks run SET.json' explains late jobs";
const NO_FIBER_EVIDENCE: &str =
    "the kernel does not see fibers; 'lathunt tasks run --trace FILE' records them for 'lathunt explain'";
/// Maximum number of fiber events kept by --trace: seconds of a busy set, 10 MB.
const FIBER_EVENTS: usize = 1 << 18;
/// How long a real-time thread may run without sleeping, if a CPU is free, and if none is.
const RUNAWAY: [Ns; 2] = [Ns::from_ms(30_000), Ns::from_ms(5_000)];

/// Runs and prints.
///
/// # Errors
/// If the set cannot be read or run, or the result cannot be written.
pub fn run(args: &RunArgs) -> Result<ExitCode> {
    let set = read(&args.set)?;
    warn(&set.warnings);
    let scheduler = args.scheduler.map_or(Scheduler::File, Chosen::scheduler);
    signals::install()?;
    let started = wall::now_rfc3339();
    let common = &args.common;
    let output = common.output.as_deref().map(|path| Output::create(Some(path), started.as_deref()));
    let output = output.transpose()?;
    let log = args.log.as_deref();
    if args.preemption != Interrupt::Measured && !scheduler.is_fibers() {
        bail!("--preemption applies only to fibers: select --scheduler fiber-fp or fiber-edf");
    }
    if args.trace.is_some() && !scheduler.is_fibers() {
        bail!(
            "cannot record threads of the kernel by --trace: it is for --scheduler fiber-fp and fiber-edf; \
             'lathunt record -- lathunt tasks run SET.json' explains late jobs of the others"
        );
    }
    let fibers = |path: &Path| file::target_like(path, "fibers.txt", &Kind::fibers());
    let trace = args.trace.as_deref().map(fibers).transpose()?;
    let mut save = |run: &Run| output.iter().for_each(|output| output.save(run));
    let save = output.is_some().then_some(&mut save as &mut dyn FnMut(&Run));
    let preemption = args.preemption;
    let sinks = Sinks { log, trace: trace.as_deref(), silent: args.json, preemption, save };
    let Measured { run: measured, files } = measure(&set, scheduler, common, sinks)?;
    let saved = output.as_ref().map_or(Ok(()), |output| output.write(&measured, &[]));
    let text = match (args.json, common.quiet) {
        (true, _) => measured.to_json() + "\n",
        (false, true) => summary(&measured),
        (false, false) => table(&measured),
    };
    exit::all(files.into_iter().chain([out::print(&text).map_err(Into::into), saved]))?;
    Ok(measured.verdict.as_ref().map_or(ExitCode::SUCCESS, exit::told))
}

/// The last line of the table.
pub(super) fn summary(run: &Run) -> String {
    table(run).lines().last().map(|line| format!("{line}\n")).unwrap_or_default()
}

/// Further outputs of a run, and how it is observed.
#[derive(Default)]
pub(super) struct Sinks<'a> {
    /// Directory of the logs, one per thread.
    pub log: Option<&'a Path>,
    /// File for fiber events.
    pub trace: Option<&'a Path>,
    /// Show no progress.
    pub silent: bool,
    /// Receives the run so far, every second at first and every ten seconds later.
    pub save: Option<&'a mut dyn FnMut(&Run)>,
    /// How fibers are interrupted.
    pub preemption: Interrupt,
}

/// A run, and whether the sinks could be written.
pub(super) struct Measured {
    /// Complete, even if they could not.
    pub run: Run,
    /// Of the trace and of the logs.
    pub files: [Result<()>; 2],
}

/// Runs the set under `scheduler`.
///
/// # Errors
/// If it cannot be run.
pub(super) fn measure(
    set: &TaskSet,
    scheduler: Scheduler,
    common: &Common,
    sinks: Sinks,
) -> Result<Measured> {
    let places = Places::of(set, common.cpus.as_ref())?;
    let (program, warnings) =
        Program::new(set, scheduler, &places.within).context("cannot run the task set")?;
    warn(&warnings);
    let mut notes: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    let reserved = |rule: Rule| matches!(rule, Rule::Deadline { .. });
    let places = places.for_reservations(program.threads.iter().any(|thread| reserved(thread.rule)))?;
    let (places, fiber_priority) = match scheduler.is_fibers() {
        true => {
            let cpu = program.common_cpu(&places.default).context("cannot run the task set")?;
            (places.for_fibers(cpu)?, carrier_priority())
        }
        false => (places, None),
    };
    let fair = program.threads.iter().all(|thread| matches!(thread.rule, Rule::Fair(..)));
    let realtime = if scheduler.is_fibers() { fiber_priority.is_some() } else { !fair };
    if let Some(text) = places.crowded(realtime) {
        eprintln!("warning: {text}");
        notes.push(text);
    }
    let mut conditions = conditions(&places.used);
    let carried = fiber_priority.is_some();
    if let Some(text) = throttling::warning(&program, &places.default, carried, &conditions.knobs) {
        eprintln!("warning: {text}");
        notes.push(text);
    }
    let speeds = Speeds::measure(&places.used, program.calibration_cpu, program.ns_per_loop)
        .context("cannot calibrate the event run")?;
    let duration = common.duration.or(program.duration);
    let options = Options {
        cpus: places.default.clone(),
        housekeeping: places.housekeeping.clone(),
        duration,
        speeds,
        switch: places.used.iter().next().and_then(switch),
        runaway: RUNAWAY[usize::from(places.is_crowded())],
        jobs: true,
        save: sinks.save.is_some(),
        fiber_priority,
        fiber_preemption: sinks.preemption.preemption(),
        fiber_events: if sinks.trace.is_some() { FIBER_EVENTS } else { 0 },
    };
    let before = Counters::read(Path::new(LIVE), &places.used);
    let logs = sinks.log.map(|log| Logs::create(log, &program)).transpose()?;
    let plan = Plan {
        set,
        program: &program,
        scheduler,
        cpus: &places.default,
        warnings: notes,
        stopped: None,
        no_evidence: if scheduler.is_fibers() { NO_FIBER_EVIDENCE } else { NO_EVIDENCE },
    };
    let mut keep = sinks.save.map(|save| {
        let (plan, conditions) = (&plan, &conditions);
        move |executed: &Executed| save(&outcome::to_run(plan, executed, conditions.clone()))
    });
    let keep = keep.as_mut().map(|keep| keep as &mut dyn FnMut(&Executed));
    let mut display = Display::new(duration, common.quiet || sinks.silent, logs, keep);
    let executed = execute(&program, &options, &mut display);
    display.finish();
    let (mut executed, early) = executed.context("cannot run the task set")?;
    executed.stretch = display.stretch.finish();
    let traced = sinks.trace.zip(executed.fiber_trace.take());
    let traced = traced.map(|(path, recorded)| file::write_atomic(path, recorded.to_text().as_bytes()));
    let logged = display.logs.map(Logs::finish);
    if let Some(Err(error)) = &logged {
        conditions.notes.push(exit::one_line(error));
    }
    let files = [traced, logged].map(|written| written.unwrap_or(Ok(())));
    conditions.during = before.during(Path::new(LIVE), &places.used);
    conditions.during.ended_early.extend(early);
    let took = executed.end.since(executed.begin);
    let by_signal = |planned| stopped::by_signal(took, &stopped::length(planned));
    let stopped = duration.filter(|&planned| took < planned).and_then(by_signal);
    let plan = Plan { stopped, ..plan };
    Ok(Measured { run: outcome::to_run(&plan, &executed, conditions), files })
}

/// Priority of the kernel thread that carries fibers, if allowed; the helper that interrupts it has one more.
fn carrier_priority() -> Option<i32> {
    const CARRIER: i32 = 90;
    match sched::may_be_realtime(CARRIER + 1) {
        Ok(()) => Some(CARRIER),
        Err(error) => {
            eprintln!("warning: the fibers run in an ordinary thread of the kernel: {error}");
            None
        }
    }
}

/// CPU time of one switch with its wake-up: half a round trip of two threads through pipes. Takes some 10 ms.
fn switch(cpu: Cpu) -> Option<Ns> {
    pingpong::round_trip(cpu, 2_000).ok().map(|both| Ns(both.0 / 2))
}

fn conditions(cpus: &CpuSet) -> Conditions {
    let mut conditions = crate::conditions::of_this_run(cpus);
    conditions.load = Some("the task set itself".to_owned());
    // All threads are measured, wherever they ran.
    conditions.machine.cpus_measured = None;
    conditions
}

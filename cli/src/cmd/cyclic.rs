//! `lathunt cyclic`: the cyclic instrument with clear flags. cyclictest's own flags are in [`super::cyclictest`].

pub mod breaktrace;
mod late;
mod reservation;
mod set_up;
mod show;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{bail, Result};
use clap::Args;
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::Ns;
use lathunt_host::instrument::cyclic::tracemark::{MarkOnBreak, TraceMarker};
use lathunt_host::instrument::cyclic::{
    Clock, Cyclic, Hooks, OnPeak, Options, ThreadResult, ThreadSpec, Wait,
};
use lathunt_host::sched::{self, Policy};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{pm_qos, signals};

use super::on_late::OnLateArgs;
use super::units::{interval, microseconds, seconds, whole_microseconds};
use crate::file::{target, write_run, RUN_FILE};
use crate::on_late::OnLate;
use crate::start_at::StartAt;
use crate::strict::Strict;
use crate::until::{Until, UntilArg};
use crate::{exit, out, stopped};
use reservation::Reserved;
use show::{progress, table};

/// Evidence for a latency above the break limit: the interface to a recorder.
pub trait BreakWatch {
    /// Hook of thread `index` for peaks and the break.
    fn on_peak(&mut self, index: usize) -> Option<Box<dyn OnPeak>>;
    /// Explanation, in lines of text; called once, after the threads have ended.
    fn explain(self: Box<Self>, results: &[ThreadResult]) -> Vec<String>;
}

/// Attaches evidence to the threads that will be measured, or declines.
pub type Attach<'a> = dyn FnMut(&[ThreadSpec]) -> Option<Box<dyn BreakWatch>> + 'a;

/// Arguments of `lathunt cyclic`.
#[derive(Args)]
pub struct CyclicArgs {
    /// CPUs to measure, one thread each [default: all CPUs that this process may use]
    #[arg(short, long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Length of the measurement: 60s, 5m, 2h [default: until Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    duration: Option<Ns>,
    #[command(flatten)]
    until: UntilArg,
    /// Period of the measuring threads; bare numbers are µs
    #[arg(short, long, value_name = "TIME", default_value = "1000us", value_parser = interval)]
    interval: Ns,
    /// Measure with one SCHED_DEADLINE thread of this runtime and period, on any CPU: 200us:1ms
    ///
    /// The kernel admits such a thread only if it may run on all CPUs. --interval must be at least the period.
    #[arg(long, value_name = "RUNTIME:PERIOD", conflicts_with_all = ["cpus", "priority"])]
    deadline_policy: Option<Reserved>,
    /// Exclude the samples of this time at the start from the verdict; the run and the table show them separately
    ///
    /// The duration and --loops count from the end of the warm-up. The verdict states the largest latency of the warm-up.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    warm_up: Option<Ns>,
    /// Start the measurement at this time, together with other machines: 2026-11-26T13:00:00Z, @SECONDS since 1970, or
    /// tai:@SECONDS
    ///
    /// The offset between the clocks of the machines is not checked; ptp4l and chrony report it.
    #[arg(long, value_name = "TIME")]
    start_at: Option<StartAt>,
    /// Real-time priority (SCHED_FIFO); 0: measure with ordinary threads
    #[arg(short, long, default_value_t = 95, value_parser = clap::value_parser!(i32).range(0..=99))]
    priority: i32,
    /// Number of activations of each thread, after which the measurement ends
    #[arg(short, long, value_name = "N", conflicts_with = "until", value_parser = clap::value_parser!(u64).range(1..))]
    loops: Option<u64>,
    /// Latency that must not be exceeded (else exit status 2); bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = microseconds)]
    deadline: Option<Ns>,
    #[command(flatten)]
    strict: Strict,
    /// Stop at the first latency above this and report its cause; exit status 2; bare numbers are µs
    #[arg(short, long, visible_alias = "stop-at", value_name = "TIME", value_parser = microseconds)]
    break_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// With --break-at: write a mark into the kernel trace
    #[arg(long, requires = "break_at")]
    tracemark: bool,
    /// Number of worst samples to keep per thread
    #[arg(long, value_name = "K", default_value_t = 8, value_parser = clap::value_parser!(u16).range(0..=1024))]
    worst: u16,
    /// Limit the exit latency of idle states to this many µs, by holding /dev/cpu_dma_latency (improves the machine under test)
    #[arg(long, value_name = "US", value_parser = whole_microseconds)]
    pm_qos: Option<i32>,
    /// Clock that the activations are programmed on
    #[arg(long, value_enum, default_value = "monotonic")]
    clock: ClockName,
    /// Do not lock memory
    #[arg(long)]
    no_mlock: bool,
    /// Print the histogram (non-empty buckets of 1 µs)
    #[arg(long)]
    histogram: bool,
    /// Show the distribution corrected for coordinated omission: missed activations count at the latency they would have had
    #[arg(long)]
    replayed: bool,
    /// Write the run to this file, or to run.lathunt.json in this directory
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print the run as JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Print only the result, no progress
    #[arg(short, long)]
    quiet: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum ClockName {
    Monotonic,
    Realtime,
}

/// Measures; with `--break-at`, `watch` provides evidence.
pub fn run(args: CyclicArgs, watch: &mut Attach<'_>) -> Result<ExitCode> {
    let mut options = options(&args)?;
    let wanted = args.on_late.wanted();
    wanted.check(args.deadline.is_some(), "--deadline", Err("cyclic records no evidence; hunt does"))?;
    let file = args.output.as_deref().map(|path| target(path, RUN_FILE)).transpose()?;
    let until = args.until.until.map(|claim| Until::at(claim, args.interval, options.threads.len()));
    let until = until.transpose()?;
    args.start_at.map_or(Ok(()), StartAt::check)?;
    let cpus = set_up::measured(&options)?;
    let mut conditions = conditions(&cpus);
    if let Some(note) = ordinary_if_denied(&args, &mut options) {
        eprintln!("warning: {note}");
        conditions.notes.push(note);
    }
    let held = args.pm_qos.map(pm_qos::hold).transpose()?;
    conditions.knobs.cpu_dma_latency_held_us = held.as_ref().map(|held| held.us);
    signals::install()?;
    let mut on_late = OnLate::start(&wanted, args.deadline, &cpus)?;
    let mut watch = args.break_at.and_then(|_| watch(&options.threads));
    let mut hooks = hooks(&args, options.threads.len(), &mut watch)?;
    let mut receivers = late::watch(on_late.as_ref(), &mut hooks);
    if let Some(note) = lock_memory(&mut options, sched::lock_memory) {
        eprintln!("warning: {note}; --no-mlock does not try");
        conditions.notes.push(note);
    }
    let before = crate::conditions::before_measuring(&cpus);
    if let Some(start) = args.start_at {
        let Some(begin) = start.wait()? else {
            bail!("--start-at {start}: stopped by a signal before that time")
        };
        set_up::begin_at(&begin, &mut options);
        conditions.common_start = Some(begin.common);
    }

    let cyclic = Cyclic::start(options, hooks)?;
    let begun = cyclic.begun() + args.warm_up.unwrap_or_default();
    let victims: Vec<Thread> =
        (0..cyclic.options().threads.len()).map(|index| cyclic.thread(index)).collect();
    follow(&cyclic, until, &args, || late::act(on_late.as_mut(), &mut receivers, &victims));
    let (broke, broke_at) = (cyclic.broke(), cyclic.broke_at());
    let (results, warm_up) = cyclic.finish_all();
    late::act(on_late.as_mut(), &mut receivers, &victims);
    let took = broke_at.unwrap_or_else(lathunt_host::clock::mono).since(begun);
    conditions.duration_s = Some(took.as_secs());
    conditions.during = before.during(Path::new(LIVE), &cpus);
    drop(held);
    set_up::note_ends(&results, &mut conditions.during)?;

    let mut run = to_run(conditions, &results);
    run.warm_up = args.warm_up.map(|length| set_up::warm_up(length, &warm_up));
    match until {
        Some(until) => until.conclude_instrument(&mut run, Quantity::Cyclic, args.deadline, took),
        None => cut_short(&args, took).into_iter().for_each(|why| run.stopped(why)),
    }
    on_late.into_iter().for_each(|on_late| on_late.finish(&mut run));
    let broke = broke.map(|(thread, latency)| {
        let (latency, limit) = latency.told_apart(args.break_at.unwrap_or_default());
        format!("stopped: {latency} on {}, above {limit}", results[thread].series.label())
    });
    run.conditions.notes.extend(broke.clone());
    let verdict = args.strict.judge(exit::judged(args.deadline, &run, Quantity::Cyclic));
    run.verdict = Some(verdict.clone());
    let evidence = watch.filter(|_| broke.is_some()).map(|watch| watch.explain(&results));
    let code = if broke.is_some() { exit::EXCEEDED.into() } else { exit::told(&verdict) };
    let said = broke.into_iter().chain(evidence.unwrap_or_default());
    let printed = print(&args, &run, &results, said);
    // A failure to write the file does not suppress stdout, nor the reverse.
    let saved = file.map_or(Ok(()), |file| write_run(&file, &run));
    exit::all([printed, saved])?;
    Ok(code)
}

/// Measures with ordinary threads if the kernel refuses real-time ones. Returns a note in that case.
fn ordinary_if_denied(args: &CyclicArgs, options: &mut Options) -> Option<String> {
    let needs_right = args.priority > 0 && args.deadline_policy.is_none();
    if !needs_right || sched::denied::has_realtime_right(args.priority) {
        return None;
    }
    (options.policy, options.lock_memory) = (Policy::Other, false);
    let why = sched::denied::why_no_realtime(args.priority);
    Some(format!("measured as ordinary threads (SCHED_OTHER), not at priority {}: {why}", args.priority))
}

/// Prints the table and, as comments below it, other results and `said`; with `--json` the run, and these on stderr.
fn print(
    args: &CyclicArgs,
    run: &Run,
    results: &[ThreadResult],
    said: impl Iterator<Item = String>,
) -> Result<()> {
    let warm_up = run.warm_up.as_ref();
    let warm_up = warm_up.map(|warm_up| warm_up.line(run.max_of(Quantity::Cyclic), args.deadline));
    let acted = run.on_late.as_ref().and_then(lathunt_core::on_late::OnLate::line);
    let lines = warm_up.into_iter().chain(acted).chain(said);
    if args.json {
        lines.for_each(|line| eprintln!("{line}"));
        return Ok(out::print(&(run.to_json() + "\n"))?);
    }
    let mut text = table(args, results);
    for line in lines {
        let _ = writeln!(text, "# {line}"); // writing to a String cannot fail
    }
    Ok(out::print(&text)?)
}

/// Whether a signal ended it early; without a length, a signal is the normal end.
fn cut_short(args: &CyclicArgs, measured: Ns) -> Option<String> {
    let planned = match (args.duration, args.loops) {
        (Some(duration), _) => stopped::length(duration),
        (None, Some(loops)) => format!("{loops} activations"),
        (None, None) => return None,
    };
    stopped::by_signal(measured, &planned)
}

fn options(args: &CyclicArgs) -> Result<Options> {
    // A named CPU need not be in the inherited affinity: with isolcpus= a shell has only the other CPUs.
    let cpus = match &args.cpus {
        Some(named) => Topology::read(Path::new(LIVE))?.select(Some(named))?,
        None => sched::affinity()?,
    };
    let mut options = Options::on(cpus.iter());
    set_up::reserve(args, &mut options)?;
    for thread in &mut options.threads {
        (thread.priority, thread.interval) = (args.priority, args.interval);
    }
    if args.priority == 0 || args.deadline_policy.is_some() {
        options.policy = Policy::Other;
    }
    options.clock = match args.clock {
        ClockName::Monotonic => Clock::Monotonic,
        ClockName::Realtime => Clock::Realtime,
    };
    options.wait = Wait::Absolute;
    (options.duration, options.loops, options.warm_up) = (args.duration, args.loops, args.warm_up);
    (options.peaks, options.break_at) = (usize::from(args.worst), args.break_at);
    options.lock_memory = !args.no_mlock;
    Ok(options)
}

/// Locks memory if requested; if the kernel refuses, measures without and adds a note.
fn lock_memory(options: &mut Options, lock: impl Fn() -> lathunt_host::error::Result<()>) -> Option<String> {
    let error = options.lock_memory.then(lock)?.err()?;
    options.lock_memory = false;
    Some(format!("measured without locked memory: {error}"))
}

fn conditions(cpus: &CpuSet) -> Conditions {
    let mut conditions = crate::conditions::of_this_run(cpus);
    conditions.machine.cpus_measured = Some(cpus.to_string());
    conditions.knobs.cpu_dma_latency_us = pm_qos::read().ok();
    conditions.knobs.cpu_dma_latency_holders = pm_qos::holders();
    for holder in &conditions.knobs.cpu_dma_latency_holders {
        eprintln!("note: {holder} holds /dev/cpu_dma_latency: idle states are limited while it runs");
    }
    conditions
}

fn hooks(args: &CyclicArgs, threads: usize, watch: &mut Option<Box<dyn BreakWatch>>) -> Result<Vec<Hooks>> {
    let mut all = Vec::with_capacity(threads);
    for index in 0..threads {
        let mut peak = watch.as_mut().and_then(|watch| watch.on_peak(index));
        if let Some(limit) = args.break_at.filter(|_| args.tracemark) {
            let marker = TraceMarker::open()?;
            let (limit, unit) = ((limit.0 / 1_000) as i64, Ns(1_000));
            peak = Some(Box::new(MarkOnBreak { marker, limit, unit, next: peak }));
        }
        all.push(Hooks { peak, sample: None });
    }
    Ok(all)
}

/// Waits for the end; shows one line per second on a terminal. `look` is called every 50 ms.
fn follow(cyclic: &Cyclic, mut until: Option<Until>, args: &CyclicArgs, mut look: impl FnMut()) {
    let shown = !args.quiet && !args.json && out::can_draw();
    let mut turn = 0u64;
    while signals::stop_requested().is_none() && cyclic.is_running() {
        std::thread::sleep(Duration::from_millis(50));
        look();
        turn += 1;
        let elapsed = lathunt_host::clock::mono().since(cyclic.begun());
        if until.as_mut().is_some_and(|until| until.is_settled(cyclic, args.deadline, elapsed)) {
            break;
        }
        if (shown && turn.is_multiple_of(20)) || signals::take_status_request() {
            let end = if shown { "\r" } else { "" };
            eprint!("{end}{}{}", progress(cyclic, until, elapsed), if shown { "\x1b[K" } else { "\n" });
        }
    }
    if shown && turn >= 20 {
        eprintln!();
    }
}

fn to_run(conditions: Conditions, results: &[ThreadResult]) -> Run {
    let mut run = Run::new(conditions);
    for result in results {
        run.series.push(result.series.clone());
    }
    run.peaks = set_up::peaks(results);
    run
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use lathunt_host::error::Error;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: CyclicArgs,
    }

    #[test]
    fn a_named_cpu_need_not_be_inherited() {
        let online = Topology::read(Path::new(LIVE)).unwrap().online;
        let first = online.iter().next().unwrap();
        let args = Line::parse_from(["cyclic", "-c", &first.to_string()]).args;
        let with_another = move || {
            sched::pin(sched::affinity().unwrap().iter().last().unwrap()).unwrap();
            options(&args).unwrap().threads[0].cpu
        };
        assert_eq!(std::thread::spawn(with_another).join().unwrap(), Some(first));
    }

    #[test]
    fn memory_that_cannot_be_locked_is_told_and_the_measurement_goes_on() {
        let refused = || Err(Error::refused("lock", "memory (mlockall)", "raise RLIMIT_MEMLOCK"));
        let mut options = Options::on(std::iter::empty());
        options.lock_memory = true;
        let note = lock_memory(&mut options, refused).unwrap();
        assert!(note.contains("without locked memory: ") && note.contains("RLIMIT_MEMLOCK"), "{note}");
        assert!(!options.lock_memory, "it is not tried again");
        assert_eq!(lock_memory(&mut options, refused), None);
    }
}

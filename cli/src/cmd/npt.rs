//! `lathunt npt`: what interrupts a thread that must never stop?

mod late;
mod matrix;
mod progress;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::npt::text;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::instrument::npt::probe::Kind;
use lathunt_host::instrument::npt::work::Work;
use lathunt_host::instrument::npt::{measure, Found, Options, Read, KEPT};
use lathunt_host::topology::Topology;
use lathunt_host::tree::LIVE;
use lathunt_host::{facts, sched, signals, wall};

use self::progress::Progress;
use super::on_late::OnLateArgs;
use super::units;
use crate::file::{target, target_like, write_atomic, RUN_FILE};
use crate::on_late::OnLate;
use crate::own;
use crate::{exit, out, stopped};

/// Measure interruptions of a busy loop, with the cause of each gap.
///
/// A pinned real-time thread reads the clock in a loop. An iteration of at least --threshold is a gap. Each gap is matched with
/// a kernel recording: time taken by interrupts, softirqs, threads, page faults, throttling, SMIs and the hypervisor, and the
/// time that remains unexplained. With --probe, each iteration emits one event of a tracer, to measure its cost.
#[derive(Debug, clap::Args)]
pub struct NptArgs {
    /// CPUs to measure, one thread each [default: the isolated CPUs, else the last CPU]
    #[arg(short = 'c', long, value_name = "LIST")]
    cpus: Option<CpuSet>,
    /// Number of loop iterations per thread
    #[arg(short = 'n', long, value_name = "N", default_value = "1e8", value_parser = units::count)]
    count: u64,
    /// Real-time priority (SCHED_FIFO); 0: measure with ordinary threads
    #[arg(short = 'p', long, value_name = "PRIO", default_value_t = 99, value_parser = clap::value_parser!(i32).range(0..=99))]
    priority: i32,
    /// Event emitted in each iteration
    #[arg(long, value_enum, default_value = "none")]
    probe: Probe,
    /// Work of each iteration besides reading the clock: memmove:BYTES (64K, 1M, at most 256M) copies that much memory, as
    /// oslat does; none for the loop alone
    ///
    /// The copy is part of the iteration, so the report shows how much longer it takes when others use the caches and the
    /// memory bus.
    #[arg(long, value_name = "WORK", default_value = "none", value_parser = work, conflicts_with_all = ["probe", "matrix"])]
    work: Bytes,
    /// With --probe lathunt: write all events to disk; events lost because the consumer is too slow are counted
    #[arg(long)]
    drain: bool,
    /// With --probe lttng: let its consumer poll every 5 ms instead of being woken
    #[arg(long)]
    read_timer: bool,
    /// Also trace the kernel with ftrace, into a private instance
    #[arg(long)]
    trace_kernel: bool,
    /// Compare tracers in alternating rounds: none, kernel, user and both kinds of tracing, with the tracer of lathunt and each
    /// installed peer; -o names a directory for table, plot and CSV
    #[arg(long, conflicts_with_all = ["probe", "drain", "read_timer", "trace_kernel", "no_record", "gaps", "deadline", "on_late"])]
    matrix: bool,
    /// With --matrix: number of rounds that the iterations are divided into
    #[arg(long, value_name = "N", default_value_t = 5, requires = "matrix", value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Shortest iteration that counts as a gap; bare numbers are µs [default: 1us; with --work, that more than twice the
    /// usual length of the work]
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    threshold: Option<Ns>,
    /// Clock read by the loop
    #[arg(long, value_enum, default_value = "auto")]
    clock: Clock,
    /// Measure in bursts of this length, to avoid real-time throttling; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    burst: Option<Ns>,
    /// Pause after each burst, not measured; bare numbers are µs
    #[arg(long, value_name = "TIME", default_value = "3ms", value_parser = units::microseconds, requires = "burst")]
    pause: Ns,
    /// Do not record the kernel: only the loop runs, and gaps have no cause
    #[arg(long)]
    no_record: bool,
    /// Number of worst gaps to keep per CPU
    #[arg(long, value_name = "K", default_value_t = 10)]
    worst: usize,
    /// Print the histogram (non-empty buckets, ns)
    #[arg(long, conflicts_with = "json")]
    histogram: bool,
    /// Iteration time that must not be exceeded (else exit status 2); bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::microseconds)]
    deadline: Option<Ns>,
    /// Stop the measurement at the first iteration longer than this, with exit status 2; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = units::microseconds, conflicts_with = "matrix")]
    stop_at: Option<Ns>,
    #[command(flatten)]
    on_late: OnLateArgs,
    /// Write every gap with its time and cause to this file, as CSV, or to gaps.csv in this directory
    #[arg(long, value_name = "PATH")]
    gaps: Option<PathBuf>,
    /// Write the run to this file, or to run.lathunt.json in this directory
    #[arg(short = 'o', long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print the run as JSON
    #[arg(long)]
    json: bool,
    /// Print only the result, no progress
    #[arg(short = 'q', long)]
    quiet: bool,
}

/// Default of --threshold, without the work.
const THRESHOLD: Ns = Ns::from_us(1);

/// Bytes that an iteration copies; 0: none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bytes(usize);

fn work(text: &str) -> Result<Bytes, String> {
    const MOST: u64 = 256 << 20;
    let bytes = match text.split_once(':') {
        None if text == "none" => return Ok(Bytes(0)),
        Some(("memmove", bytes)) => units::bytes(bytes).ok().filter(|bytes| (1..=MOST).contains(bytes)),
        _ => None,
    };
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    bytes.map(Bytes).ok_or_else(|| {
        format!("'{text}' is not none or memmove:BYTES with 1 to 256M bytes; write for example memmove:64K")
    })
}

/// Names of the probes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Probe {
    /// No event, the loop alone
    None,
    /// An event of lathunt's tracer, kept in memory by a flight recorder
    Lathunt,
    /// An event of LTTng-UST
    Lttng,
    /// A write to the kernel's trace_marker
    Marker,
    /// A uprobe
    Uprobe,
    /// No event, while ftrace records scheduler, interrupts and timers
    Kernel,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Clock {
    /// The counter of the CPU if it is reliable, else clock_gettime
    Auto,
    /// The counter, unordered (x86: rdtsc)
    Plain,
    /// The counter, after all preceding instructions (rdtscp)
    Ordered,
    /// The counter, with fences around it
    Fenced,
    /// clock_gettime(CLOCK_MONOTONIC)
    Gettime,
}

/// Measures and prints.
///
/// # Errors
/// If the CPUs or the probe do not exist, or the result cannot be written.
pub fn run(args: NptArgs) -> Result<ExitCode> {
    let topology = Topology::read(Path::new(LIVE))?;
    let cpus = match &args.cpus {
        None => default_cpus(&topology)?,
        wanted => topology.select(wanted.as_ref())?,
    };
    if args.matrix {
        return matrix::run(&args, &cpus);
    }
    let file = args.output.as_deref().map(|path| target(path, RUN_FILE)).transpose()?;
    let gaps = args
        .gaps
        .as_deref()
        .map(|path| target_like(path, "gaps.csv", &own::Kind::Text(HEADING.to_owned())))
        .transpose()?;
    let mut conditions = facts::gather(Path::new(LIVE), &cpus);
    let facts = conditions.notes.len();
    let options = options(&args, cpus.clone(), &mut conditions)?;
    conditions.started = wall::now_rfc3339();
    conditions.command = Some(crate::conditions::command_line());
    signals::install()?;
    let before = crate::conditions::before_measuring(&cpus);
    let mut on_late = OnLate::start(&args.on_late.wanted(), args.deadline, &cpus)?;
    let mut progress = Progress::new(&args);
    let mut stopped_at = None;
    let measured = measure(&options, |lanes, late| {
        progress.show(lanes);
        late::act(on_late.as_mut(), late);
        stopped_at = stopped_at.take().or_else(|| late::above(lanes, args.stop_at));
        stopped_at.is_some()
    });
    progress.end();
    let found = measured?;
    conditions.during = before.during(Path::new(LIVE), &cpus);
    let gaps = gaps.map(|file| (file, csv(&found)));
    let mut run = to_run(conditions, &options, found);
    run.conditions.notes.extend(stopped_at.clone());
    on_late.into_iter().for_each(|on_late| on_late.finish(&mut run));
    let verdict = exit::judged(args.deadline, &run, Quantity::Npt);
    run.verdict = Some(verdict.clone());
    let mut text = match args.json {
        true => run.to_json() + "\n",
        false => text::text(&run, args.worst, &run.conditions.notes[facts..]),
    };
    if let Some(line) = run.on_late.as_ref().and_then(lathunt_core::on_late::OnLate::line) {
        eprintln!("{line}");
    }
    if args.histogram {
        text.push_str(&text::histogram(&run));
    }
    // A failure to write one file does not suppress the others, or stdout.
    let listed = gaps.map_or(Ok(()), |(file, gaps)| write_atomic(&file, gaps.as_bytes()));
    let saved = file.map_or(Ok(()), |file| write_atomic(&file, run.to_json().as_bytes()));
    exit::all([out::print(&text).map_err(Into::into), listed, saved])?;
    Ok(match stopped_at {
        Some(why) => {
            eprintln!("{why}");
            exit::EXCEEDED.into()
        }
        None => exit::told(&verdict),
    })
}

/// A thread that never stops needs a CPU that no other work needs.
fn default_cpus(topology: &Topology) -> Result<CpuSet> {
    let usable = sched::affinity()?;
    let isolated: CpuSet = topology.isolated.iter().filter(|cpu| usable.contains(*cpu)).collect();
    let last = usable.iter().next_back();
    Ok(if isolated.is_empty() { last.into_iter().collect() } else { isolated })
}

fn options(args: &NptArgs, cpus: CpuSet, conditions: &mut Conditions) -> Result<Options> {
    const SHORTEST: Ns = Ns(100);
    let work = (args.work.0 > 0).then(|| Work::memmove(args.work.0));
    let of_work = work.map_or(Ns::ZERO, |work| work.usual + work.usual);
    let threshold = args.threshold.unwrap_or(THRESHOLD + of_work);
    if threshold < SHORTEST {
        bail!(
            "--threshold {threshold} is too short: the loop itself takes tens of ns; give at least {SHORTEST}"
        );
    }
    if let Some(work) = work.filter(|work| threshold <= work.usual) {
        let least = THRESHOLD + of_work;
        bail!(
            "--threshold {threshold}: the work of an iteration takes {} by itself; give at least {least}",
            work.usual
        );
    }
    let on_late = args.on_late.wanted();
    on_late.check(args.deadline.is_some(), "--deadline", Err("npt keeps no traces; record and hunt do"))?;
    let late = on_late.above.or(args.deadline).filter(|_| on_late.is_given());
    for (option, limit) in [("--on-late-above", late), ("--stop-at", args.stop_at)] {
        if limit.is_some_and(|limit| limit < threshold) {
            bail!(
                "{option}: iterations below --threshold {threshold} are not gaps and would be missed; lower the threshold"
            );
        }
    }
    if args.drain && args.probe != Probe::Lathunt {
        bail!("--drain requires --probe lathunt");
    }
    if args.read_timer && args.probe != Probe::Lttng {
        bail!("--read-timer requires --probe lttng");
    }
    let mut priority = args.priority;
    if priority > 0
        && let Err(error) = sched::may_be_realtime(priority)
    {
        let note = format!("measured as an ordinary thread: {error}");
        eprintln!("warning: {note}");
        conditions.notes.push(note);
        priority = 0;
    }
    let (best, why) = Read::best();
    let read = match args.clock {
        Clock::Auto => {
            conditions.notes.extend(why);
            best
        }
        Clock::Plain => Read::Plain.checked()?,
        Clock::Ordered => Read::Ordered.checked()?,
        Clock::Fenced => Read::Fenced.checked()?,
        Clock::Gettime => Read::Gettime,
    };
    Ok(Options {
        cpus,
        loops: args.count,
        priority,
        read,
        threshold,
        work,
        probe: args.probe.kind(args.drain, args.read_timer),
        trace_kernel: args.trace_kernel,
        burst: args.burst.map(|burst| (burst, args.pause)),
        record: !args.no_record,
        late,
        worst: args.worst,
    })
}

impl Clock {
    /// Its spelling on the command line.
    fn word(self) -> &'static str {
        match self {
            Clock::Auto => "auto",
            Clock::Plain => "plain",
            Clock::Ordered => "ordered",
            Clock::Fenced => "fenced",
            Clock::Gettime => "gettime",
        }
    }
}

impl Probe {
    fn kind(self, drained: bool, read_timer: bool) -> Kind {
        match self {
            Probe::None => Kind::Nothing,
            Probe::Lathunt => Kind::Lathunt { drained },
            Probe::Lttng => Kind::Lttng { read_timer },
            Probe::Marker => Kind::Marker,
            Probe::Uprobe => Kind::Uprobe,
            Probe::Kernel => Kind::Kernel,
        }
    }
}

fn to_run(mut conditions: Conditions, options: &Options, found: Found) -> Run {
    conditions.duration_s = Some(found.duration.as_secs());
    let mut how = format!(
        "loop: clock read {}, probe {}, gaps from {} on",
        options.read.name(),
        options.probe.name(),
        options.threshold
    );
    if let Some(Work { bytes, usual }) = options.work {
        let _ = write!(how, "; each iteration copies {bytes} bytes, which usually takes {usual}");
    }
    if let Some((burst, pause)) = options.burst {
        let _ = write!(how, ", bursts of {burst} with pauses of {pause} that are not measured");
    }
    if let Some(entry) = found.entry_ns {
        let _ = write!(how, "; entering and leaving the kernel takes {entry} at least");
    }
    conditions.notes.push(how);
    if let Some(share) = found.attributed_of_large {
        let share = 100.0 * share;
        let dropped = found.losses.iter().any(|loss| loss.counter == text::GAPS_DROPPED);
        let taken = if dropped { " that were taken" } else { "" };
        conditions.notes.push(format!("of the time of gaps above 5 µs{taken}, {share:.1} % has a cause"));
    }
    conditions.notes.extend(found.notes);
    conditions.during.ended_early.extend(found.ended_early);
    conditions.during.left_cpu = found.left;
    let planned = format!("{} loops", options.loops);
    let early = found.stopped_by.and_then(|_| stopped::by_signal(found.duration, &planned));
    conditions.notes.extend(early.clone());
    let mut run = Run::new(conditions);
    early.into_iter().for_each(|why| run.stopped(why));
    (run.series, run.peaks, run.interference, run.losses) =
        (found.series, found.worst, found.sources, found.losses);
    run
}

/// Header of the list of gaps.
const HEADING: &str = "cpu,begin_ns,gap_ns,part_ns,who";

/// One line per gap and source; the sources of a gap add up to it.
fn csv(found: &Found) -> String {
    let mut text = format!("{HEADING}\n");
    for told in &found.gaps {
        for part in &told.parts {
            let who = part.name.replace('"', "\"\"");
            let (gap, length) = (&told.gap, told.gap.length());
            let _ = writeln!(text, "{},{},{},{},\"{who}\"", gap.cpu, gap.begin.0, length.0, part.net.0);
        }
    }
    if found.gaps.len() == KEPT {
        eprintln!("note: only the first {KEPT} gaps are written");
    }
    text
}

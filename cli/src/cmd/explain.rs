//! `lathunt explain`: from a recorded trace and a query to the matching intervals, and their causes.

mod cores;
mod exports;
mod files;
mod input;
mod intervals;
mod names;
mod nothing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Result};
use lathunt_core::explain::answers::Answers;
use lathunt_core::explain::intervals::{Found, Whose};
use lathunt_core::explain::markers::Marker;
use lathunt_core::explain::periods::periods;
use lathunt_core::explain::text::Options;
use lathunt_core::explain::tracers;
use lathunt_core::time::{parse_duration, Ns, Tid};
use lathunt_core::trace::source::Source;
use lathunt_host::restrict::{to_reading, Programs};

use crate::exit;
use crate::out;
use crate::trace_file::{TraceFile, WithSymbols};
use exports::Exports;
use nothing::damage;

/// Text below the options.
const AFTER: &str = "Without a query, explain prints the summary of a directory and explains one latency: that in the output of a kernel tracer (wakeup, irqsoff, timerlat, hwlat, osnoise, function_graph, rtla's analysis), the sample that exceeded cyclictest's threshold, else the worst wake-up of a real-time thread.

In a tree, ~ marks a part that is inferred from other events, not recorded (`inferred` in the JSON).

Exit status: 0 answered, also if intervals reach --threshold or none was found; 1 error or invalid arguments; 3 inconclusive: the trace is damaged, or a text was cut, filtered or not fully understood (missing intervals may be worse), an interval over lost events, or without a start or an end, may be longer than the worst, only one end of each wake-up is recorded, or the trace lacks the events that the query needs.";

/// Explain latencies in a recorded trace: where the time went, and the cause.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER)]
pub struct ExplainArgs {
    /// Directory written by `lathunt trace`, a trace.dat, a directory of CTF traces, a perf.data, or ftrace text; - is stdin.
    /// For a run file (run.lathunt.json): the flight recording beside it
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Intervals from marker A to marker B: sys:600, mark:TEXT (marks that contain TEXT), event:NAME or
    /// event:NAME[field==value]
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    between: Option<Vec<Marker>>,
    /// Pair A with B by the value of this field (arg0… for system calls) instead of by thread
    #[arg(long, value_name = "FIELD", requires = "between")]
    pair: Option<String>,
    /// Every wake-up: from waking to switch-in
    #[arg(long)]
    wakeups: bool,
    /// The interval of a thread on a CPU (with --tid or --comm also off it) at this time (seconds, as printed in traces)
    #[arg(long, value_name = "TIME")]
    at: Option<String>,
    /// Every call of this system call (name or number)
    #[arg(long, value_name = "NAME")]
    syscall: Option<String>,
    /// From interrupt line IRQ to the switch-in of thread TID
    #[arg(long, num_args = 2, value_names = ["IRQ", "TID"])]
    irq_to_thread: Option<Vec<i32>>,
    /// Summary of the trace: CPUs, threads, interruptions, wake-ups
    #[arg(long)]
    summary: bool,
    /// Periodic threads: release, start and end of their jobs, missed periods
    #[arg(long, conflicts_with = "summary")]
    periods: bool,
    /// Only this thread
    #[arg(long, value_name = "TID")]
    tid: Option<i32>,
    /// Only threads whose name matches this shell pattern (*, ?, [a-z], [!a-z])
    #[arg(long, value_name = "GLOB")]
    comm: Option<String>,
    /// Number of worst intervals to explain [default: 1]
    #[arg(long, value_name = "N")]
    worst: Option<usize>,
    /// Only intervals of at least this length; bare numbers are µs
    #[arg(long, value_name = "TIME", value_parser = |text: &str| parse_duration(text, Ns::from_us(1)))]
    threshold: Option<Ns>,
    /// Show the events that prove each part
    #[arg(long)]
    evidence: bool,
    /// Memory maps, to name the files of page faults: a saved /proc/PID/maps, or a PID on this machine
    #[arg(long, value_name = "FILE|PID")]
    maps: Option<String>,
    /// Root of the file tree of the traced machine, to name the files of page faults
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Kernel symbols of the traced machine: a saved /proc/kallsyms
    #[arg(long, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    exports: Exports,
}

/// Reads the trace, finds the intervals, explains the worst.
///
/// # Errors
/// One line: the trace that cannot be read, or the query that it cannot answer.
pub fn run(args: ExplainArgs) -> Result<ExitCode> {
    args.check()?;
    let trace = input::trace_of(&args.trace)?;
    let args = ExplainArgs { trace, ..args };
    restrict(&args)?;
    let file = TraceFile::open(&args.trace)?;
    if args.asks_nothing()
        && let Some(report) = file.text().and_then(|text| tracers::read(&text))
    {
        return tracer(&args, report);
    }
    let mut source = match file.source() {
        Ok(source) => source,
        Err(error) => {
            let text = if args.asks_nothing() { file.latency_text() } else { None };
            let report = text.and_then(|text| tracers::read(&String::from_utf8_lossy(&text)));
            return report.map_or(Err(error), |report| tracer(&args, report));
        }
    };
    if let Some(path) = &args.kallsyms {
        source = Box::new(WithSymbols::new(source, input::symbols_of(path)?));
    }
    let source = &*source;
    if let Some(directory) = &args.exports.ctf {
        exports::ctf(source, &args.trace, directory)?;
        if !args.asks() {
            return Ok(ExitCode::SUCCESS);
        }
    }
    if args.periods {
        return list_periods(&args, source);
    }
    if args.summary {
        return summarize(&args, source);
    }
    match Some(source).filter(|_| args.asks_nothing()).and_then(tracers::of_source) {
        Some(report) => tracer(&args, report),
        None => intervals::explain(&args, source),
    }
}

/// Gives up rights before the trace is read. Only root may read the mappings of other users' running processes.
fn restrict(args: &ExplainArgs) -> Result<()> {
    if args.maps.as_ref().is_some_and(|maps| maps.bytes().all(|byte| byte.is_ascii_digit())) {
        return Ok(());
    }
    let is_there = args.trace.is_file() || args.trace.is_dir();
    let held = (!is_there).then(std::env::temp_dir); // a pipe is copied to an unnamed file
    let written: Vec<_> = args.exports.outputs().into_iter().chain(held.as_deref()).collect();
    to_reading(&written, Programs::None)?;
    Ok(())
}

fn list_periods(args: &ExplainArgs, source: &dyn Source) -> Result<ExitCode> {
    let found = periods(source, &args.whose());
    let text = if args.json { serde_json::to_string_pretty(&found)? + "\n" } else { found.to_text() };
    out::print(&text)?;
    Ok(answered(!found.damage.is_empty() || found.unanswerable.is_some()))
}

fn summarize(args: &ExplainArgs, source: &dyn Source) -> Result<ExitCode> {
    let summary = cores::by_all(source);
    if summary.events == 0 {
        bail!(
            "cannot read {}: it contains no events{}",
            args.trace.display(),
            damage(source, &Found::default())
        );
    }
    let text = if args.json { serde_json::to_string_pretty(&summary)? + "\n" } else { summary.to_text() };
    out::print(&text)?;
    Ok(answered(!summary.damage.is_empty()))
}

/// Explains the text output of a tracer.
fn tracer(args: &ExplainArgs, report: tracers::Report) -> Result<ExitCode> {
    let is_doubtful = report.is_doubtful;
    let answers = Answers::of_tracer(args.trace.display().to_string(), report);
    let text = match args.json {
        true => serde_json::to_string_pretty(&answers)? + "\n",
        false => answers.to_text(Options { evidence: args.evidence, stacks: true }),
    };
    out::print(&text)?;
    Ok(answered(is_doubtful || answers.intervals.is_empty()))
}

/// Exit code of an answered query.
fn answered(is_damaged: bool) -> ExitCode {
    match is_damaged {
        true => exit::INCONCLUSIVE.into(),
        false => ExitCode::SUCCESS,
    }
}

impl ExplainArgs {
    /// # Errors
    /// Options that exclude each other.
    fn check(&self) -> Result<()> {
        if self.questions() > 1 {
            bail!("one question at a time: --between, --wakeups, --syscall, --at, --irq-to-thread, --periods or --summary");
        }
        if let Some((asked, option)) = self.ignored() {
            bail!("{option} has no effect with {asked}: drop it, or query intervals (--between, --wakeups, --syscall, --at, --irq-to-thread)");
        }
        Ok(())
    }

    /// Number of queries.
    fn questions(&self) -> usize {
        let asked = [
            self.between.is_some(),
            self.wakeups,
            self.syscall.is_some(),
            self.irq_to_thread.is_some(),
            self.at.is_some(),
            self.periods,
            self.summary,
        ];
        asked.iter().filter(|asked| **asked).count()
    }

    /// The query, and an option that it would ignore.
    fn ignored(&self) -> Option<(&'static str, &'static str)> {
        let of_intervals = [
            (self.worst.is_some(), "--worst"),
            (self.threshold.is_some(), "--threshold"),
            (self.evidence, "--evidence"),
            (self.maps.is_some(), "--maps"),
            (self.root.is_some(), "--root"),
            (self.exports.html.is_some(), "--html"),
            (self.exports.perfetto.is_some(), "--perfetto"),
        ];
        let of_threads = [(self.tid.is_some(), "--tid"), (self.comm.is_some(), "--comm")];
        let of_answers = [(self.json, "--json")];
        let (asked, options) = match () {
            () if self.periods => ("--periods", of_intervals.to_vec()),
            () if self.summary => ("--summary", [&of_intervals[..], &of_threads].concat()),
            () if !self.asks() && self.exports.ctf.is_some() => {
                ("--ctf alone", [&of_intervals[..], &of_threads, &of_answers].concat())
            }
            () => return None,
        };
        options.into_iter().find(|(given, _)| *given).map(|(_, option)| (asked, option))
    }

    fn asks(&self) -> bool {
        self.questions() > 0
    }

    /// Neither a query nor an export that needs none.
    fn asks_nothing(&self) -> bool {
        !self.asks() && self.exports.ctf.is_none()
    }

    fn whose(&self) -> Whose {
        Whose { tid: self.tid.map(Tid), comm: self.comm.clone() }
    }
}

//! `lathunt explain`: from a recorded trace and a query to the matching intervals, and their causes.

mod cores;
mod exports;
mod files;
mod input;
mod names;
mod nothing;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{anyhow, bail, Result};
use lathunt_core::explain::answers::{Answer, Answers, TraceFacts};
use lathunt_core::explain::explain_interval;
use lathunt_core::explain::intervals::{find, find_realtime_wakeups, Found, FoundInterval, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::markers::Marker;
use lathunt_core::explain::periods::periods;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::text::Options;
use lathunt_core::explain::tracers;
use lathunt_core::explain::Interval;
use lathunt_core::time::{parse_duration, Mono, Ns, Tid};
use lathunt_core::trace::normalize::is_text;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::syscall_names::SyscallTable;
use lathunt_host::restrict::{to_reading, Programs};

use crate::exit;
use crate::out;
use crate::trace_file::{TraceFile, WithSymbols};
use exports::{Drawing, Exports};
use nothing::{damage, leave_out_below, nothing};

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
    if args.questions() > 1 {
        bail!("one question at a time: --between, --wakeups, --syscall, --at, --irq-to-thread, --periods or --summary");
    }
    if let Some((asked, option)) = args.ignored() {
        bail!("{option} has no effect with {asked}: drop it, or query intervals (--between, --wakeups, --syscall, --at, --irq-to-thread)");
    }
    let trace = input::trace_of(&args.trace)?;
    let args = ExplainArgs { trace, ..args };
    // Only root may read the mappings of other users' running processes.
    if !args.maps.as_ref().is_some_and(|maps| maps.bytes().all(|byte| byte.is_ascii_digit())) {
        let is_there = args.trace.is_file() || args.trace.is_dir();
        let held = (!is_there).then(std::env::temp_dir); // a pipe is copied to an unnamed file
        to_reading(
            &args.exports.outputs().into_iter().chain(held.as_deref()).collect::<Vec<_>>(),
            Programs::None,
        )?;
    }
    let file = TraceFile::open(&args.trace)?;
    let asks_nothing = !args.asks() && args.exports.ctf.is_none();
    let text = if asks_nothing { file.text() } else { None };
    if let Some(report) = text.and_then(|text| tracers::read(&text)) {
        return tracer(&args, report);
    }
    let source = file.source();
    if source.is_err() && asks_nothing {
        let text = file.latency_text();
        if let Some(report) = text.and_then(|text| tracers::read(&String::from_utf8_lossy(&text))) {
            return tracer(&args, report);
        }
    }
    let mut source = source?;
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
        let whose = Whose { tid: args.tid.map(Tid), comm: args.comm.clone() };
        let found = periods(source, &whose);
        let text = if args.json { serde_json::to_string_pretty(&found)? + "\n" } else { found.to_text() };
        out::print(&text)?;
        return Ok(answered(!found.damage.is_empty() || found.unanswerable.is_some()));
    }
    if args.summary {
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
        return Ok(answered(!summary.damage.is_empty()));
    }
    let whose = Whose { tid: args.tid.map(Tid), comm: args.comm.clone() };
    if let Some(report) = Some(source).filter(|_| asks_nothing).and_then(tracers::of_source) {
        return tracer(&args, report);
    }
    let (question, asked, mut found, lacks_realtime) = match asks_nothing {
        true => obvious(source, &whose),
        false => {
            let (question, asked) = question(&args, source)?;
            let found = find(source, &question, &whose);
            (question, asked, found, false)
        }
    };
    if found.events == 0 {
        bail!("cannot read {}: it contains no events{}", args.trace.display(), damage(source, &found));
    }
    let has_only_halves = found.has_only_halves() || lacks_realtime;
    let below = args.threshold.and_then(|threshold| leave_out_below(&mut found, threshold));
    let mut names = files::Names::new(args.maps.as_deref(), args.root.clone(), source.info())?;
    names.read_saved(&args.trace);
    let noted = files::SavedFacts::read(&args.trace);
    let facts = TraceFacts {
        path: args.trace.display().to_string(),
        format: source.info().format.clone(),
        clock: source.info().clock.name.clone(),
        events: found.events,
        lost: found.lost,
    };
    let mut answers = Answers::new(facts, asked, &found);
    answers
        .limits
        .extend(source.info().damage.iter().take(5).map(|damage| format!("the file is damaged at {damage}")));
    answers.limits.extend(source.info().limits.iter().cloned());
    if let Some(below) = below {
        answers.limits.push(below);
    } else if found.intervals.is_empty() {
        answers.limits.extend(names::absent(source, &whose));
        answers.limits.push(nothing(&found, &question));
    }
    let is_doubtful = has_only_halves || found.may_hide_worse();
    let mut drawing = Drawing::new(&args.exports);
    // Taken out of `found`, so that each is freed when it is answered: there may be 100,000.
    for (place, interval) in std::mem::take(&mut found.intervals).into_iter().enumerate() {
        let interval = &interval;
        answers.intervals.push(if place < args.worst.unwrap_or(1) {
            let mut window = window(source, &found, interval.begin, interval.end);
            noted.fill(&mut window);
            names.fill(&mut window);
            let record = Record::new(&window);
            let answer = explained(&record, interval);
            drawing.add(&window, &record, &answer);
            answer
        } else {
            Answer::listed(interval)
        });
    }
    drawing.write(&args.exports, &answers)?;
    let text = if args.json {
        serde_json::to_string_pretty(&answers)? + "\n"
    } else {
        let answer = answers.to_text(Options { evidence: args.evidence, stacks: true });
        // Without a query on a whole recording, show its summary first.
        match asks_nothing && args.trace.is_dir() {
            true => format!("{}\n{answer}", cores::by_all(source).to_text()),
            false => answer,
        }
    };
    out::print(&text)?;
    let lacks = found.unanswerable.is_some() || !found.impossible.is_empty();
    Ok(answered(found.is_damaged || is_doubtful || lacks))
}

/// Default answer: the sample that hit cyclictest's threshold, else the worst wake-up of a real-time thread, else of any
/// thread; and whether that is not the answer, because wake-ups of real-time threads are recorded in part.
fn obvious(source: &dyn Source, whose: &Whose) -> (Question, String, Found, bool) {
    let has_texts = source.catalogue().classes().iter().any(is_text);
    let found = has_texts.then(|| find(source, &Question::Threshold, whose));
    if let Some(found) = found.filter(|found| !found.intervals.is_empty()) {
        return (
            Question::Threshold,
            "over cyclictest's threshold, from expiry to report".to_owned(),
            found,
            false,
        );
    }
    let found = find_realtime_wakeups(source, whose);
    if !found.intervals.is_empty() {
        let asked = "of real-time threads from waking to switched in (no query given: --help lists them)";
        return (Question::Wakeups, asked.to_owned(), found, false);
    }
    let lacks_realtime = found.has_only_halves();
    let asked = match lacks_realtime {
        true => "from waking to switched in (no query given, and no complete wake-up of a real-time thread is recorded)",
        false => "from waking to switched in (no query given, and no real-time thread was woken)",
    };
    let found = find(source, &Question::Wakeups, whose);
    (Question::Wakeups, asked.to_owned(), found, lacks_realtime)
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

fn explained(record: &Record, interval: &FoundInterval) -> Answer {
    let FoundInterval { tid, cpu, begin, end, .. } = *interval;
    Answer::explained(interval, explain_interval(record, &Interval { tid, cpu, begin, end }))
}

impl ExplainArgs {
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
}

/// The query and its name.
fn question(args: &ExplainArgs, source: &dyn Source) -> Result<(Question, String)> {
    if let Some([from, to]) = args.between.as_deref() {
        let by = args.pair.as_ref().map_or("by thread".to_owned(), |field| format!("by {field}"));
        let question = Question::Between { from: from.clone(), to: to.clone(), pair: args.pair.clone() };
        return Ok((question, format!("from {from} to {to}, paired {by}")));
    }
    if let Some(name) = &args.syscall {
        let table = SyscallTable::of_machine(&source.info().machine);
        let number = name.parse().ok().or_else(|| table.number(name));
        let number =
            number.ok_or_else(|| anyhow!("'{name}' is not a system call; give its name or number"))?;
        let called = table.name(number).map_or_else(|| format!("sys {number}"), str::to_owned);
        return Ok((Question::Syscall(number), format!("in {called}")));
    }
    if let Some([irq, tid]) = args.irq_to_thread.as_deref() {
        let line = u32::try_from(*irq).map_err(|_| anyhow!("{irq} is not an interrupt line"))?;
        return Ok((Question::IrqToThread(line, Tid(*tid)), format!("from IRQ {irq} to thread {tid}")));
    }
    if let Some(time) = &args.at {
        return Ok((Question::At(moment(time)?), format!("at {time}")));
    }
    Ok((Question::Wakeups, "from waking to switched in".to_owned()))
}

/// A time as printed in traces: seconds with up to nine decimals, exactly.
fn moment(text: &str) -> Result<Mono> {
    let wrong = || anyhow!("'{text}' is not a time: write seconds as the trace does, such as 5402.670061712");
    let (seconds, decimals) = text.split_once('.').unwrap_or((text, ""));
    if decimals.len() > 9 || !decimals.chars().all(|digit| digit.is_ascii_digit()) {
        return Err(wrong());
    }
    let seconds: u64 = seconds.parse().map_err(|_| wrong())?;
    let nanos: u64 = format!("{decimals:0<9}").parse().map_err(|_| wrong())?;
    seconds.checked_mul(1_000_000_000).and_then(|ns| ns.checked_add(nanos)).map(Mono).ok_or_else(wrong)
}

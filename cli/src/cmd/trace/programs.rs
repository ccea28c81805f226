//! Sessions of `lathunt trace`: record instrumented programs as CTF, even after the terminal is closed.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use lathunt_core::numbers::counted;
use lathunt_core::printable;
use lathunt_host::beneath::Foreign;
use lathunt_host::channel::consumer::{snapshot_all, Consumer, Status};
use lathunt_host::channel::daemon;
use lathunt_host::channel::drain::Tally;
use lathunt_host::channel::lock::Holder;
use lathunt_host::channel::place::Place;
use lathunt_host::channel::program::Program;
use lathunt_host::channel::session::Session;

use crate::exit;

/// What to record, and where.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Directory of the trace: trace.dat, and one directory per instrumented program
    #[arg(short = 'o', long, value_name = "DIR")]
    pub output: PathBuf,
    /// Only instrumented programs of this name (shell pattern; can be repeated)
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Only this instrumented process (can be repeated)
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only events of this name in instrumented programs (shell pattern, for example 'control:*'; can be repeated)
    #[arg(short = 'e', long = "event", value_name = "PATTERN", value_parser = pattern)]
    pub events: Vec<String>,
    /// Flight recorder: keep the newest events in memory and write them at the end (programs: also on a snapshot, and when a
    /// program dies). Kernel events go to a ring filled by BPF programs, at a fifth of the cost
    #[arg(long)]
    pub flight: bool,
    /// Size of the ring of each thread of programs started from now on [default: 8M], and of each CPU for the kernel
    /// [default: 16M; with --flight always 4096 events]
    #[arg(long, value_name = "BYTES", value_parser = ring_bytes)]
    pub ring: Option<u64>,
    /// Stop after writing this many bytes; buffered events are written as well
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub limit: Option<u64>,
}

impl SessionArgs {
    /// An option that selects programs or their events.
    #[must_use]
    pub fn selects_programs(&self) -> Option<&'static str> {
        let given = [
            ("-e", !self.events.is_empty()),
            ("--comm", !self.comm.is_empty()),
            ("--pid", !self.pid.is_empty()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }
}

/// What to do with a session.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a session in the background, or continue one whose consumer has died
    Start(SessionArgs),
    /// End the session, after all events have been written
    Stop,
    /// Show the events recorded, the programs, and the number of lost events
    Status {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write the current contents of the rings to DIR/snapshot-N
    Snapshot,
    /// Write the events that dead programs, or a dead consumer, left in memory
    Recover {
        /// Directory of the trace, if there is no session to continue
        #[arg(short = 'o', long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Enable events, in running programs and in those that start later
    Enable {
        /// Shell patterns, for example 'control:*'
        #[arg(required = true, value_name = "PATTERN", value_parser = pattern)]
        events: Vec<String>,
    },
    /// Disable events
    Disable {
        /// Shell patterns, for example 'control:*'
        #[arg(required = true, value_name = "PATTERN", value_parser = pattern)]
        events: Vec<String>,
    },
}

/// Runs a subcommand of a session.
///
/// # Errors
/// If it fails, with a remedy.
pub fn run(verb: Verb) -> anyhow::Result<ExitCode> {
    let place = Place::from_environment();
    match verb {
        Verb::Start(session) => start(&place, &session),
        Verb::Stop => {
            let status = daemon::stop(&place)?;
            Ok(status.map_or(ExitCode::SUCCESS, |status| conclude_alone(&status).into()))
        }
        Verb::Status { json } => show_status(&place, json),
        Verb::Snapshot => {
            let session =
                Session::read(&place.session())?.context("there is no session to take a snapshot of")?;
            let (dir, tally) = snapshot_all(&place, &session)?;
            crate::out::print(&format!("{}: {}\n", dir.display(), tally_text(&tally)))?;
            Ok(ExitCode::SUCCESS)
        }
        Verb::Recover { output } => recover(place, output),
        Verb::Enable { events } => change(&place, true, events),
        Verb::Disable { events } => change(&place, false, events),
    }
}

fn start(place: &Place, args: &SessionArgs) -> anyhow::Result<ExitCode> {
    let mut session = session_of(args)?;
    if let Some(left) = Session::read(&place.session())?.filter(|left| left.dir == session.dir) {
        session.created = left.created; // its consumer has died: continue the same traces
        session.clock_offset_ns = left.clock_offset_ns;
    }
    let consumer = daemon::start(place, &session)?;
    let dir = session.dir.display();
    crate::out::print(&format!(
        "recording instrumented programs into {dir} (consumer {consumer}); `lathunt trace stop` ends it\n"
    ))?;
    if !place.programs().iter().filter_map(Program::look).any(|program| program.alive()) {
        eprintln!("lathunt: no instrumented program is running. {KERNEL}");
    }
    Ok(ExitCode::SUCCESS)
}

/// The session specified by `args`.
///
/// # Errors
/// The directory has no absolute path.
pub fn session_of(args: &SessionArgs) -> anyhow::Result<Session> {
    let dir = std::path::absolute(&args.output)?;
    let mut session = Session::new(dir);
    if !args.events.is_empty() {
        session.rules = args.events.iter().map(|pattern| (true, pattern.clone())).collect();
    }
    session.overwrite = args.flight;
    session.foreign = crate::file::foreign() == Foreign::Allowed;
    session.ring_bytes = args.ring;
    session.limit_bytes = args.limit;
    session.comms.clone_from(&args.comm);
    session.pids.clone_from(&args.pid);
    for pid in args.pid.iter().filter(|pid| !std::path::Path::new(&format!("/proc/{pid}")).exists()) {
        eprintln!("lathunt: --pid {pid}: no such process");
    }
    Ok(session)
}

fn change(place: &Place, enable: bool, patterns: Vec<String>) -> anyhow::Result<ExitCode> {
    let Some(mut session) = Session::read(&place.session())? else {
        bail!("there is no session; `lathunt trace start -o DIR` starts one");
    };
    for pattern in patterns {
        session.rules.retain(|(_, known)| *known != pattern);
        session.rules.push((enable, pattern));
    }
    session.write(place, Holder::of(&place.lock()).map(|holder| holder.pid))?;
    Ok(ExitCode::SUCCESS)
}

fn recover(place: Place, output: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let session = match (Session::read(&place.session())?, output) {
        (Some(session), None) => session,
        (left, Some(dir)) => Session {
            overwrite: left.is_some_and(|left| left.overwrite),
            ..Session::new(std::path::absolute(dir)?)
        },
        (None, None) => bail!("no session to continue; name the directory of the trace with -o DIR"),
    };
    let consumer = Consumer::start(place.clone(), session)?;
    let finished = consumer.finish();
    daemon::forget_report(&place); // recover reports the same
    Ok(conclude(&finished?).into())
}

fn show_status(place: &Place, json: bool) -> anyhow::Result<ExitCode> {
    let session = Session::read(&place.session())?;
    let holder = Holder::of(&place.lock());
    let running = holder.is_some();
    let report = daemon::last_report(&place.status()).filter(|_| session.is_some());
    if json {
        let status = serde_json::json!({ "format": "lathunt-trace-status", "version": 1, "running": running, "report": report });
        crate::out::print(&format!("{status}\n"))?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = match (&session, &holder) {
        (None, _) => "no session\n".to_owned(),
        (Some(session), Some(holder)) => {
            format!("recording into {} (consumer {})\n", session.dir.display(), holder.pid)
        }
        (Some(session), None) => {
            format!(
                "the consumer of {} has died; `lathunt trace recover` writes the rest\n",
                session.dir.display()
            )
        }
    };
    for (enable, rule) in session.iter().flat_map(|session| &session.rules) {
        let _ = writeln!(text, "{} {rule}", if *enable { "enable" } else { "disable" });
    }
    for program in place.programs().iter().filter_map(Program::look) {
        let enabled = program.events.iter().filter(|event| program.enabled(event.id)).count();
        let state = if program.alive() { "" } else { " (dead, not yet written)" };
        let _ = writeln!(
            text,
            "{} {}: {}, {enabled} on, rings of {}{state}",
            program.pid,
            printable::line(&program.comm),
            counted(program.events.len() as u64, "event"),
            counted(program.rings.len().saturating_sub(1) as u64, "thread")
        );
    }
    if let Some(report) = report {
        let _ = writeln!(text, "{}, {} bytes", tally_text(&report.tally), report.written_bytes);
        if let Some(problem) = report.problem {
            let _ = writeln!(text, "cannot write: {problem}");
        }
    }
    crate::out::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Like [`conclude`], if nothing else was recorded: a recording without any event is an error.
#[must_use]
pub fn conclude_alone(status: &Status) -> u8 {
    let code = conclude(status);
    if status.tally != Tally::default() {
        return code;
    }
    eprintln!("lathunt: no event was recorded: no instrumented program ran. {KERNEL}");
    code.max(exit::COULD_NOT_MEASURE)
}

/// How to record programs that are not instrumented.
const KERNEL: &str = "Programs that are not instrumented are recorded with the kernel's events: \
                      `lathunt trace -o DIR -- COMMAND`, or `lathunt trace -o DIR -D 10s`";

/// Prints the counts of events; returns the exit code.
#[must_use]
pub fn conclude(status: &Status) -> u8 {
    let wrote = crate::out::print_or_say(&format!(
        "{}: {}, {} bytes\n",
        status.dir.display(),
        tally_text(&status.tally),
        status.written_bytes
    ));
    if let Some(problem) = &status.problem {
        eprintln!(
            "lathunt: cannot write all events: {problem}; `lathunt trace recover -o DIR` writes elsewhere what is still in memory"
        );
        return exit::COULD_NOT_MEASURE;
    }
    match status.tally.missing() {
        _ if !wrote => exit::COULD_NOT_MEASURE,
        0 => 0,
        _ => exit::INCONCLUSIVE,
    }
}

fn tally_text(tally: &Tally) -> String {
    let mut text = format!("{} recorded", counted(tally.recorded, "event"));
    for (count, what) in [
        (tally.discarded, "discarded (no room)"),
        (tally.unfinished, "unfinished at a program's death"),
        (tally.overwritten, "overwritten by newer ones"),
        (tally.damaged, "unreadable"),
    ] {
        if count > 0 {
            let _ = write!(text, ", {count} {what}");
        }
    }
    text
}

/// `4194304`, `64K`, `4M`, `1G`; not zero.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.chars().last() {
        Some('K' | 'k') => (&text[..text.len() - 1], 10),
        Some('M' | 'm') => (&text[..text.len() - 1], 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    match number {
        Some(0) => Err("must be above 0".to_owned()),
        Some(number) => Ok(number),
        None => Err(format!("'{text}' is not a number of bytes; write for example 64K, 4M or 1G")),
    }
}

/// The size of a program's ring: at least four packets.
fn ring_bytes(text: &str) -> Result<u64, String> {
    let bytes = bytes(text)?;
    match (16 << 10..=1 << 30).contains(&bytes) {
        true => Ok(bytes),
        false => Err("a ring has 16K to 1G".to_owned()),
    }
}

/// A shell pattern that can match an event.
fn pattern(text: &str) -> Result<String, String> {
    match text.trim().is_empty() {
        true => Err("no event has an empty name; write for example 'control:*'".to_owned()),
        false => Ok(text.to_owned()),
    }
}

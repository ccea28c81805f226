//! `lathunt trace --user` and the session verbs: events of instrumented programs into CTF.

use std::ffi::OsString;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{bail, Context};
use clap::{Args, Subcommand};
use lathunt_core::time::{parse_duration, Ns};
use lathunt_host::channel::consumer::{snapshot_all, Consumer, Status};
use lathunt_host::channel::drain::Tally;
use lathunt_host::channel::place::Place;
use lathunt_host::channel::program::Program;
use lathunt_host::channel::session::Session;
use lathunt_host::channel::{daemon, lock};

use crate::exit;

/// Some events were lost, and counted.
const EVENTS_LOST: u8 = 3;

/// Record instrumented programs as CTF 1.8, which babeltrace2 and Trace Compass open.
///
/// Programs use `lathunt/trace.h` or the crate lathunt-tracer. They may run already, or start later. Without a subcommand
/// the recording lasts until COMMAND ends, -D is over, or Ctrl-C.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Record instrumented programs
    #[arg(long, required = true)]
    user: bool,
    #[command(flatten)]
    session: Option<SessionArgs>,
    /// How long; without it until COMMAND ends or Ctrl-C
    #[arg(short = 'D', long, value_name = "TIME", value_parser = seconds)]
    duration: Option<Ns>,
    /// Program to start
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What to record, and where.
#[derive(Debug, Args)]
pub struct SessionArgs {
    /// Directory of the trace; one directory per program is made in it
    #[arg(short = 'o', long, value_name = "DIR")]
    pub output: PathBuf,
    /// Only programs of this name (shell pattern; may be repeated)
    #[arg(long, value_name = "NAME")]
    pub comm: Vec<String>,
    /// Only this process (may be repeated)
    #[arg(long, value_name = "PID")]
    pub pid: Vec<u32>,
    /// Only events of this name (shell pattern, for example 'control:*'; may be repeated)
    #[arg(short = 'e', long = "event", value_name = "PATTERN")]
    pub events: Vec<String>,
    /// Flight recorder: keep the newest events in memory, write them at a snapshot, at the end, and when a program dies
    #[arg(long)]
    pub flight: bool,
    /// Memory per thread, for programs that start from now on
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub ring: Option<u64>,
    /// Write at most so much
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub limit: Option<u64>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start a session that outlives this terminal (and continue one whose consumer has died)
    Start(SessionArgs),
    /// End the session; waits until everything is written
    Stop,
    /// What the session records, from whom, and what was lost
    Status {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Write what the rings hold now into DIR/snapshot-N
    Snapshot,
    /// Write what dead programs, or a dead consumer, have left in memory
    Recover {
        /// Where, when no session is left to continue
        #[arg(short = 'o', long, value_name = "DIR")]
        output: Option<PathBuf>,
    },
    /// Switch events on, in running programs and in those that start later
    Enable {
        /// Shell patterns, for example 'control:*'
        #[arg(required = true, value_name = "PATTERN")]
        events: Vec<String>,
    },
    /// Switch events off
    Disable {
        /// Shell patterns, for example 'control:*'
        #[arg(required = true, value_name = "PATTERN")]
        events: Vec<String>,
    },
}

/// Records, or runs a session's verb.
///
/// # Errors
/// When nothing can be recorded, with what to do about it.
pub fn run(args: TraceArgs) -> anyhow::Result<ExitCode> {
    let place = Place::from_environment();
    match args.verb {
        None => {
            let session = args.session.context("say where: -o DIR")?;
            record(place, &session, args.duration, &args.command)
        }
        Some(Verb::Start(session)) => start(&place, &session),
        Some(Verb::Stop) => {
            let status = daemon::stop(&place)?;
            Ok(status.map_or(ExitCode::SUCCESS, |status| conclude(&status)))
        }
        Some(Verb::Status { json }) => show_status(&place, json),
        Some(Verb::Snapshot) => {
            let session =
                Session::read(&place.session())?.context("there is no session to take a snapshot of")?;
            let (dir, tally) = snapshot_all(&place, &session)?;
            println!("{}: {}", dir.display(), tally_text(&tally));
            Ok(ExitCode::SUCCESS)
        }
        Some(Verb::Recover { output }) => recover(place, output),
        Some(Verb::Enable { events }) => change(&place, true, events),
        Some(Verb::Disable { events }) => change(&place, false, events),
    }
}

/// Records in the foreground until the command ends, the time is over, or a signal comes.
///
/// # Errors
/// When the recording or the command cannot start, or not all can be written.
pub fn record(
    place: Place,
    args: &SessionArgs,
    duration: Option<Ns>,
    command: &[OsString],
) -> anyhow::Result<ExitCode> {
    let stop = daemon::stop_on_signals();
    let consumer = Consumer::start(place, session_of(args)?)?;
    let mut child = match command.split_first() {
        None => None,
        Some((program, arguments)) => {
            let child = Command::new(program).args(arguments).spawn();
            Some(child.with_context(|| format!("cannot start {}", program.to_string_lossy()))?)
        }
    };
    let end = duration.map(|duration| Instant::now() + Duration::from_nanos(duration.0));
    let done = AtomicBool::new(false);
    let status = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(Ordering::Relaxed)
                && end.is_none_or(|end| Instant::now() < end)
                && !child.as_mut().is_some_and(|child| !matches!(child.try_wait(), Ok(None)))
            {
                std::thread::sleep(Duration::from_millis(20));
            }
            done.store(true, Ordering::Relaxed);
        });
        consumer.run(&done)
    })?;
    if let Some(mut child) = child {
        if matches!(child.try_wait(), Ok(None)) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
    Ok(conclude(&status))
}

fn start(place: &Place, args: &SessionArgs) -> anyhow::Result<ExitCode> {
    let mut session = session_of(args)?;
    if let Some(left) = Session::read(&place.session())?.filter(|left| left.dir == session.dir) {
        session.created = left.created; // its consumer has died: the same traces go on
        session.clock_offset_ns = left.clock_offset_ns;
    }
    let consumer = daemon::start(place, &session)?;
    println!("recording into {} (consumer {consumer}); `lathunt trace stop` ends it", session.dir.display());
    Ok(ExitCode::SUCCESS)
}

fn session_of(args: &SessionArgs) -> anyhow::Result<Session> {
    let dir = std::path::absolute(&args.output)?;
    let mut session = Session::new(dir);
    if !args.events.is_empty() {
        session.rules = args.events.iter().map(|pattern| (true, pattern.clone())).collect();
    }
    session.overwrite = args.flight;
    session.ring_bytes = args.ring;
    session.limit_bytes = args.limit;
    session.comms.clone_from(&args.comm);
    session.pids.clone_from(&args.pid);
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
    session.write(&place.session())?;
    Ok(ExitCode::SUCCESS)
}

fn recover(place: Place, output: Option<PathBuf>) -> anyhow::Result<ExitCode> {
    let session = match (Session::read(&place.session())?, output) {
        (Some(session), None) => session,
        (left, Some(dir)) => Session {
            overwrite: left.is_some_and(|left| left.overwrite),
            ..Session::new(std::path::absolute(dir)?)
        },
        (None, None) => bail!("no session is left to continue; say where to write: -o DIR"),
    };
    let consumer = Consumer::start(place, session)?;
    Ok(conclude(&consumer.finish()?))
}

fn show_status(place: &Place, json: bool) -> anyhow::Result<ExitCode> {
    let session = Session::read(&place.session())?;
    let running = lock::is_held(&place.lock());
    let report = daemon::last_report(&place.status()).filter(|_| session.is_some());
    if json {
        println!(
            "{}",
            serde_json::json!({ "format": "lathunt-trace-status", "version": 1, "running": running, "report": report })
        );
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = match (&session, running) {
        (None, _) => "no session\n".to_owned(),
        (Some(session), true) => {
            format!("recording into {} (consumer {})\n", session.dir.display(), session.consumer)
        }
        (Some(session), false) => {
            format!(
                "the consumer of {} has died; `lathunt trace recover` writes the rest\n",
                session.dir.display()
            )
        }
    };
    for (enable, rule) in session.iter().flat_map(|session| &session.rules) {
        let _ = writeln!(text, "{} {rule}", if *enable { "enable" } else { "disable" });
    }
    for program in place.programs().iter().filter_map(|path| Program::open(path)) {
        let enabled = program.events.iter().filter(|event| program.enabled(event.id)).count();
        let state = if program.alive() { "" } else { " (dead, not yet written)" };
        let _ = writeln!(
            text,
            "{} {}: {} events, {enabled} on, {} threads' rings{state}",
            program.pid,
            program.comm,
            program.events.len(),
            program.rings.len().saturating_sub(1)
        );
    }
    if let Some(report) = report {
        let _ = writeln!(text, "{}, {} bytes", tally_text(&report.tally), report.written_bytes);
        if let Some(problem) = report.problem {
            let _ = writeln!(text, "cannot write: {problem}");
        }
    }
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}

fn conclude(status: &Status) -> ExitCode {
    println!("{}: {}, {} bytes", status.dir.display(), tally_text(&status.tally), status.written_bytes);
    let Tally { discarded, unfinished, damaged, .. } = status.tally;
    if let Some(problem) = &status.problem {
        eprintln!("lathunt: cannot write all events: {problem}");
        return exit::COULD_NOT_MEASURE.into();
    }
    if discarded + unfinished + damaged > 0 {
        EVENTS_LOST.into()
    } else {
        ExitCode::SUCCESS
    }
}

fn tally_text(tally: &Tally) -> String {
    let mut text = format!("{} events recorded", tally.recorded);
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

fn seconds(text: &str) -> Result<Ns, String> {
    parse_duration(text, Ns(1_000_000_000)).map_err(|error| error.to_string())
}

/// `4194304`, `64K`, `4M`, `1G`.
fn bytes(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.chars().last() {
        Some('K' | 'k') => (&text[..text.len() - 1], 10),
        Some('M' | 'm') => (&text[..text.len() - 1], 20),
        Some('G' | 'g') => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    let number = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    number.ok_or_else(|| format!("'{text}' is not a number of bytes; write for example 64K, 4M or 1G"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: TraceArgs,
    }

    #[test]
    fn the_forms_of_the_manual_are_understood() {
        let args = Line::try_parse_from("trace --user --comm motion* -o /tmp/x -D 5s -- sleep 1".split(' '))
            .map(|line| line.args);
        let args = args.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!((args.command.len(), args.duration), (2, Some(Ns(5_000_000_000))));
        for line in [
            "trace start -o /tmp/x --flight --ring 64K -e control:*",
            "trace stop",
            "trace status --json",
            "trace snapshot",
            "trace recover",
            "trace recover -o /tmp/y",
            "trace enable a:b c:*",
            "trace disable a:b",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_ok(), "{line}");
        }
        for line in ["trace", "trace --user", "trace start", "trace enable", "trace start -o x --limit 5X"] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }
}

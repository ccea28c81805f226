//! `lathunt trace`: records the kernel and instrumented programs.

mod kernel;
mod maps;
pub mod programs;
mod session;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::{bail, Context};
use clap::Args;
use lathunt_core::time::Ns;
use lathunt_host::channel::place::Place;
use lathunt_host::tracefs::EventSet;

use super::{units, user};
use programs::{SessionArgs, Verb};
use session::Plan;

/// Record kernel events, and instrumented programs, on one clock, for `lathunt explain`.
///
/// Without --user, the kernel is recorded to DIR/trace.dat (readable by trace-cmd and KernelShark), with the memory maps,
/// kernel symbols and conditions needed to explain it later; pass the whole directory to `lathunt explain`. With only --user,
/// instrumented programs are recorded as CTF 1.8, readable by babeltrace2 and Trace Compass; --user with --events or --function
/// records both. Programs use `lathunt/trace.h` or the crate lathunt-tracer; they may be running already, or start later.
/// Without a subcommand, the recording ends when COMMAND exits, after -D, or on Ctrl-C.
///
/// Kernel events are recorded in a private tracefs instance; other users of tracing are not affected. Exit status 3: events
/// were lost; the trace states their number and position.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct TraceArgs {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Kernel events to record: rt (default; the events that explain needs), min (switches, wake-ups, interrupts), or full
    /// (also all system calls). With --flight, this selects only system calls: rt selects markers, futexes, and calls that set
    /// priorities and CPUs of threads
    #[arg(long = "events", value_name = "SET")]
    kernel_events: Option<EventSet>,
    /// Also record every kernel function, to see where the kernel spends its time. This costs several times as much and changes
    /// the latencies of the machine
    #[arg(long)]
    function: bool,
    /// Record instrumented programs; with --events or --function also the kernel
    #[arg(long)]
    user: bool,
    #[command(flatten)]
    session: Option<SessionArgs>,
    /// Length of the recording [default: until COMMAND exits, or Ctrl-C]
    #[arg(short = 'D', long, value_name = "TIME", value_parser = units::seconds)]
    duration: Option<Ns>,
    /// Run COMMAND as this user [default: the user who called sudo, else the current user]
    #[arg(long, value_name = "NAME", requires = "command")]
    run_as: Option<String>,
    /// Program to start
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Records, or runs a subcommand of a session.
///
/// # Errors
/// If nothing can be recorded, with a remedy.
pub fn run(args: TraceArgs) -> anyhow::Result<ExitCode> {
    if let Some(verb) = args.verb {
        return programs::run(verb);
    }
    let session = args.session.context("no output directory: name one with -o DIR")?;
    if let Some(option) = session.selects_programs().filter(|_| !args.user) {
        bail!("{option} selects from instrumented programs, which are recorded with --user only; kernel events are selected with --events");
    }
    let kernel = args.kernel_events.is_some() || args.function || !args.user;
    session::record(&Plan {
        place: Place::from_environment(),
        events: kernel.then(|| args.kernel_events.unwrap_or_default()),
        functions: args.function,
        user: args.user,
        session,
        duration: args.duration,
        as_user: user::of_command(args.run_as.as_deref(), "--run-as", &args.command)?,
        command: args.command,
    })
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
            "trace -o /tmp/x",
            "trace --events full -o /tmp/x -- sleep 1",
            "trace --user --events rt --function --flight -o /tmp/x -D 1",
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
        for line in [
            "trace start",
            "trace enable",
            "trace enable ",
            "trace start -o x --limit 5X",
            "trace start -o x --limit 0",
            "trace start -o x --ring 4K",
            "trace start -o x --ring 2G",
            "trace --events some -o x",
        ] {
            assert!(Line::try_parse_from(line.split(' ')).is_err(), "{line}");
        }
    }

    #[test]
    fn options_that_select_from_programs_are_refused_without_programs() {
        for option in ["-e control:*", "--comm motion", "--pid 1"] {
            let line = format!("trace -o /nonexistent/x {option} -D 1");
            let said = run(Line::try_parse_from(line.split(' ')).ok().unwrap().args).unwrap_err().to_string();
            assert!(said.starts_with(option.split(' ').next().unwrap()) && said.contains("--user"), "{said}");
        }
    }

    #[test]
    fn without_a_directory_nothing_is_recorded() {
        for line in ["trace", "trace --user"] {
            let Ok(line) = Line::try_parse_from(line.split(' ')) else { continue };
            assert!(run(line.args).is_err());
        }
    }
}

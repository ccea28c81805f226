//! The command line: one subcommand per question.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::{cmd, exit};

/// Does this machine meet its deadline, how sure can I be, and when it does not, what caused it?
///
/// Exit status, unless the page of a command states more: 0 success, and within the deadline or threshold if one was given;
/// 1 error or invalid arguments; 2 a deadline or threshold was exceeded; 3 inconclusive: losses or gaps may hide a
/// violation.
#[derive(Parser)]
#[command(name = "lathunt", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Overwrite files not written by lathunt; overwrite earlier runs instead of renaming them to *.old
    #[arg(long, global = true, help_heading = "Files")]
    force: bool,
    /// Allow output directories owned by another user, who could replace the files
    #[arg(long, global = true, help_heading = "Files")]
    allow_foreign_directory: bool,
}

// `about` and no comment: a comment would hide the long help of the arguments.
#[derive(Subcommand)]
enum Command {
    #[command(about = "Measure this machine under load, explain its worst latencies, give a verdict")]
    Hunt(cmd::hunt::HuntArgs),
    #[command(
        about = "Measure cyclic latency (drop-in replacement for cyclictest when called by that name)"
    )]
    Cyclic(cmd::cyclic::CyclicArgs),
    #[command(about = "Check whether this machine is set up for real time")]
    Check(cmd::check::CheckArgs),
    #[command(
        about = "Detect time taken by hardware, firmware or the hypervisor (hwlatdetect when called by that name)"
    )]
    Hwlat(cmd::hwlat::HwlatArgs),
    #[command(about = "Measure interruptions of a busy loop, with the cause of each gap")]
    Npt(cmd::npt::NptArgs),
    #[command(about = "Measure the cost of reading the clock, for each path")]
    Clock(cmd::clock::ClockArgs),
    #[command(about = "Explain latencies in a recorded trace: where the time went, and the cause")]
    Explain(cmd::explain::ExplainArgs),
    #[command(about = "Isolate CPUs for real-time work, verify the isolation, restore everything")]
    Isolate(cmd::isolate::IsolateArgs),
    #[command(
        about = "Record the latency of every real-time task of a production system, continuously (daemon with history)"
    )]
    Monitor(cmd::monitor::MonitorArgs),
    #[command(about = "Show the maxima of consecutive windows recorded by monitor")]
    History(cmd::history::HistoryArgs),
    #[command(about = "Report the maxima recorded by monitor as a plug-in for munin-node")]
    Munin(cmd::munin::MuninArgs),
    #[command(about = "Inject a known disturbance, to verify that the instruments detect it")]
    Inject(cmd::inject::InjectArgs),
    #[command(
        about = "Record the latency of every real-time task of the running system, or of one program, with causes"
    )]
    Record(cmd::record::RecordArgs),
    #[command(about = "Measure round trips from outside: from a stimulus to its answer")]
    Box(cmd::latency_box::BoxArgs),
    #[command(about = "Answer the stimuli of box, on the machine under test")]
    Respond(cmd::respond::RespondArgs),
    #[command(about = "Plot the latencies of one or more runs")]
    Plot(cmd::plot::PlotArgs),
    #[command(about = "Estimate latencies not seen yet: observed, bound, extrapolated")]
    Bound(cmd::bound::BoundArgs),
    #[command(about = "Write the report of a run")]
    Report(cmd::report::ReportArgs),
    #[command(about = "Compare runs side by side")]
    Compare(cmd::compare::CompareArgs),
    #[command(about = "Merge the runs of several machines into one")]
    Merge(cmd::merge::MergeArgs),
    #[command(about = "Convert the results of another latency tool into a run")]
    Import(cmd::import::ImportArgs),
    #[command(about = "Analyse real-time task sets, and run them")]
    Tasks(cmd::tasks::TasksArgs),
    #[command(about = "Restore settings that a killed lathunt left changed")]
    Restore(cmd::restore::RestoreArgs),
    #[command(about = "Record kernel events and instrumented programs on one clock, for explain")]
    Trace(cmd::trace::TraceArgs),
    #[command(about = "Print a shell completion script")]
    Completions(cmd::completions::CompletionsArgs),
}

/// Printed by `lathunt` without arguments: the first commands to try.
const FIRST_HOUR: &str = "\
lathunt: does this Linux machine meet its deadline, how sure can I be, and what caused each late case?

  lathunt check                               check whether this machine is set up for real time
  lathunt hunt -D 60s --deadline 100us        measure it under load, explain the worst cases, give a verdict
  lathunt record --deadline 1ms -- ./app      find late threads of a program, and the causes
  lathunt explain trace.dat                   explain the worst wake-up in a recorded trace
  lathunt monitor --help                      monitor a production system for months

All commands: lathunt --help. Options of a command: lathunt COMMAND --help. Full results need root or capabilities.
";

/// Parses the process's arguments and runs the command.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(_) if std::env::args_os().len() <= 1 => {
            let _ = crate::out::print(FIRST_HOUR); // a reader that left is not an error
            return exit::COULD_NOT_MEASURE.into();
        }
        Err(error) if error.use_stderr() => {
            // clap would print a paragraph and exit with 2, which here means "deadline exceeded".
            eprintln!("lathunt: {}", exit::shortened(&exit::usage_error(&error)));
            return exit::COULD_NOT_MEASURE.into();
        }
        Err(help) => {
            let text = help.render();
            let text = if crate::out::has_colour() { text.ansi().to_string() } else { text.to_string() };
            return match crate::out::print_or_say(&text) {
                true => ExitCode::SUCCESS,
                false => exit::COULD_NOT_MEASURE.into(),
            };
        }
    };
    if lathunt_host::stdout::was_closed() {
        eprintln!("lathunt: stdout is closed: what a command prints is lost; results are only in files named with -o");
    }
    crate::file::allow(cli.force, cli.allow_foreign_directory);
    match cli.command {
        Command::Restore(_) => {}
        Command::Isolate(_) => cmd::restore::settings_after_kill(),
        _ => cmd::restore::all_after_kill(),
    }
    let outcome = match cli.command {
        Command::Hunt(args) => cmd::hunt::run(args),
        Command::Explain(args) => cmd::explain::run(args),
        Command::Cyclic(args) => {
            cmd::cyclic::run(args, &mut |measured| Some(cmd::cyclic::breaktrace::watch(measured)))
        }
        Command::Check(args) => cmd::check::run(args),
        Command::Hwlat(args) => cmd::hwlat::run(args),
        Command::Npt(args) => cmd::npt::run(args),
        Command::Clock(args) => cmd::clock::run(args),
        Command::Isolate(args) => cmd::isolate::run(args),
        Command::Monitor(args) => cmd::monitor::run(args),
        Command::History(args) => cmd::history::run(args),
        Command::Munin(args) => cmd::munin::run(args),
        Command::Inject(args) => cmd::inject::run(args),
        Command::Record(args) => cmd::record::run(args),
        Command::Box(args) => cmd::latency_box::run(args),
        Command::Respond(args) => cmd::respond::run(args),
        Command::Plot(args) => cmd::plot::run(args),
        Command::Bound(args) => cmd::bound::run(args),
        Command::Report(args) => cmd::report::run(args),
        Command::Compare(args) => cmd::compare::run(args),
        Command::Merge(args) => cmd::merge::run(args),
        Command::Import(args) => cmd::import::run(args),
        Command::Restore(args) => cmd::restore::run(args),
        Command::Tasks(args) => cmd::tasks::run(args),
        Command::Trace(args) => cmd::trace::run(args),
        Command::Completions(args) => cmd::completions::run(&args, &mut Cli::command()),
    };
    lathunt_host::beneath::remove_empty();
    outcome.unwrap_or_else(|error| {
        eprintln!("lathunt: {}", exit::one_line(&error));
        exit::COULD_NOT_MEASURE.into()
    })
}

#[cfg(test)]
mod examples;

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::path::Path;

    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    /// One manual page per command, generated from the same text as `--help`. `LATHUNT_BLESS=1` writes them anew.
    #[test]
    fn manual_pages_say_what_the_help_says() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man");
        // It has no page of its own.
        let mut whole = Cli::command().disable_help_subcommand(true);
        whole.build();
        let mut pages = vec![("lathunt.1".to_owned(), page("lathunt", whole.clone()))];
        add_pages_below(&whole, "lathunt", &mut pages);
        for (file, text) in pages {
            let path = folder.join(&file);
            if std::env::var_os("LATHUNT_BLESS").is_some() {
                std::fs::write(&path, &text).unwrap();
            }
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(
                kept == text,
                "docs/man/{file} is stale: LATHUNT_BLESS=1 cargo test -p lathunt writes it anew"
            );
        }
    }

    /// Pages of the commands below `command`, recursively.
    fn add_pages_below(command: &clap::Command, name: &str, pages: &mut Vec<(String, String)>) {
        for below in command.get_subcommands() {
            let name = format!("{name}-{}", below.get_name());
            let named = below.clone().name(name.clone()).version(env!("CARGO_PKG_VERSION"));
            pages.push((format!("{name}.1"), page(&name, named)));
            add_pages_below(below, &name, pages);
        }
    }

    fn page(name: &str, command: clap::Command) -> String {
        let mut bytes = Vec::new();
        clap_mangen::Man::new(command).date("").render(&mut bytes).unwrap();
        let examples = examples::of(name);
        assert!(!examples.is_empty(), "{name}: cli/src/cli/examples.rs has no example");
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('-', "\\-").replace('\'', "\\(aq");
        let mut text = String::from_utf8(bytes).unwrap() + ".SH EXAMPLES\n";
        for (typed, does) in examples {
            let _ = write!(text, ".TP\n\\fB{}\\fR\n{}\n", escaped(typed), escaped(does));
        }
        text
    }
}

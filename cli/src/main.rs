//! The `lathunt` binary: arguments, terminal, files, exit codes.

mod cmd;
mod file;

use std::process::ExitCode;

use clap::Parser;

/// Does this machine meet its deadline, how sure can I be, and when it does not, who did it?
#[derive(Debug, Parser)]
#[command(name = "lathunt", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Report(cmd::report::ReportArgs),
    Plot(cmd::plot::PlotArgs),
    Compare(cmd::compare::CompareArgs),
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            // Not clap's 2: that is "deadline exceeded" here.
            return if error.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let done = match cli.command {
        Command::Report(args) => cmd::report::run(args),
        Command::Plot(args) => cmd::plot::run(args),
        Command::Compare(args) => cmd::compare::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lathunt: {error:#}");
        ExitCode::from(1)
    })
}

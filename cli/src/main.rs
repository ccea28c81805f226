//! The `lathunt` binary: arguments, terminal, files, exit codes.

mod cmd;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Restore(cmd::restore::RestoreArgs),
}

fn main() -> ExitCode {
    // Not clap's own exit code: 2 is "deadline exceeded" here.
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(said) => {
            let _ = said.print();
            return ExitCode::from(u8::from(said.use_stderr()));
        }
    };
    let done = match arguments.command {
        Command::Restore(args) => cmd::restore::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lathunt: {error:#}");
        ExitCode::from(1)
    })
}

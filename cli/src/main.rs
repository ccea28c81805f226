//! The `lathunt` binary: arguments, terminal, files, exit codes.

use std::ffi::OsStr;
use std::path::Path;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod cmd;

#[derive(Parser)]
#[command(
    name = "lathunt",
    version,
    about = "Does this machine meet its deadline, how sure can I be, and who did it?"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// How late does a timed thread wake up?
    Cyclic(cmd::cyclic::CyclicArgs),
    /// Turns the output of cyclictest (text or JSON) into run files.
    Import(cmd::import::ImportArgs),
}

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let name = words.first().and_then(|name| Path::new(name).file_name());
    if name == Some(OsStr::new("cyclictest")) {
        return cmd::cyclictest::main(words);
    }
    let done = match Cli::parse().command {
        Command::Cyclic(args) => cmd::cyclic::run(args),
        Command::Import(args) => cmd::import::run(args),
    };
    done.unwrap_or_else(|error| {
        eprintln!("lathunt: {error:#}");
        ExitCode::FAILURE
    })
}

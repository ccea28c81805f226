//! The `lathunt` binary: arguments, terminal, files, exit codes. What it does is in `lathunt_host` and `lathunt_core`.

mod cli;
mod cmd;
mod exit;
mod file;
mod hunt;
mod live;
mod out;

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<_> = std::env::args_os().collect();
    let called_as = words.first().map(std::path::Path::new);
    match called_as.and_then(|path| path.file_name()?.to_str()) {
        Some("cyclictest") => cmd::cyclictest::main(words),
        _ => cli::main(),
    }
}

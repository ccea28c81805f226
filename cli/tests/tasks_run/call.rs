//! A command with an input.

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What `command` did with `input` as its standard input.
pub fn with_input(command: &mut Command, input: &str) -> Output {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // A command that refuses its arguments does not read.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// `lathunt` itself.
pub fn lathunt(arguments: &[&str], input: &str) -> Output {
    with_input(Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments), input)
}

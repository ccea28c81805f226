//! The first hour of a new user: what they type next is in what was printed before.

mod examples;
mod questions;
mod rights;
mod terminal;
mod users;

use std::process::{Command, Output, Stdio};

fn lathunt() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.stdin(Stdio::null());
    command
}

/// What a command printed, on both outputs, and how it ended.
fn told(output: &Output) -> (String, Option<i32>) {
    let text = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    (text.concat(), output.status.code())
}

//! Standard output: a pipe whose reader left (`lathunt … | head`) ends the text, not the measurement. A stdout that is
//! closed (`>&-`) or full loses the result, and is an error.

use std::io::{self, IsTerminal};

use lathunt_core::printable;
use lathunt_core::report::text::Screen;
use lathunt_host::stdout;

/// Writes `text` to stdout, without control characters except line ends, tabs and colours, and without lines that a CI
/// system would treat as commands.
///
/// # Errors
/// As [`bytes`].
pub fn print(text: &str) -> io::Result<()> {
    print_with_commands(&printable::no_commands(text))
}

/// [`print()`] of a text that contains commands for a CI system, and is built so that untrusted names add none.
pub fn print_with_commands(text: &str) -> io::Result<()> {
    let colour = has_colour();
    let is_ours = |code: &str| colour && code.starts_with('[') && code.ends_with('m');
    bytes(printable::lines(text, is_ours).as_bytes())
}

/// Writes `bytes` to stdout as they are.
///
/// # Errors
/// One line: stdout is closed or not writable, or its disk is full. A pipe whose reader left is not an error.
pub fn bytes(bytes: &[u8]) -> io::Result<()> {
    match stdout::write(bytes) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        // Callers pass it on as it is: the message must name the object.
        Err(error) => Err(io::Error::new(error.kind(), format!("cannot write to stdout: {error}"))),
        Ok(()) => Ok(()),
    }
}

/// [`print()`] for a caller that ends with an exit code: a failure is reported, and returns false.
pub fn print_or_say(text: &str) -> bool {
    let written = print(text);
    if let Err(error) = &written {
        eprintln!("lathunt: {error}");
    }
    written.is_ok()
}

/// The screen of stdout: its size and colour on a terminal only. Elsewhere, and with `all`, everything is shown.
#[must_use]
pub fn screen<'a>(paths: &'a [(&'a str, &'a str)], all: bool) -> Screen<'a> {
    let size = io::stdout().is_terminal().then(lathunt_host::terminal::size_of_stdout).flatten();
    let width = size.map_or(100, |(columns, _)| columns).clamp(60, 160);
    // The prompt needs one.
    let lines = size.map_or(0, |(_, lines)| if lines == 0 { 24 } else { lines.max(24) - 1 });
    Screen { width, lines: if all { 0 } else { lines }, colour: has_colour(), paths }
}

/// Whether stdout is a terminal on which colours are requested (no-color.org) and possible.
#[must_use]
pub fn has_colour() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|set| set.is_empty()) && !is_dumb()
}

/// Whether stderr can be redrawn: a terminal that supports escape sequences.
#[must_use]
pub fn can_draw() -> bool {
    io::stderr().is_terminal() && !is_dumb()
}

fn is_dumb() -> bool {
    std::env::var_os("TERM").is_some_and(|kind| kind == "dumb")
}

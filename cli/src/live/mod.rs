//! What is shown while a measurement runs: a table that is redrawn on a terminal, a line now and then elsewhere.
//!
//! [`state`] never draws, [`view`] never computes; [`Display`] owns the terminal and nothing else.

pub mod state;
pub mod ticker;
pub mod view;

use std::io::Write;
use std::time::{Duration, Instant};

use state::Progress;

/// Redraws the table on a terminal (twice a second); elsewhere writes one line every ten seconds. All on stderr, so
/// that stdout carries the result alone.
pub struct Display {
    terminal: bool,
    quiet: bool,
    drawn_lines: usize,
    last: Instant,
}

impl Display {
    /// A display; `quiet` shows nothing.
    #[must_use]
    pub fn new(quiet: bool) -> Display {
        Display { terminal: crate::out::can_draw(), quiet, drawn_lines: 0, last: Instant::now() }
    }

    /// Whether it is time to show something new: twice a second on a terminal, every ten seconds elsewhere.
    #[must_use]
    pub fn is_due(&self) -> bool {
        let every = if self.terminal { Duration::from_millis(500) } else { Duration::from_secs(10) };
        !self.quiet && self.last.elapsed() >= every
    }

    /// Shows `progress` now.
    pub fn show(&mut self, progress: &Progress) {
        if self.quiet {
            return;
        }
        self.last = Instant::now();
        let mut err = std::io::stderr().lock();
        if self.terminal {
            let lines = view::table(progress, terminal_columns());
            let up = if self.drawn_lines > 0 { format!("\x1b[{}F", self.drawn_lines) } else { String::new() };
            let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
            // A terminal that went away must not end the measurement.
            let _ = write!(err, "{up}{text}\x1b[J");
            self.drawn_lines = lines.len();
        } else {
            let _ = writeln!(err, "{}", view::line(progress));
        }
    }

    /// A message that stays on the screen, above the table.
    pub fn say(&mut self, message: &str) {
        if self.quiet {
            return;
        }
        let mut err = std::io::stderr().lock();
        if self.drawn_lines > 0 {
            let _ = write!(err, "\x1b[{}F\x1b[J", self.drawn_lines);
            self.drawn_lines = 0;
        }
        let _ = writeln!(err, "{message}");
    }

    /// Removes the table; the result follows.
    pub fn finish(&mut self) {
        if self.drawn_lines > 0 {
            let _ = write!(std::io::stderr().lock(), "\x1b[{}F\x1b[J", self.drawn_lines);
            self.drawn_lines = 0;
        }
    }
}

/// Width of the terminal on stderr; 100 where unknown.
fn terminal_columns() -> usize {
    lathunt_host::terminal::columns().unwrap_or(100)
}

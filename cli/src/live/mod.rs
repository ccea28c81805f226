//! Display of a running measurement: a table that is redrawn on a terminal, a line now and then elsewhere.
//!
//! [`state`] never draws, [`view`] never computes; [`Display`] owns only the terminal.

pub mod state;
pub mod ticker;
pub mod view;

use std::io::Write;
use std::time::{Duration, Instant};

use state::Progress;

/// Redraws the table on a terminal (twice a second); elsewhere writes one line every ten seconds. All on stderr, so
/// that stdout carries only the result.
pub struct Display {
    terminal: bool,
    quiet: bool,
    /// Characters of each line that is drawn.
    drawn: Vec<usize>,
    keys: bool,
    last: Instant,
}

impl Display {
    /// A display; `quiet` shows nothing.
    #[must_use]
    pub fn new(quiet: bool) -> Display {
        Display {
            terminal: crate::out::can_draw(),
            quiet,
            drawn: Vec::new(),
            keys: false,
            last: Instant::now(),
        }
    }

    /// Whether an update is due: twice a second on a terminal, every ten seconds elsewhere.
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
            let (columns, rows) = lathunt_host::terminal::size_of_stderr().unwrap_or((100, 24));
            let mut lines = view::table(
                progress,
                columns,
                rows.saturating_sub(usize::from(self.keys) * view::KEYS.len()),
            );
            if self.keys {
                lines.extend(view::KEYS.map(|line| line.chars().take(columns.saturating_sub(1)).collect()));
            }
            let up = self.up(columns);
            let text: String = lines.iter().map(|line| format!("{line}\x1b[K\n")).collect();
            // A terminal that went away must not end the measurement.
            let _ = write!(err, "{up}\x1b[J{text}");
            self.drawn = lines.iter().map(|line| line.chars().count()).collect();
        } else {
            let _ = writeln!(err, "{}", view::line(progress));
        }
    }

    /// Prints a message that stays on the screen, above the table.
    pub fn say(&mut self, message: &str) {
        if self.quiet {
            return;
        }
        let mut err = std::io::stderr().lock();
        let _ = write!(err, "{}", self.erased());
        self.drawn.clear();
        let _ = writeln!(err, "{message}");
    }

    /// Shows the keys below the table, or hides them.
    pub fn toggle_keys(&mut self) {
        self.keys = !self.keys;
    }

    /// Moves to the first line of the table. A terminal that became narrower has wrapped lines.
    fn up(&self, columns: usize) -> String {
        let lines: usize = self.drawn.iter().map(|&length| length.div_ceil(columns.max(1)).max(1)).sum();
        if lines > 0 {
            format!("\x1b[{lines}F")
        } else {
            String::new()
        }
    }

    fn erased(&self) -> String {
        let columns = lathunt_host::terminal::size_of_stderr().map_or(100, |(columns, _)| columns);
        match self.up(columns) {
            up if up.is_empty() => up,
            up => up + "\x1b[J",
        }
    }

    /// Removes the table; the result follows.
    pub fn finish(&mut self) {
        let _ = write!(std::io::stderr().lock(), "{}", self.erased());
        self.drawn.clear();
    }
}

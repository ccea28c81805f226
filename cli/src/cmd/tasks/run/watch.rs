//! Progress of a run on a terminal.

use lathunt_core::tasks::jobs::Job;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::signals;
use lathunt_host::tasks::{Progress, Watch};

use crate::out;

/// A line a second, on a terminal; elsewhere at SIGUSR1 alone.
pub struct Display {
    duration: Option<Ns>,
    draws: bool,
    drawn: Option<Ns>,
}

impl Display {
    /// `quiet`: no line.
    pub fn new(duration: Option<Ns>, quiet: bool) -> Display {
        Display { duration, draws: !quiet && out::can_draw(), drawn: None }
    }

    /// Ends the line.
    pub fn finish(&mut self) {
        if self.drawn.is_some() && self.draws {
            eprintln!();
        }
    }
}

impl Watch for Display {
    fn progress(&mut self, progress: &Progress) {
        const SECOND: Ns = Ns(1_000_000_000);
        let due = progress.elapsed.saturating_sub(self.drawn.unwrap_or_default()) >= SECOND;
        if !(self.draws && due || signals::take_status_request()) {
            return;
        }
        self.drawn = Some(progress.elapsed);
        let of = self.duration.map(|duration| format!(" of {:.0}", duration.as_secs())).unwrap_or_default();
        let Progress { elapsed, jobs, misses, longest } = progress;
        let line =
            format!("{:.0}{of} s, {jobs} jobs, {misses} late, longest response {longest}", elapsed.as_secs());
        match self.draws {
            true => eprint!("\r{line}\x1b[K"),
            false => eprintln!("{line}"),
        }
    }

    fn job(&mut self, _: usize, _: &Job) {}

    fn begins(&mut self, _: Mono) {}
}

//! Observers of a running set: progress on a terminal, the logs, the jobs around the worst one.

use lathunt_core::numbers::counted;
use lathunt_core::tasks::jobs::Job;
use lathunt_core::tasks::outcome::Executed;
use lathunt_core::time::{Mono, Ns};
use lathunt_host::signals;
use lathunt_host::tasks::{Progress, Watch};

use super::log::Logs;
use super::stretch::Stretch;
use crate::out;

/// One line per second on a terminal; elsewhere only at SIGUSR1.
pub struct Display<'a> {
    duration: Option<Ns>,
    draws: bool,
    drawn: Option<Ns>,
    /// Logs of jobs.
    pub logs: Option<Logs>,
    /// Jobs around the worst one.
    pub stretch: Stretch,
    save: Option<&'a mut dyn FnMut(&Executed)>,
}

impl<'a> Display<'a> {
    /// `quiet`: no line. `save`: receives the run so far.
    pub fn new(
        duration: Option<Ns>,
        quiet: bool,
        logs: Option<Logs>,
        save: Option<&'a mut dyn FnMut(&Executed)>,
    ) -> Display<'a> {
        let draws = !quiet && out::can_draw();
        Display { duration, draws, drawn: None, logs, stretch: Stretch::default(), save }
    }

    /// Ends the line.
    pub fn finish(&mut self) {
        if self.drawn.is_some() && self.draws {
            eprintln!();
        }
    }
}

impl Watch for Display<'_> {
    fn progress(&mut self, progress: &Progress) {
        const SECOND: Ns = Ns(1_000_000_000);
        let due = progress.elapsed.saturating_sub(self.drawn.unwrap_or_default()) >= SECOND;
        if !(self.draws && due || signals::take_status_request()) {
            return;
        }
        self.drawn = Some(progress.elapsed);
        let of = self.duration.map(|duration| format!(" of {:.0}", duration.as_secs())).unwrap_or_default();
        let Progress { elapsed, jobs, misses, longest } = progress;
        let line = format!(
            "{:.0}{of} s, {}, {misses} late, longest response {longest}",
            elapsed.as_secs(),
            counted(*jobs, "job")
        );
        match self.draws {
            true => eprint!("\r{line}\x1b[K"),
            false => eprintln!("{line}"),
        }
    }

    fn job(&mut self, thread: usize, job: &Job) {
        self.stretch.job(thread, job);
        if let Some(logs) = &mut self.logs {
            logs.job(thread, job);
        }
    }

    fn so_far(&mut self, executed: &Executed) {
        if let Some(save) = &mut self.save {
            save(executed);
        }
    }

    fn begins(&mut self, at: Mono) {
        if let Some(logs) = &mut self.logs {
            logs.begins(at);
        }
    }
}

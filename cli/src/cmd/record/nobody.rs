//! Nothing was recorded of a task, or no task matches: lists the running tasks, and the option that records them.

use lathunt_core::conditions::SLEPT_THROUGHOUT;
use lathunt_core::run::Run;
use lathunt_host::recording::running::{running, Running};
use lathunt_host::recording::Selection;

use super::session::Plan;

/// Maximum number of tasks named.
const NAMED: usize = 8;

impl Plan {
    /// Message before the recording, if no real-time task is running that it would record.
    pub(super) fn nobody_yet(&self) -> Option<String> {
        let waits = self.selection == Selection::RealTime && self.command.is_empty();
        let all = if waits { running() } else { return None };
        if all.iter().any(|one| one.is_real_time) {
            return None;
        }
        Some(format!("no real-time task runs now, and it waits for one. {}", others(&all)))
    }

    /// Prints the notes made at the end of the recording, except those in the summary, and adds them to `notes`.
    pub(super) fn note_at_end(&self, fresh: &[String], notes: &mut Vec<String>) {
        if !self.quiet {
            let is_in_summary = |note: &&String| !self.json && note.starts_with(SLEPT_THROUGHOUT);
            fresh.iter().filter(|note| !is_in_summary(note)).for_each(|note| eprintln!("lathunt: {note}"));
        }
        notes.extend_from_slice(fresh);
    }

    /// Message at the end, if no sample was taken.
    pub(super) fn nobody(&self) -> String {
        let all = running();
        let real_time: Vec<String> =
            all.iter().filter(|one| one.is_real_time).take(NAMED).map(ToString::to_string).collect();
        let there = match real_time.as_slice() {
            [] => "There is no real-time task".to_owned(),
            some => format!("Real-time tasks that run now: {}", some.join(", ")),
        };
        format!("no sample was taken, and nothing is kept. {there}. {}", others(&all))
    }
}

fn others(all: &[Running]) -> String {
    let others: Vec<&Running> = all.iter().filter(|one| !one.is_real_time).take(NAMED).collect();
    let Some(first) = others.first() else { return "Start one, or name it as COMMAND".to_owned() };
    let names: Vec<String> = others.iter().map(ToString::to_string).collect();
    format!(
        "Ordinary tasks with the most CPU time: {}. To record one, name its process or its name (--tasks pid:{}, --tasks \
         'comm:{}'), or all (--tasks all)",
        names.join(", "),
        first.pid,
        first.comm
    )
}

/// Whether no task was recorded, and nothing else was measured.
pub(super) fn is_empty(run: &Run) -> bool {
    let silent = run.series.iter().all(|series| series.histogram.count() == 0 && series.lost == 0);
    let others = run.penalty.is_some() || !run.path_analysis.is_empty();
    silent && run.tasks.is_empty() && run.peaks.is_empty() && !others
}

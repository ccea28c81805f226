//! Follows running sessions: the live view, Ctrl-C, the pages for others.

use std::sync::Arc;
use std::time::Duration;

use lathunt_core::conditions::Conditions;
use lathunt_core::run::Run;
use lathunt_core::time::Ns;
use lathunt_host::latency_box::{Finished, Options};
use lathunt_host::{sched, signals};

use super::open::End;
use super::record::{self, Recording};
use super::serve::Server;
use crate::cmd::latency_box::BoxArgs;
use crate::live::state::{Progress, Row};
use crate::live::Display;

/// Observers of the measurement.
#[derive(Default)]
pub struct Others<'o> {
    /// Serves its pages.
    pub server: Option<&'o Server>,
    /// Kernel events of the worst round trips.
    pub recording: Option<&'o mut Recording>,
}

/// Runs until all sessions are over. Returns their results, and the duration.
pub fn follow(
    args: &BoxArgs,
    ends: Vec<End>,
    mut others: Others<'_>,
    conditions: &Conditions,
) -> (Vec<(Options, Finished)>, Ns) {
    let mut display = Display::new(args.quiet || args.json);
    let mut asked_to_end = false;
    loop {
        let running = ends.iter().filter(|end| end.session.is_running()).count();
        if running == 0 {
            break;
        }
        let stop = signals::stop_requested().is_some() || sched::rt_time_exceeded();
        // A session that hits its break limit ends all.
        let broke = args.break_at.is_some() && running < ends.len();
        if (stop || broke) && !asked_to_end {
            ends.iter().for_each(|end| end.session.end());
            asked_to_end = true;
        }
        if display.is_due() || signals::take_status_request() {
            display.show(&progress(args, &ends));
        }
        if let Some(recording) = &mut others.recording {
            recording.look();
        }
        if let Some(server) = others.server {
            server.publish(|| snapshot(conditions, &ends));
        }
        let turn =
            if asked_to_end || others.recording.is_some() { record::TURN } else { Duration::from_millis(20) };
        std::thread::sleep(turn);
    }
    display.finish();
    others.recording.into_iter().for_each(Recording::look);
    let elapsed = ends.iter().map(|end| end.session.elapsed()).max().unwrap_or_default();
    let finished = ends.into_iter().map(|End { session, serving }| {
        let options = session.options().clone();
        let mut finished = session.finish();
        if let Some(serving) = serving {
            let served = Arc::clone(serving.served());
            drop(serving.end());
            finished.changed.extend(served.changed().map(str::to_owned));
        }
        (options, finished)
    });
    (finished.collect(), elapsed)
}

/// The run so far.
fn snapshot(conditions: &Conditions, ends: &[End]) -> Run {
    let mut run = Run::new(conditions.clone());
    run.complete = false;
    run.series = ends.iter().flat_map(|end| end.session.series()).collect();
    run
}

fn progress(args: &BoxArgs, ends: &[End]) -> Progress {
    let row = |end: &End| {
        let tally = end.session.tally();
        let counts = tally.counts();
        let histogram = tally.histogram();
        let lost = counts.lost.saturating_sub(end.session.under_way() as u64);
        let trouble = [(lost, "lost"), (counts.late, "late"), (counts.damaged, "damaged")];
        let told: Vec<String> = trouble
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        Row {
            label: end.session.options().name.clone(),
            count: counts.answered,
            min: histogram.min(),
            now: tally.extremes().map(|(_, last)| last),
            mean_ns: histogram.mean_ns(),
            p999: histogram.quantile(0.999),
            max: histogram.max(),
            missed: tally.skipped(),
            culprit: told.join(", "),
        }
    };
    let elapsed = ends.iter().map(|end| end.session.elapsed()).max().unwrap_or_default();
    Progress {
        phase: "round trips".to_owned(),
        elapsed,
        planned: args.duration,
        remark: Some("late, lost, damaged"),
        rows: ends.iter().map(row).collect(),
    }
}

//! Which work of an application is in no response time, and may have been late all the same?
//!
//! A PASS covers the turns that were measured. Each stretch longer than the deadline that is in none of them, or that would
//! be one turn if the thread waited for its jobs elsewhere, is a doubt with the thread's name.

use std::collections::{BTreeMap, BTreeSet};

use crate::application::Task;
use crate::series::Quantity;
use crate::time::{Ns, Tid};

/// Why `tasks` may have been later than `deadline` without a late turn.
pub(super) fn doubts(tasks: &[Task], deadline: Ns) -> Vec<String> {
    let mut doubts: Vec<String> = tasks.iter().flat_map(|task| of_one(task, deadline)).collect();
    doubts.extend(tasks.iter().filter_map(|task| released_late(task, tasks, deadline)));
    doubts
}

fn of_one(task: &Task, deadline: Ns) -> Vec<String> {
    let name = &task.thread;
    let mut doubts = Vec::new();
    let wait = task.waits_in.as_deref().unwrap_or("one place twice");
    if let Some(outside) = task.outside_ns.filter(|&outside| outside > deadline) {
        doubts.push(format!(
            "{name}: up to {outside} before its first or after its last wait in {wait} is in no response time"
        ));
    }
    for other in task.other_turns.iter().filter(|other| other.longest_ns > deadline) {
        if longest_response(task) >= other.longest_ns {
            continue; // said by that
        }
        let by = if other.after_timer { "timers" } else { "others than timers" };
        doubts.push(format!(
            "{name}: if its jobs begin when {by} end its wait in {}, one took up to {}: it is not known which wait \
             begins a job",
            other.place, other.longest_ns
        ));
    }
    if let Some(every) = task.polls_every_ns.filter(|&every| every > deadline) {
        doubts.push(format!(
            "{name}: it sleeps {every} between its jobs; the release of what it polls for is not visible"
        ));
    }
    if task.not_recorded > 0 && task.of(Quantity::Response).is_none() {
        doubts.push(format!("{name}: {} activations of it were not recorded", task.not_recorded));
    }
    doubts
}

/// A thread that is released by others: its response and theirs, and of those that released these, may add up. At most
/// so much passes from end to end, whatever the way.
fn released_late(task: &Task, tasks: &[Task], deadline: Ns) -> Option<String> {
    let by_tid: BTreeMap<Tid, &Task> = tasks.iter().map(|task| (task.thread.tid, task)).collect();
    let (mut all, mut seen, mut next) = (Ns::ZERO, BTreeSet::new(), vec![task.thread.tid]);
    while let Some(tid) = next.pop() {
        if let Some(task) = by_tid.get(&tid).filter(|_| seen.insert(tid)) {
            all = all + longest_response(task);
            next.extend(&task.released_by);
        }
    }
    let own = longest_response(task);
    (all > deadline && own <= deadline && all > own).then(|| {
        format!(
            "{}: other threads of the application release it, up to {all} end to end; only its own {own} was measured",
            task.thread
        )
    })
}

fn longest_response(task: &Task) -> Ns {
    task.of(Quantity::Response).and_then(|series| series.histogram.max()).unwrap_or_default()
}

//! Processes that distribute jobs over a thread pool: Go, tokio and other runtimes with tasks in user space.
//!
//! Their workers share one wait for events (an epoll instance), and each parks in its own futex. A job
//! runs on any free worker, may migrate to another, and several may run between two waits of one worker: the waits of a
//! thread do not delimit jobs. So a late thread is a doubt rather than a miss, and threads in time are not a PASS.
//! Exceptions are threads that sleep until absolute times, or whose jobs are selected (`--activation`).

use std::collections::{BTreeMap, BTreeSet};

use super::coverage::LISTED;
use crate::application::Task;
use crate::series::Quantity;
use crate::time::{Ns, Tid};

/// Waits for events that several workers can share.
const SHARED: [&str; 3] = ["epoll_wait ", "epoll_pwait ", "epoll_pwait2 "];

/// The thread pools of a run.
pub struct Pools {
    processes: BTreeMap<Tid, String>,
}

impl Pools {
    /// Of all threads of a run.
    #[must_use]
    pub fn of(tasks: &[Task]) -> Pools {
        let mut by_process: BTreeMap<Tid, Vec<&Task>> = BTreeMap::new();
        for task in tasks.iter().filter(|task| task.process != Tid(0) && task.chain.is_none()) {
            by_process.entry(task.process).or_default().push(task);
        }
        let shared = by_process.into_iter().filter_map(|(process, tasks)| Some((process, shared(&tasks)?)));
        Pools { processes: shared.collect() }
    }

    /// The shared wait of a pool thread; `None`: the waits of the thread delimit jobs.
    pub(crate) fn unties(&self, task: &Task) -> Option<&str> {
        let sleeps = task.waits_in.as_deref().is_some_and(|wait| wait.ends_with("TIMER_ABSTIME"));
        let tied = task.is_chosen || task.chain.is_some() || sleeps;
        self.processes.get(&task.process).filter(|_| !tied).map(String::as_str)
    }

    /// Whether no late job of the thread is certain: then it is a doubt, and no miss.
    #[must_use]
    pub fn leave_in_doubt(&self, task: &Task, deadline: Ns) -> bool {
        self.unties(task).is_some() || task.is_late_by_doubt_alone(deadline)
    }

    /// One doubt per process.
    pub(super) fn doubts(&self, tasks: &[Task], deadline: Ns) -> Vec<String> {
        let of = |(process, wait): (&Tid, &String)| {
            let untied: Vec<&Task> =
                tasks.iter().filter(|task| task.process == *process && self.unties(task).is_some()).collect();
            let longest = |task: &&Task| task.of(Quantity::Response)?.histogram.max();
            let worst = untied.iter().max_by_key(|task| longest(task))?;
            let names: Vec<String> = untied.iter().take(LISTED).map(|task| task.thread.to_string()).collect();
            let others = match untied.len() {
                1 => String::new(),
                _ => format!(" ({})", names.join(", ")),
            };
            let took = longest(worst).map(|longest| {
                let late = if longest > deadline { ", which does not prove that a job was late" } else { "" };
                format!(". From one wait to the next, it took up to {}{late}", longest.told_apart(deadline).0)
            });
            Some(format!(
                "{}: its process runs jobs on whichever of its threads is free{others}: they share {wait}, and each parks in a futex of \
                 its own, as the runtimes of Go and tokio do. The response time of a job is not that of a thread{}. Mark the jobs \
                 with the tracer (lathunt explain --between), or choose where they start (--activation)",
                worst.thread,
                took.unwrap_or_default()
            ))
        };
        self.processes.iter().filter_map(of).collect()
    }
}

/// The shared wait for events of the workers of one process.
fn shared(tasks: &[&Task]) -> Option<String> {
    let places: Vec<BTreeSet<&str>> = tasks.iter().map(|task| places(task)).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    places.iter().flatten().for_each(|place| *count.entry(place).or_default() += 1);
    let parks = |place: &&str| place.starts_with("futex") && count[*place] == 1;
    let workers: Vec<&BTreeSet<&str>> = places.iter().filter(|of| of.iter().any(&parks)).collect();
    let taken_by = |place: &str| workers.iter().filter(|of| of.contains(place)).count();
    // With few jobs, only one worker may have waited for events. glibc's locks are shared; its conditions use other
    // calls.
    let by_word = |of: &&&BTreeSet<&str>| {
        of.iter().any(|place| parks(place) && place.starts_with("futex FUTEX_WAIT 0x"))
    };
    let least = if workers.iter().filter(by_word).count() > 2 { 1 } else { 2 };
    let events = count.keys().filter(|place| SHARED.iter().any(|call| place.starts_with(call)));
    events.copied().find(|place| taken_by(place) >= least).map(str::to_owned)
}

/// Its waits, without details of the objects.
fn places(task: &Task) -> BTreeSet<&str> {
    let of_turns = task.waits_in.iter().chain(task.blocking.iter().map(|blocking| &blocking.place));
    of_turns.map(|place| place.split_once(" (").map_or(place.as_str(), |(plain, _)| plain)).collect()
}

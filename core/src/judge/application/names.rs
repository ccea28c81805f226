//! Jobs of a judged thread under a name that has no deadline: a thread may change its name at any time.

use std::collections::BTreeSet;

use super::coverage::longest_response;
use crate::application::Task;
use crate::time::{Ns, Tid};

/// Why `tasks`, judged by `deadline`, may have missed it under another name; `all`: all threads of the run.
pub(super) fn doubts(tasks: &[Task], all: &[Task], deadline: Ns) -> Vec<String> {
    let mut known = BTreeSet::new();
    let mut doubts = Vec::new();
    for task in tasks.iter().filter(|task| task.thread.tid != Tid(0) && task.chain.is_none()) {
        let is_same = |other: &&Task| {
            let is_judged = tasks.iter().any(|one| one.thread == other.thread);
            let unjudged = other.deadline_ns.is_none() && other.chain.is_none() && !is_judged;
            unjudged && other.thread.tid == task.thread.tid && other.thread.comm != task.thread.comm
        };
        for other in all.iter().filter(is_same) {
            let longest = longest_response(other);
            if longest > deadline && known.insert((task.thread.tid, &other.thread.comm)) {
                let (longest, comm) = (longest.told_apart(deadline).0, &other.thread.comm);
                doubts.push(format!(
                    "{}: this thread had jobs as '{comm}' too, which has no deadline; one of them took {longest}. Give that name \
                     a deadline as well (--deadline '{comm}=TIME')",
                    task.thread
                ));
            }
        }
    }
    doubts
}

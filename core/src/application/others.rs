//! Threads that are not kept apart, as one: their figures added up, so that none is lost.
//!
//! Two kinds: those for which there was no room when they came, of which only the wake-ups are known, and those that have
//! been silent for long and had to make room, with all that they did.

use super::places::Places;
use super::sums::Sums;
use super::task::Task;
use crate::series::Thread;
use crate::trace::activation::Activation;

/// Their name. No thread is called so by chance.
pub const OTHERS: &str = "(others)";

/// The sums.
pub(super) struct Others {
    folded: Option<Task>,
    direct: Sums,
}

impl Default for Others {
    fn default() -> Others {
        Others { folded: None, direct: Sums::new(None) }
    }
}

impl Others {
    /// A wake-up of a thread for which there is no room.
    pub fn woken(&mut self, activation: &Activation) {
        self.direct.woken(activation);
    }

    /// A thread that makes room.
    pub fn fold(&mut self, task: Task) {
        match &mut self.folded {
            Some(folded) => add(folded, task),
            None => self.folded = Some(anonymous(task)),
        }
    }

    /// Of all of them; `None`: there are none.
    pub fn report(&self) -> Option<Task> {
        let direct =
            (!self.direct.is_empty()).then(|| anonymous(self.direct.report(None, &Places::default(), false)));
        match (self.folded.clone(), direct) {
            (Some(mut folded), Some(direct)) => {
                add(&mut folded, direct);
                Some(folded)
            }
            (folded, direct) => folded.or(direct),
        }
    }
}

/// Without what is of one thread alone.
fn anonymous(task: Task) -> Task {
    let thread = Thread { comm: OTHERS.to_owned(), ..Thread::default() };
    let mut series = task.series;
    series.iter_mut().for_each(|series| series.thread = Some(thread.clone()));
    Task {
        thread,
        process: crate::time::Tid(0),
        policy: String::new(),
        waits_in: None,
        timer_driven: false,
        period: None,
        execution: None,
        deadline_ns: None,
        unfinished: None,
        worst: None,
        blocking: Vec::new(),
        released_by: Vec::new(),
        series,
        ..task
    }
}

fn add(sum: &mut Task, task: Task) {
    for of in anonymous(task.clone()).series {
        match sum.series.iter_mut().find(|known| known.quantity == of.quantity) {
            Some(known) => {
                // All are of one layout.
                let _ = known.add_samples(&of);
            }
            None => sum.series.push(of),
        }
    }
    sum.series.sort_by_key(|series| series.quantity);
    sum.activations += task.activations;
    sum.preemptions += task.preemptions;
    sum.page_faults += task.page_faults;
    sum.misses += task.misses;
    sum.miss_max_ns = sum.miss_max_ns.max(task.miss_max_ns);
    sum.late_sleeps += task.late_sleeps;
    sum.slack_max_ns = sum.slack_max_ns.max(task.slack_max_ns);
    sum.not_recorded += task.not_recorded;
    sum.outside_ns = sum.outside_ns.max(task.outside_ns);
    sum.other_turns.extend(task.other_turns);
    super::candidates::longest_first(&mut sum.other_turns);
    sum.polls_every_ns = sum.polls_every_ns.max(task.polls_every_ns);
}

//! Threads beyond the limit, added up as one, so that no figure is lost.
//!
//! Two kinds: threads that came when the table was full, with their wake-ups only, and threads that were idle for long
//! and were replaced, with all their figures.

use super::places::Places;
use super::sums::Sums;
use super::task::Task;
use crate::series::{Quantity, Thread};
use crate::time::Ns;
use crate::trace::activation::Activation;

/// Their name, which an ordinary thread is unlikely to have.
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
    /// Adds a wake-up of a thread beyond the limit.
    pub fn woken(&mut self, activation: &Activation) {
        self.direct.woken(activation);
    }

    /// Adds a thread that is replaced.
    pub fn fold(&mut self, task: Task) {
        match &mut self.folded {
            Some(folded) => add(folded, task),
            None => self.folded = Some(anonymous(task)),
        }
    }

    /// The sum of all; `None`: there are none.
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

/// Drops the fields that describe one thread.
fn anonymous(task: Task) -> Task {
    // Doubts about the limits of its jobs do not show in response times: they become time outside jobs. Misses are only
    // those that are certain.
    let (misses, miss_max_ns, in_doubt) = certain_misses(&task);
    let several = task.waits_in_one_job().map(|several| several.longest_ns);
    let off_period = task.off_period_ns.filter(|_| task.period.is_some());
    let jobs = task.several_jobs.map(|several| several.longest_ns);
    let unfinished = task.late_end().map(|end| end.after_ns);
    let doubts = [task.outside_ns, several, off_period, jobs, unfinished, in_doubt];
    let outside_ns = doubts.into_iter().flatten().max();
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
        stopped_ns: None,
        worst: None,
        blocking: Vec::new(),
        released_by: Vec::new(),
        faulting: None,
        late_causes: Vec::new(),
        outside_ns,
        several_waits: None,
        off_period_ns: None,
        several_jobs: None,
        polls_from_ns: None,
        off_cpu_ns: None,
        other_start: None,
        other_end: None,
        misses,
        miss_max_ns,
        is_chosen: false,
        series,
        ..task
    }
}

/// Number of certain misses, the largest lateness, and the longest response time if it is in doubt.
fn certain_misses(task: &Task) -> (u64, Option<Ns>, Option<Ns>) {
    let held = task.deadline_ns.filter(|_| task.thread.comm != OTHERS);
    let Some(deadline) = held.filter(|&deadline| task.is_late_by_doubt_alone(deadline)) else {
        return (task.misses, task.miss_max_ns, None);
    };
    let waited = task
        .waited_beyond(deadline)
        .or(task.took_beyond(deadline))
        .map(|waited| waited.saturating_sub(deadline));
    let longest = task.of(Quantity::Response).and_then(|series| series.histogram.max());
    (u64::from(waited.is_some()), waited, longest)
}

fn add(sum: &mut Task, task: Task) {
    let task = anonymous(task);
    for of in task.series {
        match sum.series.iter_mut().find(|known| known.quantity == of.quantity) {
            Some(known) => {
                // All have the same width, so that the sum fails only if it overflows.
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
    sum.rounded_ns = sum.rounded_ns.max(task.rounded_ns);
    sum.slack_max_ns = sum.slack_max_ns.max(task.slack_max_ns);
    sum.not_recorded += task.not_recorded;
    sum.outside_ns = sum.outside_ns.max(task.outside_ns);
    sum.other_turns.extend(task.other_turns);
    super::candidates::longest_first(&mut sum.other_turns);
    sum.polls_every_ns = sum.polls_every_ns.max(task.polls_every_ns);
    sum.released_every_ns = sum.released_every_ns.into_iter().chain(task.released_every_ns).min();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::application::{SeveralJobs, SeveralWaits};
    use crate::histogram::{Histogram, Layout};
    use crate::series::Series;

    #[test]
    fn late_jobs_of_a_thread_that_may_poll_count_as_misses_only_where_it_waited_for_a_cpu() {
        let (deadline, late) = (Ns::from_ms(40), Ns::from_ms(51));
        let of = |polls_from_ns| {
            let mut histogram = Histogram::new(Layout::LATENCY);
            (0..10).for_each(|_| histogram.record(late));
            let mut task = Sums::new(Some(deadline)).report(None, &Places::default(), false);
            task.series = vec![Series::new(Quantity::Response, None, histogram)];
            (task.deadline_ns, task.polls_from_ns) = (Some(deadline), polls_from_ns);
            (task.misses, task.miss_max_ns) = (10, Some(Ns::from_ms(11)));
            let mut others = Others::default();
            others.fold(task.clone());
            others.fold(task);
            let sum = others.report().unwrap();
            (sum.misses, sum.miss_max_ns, sum.outside_ns)
        };
        assert_eq!(of(None), (20, Some(Ns::from_ms(11)), None));
        assert_eq!(of(Some(Ns(5))), (0, None, Some(late)));
        assert_eq!(of(Some(Ns::from_ms(45))), (2, Some(Ns::from_ms(5)), Some(late)));
    }

    #[test]
    fn a_doubt_about_a_thread_that_makes_room_is_kept() {
        let task = |change: &dyn Fn(&mut Task)| {
            let mut task = Sums::new(None).report(None, &Places::default(), false);
            task.timer_driven = true;
            change(&mut task);
            task
        };
        let longest_ns = Ns::from_ms(95);
        let several = Some(SeveralWaits { waits: Some(2), longest_ns });
        let jobs = Some(SeveralJobs { turns: 1, longest_ns, certain_ns: Ns(1), late: 1 });
        for doubtful in [task(&|task| task.several_waits = several), task(&|task| task.several_jobs = jobs)] {
            let mut others = Others::default();
            others.fold(task(&|_| ()));
            others.fold(doubtful);
            assert_eq!(others.report().unwrap().outside_ns, Some(longest_ns));
        }
        let slack = |longest| {
            task(&|task| (task.slack_max_ns, task.rounded_ns) = (Some(Ns(longest)), Some(Ns(2 * longest))))
        };
        let every = |interval| task(&|task| task.released_every_ns = Some(Ns(interval)));
        for order in [[5, 9], [9, 5]] {
            let mut others = Others::default();
            order.into_iter().for_each(|longest| others.fold(slack(longest)));
            assert_eq!(others.report().unwrap().slack_max_ns, Some(Ns(9)));
            let mut others = Others::default();
            others.fold(task(&|_| ()));
            order.into_iter().for_each(|interval| others.fold(every(interval)));
            assert_eq!(others.report().unwrap().released_every_ns, Some(Ns(5)));
        }
    }
}

//! Threads that wait for a CPU when a window ends: the wait so far counts as a wake-up.

use super::places::Places;
use super::sums::{layout, Sums};
use super::unfinished::{State, Unfinished};
use super::Task;
use crate::histogram::{Histogram, Layout};
use crate::series::{Quantity, Series, Thread};
use crate::time::{Cpu, Mono, Ns};

/// A thread that is runnable and has no CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The thread.
    pub thread: Thread,
    /// Time of its waking.
    pub since: Mono,
    /// CPU of its run queue.
    pub cpu: Cpu,
}

impl Wait {
    /// Adds the wait until `end` to the wake-up latencies of its CPU.
    pub fn add_to(&self, series: &mut Vec<Series>, end: Mono) {
        let of = |one: &&mut Series| one.cpu == Some(self.cpu);
        record(
            series,
            of,
            || Series::new(Quantity::Wakeup, Some(self.cpu), empty(Layout::LATENCY)),
            self,
            end,
        );
    }

    /// Adds the wait to its thread, which may have no other activity.
    pub(super) fn add_to_tasks(&self, tasks: &mut Vec<Task>, deadline: Option<Ns>, end: Mono) {
        let at = tasks.iter().position(|task| task.thread.tid == self.thread.tid);
        let at = at.unwrap_or_else(|| {
            let nothing = Sums::new(deadline).report(None, &Places::default(), false);
            tasks.push(Task { thread: self.thread.clone(), deadline_ns: deadline, ..nothing });
            tasks.len() - 1
        });
        let task = &mut tasks[at];
        let fresh = || {
            let mut series = Series::new(Quantity::Wakeup, None, empty(layout()));
            series.thread = Some(self.thread.clone());
            series
        };
        record(&mut task.series, |_| true, fresh, self, end);
        let after_ns = end.since(self.since);
        task.unfinished = Some(Unfinished {
            state: State::Waits,
            since: self.since,
            after_ns,
            place: None,
            out_of_quota: false,
            locked_ns: None,
        });
    }
}

fn empty(layout: Layout) -> Histogram {
    Histogram::of_few(layout)
}

fn record(
    series: &mut Vec<Series>,
    of: impl Fn(&&mut Series) -> bool,
    fresh: impl FnOnce() -> Series,
    wait: &Wait,
    end: Mono,
) {
    let known = series.iter_mut().find(|one| one.quantity == Quantity::Wakeup && of(one));
    let so_far = end.since(wait.since);
    match known {
        Some(known) => known.histogram.record(so_far),
        None => {
            let mut fresh = fresh();
            fresh.histogram.record(so_far);
            series.push(fresh);
            series.sort_by_key(|one| (one.quantity, one.cpu));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{activation, name, SLEEP};
    use super::super::Tasks;
    use super::*;
    use crate::time::{Prio, Tid};
    use crate::trace::activation::Via;

    #[test]
    fn a_window_that_ends_in_a_wait_has_the_wait_so_far_and_the_next_one_does_not_keep_it() {
        let mut tasks = Tasks::new(16, Some(Ns::from_ms(1)), name);
        for turn in 1..=100 {
            tasks.add(&activation(turn * 1_000_000, Via::Timer, SLEEP));
        }
        let wait = |tid| {
            let thread = Thread { tid: Tid(tid), comm: "waits".to_owned(), prio: Some(Prio::from_rt(7)) };
            Wait { thread, since: Mono(101_000_000), cpu: Cpu(1) }
        };
        let end = Mono(1_101_000_000);
        let told = tasks.report_while(&[wait(7), wait(8)], end);
        assert_eq!(told.len(), 2);
        for task in &told {
            assert_eq!(task.late_end().unwrap().after_ns, Ns::from_ms(1_000));
            assert_eq!(task.largest(), Ns::from_ms(1_000));
        }
        assert!(tasks.report()[0].unfinished.is_none() && tasks.report().len() == 1);
        let mut series = Vec::new();
        wait(7).add_to(&mut series, end);
        wait(8).add_to(&mut series, end);
        assert_eq!((series.len(), series[0].histogram.count()), (1, 2));
        assert_eq!((series[0].cpu, series[0].histogram.max()), (Some(Cpu(1)), Some(Ns::from_ms(1_000))));
    }
}

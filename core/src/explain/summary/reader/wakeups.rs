//! The wake-up latencies of a summary, and the wake-ups that the end of the trace cuts.

use super::super::tasks::Doing;
use super::super::Wakeups;
use super::Reader;
use crate::time::{Mono, Ns};

impl Reader {
    /// Of a trace that ends at `last`.
    pub(super) fn wakeups(&self, last: Mono) -> Wakeups {
        let at = |share: f64| self.latencies.quantile(share).unwrap_or_default();
        let unfinished: Vec<Ns> = self.unfinished(last).collect();
        Wakeups {
            count: self.latencies.count(),
            median_ns: at(0.5),
            p99_ns: at(0.99),
            p999_ns: at(0.999),
            worst_ns: self.latencies.max().unwrap_or_default(),
            unfinished: unfinished.len() as u64,
            longest_unfinished_ns: unfinished.into_iter().max(),
            spanning_losses: self.spanning_losses,
            longest_spanning_ns: self.longest_spanning,
            unseen_switch_ins: self.unseen_switch_ins,
            longest_unseen_ns: self.longest_unseen,
        }
    }

    /// Times that threads had waited for a CPU at the end. One that no switch names waits if another one is known to run on
    /// each CPU.
    fn unfinished(&self, last: Mono) -> impl Iterator<Item = Ns> + '_ {
        let all_known = self.cpus.iter().flatten().all(|cpu| cpu.running.is_some());
        let waits = move |task: &&super::super::tasks::Task| {
            task.is_off || (all_known && task.doing != Doing::Running)
        };
        let waiting = self.tasks.all.iter().map(|(_, task)| task).filter(waits);
        waiting.filter_map(move |task| Some(last.since(task.woken?))).filter(|waited| *waited > Ns::ZERO)
    }
}

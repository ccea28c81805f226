//! Windows of a recording that goes on.

use super::log::Log;
use super::others::Others;
use super::unfinished::State;
use super::Tasks;
use crate::time::{Mono, Ns, Tid};
use crate::trace::activation::Activation;

impl Tasks {
    /// The window ends: [`Tasks::take_jobs`] also returns the longest jobs of threads that seem to wait elsewhere by now.
    pub fn ends_window(&mut self) {
        self.logs.values_mut().for_each(Log::ends_with_thread);
        for log in self.logs.values_mut().filter(|_| self.least.is_some()) {
            self.jobs.extend(log.take_last_jobs());
        }
    }

    /// The window ends at `end` and the recording goes on: notes jobs that are not over. `open`: activations of threads that
    /// have a CPU or were preempted, until `end`; `blocks`: see [`Tasks::end`].
    pub fn goes_on_at(
        &mut self,
        end: Mono,
        open: &[(Activation, State)],
        blocks: impl Fn(Tid) -> Option<u16>,
    ) {
        for (&tid, log) in &mut self.logs {
            let mine = |(activation, _): &&(Activation, State)| {
                activation.thread.tid == tid && !log.is_of_another(activation)
            };
            log.goes_on_at(end, open.iter().find(mine), || blocks(tid));
        }
    }

    /// Resets the figures. The state of each thread is kept until it ends: a job may last for several windows.
    pub fn begin_window(&mut self) {
        self.least = self.least.map(|_| Ns::ZERO); // none is known in the new window
        self.others = Others::default();
        self.ended.clear();
        self.logs.values_mut().for_each(|log| log.begin_window(self.name));
        self.logs.retain(|_, log| !log.has_ended());
        let logs = &self.logs;
        self.wakes.retain(|_, woken| {
            woken.retain(|tid| logs.contains_key(tid));
            !woken.is_empty()
        });
    }
}

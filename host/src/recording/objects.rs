//! Names the objects that threads wait for and touch: descriptors, memory, variables. Looked up while their process
//! lives.

use std::collections::HashMap;

use lathunt_core::application::Task;
use lathunt_core::peak::Peak;
use lathunt_core::time::Tid;
use lathunt_core::trace::activation::Activation;

use super::files::Files;
use super::memory::Memory;
use super::sources::WaitSources;
use super::variables::Variables;

/// The objects that threads wait for, by kind.
#[derive(Default)]
pub(super) struct Objects {
    files: Files,
    variables: Variables,
    sources: WaitSources,
}

impl Objects {
    /// Looks up the objects of an activation; `is_of_task`: its descriptors too.
    pub fn see(&mut self, a: &Activation, is_of_task: bool) {
        if is_of_task {
            self.files.see(a);
            self.variables.see(a);
        }
    }

    /// `a` with the sources of its wait.
    pub fn with_sources(&mut self, a: &Activation) -> Activation {
        Activation { sources: self.sources.of(a), ..*a }
    }

    /// Collects results.
    pub fn collect(&mut self) {
        self.variables.collect();
    }

    /// The same at the end: no result will come later.
    pub fn finish(&mut self) {
        self.variables.finish();
    }

    /// Names the objects that `tasks` wait for and touch.
    pub fn describe(&self, memory: &Memory, tasks: &mut [Task]) {
        for task in tasks {
            let process = task.process;
            task.waits_in = task.waits_in.take().map(|place| self.place(process, &place));
            if let Some(faulting) = &mut task.faulting {
                faulting.name(|address| memory.of(process, address));
            }
            task.other_turns.iter_mut().for_each(|other| other.place = self.place(process, &other.place));
            task.other_end.iter_mut().for_each(|end| end.place = self.place(process, &end.place));
            task.blocking.iter_mut().for_each(|wait| wait.place = self.place(process, &wait.place));
            task.worst.iter_mut().for_each(|worst| self.variables.name_in(process, worst));
        }
    }

    /// Names them in late cases of `tasks`.
    pub fn name_in<'p>(&self, tasks: &[Task], peaks: impl Iterator<Item = &'p mut Peak>) {
        let processes: HashMap<Tid, Tid> = tasks.iter().map(|task| (task.thread.tid, task.process)).collect();
        for peak in peaks {
            if let Some(process) = processes.get(&peak.victim.tid) {
                self.variables.name_in(*process, peak);
            }
        }
    }

    /// `read 5 (timerfd)`, `futex FUTEX_WAIT 0x5581 (m in loop)`.
    fn place(&self, process: Tid, place: &str) -> String {
        match self.variables.of_place(process, place) {
            Some(name) => format!("{place} ({name})"),
            None => self.files.describe(process, place),
        }
    }
}

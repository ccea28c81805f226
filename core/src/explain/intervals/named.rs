//! Names of the threads of intervals: `--comm` selects a thread by any name that it had in the interval.
//!
//! Between two events that name a thread differently it may have either name, except where `task_rename` shows when it
//! changed. So an interval waits for the next event that names its thread.

use std::collections::VecDeque;

use super::{FoundInterval, Search};
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind, Sym};

/// Maximum number of names of one thread.
const MOST_NAMES: usize = 256;
/// Maximum number of intervals of one thread that wait for its name.
const MOST_WAITING: usize = 1_024;

/// A name of a thread: it had it at most from `since` to `gone`.
struct Name {
    comm: Sym,
    since: Mono,
    /// The last event with it.
    until: Mono,
    gone: Mono,
}

/// The names of a thread, and its intervals that wait for the next one.
#[derive(Default)]
pub(super) struct Called {
    /// Ascending in time.
    names: VecDeque<Name>,
    waiting: Vec<FoundInterval>,
}

impl Called {
    fn see(&mut self, comm: Sym, at: Mono, is_exact: bool) {
        match self.names.back_mut() {
            Some(last) if last.comm == comm => last.until = at,
            last => {
                let since = last.map_or(Mono(0), |last| {
                    last.gone = at;
                    if is_exact {
                        at
                    } else {
                        last.until + Ns(1)
                    }
                });
                self.names.push_back(Name { comm, since, until: at, gone: Mono(u64::MAX) });
            }
        }
        if self.names.len() > MOST_NAMES {
            self.names.pop_front();
        }
    }

    /// The names in `[a, b]`, the last one first.
    fn within(&self, a: Mono, b: Mono) -> impl Iterator<Item = Sym> + '_ {
        let names = self.names.iter().rev();
        names.filter(move |name| name.since <= b && name.gone > a).map(|name| name.comm)
    }
}

impl Search<'_> {
    /// Notes the names in `event`.
    pub(super) fn see_names(&mut self, event: &Event) {
        match event.kind {
            Kind::Switch { prev, next, .. } => {
                self.see_name(prev.tid, prev.comm, event.at, false);
                self.see_name(next.tid, next.comm, event.at, false);
            }
            Kind::Waking { task, .. } | Kind::Wakeup { task, .. } | Kind::Migrate { task, .. } => {
                self.see_name(task.tid, task.comm, event.at, false);
            }
            Kind::Rename { tid, comm } => self.see_name(tid, comm, event.at, true),
            _ => {}
        }
    }

    fn see_name(&mut self, tid: Tid, comm: Option<Sym>, at: Mono, is_exact: bool) {
        let Some(comm) = comm.filter(|_| tid != Tid::IDLE) else { return };
        let called = self.called.entry(tid).or_default();
        called.see(comm, at, is_exact);
        // The old name in a later event shows that it was not renamed before.
        if !called.waiting.is_empty() {
            self.choose(tid);
        }
    }

    /// Keeps `interval` if its thread had a selected name then, once that is known.
    pub(super) fn keep_by_name(&mut self, interval: FoundInterval) {
        let tid = interval.tid;
        let waiting = &mut self.called.entry(tid).or_default().waiting;
        waiting.push(interval);
        if waiting.len() >= MOST_WAITING {
            self.choose(tid);
        }
    }

    /// Decides on the waiting intervals of `tid`.
    pub(super) fn choose(&mut self, tid: Tid) {
        let Some(called) = self.called.get_mut(&tid) else { return };
        let waiting = std::mem::take(&mut called.waiting);
        for mut interval in waiting {
            let names =
                self.called.get(&tid).into_iter().flat_map(|of| of.within(interval.begin, interval.end));
            let mut names: Vec<String> =
                names.map(|comm| self.normalizer.strings().get(comm).to_owned()).collect();
            if names.is_empty() {
                names.push(self.comm(tid));
            }
            if let Some(name) = names.into_iter().find(|name| self.whose.fits(tid, name)) {
                interval.comm = name;
                self.accept(interval);
            }
        }
    }

    /// Decides on all waiting intervals.
    pub(super) fn choose_all(&mut self) {
        let tids: Vec<Tid> = self.called.keys().copied().collect();
        tids.into_iter().for_each(|tid| self.choose(tid));
    }

    /// Whether a thread is selected, by any name that it had in `[a, b]` as far as known.
    pub(super) fn is_selected(&self, tid: Tid, a: Mono, b: Mono) -> bool {
        let mut names = self.called.get(&tid).into_iter().flat_map(|of| of.within(a, b));
        self.whose.fits(tid, &self.comm(tid))
            || names.any(|comm| self.whose.fits(tid, self.normalizer.strings().get(comm)))
    }

    /// The thread has ended: its id may be reused.
    pub(super) fn forget_names(&mut self, tid: Tid) {
        self.choose(tid);
        self.called.remove(&tid);
    }
}

//! The name that a thread had at a time.
//!
//! A thread has the name of its creator until it sets its own (prctl, exec). Without a `task_rename` the change is known
//! only to be between two events that name the thread: from the earlier one on it counts as renamed, because threads
//! are renamed where they start.

use crate::hash::HashMap;
use crate::time::{Mono, Ns, Prio, Tid};
use crate::trace::event::{Event, Kind, Sym, TaskRef};

/// An inherited name that a thread had for less than this was never its name: a program is started by fork and exec.
const SETTLING: Ns = Ns::from_ms(100);

/// Names and priorities of all threads.
#[derive(Default)]
pub(super) struct Names(HashMap<Tid, Known>);

#[derive(Default)]
struct Known {
    /// Its names, ascending in time.
    names: Vec<Named>,
    /// Its last priority.
    prio: Option<Prio>,
}

/// One name of a thread.
struct Named {
    comm: Sym,
    since: Mono,
    /// Its last event with this name.
    until: Mono,
    /// It is that of its creator, at its creation.
    inherited: bool,
}

impl Names {
    /// The next event that has `task`, in time order.
    pub fn see(&mut self, task: TaskRef, event: &Event) {
        let known = self.0.entry(task.tid).or_default();
        known.prio = task.prio.or(known.prio);
        let is_new = matches!(event.kind, Kind::Fork { .. } | Kind::Waking { new: true, .. });
        if let Some(comm) = task.comm {
            known.is_called(comm, event.at, None, is_new);
        }
    }

    /// A `task_rename`.
    pub fn rename(&mut self, tid: Tid, comm: Sym, at: Mono) {
        self.0.entry(tid).or_default().is_called(comm, at, Some(at), false);
    }

    /// The name that `tid` had at `at`; before its first event, its first one.
    pub fn at(&self, tid: Tid, at: Mono) -> Option<Sym> {
        let names = &self.0.get(&tid)?.names;
        let place = names.partition_point(|name| name.since <= at).saturating_sub(1);
        let name = names.get(place)?;
        let own =
            names.get(place + 1).filter(|next| name.inherited && next.since.since(name.since) < SETTLING);
        Some(own.unwrap_or(name).comm)
    }

    /// Its last priority.
    pub fn prio(&self, tid: Tid) -> Option<Prio> {
        self.0.get(&tid)?.prio
    }
}

impl Known {
    fn is_called(&mut self, comm: Sym, at: Mono, since: Option<Mono>, is_new: bool) {
        match self.names.last_mut() {
            Some(last) if last.comm == comm => last.until = at,
            last => {
                // The id may be reused: the new thread had no name before.
                let since = last.filter(|_| !is_new).map_or(at, |last| since.unwrap_or(last.until + Ns(1)));
                self.names.push(Named { comm, since, until: at, inherited: is_new });
            }
        }
    }
}

//! All threads of a summary: last state, since when, and sums.

use super::digest::Left;
use super::OfThread;
use crate::explain::turns::TWICE;
use crate::hash::HashMap;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Sym;

/// Maximum number of earlier names of one thread id.
const MOST_NAMES: usize = 64;

#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum Doing {
    #[default]
    Unknown,
    Running,
    Ready,
    Blocked,
}

#[derive(Default)]
pub(super) struct Task {
    pub sums: OfThread,
    /// Empty until an event names it.
    pub comm: Sym,
    pub earlier: Vec<Sym>,
    pub doing: Doing,
    pub since: Mono,
    /// CPU of the last switch-in.
    pub on: Cpu,
    /// It is not on a CPU, according to the recorded switches.
    pub is_off: bool,
    pub woken: Option<Mono>,
    /// A waking came while it still ran, then it blocked: without another waking, that one ended its sleep.
    pub left_woken: Option<Mono>,
}

/// All threads. Most events concern few of them: a cache by the low bits of the tid finds those.
#[derive(Default)]
pub(super) struct Tasks {
    pub all: Vec<(Tid, Task)>,
    places: HashMap<Tid, u32>,
    recent: Vec<u32>,
}

impl Tasks {
    const RECENT: usize = 1 << 10;

    /// The thread, new or known.
    #[inline]
    pub fn of(&mut self, tid: Tid) -> &mut Task {
        let slot = tid.0 as usize % Self::RECENT;
        let place = self.recent.get(slot).map(|place| *place as usize);
        match place.filter(|&place| self.all.get(place).is_some_and(|(known, _)| *known == tid)) {
            Some(place) => &mut self.all[place].1,
            None => self.find(tid, slot),
        }
    }

    #[cold]
    fn find(&mut self, tid: Tid, slot: usize) -> &mut Task {
        let new = self.all.len() as u32;
        let place = *self.places.entry(tid).or_insert(new);
        if place == new {
            self.all.push((tid, Task::default()));
        }
        self.recent.resize(Self::RECENT, 0);
        self.recent[slot] = place;
        &mut self.all[place as usize].1
    }

    /// The thread, if an event has named it.
    pub fn known(&mut self, tid: Tid) -> Option<&mut Task> {
        self.places.get(&tid).map(|&place| &mut self.all[place as usize].1)
    }
}

impl Task {
    pub fn is_named(&mut self, comm: Sym) {
        if comm == Sym(0) || comm == self.comm {
            return;
        }
        let earlier = std::mem::replace(&mut self.comm, comm);
        if earlier != Sym(0) && self.earlier.len() < MOST_NAMES && !self.earlier.contains(&earlier) {
            self.earlier.push(earlier);
        }
    }

    /// Its state since the last event is not known.
    pub fn forget(&mut self, at: Mono) {
        (self.doing, self.since) = (Doing::Unknown, at);
    }

    /// A waking. A waiting thread is not woken again: if it is, its switch-in was not recorded; returns the time since
    /// the earlier waking.
    pub fn wake(&mut self, at: Mono) -> Option<Ns> {
        if self.doing != Doing::Running && self.doing != Doing::Ready {
            self.change(Doing::Ready, at);
        }
        self.left_woken = None;
        if self.woken.is_some_and(|woken| at.since(woken) < TWICE) {
            return None;
        }
        self.woken.replace(at).filter(|_| self.is_off).map(|woken| at.since(woken))
    }

    /// It is switched out. Returns the time since a waking before `unseen_before` without a recorded switch-in.
    pub fn leave(&mut self, at: Mono, left_as: Left, unseen_before: Mono) -> Option<Ns> {
        self.is_off = true;
        let (woken, left_woken) = (self.woken.take(), self.left_woken.take());
        if let Some(woken) = woken.or(left_woken).filter(|woken| *woken < unseen_before) {
            return Some(at.since(woken));
        }
        if woken.is_some() && left_as == Left::Blocked {
            self.left_woken = Some(at);
        }
        None
    }

    pub fn change(&mut self, doing: Doing, at: Mono) {
        let net = at.since(self.since);
        match self.doing {
            Doing::Unknown => {}
            Doing::Running => self.sums.run_ns = self.sums.run_ns + net,
            Doing::Ready => self.sums.ready_ns = self.sums.ready_ns + net,
            Doing::Blocked => self.sums.blocked_ns = self.sums.blocked_ns + net,
        }
        (self.doing, self.since) = (doing, at);
    }
}

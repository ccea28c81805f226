//! From each waking to the switch-in.
//!
//! A waking that meets a thread on its CPU is no wake-up. Where another thread was switched in there last, it did not
//! meet it: its switch-in was not recorded, and how long it took is only known to be less than until it left again.

use super::{Begun, Search, TWICE};
use crate::explain::turns::Came;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, LeftAs};

impl Search<'_> {
    pub(super) fn woken(&mut self, tid: Tid, at: Mono) {
        let begun = self.by_thread.get(&tid).filter(|begun| !begun.leaving).map(|begun| begun.at);
        if begun.is_some_and(|begun| at.since(begun) < TWICE) {
            return;
        }
        // One that waits is not woken again: where it is, its switch-in was not recorded.
        let is_off = |tid| self.switched.get(&tid).is_some_and(|known| known.is_off);
        if let Some(begun) = begun.filter(|_| is_off(tid)) {
            self.unseen_switch_in(tid, begun, at);
        }
        self.by_thread.insert(tid, Begun::new(at, tid, None));
    }

    pub(super) fn switched(&mut self, event: &Event, prev: Tid, left_as: LeftAs, next: Tid) {
        let came = self.turns.switch(event.cpu, prev, next, event.at);
        match came {
            Came::Again => return,
            Came::Unseen(tid) if !self.turns.has(tid) => self.switched.entry(tid).or_default().is_off = true,
            _ => {}
        }
        self.left(prev, left_as, &came, event.at);
        if let Some(begun) = self.by_thread.remove(&next) {
            self.keep(begun, next, event);
        }
    }

    /// A waking while it still ran was none, unless it went to sleep and no other ends that.
    fn left(&mut self, tid: Tid, left_as: LeftAs, came: &Came, at: Mono) {
        let Some(Begun { at: since, leaving, .. }) = self.by_thread.remove(&tid) else { return };
        let is_unseen = match came {
            Came::Unseen(_) => true,
            Came::First => since < self.lost_until,
            _ => false,
        };
        if is_unseen {
            self.unseen_switch_in(tid, since, at);
        } else if matches!(left_as, LeftAs::Blocked(_)) && !leaving {
            self.by_thread.insert(tid, Begun { leaving: true, ..Begun::new(at, tid, None) });
        }
    }

    /// Between these times `tid`, woken at the first, was switched in.
    fn unseen_switch_in(&mut self, tid: Tid, since: Mono, at: Mono) {
        if self.whose.fits(tid, &self.comm(tid)) {
            self.found.unseen_switch_ins += 1;
            let most = (at.since(since), at);
            self.found.longest_unseen_switch_in = self.found.longest_unseen_switch_in.max(Some(most));
        }
    }
}

//! From each waking to the switch-in.

use super::{Begun, Search, TWICE};
use crate::time::{Mono, Tid};
use crate::trace::event::LeftAs;

impl Search<'_> {
    pub(super) fn woken(&mut self, tid: Tid, at: Mono) {
        self.left_woken.remove(&tid);
        // One that waits is not woken again: where it is, its switch-in was not recorded.
        let earlier = self.by_thread.get(&tid).map(|begun| at.since(begun.at));
        if earlier.is_none_or(|earlier| earlier >= TWICE) {
            self.by_thread.insert(tid, Begun { at, tid, key: None });
        }
    }

    /// A waking while it still ran was none, unless it went to sleep and no other ends that.
    pub(super) fn left(&mut self, tid: Tid, left_as: LeftAs, at: Mono) {
        let met_running = self.by_thread.remove(&tid).is_some();
        if met_running && matches!(left_as, LeftAs::Blocked(_)) {
            self.left_woken.insert(tid, at);
        }
    }

    pub(super) fn switched_in(&mut self, tid: Tid) -> Option<Begun> {
        let on_its_way = self.left_woken.remove(&tid).map(|at| Begun { at, tid, key: None });
        self.by_thread.remove(&tid).or(on_its_way)
    }
}

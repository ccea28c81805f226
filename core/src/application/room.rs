//! Room for another thread in a full table: that of a thread that has ended, else of one that has been idle for long. Their
//! figures are added to those of the others, so one without a deadline goes first.

use std::cmp::Reverse;

use super::Tasks;
use crate::time::{Mono, Ns, Tid};

/// Idle time after which a thread may be replaced by another one: most such threads have ended.
const SILENT: Ns = Ns::from_ms(10_000);
/// Minimum interval between two unsuccessful searches, unless a thread has ended in between. A search takes some 10 µs.
const LOOK_EVERY: Ns = Ns::from_ms(1_000);

impl Tasks {
    /// Moves a thread to the others. False: there is none to move.
    pub(super) fn make_room(&mut self, now: Mono) -> bool {
        if self.looked.is_some_and(|looked| now.since(looked) < LOOK_EVERY) {
            return false;
        }
        let Some((tid, has_ended)) = self.dispensable(now) else {
            self.looked = Some(now);
            return false;
        };
        let Some(mut log) = self.logs.remove(&tid) else { return false };
        if has_ended {
            log = log.ended();
            self.wakes.remove(&tid);
            self.wakes.values_mut().for_each(|woken| woken.retain(|one| *one != tid));
        } else {
            log.make_room(now, self.name);
        }
        if !log.is_empty() {
            log.report(self.name).into_iter().for_each(|task| self.others.fold(task));
        }
        true
    }

    /// A thread that need not be kept, and whether it has ended.
    fn dispensable(&self, now: Mono) -> Option<(Tid, bool)> {
        let all = || self.logs.iter();
        let ended = all().filter(|(_, log)| log.has_ended());
        let ended = ended.max_by_key(|(_, log)| (!log.has_deadline(), Reverse(log.last())));
        let silent = all().min_by_key(|(_, log)| log.last());
        let silent = silent.filter(|(_, log)| now.since(log.last()) >= SILENT);
        ended.map(|(&tid, _)| (tid, true)).or(silent.map(|(&tid, _)| (tid, false)))
    }
}

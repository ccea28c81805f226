//! Threads that are looked up by name or control group while recording: activations before discovery are not measured;
//! they are counted as lost.

use std::collections::{BTreeMap, BTreeSet};

use lathunt_core::time::{Ns, Tid};
use procfs::process::Process;

use crate::clock;
use crate::recorder::cpu_time;

/// The threads found so far that are still there.
pub(super) struct Found {
    begin_ns: i64, // of the recording, since boot
    known: BTreeSet<Tid>,
    ran: BTreeMap<Tid, Ns>,
    /// Blocks before discovery; for a thread older than the recording, one.
    pub missed: u64,
    /// Threads for which there was no room.
    pub without_room: BTreeSet<Tid>,
}

impl Found {
    /// The recording begins.
    pub fn new() -> Found {
        Found {
            begin_ns: clock::read(libc::CLOCK_BOOTTIME),
            known: BTreeSet::new(),
            ran: BTreeMap::new(),
            missed: 0,
            without_room: BTreeSet::new(),
        }
    }

    /// `chosen` are all that match now; `watch` starts measuring one and returns false if it is measured already, since
    /// it came to match, and `None` if there is no room.
    pub fn look(&mut self, chosen: Vec<Tid>, mut watch: impl FnMut(Tid) -> Option<bool>) {
        let chosen: BTreeSet<Tid> = chosen.into_iter().collect();
        self.known.retain(|tid| chosen.contains(tid));
        for tid in chosen.difference(&self.known).copied().collect::<Vec<_>>() {
            let Some(newly) = watch(tid) else {
                self.without_room.insert(tid); // tried again next time
                continue;
            };
            self.known.insert(tid);
            self.ran.extend(cpu_time(tid).map(|ran| (tid, ran)));
            if newly {
                self.missed += blocked_before(tid, self.begin_ns);
            }
        }
    }

    /// CPU time of `tid` when it was found; 0 for one that was measured from its start.
    pub fn ran_before(&self, tid: Tid) -> Ns {
        self.ran.get(&tid).copied().unwrap_or_default()
    }
}

/// Number of blocks of a thread so far, if it is younger than `begin_ns` (since boot); 1 if it is older or that is
/// unknown, 0 if it has ended.
fn blocked_before(tid: Tid, begin_ns: i64) -> u64 {
    let Ok(thread) = Process::new(tid.0) else { return 0 };
    let started = thread.stat().map_or(0, |stat| stat.starttime);
    let begin = begin_ns as f64 / 1e9 * procfs::ticks_per_second() as f64;
    match (started as f64) < begin - 1.0 {
        true => 1,
        false => thread.status().ok().and_then(|status| status.voluntary_ctxt_switches).unwrap_or(1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Tid {
        // SAFETY: no preconditions.
        Tid(unsafe { libc::gettid() })
    }

    #[test]
    fn what_a_thread_did_before_it_was_found_is_counted_once() {
        let mut found = Found::new();
        found.look(Vec::new(), |_| Some(true));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                (0..5).for_each(|_| std::thread::sleep(std::time::Duration::from_millis(1)));
                found.look(vec![own()], |_| Some(true));
                assert!(found.missed >= 5, "{}", found.missed);
                let missed = found.missed;
                found.look(vec![own()], |_| Some(true));
                assert_eq!(found.missed, missed);
                let mut found = Found::new();
                found.look(vec![own()], |_| Some(false));
                assert_eq!(found.missed, 0, "the kernel side had it since it came to match");
            });
        });
    }

    #[test]
    fn of_an_older_thread_one_block_is_missing_and_of_one_without_room_its_id_is_kept() {
        let mut found = Found { begin_ns: i64::MAX, ..Found::new() };
        found.look(vec![own()], |_| Some(true));
        assert_eq!(found.missed, 1);
        found.look(vec![own(), Tid(1)], |tid| (tid != Tid(1)).then_some(true));
        assert_eq!((found.missed, found.without_room.len()), (1, 1));
        found.look(vec![own(), Tid(1)], |_| Some(true));
        assert_eq!(found.missed, 2, "there is room for it by now");
    }
}

//! Threads waiting for a CPU now: a wake-up is counted when its thread gets the CPU; one that never gets it would not be
//! measured until recording ends.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering::{Acquire, Relaxed};

use lathunt_core::series::Thread;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};

use super::unfinished::{cpu_time, look};
use super::Recorder;
use crate::clock;

/// Shorter waits are soon in the figures.
const LONG: Ns = Ns::from_ms(100);

/// A runnable thread without a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Starving {
    /// The thread.
    pub thread: Thread,
    /// Time of its waking.
    pub since: Mono,
    /// CPU whose run queue it is in.
    pub cpu: Cpu,
    /// The task on that CPU; `None`: unknown.
    pub holder: Option<Thread>,
}

/// Wakings pending at the last check: one also stays pending if the kernel did not report the thread's switch, but then
/// the thread has used its CPU since.
#[derive(Debug, Default)]
pub(crate) struct Pending(BTreeMap<Tid, (u64, Option<Ns>)>);

impl Recorder {
    /// Whether `tid` has had no CPU since its waking at `since`.
    pub(crate) fn is_pending(&self, tid: Tid, since: Mono) -> bool {
        let mut slots = self.chosen.slots().iter();
        slots.any(|slot| slot.tid.load(Acquire) == tid.0 && slot.at.load(Acquire) == since.0)
    }

    /// Threads whose waking was pending at the last check already and that had no CPU since. Reads the table of threads,
    /// and /proc for these only.
    pub(crate) fn starving(&self, pending: &mut Pending) -> Vec<Starving> {
        let now = clock::mono();
        let before = std::mem::take(&mut pending.0);
        let mut found = Vec::new();
        for slot in self.chosen.slots() {
            let at = slot.at.load(Acquire);
            let tid = Tid(slot.tid.load(Acquire));
            if at == 0 || tid.0 <= 0 || now.since(Mono(at)) < LONG {
                continue;
            }
            let used = cpu_time(tid);
            pending.0.insert(tid, (at, used));
            if before.get(&tid) != Some(&(at, used)) {
                continue;
            }
            let seen = look(tid).filter(|seen| seen.runnable && self.cpus.contains(seen.cpu));
            let Some(seen) = seen.filter(|_| slot.at.load(Acquire) == at) else { continue };
            let running = self.blocks.of(seen.cpu).map(|block| Tid(block.running.load(Relaxed) - 1));
            let holder = running.filter(|&running| running != tid && running.0 > 0).and_then(look);
            found.push(Starving {
                thread: seen.who.thread(),
                since: Mono(at),
                cpu: seen.cpu,
                holder: holder.map(|seen| seen.who.thread()),
            });
        }
        found.sort_by_key(|starving| starving.since);
        found
    }
}

//! Sleeps ended by the timer wheel: a timeout of the thread's call, or a sleep of the kernel on its behalf.

use super::clauses::Weight;
use super::Walk;
use crate::explain::segment::Segment;
use crate::series::Thread;
use crate::time::{Mono, Tid};
use crate::trace::event::Kind as What;

/// Reason of a sleep until a timer of the wheel.
enum Sleep {
    /// The call has a timeout, or none is known.
    Requested,
    /// The call takes no timeout.
    Kernel(String),
    /// A write that continued and wrote everything, so no socket timeout ended it.
    Throttled(String),
}

impl Walk<'_, '_> {
    /// The parts of `[a, b)`, in which `thread` slept until a timer of the wheel.
    pub(super) fn timeout(
        &mut self,
        thread: &Thread,
        (a, b): (Mono, Mono),
        proof: Option<u32>,
        depth: usize,
    ) -> Vec<Segment> {
        let (net, comm) = (b.since(a), &thread.comm);
        let subject = self.subject(thread, depth);
        let mut whose = "its own timeout".to_owned();
        match self.why_asleep(thread.tid, a, b) {
            Sleep::Kernel(call) => {
                let told = format!("the kernel slept {{}} in {call} of {subject}, and tried again");
                let advice = format!("{call} takes no timeout: the kernel waits there in whole ticks for something that is not ready; see what {call} waits for");
                self.say(Weight::Blame, net, told, format!("sleep of the kernel in {call}"), advice);
            }
            Sleep::Throttled(call) => {
                whose = format!("a pause of the kernel in {call}");
                let told = format!("the kernel paused {subject} for {{}} in {call}, as it does while too many pages of files are dirty (throttled writeback)");
                let advice = format!("keep {call} to files out of the interval, or leave it to a thread that may wait; vm.dirty_bytes and vm.dirty_background_bytes set the limit, writeback:balance_dirty_pages would show it");
                self.say(Weight::Blame, net, told, "throttled writeback".to_owned(), advice);
            }
            Sleep::Requested if depth == 0 => {
                self.clauses.slept(net);
                let told = format!("{subject} waited {{}} for its own timeout");
                let advice = "the thread waited as long as it requested";
                self.say(Weight::Wanted, net, told, "its own timeout".to_owned(), advice);
            }
            Sleep::Requested => {
                let told = format!("{subject} waited {{}} for its own timeout");
                let (root, other) = self.apart(thread);
                let advice = format!(
                    "{other} waits for its timeout while {root} waits for it: let it hand over first"
                );
                self.say(Weight::Blame, net, told, format!("timeout of {comm}"), advice);
            }
        }
        let label = format!("{thread} waits for {whose} (timer wheel: in whole ticks, never early)");
        vec![self.awaited(&whose, label, a, b, &[proof])]
    }

    fn why_asleep(&self, tid: Tid, a: Mono, b: Mono) -> Sleep {
        let Some((_, id, args)) = self.linked.in_call(tid, a) else { return Sleep::Requested };
        let call = self.record.call_name(id);
        if !takes_timeout(&call) {
            return Sleep::Kernel(call);
        }
        // The third argument of write and pwrite64 is the length; those of writev and pwritev are not recorded.
        let wrote = || {
            let later = self.linked.doings(tid, self.record.until()).take_while(|(_, event)| event.at >= b);
            let exits = later.filter_map(|(_, event)| match event.kind {
                What::SysExit { ret, .. } => Some((event.at, ret)),
                _ => None,
            });
            exits.min().map(|(_, ret)| ret)
        };
        let is_whole = matches!(call.as_str(), "write" | "pwrite64") && args[2] > 0;
        match is_whole && wrote().is_some_and(|wrote| u64::try_from(wrote) == Ok(args[2])) {
            true => Sleep::Throttled(call),
            false => Sleep::Requested,
        }
    }
}

/// Whether a system call can have a timeout.
fn takes_timeout(call: &str) -> bool {
    let with = [
        "poll",
        "select",
        "wait",
        "futex",
        "sleep",
        "timed",
        "getevents",
        "mmsg",
        "recv",
        "send",
        "accept",
        "connect",
        "read",
        "write",
        "io_uring_enter",
        "semop",
        "sys ",
    ];
    with.iter().any(|part| call.contains(part))
}

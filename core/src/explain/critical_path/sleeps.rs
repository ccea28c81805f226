//! Sleeps ended by the timer wheel: a timeout of the thread's call, or a sleep of the kernel on its behalf.

use super::clauses::{Weight, AMOUNT};
use super::Walk;
use crate::explain::segment::Segment;
use crate::series::Thread;
use crate::time::{Mono, Tid};
use crate::trace::event::{Event, Kind as What, LeftAs};

/// Reason of a sleep until a timer of the wheel.
enum Sleep {
    /// The call has a timeout, or none is known.
    Requested,
    /// The call takes no timeout.
    Kernel(String),
    /// A write that continued and wrote everything, so no socket timeout ended it.
    Throttled(String),
    /// Outside of all calls: the kernel reclaims memory, or holds back a thread that has too much of it. `faulted`: it may
    /// have been in a page fault.
    ForMemory { faulted: bool },
}

/// State bit of a sleep that signals do not end (include/linux/sched.h).
const UNINTERRUPTIBLE: u32 = 2;

/// Calls of almost every program: where one is recorded, all are.
const COMMON: [&str; 8] =
    ["read", "write", "close", "mmap", "ioctl", "poll", "clock_nanosleep", "epoll_wait"];

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
                let told = format!("the kernel slept {AMOUNT} in {call} of {subject}, and tried again");
                let advice = format!("{call} takes no timeout: the kernel waits there in whole ticks for something that is not ready; see what {call} waits for");
                self.say(Weight::Blame, net, told, format!("sleep of the kernel in {call}"), advice);
            }
            Sleep::Throttled(call) => {
                whose = format!("a pause of the kernel in {call}");
                let told = format!("the kernel paused {subject} for {AMOUNT} in {call}, as it does while too many pages of files are dirty (throttled writeback)");
                let advice = format!("keep {call} to files out of the interval, or leave it to a thread that may wait; vm.dirty_bytes and vm.dirty_background_bytes set the limit, writeback:balance_dirty_pages would show it");
                self.say(Weight::Blame, net, told, "throttled writeback".to_owned(), advice);
            }
            Sleep::ForMemory { faulted } => {
                let (place, cause) = match faulted {
                    true => ("in a page fault or after it", "pause of the kernel for memory"),
                    false => ("between a call and the return from it", "throttled memory of the cgroup"),
                };
                whose = format!("a pause of the kernel {place}");
                let told = format!("the kernel paused {subject} for {AMOUNT} {place}, as it does while the memory of its cgroup is above memory.high");
                let advice = format!("raise memory.high of the cgroup of {comm}, or move it to one without (memory.events counts `high`); get and lock its memory before it is needed (mlockall)");
                self.say(Weight::Blame, net, told, cause.to_owned(), advice);
            }
            Sleep::Requested if depth == 0 => {
                self.clauses.slept(net);
                let told = format!("{subject} waited {AMOUNT} for its own timeout");
                let advice = "the thread waited as long as it requested";
                self.say(Weight::Wanted, net, told, "its own timeout".to_owned(), advice);
            }
            Sleep::Requested => {
                let told = format!("{subject} waited {AMOUNT} for its own timeout");
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
        let Some((_, id, args)) = self.linked.in_call(tid, a) else {
            return self.outside_calls(tid, a).unwrap_or(Sleep::Requested);
        };
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

impl Walk<'_, '_> {
    /// A sleep from `a` on that the kernel chose: no call is open although all are recorded, and signals do not end it
    /// (mem_cgroup_handle_over_high on the way to user mode; reclaim in a page fault).
    fn outside_calls(&self, tid: Tid, a: Mono) -> Option<Sleep> {
        let left = self.record.events_of(tid, Mono(0), a).rev().find_map(|(_, event)| match event.kind {
            What::Switch { prev, left_as, .. } if prev.tid == tid => Some(left_as),
            _ => None,
        });
        let LeftAs::Blocked(bits) = left? else { return None };
        if bits & UNINTERRUPTIBLE == 0 || self.lossy || !self.records_all_calls() {
            return None;
        }
        match self.linked.doings(tid, a).next()?.1.kind {
            What::SysExit { .. } => Some(Sleep::ForMemory { faulted: false }),
            What::UserFault { .. } | What::KernelFault { .. } | What::FilemapFault { .. } => {
                Some(Sleep::ForMemory { faulted: true })
            }
            _ => None,
        }
    }

    /// Whether not only some calls are recorded.
    fn records_all_calls(&self) -> bool {
        let mut calls = self.record.window.events.iter().filter_map(|event| match event.kind {
            What::SysEnter { id, .. } => Some(id),
            _ => None,
        });
        calls.any(|id| COMMON.contains(&self.record.call_name(id).as_str()))
    }
}

impl Walk<'_, '_> {
    /// Who woke the futex after the wait of `tid` for it in `[a, b)` had timed out; `None` if it waited in another call.
    pub(super) fn futex_timeout(&self, tid: Tid, (a, b): (Mono, Mono)) -> Option<String> {
        let is_wait = |args: &[u64; 6]| matches!(args[1] & 0x7f, 0 | 6 | 9 | 11 | 13);
        let (_, _, args) =
            self.linked.in_call(tid, a).filter(|(_, id, args)| self.record.is_futex(*id) && is_wait(args))?;
        let address = args[0];
        let wakes = |event: &&Event| {
            matches!(event.kind, What::SysEnter { id, args }
                if args[0] == address && self.record.is_futex(id) && matches!(args[1] & 0x7f, 1 | 5 | 7 | 10))
                && event.current.is_some_and(|by| by != tid)
                && event.at >= b
        };
        let first = self.record.window.events.iter().filter(wakes).min_by_key(|event| event.at);
        Some(match first.and_then(|event| Some((event.current?, event.at))) {
            Some((by, at)) => {
                format!("{} woke that futex {} later", self.record.thread_by_id(by, at), at.since(b))
            }
            None => {
                format!("no wake of that futex is recorded within {} after it", self.record.until().since(b))
            }
        })
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

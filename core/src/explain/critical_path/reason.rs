//! Why a thread blocked: its system call, page fault or lock.

use super::Walk;
use crate::explain::mappings::mapped_at;
use crate::explain::record::describe::device;
use crate::explain::thread::Stretch;
use crate::time::{Mono, Ns, Tid};
use crate::trace::event::{Event, Kind as What, LeftAs};
use crate::trace::window::Mapped;

/// Why a thread blocked.
pub(super) struct Reason {
    /// For labels, starting with a blank: ` in futex (FUTEX_WAIT)`.
    pub text: String,
    pub what: Asked,
    /// The event that shows it.
    pub proof: Option<u32>,
}

/// Object of a wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// A futex, by its address; `mutex`: it is certainly a mutex without inheritance.
    Futex { address: u64, inherits: bool, mutex: bool },
    /// The end of a thread (pthread_join): the kernel clears its id at this address and wakes the waiter.
    End,
    /// A page: `place` names file, device, inode and offset if known; `is_file`: whether it is of a file, if known.
    Page { place: String, is_file: Option<bool> },
    /// A lock in the kernel.
    Lock,
    /// Nothing: it was stopped, in this way.
    Stopped(&'static str),
    /// Only time.
    Sleep,
    /// Another system call.
    Call,
    /// Not recorded.
    Unknown,
}

/// A page fault that a thread may be in.
struct Fault {
    reason: Reason,
    /// The page is of a file, or a disk read followed: the thread blocks for it.
    fetches: bool,
}

impl Fault {
    /// The reason if the fault may have ended before.
    fn perhaps(self) -> Reason {
        Reason { text: format!(", perhaps{}", self.reason.text), what: Asked::Unknown, ..self.reason }
    }
}

/// Activity of a thread after a page fault.
#[derive(PartialEq)]
enum Since {
    Nothing,
    /// It read from a disk.
    Fetches,
    /// Something that cannot happen in a page fault.
    Left,
}

/// State bits of a blocked thread (include/linux/sched.h): TASK_UNINTERRUPTIBLE, __TASK_STOPPED, __TASK_TRACED, and
/// TASK_FROZEN, which only the flight recorder shows.
pub(super) const UNINTERRUPTIBLE: u32 = 2;
pub(super) const STOPPED: u32 = 4;
pub(super) const TRACED: u32 = 8;
pub(super) const FROZEN: u32 = 0x8000;

/// Ids of threads are lower (PID_MAX_LIMIT of 64-bit kernels).
const MOST_TIDS: u64 = 1 << 22;

/// Maximum time from the event of a fault to the block in it.
const FAULT_TO_BLOCK: Ns = Ns::from_ms(2);

/// Maximum time if another thread handles the fault (userfaultfd): nothing is in between.
const FAULT_TO_HANDLER: Ns = Ns::from_us(200);

/// Maximum time from the kick or waking that tells a thread to freeze until it has.
const TO_FREEZE: Ns = Ns::from_us(200);

/// Name of a futex operation, without the private and clock flags (include/uapi/linux/futex.h).
pub(super) fn futex_op(op: u64) -> &'static str {
    match op & 0x7f {
        0 => "FUTEX_WAIT",
        1 => "FUTEX_WAKE",
        3 => "FUTEX_REQUEUE",
        4 => "FUTEX_CMP_REQUEUE",
        5 => "FUTEX_WAKE_OP",
        6 => "FUTEX_LOCK_PI",
        7 => "FUTEX_UNLOCK_PI",
        8 => "FUTEX_TRYLOCK_PI",
        9 => "FUTEX_WAIT_BITSET",
        10 => "FUTEX_WAKE_BITSET",
        11 => "FUTEX_WAIT_REQUEUE_PI",
        12 => "FUTEX_CMP_REQUEUE_PI",
        13 => "FUTEX_LOCK_PI2",
        _ => "futex operation",
    }
}

/// Type of a contended lock (include/trace/events/lock.h: LCB_F_*).
pub(super) fn lock_name(flags: u32) -> &'static str {
    match flags {
        flags if flags & 32 != 0 => "a mutex",
        flags if flags & 8 != 0 => "an rt_mutex",
        flags if flags & 2 != 0 => "a lock (for reading)",
        flags if flags & 4 != 0 => "a lock (for writing)",
        flags if flags & 1 != 0 => "a spinlock",
        _ => "a lock",
    }
}

impl Walk<'_, '_> {
    /// Why `tid` blocked for `stretch` in state `bits`.
    pub(super) fn reason(&mut self, tid: Tid, stretch: &Stretch, bits: u32) -> Reason {
        let at = stretch.begin;
        if bits & (STOPPED | TRACED | FROZEN) != 0 {
            let how = match bits {
                _ if bits & FROZEN != 0 => "by the freezer",
                _ if bits & TRACED != 0 => "by its tracer (ptrace)",
                _ => "by a signal",
            };
            return Reason { text: format!(", stopped {how}"), what: Asked::Stopped(how), proof: None };
        }
        let call = self.linked.in_call(tid, at);
        if let Some((index, _, args)) = call.filter(|(_, id, _)| self.record.is_futex(*id)) {
            let (address, inherits) = (args[0], self.inherits(args[1], stretch));
            if self.joins(stretch, &args) {
                let text = format!(" in pthread_join ({} {address:#x})", futex_op(args[1]));
                return Reason { text, what: Asked::End, proof: Some(index) };
            }
            // A barrier wakes all waiters, an unlock one.
            let several = |by: [u64; 6]| matches!(by[1] & 0x7f, 1 | 10) && by[0] == address && by[2] != 1;
            let mutex =
                args[1] & 0x7f == 0 && args[2] == 2 && !self.ending_futex(stretch).is_some_and(several);
            let kind = if inherits { ", a priority-inheritance (PI) mutex" } else { "" };
            let text = format!(" in futex ({} {address:#x}{kind})", futex_op(args[1]));
            return Reason { text, what: Asked::Futex { address, inherits, mutex }, proof: Some(index) };
        }
        // A wait for a page is uninterruptible, except for one that another thread provides; a fault before another
        // system call has ended.
        let is_fault = bits & UNINTERRUPTIBLE != 0 || self.provides_pages(stretch.ended_by);
        let fault = self.fault(tid, at).filter(|_| is_fault);
        let is_known = || self.record.window.in_faults.contains(&(tid, at));
        let is_sure = fault.as_ref().is_some_and(|fault| fault.fetches || is_known())
            || self.provides_pages(stretch.ended_by);
        let fault = match fault {
            Some(fault) if is_sure => return fault.reason,
            fault => fault.map(Fault::perhaps),
        };
        self.ask_of_fault(tid, stretch, fault.is_some(), call.is_some());
        let called = call.map(|(_, id, _)| format!(" in {}", self.record.call_name(id)));
        if let Some((index, flags)) = self.contends(tid, at).filter(|_| bits & 3 != 0) {
            let text = format!("{} on {} of the kernel", called.unwrap_or_default(), lock_name(flags));
            return Reason { text, what: Asked::Lock, proof: Some(index) };
        }
        match (call, called) {
            (Some((index, ..)), Some(text)) => {
                let what = if text.ends_with("nanosleep") { Asked::Sleep } else { Asked::Call };
                Reason { text, what, proof: Some(index) }
            }
            _ => match fault {
                Some(fault) => fault,
                None => self.frozen(tid, stretch).filter(|_| !self.lossy).unwrap_or(Reason {
                    text: self.held_up(bits).to_owned(),
                    what: Asked::Unknown,
                    proof: None,
                }),
            },
        }
    }

    /// The arguments of the futex call whose wake-up ended the wait.
    fn ending_futex(&self, stretch: &Stretch) -> Option<[u64; 6]> {
        let index = stretch.ended_by?;
        let (waker, at) = (self.linked.actor(index)?, self.record.event(index).at);
        let (_, id, args) = self.linked.in_call(waker.tid, at)?;
        self.record.is_futex(id).then_some(args)
    }

    /// Whether a futex wait was for a mutex with priority inheritance: FUTEX_LOCK_PI (6), its TRYLOCK (8) and second form (13).
    /// FUTEX_WAIT_REQUEUE_PI (11) waits for a condition, and then for such a mutex, unless it is free: FUTEX_UNLOCK_PI (7)
    /// ends the wait.
    fn inherits(&self, operation: u64, stretch: &Stretch) -> bool {
        let was_unlocked = || self.ending_futex(stretch).is_some_and(|args| args[1] & 0x7f == 7);
        matches!(operation & 0x7f, 6 | 8 | 13) || operation & 0x7f == 11 && was_unlocked()
    }

    /// Where the calls in which a thread blocks are recorded, it is in none.
    fn held_up(&self, bits: u32) -> &'static str {
        match self.record.window.only_blocking_calls && bits & UNINTERRUPTIBLE != 0 {
            true => " in the kernel, by a page fault or a lock",
            false => "",
        }
    }

    /// Whether a futex wait was for the end of its waker: the C library waits until the kernel has cleared the thread's id,
    /// in a futex that is not private. A lock of the program has that value only with a bit for waiters.
    fn joins(&self, stretch: &Stretch, args: &[u64; 6]) -> bool {
        let waker =
            stretch.ended_by.and_then(|index| Some((self.linked.actor(index)?, self.record.event(index).at)));
        let Some((waker, at)) = waker.filter(|_| matches!(args[1] & 0xff, 0 | 9)) else { return false };
        let call = self.linked.in_call(waker.tid, at).map(|(_, id, _)| self.record.call_name(id));
        let is_its_id = i32::try_from(args[2]) == Ok(waker.tid.0);
        match call.as_deref() {
            // In a container the program knows the thread by another id.
            Some("exit") => is_its_id || (3..MOST_TIDS).contains(&args[2]),
            Some(_) => false,
            None => is_its_id,
        }
    }

    /// Whether the cgroup freezer stopped the thread, by a write to a file, until another write: it was kicked while it
    /// ran, or woken out of its call, and made no call since.
    pub(super) fn frozen(&self, tid: Tid, stretch: &Stretch) -> Option<Reason> {
        let (record, linked) = (self.record, &self.linked);
        let writes = |index: u32| {
            let by = linked.actor(index).filter(|by| by.tid != tid)?;
            let (_, id, _) = linked.in_call(by.tid, record.event(index).at)?;
            (record.call_name(id) == "write").then_some(index)
        };
        let from = Mono(stretch.begin.0.saturating_sub(TO_FREEZE.0));
        let before = || record.events_of(tid, from, stretch.begin).rev();
        let came = before().find_map(|(_, event)| match event.kind {
            What::Switch { next, .. } if next.tid == tid => Some(event.at),
            _ => None,
        });
        let woken = before().find_map(|(index, event)| match event.kind {
            What::Waking { task, .. } if task.tid == tid => Some(index),
            _ => None,
        });
        let cpu = record.event(stretch.began_by?).cpu;
        let mut kicked = linked.sent_to(cpu, came.unwrap_or(from), stretch.begin).map(|(index, _)| index);
        let proof = kicked.find_map(writes).or_else(|| woken.and_then(writes));
        let proof = proof.or_else(|| self.wrote_before(tid, came?, stretch))?;
        let since = record.event(proof).at;
        let asked = |event: &Event| matches!(event.kind, What::SysEnter { .. }) && event.at >= since;
        let is_own = linked.doings(tid, stretch.begin).next().is_some_and(|(_, event)| asked(event));
        // A call that ends after the wait began before it: its start is missing.
        let next = linked.doings_from(tid, stretch.end).next();
        if next.is_some_and(|(_, event)| matches!(event.kind, What::SysExit { .. })) {
            return None;
        }
        stretch.ended_by.and_then(writes).filter(|_| !is_own)?;
        let how = "as the freezer of its cgroup does it";
        Some(Reason { text: format!(", stopped {how}"), what: Asked::Stopped(how), proof: Some(proof) })
    }

    /// The write of the thread that ends the wait, while `tid` waited for the CPU until `came`: it had to be neither kicked nor
    /// woken.
    fn wrote_before(&self, tid: Tid, came: Mono, stretch: &Stretch) -> Option<u32> {
        let by = self.linked.actor(stretch.ended_by?)?;
        let before =
            self.record.events_of(tid, Mono(0), came).rev().skip_while(|(_, event)| event.at >= came);
        let left = before.map(|(_, event)| event).find_map(|event| match event.kind {
            What::Switch { prev, left_as, .. } if prev.tid == tid => Some((event.at, left_as)),
            _ => None,
        });
        let (since, _) = left.filter(|(_, left_as)| *left_as == LeftAs::Runnable)?;
        let calls = self.linked.doings(by.tid, came).take_while(|(_, event)| event.at >= since);
        let mut calls = calls.filter_map(|(index, event)| match event.kind {
            What::SysEnter { id, .. } => Some((index, id)),
            _ => None,
        });
        calls.find(|(_, id)| self.record.call_name(*id) == "write").map(|(index, _)| index)
    }

    /// Whether the waking at `index` is by a thread that provides pages: in an ioctl of userfaultfd, of type 0xaa
    /// (include/uapi/linux/userfaultfd.h).
    pub(super) fn provides_pages(&self, index: Option<u32>) -> bool {
        let by = index.and_then(|index| Some((self.linked.actor(index)?, self.record.event(index).at)));
        let call = by.and_then(|(by, at)| self.linked.in_call(by.tid, at));
        call.is_some_and(|(_, id, args)| self.record.call_name(id) == "ioctl" && args[1] >> 8 & 0xff == 0xaa)
    }

    /// Notes the tracepoints that would distinguish a wait for a page, perhaps from another thread, from a system call
    /// after the fault.
    fn ask_of_fault(&mut self, tid: Tid, stretch: &Stretch, is_perhaps: bool, is_called: bool) {
        let at = stretch.begin;
        if is_perhaps && !is_called {
            let thread = self.record.thread_by_id(tid, at);
            self.missing.push(format!(
                "{thread} blocked after a page fault that read nothing from a disk: sys_enter of all calls (lathunt trace \
                 --events full) would show whether it waited in the fault or in a system call"
            ));
            return;
        }
        let just_faulted = |(_, event): (u32, &Event)| {
            matches!(event.kind, What::UserFault { .. }) && at.since(event.at) < FAULT_TO_HANDLER
        };
        let last = self.linked.doings(tid, at).next().filter(|last| just_faulted(*last));
        if is_called || last.is_none_or(|(_, fault)| self.since_fault(tid, fault.at, at) == Since::Left) {
            return;
        }
        let Some(by) = stretch.ended_by.and_then(|index| self.linked.actor(index)) else { return };
        if self.linked.in_call(by.tid, stretch.end).is_none() {
            let thread = self.record.thread_by_id(tid, at);
            self.missing.push(format!(
                "{thread} blocked right after a page fault: sys_enter of all calls (lathunt trace --events full) would show whether \
                 it waited in the fault, for a page that {by} provides (userfaultfd), or in a system call"
            ));
        }
    }

    /// The lock of the kernel that `tid` waits for.
    fn contends(&self, tid: Tid, at: Mono) -> Option<(u32, u32)> {
        self.linked.open_locks(tid, at).0.last().map(|&(index, _, flags)| (index, flags))
    }

    /// Activity of `tid` between a fault at `fault` and `at`. A thread that wakes others may still be in its fault (it
    /// releases locks and pages); one that writes a marker, creates a thread, sends a signal or writes to a disk is
    /// not.
    fn since_fault(&self, tid: Tid, fault: Mono, at: Mono) -> Since {
        let mut since = Since::Nothing;
        for (_, event) in self.linked.acts(tid, fault, at) {
            match event.kind {
                What::BlockInsert { rwbs, .. } | What::BlockIssue { rwbs, .. } => {
                    let rwbs = rwbs.map_or("", |rwbs| self.record.text(rwbs));
                    if rwbs.contains('W') {
                        return Since::Left;
                    } else if rwbs.contains('R') {
                        since = Since::Fetches;
                    }
                }
                _ => return Since::Left,
            }
        }
        since
    }

    /// The page fault that `tid` is in, if that is its last activity.
    fn fault(&self, tid: Tid, at: Mono) -> Option<Fault> {
        let (mut file, mut address, mut proof, mut first) = (None, None, None, at);
        for (index, event) in self.linked.doings(tid, at).take(6) {
            if at.since(event.at) > FAULT_TO_BLOCK {
                break;
            }
            match event.kind {
                What::FilemapFault { dev, ino, offset } if file.is_none() => {
                    file = Some((dev, ino, offset));
                    (proof, first) = (Some(index), event.at);
                }
                What::UserFault { address: touched, .. } | What::KernelFault { address: touched, .. } => {
                    address = Some(touched);
                    (proof, first) = (proof.or(Some(index)), event.at);
                    break;
                }
                What::ContentionBegin { .. } | What::ContentionEnd { .. } => {}
                _ => break,
            }
        }
        proof?;
        let fetches = match self.since_fault(tid, first, at) {
            Since::Left => return None,
            Since::Fetches => true,
            Since::Nothing => file.is_some(),
        };
        let mut place = self.page(file, address);
        let is_file = match self.mapped(address) {
            _ if file.is_some() => Some(true),
            Some((mapped, _)) => Some(matches!(mapped, Mapped::File(_))),
            None => (!self.lossy && self.linked.has_file_faults()).then_some(false),
        };
        if fetches && is_file == Some(false) {
            place.push_str(" that was swapped out");
        }
        let text = format!(" in a page fault on {place}");
        Some(Fault { reason: Reason { text, what: Asked::Page { place, is_file }, proof }, fetches })
    }

    /// `the mapped file /data/x (device 254:1, inode 12, offset 0x5000)`.
    pub(super) fn page(&self, file: Option<(u32, u64, u64)>, address: Option<u64>) -> String {
        let at = address.map_or(String::new(), |address| format!(", address {address:#x}"));
        match file {
            Some((dev, ino, offset)) => {
                let name = self.record.window.files.get(&(dev, ino));
                let name = name.map_or(String::new(), |name| format!(" {name}"));
                format!(
                    "the memory-mapped file{name} (device {}, inode {ino}, offset {offset:#x}{at})",
                    device(dev)
                )
            }
            None => match self.mapped(address) {
                Some((Mapped::File(name), offset)) => {
                    format!("the memory-mapped file {name} (offset {:#x}{at})", offset & !0xfff)
                }
                Some((memory, _)) => format!("{memory}{}", at.replacen(", ", ", at ", 1)),
                None => format!("memory{}", at.replacen(", ", " at ", 1)),
            },
        }
    }

    /// The object mapped at `address`, and the offset in it.
    fn mapped(&self, address: Option<u64>) -> Option<(&Mapped, u64)> {
        mapped_at(&self.record.window.mappings, address?, self.record.until())
    }
}

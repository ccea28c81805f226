//! What a place is where a thread blocks.

use serde::{Deserialize, Serialize};

use crate::trace::activation::Point;

/// Kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// It sleeps until a time.
    Sleep,
    /// It waits for events (poll, epoll, a signal).
    Wait,
    /// A futex: a mutex, a semaphore or a condition.
    Lock,
    /// A page that was not there.
    PageFault,
    /// A file, a pipe or a socket.
    Io,
    /// Another system call.
    Other,
}

/// A place: two waits there are waits for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// What it is.
    pub class: Class,
    /// `futex FUTEX_LOCK_PI 0x7ffd1000`, `clock_nanosleep TIMER_ABSTIME`, `read 3`, `page fault`.
    pub name: String,
}

/// A thread that is ending: nothing else comes.
pub(super) const EXIT: &str = "exit";
/// A thread that is not waiting for anything of its own.
const STOPPED: &str = "a stop by a signal, a debugger or the freezer";
/// What glibc waits with in semaphores and conditions. Those of a condition take turns in two words (__g_signals of
/// nptl/pthread_cond_common.c) within eight aligned bytes: one place.
const WAIT_BITSET: &str = "FUTEX_WAIT_BITSET";
/// What mutexes wait with; other libraries, and programs without one, wait for anything with the first.
const OF_MUTEXES: [&str; 3] = ["futex FUTEX_WAIT 0x", "futex FUTEX_LOCK_PI 0x", "futex FUTEX_LOCK_PI2 0x"];
/// `TIMER_ABSTIME` among the flags of clock_nanosleep.
const ABSOLUTE: u8 = 1;
/// By the last one a SCHED_DEADLINE thread sleeps until its next period; others do not block in it.
const SLEEPS: [&str; 3] = ["clock_nanosleep", "nanosleep", "sched_yield"];
/// Where a program waits for others on purpose.
const WAITS: [&str; 18] = [
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "io_getevents",
    "io_pgetevents",
    "mq_timedreceive",
    "msgrcv",
    "pause",
    "poll",
    "ppoll",
    "pselect6",
    "rt_sigsuspend",
    "rt_sigtimedwait",
    "select",
    "semop",
    "semtimedop",
    "wait4",
    "waitid",
];
/// Those of them whose first argument says for what: the address of the descriptors or of the signals, the number of
/// descriptors, the queue.
const BY_ARGUMENT: [&str; 8] =
    ["msgrcv", "poll", "ppoll", "pselect6", "rt_sigtimedwait", "select", "semop", "semtimedop"];
/// Calls whose first argument is a descriptor.
const ON_DESCRIPTORS: [&str; 27] = [
    "accept",
    "accept4",
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "fallocate",
    "fdatasync",
    "flock",
    "fsync",
    "getdents64",
    "ioctl",
    "mq_timedreceive",
    "pread64",
    "preadv",
    "pwrite64",
    "pwritev",
    "read",
    "readv",
    "recvfrom",
    "recvmmsg",
    "recvmsg",
    "sendfile",
    "sendmsg",
    "sendto",
    "splice",
    "write",
    "writev",
];
/// Calls that work on files without a descriptor in front.
const ON_FILES: [&str; 6] = ["openat", "open", "msync", "sync", "ftruncate", "io_uring_enter"];

impl Place {
    /// The place `point`; `name` names system calls.
    #[must_use]
    pub fn of(point: Point, name: fn(Point) -> Option<&'static str>) -> Place {
        match point.syscall {
            Point::KERNEL => return Place { class: Class::Other, name: "kernel code".to_owned() },
            Point::STOPPED => return Place { class: Class::Other, name: STOPPED.to_owned() },
            Point::EXITS => return Place { class: Class::Other, name: EXIT.to_owned() },
            ..0 => return Place { class: Class::PageFault, name: "page fault".to_owned() },
            _ => {}
        }
        let Some(call) = name(point) else {
            let kind = if point.compat { "32-bit system call" } else { "system call" };
            return Place { class: Class::Other, name: format!("{kind} {}", point.syscall) };
        };
        let (class, name) = match call {
            "futex" => {
                let operation = operation(point.operation);
                let address = if operation == WAIT_BITSET { point.argument & !7 } else { point.argument };
                (Class::Lock, format!("futex {operation} {address:#x}"))
            }
            "futex_wait" | "futex_waitv" => (Class::Lock, format!("{call} {:#x}", point.argument)),
            "clock_nanosleep" if point.operation & ABSOLUTE != 0 => {
                let clock = clock(point.argument).map(|name| format!(" {name}")).unwrap_or_default();
                (Class::Sleep, format!("clock_nanosleep{clock} TIMER_ABSTIME"))
            }
            call if SLEEPS.contains(&call) => (Class::Sleep, call.to_owned()),
            call if ON_DESCRIPTORS.contains(&call) => {
                let class = if WAITS.contains(&call) { Class::Wait } else { Class::Io };
                (class, format!("{call} {}", point.argument as i32))
            }
            call if BY_ARGUMENT.contains(&call) => (Class::Wait, format!("{call} {:#x}", point.argument)),
            call if WAITS.contains(&call) => (Class::Wait, call.to_owned()),
            call if ON_FILES.contains(&call) => (Class::Io, call.to_owned()),
            call => (Class::Other, call.to_owned()),
        };
        Place { class, name }
    }

    /// A sleep for some time, not until some time.
    pub(super) fn is_relative_sleep(&self) -> bool {
        matches!(self.name.as_str(), "nanosleep" | "clock_nanosleep")
    }

    /// A sleep until some time.
    pub(super) fn is_absolute_sleep(&self) -> bool {
        self.class == Class::Sleep && self.name.ends_with("TIMER_ABSTIME")
    }

    /// A read, of whatever descriptor.
    pub(super) fn is_read(&self) -> bool {
        self.class == Class::Io && self.name.starts_with("read")
    }

    /// Whether it is perhaps a mutex: a thread that waits elsewhere too does not wait there for its next turn.
    pub(super) fn may_be_mutex(&self) -> bool {
        OF_MUTEXES.iter().any(|begin| self.name.starts_with(begin))
    }
}

/// Of clock_nanosleep, but for CLOCK_MONOTONIC, which is the usual one (include/uapi/linux/time.h).
fn clock(id: u64) -> Option<&'static str> {
    match id as i32 {
        1 => None,
        0 => Some("CLOCK_REALTIME"),
        7 => Some("CLOCK_BOOTTIME"),
        11 => Some("CLOCK_TAI"),
        _ => Some("another clock"),
    }
}

/// include/uapi/linux/futex.h; the private and clock flags are no part of it.
fn operation(low_byte: u8) -> &'static str {
    match low_byte & 0x7f {
        0 => "FUTEX_WAIT",
        6 => "FUTEX_LOCK_PI",
        9 => WAIT_BITSET,
        11 => "FUTEX_WAIT_REQUEUE_PI",
        13 => "FUTEX_LOCK_PI2",
        _ => "operation",
    }
}

//! The place where a thread blocks.

use serde::{Deserialize, Serialize};

use crate::trace::activation::Point;

/// Kinds of places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// A sleep.
    Sleep,
    /// A wait for events (poll, epoll, a signal).
    Wait,
    /// A futex: a mutex, a semaphore or a condition.
    Lock,
    /// A page fault.
    PageFault,
    /// A file, a pipe or a socket.
    Io,
    /// Another system call.
    Other,
}

/// Calls with rules of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Form {
    /// None of these.
    #[default]
    Other,
    /// A sleep until an absolute time.
    AbsoluteSleep,
    /// A sleep for a relative time.
    RelativeSleep,
    /// A wait for no descriptor: a relative sleep if its timeout ends it, else a wait for a signal.
    Timeout,
    /// FUTEX_WAIT: a mutex of glibc; other libraries also wait for jobs so.
    PlainFutex,
    /// A mutex with priority inheritance.
    PiMutex,
    /// A wait that several descriptors can end.
    OnSeveral,
    /// A call on a descriptor or file that may wait for data, a request or a connection.
    Input,
    /// A read of any descriptor: also an [`Form::Input`].
    Read,
    /// A system call without a known name.
    Unnamed,
    /// The thread exits.
    Exit,
}

/// A place: two waits there are waits for the same thing.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Its kind.
    pub class: Class,
    /// More exactly, where the rules of jobs depend on it.
    pub(super) form: Form,
    /// `futex FUTEX_LOCK_PI 0x7ffd1000`, `clock_nanosleep TIMER_ABSTIME`, `read 3`, `page fault`.
    pub name: String,
}

/// The thread was stopped from outside.
const STOPPED: &str = "a stop by a signal, a debugger or the freezer";
/// Not the wait of the call: the thread touched memory of the program in it, or needs a lock.
const HELD_UP: &str = "a page fault or a lock of the kernel";
/// Operation of glibc for semaphores and condition variables. A condition variable alternates between two words
/// (__g_signals in nptl/pthread_cond_common.c) within eight aligned bytes: one place.
const WAIT_BITSET: &str = "FUTEX_WAIT_BITSET";
const PLAIN: &str = "FUTEX_WAIT";
const LOCK_PI: &str = "FUTEX_LOCK_PI";
const LOCK_PI2: &str = "FUTEX_LOCK_PI2";
/// `TIMER_ABSTIME` among the flags of clock_nanosleep.
const ABSOLUTE: u8 = 1;
/// Calls of [`Form::Read`] and [`Form::Input`], by the begin of their names.
const READ: &str = "read";
const INPUTS: [&str; 7] = ["pread", "recv", "accept", "mq_timedreceive", "io_uring_enter", "ioctl", "splice"];
/// Calls that sleep. In sched_yield only SCHED_DEADLINE threads block, until their next period.
const SLEEPS: [&str; 3] = ["clock_nanosleep", "nanosleep", "sched_yield"];
/// Calls that wait for events.
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
/// Those whose first argument identifies the wait: address of the descriptors or signals, number of descriptors, queue.
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
/// Calls that wait for several descriptors, unless told otherwise.
const ON_SEVERAL: [&str; 9] = [
    "epoll_pwait",
    "epoll_pwait2",
    "epoll_wait",
    "io_getevents",
    "io_pgetevents",
    "poll",
    "ppoll",
    "pselect6",
    "select",
];
/// Calls on files whose first argument is not a descriptor.
const ON_FILES: [&str; 6] = ["openat", "open", "msync", "sync", "ftruncate", "io_uring_enter"];

impl Place {
    /// The place `point`; `name` names system calls.
    #[must_use]
    pub fn of(point: Point, name: fn(Point) -> Option<&'static str>) -> Place {
        let place = |class, form, name: &str| Place { class, form, name: name.to_owned() };
        if let Some(call) = point.held_up_in() {
            let call = name(call).unwrap_or("a system call");
            return place(Class::Other, Form::Other, &format!("{HELD_UP} in {call}"));
        }
        match point.syscall {
            Point::KERNEL => return place(Class::Other, Form::Other, "kernel code"),
            Point::STOPPED => return place(Class::Other, Form::Other, STOPPED),
            Point::EXITS => return place(Class::Other, Form::Exit, "exit"),
            ..0 => return place(Class::PageFault, Form::Other, "page fault"),
            _ => {}
        }
        let Some(call) = name(point) else {
            let kind = if point.compat { "32-bit system call" } else { "system call" };
            return place(Class::Other, Form::Unnamed, &format!("{kind} {}", point.syscall));
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
        let form = match form(call, class, point.operation) {
            // Of select the number of descriptors, of poll their address: only its timeout or a signal ends it.
            Form::OnSeveral if BY_ARGUMENT.contains(&call) && point.argument == 0 => Form::Timeout,
            form => form,
        };
        Place { class, form, name }
    }

    /// Whether it is a sleep with a relative time.
    pub(super) fn is_relative_sleep(&self) -> bool {
        self.form == Form::RelativeSleep
    }

    /// Whether only a timeout or a signal can end the wait.
    pub(super) fn is_timeout(&self) -> bool {
        self.form == Form::Timeout
    }

    /// Whether it is a futex call that some libraries use for waits for jobs, too.
    pub(super) fn may_be_plain_futex(&self) -> bool {
        self.form == Form::PlainFutex
    }

    /// Whether the system call has no known name.
    pub(super) fn is_unknown(&self) -> bool {
        self.form == Form::Unnamed
    }

    /// Whether it is a sleep until an absolute time.
    pub(super) fn is_absolute_sleep(&self) -> bool {
        self.form == Form::AbsoluteSleep
    }

    /// Whether several descriptors can end the wait.
    pub(super) fn is_on_several(&self) -> bool {
        self.form == Form::OnSeveral
    }

    /// Whether it is a lock on a file: held by another process, or handed over by it.
    pub(super) fn is_file_lock(&self) -> bool {
        self.class == Class::Io && self.name.starts_with("flock ")
    }

    /// Whether it is a read of any descriptor.
    pub(super) fn is_read(&self) -> bool {
        self.form == Form::Read
    }

    /// Whether data, requests or connections may be waited for there, in a call on a file.
    pub(super) fn is_input(&self) -> bool {
        matches!(self.form, Form::Read | Form::Input)
    }

    /// Whether the thread exits there.
    pub(super) fn is_exit(&self) -> bool {
        self.form == Form::Exit
    }

    /// Whether it may be a mutex: a thread that also waits elsewhere does not wait for its next job there.
    pub(super) fn may_be_mutex(&self) -> bool {
        matches!(self.form, Form::PlainFutex | Form::PiMutex)
    }
}

/// Whether it is FUTEX_WAIT. Hot path: no place is made.
pub(super) fn is_plain_futex(point: Point, name: fn(Point) -> Option<&'static str>) -> bool {
    operation(point.operation) == PLAIN && name(point) == Some("futex")
}

/// `low_byte`: of the second argument.
fn form(call: &str, class: Class, low_byte: u8) -> Form {
    match (class, call) {
        (Class::Sleep, "clock_nanosleep") if low_byte & ABSOLUTE != 0 => Form::AbsoluteSleep,
        (Class::Sleep, "nanosleep" | "clock_nanosleep") => Form::RelativeSleep,
        (Class::Lock, "futex") => match operation(low_byte) {
            PLAIN => Form::PlainFutex,
            LOCK_PI | LOCK_PI2 => Form::PiMutex,
            _ => Form::Other,
        },
        (Class::Wait, call) if ON_SEVERAL.contains(&call) => Form::OnSeveral,
        (Class::Io, call) if call.starts_with(READ) => Form::Read,
        (Class::Io, call) if INPUTS.iter().any(|begin| call.starts_with(begin)) => Form::Input,
        _ => Form::Other,
    }
}

/// Name of a clock of clock_nanosleep (include/uapi/linux/time.h); `None` for the usual CLOCK_MONOTONIC.
fn clock(id: u64) -> Option<&'static str> {
    match id as i32 {
        1 => None,
        0 => Some("CLOCK_REALTIME"),
        7 => Some("CLOCK_BOOTTIME"),
        11 => Some("CLOCK_TAI"),
        _ => Some("another clock"),
    }
}

/// Name of a futex operation (include/uapi/linux/futex.h), without the private and clock flags.
fn operation(low_byte: u8) -> &'static str {
    match low_byte & 0x7f {
        0 => PLAIN,
        6 => LOCK_PI,
        9 => WAIT_BITSET,
        11 => "FUTEX_WAIT_REQUEUE_PI",
        13 => LOCK_PI2,
        _ => "operation",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_fault_in_a_sleep_is_no_sleep() {
        let asleep = Point { syscall: 230, operation: 1, ..Point::default() };
        let held_up = Point { syscall: Point::HELD_UP - 230, ..asleep };
        assert_eq!((held_up.held_up_in(), asleep.held_up_in()), (Some(asleep), None));
        let place = |point| {
            Place::of(point, |point| {
                assert_eq!(point.syscall, 230);
                Some("clock_nanosleep")
            })
        };
        assert!(place(asleep).is_absolute_sleep());
        let held_up = place(held_up);
        assert_eq!(held_up.class, Class::Other);
        assert_eq!(held_up.name, "a page fault or a lock of the kernel in clock_nanosleep");
        let first = Point { syscall: Point::HELD_UP, ..Point::default() };
        assert_eq!(first.held_up_in().map(|call| call.syscall), Some(0), "read of x86-64");
        let special = [Point::EXCEPTION, Point::KERNEL, Point::EXITS, Point::STOPPED];
        assert!(special.iter().all(|&syscall| Point { syscall, ..asleep }.held_up_in().is_none()));
    }

    #[test]
    fn a_wait_for_no_descriptor_at_all_is_not_one_for_several() {
        let on_several = |call: &'static str, argument| {
            let point = Point { syscall: 7, argument, ..Point::default() };
            let name: fn(Point) -> Option<&'static str> = match call {
                "select" => |_| Some("select"),
                "ppoll" => |_| Some("ppoll"),
                _ => |_| Some("epoll_wait"),
            };
            Place::of(point, name).is_on_several()
        };
        assert!(!on_several("select", 0) && !on_several("ppoll", 0), "a sleep");
        assert!(on_several("select", 5) && on_several("ppoll", 0x7f00) && on_several("epoll_wait", 0));
    }
}

//! The runtime of one kernel thread: its table of threads, their stacks, its alarm.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32};

use crate::alarm::{Alarm, Mechanism};
use crate::broker::Broker;
use crate::clock::Clock;
use crate::config::Config;
use crate::kernel;
use crate::measure::Measured;
use crate::meter::{Meter, Times};
use crate::policy::Scheduler;
use crate::stack::Stack;
use crate::values::{Keys, Values};

/// Body of a thread of the runtime.
pub(crate) type Body = Box<dyn FnOnce()>;

/// struct lathunt_cleanup of `lathunt/pthread.h`.
#[repr(C)]
pub struct Cleanup {
    pub(crate) function: unsafe extern "C" fn(*mut libc::c_void),
    pub(crate) argument: *mut libc::c_void,
    pub(crate) below: *mut Cleanup,
}

/// Maximum length of a name, as for kernel threads.
pub const NAME_BYTES: usize = 15;

/// Machine-dependent part of a thread; its index in the table is its [`ThreadId`].
pub(crate) struct Fiber {
    pub(crate) sp: *mut u8,
    pub(crate) stack: Option<Stack>,
    /// Lowest and highest valid stack pointer.
    pub(crate) bounds: (usize, usize),
    /// It was preempted: it continues inside the signal handler, until the return from the signal.
    pub(crate) in_handler: bool,
    pub(crate) errno: i32,
    /// C++ and others keep the exception state of a kernel thread here.
    pub(crate) exceptions: [usize; 2],
    pub(crate) name: [u8; NAME_BYTES + 1],
    pub(crate) body: Option<Body>,
    /// It will not be joined: its slot is freed when it ends.
    pub(crate) detached: bool,
    /// Result of a C thread.
    pub(crate) result: usize,
    pub(crate) times: Times,
    /// Maximum bytes of its stack in use, once it has ended.
    pub(crate) stack_used: usize,
    pub(crate) values: Values,
    /// Cleanup handlers of a C thread, the newest first.
    pub(crate) cleanup: *mut Cleanup,
}

/// The runtime of one kernel thread.
pub struct Runtime {
    /// Above 0: the tables are being changed, or the program holds the scheduler; signals only set `pending`.
    pub(crate) locked: AtomicU32,
    /// A signal came while it was locked.
    pub(crate) pending: AtomicBool,
    /// Whether the kernel blocks our signal now: between its delivery and the return from it.
    pub(crate) masked: Cell<bool>,
    pub(crate) sched: Scheduler,
    pub(crate) fibers: Vec<Fiber>,
    /// The thread whose stack is in use.
    pub(crate) on_cpu: u32,
    pub(crate) clock: Clock,
    /// The last clock reading, and whether it was taken since the scheduler was locked.
    pub(crate) stamp: u64,
    pub(crate) fresh: bool,
    pub(crate) alarm: Option<Alarm>,
    /// Time of the alarm.
    pub(crate) armed: u64,
    pub(crate) errno: *mut i32,
    pub(crate) exceptions: *mut usize,
    /// Stacks of ended threads: unmapped by the next thread, which is on another stack.
    pub(crate) buried: Vec<Stack>,
    pub(crate) broker: Broker,
    pub(crate) config: Config,
    pub(crate) measured: Measured,
    pub(crate) keys: Keys,
    /// Signals delivered, and how many of them came while the scheduler was locked.
    pub(crate) signals: u64,
    pub(crate) deferred: u64,
    pub(crate) switches: u64,
    /// `None`: not requested.
    pub(crate) meter: Option<Meter>,
    /// Ends the running thread, after its body.
    pub(crate) exit: fn() -> !,
    pub(crate) kernel: Option<kernel::Changed>,
}

thread_local! {
    static CURRENT: Cell<*mut Runtime> = const { Cell::new(std::ptr::null_mut()) };
}

/// The calling kernel thread's runtime, or null.
#[inline(always)]
pub(crate) fn current() -> *mut Runtime {
    CURRENT.with(Cell::get)
}

pub(crate) fn set_current(runtime: *mut Runtime) {
    CURRENT.set(runtime);
}

impl Runtime {
    /// Now, in ns of `CLOCK_MONOTONIC`.
    #[inline]
    pub(crate) fn now(&mut self) -> u64 {
        self.stamp = self.clock.now();
        self.fresh = true;
        self.stamp
    }
}

impl Runtime {
    /// Charges the time since the last call to the thread on the CPU. No effect without a meter.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.settle(&mut self.fibers[self.on_cpu as usize].times);
        }
    }

    /// Records how late the earliest timer is seen at `now`, before it is served.
    #[inline]
    pub(crate) fn look_at_timers(&mut self, now: u64) {
        if let Some(meter) = &mut self.meter {
            meter.late(now.saturating_sub(self.sched.next_timer()));
        }
    }
}

impl Fiber {
    pub(crate) fn unused() -> Fiber {
        Fiber {
            sp: std::ptr::null_mut(),
            stack: None,
            bounds: (0, usize::MAX),
            in_handler: false,
            errno: 0,
            exceptions: [0; 2],
            name: [0; NAME_BYTES + 1],
            body: None,
            detached: false,
            result: 0,
            times: Times::default(),
            stack_used: 0,
            values: Values::default(),
            cleanup: std::ptr::null_mut(),
        }
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.name = [0; NAME_BYTES + 1];
        let mut end = name.len().min(NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        self.name[..end].copy_from_slice(&name.as_bytes()[..end]);
    }

    pub(crate) fn name(&self) -> &str {
        let end = self.name.iter().position(|&byte| byte == 0).unwrap_or(0);
        std::str::from_utf8(&self.name[..end]).unwrap_or("")
    }
}

/// The preemption mechanism, for reports.
pub(crate) fn mechanism(runtime: &Runtime) -> Option<Mechanism> {
    match runtime.alarm {
        Some(Alarm::Timer(_)) => Some(Mechanism::Timer),
        Some(Alarm::Helper(_)) => Some(Mechanism::Helper),
        None => None,
    }
}

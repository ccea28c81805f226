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

/// What a thread of the runtime runs.
pub(crate) type Body = Box<dyn FnOnce()>;

/// struct lathunt_cleanup of `lathunt/pthread.h`.
#[repr(C)]
pub struct Cleanup {
    pub(crate) function: unsafe extern "C" fn(*mut libc::c_void),
    pub(crate) argument: *mut libc::c_void,
    pub(crate) below: *mut Cleanup,
}

/// Longest name, as the kernel's for its threads.
pub const NAME_BYTES: usize = 15;

/// A thread's machine part; its place in the table is its [`ThreadId`].
pub(crate) struct Fiber {
    pub(crate) sp: *mut u8,
    pub(crate) stack: Option<Stack>,
    /// Lowest and highest address that its stack pointer may have.
    pub(crate) bounds: (usize, usize),
    /// It was preempted: it goes on inside the signal handler, which the kernel's return from the signal ends.
    pub(crate) in_handler: bool,
    pub(crate) errno: i32,
    /// C++ and others keep the exceptions of a kernel thread here.
    pub(crate) exceptions: [usize; 2],
    pub(crate) name: [u8; NAME_BYTES + 1],
    pub(crate) body: Option<Body>,
    /// Nobody will join it: its place is free when it ends.
    pub(crate) detached: bool,
    /// What a C thread returned.
    pub(crate) result: usize,
    pub(crate) times: Times,
    /// Most bytes of its stack in use, once it has ended.
    pub(crate) stack_used: usize,
    pub(crate) values: Values,
    /// Cleanup handlers of a C thread, the newest first.
    pub(crate) cleanup: *mut Cleanup,
}

/// The runtime of one kernel thread.
pub struct Runtime {
    /// Above 0: the tables are being changed, or the program holds the scheduler; signals only leave a note.
    pub(crate) locked: AtomicU32,
    /// That note.
    pub(crate) pending: AtomicBool,
    /// Whether the kernel blocks our signal now: between its delivery and the return from it.
    pub(crate) masked: Cell<bool>,
    pub(crate) sched: Scheduler,
    pub(crate) fibers: Vec<Fiber>,
    /// On whose stack we are.
    pub(crate) on_cpu: u32,
    pub(crate) clock: Clock,
    /// The last reading, and whether it was taken since the scheduler was locked.
    pub(crate) stamp: u64,
    pub(crate) fresh: bool,
    pub(crate) alarm: Option<Alarm>,
    /// When the alarm will come.
    pub(crate) armed: u64,
    pub(crate) errno: *mut i32,
    pub(crate) exceptions: *mut usize,
    /// Stacks of threads that have ended: unmapped by the next one, which is on another stack.
    pub(crate) buried: Vec<Stack>,
    pub(crate) broker: Broker,
    pub(crate) config: Config,
    pub(crate) measured: Measured,
    pub(crate) keys: Keys,
    /// Signals that were delivered, and how many of them came while the scheduler was locked.
    pub(crate) signals: u64,
    pub(crate) deferred: u64,
    pub(crate) switches: u64,
    /// `None`: not asked for.
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
    /// Time since the last call is that of the thread on the CPU. Nothing without a meter.
    #[inline]
    pub(crate) fn settle(&mut self) {
        if let Some(meter) = &mut self.meter {
            meter.settle(&mut self.fibers[self.on_cpu as usize].times);
        }
    }

    /// How late the earliest timer is seen at `now`, before it is served.
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

/// Which mechanism interrupts, for reports.
pub(crate) fn mechanism(runtime: &Runtime) -> Option<Mechanism> {
    match runtime.alarm {
        Some(Alarm::Timer(_)) => Some(Mechanism::Timer),
        Some(Alarm::Helper(_)) => Some(Mechanism::Helper),
        None => None,
    }
}

//! Interrupts a running thread at a given time: by a POSIX timer, or by a helper thread that sleeps.
//!
//! On PREEMPT_RT the kernel expires POSIX timers in a softirq thread of low priority, while a sleeping real-time thread is
//! woken by the interrupt itself. On other kernels the timer is preferable: it needs no second CPU. Both are measured at
//! start.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crate::policy::NEVER;
use crate::signal;

/// The mechanism of an alarm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// timer_create with SIGEV_THREAD_ID.
    Timer,
    /// A kernel thread that sleeps and sends the signal.
    Helper,
}

/// An alarm for the calling kernel thread.
#[derive(Debug)]
pub enum Alarm {
    /// POSIX timer.
    Timer(libc::timer_t),
    /// Helper thread.
    Helper(Arc<Helper>),
}

/// Shared by the helper thread and its user.
#[derive(Debug)]
pub struct Helper {
    at: AtomicU64,
    turn: AtomicU32,
    stop: AtomicBool,
    user: AtomicI32,
}

impl Alarm {
    /// Creates one. `priority`: SCHED_FIFO priority of the helper, above the user's; `None`: an ordinary thread.
    ///
    /// # Errors
    /// The error of timer_create (RLIMIT_SIGPENDING: EAGAIN) or of thread creation.
    pub fn new(mechanism: Mechanism, priority: Option<i32>) -> io::Result<Alarm> {
        match mechanism {
            Mechanism::Timer => posix_timer().map(Alarm::Timer),
            Mechanism::Helper => helper(priority).map(Alarm::Helper),
        }
    }

    /// Sends the signal at an absolute time of `CLOCK_MONOTONIC`, in ns, instead of the time set before. [`NEVER`]: not at
    /// all. One system call.
    pub fn set(&self, at: u64) {
        match self {
            Alarm::Timer(timer) => {
                let mut when: libc::itimerspec =
                    // SAFETY: integers.
                    unsafe { std::mem::zeroed() };
                if at != NEVER {
                    when.it_value.tv_sec = (at / 1_000_000_000) as libc::time_t;
                    when.it_value.tv_nsec =
                        (at % 1_000_000_000).max(u64::from(at < 1_000_000_000)) as libc::c_long;
                }
                // SAFETY: our timer; the value is valid.
                unsafe { libc::timer_settime(*timer, libc::TIMER_ABSTIME, &when, std::ptr::null_mut()) };
            }
            Alarm::Helper(helper) => {
                helper.at.store(at, Ordering::Release);
                helper.turn.fetch_add(1, Ordering::Release);
                futex_wake(&helper.turn);
            }
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        match self {
            Alarm::Timer(timer) => {
                // SAFETY: our timer.
                unsafe { libc::timer_delete(*timer) };
            }
            Alarm::Helper(helper) => {
                helper.stop.store(true, Ordering::Release);
                helper.turn.fetch_add(1, Ordering::Release);
                futex_wake(&helper.turn);
            }
        }
    }
}

fn posix_timer() -> io::Result<libc::timer_t> {
    // SAFETY: a zeroed sigevent is valid, and filled in before use; the timer is written by the kernel.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = signal::number();
        event.sigev_notify_thread_id = signal::thread_id();
        let mut timer: libc::timer_t = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(timer)
    }
}

fn helper(priority: Option<i32>) -> io::Result<Arc<Helper>> {
    let helper = Arc::new(Helper {
        at: AtomicU64::new(NEVER),
        turn: AtomicU32::new(0),
        stop: AtomicBool::new(false),
        user: AtomicI32::new(signal::thread_id()),
    });
    let shared = helper.clone();
    std::thread::Builder::new().name("lathunt-alarm".into()).stack_size(64 * 1024).spawn(move || {
        signal::block_all();
        if let Some(priority) = priority {
            let parameters = libc::sched_param { sched_priority: priority };
            // SAFETY: applies to the calling thread; refused, it stays an ordinary one, which the measurement sees.
            unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) };
        }
        // SAFETY: no memory is passed.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
        shared.work();
    })?;
    Ok(helper)
}

impl Helper {
    fn work(&self) {
        while !self.stop.load(Ordering::Acquire) {
            let turn = self.turn.load(Ordering::Acquire);
            let at = self.at.load(Ordering::Acquire);
            if !futex_sleep(&self.turn, turn, at) {
                continue;
            }
            let due = self.at.compare_exchange(at, NEVER, Ordering::AcqRel, Ordering::Acquire);
            // The time is unchanged. If the user has ended, end too.
            if due.is_ok() && !signal::send(self.user.load(Ordering::Relaxed)) {
                return;
            }
        }
    }
}

/// Sleeps while the word has the value, until an absolute time. True: the time was reached.
fn futex_sleep(word: &AtomicU32, value: u32, until: u64) -> bool {
    let time = libc::timespec {
        tv_sec: (until / 1_000_000_000).min(i64::MAX as u64) as libc::time_t,
        tv_nsec: (until % 1_000_000_000) as libc::c_long,
    };
    let limit = if until == NEVER { std::ptr::null() } else { &raw const time };
    let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word and the time live on; the time is absolute on CLOCK_MONOTONIC.
    let answer = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            operation,
            value,
            limit,
            std::ptr::null::<u32>(),
            u32::MAX,
        )
    };
    answer != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ETIMEDOUT)
}

fn futex_wake(word: &AtomicU32) {
    let operation = libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word lives on.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, 1) };
}

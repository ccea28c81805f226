//! Blocking calls that block one thread, not all: readiness through one epoll, files through helper threads.
//!
//! A call is first tried without blocking, with the scheduler locked: if data are available, that is the only system call.
//! Else the thread is registered as a waiter and the descriptor in the epoll (edge-triggered, so that it stays registered
//! without further calls; trying and registering under one lock loses no edge). Events are collected by:
//!
//! - the idle loop, which sleeps in the epoll itself;
//! - every timer signal, and every dispatch if the last check is more than [`LOOK_EVERY`] ago;
//! - while the running thread is less urgent than a waiting one: a helper thread that polls the epoll and sends the signal.
//!
//! [`crate::io`] has the calls; [`pool`] the helpers for files; [`watcher`] the helper that watches.

mod pool;
mod watcher;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use crate::policy::{Scheduler, ThreadId, NEVER};
use crate::{signal, text};

/// Ns between checks of the epoll while threads of equal urgency keep the processor busy.
const LOOK_EVERY: u64 = 50_000;

/// Mark of the wake-up eventfd in epoll events; descriptors are smaller.
const BELL: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Waiter {
    fd: i32,
    events: u32,
    thread: u32,
    priority: u8,
}

/// The broker of a runtime.
pub(crate) struct Broker {
    epoll: i32,
    bell: i32,
    waiters: Vec<Waiter>,
    most_urgent: Option<u8>,
    looked: u64,
    pool: Option<pool::Pool>,
    /// By thread: its job in the pool is done.
    done: Arc<[AtomicBool]>,
    /// Threads that wait for the pool.
    jobs: Vec<u32>,
    watcher: Option<Arc<watcher::Watcher>>,
    /// The idle loop's wait has just collected all events.
    asked: bool,
    /// Set once it was reported that all threads wait and nothing can wake them.
    told_stuck: bool,
}

impl Broker {
    /// A broker for this number of threads.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn new(threads: usize) -> io::Result<Broker> {
        // SAFETY: no memory is passed but the event, which is valid.
        unsafe {
            let epoll = libc::epoll_create1(libc::EPOLL_CLOEXEC);
            let bell = libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK);
            let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: BELL };
            if epoll < 0 || bell < 0 || libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, bell, &mut event) != 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Broker {
                epoll,
                bell,
                waiters: Vec::with_capacity(threads),
                most_urgent: None,
                looked: 0,
                pool: None,
                done: (0..threads).map(|_| AtomicBool::new(false)).collect(),
                jobs: Vec::with_capacity(threads),
                watcher: None,
                asked: false,
                told_stuck: false,
            })
        }
    }

    #[inline(always)]
    pub(crate) fn has_work(&self) -> bool {
        !self.waiters.is_empty() || !self.jobs.is_empty()
    }

    /// Registers the running thread as a waiter.
    ///
    /// # Errors
    /// EPERM for files, which are always ready; other errors of epoll_ctl.
    pub(crate) fn enter(&mut self, fd: i32, events: u32, thread: u32, priority: u8) -> Result<(), i32> {
        let all = (libc::EPOLLIN | libc::EPOLLOUT | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET) as u32;
        let mut event = libc::epoll_event { events: all, u64: fd as u64 };
        // SAFETY: the event is valid.
        if unsafe { libc::epoll_ctl(self.epoll, libc::EPOLL_CTL_ADD, fd, &mut event) } != 0 {
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(libc::EINVAL);
            if error != libc::EEXIST {
                return Err(error);
            }
        }
        self.waiters.push(Waiter { fd, events, thread, priority });
        self.most_urgent = self.most_urgent.max(Some(priority));
        Ok(())
    }

    /// The thread is not waiting any more.
    pub(crate) fn forget(&mut self, thread: u32) {
        self.waiters.retain(|waiter| waiter.thread != thread);
        self.jobs.retain(|&job| job != thread);
        self.most_urgent = self.waiters.iter().map(|waiter| waiter.priority).max();
    }

    /// Passes a blocking call to a helper thread; the running thread then waits, and is woken when [`Broker::is_done`].
    /// False: no helper can be started.
    pub(crate) fn submit(&mut self, thread: u32, call: impl FnOnce() + Send + 'static) -> bool {
        let (done, bell) = (self.done.clone(), self.bell);
        done[thread as usize].store(false, Ordering::Release);
        let job = Box::new(move || {
            call();
            done[thread as usize].store(true, Ordering::Release);
            ring(bell);
        });
        if !self.pool.get_or_insert_with(pool::Pool::default).submit(job) {
            return false;
        }
        self.jobs.push(thread);
        true
    }

    /// Whether the helper has finished the thread's call.
    pub(crate) fn is_done(&self, thread: u32) -> bool {
        self.done[thread as usize].load(Ordering::Acquire)
    }

    /// Wakes the threads whose descriptors are ready.
    pub(crate) fn collect(&mut self, sched: &mut Scheduler, now: u64) {
        if !self.has_work() || std::mem::take(&mut self.asked) {
            return;
        }
        self.looked = now;
        // SAFETY: integers; the kernel writes as many as it says.
        let mut events: [libc::epoll_event; 64] = unsafe { std::mem::zeroed() };
        // SAFETY: room for 64.
        let count = unsafe { libc::epoll_wait(self.epoll, events.as_mut_ptr(), 64, 0) };
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            self.serve(event, sched, now);
        }
    }

    /// [`Broker::collect`], if the last check is long ago.
    #[inline(always)]
    pub(crate) fn look(&mut self, sched: &mut Scheduler, now: u64) {
        if self.has_work() && now.saturating_sub(self.looked) > LOOK_EVERY {
            self.collect(sched, now);
        }
    }

    fn serve(&self, event: &libc::epoll_event, sched: &mut Scheduler, now: u64) {
        let (mark, what) = (event.u64, event.events);
        if mark == BELL {
            let mut count: u64 = 0;
            // SAFETY: eight valid bytes.
            unsafe { libc::read(self.bell, (&raw mut count).cast(), 8) };
            for &thread in self.jobs.iter().filter(|&&thread| self.is_done(thread)) {
                sched.wake(ThreadId(thread), now);
            }
            return;
        }
        let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        for waiter in &self.waiters {
            if waiter.fd as u64 == mark && (waiter.events | always) & what != 0 {
                // Its entry stays until it runs: it may wait for several descriptors.
                sched.wake(ThreadId(waiter.thread), now);
            }
        }
    }

    /// No thread can run: sleeps until a time, or until a descriptor is ready, and wakes the threads that wait for it.
    pub(crate) fn wait(&mut self, sched: &mut Scheduler, until: u64, now: u64) {
        if !self.has_work() {
            return self.sleep(until);
        }
        if let Some(watcher) = &self.watcher {
            watcher.rest();
        }
        let left = until - now;
        let time = libc::timespec {
            tv_sec: (left / 1_000_000_000).min(1 << 30) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        let limit = if until == NEVER { std::ptr::null() } else { &raw const time };
        // SAFETY: integers; the kernel writes as many as it says.
        let mut events: [libc::epoll_event; 64] = unsafe { std::mem::zeroed() };
        let none = std::ptr::null::<libc::sigset_t>();
        // SAFETY: room for 64, a valid time, no mask.
        let count = unsafe {
            libc::syscall(libc::SYS_epoll_pwait2, self.epoll, events.as_mut_ptr(), 64, limit, none, 8usize)
        };
        if count < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS) {
            // Before Linux 5.11: sleep, then collect.
            let mut ready = libc::pollfd { fd: self.epoll, events: libc::POLLIN, revents: 0 };
            // SAFETY: one valid entry, a valid time, no mask.
            unsafe { libc::ppoll(&mut ready, 1, limit, std::ptr::null()) };
            return;
        }
        let now = crate::clock::monotonic();
        for event in &events[..usize::try_from(count).unwrap_or(0)] {
            self.serve(event, sched, now);
        }
        // The tick that follows need not check again.
        self.looked = now;
        self.asked = true;
    }

    fn sleep(&mut self, until: u64) {
        if until == NEVER {
            // Only a signal handler of the program can wake a thread now.
            if !std::mem::replace(&mut self.told_stuck, true) {
                text::say(
                    "lathunt-runtime: all threads wait, and no time or descriptor can wake one of them",
                );
            }
            // SAFETY: waits for any signal.
            unsafe { libc::pause() };
            return;
        }
        let time = libc::timespec {
            tv_sec: (until / 1_000_000_000) as libc::time_t,
            tv_nsec: (until % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the time is valid; if interrupted, the caller checks again.
        unsafe {
            libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut())
        };
    }

    /// Lets the watcher poll while the running thread is less urgent than a waiting one. `kernel_priority`: of the kernel
    /// thread.
    #[inline(always)]
    pub(crate) fn watch(&mut self, sched: &Scheduler, kernel_priority: Option<i32>) {
        if let Some(waits) = self.most_urgent {
            self.watch_for(waits, sched, kernel_priority);
        }
    }

    fn watch_for(&mut self, waits: u8, sched: &Scheduler, kernel_priority: Option<i32>) {
        if sched.current().is_none_or(|current| sched.urgency(current).priority >= waits) {
            return;
        }
        if self.watcher.is_none() {
            self.watcher = watcher::Watcher::start(self.epoll, signal::thread_id(), kernel_priority).ok();
        }
        if let Some(watcher) = &self.watcher {
            watcher.watch();
        }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.stop();
        }
        self.pool = None;
        ring(self.bell);
        // SAFETY: ours. The watcher has a duplicate of the epoll; the pool has ended.
        unsafe {
            libc::close(self.epoll);
            libc::close(self.bell);
        }
    }
}

fn ring(bell: i32) {
    let one: u64 = 1;
    // SAFETY: eight valid bytes.
    unsafe { libc::write(bell, (&raw const one).cast(), 8) };
}

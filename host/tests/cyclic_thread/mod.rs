//! A periodic FIFO thread to be disturbed: pinned, on a grid of absolute times that the test knows.

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use lathunt_core::time::{Cpu, Mono, Ns, Tid};

pub const PERIOD: Ns = Ns(1_000_000);

/// Runs until dropped, or at most 20 s.
pub struct CyclicThread {
    pub tid: Tid,
    /// The first moment of the grid: 200 periods after the start, so that a busy machine has time to prepare.
    #[allow(dead_code)] // not every test file aims at it
    pub origin: Mono,
    stop: Arc<AtomicBool>,
    handle: Option<JoinHandle<Vec<Ns>>>,
}

pub fn clock() -> Mono {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; the clock exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Mono(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Pins the calling thread, and makes it FIFO unless `priority` is 0.
pub fn enter(cpu: Cpu, priority: i32) {
    // SAFETY: plain values; a zeroed set is empty; CPU numbers of a test machine are small.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu.0 as usize, &mut set);
        assert_eq!(libc::sched_setaffinity(0, size_of_val(&set), &set), 0);
        let param = libc::sched_param { sched_priority: priority };
        let policy = if priority > 0 { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
        assert_eq!(libc::sched_setscheduler(0, policy, &param), 0);
    }
}

pub fn sleep_until(time: Mono) {
    let at = libc::timespec {
        tv_sec: (time.0 / 1_000_000_000) as libc::time_t,
        tv_nsec: (time.0 % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: valid pointers; an absolute sleep writes no remainder.
    unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &at, std::ptr::null_mut()) };
}

impl CyclicThread {
    pub fn start(cpu: Cpu, priority: i32) -> CyclicThread {
        let (stop, tid) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI32::new(0)));
        let origin = Mono((clock().0 / PERIOD.0 + 200) * PERIOD.0);
        let (stopped, its_tid) = (Arc::clone(&stop), Arc::clone(&tid));
        let body = move || {
            enter(cpu, priority);
            // SAFETY: no preconditions.
            its_tid.store(unsafe { libc::gettid() }, Ordering::Release);
            run(origin, &stopped)
        };
        let handle = std::thread::Builder::new().name("test-cyclic".into()).spawn(body).unwrap();
        while tid.load(Ordering::Acquire) == 0 {
            std::thread::yield_now();
        }
        CyclicThread { tid: Tid(tid.load(Ordering::Acquire)), origin, stop, handle: Some(handle) }
    }

    /// Ends it and returns its latencies.
    pub fn finish(mut self) -> Vec<Ns> {
        self.stop.store(true, Ordering::Relaxed);
        self.handle.take().map(|handle| handle.join().unwrap()).unwrap_or_default()
    }
}

impl Drop for CyclicThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

fn run(origin: Mono, stop: &AtomicBool) -> Vec<Ns> {
    let mut latencies = Vec::with_capacity(20_000);
    let mut next = origin;
    while !stop.load(Ordering::Relaxed) && latencies.len() < 20_000 {
        sleep_until(next);
        let late = clock().since(next);
        latencies.push(late);
        next = next + Ns(PERIOD.0 * (late.0 / PERIOD.0 + 1));
    }
    latencies
}

//! A periodic FIFO thread to be disturbed: pinned, on a grid of absolute times that the test knows.

#![allow(dead_code)] // not every test file asks for everything

use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_host::inject::{Options, Pulse};

pub const PERIOD: Ns = Ns(1_000_000);

/// Runs until dropped, or at most 20 s.
pub struct CyclicThread {
    pub tid: Tid,
    /// The first moment of the grid: 200 periods after the start, so that a busy machine has time to prepare.
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

/// Why a test that needs two CPUs cannot run.
pub fn one_cpu() -> Option<&'static str> {
    lathunt_host::sched::affinity().is_ok_and(|cpus| cpus.len() < 2).then_some("has one CPU only")
}

/// As [`enter`] without a real-time priority, but before all other ordinary threads.
pub fn enter_first(cpu: Cpu) {
    enter(cpu, 0);
    // SAFETY: a plain call, for this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, -20) };
}

pub fn sleep_until(time: Mono) {
    sleep_until_time_of(libc::CLOCK_MONOTONIC, time.0);
}

/// `time`: ns of `clock`. A signal ends the sleep.
pub fn sleep_until_time_of(clock: libc::clockid_t, time: u64) {
    let at = libc::timespec {
        tv_sec: (time / 1_000_000_000) as libc::time_t,
        tv_nsec: (time % 1_000_000_000) as libc::c_long,
    };
    // SAFETY: valid pointers; an absolute sleep writes no remainder.
    unsafe { libc::clock_nanosleep(clock, libc::TIMER_ABSTIME, &at, std::ptr::null_mut()) };
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

/// What a thread saw of itself.
pub struct Turns {
    /// Its expiries, each with its latency.
    pub all: Vec<(Mono, Ns)>,
    /// The median of the latencies, as nearly all wake-ups are undisturbed.
    pub usual: Ns,
}

impl Turns {
    pub fn new(origin: Mono, latencies: &[Ns]) -> Turns {
        let mut next = origin;
        let turn = |&late: &Ns| {
            let expiry = next;
            next = after(next, late);
            (expiry, late)
        };
        let all: Vec<(Mono, Ns)> = latencies.iter().map(turn).collect();
        let mut sorted = latencies.to_vec();
        sorted.sort_unstable();
        Turns { all, usual: sorted.get(sorted.len() / 2).copied().unwrap_or_default() }
    }

    /// The pulses of `length` that held the thread, and nothing else did: it came when they ended. Each with its expiry,
    /// at most `within` after the pulse began, and its latency. A host that takes the CPU meanwhile spoils pulses.
    pub fn alone(&self, pulses: &[Pulse], length: Ns, within: Ns) -> Vec<(Pulse, Mono, Ns)> {
        let slack = self.usual + allowed(length);
        let alone = |pulse: &Pulse| {
            // The injector already occupies the CPU while it polls the clock.
            let first = Mono(pulse.begin.0 - Options::once(Cpu(0), length).watch.0);
            let last = pulse.begin + within;
            let of_it = |(expiry, late): &&(Mono, Ns)| {
                let arrival = *expiry + *late;
                (first..=last).contains(expiry) && (pulse.end..=pulse.end + slack).contains(&arrival)
            };
            let &(expiry, late) = self.all.iter().find(of_it)?;
            (pulse.length() <= length + slack).then_some((*pulse, expiry, late))
        };
        pulses.iter().filter_map(alone).collect()
    }
}

/// How far off a size may be.
pub fn allowed(length: Ns) -> Ns {
    Ns(length.0 / 10).max(Ns::from_us(20))
}

/// What it overran is left out.
fn after(expiry: Mono, late: Ns) -> Mono {
    expiry + Ns(PERIOD.0 * (late.0 / PERIOD.0 + 1))
}

fn run(origin: Mono, stop: &AtomicBool) -> Vec<Ns> {
    let mut latencies = Vec::with_capacity(20_000);
    let mut next = origin;
    while !stop.load(Ordering::Relaxed) && latencies.len() < 20_000 {
        sleep_until(next);
        let late = clock().since(next);
        latencies.push(late);
        next = after(next, late);
    }
    latencies
}

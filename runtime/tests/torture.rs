//! Preemption at random instructions: nothing of a thread's registers, flags, floating-point control words, errno or heap may
//! change under it.
//!
//! Some seconds of it in every test run; `LATHUNT_TORTURE=10000000 cargo test --release -p lathunt-runtime --test torture` for
//! ten million preemptions (20 minutes).

mod registers;

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;

use lathunt_runtime::policy::{Params, Policy, Protocol};
use lathunt_runtime::sync::{Mutex, Queue};
use lathunt_runtime::{now, report, run, sleep, this, yield_now, Builder, Config, FiberAlloc, Preemption};

#[global_allocator]
static ALLOCATOR: FiberAlloc = FiberAlloc;

/// How many preemptions of computing threads.
fn wanted() -> u64 {
    std::env::var("LATHUNT_TORTURE").ok().and_then(|text| text.parse().ok()).unwrap_or(20_000)
}

fn config() -> Config {
    Config { preemption: Preemption::Timer, main_priority: 90, ..Config::default() }
}

/// Slices of the computing threads, ns: several sleeps of [`disturb`] on a machine whose timers are 50 µs late. A thread whose
/// slice has ended when it is preempted counts as one that has had its slice.
const QUANTUM: u64 = 300_000;

/// A small generator: distances between preemptions must not follow the work's rhythm.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Main sleeps for short random times; each wake-up preempts whoever computes, until so many have been preempted, or so many
/// seconds have passed and at least `least` have. Returns the preemptions of the threads.
fn disturb(threads: &[lathunt_runtime::Thread], preemptions: u64, seconds: u64, least: u64) -> u64 {
    let mut random = Random(now() | 1);
    let end = now() + seconds * 1_000_000_000;
    loop {
        for _ in 0..64 {
            sleep(3_000 + random.below(12_000)).unwrap();
        }
        let seen = threads.iter().map(|thread| thread.account().unwrap().preemptions).sum();
        // A machine that is busy with others gives fewer.
        if seen >= preemptions || (now() > end && seen >= least) {
            return seen;
        }
        assert!(now() < end + 60_000_000_000, "only {seen} preemptions");
    }
}

#[test]
fn no_register_changes_under_a_preempted_thread() {
    run(&config(), || {
        let stop = Rc::new(Cell::new(false));
        let threads: Vec<_> = (0..4)
            .map(|thread: u64| {
                let stop = stop.clone();
                let params = Params {
                    policy: Policy::RoundRobin { quantum: QUANTUM },
                    priority: 5,
                    ..Params::default()
                };
                let body = move || {
                    let mut rounds = 0u64;
                    while !stop.get() {
                        registers::check(thread + 1, 2000);
                        rounds += 1;
                    }
                    rounds
                };
                Builder::new("computes").params(params).spawn(body).unwrap()
            })
            .collect();
        let ids: Vec<_> = threads.iter().map(|thread| thread.thread()).collect();
        let seen = disturb(&ids, wanted(), if wanted() > 1_000_000 { 3600 } else { 4 }, 500);
        stop.set(true);
        for thread in threads {
            assert!(thread.join().unwrap().unwrap() > 0);
        }
        let report = report().unwrap();
        println!("{seen} preemptions, {} signals, {} while locked", report.signals, report.deferred);
    })
    .unwrap();
}

static HANDLED: AtomicU64 = AtomicU64::new(0);

/// A handler of the program: destroys what it may, and is preempted now and then.
extern "C" fn on_user_signal(_: i32) {
    // SAFETY: the calling thread's errno.
    unsafe { *libc::__errno_location() = 99 };
    registers::check(HANDLED.fetch_add(1, Ordering::Relaxed) + 1000, 200);
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = 0 };
}

#[test]
fn signal_handlers_of_the_program_are_preempted_and_preempt() {
    run(&config(), || {
        // SAFETY: a handler with the signature that `signal` demands.
        unsafe { libc::signal(libc::SIGUSR1, on_user_signal as *const () as usize) };
        let stop = Rc::new(Cell::new(false));
        let params =
            Params { policy: Policy::RoundRobin { quantum: QUANTUM }, priority: 5, ..Params::default() };
        let threads: Vec<_> = (0..3)
            .map(|thread: u64| {
                let stop = stop.clone();
                let body = move || {
                    while !stop.get() {
                        registers::check(thread + 1, 500);
                    }
                };
                Builder::new("computes").params(params).spawn(body).unwrap()
            })
            .collect();
        // SAFETY: no preconditions.
        let (process, tid) = unsafe { (libc::getpid(), libc::syscall(libc::SYS_gettid)) };
        let ended = Arc::new(AtomicBool::new(false));
        let seen = ended.clone();
        let sender = std::thread::spawn(move || {
            let mut random = Random(4711);
            while !seen.load(Ordering::Relaxed) {
                // SAFETY: no memory is passed.
                unsafe { libc::syscall(libc::SYS_tgkill, process, tid, libc::SIGUSR1) };
                std::thread::sleep(std::time::Duration::from_micros(100 + random.below(400)));
            }
        });
        let ids: Vec<_> = threads.iter().map(|thread| thread.thread()).collect();
        disturb(&ids, wanted() / 4, 2, 50);
        stop.set(true);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        ended.store(true, Ordering::Relaxed);
        sender.join().unwrap();
        assert!(HANDLED.load(Ordering::Relaxed) > 100);
    })
    .unwrap();
}

#[test]
fn each_thread_keeps_its_floating_point_control_words() {
    run(&config(), || {
        let stop = Rc::new(Cell::new(false));
        let threads: Vec<_> = (0..4)
            .map(|mode| {
                let stop = stop.clone();
                let params = Params {
                    policy: Policy::RoundRobin { quantum: 20_000 },
                    priority: 5,
                    ..Params::default()
                };
                let body = move || {
                    registers::set_rounding(mode);
                    let mut rounds = 0u64;
                    while !stop.get() {
                        assert_eq!(registers::rounding(), (mode, mode));
                        rounds += 1;
                        if rounds.is_multiple_of(64) {
                            yield_now();
                        }
                    }
                };
                Builder::new("rounds").params(params).spawn(body).unwrap()
            })
            .collect();
        sleep(200_000_000).unwrap();
        stop.set(true);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        assert_eq!(registers::rounding(), (0, 0), "ours is untouched");
    })
    .unwrap();
}

#[test]
fn heap_errno_and_switches_survive_preemption() {
    run(&config(), || {
        let stop = Rc::new(Cell::new(false));
        let mutex = Rc::new(Mutex::new(Protocol::Inherit, (0u64, 0u64)).unwrap());
        let queue = Rc::new(Queue::new(8).unwrap());
        let mut threads = Vec::new();
        for thread in 0..6u64 {
            let (stop, mutex, queue) = (stop.clone(), mutex.clone(), queue.clone());
            let policy = Policy::RoundRobin { quantum: 25_000 };
            let params = Params { policy, priority: 5 + (thread % 2) as u8, ..Params::default() };
            let body = move || {
                let mut random = Random(thread + 77);
                let mut kept: Vec<Vec<u64>> = Vec::new();
                while !stop.get() {
                    // Errno: each thread has its own value, unchanged by calls of others.
                    let own = 1 + thread as i32;
                    // SAFETY: the calling thread's errno.
                    unsafe { *libc::__errno_location() = own };
                    for _ in 0..200 {
                        std::hint::spin_loop();
                    }
                    // SAFETY: as above.
                    assert_eq!(unsafe { *libc::__errno_location() }, own);
                    // Heap.
                    let length = 1 + random.below(300) as usize;
                    kept.push(vec![thread; length]);
                    if kept.len() > 20 {
                        let gone = kept.swap_remove(random.below(20) as usize);
                        assert!(gone.iter().all(|&word| word == thread));
                    }
                    // Both halves change together.
                    let mut pair = mutex.lock().unwrap();
                    assert_eq!(pair.0, pair.1);
                    pair.0 += 1;
                    for _ in 0..random.below(200) {
                        std::hint::spin_loop();
                    }
                    pair.1 += 1;
                    drop(pair);
                    let _ = queue.send(thread, 0, Some(0));
                    let _ = queue.receive(Some(0));
                    if random.below(50) == 0 {
                        yield_now();
                    }
                }
                this().unwrap().account().unwrap().preemptions
            };
            threads.push(Builder::new("heap").params(params).spawn(body).unwrap());
        }
        let ids: Vec<_> = threads.iter().map(|thread| thread.thread()).collect();
        disturb(&ids, wanted() / 4, if wanted() > 1_000_000 { 3600 } else { 3 }, 500);
        stop.set(true);
        for thread in threads {
            thread.join().unwrap().unwrap();
        }
        let pair = mutex.lock().unwrap();
        assert!(pair.0 == pair.1 && pair.0 > 0);
    })
    .unwrap();
}

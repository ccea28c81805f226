//! Costs of the runtime, alternating with what it replaces: switches beside sched_yield and Boost.Context, a ceiling mutex
//! beside a PI futex, preemption beside the wake-up of a kernel thread, UDP beside blocking calls.
//! `cargo bench -p lathunt-runtime [-- ROUNDS]`

use std::cell::Cell;
use std::hint::black_box;
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex as StdMutex};

use lathunt_runtime::policy::Protocol;
use lathunt_runtime::sync::Mutex;
use lathunt_runtime::{io, now, run, yield_now, Builder, Config};

#[path = "late/mod.rs"]
mod late;
use late::{kernel_wake_up, preemption, quantile};

#[path = "../../core/benches/figure/mod.rs"]
mod figure;

/// CPU time of the calling kernel thread, in ns: excludes other programs.
fn cpu() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// ns of CPU time per iteration.
fn timed(loops: u64, mut body: impl FnMut()) -> f64 {
    let begin = cpu();
    for _ in 0..loops {
        body();
    }
    (cpu() - begin) as f64 / loops as f64
}

/// Two equal fibers that yield to each other: ns per switch.
fn fiber_switch() -> f64 {
    run(&Config::default(), || {
        let stop = Rc::new(Cell::new(false));
        let seen = stop.clone();
        let other = Builder::new("other").spawn(move || {
            while !seen.get() {
                yield_now();
            }
        });
        timed(10_000, yield_now);
        let ns = timed(1_000_000, yield_now) / 2.0;
        stop.set(true);
        let _ = other.map(|other| other.join());
        ns
    })
    .unwrap_or(f64::NAN)
}

fn pin() {
    // SAFETY: a zeroed set is valid; the first CPU that is allowed.
    unsafe {
        let mut allowed: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of_val(&allowed), &mut allowed);
        let cpu = (0..libc::CPU_SETSIZE as usize).find(|&cpu| libc::CPU_ISSET(cpu, &allowed)).unwrap_or(0);
        let mut one: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut one);
        libc::sched_setaffinity(0, size_of_val(&one), &one);
    }
}

/// Two kernel threads on one CPU: ns of CPU time of one of them per switch.
fn thread_switch() -> f64 {
    let stop = Arc::new(AtomicBool::new(false));
    let seen = stop.clone();
    fn give_up() {
        // SAFETY: no preconditions.
        unsafe { libc::sched_yield() };
    }
    let body = move || {
        pin();
        while !seen.load(Ordering::Relaxed) {
            give_up();
        }
    };
    std::thread::spawn(move || {
        pin();
        let other = std::thread::spawn(body);
        timed(1000, give_up);
        let ns = timed(100_000, give_up);
        stop.store(true, Ordering::Relaxed);
        let _ = other.join();
        ns
    })
    .join()
    .unwrap_or(f64::NAN)
}

/// The Boost.Context benchmark as a program, if its headers are installed.
fn boost() -> Option<std::path::PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/boost.cpp");
    let program = std::env::temp_dir().join(format!("lathunt-boost-{}", std::process::id()));
    let built = std::process::Command::new("g++")
        .args(["-O2", "-std=c++17", source, "-lboost_context", "-o"])
        .arg(&program)
        .output()
        .is_ok_and(|built| built.status.success());
    built.then_some(program)
}

fn boost_switch(program: &std::path::Path) -> f64 {
    let output = std::process::Command::new(program).output();
    output
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok()?.trim().parse().ok())
        .unwrap_or(f64::NAN)
}

/// ns per lock and unlock, uncontended.
fn ceiling_mutex() -> f64 {
    run(&Config::default(), || match Mutex::new(Protocol::Ceiling(50), 0u64) {
        Ok(mutex) => timed(1_000_000, || {
            if let Ok(mut value) = mutex.lock() {
                *value += 1;
            }
        }),
        Err(_) => f64::NAN,
    })
    .unwrap_or(f64::NAN)
}

fn pi_futex() -> f64 {
    // SAFETY: initialised before use; one thread.
    unsafe {
        let mut attributes = std::mem::zeroed();
        libc::pthread_mutexattr_init(&mut attributes);
        libc::pthread_mutexattr_setprotocol(&mut attributes, libc::PTHREAD_PRIO_INHERIT);
        let mut mutex = std::mem::zeroed();
        libc::pthread_mutex_init(&mut mutex, &attributes);
        let mut value = 0u64;
        timed(1_000_000, || {
            libc::pthread_mutex_lock(&mut mutex);
            value = black_box(value) + 1;
            libc::pthread_mutex_unlock(&mut mutex);
        })
    }
}

fn vdso() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: valid for writing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A socket that is answered by another process's thread: `round` measures one round trip.
fn round_trips(with_fibers: bool, idle_sockets: usize) -> f64 {
    let bind = || std::net::UdpSocket::bind("127.0.0.1:0").ok();
    let (Some(ours), Some(theirs)) = (bind(), bind()) else { return f64::NAN };
    let connected = ours.local_addr().and_then(|address| theirs.connect(address)).is_ok()
        && theirs.local_addr().and_then(|address| ours.connect(address)).is_ok();
    if !connected {
        return f64::NAN;
    }
    let answering = std::thread::spawn(move || {
        let mut buffer = [0; 64];
        while let Ok(length) = theirs.recv(&mut buffer) {
            if length == 1 || theirs.send(&buffer[..length]).is_err() {
                return;
            }
        }
    });
    let fd = ours.as_raw_fd();
    let mut buffer = [0u8; 64];
    let mut samples = Vec::new();
    let mut measure = |receive: &mut dyn FnMut(&mut [u8]) -> bool| {
        for _ in 0..4000 {
            let begin = now();
            if ours.send(&buffer[..32]).is_err() || !receive(&mut buffer) {
                return;
            }
            samples.push((now() - begin) as f64);
        }
    };
    if with_fibers {
        let _ = run(&Config::default(), || {
            for _ in 0..idle_sockets {
                let Some(idle) = bind() else { continue };
                let _ = Builder::new("idle").spawn(move || {
                    let none = std::ptr::null_mut();
                    // SAFETY: a valid buffer.
                    let _ = unsafe {
                        io::recv_from(
                            idle.as_raw_fd(),
                            [0u8; 8].as_mut_ptr(),
                            8,
                            0,
                            none,
                            std::ptr::null_mut(),
                            None,
                        )
                    };
                });
            }
            yield_now();
            measure(&mut |buffer| {
                let none = std::ptr::null_mut();
                // SAFETY: a valid buffer.
                unsafe {
                    io::recv_from(fd, buffer.as_mut_ptr(), buffer.len(), 0, none, std::ptr::null_mut(), None)
                        .is_ok()
                }
            });
        });
    } else {
        // SAFETY: a valid buffer.
        measure(&mut |buffer| unsafe { libc::recv(fd, buffer.as_mut_ptr().cast(), buffer.len(), 0) > 0 });
    }
    let _ = ours.send(b"e");
    let _ = answering.join();
    figure::median(&samples)
}

/// Share of a CPU that the process uses for 10,000 switches a second: two fibers that yield to each other between periods of
/// work.
fn overhead() -> f64 {
    run(&Config::default(), || {
        let stop = Rc::new(Cell::new(false));
        let seen = stop.clone();
        let other = Builder::new("other").spawn(move || {
            while !seen.get() {
                yield_now();
            }
        });
        // Computes for 200 us, then two switches; the same without them.
        let work = || {
            let end = now() + 200_000;
            while now() < end {}
        };
        let stretch = |switches: bool| {
            let begin = cpu();
            for _ in 0..2500 {
                work();
                if switches {
                    yield_now();
                }
            }
            cpu() - begin
        };
        let shares: Vec<f64> = (0..3).map(|_| stretch(true) as f64 / stretch(false) as f64 - 1.0).collect();
        stop.set(true);
        let _ = other.map(|other| other.join());
        100.0 * figure::median(&shares)
    })
    .unwrap_or(f64::NAN)
}

fn main() {
    let rounds = figure::rounds(7);
    let several = |measure: &dyn Fn() -> f64| (0..rounds).map(|_| measure()).collect::<Vec<f64>>();

    let boost = boost();
    let (mut fibers, mut threads, mut boosts) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..rounds {
        fibers.push(fiber_switch());
        threads.push(thread_switch());
        if let Some(boost) = &boost {
            boosts.push(boost_switch(boost));
        }
    }
    figure::at_most("runtime: switch between two threads", figure::median(&fibers), "ns", 25.0);
    figure::plain("runtime: sched_yield of two kernel threads", figure::median(&threads), "ns");
    figure::at_least("runtime: how much cheaper", figure::median_ratio(&threads, &fibers), "times", 20.0);
    match boost {
        Some(program) => {
            figure::plain("runtime: a bare switch of Boost.Context", figure::median(&boosts), "ns");
            figure::at_most(
                "runtime: switch / Boost.Context",
                figure::median_ratio(&fibers, &boosts),
                "",
                1.3,
            );
            let _ = std::fs::remove_file(program);
        }
        None => figure::skipped("runtime: switch / Boost.Context", "libboost-context-dev is not installed"),
    }

    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(ceiling_mutex());
        theirs.push(pi_futex());
    }
    figure::plain("runtime: ceiling mutex, lock and unlock", figure::median(&ours), "ns");
    figure::at_most("runtime: ceiling mutex / PI futex", figure::median_ratio(&ours, &theirs), "", 1.5);

    let sum = AtomicU64::new(0);
    let read = |clock: fn() -> u64| {
        timed(1_000_000, || {
            sum.fetch_add(black_box(clock()), Ordering::Relaxed);
        })
    };
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        ours.push(read(now));
        theirs.push(read(vdso));
    }
    figure::at_most("runtime: clock read / vDSO", figure::median_ratio(&ours, &theirs), "", 1.3);

    let (mut ours, mut theirs, how) = (Vec::new(), Vec::new(), Rc::new(StdMutex::new(String::new())));
    for _ in 0..3 {
        if let (Some((fiber, text)), Some(thread)) = (preemption(Some(20)), kernel_wake_up()) {
            ours.extend(fiber);
            theirs.extend(thread);
            if let Ok(mut how) = how.lock() {
                *how = text;
            }
        }
    }
    if ours.is_empty() {
        figure::skipped("runtime: preemption by a timer, as SCHED_FIFO", "needs CAP_SYS_NICE");
    } else {
        println!("{}", how.lock().map_or(String::new(), |how| how.clone()));
        figure::at_most("runtime: preemption by a timer, median", quantile(&ours, 0.5) / 1000.0, "us", 5.0);
        let ratio = |share| quantile(&ours, share) / quantile(&theirs, share);
        figure::at_most("runtime: the same / wake-up of a FIFO thread, median", ratio(0.5), "", 1.3);
        figure::at_most("runtime: the same, 99 %", ratio(0.99), "", 1.5);
        if let Some((unprivileged, _)) = preemption(None) {
            let ratio = quantile(&unprivileged, 0.5) / quantile(&theirs, 0.5);
            figure::at_most("runtime: unprivileged / FIFO thread, median", ratio, "", 2.0);
        }
    }

    let blocking = several(&|| round_trips(false, 0));
    let one = several(&|| round_trips(true, 0));
    let hundred = several(&|| round_trips(true, 100));
    let added = |values: &[f64]| (figure::median(values) - figure::median(&blocking)) / 1000.0;
    figure::plain("runtime: UDP round trip, blocking", figure::median(&blocking) / 1000.0, "us");
    figure::at_most("runtime: added by the broker", added(&one), "us", 2.0);
    figure::at_most("runtime: the same with 100 sockets", added(&hundred), "us", 2.0);
    figure::at_most("runtime: overhead of 10,000 switches a second", overhead(), "%", 1.0);
}

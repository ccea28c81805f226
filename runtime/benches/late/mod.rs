//! Wake-up latency of a thread that preempts another: a fiber of the runtime, and a kernel thread.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use lathunt_runtime::{now, report, run, sleep_until, Builder, Config};

const WAKE_UPS: u64 = 1500;
const DISTANCE: u64 = 300_000;

/// Latency of a fiber that preempts a computing one, in ns; and the mechanism of preemption.
pub fn preemption(kernel_priority: Option<i32>) -> Option<(Vec<f64>, String)> {
    run(&Config { kernel_priority, cpu: Some(0), ..Config::default() }, || {
        let late = Rc::new(RefCell::new(Vec::with_capacity(WAKE_UPS as usize)));
        let (samples, done) = (late.clone(), Rc::new(Cell::new(false)));
        let ended = done.clone();
        let urgent = Builder::new("urgent").priority(50).spawn(move || {
            let mut next = now();
            for _ in 0..WAKE_UPS {
                next += DISTANCE;
                let _ = sleep_until(next);
                samples.borrow_mut().push((now() - next) as f64);
                next = next.max(now());
            }
            ended.set(true);
        });
        while !done.get() {
            std::hint::spin_loop();
        }
        drop(urgent);
        let how = report().map_or(String::new(), |report| report.to_string());
        (late.take(), how)
    })
    .ok()
}

/// Latency of a SCHED_FIFO kernel thread that preempts a computing one of lower priority, on one CPU, by the same timer.
pub fn kernel_wake_up() -> Option<Vec<f64>> {
    let stop = Arc::new(AtomicBool::new(false));
    let on_cpu_0 = |priority: i32| {
        // SAFETY: valid structures, the calling thread.
        unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(0, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &one);
            let parameters = libc::sched_param { sched_priority: priority };
            libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters) == 0
        }
    };
    let seen = stop.clone();
    let busy = std::thread::spawn(move || {
        on_cpu_0(20);
        let end = now() + 3 * WAKE_UPS * DISTANCE;
        while !seen.load(Ordering::Relaxed) && now() < end {
            std::hint::spin_loop();
        }
    });
    let urgent = std::thread::spawn(move || {
        if !on_cpu_0(30) {
            return None;
        }
        let mut late = Vec::new();
        let mut next = now();
        for _ in 0..WAKE_UPS {
            next += DISTANCE;
            let time = libc::timespec {
                tv_sec: (next / 1_000_000_000) as libc::time_t,
                tv_nsec: (next % 1_000_000_000) as libc::c_long,
            };
            // SAFETY: a valid time.
            unsafe {
                libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &time, std::ptr::null_mut())
            };
            late.push((now() - next) as f64);
            next = next.max(now());
        }
        Some(late)
    });
    let late = urgent.join().ok().flatten();
    stop.store(true, Ordering::Relaxed);
    let _ = busy.join();
    late
}

pub fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
        .get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)))
        .copied()
        .unwrap_or(f64::NAN)
}

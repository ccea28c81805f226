//! Work: loops of a known length, and how long one takes on a CPU.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::set_run::Speed;
use lathunt_core::time::{Cpu, Ns};

use crate::error::Result;
use crate::{clock, sched, threads};

/// Steps of one loop: a chain of dependent multiplications, in registers; some 100 ns at 3 GHz.
const STEPS: u32 = 64;

/// Speed of the loops of `run`.
#[derive(Clone, Debug, Default)]
pub struct Speeds {
    /// ns per loop: determines the number of loops.
    pub ns_per_loop: f64,
    /// Per CPU.
    pub each: Vec<Speed>,
}

#[inline(never)]
fn loops(count: u64, mut value: u64) -> u64 {
    for _ in 0..count {
        for _ in 0..STEPS {
            // The shift keeps the compiler from folding the chain.
            value = (value ^ (value >> 29)).wrapping_mul(6_364_136_223_846_793_005);
        }
        value = black_box(value);
    }
    value
}

impl Speeds {
    /// Measures each CPU of `cpus`, some 30 ms each; `run` uses the speed of the one called `reference` (the first if that
    /// is none of them), or `stated` ns.
    ///
    /// # Errors
    /// If a CPU cannot be used.
    pub fn measure(cpus: &CpuSet, reference: u32, stated: Option<u32>) -> Result<Speeds> {
        let mut each = Vec::with_capacity(cpus.len());
        for cpu in cpus.iter() {
            let measured = threads::spawn(move || -> Result<f64> {
                sched::pin(cpu)?;
                // Without the privilege others may interrupt: the fastest pass counts.
                let _ = sched::set_policy(sched::Policy::Fifo, 1);
                Ok(fastest())
            })?;
            let ns_per_loop = measured.join().unwrap_or_else(|_| {
                Err(crate::error::Error::refused("measure", format!("the speed of CPU {cpu}"), "it ended"))
            })?;
            each.push(Speed { cpu, ns_per_loop });
        }
        let found = each.iter().find(|speed| speed.cpu == Cpu(reference)).or(each.first());
        let ns_per_loop = stated.map(f64::from).or(found.map(|speed| speed.ns_per_loop)).unwrap_or(1.0);
        Ok(Speeds { ns_per_loop, each })
    }

    /// Loops that take `time`.
    fn count(&self, time: Ns) -> u64 {
        (time.0 as f64 / self.ns_per_loop) as u64
    }
}

/// The fastest of some hundred passes of 20 µs; the first ones also wake the CPU up.
fn fastest() -> f64 {
    const COUNT: u64 = 200;
    const LONGEST: Ns = Ns::from_ms(30);
    let mut best = f64::MAX;
    let mut value = 1;
    let first = clock::mono();
    while clock::mono().since(first) < LONGEST {
        let begun = clock::mono();
        value = loops(COUNT, value);
        best = best.min(clock::mono().since(begun).0 as f64 / COUNT as f64);
    }
    black_box(value);
    best.max(0.1)
}

/// Loops between two checks of the flag: some 20 µs.
const AT_ONCE: u64 = 256;

/// Does the loops that take `time`; false: it was stopped.
pub fn run(time: Ns, speeds: &Speeds, stop: &AtomicBool) -> bool {
    let mut left = speeds.count(time);
    let mut value = left;
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        let now = left.min(AT_ONCE);
        value = loops(now, value);
        left -= now;
    }
    black_box(value);
    true
}

/// CPU time of the calling thread. A system call, some 200 ns.
pub fn cpu_time() -> Ns {
    Ns(clock::read(libc::CLOCK_THREAD_CPUTIME_ID) as u64)
}

/// Busy until `now` has advanced by `time`; false: it was stopped.
pub fn until(time: Ns, now: impl Fn() -> u64, stop: &AtomicBool) -> bool {
    let end = now().saturating_add(time.0);
    let mut value = end;
    loop {
        let left = end.saturating_sub(now());
        if left == 0 {
            black_box(value);
            return true;
        }
        if stop.load(Ordering::Relaxed) {
            return false;
        }
        // At most 16 loops (1 µs) per check, and one near the end.
        value = loops(if left > 5_000 { 16 } else { 1 }, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_by_cpu_time_is_done_in_full_and_ends_when_stopped() {
        let stop = AtomicBool::new(false);
        let before = cpu_time();
        assert!(until(Ns::from_ms(2), || cpu_time().0, &stop));
        let used = Ns(cpu_time().0 - before.0);
        assert!(used >= Ns::from_ms(2), "{used}");
        stop.store(true, Ordering::Relaxed);
        let speeds = Speeds { ns_per_loop: 1.0, each: Vec::new() };
        assert!(!until(Ns::from_ms(10_000), || clock::mono().0, &stop));
        assert!(!run(Ns::from_ms(10_000), &speeds, &stop));
    }

    #[test]
    fn a_loop_takes_as_long_as_was_measured_and_never_less() {
        let cpu = sched::affinity().unwrap().iter().next().unwrap();
        let speeds = Speeds::measure(&CpuSet::from_iter([cpu]), cpu.0, None).unwrap();
        let stop = AtomicBool::new(false);
        let took = (0..5).map(|_| {
            let before = cpu_time();
            run(Ns::from_ms(2), &speeds, &stop);
            cpu_time().0 - before.0
        });
        let shortest = took.min().unwrap();
        assert!((1_700_000..8_000_000).contains(&shortest), "{shortest} {speeds:?}");
    }
}

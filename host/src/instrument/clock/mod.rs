//! What does reading the clock cost by each path, and do the CPUs agree?
//!
//! Each path is a loop of its own, compiled with the read inlined: two reads back to back, then the bookkeeping, which falls
//! between pairs and is not in any difference. Under a real-time policy the loop sleeps a tenth of the time, so that
//! throttling never strikes and other work continues. `path` lists the paths, `crates` those of other crates, `runtime` those
//! of a fiber; `system_call` proves which of them enter the kernel, `agreement` compares CPUs, `gaps` attributes
//! interruptions of such a loop.

mod agreement;
mod crates;
mod gaps;
mod path;
mod runtime;
mod system_call;

use std::time::{Duration, Instant};

use lathunt_core::clock::{Clocks, Cost, Tally, FORMAT, VERSION};
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Ns};

use crate::error::{Error, Result};
use crate::sched::{self, Policy};
use crate::tree::{Tree, LIVE};
use crate::{arch, signals};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pairs of reads per path.
    pub pairs: u64,
    /// On this CPU.
    pub cpu: Cpu,
    /// SCHED_FIFO at this priority; `None`: SCHED_OTHER.
    pub priority: Option<i32>,
    /// CPUs to compare; fewer than two: none.
    pub cpus: CpuSet,
    /// Also on a thread of lathunt-runtime: what its programs pay.
    pub runtime: bool,
    /// Called with the name of each path before it is measured, between the measurements.
    pub begins: fn(&str),
}

/// Longest time without a sleep under a real-time policy, and the sleep: 91 %, below the usual limit of 95 %.
const STRETCH: Duration = Duration::from_millis(20);
const PAUSE: Duration = Duration::from_millis(2);
/// Pairs between two checks of the clock and of signals.
const CHUNK: u64 = 10_000;

/// Measures all paths and compares the CPUs. Ends early, with partial results, on a signal.
///
/// # Errors
/// If the CPU or the priority is refused.
pub fn measure(options: &Options) -> Result<Clocks> {
    let wanted = options.clone();
    let measured = crate::threads::spawn(move || on_this_thread(&wanted))?.join();
    let ended = || Error::refused("measure", "the clocks", "the measuring thread ended early");
    let mut clocks = measured.unwrap_or_else(|_| Err(ended()))?;
    if signals::stop_requested().is_none() {
        clocks.gaps = Some(gaps::find(options)?);
    }
    Ok(clocks)
}

fn on_this_thread(options: &Options) -> Result<Clocks> {
    sched::pin(options.cpu)?;
    if let Some(priority) = options.priority {
        sched::limit_rt_time(Ns(2_000_000_000))?;
        sched::set_policy(Policy::Fifo, priority)?;
    }
    let (counter_hz, counter_hz_is) = counter_hz();
    let mut notes = Vec::new();
    if arch::counter_is_invariant() == Some(false) {
        notes.push("the processor's counter changes its rate or stops: its rows are unreliable".to_owned());
    }
    let pairs = Pairs { count: options.pairs, sleeps: options.priority.is_some(), begins: options.begins };
    let costs = path::all(&pairs, 1e9 / counter_hz);
    let mut costs: Vec<Cost> = costs.into_iter().flatten().collect();
    if options.runtime {
        costs.extend(runtime::all(&pairs)?);
    }
    for cost in &mut costs {
        if let Some(proof) = system_call::of(&cost.path) {
            cost.without_system_call = Some(proof.is_none());
            cost.note = proof.unwrap_or_default();
        }
    }
    if options.priority.is_some() {
        sched::set_policy(Policy::Other, 0)?;
    }
    if signals::stop_requested().is_some() {
        notes.push("stopped by a signal: the last paths are missing or short".to_owned());
    }
    Ok(Clocks {
        format: FORMAT,
        version: VERSION,
        cpu: options.cpu,
        clocksource: Tree::new(std::path::Path::new(LIVE))
            .text("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        counter_hz,
        counter_hz_is,
        costs,
        agreement: agreement::all(&options.cpus, 1e9 / counter_hz)?,
        gaps: None,
        notes,
    })
}

/// Ticks per second: stated by processor or hypervisor, else measured over 50 ms.
fn counter_hz() -> (f64, &'static str) {
    if let Some(hz) = arch::counter_hz() {
        return (hz as f64, "stated");
    }
    let (begin, from) = (Instant::now(), arch::counter());
    std::thread::sleep(Duration::from_millis(50));
    let (to, elapsed) = (arch::counter(), begin.elapsed());
    ((to - from) as f64 / elapsed.as_secs_f64(), "measured")
}

/// Number of pairs, and whether the loop has to sleep periodically.
#[derive(Clone, Copy)]
struct Pairs {
    count: u64,
    sleeps: bool,
    begins: fn(&str),
}

impl Pairs {
    /// The cost of `read`; `unit_ns`: ns per unit of its result. `None` if a signal came before the first pair.
    #[inline(always)]
    fn cost(&self, path: &str, unit_ns: f64, read: impl Fn() -> u64) -> Option<Cost> {
        self.tallied(path, unit_ns, read, |tally, first, second| tally.pair(*first, *second))
    }

    /// The same for reads that are not numbers: `between` computes the time from the first to the second, outside of the
    /// measured time; `None`: the second was earlier.
    #[inline(always)]
    fn cost_between<T>(
        &self,
        path: &str,
        read: impl Fn() -> T,
        between: impl Fn(&T, &T) -> Option<Duration>,
    ) -> Option<Cost> {
        self.tallied(path, 1.0, read, |tally, first, second| match between(first, second) {
            Some(time) => tally.pair(0, time.as_nanos() as u64),
            None => tally.pair(1, 0),
        })
    }

    #[inline(always)]
    fn tallied<T>(
        &self,
        path: &str,
        unit_ns: f64,
        read: impl Fn() -> T,
        count: impl Fn(&mut Tally, &T, &T),
    ) -> Option<Cost> {
        (self.begins)(path);
        for _ in 0..1_000 {
            std::hint::black_box(read()); // caches and branches warm
        }
        let (mut tally, mut busy) = (Tally::default(), Duration::ZERO);
        let mut stretch = Instant::now();
        while tally.pairs() < self.count && signals::stop_requested().is_none() {
            let chunk = CHUNK.min(self.count - tally.pairs());
            let begin = Instant::now();
            for _ in 0..chunk {
                let first = read();
                let second = read();
                count(&mut tally, &first, &second);
            }
            busy += begin.elapsed();
            if self.sleeps && stretch.elapsed() >= STRETCH {
                std::thread::sleep(PAUSE);
                stretch = Instant::now();
            }
        }
        tally.cost(path, unit_ns, busy.as_secs_f64() * 1e9)
    }
}

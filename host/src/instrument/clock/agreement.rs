//! Do the clocks of two CPUs agree? Messages through one cache line: a read that happens after another must not be earlier,
//! and the fastest round trip bounds the offset as in NTP (Mills 1991): offset = t2 − (t1 + t3) / 2, known to half of t3 −
//! t1.

use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use lathunt_core::clock::Agreement;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Cpu, Ns};

use super::path::gettime;
use crate::error::{Error, Result};
use crate::{arch, sched, threads};

/// Time for comparing one clock of two CPUs. Both spin during it, as ordinary threads.
const TALK: Duration = Duration::from_millis(40);
/// Exchanges that suffice.
const EXCHANGES: u64 = 20_000;

/// Compares the first CPU with each other one, by the processor's counter and by CLOCK_MONOTONIC.
pub(super) fn all(cpus: &CpuSet, tick_ns: f64) -> Result<Vec<Agreement>> {
    let mut cpus = cpus.iter();
    let Some(from) = cpus.next() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for to in cpus {
        found.extend(pair("counter", from, to, tick_ns, arch::counter)?);
        found.extend(pair("MONOTONIC", from, to, 1.0, || gettime(libc::CLOCK_MONOTONIC))?);
    }
    Ok(found)
}

/// One cache line each, so that a line moves only with a message.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU64);

#[derive(Default)]
struct Shared {
    asked: Line,    // number of the request
    answered: Line, // number of the reply
    answer: Line,   // the reading
    over: AtomicBool,
}

fn pair(
    clock: &str,
    from: Cpu,
    to: Cpu,
    unit_ns: f64,
    read: impl Fn() -> u64 + Copy + Send + Sync,
) -> Result<Option<Agreement>> {
    let shared = Shared::default();
    let talk = std::thread::scope(|scope| {
        let there = threads::scoped(scope, || answer(&shared, to, read))?;
        let here = threads::scoped(scope, || {
            let talk = ask(&shared, from, read);
            shared.over.store(true, Release);
            talk
        })
        .inspect_err(|_| shared.over.store(true, Release))?; // no request for long: the other side is to end
        let ended = |_| Error::refused("compare", "the clocks of two CPUs", "a thread ended early");
        let talk = here.join().map_err(ended)?;
        there.join().map_err(ended)??;
        talk
    })?;
    Ok((talk.exchanges > 0).then(|| Agreement {
        clock: clock.to_owned(),
        from,
        to,
        exchanges: talk.exchanges,
        backward: talk.backward,
        largest_step_ns: Ns((talk.largest_step as f64 * unit_ns).round() as u64),
        offset_ns: talk.offset * unit_ns,
        uncertainty_ns: talk.round_trip as f64 / 2.0 * unit_ns,
    }))
}

struct Talk {
    exchanges: u64,
    backward: u64,
    largest_step: u64,
    round_trip: u64,
    offset: f64,
}

fn ask(shared: &Shared, cpu: Cpu, read: impl Fn() -> u64) -> Result<Talk> {
    sched::pin(cpu)?;
    let mut talk = Talk { exchanges: 0, backward: 0, largest_step: 0, round_trip: u64::MAX, offset: 0.0 };
    let begin = Instant::now();
    for number in 1..=EXCHANGES {
        let before = read();
        shared.asked.0.store(number, Release);
        while shared.answered.0.load(Acquire) != number {
            // The other thread may not run at all (a busy CPU): then there is no agreement to report.
            if begin.elapsed() > TALK {
                return Ok(talk);
            }
            std::hint::spin_loop();
        }
        let after = read();
        let there = shared.answer.0.load(Acquire);
        talk.exchanges += 1;
        let step = before.saturating_sub(there).max(there.saturating_sub(after));
        talk.backward += u64::from(step > 0);
        talk.largest_step = talk.largest_step.max(step);
        let round_trip = after.saturating_sub(before);
        if round_trip < talk.round_trip {
            talk.round_trip = round_trip;
            talk.offset = there.wrapping_sub(before) as i64 as f64 - round_trip as f64 / 2.0;
        }
    }
    Ok(talk)
}

fn answer(shared: &Shared, cpu: Cpu, read: impl Fn() -> u64) -> Result<()> {
    sched::pin(cpu)?;
    let mut last = 0;
    while !shared.over.load(Acquire) {
        let number = shared.asked.0.load(Acquire);
        if number == last {
            std::hint::spin_loop();
            continue;
        }
        shared.answer.0.store(read(), Release);
        shared.answered.0.store(number, Release);
        last = number;
    }
    Ok(())
}

//! Ends the run: at its time, at a signal, or when one of its threads does not sleep any more.
//!
//! If a CPU is free, it waits there at priority 99. If none is, a thread of the set may also have 99 and never let it run:
//! then it has a reservation, which is above all priorities. An ordinary thread checks too, and handles cases that neither
//! can.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::tasks::program::Rule;
use lathunt_core::time::{Mono, Ns};

use super::policy;
use super::shared::Shared;
use crate::{clock, sched, signals};

/// Between two checks.
const TURN: Ns = Ns::from_ms(20);
/// How long threads may take to end.
const LAST: Ns = Ns::from_ms(2_000);

/// Note for the result if threads did not end.
pub const STUCK: &str = "did not end within 2 s after the run";

/// Reservation if no CPU is free: half a percent of one.
const RESERVED: Rule = Rule::Deadline { runtime: Ns::from_us(100), deadline: TURN, period: TURN };

/// Runs until all threads have ended, or will not.
pub(super) fn watch(shared: &Arc<Shared>, planned: Option<Mono>, housekeeping: Option<&CpuSet>) {
    let is_above = match housekeeping {
        Some(cpus) => sched::set_affinity(cpus).is_ok() && sched::set_policy(sched::Policy::Fifo, 99).is_ok(),
        None => policy::set(RESERVED).is_ok(),
    };
    // On a CPU without threads of the set, its sleeps show how late timers are.
    let is_undelayed = is_above && housekeeping.is_some();
    if !is_above {
        // If even that is refused, it checks as an ordinary thread.
        let _ = sched::set_policy(sched::Policy::Fifo, 99);
    }
    while shared.alive() > 0 && !look(shared, planned) {
        let left = planned.map_or(TURN, |planned| planned.since(clock::mono()).min(TURN));
        let left = Ns(left.0.max(10_000));
        let due = clock::mono() + left;
        std::thread::sleep(Duration::from_nanos(left.0));
        if is_undelayed {
            shared.late.fetch_max(clock::mono().since(due).0, Ordering::AcqRel);
        }
    }
    let last = clock::mono() + LAST;
    while shared.alive() > 0 && clock::mono() < last {
        shared.wake_all(); // again: a signal between the check of the flag and the sleep has no effect
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Ends the run if it is over; returns whether it has ended.
pub(super) fn look(shared: &Arc<Shared>, planned: Option<Mono>) -> bool {
    let now = clock::mono();
    if let Some(why) = over(shared, now, planned).filter(|_| !shared.stop.load(Ordering::Acquire)) {
        shared.end_at(planned.filter(|planned| now >= *planned).unwrap_or(now), why);
    }
    shared.stop.load(Ordering::Acquire)
}

/// Whether the run is over; with the reason, unless it is its time or a signal, which the caller knows of.
fn over(shared: &Shared, now: Mono, planned: Option<Mono>) -> Option<Option<String>> {
    if planned.is_some_and(|planned| now >= planned) || signals::stop_requested().is_some() {
        return Some(None);
    }
    // A run of a given length goes on to its end: its waiting jobs are late by then.
    if planned.is_none() && shared.is_stuck() {
        let why = "ended early: all remaining threads wait for each other, and none can continue";
        return Some(Some(why.to_owned()));
    }
    sched::rt_time_exceeded().then(|| {
        Some("ended early: a real-time thread ran too long without sleeping (RLIMIT_RTTIME)".to_owned())
    })
}

//! Ends the run: at its time, at a signal, or when a thread of it does not sleep any more. It is above all threads of the
//! set, so that it also ends a set that leaves no CPU to anybody.

use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::Duration;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::{Mono, Ns};

use super::shared::Shared;
use crate::{clock, sched, signals};

/// Between two looks.
const TURN: Ns = Ns::from_ms(20);
/// How long threads may take to end.
const LAST: Ns = Ns::from_ms(2_000);

/// That threads did not end: a line for the result.
pub const STUCK: &str = "did not end within 2 s after the run";

/// Until all threads have ended, or will not.
pub(super) fn watch(shared: &Arc<Shared>, planned: Option<Mono>, housekeeping: &CpuSet) {
    // Where it may not, it looks as an ordinary thread.
    let _ = sched::set_affinity(housekeeping);
    let _ = sched::set_policy(sched::Policy::Fifo, 99);
    loop {
        let now = clock::mono();
        if shared.alive() == 0 {
            return;
        }
        if let Some(why) = over(now, planned) {
            shared.end_at(planned.filter(|planned| now >= *planned).unwrap_or(now), why);
        }
        if shared.stop.load(Ordering::Acquire) {
            break;
        }
        let left = planned.map_or(TURN, |planned| planned.since(now).min(TURN));
        std::thread::sleep(Duration::from_nanos(left.0.max(10_000)));
    }
    let last = clock::mono() + LAST;
    while shared.alive() > 0 && clock::mono() < last {
        shared.wake_all(); // again: a signal that came between the look at the flag and the sleep has no effect
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the run is over; with the reason where that is not its time.
fn over(now: Mono, planned: Option<Mono>) -> Option<Option<String>> {
    if planned.is_some_and(|planned| now >= planned) {
        return Some(None);
    }
    if let Some(signal) = signals::stop_requested() {
        let early = planned.map(|_| format!("ended by signal {signal} before its time"));
        return Some(early);
    }
    sched::rt_time_exceeded().then(|| {
        Some(
            "ended before its time: a real-time thread did not sleep for too long (RLIMIT_RTTIME)".to_owned(),
        )
    })
}

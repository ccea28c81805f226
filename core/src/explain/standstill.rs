//! Time in which a CPU took no interrupt though a timer was due.
//!
//! A thread in user mode has interrupts on: then the CPU did not run at all, whatever had it last by the record, because a
//! host, firmware or hardware stopped it. No event says that. A thread in kernel mode may also have kept interrupts off.

use super::cpu::{Context, Slice};
use super::record::Record;
use super::wait::interrupt_begin;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;

/// Below this, a delay may be the delivery of the interrupt.
const TELLING: Ns = Ns::from_us(10);

/// Since when timers went unserved while thread `tid` had `cpu`, and how long in all of `slices`, which end at `b`. `None`
/// where nothing proves it. Costs a walk over the events of `cpu` up to the first timer from `b` on.
#[must_use]
pub fn unserved(record: &Record, cpu: Cpu, tid: Tid, slices: &[Slice], b: Mono) -> Option<(Mono, Ns)> {
    let mut found: Option<(Mono, Ns)> = None;
    let mut until = slices.first()?.begin; // told so far
    for (_, event) in record.events_on(cpu, until, record.until()) {
        let What::TimerExpireEntry { expires: Some(due), .. } = event.kind else { continue };
        let served = interrupt_begin(record, cpu, event.at);
        if served < event.at && served.since(due) >= TELLING {
            for slice in slices.iter().filter(|slice| slice.context == Context::Thread(tid)) {
                let (from, to) = (slice.begin.max(due).max(until), slice.end.min(served));
                if from < to {
                    let (begin, so_far) = found.unwrap_or((from, Ns::ZERO));
                    found = Some((begin, so_far + to.since(from)));
                }
            }
            until = until.max(served);
        }
        if event.at >= b {
            break;
        }
    }
    found.filter(|(_, length)| *length >= TELLING)
}

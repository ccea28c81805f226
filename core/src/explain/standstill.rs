//! Time in which a CPU did not run at all, though no event says so: a host, firmware or hardware had it.
//!
//! A thread in user mode has interrupts on. Where a timer was due and its interrupt came later, the thread did not run
//! in between, whatever had the CPU last by the record. Of a thread in kernel mode nothing follows: it may have kept
//! interrupts off.

use super::cpu::{Context, Slice};
use super::record::Record;
use super::wait::interrupt_begin;
use crate::time::{Cpu, Mono, Ns, Tid};
use crate::trace::event::Kind as What;

/// Below this, a delay may be the delivery of the interrupt.
const TELLING: Ns = Ns::from_us(10);

/// When thread `tid`, in user mode, stood still first, and how long in all of `slices`, which end at `b`. `None` where
/// nothing proves it. Costs a walk over the events of `cpu` up to the first timer from `b` on.
#[must_use]
pub fn of_user_code(record: &Record, cpu: Cpu, tid: Tid, slices: &[Slice], b: Mono) -> Option<(Mono, Ns)> {
    let mut still: Option<(Mono, Ns)> = None;
    let mut until = slices.first()?.begin; // told so far
    for (_, event) in record.events_on(cpu, until, record.until()) {
        let What::TimerExpireEntry { expires: Some(due), .. } = event.kind else { continue };
        let served = interrupt_begin(record, cpu, event.at);
        if served < event.at && served.since(due) >= TELLING {
            for slice in slices.iter().filter(|slice| slice.context == Context::Thread(tid)) {
                let (from, to) = (slice.begin.max(due).max(until), slice.end.min(served));
                if from < to {
                    let (begin, so_far) = still.unwrap_or((from, Ns::ZERO));
                    still = Some((begin, so_far + to.since(from)));
                }
            }
            until = until.max(served);
        }
        if event.at >= b {
            break;
        }
    }
    still.filter(|(_, length)| *length >= TELLING)
}

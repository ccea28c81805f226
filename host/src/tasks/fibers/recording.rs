//! Events recorded by the fibers' scheduler, with the names of the set.

use lathunt_core::tasks::fiber_trace::{FiberEvent, FiberTrace, What, Who};
use lathunt_core::tasks::program::Program;
use lathunt_core::time::Mono;
use lathunt_runtime::policy::record::{Happened, What as Recorded};
use lathunt_runtime::policy::thread::Wait;
use lathunt_runtime::policy::ThreadId;
use lathunt_runtime::recorded;

use super::fiber::{BEGINS, ENDS};
use super::tables::{Levels, MAIN};
use crate::sched;

/// The recorded events, if any. `ids`: the fibers in the order of the result, with their names.
pub(super) fn trace(program: &Program, ids: &[(ThreadId, String)]) -> Option<FiberTrace> {
    let (events, overwritten) = recorded().ok().filter(|(events, _)| !events.is_empty())?;
    let levels = Levels::of(program);
    // Events that end the run come after the last job.
    let events = events.iter().filter_map(|event| told(event, ids, &levels)).collect();
    Some(FiberTrace {
        carrier: sched::tid(),
        cpu: sched::current_cpu(),
        fibers: ids.iter().map(|(_, name)| name.clone()).collect(),
        mutexes: program.mutexes.clone(),
        events,
        overwritten,
    })
}

fn told(event: &Happened, ids: &[(ThreadId, String)], levels: &Levels) -> Option<FiberEvent> {
    let who = |thread: ThreadId| match ids.iter().position(|(id, _)| *id == thread) {
        Some(at) => Who::Fiber(at),
        None => Who::Main,
    };
    let what = match event.what {
        Recorded::Ready { by } => What::Ready { by: by.map(who) },
        Recorded::Runs => What::Runs,
        Recorded::Waits(Wait::Mutex(mutex)) => What::WaitsForMutex(mutex as usize),
        Recorded::Waits(Wait::Semaphore(_) | Wait::Condition(..) | Wait::Barrier(_) | Wait::Join(_)) => {
            What::WaitsForAnother
        }
        Recorded::Waits(_) => What::Sleeps,
        Recorded::Ends => What::Ends,
        Recorded::Note { kind: BEGINS, value } => What::JobBegins { release: Mono(value) },
        Recorded::Note { kind: ENDS, value } => What::JobEnds { release: Mono(value) },
        Recorded::Note { .. } => return None,
    };
    let priority = if event.priority >= MAIN { 99 } else { levels.priority(event.priority) };
    Some(FiberEvent { at: Mono(event.at), who: who(event.thread), priority, what })
}

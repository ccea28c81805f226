//! What the kernel's reservation does to a `SCHED_DEADLINE` thread, beside the two analyses: a thread that has used up its
//! `dl-runtime` is stopped until its next period, and one that wakes inside a job may get a later deadline (the constant
//! bandwidth server, Abeni & Buttazzo 1998; kernel/sched/deadline.c, `update_dl_entity`, `dl_check_constrained_dl`). No
//! analysis here includes either.

use super::set::Sched;
use crate::time::Ns;

/// Why a job may not fit into the reservation of `sched`, in a task with this stated `period`; `None`: it does, or the
/// file has none.
pub(super) fn too_small(
    sched: &Sched,
    period: Option<Ns>,
    wcet: Ns,
    released_every: Option<Ns>,
) -> Option<String> {
    let runtime = sched.dl_runtime?;
    // As in rt-app, the period defaults to the runtime.
    let every = sched.dl_period.or(period).unwrap_or(runtime);
    if wcet > runtime {
        return Some(format!(
            "a job needs {wcet}, more than its dl-runtime of {runtime}: the kernel stops it until its next period"
        ));
    }
    let apart = released_every.filter(|apart| *apart < every)?;
    Some(format!(
        "it is released every {apart}, its reservation is for every {every}: the kernel stops it until its next period"
    ))
}

/// Why a job may wait inside: a mutex, whose owner the kernel boosts without a reservation of its own, or a sleep.
pub(super) fn waits_inside(locks: bool, sleeps: bool) -> Option<String> {
    let what = match (locks, sleeps) {
        (true, _) => "it locks a mutex",
        (_, true) => "it sleeps inside a job",
        _ => return None,
    };
    Some(format!(
        "{what} under SCHED_DEADLINE: inheritance, ceilings and wake-ups inside a reservation are not analysed, so no response is claimed (the line EDF is for EDF without reservations)"
    ))
}

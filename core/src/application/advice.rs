//! What to do about the largest part of a job.

use super::parts::{Part, What, ARMED_LATE, HELD_UP, OUT_OF_BUDGET, OUT_OF_QUOTA, WOKEN_OUT_OF_QUOTA};
use crate::series::Thread;

/// Cause of the lateness that the granularity of the timer wheel adds to a timeout in ticks.
pub(super) const WHEEL: &str = "timer wheel";

/// The advice on `part`, the largest of a job of `thread`.
pub(super) fn advice(part: &Part, thread: &Thread) -> String {
    let comm = &thread.comm;
    let by = part.by.as_ref().map_or("another thread", |by| by.comm.as_str());
    match part.what {
        What::Runs if part.cause.starts_with("page") => {
            "lock and touch memory before it is needed (mlockall, MAP_POPULATE): each page that is touched first costs a fault".to_owned()
        }
        What::Runs => format!("the time is {comm}'s own: shorten what it does in a job"),
        What::Preempted | What::WakeUp if [OUT_OF_QUOTA, WOKEN_OUT_OF_QUOTA].contains(&part.cause.as_str()) => {
            format!("raise the CPU quota of {comm}'s cgroup (cpu.max, cpu.cfs_quota_us), or move {comm} to another one")
        }
        What::Preempted if part.cause == OUT_OF_BUDGET => {
            format!("give {comm} a runtime (sched_setattr) that covers its longest job, or a shorter period")
        }
        What::Preempted => format!("raise the priority of {comm}, or keep other real-time tasks and interrupts off its CPU"),
        What::Sleeps => format!("{comm} sleeps within its job: let it wait only once per job"),
        What::Blocked if part.cause.starts_with("mutex without") => format!(
            "give the mutex priority inheritance (PTHREAD_PRIO_INHERIT), and shorten what {by} does while it holds it"
        ),
        What::Blocked if part.cause.starts_with("mutex with") => {
            format!("shorten what {by} does while it holds the mutex; inheritance already bounds the inversion")
        }
        What::Blocked if part.cause == "page fault" => {
            "lock and touch the mapped file before it is needed (mlockall, MAP_POPULATE)".to_owned()
        }
        What::Blocked if part.cause.starts_with(HELD_UP) => match &part.by {
            Some(by) => format!(
                "find what {} did: a fork, mmap, munmap or mprotect of one thread holds up page faults of all others; do it \
                 before the real-time work starts, or in another process (posix_spawn copies no memory)", by.comm
            ),
            None => "lock and touch memory before it is needed (mlockall, MAP_POPULATE)".to_owned(),
        },
        What::Blocked => format!("let another thread wait for this, and not {comm} within its job"),
        What::Slack if part.cause == WHEEL => format!(
            "let {comm} wait with poll and a timeout, or for a timerfd: they count in ns, and the timeout of its call in ticks (SO_RCVTIMEO)"
        ),
        What::Slack => format!(
            "make {comm} a real-time thread, whose timers have no slack, or set its slack to 1 ns (prctl PR_SET_TIMERSLACK)"
        ),
        What::TimerLate if part.cause == ARMED_LATE => {
            format!("see the thread that arms the timer of {comm}: it did so after the release was due")
        }
        What::TimerLate | What::WakeUp => format!("see the wake-ups of {comm}: the task on its CPU, or the code that kept interrupts off there"),
        What::Stopped => {
            format!("do not stop {comm} while it has jobs, or do not count the jobs of that time")
        }
        What::Behind => format!(
            "compute the first release of {comm} after its initialisation, and let it skip releases that have passed"
        ),
        What::Backlog => "a job that overran made the next ones late: see that job".to_owned(),
    }
}

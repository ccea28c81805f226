//! A thread of lower priority kept the CPU although the victim was runnable: preemption disabled, or a kernel that does
//! not preempt kernel code. In user mode it could have been preempted: then the victim was not scheduled.

use super::{Blame, Cause};
use crate::explain::share::{Role, Share};
use crate::trace::event::LeftAs;

/// The rule.
pub const CAUSE: Cause = Cause { name: "not preempted", matches, key, clause, advice };

fn matches(share: &Share) -> bool {
    matches!(share.role, Role::Keeps { .. })
}

fn key(blame: &Blame) -> String {
    match blame.share.role {
        Role::Keeps { in_user: Some(true), .. } => format!("not let run, behind {}", blame.share.comm()),
        Role::Keeps { unserved: true, .. } => format!("no interrupts: {}", blame.share.comm()),
        _ => format!("preemption off: {}", blame.share.comm()),
    }
}

/// Whether the preemption model preempts kernel code for a real-time thread (`lazy` does: kernel/sched/core.c, 6.13).
pub(in crate::explain) fn preempts(model: &str) -> bool {
    matches!(model, "full" | "rt" | "lazy")
}

fn clause(blame: &Blame) -> String {
    let share = blame.share;
    let Role::Keeps { in_user, left, unserved } = share.role else { return share.name.clone() };
    let how = match (in_user, blame.preemption) {
        _ if unserved => {
            "and served no timer interrupt although a timer was due (interrupts off, or the CPU stalled)"
                .to_owned()
        }
        (Some(true), _) => "although it was in user mode at the waking,".to_owned(),
        (_, Some(model)) if !preempts(model) && left_at_return(share) => format!(
            "until it returned to user mode, from code that preemption model '{model}' does not preempt, or with a priority raised until then,"
        ),
        (_, Some(model)) if !preempts(model) => {
            format!("in kernel code that preemption model '{model}' does not preempt")
        }
        _ if share.stack.is_empty() => "and was not preempted (no stack shows why)".to_owned(),
        (_, Some(_)) => "with preemption disabled".to_owned(),
        (_, None) => "not preemptible there".to_owned(),
    };
    let until = match left {
        Some(LeftAs::Blocked(_)) => " until it blocked",
        Some(LeftAs::Dead) => " until it ended",
        _ => "",
    };
    let place = share.stack.iter().find(|frame| !is_scheduler(frame));
    let place =
        place.filter(|_| !left_at_return(share)).map_or(String::new(), |frame| format!(" (in {frame})"));
    format!("{} held CPU {} {how}{until}{place}", share.name, share.cpu)
}

/// Whether it is a function of the scheduler in the stack of a thread that leaves the CPU.
fn is_scheduler(frame: &str) -> bool {
    let function = frame.split('+').next().unwrap_or_default();
    function.contains("preempt_schedule")
        || ["__schedule", "schedule", "__cond_resched", "raw_irqentry_exit_cond_resched"].contains(&function)
}

/// Whether it was preempted on the return to user mode, from a system call or an exception: what it did is not in its stack.
fn left_at_return(share: &Share) -> bool {
    let is_return =
        |frame: &String| frame.starts_with("exit_to_user_mode") || frame.starts_with("do_notify_resume");
    share.stack.iter().find(|frame| !is_scheduler(frame)).is_some_and(is_return)
}

fn advice(blame: &Blame) -> String {
    let comm = blame.share.comm();
    match (blame.share.role, blame.preemption) {
        (Role::Keeps { in_user: Some(true), .. }, _) => {
            "the victim was runnable but not scheduled: check RT throttling (sched_rt_runtime_us), the fair server and cgroup limits; or the CPU stalled: compare with `lathunt hwlat`"
                .to_owned()
        }
        (Role::Keeps { unserved: true, .. }, _) => format!(
            "measure the host and the hardware alone: `lathunt hwlat`; if they are not the cause, find where {comm} disables interrupts"
        ),
        (_, Some(model)) if !preempts(model) => {
            format!("boot with preempt=full or use PREEMPT_RT ('{model}' is in force), or keep {comm} off this CPU")
        }
        _ => format!("keep {comm} off this CPU, or shorten its section with preemption disabled (see the stack)"),
    }
}

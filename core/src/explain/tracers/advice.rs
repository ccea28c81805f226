//! What to do about a late switch-in, from the longest gap between two lines.

use super::steps::{self, Gap, Step};
use crate::series::Thread;
use crate::time::Tid;

/// The advice for the longest gap of `holder`, the task on the CPU; `was_awake`: an idle CPU woke the victim itself.
pub(super) fn advise(
    steps: &[Step],
    longest: Option<&Gap>,
    (holder, was_awake): (&Thread, bool),
    victim: &Thread,
) -> String {
    let below = matches!((holder.prio, victim.prio), (Some(having), Some(wanting)) if having > wanting);
    let Some(gap) = longest else { return String::new() };
    let from = &steps[gap.from];
    let state = gap.to.map_or("", |to| steps::state(from, &steps[to]));
    let shown = shown_by(steps, gap);
    let place = shown.place();
    match state {
        _ if gap.is_tracers(steps) => "only the tracer, an NMI, firmware or the hypervisor has the CPU there: measure the hardware alone (lathunt hwlat), and record the wake-up without this tracer (lathunt trace)".to_owned(),
        _ if holder.tid == Tid::IDLE && !was_awake => "forbid deep idle states (0 in /dev/cpu_dma_latency)".to_owned(),
        ", in a hard interrupt" if is_timers(from) || gap.to.is_some_and(|to| is_timers(&steps[to])) => "the timer interrupt of this CPU took that long: keep timers of others off it (nohz_full), and measure the hardware alone (lathunt hwlat)".to_owned(),
        ", in a hard interrupt" => "an interrupt took that long: move it to another CPU, or measure the hardware alone (lathunt hwlat)".to_owned(),
        _ if holder.tid == Tid::IDLE => "the CPU was awake, so that idle states are not the cause: record what it did (options/function-trace, events/irq, events/irq_vectors), and measure the hardware alone (lathunt hwlat)".to_owned(),
        ", interrupts off at both ends" if shown.caller().is_some() => format!("{place} keeps interrupts off that long: keep {} away from this CPU, or bound what it does there", holder.comm),
        ", preemption off at both ends" if shown.caller().is_some() => format!("{place} keeps preemption off that long: keep {} away from this CPU, or bound what it does there", holder.comm),
        _ if holder.prio.is_none() || victim.prio.is_none() => format!("find why {} had the CPU: whether it has the higher priority is not in the text", holder.comm),
        _ if below => format!("{} has the lower priority and was not preempted: find where it keeps preemption off, or keep it off this CPU", holder.comm),
        _ => format!("{} has an equal or higher priority: lower it, shorten its runs, or let one of the two use another CPU", holder.comm),
    }
}

/// The line that shows the code in a gap: not one of an interrupt that had returned.
fn shown_by<'s>(steps: &'s [Step], gap: &Gap) -> &'s Step {
    let from = &steps[gap.from];
    let to = gap.to.map(|to| &steps[to]);
    to.filter(|to| from.in_interrupt() && !to.in_interrupt()).unwrap_or(from)
}

/// Whether a line is within the CPU's own timer interrupt.
fn is_timers(step: &Step) -> bool {
    ["apic_timer_interrupt", "hrtimer", "arch_timer", "tick_"].iter().any(|name| step.what.contains(name))
}

//! Caveats of an explanation: lost events, a record that starts late, missing tracepoints.

use std::collections::BTreeSet;

use super::cpu::Context;
use super::scene::CauseInput;
use super::segment::WORTH_A_REMARK;
use super::share::{Phase, Role, Share, STALLED};
use crate::time::{Cpu, Mono, Ns};
use crate::trace::event::Kind;

/// One line for each caveat of `scene`, whose interval is `[begin, end)`.
#[must_use]
pub fn of(scene: &CauseInput, begin: Mono, end: Mono) -> Vec<String> {
    let mut limits = Vec::new();
    let cpus: BTreeSet<Cpu> = scene.shares.iter().map(|share| share.cpu).chain([scene.cpu]).collect();
    for &cpu in &cpus {
        reach(scene, cpu, begin, end, &mut limits);
    }
    let until = scene.record.until();
    if until < end && scene.total > Ns::ZERO {
        limits.push(format!("the record ends {} too early", end.since(until.max(begin))));
    }
    victim_events(scene, begin, end, &mut limits);
    missing_tracepoints(scene, &mut limits);
    limits
}

fn reach(scene: &CauseInput, cpu: Cpu, begin: Mono, end: Mono, limits: &mut Vec<String>) {
    match scene.record.complete_from(cpu) {
        None => limits.push(format!("nothing was recorded on CPU {cpu}")),
        Some(from) if from > begin => {
            limits.push(format!("the record of CPU {cpu} starts {} too late", from.since(begin)));
        }
        Some(_) => {}
    }
    for (_, event) in scene.record.events_on(cpu, begin, end) {
        match event.kind {
            Kind::Lost { count: Some(0), .. } => {
                limits.push(format!("switches of CPU {cpu} before {} are not recorded", event.at));
            }
            Kind::Lost { count: Some(count), .. } => {
                limits.push(format!("{count} events of CPU {cpu} were lost before {}", event.at));
            }
            Kind::Lost { count: None, .. } => {
                limits.push(format!("events of CPU {cpu} were lost before {}", event.at));
            }
            _ => {}
        }
    }
}

fn victim_events(scene: &CauseInput, begin: Mono, end: Mono, limits: &mut Vec<String>) {
    let tid = scene.victim.tid;
    let mut events = scene.record.events_of(tid, begin, end);
    if !events.any(|(_, event)| matches!(event.kind, Kind::Waking { task, .. } | Kind::Wakeup { task, .. } if task.tid == tid)) {
        limits.push("no waking of the victim is recorded in the interval".to_owned());
    }
    let mut events = scene.record.events_of(tid, begin, end);
    if !events.any(|(_, event)| matches!(event.kind, Kind::Switch { next, .. } if next.tid == tid)) {
        limits.push("no switch-in of the victim is recorded in the interval".to_owned());
    }
}

/// Tracepoints that would have explained a gap.
fn missing_tracepoints(scene: &CauseInput, limits: &mut Vec<String>) {
    let recorded =
        |wanted: fn(&Kind) -> bool| scene.record.window.events.iter().any(|event| wanted(&event.kind));
    if !scene.record.has.switches {
        limits.push("sched_switch is not recorded: the cause cannot be known".to_owned());
    }
    let gaps = scene.tree.all_gaps();
    if gaps.iter().any(|gap| gap.label == STALLED) {
        limits.push(
            "what stalls all CPUs is not in the trace: the hypervisor (steal time in /proc/stat), firmware (`lathunt hwlat`), or interrupts off on all of them (preemptirq:irq_disable)".to_owned(),
        );
    }
    let late: Ns =
        gaps.iter().filter(|gap| gap.label.starts_with("timer late")).map(|gap| gap.duration_ns).sum();
    if late.share_of(scene.total) > WORTH_A_REMARK {
        limits.push(
            "interrupt-off sections are not traced (preemptirq:irq_disable would show them)".to_owned(),
        );
    }
    let timed = scene.shares.iter().any(|share| share.phase == Phase::TimerLate);
    if timed && !recorded(|kind| matches!(kind, Kind::TimerExpireEntry { .. })) {
        limits.push(
            "hrtimer_expire_entry is not recorded: the start of the timer's handler is inferred".to_owned(),
        );
    }
    let stateless = |share: &&Share| share.role == Role::Idle && share.context == Context::Idle(None);
    if scene.shares.iter().any(|share| stateless(&share))
        && !recorded(|k| matches!(k, Kind::IdleEnter { .. }))
    {
        limits.push("cpu_idle is not recorded: the idle state is unknown".to_owned());
    }
}

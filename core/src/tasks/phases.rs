//! Scheduling of a task in its phases. A phase sets policy, priority and CPUs from its start on, also for later phases
//! without their own; other keys of the phase are completed by those of the task, as in rt-app.

use super::set::{Policy, Sched, Task, TaskSet};
use crate::cpuset::CpuSet;

/// Scheduling of a task over all its phases.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Course {
    /// Policy, priority and reservation of the first phase.
    pub first: Sched,
    /// Those of the most urgent phase; the policy is always set.
    pub sched: Sched,
    /// The level of that phase; fair policies: 0, real-time priorities: one more, `SCHED_DEADLINE`: 1000.
    pub level: i64,
    /// The phases differ in their level or reservation.
    pub changes: bool,
    /// Others of its level may run while it is ready, in at least one phase (any policy but SCHED_FIFO).
    pub time_shares: bool,
    /// A phase has SCHED_FIFO or SCHED_RR.
    pub is_realtime: bool,
    /// Such a phase has a priority in the file.
    pub has_priority: bool,
    /// All CPUs on which it may run; `None`: any.
    pub cpus: Option<CpuSet>,
}

/// The scheduling keys from a phase with these `own` ones on; `None`: it keeps the current ones. CPUs are separate.
pub(super) fn merged(task: &Task, own: &Sched) -> Option<Sched> {
    let changes = own.policy.is_some()
        || own.priority.is_some()
        || own.dl_runtime.is_some()
        || own.dl_period.is_some()
        || own.dl_deadline.is_some();
    changes.then(|| Sched {
        policy: own.policy.or(task.sched.policy),
        priority: own.priority.or(task.sched.priority.filter(|_| own.policy.is_none())),
        dl_runtime: own.dl_runtime.or(task.sched.dl_runtime),
        dl_period: own.dl_period.or(task.sched.dl_period),
        dl_deadline: own.dl_deadline.or(task.sched.dl_deadline),
        ..Sched::default()
    })
}

/// The scheduling of `task` over all its phases.
pub(super) fn course(task: &Task, set: &TaskSet) -> Course {
    let whole = Sched { cpus: None, other: Vec::new(), ..task.sched.clone() };
    let mut cpus = task.sched.cpus.clone();
    let mut course: Option<Course> = None;
    let mut now = resolved(whole, set);
    // Twice: the second iteration starts with the scheduling of the last phase.
    let rounds = if task.loops == Some(1) { 1 } else { 2 };
    for phase in std::iter::repeat_n(&task.phases, rounds).flatten() {
        now = merged(task, &phase.sched).map_or(now, |own| resolved(own, set));
        cpus = phase.sched.cpus.clone().or(cpus);
        match &mut course {
            Some(course) => course.add(&now, cpus.as_ref()),
            None => course = Some(Course::of(now.clone(), cpus.clone())),
        }
    }
    course.unwrap_or_else(|| Course::of(now, cpus))
}

fn resolved(sched: Sched, set: &TaskSet) -> Sched {
    Sched { policy: Some(sched.policy.unwrap_or(set.global.default_policy)), ..sched }
}

fn policy(sched: &Sched) -> Policy {
    sched.policy.unwrap_or(Policy::Other)
}

fn level(sched: &Sched) -> i64 {
    match policy(sched) {
        Policy::Deadline => 1_000,
        fair if fair.is_fair() => 0,
        // As in rt-app.
        _ => i64::from(sched.priority.unwrap_or(10)) + 1,
    }
}

fn is_realtime(sched: &Sched) -> bool {
    matches!(policy(sched), Policy::Fifo | Policy::Rr)
}

impl Course {
    fn of(sched: Sched, cpus: Option<CpuSet>) -> Course {
        let is_realtime = is_realtime(&sched);
        Course {
            level: level(&sched),
            changes: false,
            time_shares: policy(&sched) != Policy::Fifo,
            is_realtime,
            has_priority: is_realtime && sched.priority.is_some(),
            cpus,
            first: sched.clone(),
            sched,
        }
    }

    fn add(&mut self, next: &Sched, cpus: Option<&CpuSet>) {
        let reservation = |sched: &Sched| {
            (policy(sched) == Policy::Deadline).then_some((
                sched.dl_runtime,
                sched.dl_period,
                sched.dl_deadline,
            ))
        };
        self.changes |= level(next) != self.level || reservation(next) != reservation(&self.sched);
        self.time_shares |= policy(next) != Policy::Fifo;
        self.is_realtime |= is_realtime(next);
        self.has_priority |= is_realtime(next) && next.priority.is_some();
        self.cpus = self.cpus.take().zip(cpus).map(|(all, more)| all.iter().chain(more.iter()).collect());
        if level(next) > self.level {
            (self.level, self.sched) = (level(next), next.clone());
        }
    }

    /// Policy of the most urgent phase.
    pub fn policy(&self) -> Policy {
        policy(&self.sched)
    }
}

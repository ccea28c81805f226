//! One task and its phases.

use std::collections::BTreeSet;

use super::super::json::Json;
use super::super::set::{Event, Global, Phase, Sched, Task, Warning};
use super::event::{event, event_key};
use super::fields::{as_text, Fields};
use super::{policy, NotATaskSet};
use crate::time::Ns;

/// Reads the member `name` of `tasks`.
pub(super) fn read(name: &str, value: &Json, global: &Global) -> Result<(Task, Vec<Warning>), NotATaskSet> {
    let mut fields = Fields::new(&format!("tasks.{name}"), value)?;
    let most = i64::from(i32::MAX);
    let instances = fields.integer("instance", 0..=most)?.unwrap_or(1);
    let delay = fields.us("delay")?.unwrap_or(Ns::ZERO);
    let sched = sched(&mut fields)?;
    let mut task = Task {
        name: name.to_owned(),
        instances: u32::try_from(instances).unwrap_or(u32::MAX),
        delay,
        sched,
        ..Task::default()
    };
    analysis_keys(&mut fields, &mut task)?;
    match fields.take("phases")? {
        Some(phases) => {
            task.loops = loops(&mut fields, None)?;
            (task.phases, fields.warnings) = read_phases(&mut fields, phases)?;
        }
        None => plain(&mut fields, &mut task)?,
    }
    check(&fields, &task, global)?;
    Ok((task, fields.finish()?))
}

/// `loop`; −1 is for ever.
fn loops(fields: &mut Fields, default: Option<u32>) -> Result<Option<u32>, NotATaskSet> {
    Ok(match fields.integer("loop", -1..=i64::from(i32::MAX))? {
        None => default,
        Some(-1) => None,
        Some(0) => return Err(fields.error("\"loop\" 0: it would never run; -1 is for ever")),
        Some(times) => Some(times.unsigned_abs() as u32),
    })
}

/// A task with events as direct members: one phase, to which `loop` applies.
fn plain(fields: &mut Fields, task: &mut Task) -> Result<(), NotATaskSet> {
    let given = fields.has("loop");
    let times = loops(fields, None)?;
    let events = events(fields)?;
    if given && times.is_some() {
        fields.warn(
            "loop-without-phases",
            "\"loop\" without \"phases\": rt-app 1.0 ignores it and loops for ever",
        );
    }
    let nothing = events.is_empty();
    task.phases = vec![Phase { loops: times, events, ..Phase::default() }];
    task.loops = Some(1);
    if nothing {
        let work = task.wcet.or(task.sched.dl_runtime);
        let Some(work) = work else {
            return Err(fields.error("no events: give run, runtime or cputime, and a timer"));
        };
        let period = task.period.or(task.sched.dl_period);
        let Some(period) = period.filter(|period| *period > Ns::ZERO) else {
            return Err(fields.error("no events and no period: give a timer, \"period\" or \"dl-period\""));
        };
        let timer = super::super::set::Timer { reference: "unique".to_owned(), period, absolute: true };
        task.phases[0].events = vec![Event::CpuTime(work), Event::Timer(timer)];
        fields.warn("extension", "no events: taken as cputime of its work and a timer of its period");
    }
    Ok(())
}

fn read_phases(fields: &mut Fields, value: &Json) -> Result<(Vec<Phase>, Vec<Warning>), NotATaskSet> {
    if let Some((key, _)) = fields.take_all(|key| event_key(key).is_some()).first() {
        return Err(fields.error(format!(
            "event \"{key}\" beside \"phases\": rt-app would ignore it; put it into a phase"
        )));
    }
    let mut all = Fields::new(&format!("{}.phases", fields.place), value)?;
    let mut phases: Vec<Phase> = Vec::new();
    let mut names = BTreeSet::new();
    let mut warnings = std::mem::take(&mut fields.warnings);
    for (name, value) in all.take_all(|_| true) {
        let mut phase = Fields::new(&format!("{}.{name}", all.place), value)?;
        if !names.insert(name) {
            phase.warn(
                "repeated-key",
                "this name is there more than once: all are kept (rt-app would keep one)",
            );
        }
        let times = loops(&mut phase, Some(1))?;
        let sched = sched(&mut phase)?;
        if phase.take("delay")?.is_some() {
            phase.warn("ignored-key", "\"delay\" of a phase has no effect in rt-app, and none here");
        }
        let events = events(&mut phase)?;
        if events.is_empty() {
            return Err(phase.error("a phase without events"));
        }
        phases.push(Phase { name: name.to_owned(), loops: times, events, sched });
        warnings.extend(phase.finish()?);
    }
    if phases.is_empty() {
        return Err(all.error("is empty"));
    }
    Ok((phases, warnings))
}

fn events(fields: &mut Fields) -> Result<Vec<Event>, NotATaskSet> {
    let members = fields.take_all(|key| event_key(key).is_some());
    let mut events = Vec::with_capacity(members.len());
    let mut keys = BTreeSet::new();
    for (key, value) in members {
        let Some(Ok(known)) = event_key(key) else {
            let what =
                format!("\"{key}\" is no event: only digits and underscores may follow an event's name");
            return Err(fields.error(what));
        };
        if !keys.insert(key) {
            let text =
                format!("\"{key}\" is there more than once: each is an event (rt-app would keep the last)");
            fields.warn("repeated-key", text);
        }
        events.push(event(fields, key, known, value)?);
    }
    Ok(events)
}

/// `deadline` and `period` are also rt-app's legacy names of `dl-deadline` and `dl-period`: the meaning is the same.
fn analysis_keys(fields: &mut Fields, task: &mut Task) -> Result<(), NotATaskSet> {
    task.deadline = fields.us("deadline")?;
    task.period = fields.us("period")?;
    task.wcet = fields.us("wcet")?;
    let (jitter, blocking) = (fields.us("jitter")?, fields.us("blocking")?);
    if task.deadline == Some(Ns::ZERO) {
        return Err(fields.error("\"deadline\" 0: no job can meet it"));
    }
    if task.period == Some(Ns::ZERO) {
        return Err(fields.error("\"period\" 0: a task cannot be released all the time"));
    }
    let used = ["wcet", "jitter", "blocking"].into_iter().filter(|key| fields.has(key)).collect::<Vec<_>>();
    if !used.is_empty() {
        fields.warn("extension", format!("{}: rt-app ignores it; the analysis uses it", used.join(", ")));
    }
    task.jitter = jitter.unwrap_or_default();
    task.blocking = blocking.unwrap_or_default();
    Ok(())
}

fn sched(fields: &mut Fields) -> Result<Sched, NotATaskSet> {
    let mut sched = Sched::default();
    if let Some(name) = fields.text("policy")? {
        sched.policy = Some(policy(fields, "policy", &name)?);
    }
    sched.priority = fields.integer("priority", -20..=99)?.map(|priority| priority as i32);
    sched.dl_runtime = fields.us("dl-runtime")?;
    sched.dl_period = fields.us("dl-period")?;
    sched.dl_deadline = fields.us("dl-deadline")?;
    for (key, value) in
        [("dl-runtime", sched.dl_runtime), ("dl-period", sched.dl_period), ("dl-deadline", sched.dl_deadline)]
    {
        if value == Some(Ns::ZERO) {
            return Err(fields.error(format!("\"{key}\" 0: the kernel refuses it")));
        }
    }
    sched.cpus = fields.cpus("cpus")?;
    for key in ["util_min", "util_max"] {
        if let Some(value) = fields.integer(key, -1..=1024)? {
            sched.other.push((key.to_owned(), value.to_string()));
        }
    }
    for key in ["taskgroup", "nodes_membind"] {
        if let Some(value) = fields.take(key)? {
            sched.other.push((key.to_owned(), as_text(value)));
        }
    }
    if !sched.other.is_empty() {
        let keys: Vec<&str> = sched.other.iter().map(|(key, _)| key.as_str()).collect();
        fields.warn("ignored-key", format!("{}: kept by convert, without effect here", keys.join(", ")));
    }
    Ok(sched)
}

/// Values that the kernel or the arithmetic cannot handle.
fn check(fields: &Fields, task: &Task, global: &Global) -> Result<(), NotATaskSet> {
    let policies = std::iter::once(&task.sched).chain(task.phases.iter().map(|phase| &phase.sched));
    for sched in policies {
        let policy = sched.policy.or(task.sched.policy).unwrap_or(global.default_policy);
        let range = if policy.is_fair() { -20..=19 } else { 0..=99 };
        if let Some(priority) = sched.priority.filter(|priority| !range.contains(priority)) {
            let (low, high) = (range.start(), range.end());
            let name = policy.name();
            return Err(
                fields.error(format!("\"priority\" {priority} under {name}: must be {low} to {high}"))
            );
        }
    }
    let dl = &task.sched;
    let period = dl.dl_period.or(dl.dl_runtime);
    let deadline = dl.dl_deadline.or(period);
    if let (Some(runtime), Some(deadline), Some(period)) = (dl.dl_runtime, deadline, period) {
        let asked = task.sched.policy.unwrap_or(global.default_policy) == super::super::set::Policy::Deadline;
        if asked && !(runtime <= deadline && deadline <= period) {
            return Err(
                fields.error("dl-runtime <= dl-deadline <= dl-period must hold: the kernel refuses the rest")
            );
        }
    }
    Ok(())
}

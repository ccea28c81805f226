//! Writes a task set as strict JSON in rt-app's grammar: unique keys, so that json-c drops none.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::set::{Event, Global, Phase, Policy, Protocol, Sched, Task, TaskSet, Warning};
use crate::time::Ns;

impl TaskSet {
    /// The text of the file. Extensions to rt-app are written only with `extensions`; otherwise `cputime` becomes
    /// `run`, and deadlines, jitter, blocking and protocols of single mutexes are omitted.
    #[must_use]
    pub fn to_json(&self, extensions: bool) -> String {
        let mut tasks = Object::new(2);
        for task in &self.tasks {
            let text = match extensions {
                true => task_text(task, true),
                false => task_text(&self.of_rt_app(task), false),
            };
            tasks.add(&task.name, text);
        }
        let mut root = Object::new(1);
        root.add("tasks", tasks.text());
        if extensions && !self.mutexes.is_empty() {
            let mut resources = Object::new(2);
            for (name, protocol) in &self.mutexes {
                let text = format!("{{ \"type\": \"mutex\", \"protocol\": {} }}", quoted(protocol.name()));
                resources.add(name, text);
            }
            root.add("resources", resources.text());
        }
        // Without it, rt-app writes no logs.
        if self.global != Global::default() {
            root.add("global", global_text(&self.global));
        }
        root.text() + "\n"
    }

    /// The task as rt-app takes it: `deadline` and `period` are its legacy names of the parameters of SCHED_DEADLINE.
    fn of_rt_app(&self, task: &Task) -> Task {
        let mut task = task.clone();
        let policy = task.sched.policy.unwrap_or(self.global.default_policy);
        if policy == Policy::Deadline {
            task.sched.dl_period = task.sched.dl_period.or(task.period.take());
            task.sched.dl_deadline = task.sched.dl_deadline.or(task.deadline.take());
        }
        task
    }

    /// What [`TaskSet::to_json`] without extensions omits or changes.
    #[must_use]
    pub fn losses(&self) -> Vec<Warning> {
        let mut found = Vec::new();
        let mut say = |name, place: String, text: String| found.push(Warning { name, place, text });
        for task in self.tasks.iter().map(|task| self.of_rt_app(task)) {
            let place = format!("tasks.{}", task.name);
            let times = [
                ("deadline", task.deadline),
                ("period", task.period),
                ("wcet", task.wcet),
                ("jitter", Some(task.jitter).filter(|time| *time > Ns::ZERO)),
                ("blocking", Some(task.blocking).filter(|time| *time > Ns::ZERO)),
            ];
            let gone: Vec<&str> = times.into_iter().filter_map(|(key, time)| time.map(|_| key)).collect();
            if !gone.is_empty() {
                let text = format!(
                    "{}: omitted, as rt-app has no such key here (--extensions keeps it)",
                    gone.join(", ")
                );
                say("omitted", place.clone(), text);
            }
            if task_times(&task).any(|time| time.0 % 1_000 > 0) {
                let text =
                    "fractions of a µs are rounded up, of deadlines and periods down, as rt-app takes whole ones (--extensions keeps them)";
                say("rounded", place, text.to_owned());
            }
        }
        let common = if self.global.pi_enabled { Protocol::Inherit } else { Protocol::None };
        for (name, protocol) in self.mutexes.iter().filter(|(_, protocol)| **protocol != common) {
            let (own, common) = (protocol.name(), common.name());
            let text = format!("\"protocol\" {own}: omitted, as rt-app has one for all mutexes, which is {common} (--extensions keeps it)");
            say("omitted", format!("resources.{name}"), text);
        }
        found
    }
}

/// All times of a task that rt-app takes.
fn task_times(task: &Task) -> impl Iterator<Item = Ns> + '_ {
    let scheds = std::iter::once(&task.sched).chain(task.phases.iter().map(|phase| &phase.sched));
    let of_sched = scheds.flat_map(|sched| [sched.dl_runtime, sched.dl_period, sched.dl_deadline]).flatten();
    let events = task.phases.iter().flat_map(|phase| &phase.events);
    let of_events = events.filter_map(|event| match event {
        Event::Run(time) | Event::Runtime(time) | Event::CpuTime(time) | Event::Sleep(time) => Some(*time),
        Event::Timer(timer) => Some(timer.period),
        _ => None,
    });
    std::iter::once(task.delay).chain(of_sched).chain(of_events)
}

/// An object under construction, one member a line.
struct Object {
    depth: usize,
    seen: BTreeSet<String>,
    /// Number to try first, per repeated key.
    next: BTreeMap<String, u64>,
    members: Vec<String>,
}

impl Object {
    fn new(depth: usize) -> Object {
        Object { depth, seen: BTreeSet::new(), next: BTreeMap::new(), members: Vec::new() }
    }

    /// A repeated key gets a number.
    fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        let mut free = key.to_owned();
        while !self.seen.insert(free.clone()) {
            let number = self.next.entry(key.to_owned()).or_insert(1);
            free = format!("{key}{number}");
            *number += 1;
        }
        self.members.push(format!("{}: {value}", quoted(&free)));
    }

    fn text(&self) -> String {
        let indent = "  ".repeat(self.depth);
        let mut text = "{".to_owned();
        for (at, member) in self.members.iter().enumerate() {
            let comma = if at + 1 < self.members.len() { "," } else { "" };
            let _ = write!(text, "\n{indent}{member}{comma}");
        }
        let _ = write!(text, "\n{}}}", "  ".repeat(self.depth - 1));
        text
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// µs of a deadline or a period. Without extensions whole ones, rounded down: the set must not become easier.
fn limit_us(time: Ns, extensions: bool) -> String {
    match time.0 {
        ns if ns >= 1_000 && !extensions => (ns / 1_000).to_string(),
        _ => us(time, extensions),
    }
}

/// µs. Without extensions whole ones, rounded up so that no work is lost.
fn us(time: Ns, extensions: bool) -> String {
    match time.0 % 1_000 {
        rest if rest > 0 && extensions => {
            format!("{}.{rest:03}", time.0 / 1_000).trim_end_matches('0').to_owned()
        }
        _ => time.0.div_ceil(1_000).to_string(),
    }
}

fn times(loops: Option<u32>) -> String {
    loops.map_or_else(|| "-1".to_owned(), |times| times.to_string())
}

fn global_text(global: &Global) -> String {
    let mut object = Object::new(2);
    object.add("duration", global.duration_s.map_or(-1, i64::from));
    match global.ns_per_loop {
        Some(ns) => object.add("calibration", ns),
        None => object.add("calibration", quoted(&format!("CPU{}", global.calibration_cpu))),
    }
    object.add("default_policy", quoted(global.default_policy.name()));
    object.add("pi_enabled", global.pi_enabled);
    object.add("lock_pages", global.lock_pages);
    if global.cumulative_slack {
        object.add("cumulative_slack", true);
    }
    object.add("io_device", quoted(&global.io_device));
    object.add("mem_buffer_size", global.mem_buffer_size);
    for (key, value) in &global.logging {
        object.add(key, value);
    }
    object.text()
}

fn task_text(task: &Task, extensions: bool) -> String {
    let mut object = Object::new(3);
    object.add("instance", task.instances);
    if task.delay > Ns::ZERO {
        object.add("delay", us(task.delay, extensions));
    }
    sched_text(&mut object, &task.sched, extensions);
    for (key, time) in [("period", task.period), ("deadline", task.deadline)] {
        if let Some(time) = time.filter(|_| extensions) {
            object.add(key, us(time, extensions));
        }
    }
    if extensions {
        let some = |time: Ns| Some(time).filter(|time| *time > Ns::ZERO);
        for (key, time) in
            [("wcet", task.wcet), ("jitter", some(task.jitter)), ("blocking", some(task.blocking))]
        {
            if let Some(time) = time {
                object.add(key, us(time, extensions));
            }
        }
    }
    match task.phases.as_slice() {
        // rt-app 1.0 ignores a finite loop without phases.
        [only] if only.name.is_empty() && only.loops.is_none() => {
            object.add("loop", -1);
            events_text(&mut object, &only.events, extensions);
        }
        phases => {
            object.add("loop", times(task.loops));
            let mut all = Object::new(4);
            for phase in phases {
                all.add(
                    if phase.name.is_empty() { "phase" } else { &phase.name },
                    phase_text(phase, extensions),
                );
            }
            object.add("phases", all.text());
        }
    }
    object.text()
}

fn phase_text(phase: &Phase, extensions: bool) -> String {
    let mut object = Object::new(5);
    object.add("loop", times(phase.loops));
    sched_text(&mut object, &phase.sched, extensions);
    events_text(&mut object, &phase.events, extensions);
    object.text()
}

fn sched_text(object: &mut Object, sched: &Sched, extensions: bool) {
    if let Some(policy) = sched.policy {
        object.add("policy", quoted(policy.name()));
    }
    if let Some(priority) = sched.priority {
        object.add("priority", priority);
    }
    if let Some(time) = sched.dl_runtime {
        object.add("dl-runtime", us(time, extensions));
    }
    for (key, time) in [("dl-period", sched.dl_period), ("dl-deadline", sched.dl_deadline)] {
        if let Some(time) = time {
            object.add(key, limit_us(time, extensions));
        }
    }
    if let Some(cpus) = &sched.cpus {
        let list: Vec<String> = cpus.iter().map(|cpu| cpu.0.to_string()).collect();
        object.add("cpus", format!("[{}]", list.join(", ")));
    }
    for (key, value) in &sched.other {
        object.add(key, value);
    }
}

fn events_text(object: &mut Object, events: &[Event], extensions: bool) {
    for event in events {
        let key = if matches!(event, Event::CpuTime(_)) && !extensions { "run" } else { event.key() };
        object.add(key, value(event, extensions));
    }
}

fn value(event: &Event, extensions: bool) -> String {
    match event {
        Event::Run(time) | Event::Runtime(time) | Event::CpuTime(time) | Event::Sleep(time) => {
            us(*time, extensions)
        }
        Event::Timer(timer) => {
            let mode = if timer.absolute { ", \"mode\": \"absolute\"" } else { "" };
            format!(
                "{{ \"ref\": {}, \"period\": {}{mode} }}",
                quoted(&timer.reference),
                limit_us(timer.period, extensions)
            )
        }
        Event::Wait(condition, mutex) | Event::Sync(condition, mutex) => {
            format!("{{ \"ref\": {}, \"mutex\": {} }}", quoted(condition), quoted(mutex))
        }
        Event::Lock(name)
        | Event::Unlock(name)
        | Event::Signal(name)
        | Event::Broadcast(name)
        | Event::Barrier(name)
        | Event::SemPost(name)
        | Event::SemWait(name)
        | Event::Suspend(name)
        | Event::Resume(name)
        | Event::Fork(name) => quoted(name),
        Event::Yield => "\"\"".to_owned(),
        Event::Mem(bytes) | Event::IoRun(bytes) => bytes.to_string(),
        Event::MemRun(run) => {
            let mut text = format!(
                "{{ \"type\": {}, \"size\": {}, \"count\": {}, \"stride\": {}, \"pattern\": {}",
                quoted(&run.kind),
                run.size,
                run.count,
                run.stride,
                quoted(if run.random { "random" } else { "sequential" })
            );
            if let Some(reference) = &run.reference {
                let _ = write!(text, ", \"ref\": {}", quoted(reference));
            }
            text + " }"
        }
    }
}

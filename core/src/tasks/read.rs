//! Reads a task set from rt-app's JSON, and reports what rt-app would silently ignore.
//!
//! Every unknown key is an error with its path. Accepted but potentially misleading input is a named warning: repeated
//! keys (workgen's extension: json-c keeps the last value at the first position), shared defaults, keys without effect,
//! lathunt's extensions.

mod event;
mod fields;
mod task;

use std::collections::BTreeMap;

use super::json::{Json, NotJson};
use super::set::{Global, Policy, Protocol, TaskSet, Warning};
use fields::{as_text, Fields};

/// Why a text is not a task set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// Not JSON.
    #[error("not JSON: {0}")]
    Json(NotJson),
    /// JSON that is not a task set.
    #[error(transparent)]
    Set(#[from] NotATaskSet),
}

/// JSON that is not a task set.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{place}: {what}")]
pub struct NotATaskSet {
    place: String,
    what: String,
}

impl NotATaskSet {
    pub(super) fn new(place: &str, what: impl Into<String>) -> NotATaskSet {
        NotATaskSet { place: place.to_owned(), what: what.into() }
    }
}

/// Maximum threads in a set, for the analysis; the kernel could not run that many.
pub const MOST_TASKS: usize = 100_000;
/// Maximum events of all threads together: memory and time of the analysis grow with them.
const MOST_EVENTS: usize = 500_000;

impl TaskSet {
    /// Reads rt-app's JSON, with lathunt's extensions.
    ///
    /// # Errors
    /// The first error in the JSON or the task set, with its path.
    pub fn from_json(text: &str) -> Result<TaskSet, Unreadable> {
        let root = Json::parse(text).map_err(Unreadable::Json)?;
        Ok(whole(&root)?)
    }
}

fn whole(root: &Json) -> Result<TaskSet, NotATaskSet> {
    let mut fields = Fields::new("the file", root)?;
    let mut set = TaskSet::default();
    let global = fields.take("global")?;
    if let Some(value) = global {
        (set.global, set.warnings) = read_global(value)?;
    }
    if let Some(value) = fields.take("resources")? {
        let (mutexes, warnings) = resources(value)?;
        set.mutexes = mutexes;
        set.warnings.extend(warnings);
    }
    let Some(tasks) = fields.take("tasks")? else {
        return Err(fields.error("no \"tasks\": this is not a task set of rt-app's grammar"));
    };
    let mut members = Fields::new("tasks", tasks)?;
    let (mut threads, mut events) = (0usize, 0usize);
    for (name, value) in members.take_all(|_| true) {
        let (task, warnings) = task::read(name, value, &set.global)?;
        let of_task: usize = task.phases.iter().map(|phase| phase.events.len()).sum();
        threads = threads.saturating_add(task.instances as usize);
        events = events.saturating_add(of_task.saturating_mul(task.instances.max(1) as usize));
        set.tasks.push(task);
        set.warnings.extend(warnings);
        if threads > MOST_TASKS {
            return Err(NotATaskSet::new("tasks", format!("more than {MOST_TASKS} threads")));
        }
        if events > MOST_EVENTS {
            return Err(NotATaskSet::new("tasks", format!("more than {MOST_EVENTS} events of all threads")));
        }
    }
    if set.tasks.is_empty() {
        return Err(NotATaskSet::new("tasks", "is empty: nothing to run or to analyse"));
    }
    set.warnings.extend(rename_repeated(&mut set.tasks));
    set.warnings.extend(fields.finish()?);
    super::sound::check(&set)?;
    Ok(set)
}

/// Repeated names get a number, as in workgen.
fn rename_repeated(tasks: &mut [super::set::Task]) -> Vec<Warning> {
    let mut taken: std::collections::BTreeSet<String> = tasks.iter().map(|task| task.name.clone()).collect();
    let mut seen = std::collections::BTreeSet::new();
    let mut next = BTreeMap::new(); // number to try first, per name
    let mut warnings = Vec::new();
    for task in tasks {
        if seen.insert(task.name.clone()) {
            continue;
        }
        let first = next.entry(task.name.clone()).or_insert(1u64);
        let new = loop {
            let name = format!("{}{first}", task.name);
            *first += 1;
            if !taken.contains(&name) {
                break name;
            }
        };
        let text =
            format!("\"{}\" is there more than once: this one is {new} (rt-app would keep one)", task.name);
        warnings.push(Warning { name: "repeated-key", place: "tasks".to_owned(), text });
        taken.insert(new.clone());
        seen.insert(new.clone());
        task.name = new;
    }
    warnings
}

/// Keys that only change rt-app's logging.
const LOGGING: [&str; 5] = ["logdir", "log_basename", "log_size", "ftrace", "gnuplot"];
/// Keys of old grammars in rt-app's examples, which it ignores.
const OLD: [&str; 1] = ["frag"];

fn read_global(value: &Json) -> Result<(Global, Vec<Warning>), NotATaskSet> {
    let mut fields = Fields::new("global", value)?;
    let mut global = Global::default();
    let most = i64::from(i32::MAX);
    global.duration_s = match fields.integer("duration", -1..=most)? {
        None | Some(-1) => None,
        Some(0) => return Err(fields.error("\"duration\" 0: nothing would run; -1 is endless")),
        Some(seconds) => Some(seconds.unsigned_abs() as u32),
    };
    calibration(&mut fields, &mut global)?;
    if let Some(name) = fields.text("default_policy")? {
        global.default_policy = policy(&fields, "default_policy", &name)?;
    }
    global.pi_enabled = fields.boolean("pi_enabled")?.unwrap_or(false);
    global.lock_pages = fields.boolean("lock_pages")?.unwrap_or(true);
    global.cumulative_slack = fields.boolean("cumulative_slack")?.unwrap_or(false);
    if let Some(device) = fields.text("io_device")? {
        global.io_device = device;
    }
    if let Some(bytes) = fields.integer("mem_buffer_size", 1..=1 << 31)? {
        global.mem_buffer_size = bytes.unsigned_abs() as u32;
    }
    for key in LOGGING {
        if let Some(value) = fields.take(key)? {
            global.logging.push((key.to_owned(), as_text(value)));
        }
    }
    for key in OLD {
        if fields.take(key)?.is_some() {
            fields.warn(
                "ignored-key",
                format!("\"{key}\" of an old grammar has no effect in rt-app, and none here"),
            );
        }
    }
    if !global.logging.is_empty() {
        let keys: Vec<&str> = global.logging.iter().map(|(key, _)| key.as_str()).collect();
        fields.warn(
            "ignored-key",
            format!("{}: lathunt's output is chosen on its command line", keys.join(", ")),
        );
    }
    Ok((global, fields.finish()?))
}

fn calibration(fields: &mut Fields, global: &mut Global) -> Result<(), NotATaskSet> {
    match fields.take("calibration")? {
        None => Ok(()),
        Some(Json::Number(text)) => {
            let ns = text.parse().ok().filter(|ns| (1..=1_000_000).contains(ns));
            global.ns_per_loop = ns;
            match ns {
                Some(_) => Ok(()),
                None => {
                    Err(fields
                        .error(format!("\"calibration\" must be 1 to 1000000 ns per loop, found {text}")))
                }
            }
        }
        Some(Json::Text(text)) => match text.strip_prefix("CPU").and_then(|cpu| cpu.parse().ok()) {
            Some(cpu) => {
                global.calibration_cpu = cpu;
                Ok(())
            }
            None => Err(fields.error(format!("\"calibration\" must be CPUn or ns per loop, found {text}"))),
        },
        Some(other) => {
            Err(fields.error(format!("\"calibration\" must be CPUn or ns per loop, found {}", other.kind())))
        }
    }
}

fn policy(fields: &Fields, key: &str, name: &str) -> Result<Policy, NotATaskSet> {
    Policy::ALL.into_iter().find(|policy| policy.name() == name).ok_or_else(|| {
        let names = Policy::ALL.map(Policy::name).join(", ");
        fields.error(format!("\"{key}\" must be one of {names}, found \"{name}\""))
    })
}

/// Only the protocol of a mutex has an effect: resources are created on first use.
fn resources(value: &Json) -> Result<(BTreeMap<String, Protocol>, Vec<Warning>), NotATaskSet> {
    let mut all = Fields::new("resources", value)?;
    let (mut mutexes, mut warnings) = (BTreeMap::new(), Vec::new());
    for (name, value) in all.take_all(|_| true) {
        let mut fields = Fields::new(&format!("resources.{name}"), value)?;
        let kind = fields.text("type")?.unwrap_or_else(|| "mutex".to_owned());
        if fields.has("target") {
            fields.take("target")?;
            fields.warn("ignored-key", "\"target\": events name their resources");
        }
        if let Some(protocol) = fields.text("protocol")? {
            if kind != "mutex" {
                return Err(fields.error(format!("\"protocol\" belongs to a mutex, this is a {kind}")));
            }
            let all = [Protocol::None, Protocol::Inherit, Protocol::Ceiling];
            let known = all.into_iter().find(|one| one.name() == protocol);
            let known = known.or_else(|| (protocol == "srp").then_some(Protocol::Ceiling));
            let unknown = || {
                fields.error(format!(
                    "\"protocol\" must be none, inherit, ceiling or srp, found \"{protocol}\""
                ))
            };
            mutexes.insert(name.to_owned(), known.ok_or_else(unknown)?);
            fields.warn("extension", "\"protocol\": rt-app has one for all mutexes, pi_enabled");
        }
        warnings.extend(fields.finish()?);
    }
    warnings.extend(all.finish()?);
    Ok((mutexes, warnings))
}

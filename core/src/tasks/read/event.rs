//! Events: rt-app matches their keys by prefix (`runaway` is `run`); here only digits and underscores may follow.

use super::super::json::Json;
use super::super::set::{Event, MemRun, Timer};
use super::fields::Fields;
use super::NotATaskSet;
use crate::time::Ns;

/// Keys of events; `cputime` is an extension, `broadcast` rt-app's `broad` by its prefix rule.
const KEYS: [&str; 22] = [
    "lock",
    "unlock",
    "wait",
    "signal",
    "broad",
    "broadcast",
    "sync",
    "sleep",
    "runtime",
    "run",
    "cputime",
    "timer",
    "suspend",
    "resume",
    "memrun",
    "mem",
    "iorun",
    "yield",
    "barrier",
    "fork",
    "sem_post",
    "sem_wait",
];

/// The event of a key; `None`: not an event, and without the prefix of one.
pub(super) fn event_key(key: &str) -> Option<Result<&'static str, ()>> {
    let bare = key.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_');
    if let Some(known) = KEYS.iter().find(|known| **known == bare) {
        return Some(Ok(known));
    }
    // The order does not matter: any match is an error.
    KEYS.iter().any(|known| key.starts_with(known)).then_some(Err(()))
}

/// Reads one event of a phase.
pub(super) fn event(fields: &mut Fields, key: &str, known: &str, value: &Json) -> Result<Event, NotATaskSet> {
    let place = format!("{}.{key}", fields.place);
    Ok(match known {
        "run" => Event::Run(fields.time(key, value)?),
        "runtime" => Event::Runtime(fields.time(key, value)?),
        "cputime" => {
            let time = fields.time(key, value)?;
            fields.warn("extension", format!("\"{key}\": rt-app does not know cputime"));
            Event::CpuTime(time)
        }
        "sleep" => Event::Sleep(fields.time(key, value)?),
        "lock" => Event::Lock(name(&place, value)?),
        "unlock" => Event::Unlock(name(&place, value)?),
        "signal" => Event::Signal(name(&place, value)?),
        "broad" | "broadcast" => Event::Broadcast(name(&place, value)?),
        "barrier" => Event::Barrier(name(&place, value)?),
        "sem_post" => Event::SemPost(name(&place, value)?),
        "sem_wait" => Event::SemWait(name(&place, value)?),
        "suspend" if *value == Json::Null => {
            // workgen's form; rt-app resumes a thread by the name of its task.
            let own = fields.place.split('.').nth(1).unwrap_or_default().to_owned();
            fields
                .warn("workgen-syntax", "\"suspend\" without a value: it is resumed by the name of its task");
            Event::Suspend(own)
        }
        "suspend" => Event::Suspend(name(&place, value)?),
        "resume" => Event::Resume(name(&place, value)?),
        "fork" => Event::Fork(name(&place, value)?),
        "yield" => match value {
            Json::Text(_) | Json::Null => Event::Yield,
            _ => return Err(NotATaskSet::new(&place, "must be a string (\"\")")),
        },
        "mem" => Event::Mem(bytes(&place, value)?),
        "iorun" => Event::IoRun(bytes(&place, value)?),
        "memrun" => Event::MemRun(memrun(fields, &place, value)?),
        "timer" => timer(fields, &place, value)?,
        _ => condition(fields, &place, known, value)?,
    })
}

fn name(place: &str, value: &Json) -> Result<String, NotATaskSet> {
    match value {
        Json::Text(name) => Ok(name.clone()),
        other => Err(NotATaskSet::new(place, format!("must be a name, found {}", other.kind()))),
    }
}

fn bytes(place: &str, value: &Json) -> Result<u64, NotATaskSet> {
    match value {
        Json::Number(text) => text.parse().ok().filter(|bytes| *bytes <= 1 << 31),
        _ => None,
    }
    .ok_or_else(|| NotATaskSet::new(place, "must be a number of bytes up to 2147483648"))
}

/// Members of an event object; its warnings are added to the phase.
fn inside<T>(
    outer: &mut Fields,
    place: &str,
    value: &Json,
    read: impl FnOnce(&mut Fields) -> Result<T, NotATaskSet>,
) -> Result<T, NotATaskSet> {
    let mut fields = Fields::new(place, value)?;
    let read = read(&mut fields)?;
    outer.warnings.extend(fields.finish()?);
    Ok(read)
}

fn condition(outer: &mut Fields, place: &str, known: &str, value: &Json) -> Result<Event, NotATaskSet> {
    inside(outer, place, value, |fields| {
        let unknown = || "unknown".to_owned();
        let (condition, mutex) = (fields.text("ref")?, fields.text("mutex")?);
        if mutex.is_none() {
            fields.warn(
                "shared-default",
                "no \"mutex\": it is the one that all such events share, \"unknown\"",
            );
        }
        let (condition, mutex) = (condition.unwrap_or_else(unknown), mutex.unwrap_or_else(unknown));
        Ok(if known == "wait" { Event::Wait(condition, mutex) } else { Event::Sync(condition, mutex) })
    })
}

fn timer(outer: &mut Fields, place: &str, value: &Json) -> Result<Event, NotATaskSet> {
    inside(outer, place, value, |fields| {
        let reference = fields.text("ref")?;
        if reference.is_none() {
            fields.warn(
                "shared-default",
                "no \"ref\": it is the timer that all such events share, \"unknown\"",
            );
        }
        let reference = reference.unwrap_or_else(|| "unknown".to_owned());
        let period = fields.us("period")?.unwrap_or(Ns::ZERO);
        if period == Ns::ZERO {
            return Err(fields.error("\"period\" must be above 0: a timer without one never waits"));
        }
        let absolute = match fields.text("mode")?.as_deref() {
            None | Some("relative") => false,
            Some("absolute") => true,
            Some(other) => {
                return Err(fields.error(format!("\"mode\" must be relative or absolute, found {other}")))
            }
        };
        Ok(Event::Timer(Timer { reference, period, absolute }))
    })
}

fn memrun(outer: &mut Fields, place: &str, value: &Json) -> Result<MemRun, NotATaskSet> {
    inside(outer, place, value, |fields| {
        let kind = fields.text("type")?.unwrap_or_default();
        if !["read", "write", "chase"].contains(&kind.as_str()) {
            return Err(fields.error(format!("\"type\" must be read, write or chase, found \"{kind}\"")));
        }
        let size = fields.integer("size", 1..=1 << 31)?;
        let count = fields.integer("count", 0..=1 << 40)?;
        let (Some(size), Some(count)) = (size, count) else {
            return Err(fields.error("needs \"size\" and \"count\""));
        };
        let stride = fields.integer("stride", 8..=1 << 30)?.unwrap_or(64);
        let random = match fields.text("pattern")?.as_deref() {
            None | Some("random") => true,
            Some("sequential") => false,
            Some(other) => {
                return Err(fields.error(format!("\"pattern\" must be random or sequential, found {other}")))
            }
        };
        let reference = fields.text("ref")?;
        let whole = |number: i64| number.unsigned_abs();
        Ok(MemRun { kind, size: whole(size), count: whole(count), stride: whole(stride), random, reference })
    })
}

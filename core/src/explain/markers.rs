//! Markers: events that start and end an interval.
//!
//! `sys:600` is the entry of a system call, also of one that does not exist; `mark:TEXT` a text that contains TEXT,
//! written by `trace_marker` or `trace_printk`; `event:NAME[field==value]` any event of the trace, the value is
//! optional. Only events of possible classes are examined: the rest of the trace costs nothing.

use std::fmt;

use crate::trace::catalogue::{EventClass, FieldRef};
use crate::trace::event::{Event, Kind};
use crate::trace::item::Record;
use crate::trace::normalize::{is_text, Normalizer};
use crate::trace::source::Source;

/// An event that starts or ends an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Entry of the system call with this number.
    Syscall(i32),
    /// A text in the trace that contains this one.
    Text(String),
    /// An event by name (`sched_switch`, `sched:sched_switch`), with the value of a field if given.
    Event {
        /// The name.
        name: String,
        /// Field and value.
        filter: Option<(String, String)>,
    },
}

/// Not a marker.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a marker: write sys:600, mark:TEXT, event:NAME or event:NAME[field==value]")]
pub struct NotAMarker(String);

impl std::str::FromStr for Marker {
    type Err = NotAMarker;

    fn from_str(text: &str) -> Result<Marker, NotAMarker> {
        let wrong = || NotAMarker(text.to_owned());
        match text.split_once(':').filter(|(_, rest)| !rest.is_empty()) {
            Some(("sys", number)) => number.parse().map(Marker::Syscall).map_err(|_| wrong()),
            Some(("mark", text)) => Ok(Marker::Text(text.to_owned())),
            Some(("event", rest)) => match rest.split_once('[') {
                None => Ok(Marker::Event { name: rest.to_owned(), filter: None }),
                Some((name, filter)) => {
                    let (field, value) = filter
                        .strip_suffix(']')
                        .and_then(|filter| filter.split_once("=="))
                        .ok_or_else(wrong)?;
                    let value = value.trim().trim_matches('"').to_owned();
                    let filter = Some((field.trim().to_owned(), value));
                    Ok(Marker::Event { name: name.trim().to_owned(), filter }).and_then(
                        |marker| match &marker {
                            Marker::Event { name, .. } if name.is_empty() => Err(wrong()),
                            _ => Ok(marker),
                        },
                    )
                }
            },
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Marker::Syscall(number) => write!(f, "sys:{number}"),
            Marker::Text(text) => write!(f, "mark:{text}"),
            Marker::Event { name, filter: None } => write!(f, "event:{name}"),
            Marker::Event { name, filter: Some((field, value)) } => {
                write!(f, "event:{name}[{field}=={value}]")
            }
        }
    }
}

/// A marker prepared for one trace.
pub struct Matcher<'m> {
    marker: &'m Marker,
    /// By class: whether it may match, and the required fields.
    classes: Vec<Option<Fields>>,
}

/// Fields of a class that a marker or its key needs.
struct Fields {
    filter: Option<FieldRef>,
    key: Option<FieldRef>,
}

impl<'m> Matcher<'m> {
    /// Prepares `marker` for `source`; `key` is the field whose value pairs starts with ends.
    #[must_use]
    pub fn new(marker: &'m Marker, key: Option<&str>, source: &dyn Source) -> Matcher<'m> {
        let classes = source.catalogue().classes().iter().map(|class| fields(marker, key, class)).collect();
        Matcher { marker, classes }
    }

    /// Whether any class of the trace may match.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        self.classes.iter().any(Option::is_some)
    }

    /// Whether records of this class may match.
    #[must_use]
    #[inline]
    pub fn concerns(&self, class: u32) -> bool {
        matches!(self.classes.get(class as usize), Some(Some(_)))
    }

    /// Whether `record`, decoded as `event`, matches; then with the value of the key, if there is one.
    #[must_use]
    pub fn matches(
        &self,
        record: &Record<'_>,
        event: &Event,
        class: &EventClass,
        normalizer: &Normalizer<'_>,
    ) -> Option<Option<String>> {
        let fields = self.classes.get(record.class as usize)?.as_ref()?;
        let is = match (self.marker, event.kind) {
            (Marker::Syscall(number), Kind::SysEnter { id, .. }) => id == *number,
            (Marker::Text(text), Kind::Marker { text: found }) => {
                normalizer.strings().get(found).contains(text.as_str())
            }
            (Marker::Event { filter: Some((_, value)), .. }, _) => fields
                .filter
                .and_then(|field| class.value(field, record))
                .is_some_and(|found| found.matches(value)),
            (Marker::Event { filter: None, .. }, _) => true,
            _ => false,
        };
        is.then(|| {
            let value = fields.key.and_then(|field| class.value(field, record));
            value.map(|value| value.to_string())
        })
    }
}

fn fields(marker: &Marker, key: Option<&str>, class: &EventClass) -> Option<Fields> {
    let possible = match marker {
        Marker::Syscall(_) => {
            class.name == "sys_enter"
                || class.name.starts_with("syscall_entry_")
                || class.name.starts_with("sys_")
        }
        Marker::Text(_) => is_text(class),
        Marker::Event { name, .. } => *name == class.name || *name == class.full_name(),
    };
    let wanted = match marker {
        Marker::Event { filter: Some((field, _)), .. } => Some(field),
        _ => None,
    };
    let filter = wanted.and_then(|field| class.field(field));
    let possible = possible && filter.is_some() == wanted.is_some();
    possible.then(|| Fields { filter, key: key.and_then(|key| class.field(key)) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markers_read_as_they_are_written() {
        for text in ["sys:600", "mark:begin of load", "event:sched_switch", "event:rtapp:step[n==3]"] {
            assert_eq!(text.parse::<Marker>().unwrap().to_string(), text);
        }
        assert_eq!("event:x[ a == \"b c\" ]".parse::<Marker>().unwrap().to_string(), "event:x[a==b c]");
        for text in ["", "600", "sys:", "sys:x", "event:x[a=1]", "event:x[a==1", "event:[a==1]", "what:1"] {
            assert!(text.parse::<Marker>().is_err(), "{text}");
        }
    }
}

//! Events of the monitor itself that are needed to interpret the history.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::window::UnixMs;

/// Kinds of events; their names are stable in the database and in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The monitor started.
    Started,
    /// The monitor was stopped and closed its last window.
    Stopped,
    /// Windows that were never written: the current one when the monitor was killed, those that waited too long for
    /// disk space, or those truncated from the log.
    WindowLost,
    /// The wall clock was set.
    ClockStep,
    /// The machine was suspended.
    Suspend,
    /// CPUs went online or offline.
    CpusChanged,
    /// The monitor did not read activations in time: they are missing in the figures of tasks, not in those of CPUs.
    ActivationsLost,
    /// The database was damaged; it was renamed and a new one created.
    DatabaseDamaged,
    /// The database could not be written (a full disk); windows wait in memory.
    StoreFailed,
    /// The waiting windows were written.
    StoreRecovered,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 10] = [
        Kind::Started,
        Kind::Stopped,
        Kind::WindowLost,
        Kind::ClockStep,
        Kind::Suspend,
        Kind::CpusChanged,
        Kind::ActivationsLost,
        Kind::DatabaseDamaged,
        Kind::StoreFailed,
        Kind::StoreRecovered,
    ];

    /// The name in the database and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Started => "started",
            Kind::Stopped => "stopped",
            Kind::WindowLost => "window_lost",
            Kind::ClockStep => "clock_step",
            Kind::Suspend => "suspend",
            Kind::CpusChanged => "cpus_changed",
            Kind::ActivationsLost => "activations_lost",
            Kind::DatabaseDamaged => "database_damaged",
            Kind::StoreFailed => "store_failed",
            Kind::StoreRecovered => "store_recovered",
        }
    }

    /// The kind of this name; `None`: written by a newer version.
    #[must_use]
    pub fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Time.
    pub at: UnixMs,
    /// Kind.
    pub kind: Kind,
    /// Text, one line.
    pub detail: String,
}

impl Event {
    /// An event.
    #[must_use]
    pub fn new(at: UnixMs, kind: Kind, detail: impl Into<String>) -> Event {
        Event { at, kind, detail: detail.into() }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.at, self.kind.name(), self.detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_database_and_in_json_are_the_same_and_lead_back() {
        for kind in Kind::ALL {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(serde_json::to_string(&kind).unwrap(), format!("\"{}\"", kind.name()));
        }
        assert_eq!(Kind::named("invented_later"), None);
    }
}

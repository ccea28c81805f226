//! A closed window: the figures of each series in one span of wall-clock time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::comm::Comm;
use crate::histogram::Histogram;
use crate::peak::Peak;
use crate::printable::line;
use crate::series::Quantity;
use crate::time::{Cpu, Ns};

/// Milliseconds of the wall clock since 1970, UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMs(pub i64);

impl UnixMs {
    /// The next multiple of `length` after `self`: when the current window is closed.
    #[must_use]
    pub fn next_boundary(self, length: Ns) -> UnixMs {
        let length = i64::try_from(length.0 / 1_000_000).unwrap_or(i64::MAX).max(1);
        UnixMs((self.0.div_euclid(length) + 1).saturating_mul(length))
    }

    /// Later by `time`, in whole milliseconds.
    #[must_use]
    pub fn plus(self, time: Ns) -> UnixMs {
        UnixMs(self.0.saturating_add(i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX)))
    }

    /// Earlier by `time`, in whole milliseconds.
    #[must_use]
    pub fn minus(self, time: Ns) -> UnixMs {
        UnixMs(self.0.saturating_sub(i64::try_from(time.0 / 1_000_000).unwrap_or(i64::MAX)))
    }

    /// Seconds, for exporters.
    #[must_use]
    pub fn as_secs(self) -> f64 {
        self.0 as f64 / 1e3
    }
}

impl fmt::Display for UnixMs {
    /// RFC 3339 in UTC, with milliseconds if they are not 0 (civil date from days: Howard Hinnant, "chrono-Compatible
    /// Low-Level Date Algorithms").
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, of_day) = (self.0.div_euclid(86_400_000), self.0.rem_euclid(86_400_000));
        let z = days + 719_468;
        let era = z.div_euclid(146_097);
        let day_of_era = z.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted + 2) / 5 + 1;
        let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        let (seconds, ms) = (of_day / 1_000, of_day % 1_000);
        let (hour, minute, second) = (seconds / 3_600, seconds / 60 % 60, seconds % 60);
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if ms > 0 {
            text.push_str(&format!(".{ms:03}"));
        }
        f.pad(&(text + "Z"))
    }
}

/// Subject of a series: all tasks on a CPU, or all tasks of one name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whose {
    /// Every recorded task on this CPU.
    Cpu(Cpu),
    /// The tasks of this name, on any CPU: thread ids change with every restart, names do not.
    Task(Comm),
}

impl Whose {
    /// The CPU, if it is that of a CPU.
    #[must_use]
    pub fn cpu(self) -> Option<Cpu> {
        match self {
            Whose::Cpu(cpu) => Some(cpu),
            Whose::Task(_) => None,
        }
    }

    /// The name, if it is that of tasks.
    #[must_use]
    pub fn task(self) -> Option<Comm> {
        match self {
            Whose::Cpu(_) => None,
            Whose::Task(name) => Some(name),
        }
    }
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Whose::Cpu(cpu) => f.pad(&format!("CPU {cpu}")),
            Whose::Task(name) => f.pad(&line(&name.text())),
        }
    }
}

/// Key of a series: one quantity on one CPU or of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SeriesKey {
    /// The quantity.
    pub quantity: Quantity,
    /// Its subject.
    #[serde(flatten)]
    pub whose: Whose,
}

impl SeriesKey {
    /// Series of a CPU.
    #[must_use]
    pub fn of_cpu(quantity: Quantity, cpu: Cpu) -> SeriesKey {
        SeriesKey { quantity, whose: Whose::Cpu(cpu) }
    }

    /// Series of tasks of one name.
    #[must_use]
    pub fn of_task(quantity: Quantity, name: Comm) -> SeriesKey {
        SeriesKey { quantity, whose: Whose::Task(name) }
    }
}

impl fmt::Display for SeriesKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{} {}", self.quantity.name(), self.whose))
    }
}

/// Selection of series: `wakeup`, or `wakeup@1` for one CPU, or `wakeup@task:NAME` for one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    quantity: Quantity,
    whose: Option<Whose>,
}

impl Wanted {
    /// Whether it selects exactly `key`, not all of a quantity.
    #[must_use]
    pub fn names(&self, key: SeriesKey) -> bool {
        self.whose.is_some() && self.is(key)
    }

    /// Whether it selects `key`.
    #[must_use]
    pub fn is(&self, key: SeriesKey) -> bool {
        self.quantity == key.quantity && self.whose.is_none_or(|whose| whose == key.whose)
    }
}

/// The quantities that a monitor records (those with [`crate::series::Facts::monitor`]), in the order of judgement: for
/// a wake-up by a timer, latency counts from its expiry. `response` only for tasks with a deadline.
pub const QUANTITIES: [Quantity; 5] =
    [Quantity::TimerWakeup, Quantity::Wakeup, Quantity::Timer, Quantity::SharedPrio, Quantity::Response];

/// The quantity with this name, if a monitor records it.
#[must_use]
pub fn quantity(name: &str) -> Option<Quantity> {
    QUANTITIES.into_iter().find(|quantity| quantity.name() == name)
}

impl FromStr for Wanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Wanted, String> {
        let (name, whose) = match text.split_once('@') {
            Some((name, whose)) => (name, Some(whose)),
            None => (text, None),
        };
        let quantity = quantity(name).ok_or_else(|| {
            let names = QUANTITIES.map(Quantity::name).join(", ");
            format!("'{name}' is not a series; there are {names}, each also of one CPU (wakeup@1) or task (wakeup@task:NAME)")
        })?;
        let whose = whose.map(|whose| match (whose.strip_prefix("task:"), whose.parse()) {
            (Some(""), _) => Err("'task:' lacks the name of a task".to_owned()),
            (Some(name), _) => Ok(Whose::Task(Comm::cut(name))),
            (None, Ok(cpu)) => Ok(Whose::Cpu(Cpu(cpu))),
            (None, Err(_)) => Err(format!("'{whose}' is neither a CPU number nor task:NAME")),
        });
        Ok(Wanted { quantity, whose: whose.transpose()? })
    }
}

/// One series in one window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowSeries {
    /// The series.
    pub key: SeriesKey,
    /// All samples of the window; for a task, those of activations that ended in it; the maximum is exact.
    pub histogram: Histogram,
    /// Known number of lost wake-ups.
    pub lost: u64,
    /// The largest sample with victim and culprit; `None`: only its size is known.
    pub peak: Option<Peak>,
    /// Its time.
    pub peak_at: Option<UnixMs>,
    /// Deadline and misses; only for `response`.
    pub held: Option<Held>,
}

/// Deadline and misses of the jobs of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The deadline; the shortest if threads of one name have several.
    pub deadline: Ns,
    /// Jobs that missed their deadline.
    pub misses: u64,
}

impl Held {
    /// The combination of both.
    #[must_use]
    pub fn and(self, other: Held) -> Held {
        Held { deadline: self.deadline.min(other.deadline), misses: self.misses.saturating_add(other.misses) }
    }
}

/// A closed window.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Its start.
    pub begin: UnixMs,
    /// Its end.
    pub end: UnixMs,
    /// Measured time, on CLOCK_MONOTONIC, which is never set and stops during suspend.
    pub measured: Ns,
    /// Whether it is from one boundary to the next, without a clock step: incomplete windows are kept and marked.
    pub whole: bool,
    /// The series with samples or losses.
    pub series: Vec<WindowSeries>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_end_on_multiples_of_their_length() {
        let five = Ns(300_000_000_000);
        assert_eq!(UnixMs(0).next_boundary(five), UnixMs(300_000));
        assert_eq!(UnixMs(299_999).next_boundary(five), UnixMs(300_000));
        assert_eq!(UnixMs(300_000).next_boundary(five), UnixMs(600_000));
        assert_eq!(UnixMs(-1).next_boundary(five), UnixMs(0));
    }

    #[test]
    fn times_read_as_rfc_3339() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_826_154_250, "2000-02-29T12:09:14.250Z"),
            (1_795_348_054_000, "2026-11-22T11:47:34Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(UnixMs(ms).to_string(), text);
        }
    }

    #[test]
    fn every_quantity_of_a_monitor_has_the_help_of_its_graph() {
        assert!(QUANTITIES.into_iter().all(|quantity| quantity.facts().monitor.is_some()));
    }

    #[test]
    fn series_are_chosen_by_name_and_cpu() {
        let key = |quantity, cpu| SeriesKey::of_cpu(quantity, Cpu(cpu));
        let task = |name| SeriesKey::of_task(Quantity::Wakeup, Comm::cut(name));
        let all: Wanted = "timer+wakeup".parse().unwrap();
        assert!(all.is(key(Quantity::TimerWakeup, 7)) && !all.is(key(Quantity::Wakeup, 7)));
        let one: Wanted = "wakeup@1".parse().unwrap();
        assert!(one.is(key(Quantity::Wakeup, 1)) && !one.is(key(Quantity::Wakeup, 0)));
        assert!(!one.is(task("1")), "a task may be called like a CPU");
        let motion: Wanted = "wakeup@task:motion".parse().unwrap();
        assert!(
            motion.is(task("motion")) && !motion.is(task("other")) && !motion.is(key(Quantity::Wakeup, 1))
        );
        for bad in ["", "irqsoff", "wakeup@", "wakeup@x", "@1", "wakeup@task:"] {
            assert!(bad.parse::<Wanted>().is_err(), "{bad}");
        }
    }
}

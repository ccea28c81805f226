//! What a rule is: data, and a small vocabulary of expectations for the tables in `rules/`.

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// One requirement on a machine configured for real time.
///
/// Adding one is adding an entry to a table in `rules/`: everything it names in `facts` is then collected, stored in
/// snapshots and shown automatically.
#[derive(Debug)]
pub struct Rule {
    /// Short, stable name for scripts.
    pub id: &'static str,
    /// What is checked, in a few words.
    pub title: &'static str,
    /// Facts needed (see [`super::snapshot`] for their names; `*` within a name).
    pub facts: &'static [&'static str],
    /// What is good.
    pub expect: Expect,
    /// Severity of a violation.
    pub severity: Severity,
    /// Effect of a violation on latency.
    pub why: &'static str,
    /// Fixes, in order of preference.
    pub fix: &'static [Fix],
    /// Source of the rule.
    pub source: &'static str,
    /// Profiles for which a violation is a finding; for others it is only reported. Empty: all.
    pub profiles: &'static [Profile],
}

/// Severity, on the scale of Documentation/core-api/real-time in the kernel tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Context for a result.
    Info,
    /// Occasional or small latencies.
    Medium,
    /// Latencies far beyond what the hardware needs.
    High,
    /// No bounded latency at all, or no measurement.
    Fatal,
}

/// The use of the machine, which decides which deviations matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Threads that wake up by a timer or an interrupt, work and sleep again (control).
    Periodic,
    /// Threads that busy-poll on a CPU of their own (packet processing, trading).
    BusyPoll,
    /// Audio: many threads, periods of a few milliseconds, on a desktop system.
    Audio,
    /// Low-latency network services.
    Network,
}

/// What is expected of the facts. The simple forms are data alone; `Judge` is for the rest.
#[derive(Debug)]
pub enum Expect {
    /// Every file that matches `path` has one of these values; `absent` is why it is good if there is none (empty:
    /// unknown).
    OneOf {
        /// Name pattern (`*`).
        path: &'static str,
        /// Good values.
        values: &'static [&'static str],
        /// Why absence is good.
        absent: &'static str,
    },
    /// Every file has a number in this range.
    Within {
        /// Name pattern (`*`).
        path: &'static str,
        /// Smallest good number.
        min: i64,
        /// Largest good number.
        max: i64,
        /// Why absence is good.
        absent: &'static str,
    },
    /// These build options are not set (`n` or absent in a configuration that could be read).
    NotBuilt(&'static [&'static str]),
    /// Not judged: the content is shown.
    Report {
        /// Name pattern (`*`).
        path: &'static str,
        /// Text if there is none (empty: unknown).
        absent: &'static str,
    },
    /// Not judged: shows the result of a function of the facts.
    Show(fn(&Facts) -> Result<String, Missing>),
    /// A function of the facts.
    Judge(fn(&Facts) -> Judged),
}

impl Expect {
    /// Whether the rule only shows a value that depends on the workload; no machine fails it.
    #[must_use]
    pub fn only_shows(&self) -> bool {
        matches!(self, Expect::Report { .. } | Expect::Show(_))
    }
}

/// A fix. Texts may contain `{cpus}`, `{housekeeping}` and `{housekeeping_mask}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A shell command that works at once and lasts until the next boot.
    Run(&'static str),
    /// Parameters for the kernel's command line.
    Boot(&'static str),
    /// Lines for the kernel's configuration.
    Build(&'static str),
    /// A manual step.
    Do(&'static str),
}

/// A judgement; the error is "cannot be judged", so that `?` propagates the reason of a missing fact.
pub type Judged = Result<Answer, Missing>;

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// Good, bad or neither.
    pub outcome: Outcome,
    /// What was found, in words.
    pub found: String,
}

/// The result of a rule on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As it should be.
    Good,
    /// Not as it should be.
    Bad,
    /// Depends on the workload: shown, not judged.
    Reported,
    /// Not applicable to this machine.
    DoesNotApply,
    /// A fact could not be read.
    Unknown,
}

/// Why a rule cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Why the fact is unknown.
    Unknown(String),
    /// Path of the file that does not exist. The fact is unknown unless the rule defines what its absence means.
    Absent(String),
    /// Why the rule does not apply to this machine.
    DoesNotApply(String),
}

impl Answer {
    /// As it should be.
    pub fn good(found: impl Into<String>) -> Judged {
        Ok(Answer { outcome: Outcome::Good, found: found.into() })
    }

    /// Not as it should be.
    pub fn bad(found: impl Into<String>) -> Judged {
        Ok(Answer { outcome: Outcome::Bad, found: found.into() })
    }

    /// Good or bad.
    pub fn is(good: bool, found: impl Into<String>) -> Judged {
        if good {
            Answer::good(found)
        } else {
            Answer::bad(found)
        }
    }

    /// Shown, not judged.
    pub fn reported(found: impl Into<String>) -> Judged {
        Ok(Answer { outcome: Outcome::Reported, found: found.into() })
    }
}

impl Missing {
    /// The rule does not apply to this machine.
    pub fn not_here<T>(reason: impl Into<String>) -> Result<T, Missing> {
        Err(Missing::DoesNotApply(reason.into()))
    }

    /// Unknown although all facts are available.
    pub fn unknown<T>(reason: impl Into<String>) -> Result<T, Missing> {
        Err(Missing::Unknown(reason.into()))
    }
}

impl Severity {
    /// All, worst first.
    pub const ALL: [Severity; 4] = [Severity::Fatal, Severity::High, Severity::Medium, Severity::Info];

    /// As in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Severity::Fatal => "fatal",
            Severity::High => "high",
            Severity::Medium => "medium",
            Severity::Info => "info",
        }
    }
}

impl Profile {
    /// All of them.
    pub const ALL: [Profile; 4] = [Profile::Periodic, Profile::BusyPoll, Profile::Audio, Profile::Network];

    /// As in JSON and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Profile::Periodic => "periodic",
            Profile::BusyPoll => "busy-poll",
            Profile::Audio => "audio",
            Profile::Network => "network",
        }
    }
}

impl std::str::FromStr for Severity {
    type Err = String;

    fn from_str(text: &str) -> Result<Severity, String> {
        let found = Severity::ALL.into_iter().find(|severity| severity.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a severity; write fatal, high, medium or info"))
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("'{text}' is not a profile; write periodic, busy-poll, audio or network"))
    }
}

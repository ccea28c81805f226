//! What a rule is: data, and a small vocabulary of expectations for the tables in `rules/`.

use serde::{Deserialize, Serialize};

use super::facts::Facts;

/// One statement about a machine that is set up for real time.
///
/// Adding one is adding an entry to a table in `rules/`: whatever it names in `facts` is then gathered, snapshotted
/// and shown by itself.
#[derive(Debug)]
pub struct Rule {
    /// Short name for scripts, stable for ever.
    pub id: &'static str,
    /// What is looked at, in a few words.
    pub title: &'static str,
    /// Facts needed (see [`super::snapshot`] for their names; `*` within a name).
    pub facts: &'static [&'static str],
    /// What is good.
    pub expect: Expect,
    /// How bad the contrary is.
    pub severity: Severity,
    /// What the contrary does to latency.
    pub why: &'static str,
    /// What to do about it, in order of preference.
    pub fix: &'static [Fix],
    /// Where the rule comes from.
    pub source: &'static str,
    /// Uses of the machine for which the contrary is a finding; elsewhere it is only reported. Empty: all.
    pub profiles: &'static [Profile],
}

/// How bad: the scale of Documentation/core-api/real-time in the kernel tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Worth knowing beside a result.
    Info,
    /// Occasional or small latencies.
    Medium,
    /// Latencies far beyond what the hardware needs.
    High,
    /// No bounded latency at all, or no measurement.
    Fatal,
}

/// What the machine is for: it decides which deviations matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Threads that wake up by a timer or an interrupt, work and sleep again (control).
    Periodic,
    /// Threads that never sleep and own their CPU (packet processing, trading).
    BusyPoll,
    /// Sound: many threads, a few milliseconds, a desktop beside it.
    Audio,
    /// Answering the network fast.
    Network,
}

/// What is expected of the facts. The simple forms are data alone; `Judge` is for the rest.
#[derive(Debug)]
pub enum Expect {
    /// Every file that `path` matches holds one of these texts; `absent` says why it is fine when there is none
    /// (empty: then it is unknown).
    OneOf {
        /// Name with stars.
        path: &'static str,
        /// Good texts.
        values: &'static [&'static str],
        /// Why absence is fine.
        absent: &'static str,
    },
    /// Every file holds a number in this range.
    Within {
        /// Name with stars.
        path: &'static str,
        /// Smallest good number.
        min: i64,
        /// Largest good number.
        max: i64,
        /// Why absence is fine.
        absent: &'static str,
    },
    /// These build options are not set (`n` or absent in a configuration that could be read).
    NotBuilt(&'static [&'static str]),
    /// Nothing is good or bad: the content is shown.
    Report {
        /// Name with stars.
        path: &'static str,
        /// What to say when there is none (empty: unknown).
        absent: &'static str,
    },
    /// Nothing is good or bad: what a function of the facts says is shown.
    Show(fn(&Facts) -> Result<String, Missing>),
    /// A function of the facts.
    Judge(fn(&Facts) -> Judged),
}

impl Expect {
    /// Whether something is only shown: it depends on what the machine is for, and no machine fails.
    #[must_use]
    pub fn only_shows(&self) -> bool {
        matches!(self, Expect::Report { .. } | Expect::Show(_))
    }
}

/// What to do. Texts may hold `{cpus}`, `{housekeeping}` and `{housekeeping_mask}`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// A shell command that works at once and lasts until the next boot.
    Run(&'static str),
    /// Parameters for the kernel's command line.
    Boot(&'static str),
    /// Lines for the kernel's configuration.
    Build(&'static str),
    /// Something only a person can do.
    Do(&'static str),
}

/// A judgement; the error is "cannot be judged", so that `?` passes on why a fact is missing.
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
    /// Concerns something this machine does not have.
    DoesNotApply,
    /// A fact could not be read.
    Unknown,
}

/// Why a rule cannot be judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// The fact is not known, and why.
    Unknown(String),
    /// The rule does not concern this machine, and why.
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
    /// The rule does not concern this machine.
    pub fn not_here<T>(reason: impl Into<String>) -> Result<T, Missing> {
        Err(Missing::DoesNotApply(reason.into()))
    }

    /// Cannot be known, although all facts are there.
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
        found.ok_or_else(|| format!("'{text}' is no severity; write fatal, high, medium or info"))
    }
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Profile, String> {
        let found = Profile::ALL.into_iter().find(|profile| profile.name() == text);
        found.ok_or_else(|| format!("'{text}' is no profile; write periodic, busy-poll, audio or network"))
    }
}

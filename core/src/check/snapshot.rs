//! A snapshot of a machine: the small files of `/proc` and `/sys` that the rules read, in one JSON file.
//!
//! Rules see nothing else, so that a remote machine can be checked, and rules can be tested without a machine. A fact
//! has one of three states: its text, *absent*, or *unreadable* with the reason.
//!
//! Names of facts: `/proc/…` and `/sys/…` are files; `…/` with a trailing slash is a directory, one name per line; a
//! link to a directory is the text of the link. `@name` is a fact that is not in a file; `host::facts::snapshot` lists
//! them. `CONFIG_NAME` is a build option of the kernel.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::printable;

/// Value of `format` in every snapshot.
pub const FORMAT: &str = "lathunt-snapshot";
/// The only version that this code reads and writes.
pub const VERSION: u32 = 1;
/// Maximum number of facts of one kind; a machine with 10,000 threads has some 30,000 files.
const MOST_FACTS: usize = 1 << 18;

/// The facts of one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// Wall-clock time of the reading, RFC 3339.
    #[serde(default)]
    pub taken: Option<String>,
    /// Origin: the running system, a tree, or only a kernel configuration.
    pub of: Origin,
    /// Texts by name, trimmed.
    #[serde(default, deserialize_with = "facts")]
    pub files: BTreeMap<String, String>,
    /// Files that exist but could not be read, with the reason.
    #[serde(default, deserialize_with = "facts")]
    pub unreadable: BTreeMap<String, String>,
    /// The counters among `files`, read again `later_s` seconds later.
    #[serde(default, deserialize_with = "facts")]
    pub later: BTreeMap<String, String>,
    /// Seconds between `files` and `later`; `None`: counters were read once.
    #[serde(default)]
    pub later_s: Option<f64>,
    /// Build options of the kernel, `y`, `m`, `n`, a number or a text; `None`: no configuration could be read.
    #[serde(default, deserialize_with = "options")]
    pub config: Option<BTreeMap<String, String>>,
    /// `config` is a part of a configuration, a fragment or a defconfig: missing options have their default.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub config_is_partial: bool,
}

/// Origin of the facts, which decides what an absent file means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// The running system.
    Live,
    /// A copy of another system's files.
    Tree,
    /// Nothing but a kernel configuration.
    Kconfig,
}

/// What every snapshot has, of any version.
#[derive(Deserialize)]
struct Head {
    #[serde(default = "none")]
    format: String,
    #[serde(default)]
    version: u64,
}

fn none() -> String {
    "none".to_owned()
}

/// Facts of one kind, [`MOST_FACTS`] at most.
fn facts<'de, D: Deserializer<'de>>(from: D) -> Result<BTreeMap<String, String>, D::Error> {
    struct Facts;
    impl<'de> Visitor<'de> for Facts {
        type Value = BTreeMap<String, String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(formatter, "at most {MOST_FACTS} texts by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
            let mut facts = BTreeMap::new();
            while let Some((name, text)) = from.next_entry()? {
                if facts.len() == MOST_FACTS {
                    return Err(A::Error::custom(format!("more than {MOST_FACTS} facts of one kind")));
                }
                facts.insert(name, text);
            }
            Ok(facts)
        }
    }
    from.deserialize_map(Facts)
}

/// The same where there may be none.
fn options<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    #[derive(Deserialize)]
    struct Options(#[serde(deserialize_with = "facts")] BTreeMap<String, String>);
    Ok(Option::<Options>::deserialize(from)?.map(|options| options.0))
}

/// Text that is not a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NotASnapshot {
    /// Damaged, or another file.
    #[error("not a snapshot of `lathunt check --snapshot` (a kernel configuration goes with --kconfig)")]
    Json(#[from] serde_json::Error),
    /// JSON of something else.
    #[error("not a snapshot of `lathunt check --snapshot`: its format is '{0}'")]
    Format(String),
    /// Written by another version of lathunt.
    #[error("a snapshot of version {0}, and this lathunt reads version {VERSION} only; take it anew")]
    Version(u64),
}

impl Snapshot {
    /// Nothing known yet.
    #[must_use]
    pub fn empty(of: Origin) -> Snapshot {
        Snapshot {
            format: FORMAT.to_owned(),
            version: VERSION,
            taken: None,
            of,
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            later: BTreeMap::new(),
            later_s: None,
            config: None,
            config_is_partial: false,
        }
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &str) -> Result<Snapshot, NotASnapshot> {
        // Not as serde_json::Value: of a text of other contents, it takes 16 times the memory.
        let head: Head = serde_json::from_str(text)?;
        if head.format != FORMAT {
            return Err(NotASnapshot::Format(head.format));
        }
        if head.version != u64::from(VERSION) {
            return Err(NotASnapshot::Version(head.version));
        }
        Ok(serde_json::from_str(text)?)
    }

    /// The JSON form, one fact a line.
    #[must_use]
    pub fn to_json(&self) -> String {
        printable::json(serde_json::to_string_pretty(self).unwrap_or_default()) // maps of texts always serialize
    }
}

/// Whether `path` matches `pattern`, in which `*` is any characters except `/`.
#[must_use]
pub fn matches(pattern: &str, path: &str) -> bool {
    let (mut parts, mut names) = (pattern.split('/'), path.split('/'));
    loop {
        match (parts.next(), names.next()) {
            (None, None) => return true,
            (Some(part), Some(name)) if component(part, name) => {}
            _ => return false,
        }
    }
}

/// One path component against one with stars.
#[must_use]
pub fn component(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(tail) = name.strip_prefix(head) else { return false };
    (0..=tail.len()).filter(|&at| tail.is_char_boundary(at)).any(|at| component(rest, &tail[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_characters_of_one_name() {
        assert!(matches("/sys/cpu*/cpufreq/scaling_governor", "/sys/cpu12/cpufreq/scaling_governor"));
        assert!(matches("/proc/*/task/*/stat", "/proc/1/task/22/stat"));
        assert!(matches("/a/*_count", "/a/core_throttle_count"));
        for no in [
            "/sys/cpu1/x/cpufreq/scaling_governor",
            "/sys/cpu1/cpufreq",
            "/sys/gpu1/cpufreq/scaling_governor",
        ] {
            assert!(!matches("/sys/cpu*/cpufreq/scaling_governor", no), "{no}");
        }
    }

    #[test]
    fn a_snapshot_survives_a_round_trip_and_other_files_are_refused_by_name() {
        let mut snapshot = Snapshot::empty(Origin::Tree);
        snapshot.files.insert("/proc/cmdline".to_owned(), "quiet \"x\"\n\u{1}".to_owned());
        snapshot.unreadable.insert("/x".to_owned(), "EPERM".to_owned());
        assert_eq!(Snapshot::from_json(&snapshot.to_json()).unwrap(), snapshot);
        for (bad, says) in [
            ("", "--kconfig): EOF"),
            ("{}", "format is 'none'"),
            (r#"{"format":"lathunt-run","version":1}"#, "lathunt-run"),
            (r#"{"format":"lathunt-snapshot","version":7}"#, "version 7"),
            (r#"{"format":"lathunt-snapshot","version":1,"of":"moon"}"#, "moon"),
        ] {
            let error = Snapshot::from_json(bad).unwrap_err();
            let whole = match std::error::Error::source(&error) {
                Some(why) => format!("{error}: {why}"),
                None => error.to_string(),
            };
            assert!(whole.contains(says), "{bad}: {whole}");
        }
    }
}

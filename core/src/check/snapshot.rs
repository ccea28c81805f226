//! A snapshot of a machine: the small files of `/proc` and `/sys` that the rules read, in one JSON file.
//!
//! Rules see nothing else, so that a remote machine can be checked, and rules can be tested without a machine. A fact
//! has one of three states: its text, *absent*, or *unreadable* with the reason.
//!
//! Names of facts: `/proc/…` and `/sys/…` are files; `…/` with a trailing slash is a directory, one name per line; a
//! link to a directory is the text of the link. `@name` is a fact that is not in a file; `host::facts::snapshot` lists
//! them. `CONFIG_NAME` is a build option of the kernel.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Value of `format` in every snapshot.
pub const FORMAT: &str = "lathunt-snapshot";
/// The only version that this code reads and writes.
pub const VERSION: u32 = 1;

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
    #[serde(default)]
    pub files: BTreeMap<String, String>,
    /// Files that exist but could not be read, with the reason.
    #[serde(default)]
    pub unreadable: BTreeMap<String, String>,
    /// The counters among `files`, read again `later_s` seconds later.
    #[serde(default)]
    pub later: BTreeMap<String, String>,
    /// Seconds between `files` and `later`; `None`: counters were read once.
    #[serde(default)]
    pub later_s: Option<f64>,
    /// Build options of the kernel, `y`, `m`, `n`, a number or a text; `None`: no configuration could be read.
    #[serde(default)]
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
    Version(u32),
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

    /// A machine of which only the kernel configuration is known (`.config`, `/boot/config-*`). `None` if the text has
    /// no build option.
    #[must_use]
    pub fn of_kconfig(text: &str) -> Option<Snapshot> {
        let config = kconfig(text);
        if config.is_empty() {
            return None;
        }
        let config_is_partial = !is_whole(text, &config);
        let config = Some(config);
        let mut snapshot = Snapshot { config, config_is_partial, ..Snapshot::empty(Origin::Kconfig) };
        // Kconfig writes the header "# Linux/x86 6.1.192 Kernel Configuration".
        let named = text
            .lines()
            .take(10)
            .find_map(|line| line.strip_prefix("# Linux/")?.strip_suffix("Kernel Configuration"));
        if let Some(release) = named.and_then(|rest| rest.split_ascii_whitespace().nth(1)) {
            snapshot.files.insert("/proc/sys/kernel/osrelease".to_owned(), release.to_owned());
        }
        Some(snapshot)
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// When it is something else.
    pub fn from_json(text: &str) -> Result<Snapshot, NotASnapshot> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        let format = value.get("format").and_then(|format| format.as_str()).unwrap_or("none");
        if format != FORMAT {
            return Err(NotASnapshot::Format(format.to_owned()));
        }
        let version = value.get("version").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if version != u64::from(VERSION) {
            return Err(NotASnapshot::Version(version as u32));
        }
        Ok(serde_json::from_value(value)?)
    }

    /// The JSON form, one fact a line.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() // maps of texts always serialize
    }
}

/// Whether the configuration is complete. Kconfig writes a header and also options without a prompt, which neither a
/// fragment nor a defconfig contains (`make savedefconfig` omits them).
fn is_whole(text: &str, config: &BTreeMap<String, String>) -> bool {
    let heads = |line: &str| {
        line.contains("Automatically generated file")
            || line.starts_with("# Linux/") && line.ends_with("Kernel Configuration")
    };
    let is_headed = text.lines().take(10).any(heads);
    let unchosen = config.keys().filter(|name| name.starts_with("HAVE_") || name.starts_with("ARCH_HAS_"));
    is_headed || config.contains_key("CC_VERSION_TEXT") || unchosen.count() >= 10
}

/// Options of a kernel configuration by name without `CONFIG_`; those "not set" are `n`.
#[must_use]
pub fn kconfig(text: &str) -> BTreeMap<String, String> {
    let option = |line: &str| {
        if let Some(name) = line.strip_prefix("# CONFIG_").and_then(|line| line.strip_suffix(" is not set")) {
            return Some((name.to_owned(), "n".to_owned()));
        }
        let (name, value) = line.strip_prefix("CONFIG_")?.split_once('=')?;
        Some((name.to_owned(), value.trim_matches('"').to_owned()))
    };
    text.lines().filter_map(|line| option(line.trim())).collect()
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

    #[test]
    fn a_configuration_knows_what_is_set_what_is_not_and_texts() {
        let config = kconfig(
            "# comment\nCONFIG_PREEMPT_RT=y\n# CONFIG_KASAN is not set\nCONFIG_HZ=250\nCONFIG_X=\"a b\"\n",
        );
        assert_eq!(config["PREEMPT_RT"], "y");
        assert_eq!(config["KASAN"], "n");
        assert_eq!(config["X"], "a b");
        assert_eq!(config.len(), 4);
        assert_eq!(Snapshot::of_kconfig("just a text"), None);
    }
}

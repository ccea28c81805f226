//! Typed access to facts for rules: a text, a number, a build option, or the reason why it is missing.

use std::collections::BTreeMap;

use crate::cpuset::CpuSet;
use crate::time::Cpu;

use super::patches::series;
use super::rule::{Missing, Profile};
use super::snapshot::{matches, Origin, Snapshot};

/// A snapshot with the parameters of the check.
#[derive(Debug)]
pub struct Facts<'a> {
    snapshot: &'a Snapshot,
    /// What the machine is for.
    pub profile: Profile,
    /// CPUs of the real-time workload.
    pub cpus: CpuSet,
    /// Online CPUs; empty when unknown.
    pub online: CpuSet,
}

/// The value, or why it is missing.
pub type Known<T> = Result<T, Missing>;

impl<'a> Facts<'a> {
    /// `cpus`: those of the real-time workload; `None`: the isolated ones, else all.
    #[must_use]
    pub fn new(snapshot: &'a Snapshot, profile: Profile, cpus: Option<&CpuSet>) -> Facts<'a> {
        let list = |path: &str| snapshot.files.get(path).and_then(|text| text.parse::<CpuSet>().ok());
        let online = list("/sys/devices/system/cpu/online").unwrap_or_default();
        let isolated = list("/sys/devices/system/cpu/isolated").filter(|cpus| !cpus.is_empty());
        let cpus = cpus.cloned().or(isolated).unwrap_or_else(|| online.clone());
        Facts { snapshot, profile, cpus, online }
    }

    /// Origin of the facts.
    #[must_use]
    pub fn of(&self) -> Origin {
        self.snapshot.of
    }

    /// The text of one file.
    pub fn text(&self, path: &str) -> Known<&'a str> {
        let text = self.snapshot.files.get(path).map(String::as_str);
        text.or_else(|| self.of_version(path)).ok_or_else(|| self.why_not(path))
    }

    /// Whether the kernel is older than `version`; not one of unknown version.
    #[must_use]
    pub fn is_older_than(&self, version: (u32, u32)) -> bool {
        let release = self.text("/proc/sys/kernel/osrelease").ok();
        release.and_then(series).is_some_and(|found| found < version)
    }

    /// Release and build of the kernel from `/proc/version`, if their own files are missing.
    fn of_version(&self, path: &str) -> Option<&'a str> {
        let version = || self.snapshot.files.get("/proc/version");
        match path {
            "/proc/sys/kernel/osrelease" => version()?.split_ascii_whitespace().nth(2),
            "/proc/sys/kernel/version" => version()?.rfind(" #").and_then(|at| version()?.get(at + 1..)),
            _ => None,
        }
    }

    /// Whether a missing file is also missing on the machine. Without the list of CPUs, the facts are from a partial
    /// copy or a kernel configuration alone.
    #[must_use]
    pub fn absence_means_something(&self) -> bool {
        !self.online.is_empty() && self.snapshot.of != Origin::Kconfig
    }

    /// The text of one file; absent is `None`, unreadable is unknown.
    pub fn maybe(&self, path: &str) -> Known<Option<&'a str>> {
        match (self.snapshot.files.get(path), self.snapshot.unreadable.get(path)) {
            (Some(text), _) => Ok(Some(text)),
            (None, Some(_)) => Err(self.why_not(path)),
            (None, None) if !self.absence_means_something() => Err(self.why_not(path)),
            (None, None) => Ok(None),
        }
    }

    /// The number in one file.
    pub fn number(&self, path: &str) -> Known<i64> {
        number(path, self.text(path)?)
    }

    /// All files that match the pattern, by name.
    #[must_use]
    pub fn all(&self, pattern: &str) -> Vec<(&'a str, &'a str)> {
        if !pattern.contains('*') {
            return self
                .snapshot
                .files
                .get_key_value(pattern)
                .map(|(p, t)| (p.as_str(), t.as_str()))
                .into_iter()
                .collect();
        }
        let head = &pattern[..pattern.find('*').unwrap_or(0)];
        let from =
            self.snapshot.files.range(head.to_owned()..).take_while(|(path, _)| path.starts_with(head));
        from.filter(|(path, _)| matches(pattern, path))
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect()
    }

    /// The same; no match is "unknown" with the reason.
    pub fn some(&self, pattern: &str) -> Known<Vec<(&'a str, &'a str)>> {
        let all = self.all(pattern);
        if all.is_empty() {
            Err(self.why_not(pattern))
        } else {
            Ok(all)
        }
    }

    /// A file of each CPU of the real-time workload (`{}` is its number).
    pub fn of_cpus(&self, path: &str) -> Known<Vec<(Cpu, &'a str)>> {
        let found: Vec<(Cpu, &str)> = self
            .cpus
            .iter()
            .filter_map(|cpu| Some((cpu, self.text(&path.replace("{}", &cpu.to_string())).ok()?)))
            .collect();
        if found.is_empty() {
            Err(self.why_not(&path.replace("{}", "*")))
        } else {
            Ok(found)
        }
    }

    /// A counter file at the start and at the end of the observation.
    pub fn twice(&self, path: &str) -> Known<(&'a str, &'a str)> {
        let before = self.text(path)?;
        match self.snapshot.later.get(path) {
            Some(after) => Ok((before, after)),
            None => Err(Missing::Unknown(format!("{path} was read only once"))),
        }
    }

    /// Seconds between the two readings of counters.
    #[must_use]
    pub fn watched_s(&self) -> Option<f64> {
        self.snapshot.later_s
    }

    /// Whether the configuration is a fragment or a defconfig.
    #[must_use]
    pub fn config_is_partial(&self) -> bool {
        self.snapshot.config_is_partial
    }

    /// A build option: `y`, `m`, `n` or its value.
    pub fn config(&self, option: &str) -> Known<&'a str> {
        let config = self.snapshot.config.as_ref().ok_or_else(|| {
            Missing::Unknown(
                "no kernel configuration (/proc/config.gz, /boot/config-…) is readable".to_owned(),
            )
        })?;
        match config.get(option) {
            Some(value) => Ok(value),
            None if self.snapshot.config_is_partial => Err(Missing::Unknown(format!(
                "CONFIG_{option} is not set in this part of a configuration: its default applies"
            ))),
            None => Err(Missing::Unknown(format!(
                "CONFIG_{option} is not in this snapshot, which an older lathunt took"
            ))),
        }
    }

    /// Value of a boot parameter: the last one given; `""` if it has no value. The kernel treats `-` in a name as `_`
    /// (kernel/params.c).
    pub fn boot(&self, name: &str) -> Known<Option<&'a str>> {
        let is_it = |(word, _): &(&str, &str)| word.replace('-', "_") == name;
        Ok(self.boot_words()?.into_iter().rev().find(is_it).map(|(_, value)| value))
    }

    /// Boot parameters in order, up to `--`.
    pub fn boot_words(&self) -> Known<Vec<(&'a str, &'a str)>> {
        let line = self.text("/proc/cmdline")?;
        let words = line.split_ascii_whitespace().take_while(|&word| word != "--");
        Ok(words.map(|word| word.split_once('=').unwrap_or((word, ""))).collect())
    }

    /// A CPU list in a file.
    pub fn cpu_list(&self, path: &str) -> Known<CpuSet> {
        let text = self.text(path)?;
        // The kernel prints "(null)" for an empty list in some versions.
        let text = if text == "(null)" { "" } else { text };
        text.parse()
            .map_err(|_| Missing::Unknown(format!("{path} contains '{text}', which is not a CPU list")))
    }

    /// CPUs for everything else.
    #[must_use]
    pub fn housekeeping(&self) -> CpuSet {
        self.online.minus(&self.cpus)
    }

    /// Flags of the first CPU in /proc/cpuinfo.
    pub fn cpu_field(&self, name: &str) -> Known<&'a str> {
        let field = |line: &'a str| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == name).then_some(value.trim())
        };
        let info = self.text("/proc/cpuinfo")?;
        let missing = || Missing::DoesNotApply(format!("/proc/cpuinfo of this CPU has no '{name}'"));
        info.lines().find_map(field).ok_or_else(missing)
    }

    /// The threads of the machine: name → figures.
    #[must_use]
    pub fn threads(&self) -> Vec<Thread<'a>> {
        let stats = self.all("/proc/*/task/*/stat");
        stats.into_iter().filter_map(|(path, stat)| self.thread(path, stat)).collect()
    }

    fn thread(&self, path: &'a str, stat: &'a str) -> Option<Thread<'a>> {
        let (head, tail) = stat.rsplit_once(") ")?;
        let (tid, comm) = head.split_once(" (")?;
        let words: Vec<&str> = tail.split_ascii_whitespace().collect();
        let field = |number: usize| words.get(number - 3)?.parse::<i64>().ok(); // proc_pid_stat(5) counts from 1
        let status = self.text(&path.replace("/stat", "/status")).ok();
        let allowed = status.and_then(|text| {
            text.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?.trim().parse().ok()
        });
        const PF_KTHREAD: i64 = 0x0020_0000; // include/linux/sched.h
        Some(Thread {
            tid: tid.parse().ok()?,
            comm,
            kernel: field(9)? & PF_KTHREAD != 0,
            cpu: field(39).and_then(|cpu| u32::try_from(cpu).ok()).map(Cpu),
            rt_priority: field(40)?,
            policy: field(41)?,
            allowed,
        })
    }

    fn why_not(&self, path: &str) -> Missing {
        let refused = self.snapshot.unreadable.iter().find(|(name, _)| *name == path || matches(path, name));
        match (refused, self.snapshot.of) {
            (Some((name, reason)), _) => Missing::Unknown(format!("{name}: {reason}")),
            (None, Origin::Kconfig) => Missing::Unknown("only a kernel configuration was given".to_owned()),
            (None, Origin::Tree) if path.starts_with('@') => {
                Missing::Unknown(format!("{path} can be read on the running machine only"))
            }
            (None, _) => Missing::Absent(path.to_owned()),
        }
    }
}

/// One thread as /proc shows it.
#[derive(Clone, Debug)]
pub struct Thread<'a> {
    /// Its id.
    pub tid: i64,
    /// Its name.
    pub comm: &'a str,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// The CPU it ran on last.
    pub cpu: Option<Cpu>,
    /// 1 to 99 under SCHED_FIFO or SCHED_RR, else 0.
    pub rt_priority: i64,
    /// `SCHED_*`.
    pub policy: i64,
    /// Its affinity.
    pub allowed: Option<CpuSet>,
}

impl Thread<'_> {
    /// Under FIFO, RR or DEADLINE.
    #[must_use]
    pub fn is_realtime(&self) -> bool {
        matches!(self.policy, 1 | 2 | 6)
    }
}

/// The number in `text`.
pub fn number(path: &str, text: &str) -> Known<i64> {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    first.parse().map_err(|_| Missing::Unknown(format!("{path} contains '{text}', which is not a number")))
}

/// Groups names by value: `performance` → `[cpu0, cpu1]`.
#[must_use]
pub fn by_value<'a>(all: &[(&'a str, &'a str)]) -> BTreeMap<&'a str, Vec<&'a str>> {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (path, text) in all {
        groups.entry(text).or_default().push(path);
    }
    groups
}

/// The selected word of `none voluntary (full) lazy` or `always [madvise] never`; a single word is itself selected.
#[must_use]
pub fn chosen(text: &str) -> &str {
    let marked = |word: &'_ str| word.len() > 2 && (word.starts_with('[') || word.starts_with('('));
    match text.split_ascii_whitespace().find(|word| marked(word)) {
        Some(word) => &word[1..word.len() - 1],
        None => text.trim(),
    }
}

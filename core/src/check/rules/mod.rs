//! The tables of rules, one file per subject (three for the kernel). Adding a rule is adding an entry.
//!
//! Sources, as the entries cite them: KC = Documentation/core-api/real-time/kernel-configuration.rst, HW =
//! …/real-time/hardware.rst, CI = Documentation/admin-guide/cpu-isolation.rst, KK = …/kernel-per-CPU-kthreads.rst, KP =
//! …/kernel-parameters.txt (all Linux); tuned = the profiles realtime, network-latency, latency-performance,
//! realtime-virtual-host, cpu-partitioning; rt-tests, realtimeconfigquickscan, xenomai kconf-checklist, rt-conf,
//! jitterdebugger, osjitter, meta-nilrt = those projects; "practice" = general knowledge of the field.

mod background;
mod boot;
mod clock;
mod hardware;
mod isolation;
mod kernel;
mod memory;
mod power;
mod run;
mod scheduling;
mod telling;

use super::facts::{Facts, Known};
use super::rule::{Expect, Profile, Rule};

/// The tables with their subjects.
pub const TABLES: &[(&str, &[Rule])] = &[
    ("kernel", kernel::RULES),
    ("kernel", telling::RULES),
    ("kernel", boot::RULES),
    ("clock", clock::RULES),
    ("scheduling", scheduling::RULES),
    ("isolation", isolation::RULES),
    ("power", power::RULES),
    ("hardware", hardware::RULES),
    ("memory", memory::RULES),
    ("background", background::RULES),
    ("run", run::RULES),
];

/// Counters that rules read at the start and at the end of the observation ([`Facts::twice`]).
pub const TWICE: &[&str] = &[
    "/proc/interrupts",
    "/proc/modules",
    "/proc/stat",
    "/proc/vmstat",
    "/sys/devices/system/cpu/online",
    "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count",
    "@smi_count",
];

/// For rules that apply to every profile.
const EVERY: &[Profile] = &[];

/// All rules with their subject.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Rule)> {
    TABLES.iter().flat_map(|(subject, rules)| rules.iter().map(move |rule| (*subject, rule)))
}

/// Name patterns of files, directories and `@` facts that the rules need; sorted, unique.
#[must_use]
pub fn files() -> Vec<&'static str> {
    let always = ["/proc/version", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated"];
    let mut names: Vec<&str> = always.into_iter().chain(all().flat_map(|(_, rule)| needs(rule))).collect();
    names.retain(|name| !name.starts_with("CONFIG_"));
    names.sort_unstable();
    names.dedup();
    names
}

/// Build options that the rules read, without `CONFIG_`; sorted, unique.
#[must_use]
pub fn options() -> Vec<&'static str> {
    let needed = all().flat_map(|(_, rule)| needs(rule));
    let mut names: Vec<&str> = needed.filter_map(|name| name.strip_prefix("CONFIG_")).collect();
    names.extend(all().flat_map(|(_, rule)| match rule.expect {
        Expect::NotBuilt(options) => options,
        _ => &[],
    }));
    names.sort_unstable();
    names.dedup();
    names
}

/// The facts of one rule, except the build options of `NotBuilt`.
pub fn needs(rule: &Rule) -> Vec<&'static str> {
    let mut names = rule.facts.to_vec();
    match rule.expect {
        Expect::OneOf { path, .. } | Expect::Within { path, .. } | Expect::Report { path, .. } => {
            names.push(path)
        }
        _ => {}
    }
    names
}

/// `"x (cpu0), y (cpu1)"`, or the one value they share.
fn shown(all: &[(&str, &str)]) -> String {
    super::judge::shown(all)
}

/// Names of running programs among `wanted`.
fn running(facts: &Facts, wanted: &[&str]) -> Known<Vec<String>> {
    facts.some(TASKS)?;
    let mut names: Vec<String> = facts.threads().iter().map(|thread| thread.comm.to_owned()).collect();
    names
        .retain(|name| wanted.iter().any(|wanted| name == wanted || name.starts_with(&format!("{wanted}/"))));
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// Per thread: name, policy and priority.
const TASKS: &str = "/proc/*/task/*/stat";
/// Per thread: affinity.
const TASK_STATUS: &str = "/proc/*/task/*/status";

//! A plan as text: a diff, what stays, and the line for the boot loader.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::plan::{Plan, Planned, What};
use super::survey::Mechanism;
use crate::numbers::more;

/// The whole plan. `done`: in the past tense.
#[must_use]
pub fn plan(plan: &Plan) -> String {
    let mut text = format!(
        "Isolate CPU {}, everything else on CPU {}, by {}.\n",
        plan.cpus,
        plan.housekeeping,
        mechanism(plan.mechanism)
    );
    for note in &plan.mechanism_notes {
        let _ = writeln!(text, "  not by a better way: {note}"); // to a String, as all below
    }
    text.push_str("\nWould change\n");
    match plan.mechanism {
        Mechanism::Cgroup2 => {
            let _ = writeln!(text, "  + cgroup lathunt-isolated: CPU {}, an isolated partition", plan.cpus);
        }
        Mechanism::Cpuset1 => {
            let _ = writeln!(text, "  + cpuset lathunt-isolated: CPU {}, exclusive, not balanced", plan.cpus);
            let _ = writeln!(
                text,
                "  + cpuset lathunt-housekeeping: CPU {}, with all programs of the root set",
                plan.housekeeping
            );
            let _ = writeln!(text, "  ~ load balancing of the root set: 1 -> 0");
        }
        Mechanism::Affinity => {
            let _ = writeln!(
                text,
                "  Programs that start meanwhile inherit CPU {0}, and keep it after the restoration: taskset -apc {0},{1} PID",
                plan.housekeeping, plan.cpus
            );
        }
    }
    for change in plan.changes.iter().filter(|change| !is_thread(change)) {
        let _ = writeln!(text, "  ~ {}  {} -> {}  ({})", change.path, change.old, change.new, change.of);
    }
    for (what, title) in [(What::KernelThread, "kernel threads"), (What::UserThread, "threads of programs")] {
        threads(&mut text, plan, what, title);
    }
    if !plan.stays.is_empty() {
        text.push_str("\nCannot be changed while the system runs\n");
        for stays in &plan.stays {
            let _ = writeln!(text, "  ! {}\n    {}", stays.what, stays.why);
        }
    }
    if !plan.boot.is_empty() {
        let _ = writeln!(
            text,
            "\nFor the rest (managed interrupts, the tick, RCU callbacks) add to the kernel's command line\n  {}",
            plan.boot.join(" ")
        );
    }
    text
}

/// The mechanism in words.
#[must_use]
pub fn mechanism(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Cgroup2 => "an isolated partition of cgroup v2",
        Mechanism::Cpuset1 => "exclusive cpusets of cgroup v1",
        Mechanism::Affinity => "the affinity of each thread alone",
    }
}

fn is_thread(change: &Planned) -> bool {
    matches!(change.what, What::KernelThread | What::UserThread)
}

/// Hundreds of threads: one line per change of affinity, with the names.
fn threads(text: &mut String, plan: &Plan, what: What, title: &str) {
    let mut groups: BTreeMap<(&str, &str), BTreeMap<&str, usize>> = BTreeMap::new();
    for change in plan.changes.iter().filter(|change| change.what == what) {
        let names = groups.entry((&change.old, &change.new)).or_default();
        *names.entry(&change.of).or_default() += 1;
    }
    for ((old, new), names) in groups {
        let count: usize = names.values().sum();
        let mut shown: Vec<String> = names
            .iter()
            .take(8)
            .map(|(name, count)| if *count > 1 { format!("{name} ×{count}") } else { (*name).to_owned() })
            .collect();
        if names.len() > shown.len() {
            shown.push(more((names.len() - shown.len()) as u64, "name"));
        }
        let _ = writeln!(text, "  ~ {count} {title}  {old} -> {new}  ({})", shown.join(", "));
    }
}

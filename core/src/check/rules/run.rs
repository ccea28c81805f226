//! What has to be looked at while a measurement runs, and how long it has to be.

use super::super::facts::{number, Facts};
use super::super::rule::Expect::Judge;
use super::super::rule::Fix::Do;
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::hardware::row_sum;
use super::EVERY;

/// Rows of /proc/interrupts that explain samples.
const ROWS: [(&str, &str); 7] = [
    ("LOC", "local timer"),
    ("RES", "rescheduling"),
    ("CAL", "function call"),
    ("TLB", "TLB shootdown"),
    ("NMI", "NMI"),
    ("MCE", "machine check"),
    ("THR", "threshold"),
];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "interrupt-counts",
        title: "Interrupts during the watch",
        facts: &["/proc/interrupts"],
        expect: Judge(interrupt_counts),
        severity: High,
        why: "each is a gap for whatever runs on that CPU: compare before and after a measurement",
        fix: &[],
        source: "KK; jitterdebugger",
        profiles: EVERY,
    },
    Rule {
        id: "page-faults",
        title: "Page faults that needed the disk during the watch",
        facts: &["/proc/vmstat"],
        expect: Judge(page_faults),
        severity: High,
        why: "a thread whose page is not there waits for the disk: lock memory before the work begins",
        fix: &[Do("call mlockall(MCL_CURRENT | MCL_FUTURE) and touch stack and heap at the start")],
        source: "CI; PREEMPT_RT HOWTO",
        profiles: EVERY,
    },
    Rule {
        id: "hotplug",
        title: "CPUs that stay",
        facts: &["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/offline"],
        expect: Judge(hotplug),
        severity: Medium,
        why: "a CPU that comes or goes stops all others and moves their work",
        fix: &[Do("switch CPUs on and off before the work begins only")],
        source: "rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "length",
        title: "Length of a measurement",
        facts: &["CONFIG_HZ"],
        expect: Judge(|_| {
            Answer::reported(
                "a day at 1 kHz has 8.6e7 samples; maxima still grow then: take at least 1e8, under load",
            )
        }),
        severity: Info,
        why: "the largest latency of a short run says little about the next one",
        fix: &[],
        source: "OSADL's farm: 1e8 cycles a run; rt_bmark",
        profiles: EVERY,
    },
];

fn interrupt_counts(facts: &Facts) -> Judged {
    let (before, after) = facts.twice("/proc/interrupts")?;
    let growth = |(row, name): &(&str, &str)| {
        let grown = row_sum(after, row).saturating_sub(row_sum(before, row));
        (grown > 0).then(|| format!("{name} {grown}"))
    };
    let devices = |text: &str| -> u64 {
        let rows = text.lines().filter_map(|line| line.trim_start().split(':').next());
        rows.filter(|row| row.bytes().all(|b| b.is_ascii_digit()) && !row.is_empty())
            .map(|row| row_sum(text, row))
            .sum()
    };
    let of_devices = devices(after).saturating_sub(devices(before));
    let mut found: Vec<String> = ROWS.iter().filter_map(growth).collect();
    found.push(format!("devices {of_devices}"));
    Answer::reported(format!("{} in {:.1} s", found.join(", "), facts.watched_s().unwrap_or(0.0)))
}

fn page_faults(facts: &Facts) -> Judged {
    let (before, after) = facts.twice("/proc/vmstat")?;
    let count =
        |text: &str| text.lines().find_map(|line| line.strip_prefix("pgmajfault ").map(str::to_owned));
    let (Some(before), Some(after)) = (count(before), count(after)) else {
        return Missing::unknown("/proc/vmstat has no pgmajfault");
    };
    let grown = number("/proc/vmstat", &after)? - number("/proc/vmstat", &before)?;
    Answer::is(grown == 0, format!("{grown} in {:.1} s", facts.watched_s().unwrap_or(0.0)))
}

fn hotplug(facts: &Facts) -> Judged {
    let (before, after) = facts.twice("/sys/devices/system/cpu/online")?;
    let offline = facts.text("/sys/devices/system/cpu/offline").unwrap_or_default();
    let offline = if offline.is_empty() { String::new() } else { format!(", offline {offline}") };
    match before == after {
        true => Answer::good(format!("online {before}{offline}")),
        false => Answer::bad(format!("online {before}, then {after}")),
    }
}

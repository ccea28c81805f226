//! What to observe during a measurement, and how long to measure.

use super::super::facts::{number, Facts, Known};
use super::super::rule::Expect::{Judge, Show};
use super::super::rule::Fix::Do;
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::EVERY;
use crate::isolate::interrupts::{between, parse, Class};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "interrupt-counts",
        title: "Interrupts during the watch",
        facts: &["/proc/interrupts", "/sys/devices/system/cpu/online", "/sys/devices/system/cpu/isolated"],
        expect: Show(interrupt_counts),
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
        why: "a thread whose page is not in memory waits for the disk: lock memory before the work begins",
        fix: &[Do("call mlockall(MCL_CURRENT | MCL_FUTURE) and touch stack and heap at the start")],
        source: "CI; PREEMPT_RT HOWTO",
        profiles: EVERY,
    },
    Rule {
        id: "hotplug",
        title: "Online CPUs unchanged during the watch",
        facts: &["/sys/devices/system/cpu/online", "/sys/devices/system/cpu/offline"],
        expect: Judge(hotplug),
        severity: Medium,
        why: "a CPU that goes online or offline stops all others and moves their work",
        fix: &[Do("take CPUs online or offline only before the work begins")],
        source: "rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "length",
        title: "Length of a measurement",
        facts: &["CONFIG_HZ"],
        expect: Show(|_| {
            Ok("a day at 1 kHz has 8.6e7 samples; maxima still grow then: take at least 1e8, under load"
                .to_owned())
        }),
        severity: Info,
        why: "the largest latency of a short run says little about the next one",
        fix: &[],
        source: "OSADL's farm: 1e8 cycles a run; rt_bmark",
        profiles: EVERY,
    },
];

/// By class, on the CPUs of the real-time workload and on the others.
fn interrupt_counts(facts: &Facts) -> Known<String> {
    let (before, after) = facts.twice("/proc/interrupts")?;
    let came = between(&parse(before, ""), &parse(after, ""));
    let apart = !facts.housekeeping().is_empty();
    let counts = |mine: bool| {
        let of = |class: Class| -> u64 {
            let lines = came.iter().filter(|line| line.class == class);
            let counts = lines.flat_map(|line| &line.counts);
            counts
                .filter(|(cpu, _)| !apart || facts.cpus.contains(**cpu) == mine)
                .map(|(_, count)| count)
                .sum()
        };
        let shown = Class::ALL.into_iter().map(|class| (class, of(class)));
        let shown: Vec<String> = shown
            .filter(|&(class, count)| count > 0 || class == Class::Io)
            .map(|(class, count)| format!("{} {count}", class.name()))
            .collect();
        shown.join(", ")
    };
    let seconds = facts.watched_s().unwrap_or(0.0);
    Ok(match apart {
        true => format!(
            "on CPU {}: {}; elsewhere: {}; in {seconds:.1} s",
            facts.cpus,
            counts(true),
            counts(false)
        ),
        false => format!("{} in {seconds:.1} s", counts(true)),
    })
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

//! Information from the kernel: configuration, tracers, taint.

use super::super::facts::{Facts, Known};
use super::super::rule::Expect::{Judge, Show};
use super::super::rule::Fix::Build;
use super::super::rule::Severity::{Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::EVERY;

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "tracers",
        title: "Tracers that find causes (hwlat, osnoise, timerlat)",
        facts: &[
            "/sys/kernel/tracing/available_tracers",
            "/proc/sys/kernel/osrelease",
            "CONFIG_HWLAT_TRACER",
            "CONFIG_OSNOISE_TRACER",
            "CONFIG_TIMERLAT_TRACER",
        ],
        expect: Judge(tracers),
        severity: Medium,
        why: "without them hardware latencies cannot be attributed; they cost nothing while off",
        fix: &[Build(
            "CONFIG_FTRACE=y\nCONFIG_HWLAT_TRACER=y\nCONFIG_OSNOISE_TRACER=y\nCONFIG_TIMERLAT_TRACER=y",
        )],
        source: "rt-tests (hwlatdetect)",
        profiles: EVERY,
    },
    Rule {
        id: "taint",
        title: "Taint of the kernel",
        facts: &["/proc/sys/kernel/tainted"],
        expect: Show(taint),
        severity: Info,
        why: "out-of-tree modules run code that was not reviewed for latency",
        fix: &[],
        source: "practice",
        profiles: EVERY,
    },
    Rule {
        id: "kernel-configuration",
        title: "Kernel configuration",
        facts: &["CONFIG_HZ"],
        expect: Judge(configuration),
        severity: Info,
        why: "what was built in cannot be checked without it",
        fix: &[Build("CONFIG_IKCONFIG=y\nCONFIG_IKCONFIG_PROC=y")],
        source: "realtimeconfigquickscan; xenomai kconf-checklist",
        profiles: EVERY,
    },
];

/// The running kernel's list; for a configuration alone, the built-in ones.
fn tracers(facts: &Facts) -> Judged {
    /// With the version that has them first.
    const WANTED: [(&str, &str, (u32, u32)); 3] = [
        ("hwlat", "HWLAT_TRACER", (4, 9)),
        ("osnoise", "OSNOISE_TRACER", (5, 14)),
        ("timerlat", "TIMERLAT_TRACER", (5, 14)),
    ];
    let list = facts.text("/sys/kernel/tracing/available_tracers");
    if facts.is_older_than(WANTED[0].2) {
        return Missing::not_here("Linux before 4.9 has none of them");
    }
    let mut lacking = Vec::new();
    for (name, option, _) in WANTED.into_iter().filter(|(.., since)| !facts.is_older_than(*since)) {
        let there = match list {
            Ok(list) => list.split_ascii_whitespace().any(|word| word == name),
            Err(_) => facts.config(option)? == "y",
        };
        if !there {
            lacking.push(name);
        }
    }
    match lacking.is_empty() {
        true => Answer::good("all there"),
        false => Answer::bad(format!("lacking: {}", lacking.join(", "))),
    }
}

/// Bits of Documentation/admin-guide/tainted-kernels.rst that indicate foreign code or earlier errors.
const TAINTS: [(u32, &str); 8] = [
    (0, "a proprietary module"),
    (1, "a force-loaded module"),
    (4, "a machine check"),
    (7, "an oops of the kernel"),
    (9, "a warning of the kernel"),
    (12, "an out-of-tree module"),
    (14, "a lockup"),
    (15, "a live patch"),
];

fn taint(facts: &Facts) -> Known<String> {
    let bits = facts.number("/proc/sys/kernel/tainted")?;
    let named: Vec<&str> =
        TAINTS.iter().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, what)| *what).collect();
    Ok(match (bits, named.is_empty()) {
        (0, _) => "none".to_owned(),
        (_, true) => bits.to_string(),
        (_, false) => format!("{bits}: {}", named.join(", ")),
    })
}

fn configuration(facts: &Facts) -> Judged {
    match facts.config("HZ") {
        Ok(_) => Answer::good("readable"),
        Err(_) if facts.absence_means_something() => {
            Answer::bad("neither /proc/config.gz nor /boot/config-… is readable")
        }
        Err(missing) => Err(missing),
    }
}

//! Frequency scaling, idle states, SMT: power saving that costs latency.

use super::super::facts::{chosen, number, Facts, Known};
use super::super::rule::Expect::{Judge, OneOf, Report, Show};
use super::super::rule::Fix::{Boot, Build, Do, Run};
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::{shown, EVERY};

const GOVERNOR: &str = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor";
const FREQ_MIN: &str = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_min_freq";
const FREQ_MAX: &str = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_max_freq";
const DEVICE_SLEEP: &str = "/sys/bus/pci/devices/*/power/control";
const NO_SCALING: &str = "no frequency scaling is visible";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "governor",
        title: "Frequency governor",
        facts: &[GOVERNOR, "CONFIG_CPU_FREQ", "CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE"],
        expect: Judge(governor),
        severity: High,
        why: "the clock rises only after work has arrived: the first milliseconds run slowly",
        fix: &[
            Run("for f in /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor; do echo performance > \"$f\"; done"),
            Build("CONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y"),
        ],
        source: "KC; realtimeconfigquickscan; tuned latency-performance",
        profiles: EVERY,
    },
    Rule {
        id: "frequency-range",
        title: "Frequency modulation",
        facts: &[FREQ_MIN, FREQ_MAX],
        expect: Judge(frequency_range),
        severity: Medium,
        why: "a clock that moves between limits changes every execution time",
        fix: &[Run("for d in /sys/devices/system/cpu/cpu*/cpufreq; do cat \"$d/scaling_max_freq\" > \"$d/scaling_min_freq\"; done")],
        source: "KC; tuned latency-performance",
        profiles: EVERY,
    },
    Rule {
        id: "energy-preference",
        title: "Energy preference of the processor",
        facts: &["/sys/devices/system/cpu/intel_pstate/status"],
        expect: OneOf {
            path: "/sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference",
            values: &["performance"],
            absent: "this processor has no energy preference",
        },
        severity: High,
        why: "the processor itself lowers its clock whatever the governor says",
        fix: &[Run("for f in /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference; do echo performance > \"$f\"; done")],
        source: "tuned latency-performance, realtime",
        profiles: EVERY,
    },
    Rule {
        id: "performance-floor",
        title: "Lowest performance of intel_pstate",
        facts: &["/sys/devices/system/cpu/intel_pstate/min_perf_pct", "/sys/devices/system/cpu/intel_pstate/status"],
        expect: Judge(performance_floor),
        severity: Medium,
        why: "the processor's own control lowers the clock down to this share of the highest",
        fix: &[Run("echo 100 > /sys/devices/system/cpu/intel_pstate/min_perf_pct")],
        source: "tuned latency-performance, realtime",
        profiles: EVERY,
    },
    Rule {
        id: "turbo",
        title: "Turbo frequencies",
        facts: &["/sys/devices/system/cpu/intel_pstate/no_turbo", "/sys/devices/system/cpu/cpufreq/boost"],
        expect: Judge(turbo),
        severity: Info,
        why: "a turbo clock depends on the temperature and on the load of the other cores",
        fix: &[],
        source: "tuned latency-performance",
        profiles: EVERY,
    },
    Rule {
        id: "sleep-states",
        title: "Idle states deeper than C1",
        facts: &[
            "/sys/devices/system/cpu/cpu*/cpuidle/state*/name",
            "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency",
            "/sys/devices/system/cpu/cpu*/cpuidle/state*/disable",
            "@pm_qos_us",
        ],
        expect: Judge(sleep_states),
        severity: High,
        why: "leaving a deep state takes up to hundreds of microseconds before anything runs",
        fix: &[
            Run("for f in /sys/devices/system/cpu/cpu*/cpuidle/state*/disable; do [ \"$(cat \"${f%/disable}/latency\")\" -gt 10 ] && echo 1 > \"$f\"; done"),
            Boot("processor.max_cstate=1 intel_idle.max_cstate=1"),
        ],
        source: "KC; CI; meta-nilrt",
        profiles: EVERY,
    },
    Rule {
        id: "pm-qos",
        title: "Programs that limit idle states (/dev/cpu_dma_latency)",
        facts: &["@pm_qos_us", "@pm_qos_holders", "/sys/devices/system/cpu/cpu*/power/pm_qos_resume_latency_us"],
        expect: Show(pm_qos),
        severity: High,
        why: "a tool that holds it (cyclictest does) hides latencies that production will have",
        fix: &[],
        source: "rt-tests; jitterdebugger",
        profiles: EVERY,
    },
    Rule {
        id: "idle-poll",
        title: "Idle loop (idle=)",
        facts: &["/proc/cmdline"],
        expect: Show(|facts| Ok(facts.boot("idle")?.map_or("idle= is not set".to_owned(), |value| format!("idle={value}")))),
        severity: Medium,
        why: "idle=poll answers fast, heats the processor, starves its sibling, and in a guest burns the host",
        fix: &[],
        source: "HW",
        profiles: EVERY,
    },
    Rule {
        id: "smt",
        title: "Hyperthreads",
        facts: &["/sys/devices/system/cpu/smt/active", "/sys/devices/system/cpu/smt/control", "/sys/devices/system/cpu/cpu*/topology/thread_siblings_list", "/sys/devices/system/cpu/online"],
        expect: Judge(smt),
        severity: High,
        why: "two hyperthreads share one core: the sibling's work slows the real-time work",
        fix: &[Run("echo off > /sys/devices/system/cpu/smt/control"), Boot("nosmt")],
        source: "CI",
        profiles: EVERY,
    },
    Rule {
        id: "throttled-by-heat",
        title: "Thermal throttling during the watch",
        facts: &["/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count"],
        expect: Judge(throttled),
        severity: High,
        why: "a hot processor lowers its clock at any moment",
        fix: &[Do("cool it better, or lower the highest frequency to one it can sustain")],
        source: "HW; practice",
        profiles: EVERY,
    },
    Rule {
        id: "pcie-power",
        title: "Power saving of PCI Express links",
        facts: &["/sys/module/pcie_aspm/parameters/policy"],
        expect: Judge(|facts| match facts.maybe("/sys/module/pcie_aspm/parameters/policy")? {
            None => Missing::not_here("this kernel does not manage it"),
            Some(text) => Answer::is(chosen(text) == "performance", chosen(text)),
        }),
        severity: Medium,
        why: "a sleeping link delays the first access to a device",
        fix: &[Run("echo performance > /sys/module/pcie_aspm/parameters/policy"), Boot("pcie_aspm.policy=performance")],
        source: "HW",
        profiles: EVERY,
    },
    Rule {
        id: "device-sleep",
        title: "PCI devices that may sleep (runtime power management)",
        facts: &[DEVICE_SLEEP],
        expect: Judge(device_sleep),
        severity: Medium,
        why: "a sleeping device answers its first access milliseconds late",
        fix: &[Run("for f in /sys/bus/pci/devices/*/power/control; do echo on > \"$f\"; done")],
        source: "HW",
        profiles: EVERY,
    },
    Rule {
        id: "pstate-driver",
        title: "Frequency driver",
        facts: &[],
        expect: Report { path: "/sys/devices/system/cpu/cpu*/cpufreq/scaling_driver", absent: NO_SCALING },
        severity: Info,
        why: "it decides what a governor means",
        fix: &[],
        source: "tuned latency-performance",
        profiles: EVERY,
    },
];

/// The active governor; for a configuration alone, the default one.
fn governor(facts: &Facts) -> Judged {
    let all = facts.all(GOVERNOR);
    if !all.is_empty() {
        return Answer::is(all.iter().all(|(_, name)| *name == "performance"), shown(&all));
    }
    if facts.absence_means_something() {
        return Missing::not_here(NO_SCALING);
    }
    if facts.config("CPU_FREQ") == Ok("n") {
        return Answer::bad("CONFIG_CPU_FREQ=n: the clock stays as the boot loader left it");
    }
    match facts.config("CPU_FREQ_DEFAULT_GOV_PERFORMANCE")? {
        "y" => Answer::good("performance by default"),
        _ => Answer::bad("performance is not the default"),
    }
}

fn frequency_range(facts: &Facts) -> Judged {
    let lowest = match facts.all(FREQ_MIN) {
        none if none.is_empty() && facts.absence_means_something() => return Missing::not_here(NO_SCALING),
        _ => facts.some(FREQ_MIN)?,
    };
    let highest = facts.some(FREQ_MAX)?;
    let fixed = lowest.iter().zip(&highest).all(|((_, min), (_, max))| min == max);
    Answer::is(fixed, format!("{} to {} kHz", shown(&lowest), shown(&highest)))
}

fn performance_floor(facts: &Facts) -> Judged {
    const FILE: &str = "/sys/devices/system/cpu/intel_pstate/min_perf_pct";
    if facts.maybe(FILE)?.is_none() {
        return Missing::not_here("the frequency driver is not intel_pstate");
    }
    if facts.text("/sys/devices/system/cpu/intel_pstate/status").is_ok_and(|status| status == "off") {
        return Missing::not_here("intel_pstate is off");
    }
    let percent = facts.number(FILE)?;
    Answer::is(percent == 100, format!("{percent} %"))
}

fn device_sleep(facts: &Facts) -> Judged {
    let all = match facts.all(DEVICE_SLEEP) {
        none if none.is_empty() && facts.absence_means_something() => {
            return Missing::not_here("no PCI device is visible")
        }
        _ => facts.some(DEVICE_SLEEP)?,
    };
    let asleep: Vec<&str> =
        all.iter().filter(|(_, on)| *on == "auto").filter_map(|(path, _)| path.split('/').nth(5)).collect();
    let more = if asleep.len() > 4 { ", …" } else { "" };
    match asleep.is_empty() {
        true => Answer::good(format!("none of {}", all.len())),
        false => Answer::bad(format!(
            "{} of {}: {}{more}",
            asleep.len(),
            all.len(),
            asleep[..asleep.len().min(4)].join(", ")
        )),
    }
}

fn turbo(facts: &Facts) -> Judged {
    if let Some(off) = facts.maybe("/sys/devices/system/cpu/intel_pstate/no_turbo")? {
        return Answer::reported(if off == "1" { "off" } else { "on" });
    }
    match facts.maybe("/sys/devices/system/cpu/cpufreq/boost")? {
        Some(on) => Answer::reported(if on == "1" { "on" } else { "off" }),
        None => Missing::not_here("no turbo is visible"),
    }
}

/// Exit latency up to which a state counts as C1, µs: the declared values of C1 and C1E.
const C1_US: i64 = 10;

fn sleep_states(facts: &Facts) -> Judged {
    const LATENCY: &str = "/sys/devices/system/cpu/cpu*/cpuidle/state*/latency";
    let latencies = match facts.all(LATENCY) {
        none if none.is_empty() && facts.absence_means_something() => {
            return Missing::not_here("no idle states are visible")
        }
        _ => facts.some(LATENCY)?,
    };
    let held = facts.number("@pm_qos_us").ok();
    let mut deep: Vec<String> = Vec::new();
    for (path, text) in latencies {
        let us = number(path, text)?;
        let disabled = facts.text(&path.replace("/latency", "/disable")).is_ok_and(|text| text != "0");
        if us > C1_US && !disabled {
            let name = facts.text(&path.replace("/latency", "/name")).unwrap_or("state");
            let shown = format!("{name} ({us} us)");
            if !deep.contains(&shown) {
                deep.push(shown);
            }
        }
    }
    match (deep.is_empty(), held) {
        (true, _) => Answer::good("none allowed"),
        (false, Some(held)) if (0..=C1_US).contains(&held) => {
            Answer::good(format!("held off by PM QoS of {held} us: {}", deep.join(", ")))
        }
        (false, _) => Answer::bad(format!("allowed: {}", deep.join(", "))),
    }
}

fn pm_qos(facts: &Facts) -> Known<String> {
    let us = facts.number("@pm_qos_us")?;
    let holders = facts.text("@pm_qos_holders").unwrap_or_default().replace('\n', ", ");
    let by = if holders.is_empty() { String::new() } else { format!(", held by {holders}") };
    const NO_LIMIT: i64 = 2_000_000_000; // PM_QOS_CPU_LATENCY_DEFAULT_VALUE, include/linux/pm_qos.h
    let allowed = if us >= NO_LIMIT { "no limit".to_owned() } else { format!("at most {us} us") };
    Ok(format!("{allowed}{by}"))
}

fn smt(facts: &Facts) -> Judged {
    let Some(active) = facts.maybe("/sys/devices/system/cpu/smt/active")? else {
        return Missing::not_here("this kernel reports no hyperthreads");
    };
    let control = facts.text("/sys/devices/system/cpu/smt/control").unwrap_or("unknown");
    if active == "0" {
        return Answer::good(format!("no sibling is active ({control})"));
    }
    Answer::bad(format!("siblings are active ({control})"))
}

fn throttled(facts: &Facts) -> Judged {
    const COUNT: &str = "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count";
    let files = match facts.all(COUNT) {
        none if none.is_empty() && facts.absence_means_something() => {
            return Missing::not_here("not counted by this processor")
        }
        _ => facts.some(COUNT)?,
    };
    let mut sum = 0;
    for (path, _) in &files {
        let (before, after) = facts.twice(path)?;
        sum += number(path, after)? - number(path, before)?;
    }
    Answer::is(sum == 0, format!("{sum} times in {:.1} s", facts.watched_s().unwrap_or(0.0)))
}

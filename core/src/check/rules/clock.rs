//! Clocks and timers.

use super::super::facts::Facts;
use super::super::rule::Expect::{Judge, OneOf, Show};
use super::super::rule::Fix::{Boot, Do, Run};
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Profile, Rule};
use super::{running, EVERY, TASKS};

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "clocksource",
        title: "Clock source",
        facts: &[],
        expect: OneOf {
            path: "/sys/devices/system/clocksource/clocksource0/current_clocksource",
            values: &["tsc", "tsc-early", "arch_sys_counter", "riscv_clocksource", "timebase"],
            absent: "",
        },
        severity: High,
        why: "hpet and acpi_pm cost microseconds per read, and paravirtual clocks follow the host",
        fix: &[
            Run("echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource"),
            Boot("clocksource=tsc tsc=reliable"),
        ],
        source: "tuned network-latency; CI",
        profiles: EVERY,
    },
    Rule {
        id: "tsc-flags",
        title: "Time stamp counter with a constant rate that never stops",
        facts: &["/proc/cpuinfo", "@kernel_log"],
        expect: Judge(tsc_flags),
        severity: High,
        why: "a counter that changes its rate or stops converts to wrong times",
        fix: &[Do("look for a firmware update; do not trust times of this machine")],
        source: "osjitter; CI",
        profiles: EVERY,
    },
    Rule {
        id: "timer-migration",
        title: "Migration of timers to other CPUs",
        facts: &["/proc/sys/kernel/timer_migration", "/sys/devices/system/cpu/nohz_full"],
        expect: Judge(timer_migration),
        severity: Medium,
        why: "timers of idle CPUs pile up on a busy one",
        fix: &[Run("sysctl -w kernel.timer_migration=0")],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "skew-tick",
        title: "Ticks of the CPUs at different times",
        facts: &["/proc/cmdline"],
        expect: Judge(|facts| match facts.boot("skew_tick")? {
            Some("1") => Answer::good("skew_tick=1"),
            _ => Answer::bad("skew_tick=1 is not set"),
        }),
        severity: Info,
        why: "simultaneous ticks contend for the same locks",
        fix: &[Boot("skew_tick=1")],
        source: "tuned network-latency; KP",
        profiles: EVERY,
    },
    Rule {
        id: "time-synchronisation",
        title: "Programs that set the clock",
        facts: &[TASKS],
        expect: Show(|facts| {
            match running(
                facts,
                &["chronyd", "ntpd", "ntpd.real", "ptp4l", "phc2sys", "systemd-timesyn", "openntpd"],
            )? {
                names if names.is_empty() => Ok("none".to_owned()),
                names => {
                    Ok(format!("{}: CLOCK_REALTIME may step, measure with CLOCK_MONOTONIC", names.join(", ")))
                }
            }
        }),
        severity: Medium,
        why: "timers on CLOCK_REALTIME jump when the clock is set",
        fix: &[],
        source: "rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "timer-slack",
        title: "Timer slack of ordinary threads",
        facts: &["/proc/self/timerslack_ns"],
        expect: Judge(timer_slack),
        severity: High,
        why: "an ordinary thread wakes up to this much late; FIFO threads do not",
        fix: &[Do("run the work under SCHED_FIFO, or call prctl(PR_SET_TIMERSLACK, 1)")],
        source: "prctl(2); cyclictest's ordinary threads show 50 us more",
        profiles: &[Profile::Audio],
    },
];

fn tsc_flags(facts: &Facts) -> Judged {
    let flags = facts.cpu_field("flags").map_err(|missing| match missing {
        Missing::DoesNotApply(_) => Missing::DoesNotApply("no x86 CPU".to_owned()),
        unknown => unknown,
    })?;
    let lacking: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|flag| !flags.split(' ').any(|word| word == *flag))
        .collect();
    let log = facts.text("@kernel_log").unwrap_or_default();
    if let Some(line) =
        log.lines().find(|line| line.contains("TSC unstable") || line.contains("tsc unstable"))
    {
        return Answer::bad(format!("the kernel says: {line}"));
    }
    match lacking.is_empty() {
        true => Answer::good("constant_tsc and nonstop_tsc"),
        false => Answer::bad(format!("lacks {}", lacking.join(" and "))),
    }
}

/// With nohz_full, timers must be able to migrate from busy CPUs: then it depends on the workload.
fn timer_migration(facts: &Facts) -> Judged {
    const FILE: &str = "/proc/sys/kernel/timer_migration";
    let Some(on) = facts.maybe(FILE)? else { return Missing::not_here("this kernel does not move timers") };
    let without_tick = facts.cpu_list("/sys/devices/system/cpu/nohz_full").unwrap_or_default();
    match (on, without_tick.is_empty()) {
        ("0", _) => Answer::good("off"),
        (_, true) => Answer::bad("on"),
        (_, false) => Answer::reported(format!("on, and away from CPU {without_tick} by nohz_full")),
    }
}

fn timer_slack(facts: &Facts) -> Judged {
    let ns = facts.number("/proc/self/timerslack_ns")?;
    let found = format!("{} us (FIFO threads ignore it)", ns as f64 / 1000.0);
    Answer::is(ns <= 1000, found)
}

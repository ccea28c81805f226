//! Background activity: tracing, watchdogs, daemons, consoles.

use super::super::facts::{Facts, Known};
use super::super::rule::Expect::{Judge, Show};
use super::super::rule::Fix::{Boot, Do, Run};
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Profile, Rule};
use super::{running, EVERY, TASKS};

const TRACING: [&str; 4] = [
    "/sys/kernel/tracing/current_tracer",
    "/sys/kernel/tracing/events/enable",
    "/sys/kernel/tracing/kprobe_events",
    "/sys/kernel/tracing/instances/",
];

const TRACER_OF_INSTANCE: &str = "/sys/kernel/tracing/instances/*/current_tracer";
const EVENTS_OF_INSTANCE: &str = "/sys/kernel/tracing/instances/*/events/enable";

/// Share of the last 10 s in which some thread waited for it.
const PRESSURE: [&str; 3] = ["/proc/pressure/cpu", "/proc/pressure/io", "/proc/pressure/memory"];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "tracing",
        title: "Tracing left on",
        facts: &[TRACING[0], TRACING[1], TRACING[2], TRACING[3], TRACER_OF_INSTANCE, EVENTS_OF_INSTANCE],
        expect: Judge(tracing),
        severity: High,
        why: "a tracer or an enabled event costs time at every place it is attached to",
        fix: &[Run("echo nop > /sys/kernel/tracing/current_tracer; echo 0 > /sys/kernel/tracing/events/enable; echo > /sys/kernel/tracing/kprobe_events"), Run("for i in /sys/kernel/tracing/instances/*; do echo nop > \"$i\"/current_tracer; echo 0 > \"$i\"/events/enable; done")],
        source: "KC",
        profiles: EVERY,
    },
    Rule {
        id: "bpf-and-perf",
        title: "BPF programs and perf events in use",
        facts: &["@bpf_links", "@perf_users", "/proc/sys/kernel/bpf_stats_enabled"],
        expect: Judge(bpf_and_perf),
        severity: Medium,
        why: "they run at each event they are attached to, some by interrupting all CPUs",
        fix: &[Do("end the programs named"), Run("sysctl -w kernel.bpf_stats_enabled=0")],
        source: "practice",
        profiles: EVERY,
    },
    Rule {
        id: "watchdogs",
        title: "Lockup detectors",
        facts: &["/proc/sys/kernel/watchdog", "/proc/sys/kernel/nmi_watchdog", "/proc/sys/kernel/soft_watchdog", "CONFIG_LOCKUP_DETECTOR"],
        expect: Judge(watchdogs),
        severity: High,
        why: "a hard timer on every CPU every few seconds, and non-maskable interrupts",
        fix: &[Run("sysctl -w kernel.watchdog=0 kernel.nmi_watchdog=0"), Boot("nowatchdog")],
        source: "KC; tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "hung-tasks",
        title: "Search for hung tasks",
        facts: &["/proc/sys/kernel/hung_task_timeout_secs"],
        expect: Judge(|facts| match facts.maybe("/proc/sys/kernel/hung_task_timeout_secs")? {
            None => Missing::not_here("not built in"),
            Some(_) => {
                let s = facts.number("/proc/sys/kernel/hung_task_timeout_secs")?;
                Answer::is(s == 0 || s >= 600, if s == 0 { "off".to_owned() } else { format!("every {s} s") })
            }
        }),
        severity: Info,
        why: "khungtaskd walks all tasks; ordinary tasks delayed by real-time work are reported as hung",
        fix: &[Run("sysctl -w kernel.hung_task_timeout_secs=600")],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "audit",
        title: "Auditing of system calls",
        facts: &["/proc/cmdline", TASKS],
        expect: Judge(audit),
        severity: Info,
        why: "adds work to every system call while rules are loaded",
        fix: &[Run("systemctl disable --now auditd"), Boot("audit=0")],
        source: "practice",
        profiles: EVERY,
    },
    Rule {
        id: "security-modules",
        title: "Security modules",
        facts: &["/sys/kernel/security/lsm", "/sys/fs/selinux/avc/cache_threshold"],
        expect: Show(security_modules),
        severity: Info,
        why: "they check every system call with a file or a socket",
        fix: &[],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "network-polling",
        title: "Busy polling of the network",
        facts: &["/proc/sys/net/core/busy_poll", "/proc/sys/net/core/busy_read"],
        expect: Judge(network_polling),
        severity: Info,
        why: "without it each packet costs an interrupt and a wake-up",
        fix: &[Run("sysctl -w net.core.busy_read=50 net.core.busy_poll=50")],
        source: "tuned network-latency",
        profiles: &[Profile::Network],
    },
    Rule {
        id: "network-coalescing",
        title: "Interrupt coalescing of the network cards",
        facts: &["@nic_coalescing"],
        expect: Judge(network_coalescing),
        severity: Info,
        why: "each packet waits this long for others, and adaptive coalescing changes that time under load",
        fix: &[Run("for n in /sys/class/net/*; do ethtool -C \"${n##*/}\" adaptive-rx off rx-usecs 0; done")],
        source: "practice (ethtool -C)",
        profiles: &[Profile::Network],
    },
    Rule {
        id: "console",
        title: "Kernel messages on a slow console",
        facts: &["/proc/sys/kernel/printk", "/proc/cmdline"],
        expect: Judge(console),
        severity: Medium,
        why: "a message of 80 characters blocks a CPU for 7 ms on a serial line of 115200 bit/s",
        fix: &[Run("sysctl -w kernel.printk='1 4 1 7'"), Boot("quiet loglevel=1")],
        source: "PREEMPT_RT HOWTO",
        profiles: EVERY,
    },
    Rule {
        id: "daemons",
        title: "Daemons that change settings or wake up by themselves",
        facts: &[TASKS, "/etc/tuned/active_profile"],
        expect: Show(daemons),
        severity: Medium,
        why: "they revert tuning (tuned, power-profiles), raise priorities (stalld, rtkit), or start work at any time (cron, snapd, updatedb)",
        fix: &[],
        source: "stalld's README; realtimeconfigquickscan",
        profiles: EVERY,
    },
    Rule {
        id: "stops-of-all-cpus",
        title: "Modules loaded or removed during the watch",
        facts: &["/proc/modules"],
        expect: Judge(modules),
        severity: Medium,
        why: "loading, probing and patching code stops all CPUs together",
        fix: &[Do("load all modules before the work begins; attach no probes during it")],
        source: "practice (kernel/stop_machine.c)",
        profiles: EVERY,
    },
    Rule {
        id: "load",
        title: "Load of the machine now",
        facts: &["/proc/loadavg", PRESSURE[0], PRESSURE[1], PRESSURE[2]],
        expect: Show(load),
        severity: Info,
        why: "a latency means little without the load that went with it",
        fix: &[],
        source: "rt-tests",
        profiles: EVERY,
    },
];

fn tracing(facts: &Facts) -> Judged {
    let mut found = Vec::new();
    let tracer = facts.text(TRACING[0])?;
    if tracer != "nop" {
        found.push(format!("tracer {tracer}"));
    }
    // "X": some events are on; modern kernels always print X or 0 at the top.
    if facts.text(TRACING[1]).is_ok_and(|enable| enable != "0") {
        found.push("events are enabled".to_owned());
    }
    if facts.text(TRACING[2]).is_ok_and(|probes| !probes.is_empty()) {
        found.push("kprobes are set".to_owned());
    }
    // An instance costs time only while it traces.
    let name = |path: &str| path.split('/').nth(5).unwrap_or("?").to_owned();
    let tracers = facts.all(TRACER_OF_INSTANCE).into_iter().filter(|(_, tracer)| *tracer != "nop");
    found.extend(tracers.map(|(path, tracer)| format!("instance {} with tracer {tracer}", name(path))));
    let enabled = facts.all(EVENTS_OF_INSTANCE).into_iter().filter(|(_, enable)| *enable != "0");
    found.extend(enabled.map(|(path, _)| format!("instance {} with events enabled", name(path))));
    Answer::is(found.is_empty(), if found.is_empty() { "nothing".to_owned() } else { found.join(", ") })
}

fn bpf_and_perf(facts: &Facts) -> Judged {
    let links = facts.text("@bpf_links")?;
    let perf = facts.text("@perf_users")?;
    let mut found = Vec::new();
    if !links.is_empty() {
        found.push(format!("BPF links: {}", links.replace('\n', ", ")));
    }
    if !perf.is_empty() {
        found.push(format!("perf events of {}", perf.replace('\n', ", ")));
    }
    if facts.text("/proc/sys/kernel/bpf_stats_enabled").is_ok_and(|on| on != "0") {
        found.push("bpf_stats_enabled is on".to_owned());
    }
    Answer::is(found.is_empty(), if found.is_empty() { "none".to_owned() } else { found.join("; ") })
}

fn watchdogs(facts: &Facts) -> Judged {
    let names = ["watchdog", "nmi_watchdog", "soft_watchdog"];
    let Some(all) = facts.maybe("/proc/sys/kernel/watchdog")? else {
        return match facts.config("LOCKUP_DETECTOR") {
            Ok("y") => Err(Missing::Absent("/proc/sys/kernel/watchdog".to_owned())),
            _ => Answer::good("not built in"),
        };
    };
    let on = |name: &&str| facts.text(&format!("/proc/sys/kernel/{name}")).is_ok_and(|value| value != "0");
    let on: Vec<&str> = names.into_iter().filter(on).collect();
    Answer::is(
        all == "0" && !on.contains(&"nmi_watchdog"),
        if on.is_empty() { "off".to_owned() } else { format!("on: {}", on.join(", ")) },
    )
}

fn audit(facts: &Facts) -> Judged {
    if facts.boot("audit")? == Some("0") {
        return Answer::good("audit=0");
    }
    match running(facts, &["auditd"])?.is_empty() {
        true => Answer::good("auditd does not run"),
        false => Answer::bad("auditd runs"),
    }
}

fn network_polling(facts: &Facts) -> Judged {
    let (poll, read) =
        (facts.number("/proc/sys/net/core/busy_poll")?, facts.number("/proc/sys/net/core/busy_read")?);
    Answer::is(poll > 0 && read > 0, format!("busy_poll {poll} us, busy_read {read} us"))
}

/// `eth0 rx-usecs 3 adaptive-rx on`, one line per interface.
fn network_coalescing(facts: &Facts) -> Judged {
    match facts.maybe("@nic_coalescing")? {
        None | Some("") => Missing::not_here("no network card reports it"),
        Some(cards) => Answer::is(
            cards.lines().all(|card| card.ends_with(" rx-usecs 0 adaptive-rx off")),
            cards.replace('\n', ", "),
        ),
    }
}

fn console(facts: &Facts) -> Judged {
    let level = facts.number("/proc/sys/kernel/printk")?;
    let slow = facts.boot_words()?.into_iter().rev().find(|(name, value)| {
        *name == "console" && ["ttyS", "ttyAMA", "ttyUSB", "hvc"].iter().any(|kind| value.starts_with(kind))
    });
    const ERRORS_ONLY: i64 = 4; // messages of a level below this number are printed: 4 lets through errors and worse
    match slow {
        None => Answer::good(format!("no serial console (level {level})")),
        Some((_, line)) => Answer::is(level <= ERRORS_ONLY, format!("console={line}, level {level}")),
    }
}

fn daemons(facts: &Facts) -> Known<String> {
    let known = [
        "tuned",
        "stalld",
        "rtkit-daemon",
        "thermald",
        "power-profiles-",
        "cron",
        "crond",
        "anacron",
        "snapd",
        "updatedb",
        "packagekitd",
        "unattended-upgr",
    ];
    let found = running(facts, &known)?;
    let mut found = if found.is_empty() { "none of those known".to_owned() } else { found.join(", ") };
    if let Ok(profile) = facts.text("/etc/tuned/active_profile") {
        found.push_str(&format!("; profile of tuned: {profile}"));
    }
    Ok(found)
}

fn security_modules(facts: &Facts) -> Known<String> {
    let Some(modules) = facts.maybe("/sys/kernel/security/lsm")? else {
        return Missing::not_here("securityfs is not mounted");
    };
    // tuned network-latency: 8192, so that decisions of SELinux are found in the cache.
    let cache = facts.text("/sys/fs/selinux/avc/cache_threshold");
    let cache = cache.map_or(String::new(), |size| format!("; cache_threshold of SELinux {size}"));
    Ok(format!("{modules}{cache}"))
}

fn modules(facts: &Facts) -> Judged {
    if facts.maybe("/proc/modules")?.is_none() {
        return Missing::not_here("a kernel without modules");
    }
    let (before, after) = facts.twice("/proc/modules")?;
    let names = |text: &str| -> Vec<String> {
        text.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
    };
    let (before, after) = (names(before), names(after));
    let changed: Vec<&String> = after
        .iter()
        .filter(|name| !before.contains(name))
        .chain(before.iter().filter(|name| !after.contains(name)))
        .collect();
    let list = changed.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ");
    Answer::is(changed.is_empty(), if changed.is_empty() { "none".to_owned() } else { list })
}

fn load(facts: &Facts) -> Known<String> {
    let load = facts.text("/proc/loadavg")?;
    let load: Vec<&str> = load.split(' ').take(3).collect();
    let pressure = |path: &&str| {
        let share = facts.text(path).ok()?.lines().next()?.split(' ').nth(1)?.strip_prefix("avg10=")?;
        Some(format!("{} {share} %", path.rsplit('/').next()?))
    };
    let pressure: Vec<String> = PRESSURE.iter().filter_map(pressure).collect();
    let stalled =
        if pressure.is_empty() { String::new() } else { format!("; waited for {}", pressure.join(", ")) };
    Ok(format!("load average {}{stalled}", load.join(" ")))
}

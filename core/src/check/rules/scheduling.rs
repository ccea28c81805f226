//! Scheduling policies, priorities and throttling.

use super::super::facts::{Facts, Known, Thread};
use super::super::rule::Expect::{Judge, OneOf, Show};
use super::super::rule::Fix::{Build, Do, Run};
use super::super::rule::Severity::{Fatal, High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::{shown, EVERY, TASKS, TASK_STATUS};

const STATUS: &str = "/proc/self/status";
const LIMITS: &str = "/proc/self/limits";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "rt-throttling",
        title: "Real-time throttling",
        facts: &["/proc/sys/kernel/sched_rt_runtime_us", "/proc/sys/kernel/sched_rt_period_us"],
        expect: Judge(throttling),
        severity: High,
        why: "real-time threads that use up their share are throttled for the rest of the period (50 ms of 1 s)",
        fix: &[Run("sysctl -w kernel.sched_rt_runtime_us=-1")],
        source: "tuned realtime",
        profiles: EVERY,
    },
    Rule {
        id: "fair-server",
        title: "Deadline server of ordinary threads (since 6.12)",
        facts: &["/sys/kernel/debug/sched/fair_server/*/runtime", "/sys/kernel/debug/sched/fair_server/*/period", "/sys/kernel/debug/sched/ext_server/*/runtime", "/proc/sys/kernel/osrelease"],
        expect: Judge(fair_server),
        severity: High,
        why: "a real-time thread that never sleeps is stopped 50 ms in each second for ordinary ones",
        fix: &[Run("for f in /sys/kernel/debug/sched/*_server/cpu*/runtime; do echo 0 > \"$f\"; done")],
        source: "kernel/sched/fair.c, since 6.12",
        profiles: &[super::super::rule::Profile::BusyPoll],
    },
    Rule {
        id: "rt-group-scheduling",
        title: "Real-time budgets of control groups",
        facts: &["CONFIG_RT_GROUP_SCHED", "/proc/self/cgroup", "/proc/cmdline", "/sys/fs/cgroup/cpu/cpu.rt_runtime_us", "/sys/fs/cgroup/cpu/*/cpu.rt_runtime_us"],
        expect: Judge(rt_groups),
        severity: High,
        why: "in a group without a budget SCHED_FIFO is refused (EPERM)",
        fix: &[Do("run in the root cgroup, or give the group cpu.rt_runtime_us"), Build("# CONFIG_RT_GROUP_SCHED is not set")],
        source: "moby#22380; ltp#1245",
        profiles: EVERY,
    },
    Rule {
        id: "privilege",
        title: "Rights for real-time scheduling and locked memory",
        facts: &[STATUS, LIMITS],
        expect: Judge(privilege),
        severity: Fatal,
        why: "without them SCHED_FIFO (EPERM), mlockall (ENOMEM) or a limit on CPU time (SIGXCPU) end the real-time work",
        fix: &[Do("run as root, or set rtprio 99 and memlock unlimited in /etc/security/limits.conf (no limit on rttime)")],
        source: "rt-tests; realtimeconfigquickscan",
        profiles: EVERY,
    },
    Rule {
        id: "container",
        title: "Limits of a container",
        facts: &[STATUS, "/proc/self/cgroup", "/sys/fs/cgroup/cpuset.cpus.effective"],
        expect: Show(container),
        severity: Medium,
        why: "a seccomp filter or a cpuset silently refuses or restricts",
        fix: &[],
        source: "practice",
        profiles: EVERY,
    },
    Rule {
        id: "other-tasks",
        title: "Programs that may use the CPUs of the real-time work",
        facts: &[TASKS, TASK_STATUS],
        expect: Judge(other_tasks),
        severity: High,
        why: "they bring cache misses, system calls and kernel work to these CPUs",
        fix: &[Do("isolate CPU {cpus}: cgroup v2 cpuset.cpus.partition=isolated, or boot with isolcpus={cpus}")],
        source: "KK",
        profiles: EVERY,
    },
    Rule {
        id: "higher-priority",
        title: "Programs of the highest real-time priorities (95 and above)",
        facts: &[TASKS],
        expect: Judge(higher_priority),
        severity: High,
        why: "a thread of the same or a higher priority runs first",
        fix: &[Do("lower their priority, or give the real-time work a CPU of its own")],
        source: "PREEMPT_RT HOWTO",
        profiles: EVERY,
    },
    Rule {
        id: "kernel-threads",
        title: "Priorities of the kernel's threads",
        facts: &[TASKS],
        expect: Show(kernel_threads),
        severity: Medium,
        why: "too low they starve; above the real-time work they preempt it",
        fix: &[],
        source: "tuned realtime-virtual-host",
        profiles: EVERY,
    },
    Rule {
        id: "sched-ext",
        title: "Scheduler loaded as BPF (sched_ext)",
        facts: &[],
        expect: OneOf { path: "/sys/kernel/sched_ext/state", values: &["disabled"], absent: "this kernel has no sched_ext" },
        severity: Info,
        why: "ordinary threads follow rules that the kernel's developers have not tested",
        fix: &[Do("end the program that loaded it")],
        source: "practice",
        profiles: EVERY,
    },
    Rule {
        id: "core-scheduling",
        title: "Threads that share their core only with threads of the same cookie (core scheduling)",
        facts: &["@core_cookies"],
        expect: Judge(|facts| match facts.maybe("@core_cookies")? {
            None => Missing::not_here("no hyperthreads, or a kernel without core scheduling"),
            Some("") => Answer::good("none"),
            Some(names) => Answer::bad(names.replace('\n', ", ")),
        }),
        severity: Info,
        why: "while one of them runs, the sibling of its core stays idle, even if tasks wait there",
        fix: &[Do("end the programs named, or start them without a cookie (prctl PR_SCHED_CORE)")],
        source: "Documentation/admin-guide/hw-vuln/core-scheduling.rst",
        profiles: EVERY,
    },
];

fn throttling(facts: &Facts) -> Judged {
    let runtime = facts.number("/proc/sys/kernel/sched_rt_runtime_us")?;
    let period = facts.number("/proc/sys/kernel/sched_rt_period_us")?;
    match runtime {
        -1 => Answer::good("off"),
        _ => Answer::is(runtime >= period, format!("{runtime} us of each {period} us")),
    }
}

fn fair_server(facts: &Facts) -> Judged {
    const RUNTIME: &str = "/sys/kernel/debug/sched/fair_server/*/runtime";
    if facts.is_older_than((6, 12)) {
        return Missing::not_here("kernels before 6.12 have none");
    }
    let all = facts.some(RUNTIME)?;
    let ext = facts.all("/sys/kernel/debug/sched/ext_server/*/runtime"); // that of sched_ext, in newer kernels
    let found = match ext.is_empty() {
        true => format!("runtime {} ns", shown(&all)),
        false => format!("runtime {} ns; of sched_ext {} ns", shown(&all), shown(&ext)),
    };
    Answer::is(all.iter().chain(&ext).all(|(_, ns)| *ns == "0"), found)
}

fn rt_groups(facts: &Facts) -> Judged {
    if facts.config("RT_GROUP_SCHED")? == "n" {
        return Answer::good("not built in");
    }
    // Since 6.16, rt_group_sched=0 disables them at boot.
    if facts.boot("rt_group_sched").is_ok_and(|value| matches!(value, Some("0" | "no" | "off"))) {
        return Answer::good("switched off by rt_group_sched=0");
    }
    let own = facts.text("/proc/self/cgroup")?.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == "cpu").then(|| path.trim_matches('/'))
    });
    let Some(own) = own else {
        return Answer::good("built in, and no cgroup v1 hierarchy divides real-time budgets");
    };
    let file = format!("/sys/fs/cgroup/cpu/{own}/cpu.rt_runtime_us").replace("//", "/");
    let budget = facts.number(&file)?;
    Answer::is(budget != 0, format!("{file} is {budget}"))
}

fn privilege(facts: &Facts) -> Judged {
    let status = facts.text(STATUS)?;
    let set =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    let set = set.ok_or_else(|| Missing::Unknown(format!("{STATUS} has no CapEff")))?;
    let has = |bit: u32| set >> bit & 1 == 1; // include/uapi/linux/capability.h
    let limits = facts.text(LIMITS)?;
    let soft = |name: &str| {
        let line = limits.lines().find_map(|line| line.strip_prefix(name))?;
        let word = line.split_ascii_whitespace().next()?;
        Some(word.parse::<u64>().unwrap_or(u64::MAX)) // "unlimited"
    };
    let mut lacking = Vec::new();
    if !has(23) && soft("Max realtime priority").unwrap_or(0) == 0 {
        lacking.push("no CAP_SYS_NICE and RLIMIT_RTPRIO 0");
    }
    if !has(14) && soft("Max locked memory").unwrap_or(0) < 256 << 20 {
        lacking.push("no CAP_IPC_LOCK and a low RLIMIT_MEMLOCK");
    }
    if soft("Max realtime timeout").is_some_and(|us| us != u64::MAX) {
        lacking.push("RLIMIT_RTTIME is set");
    }
    Answer::is(lacking.is_empty(), if lacking.is_empty() { "granted".to_owned() } else { lacking.join(", ") })
}

fn container(facts: &Facts) -> Known<String> {
    let status = facts.text(STATUS)?;
    let seccomp = status.lines().find_map(|line| line.strip_prefix("Seccomp:")).map_or("unknown", str::trim);
    let group = facts.text("/proc/self/cgroup").unwrap_or("unknown");
    let group = group.lines().last().and_then(|line| line.rsplit(':').next()).unwrap_or("unknown");
    let cpus = facts
        .text("/sys/fs/cgroup/cpuset.cpus.effective")
        .map_or(String::new(), |cpus| format!(", cpuset {cpus}"));
    Ok(format!("seccomp mode {seccomp}, control group {group}{cpus}"))
}

fn other_tasks(facts: &Facts) -> Judged {
    facts.some(TASKS)?;
    facts.some(TASK_STATUS)?;
    if facts.housekeeping().is_empty() {
        return Answer::reported(
            "real-time work and everything else share all CPUs (no CPU chosen with -c, none isolated)",
        );
    }
    let mine = |thread: &Thread| {
        !thread.kernel
            && thread.comm != "lathunt"
            && thread
                .allowed
                .as_ref()
                .is_some_and(|allowed| allowed.iter().any(|cpu| facts.cpus.contains(cpu)))
    };
    let mut names: Vec<&str> = Vec::new();
    let mut count = 0;
    for thread in facts.threads().iter().filter(|thread| mine(thread)) {
        count += 1;
        if !names.contains(&thread.comm) {
            names.push(thread.comm);
        }
    }
    names.truncate(6);
    match count {
        0 => Answer::good("none"),
        _ => Answer::bad(format!("{count} threads ({})", names.join(", "))),
    }
}

fn higher_priority(facts: &Facts) -> Judged {
    facts.some(TASKS)?;
    let high = |thread: &&Thread| {
        !thread.kernel && thread.is_realtime() && (thread.policy == 6 || thread.rt_priority >= 95)
    };
    let threads = facts.threads();
    let found: Vec<String> = threads
        .iter()
        .filter(high)
        .take(8)
        .map(|thread| match thread.policy {
            6 => format!("{}/{} (deadline)", thread.comm, thread.tid),
            _ => format!("{}/{} ({})", thread.comm, thread.tid, thread.rt_priority),
        })
        .collect();
    Answer::is(found.is_empty(), if found.is_empty() { "none".to_owned() } else { found.join(", ") })
}

fn kernel_threads(facts: &Facts) -> Known<String> {
    facts.some(TASKS)?;
    let threads = facts.threads();
    let kinds = ["ksoftirqd/", "ktimers/", "rcuc/", "rcub/", "rcu_preempt", "irq/", "migration/"];
    let shown = |kind: &str| {
        let mut of: Vec<i64> =
            threads.iter().filter(|t| t.kernel && t.comm.starts_with(kind)).map(|t| t.rt_priority).collect();
        of.sort_unstable();
        let (first, last) = (*of.first()?, *of.last()?);
        let range = if first == last { first.to_string() } else { format!("{first} to {last}") };
        Some(format!("{} {range}", kind.trim_end_matches('/')))
    };
    let found: Vec<String> = kinds.into_iter().filter_map(shown).collect();
    match found.is_empty() {
        true => Missing::unknown("no kernel thread is visible (a container?)"),
        false => Ok(format!("{} (0: ordinary)", found.join(", "))),
    }
}

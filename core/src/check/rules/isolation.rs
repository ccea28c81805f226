//! Which CPUs are reserved for the real-time workload, and what still runs on them.
//!
//! Whether a machine needs isolated CPUs depends on its workload: most rules here are findings for busy-polling and
//! network profiles and only reported for others.

use super::super::facts::{Facts, Known};
use super::super::rule::Expect::{Judge, Show};
use super::super::rule::Fix::{Boot, Do, Run};
use super::super::rule::Severity::{Fatal, High, Medium};
use super::super::rule::{Answer, Judged, Missing, Profile, Rule};
use super::{running, shown, EVERY, TASKS};
use crate::cpuset::CpuSet;
use crate::time::Cpu;

const ONLINE: &str = "/sys/devices/system/cpu/online";
const ISOLATED: &str = "/sys/devices/system/cpu/isolated";
const NOHZ_FULL: &str = "/sys/devices/system/cpu/nohz_full";
const NODES: &str = "/sys/devices/system/node/node*/cpulist";
const RCU_PRIORITY: &str = "/sys/module/rcutree/parameters/kthread_prio";
const RCU_PATIENCE: &str = "/sys/module/rcutree/parameters/nohz_full_patience_delay";
const BALANCE_CONFIGS: [&str; 2] = ["/etc/default/irqbalance", "/etc/sysconfig/irqbalance"];
const POLLING: &[Profile] = &[Profile::BusyPoll, Profile::Network];

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "isolcpus",
        title: "CPUs taken out of load balancing at boot",
        facts: &[ISOLATED, ONLINE, "/proc/cmdline"],
        expect: Judge(isolcpus),
        severity: Medium,
        why: "the scheduler moves other work onto CPUs that it balances",
        fix: &[Boot("isolcpus=managed_irq,domain,{cpus}")],
        source: "CI; tuned realtime",
        profiles: POLLING,
    },
    Rule {
        id: "cpuset-partition",
        title: "CPUs taken out of load balancing at run time (cgroup v2)",
        facts: &["/sys/fs/cgroup/cpuset.cpus.isolated", "/sys/fs/cgroup/*/cpuset.cpus.partition", ISOLATED],
        expect: Judge(partition),
        severity: Medium,
        why: "an isolated partition can be made and undone without a boot",
        fix: &[Run("mkdir -p /sys/fs/cgroup/rt && echo +cpuset > /sys/fs/cgroup/cgroup.subtree_control && echo {cpus} > /sys/fs/cgroup/rt/cpuset.cpus && echo isolated > /sys/fs/cgroup/rt/cpuset.cpus.partition")],
        source: "CI",
        profiles: POLLING,
    },
    Rule {
        id: "nohz-full",
        title: "CPUs without a tick while busy (nohz_full)",
        facts: &[NOHZ_FULL, ISOLATED, ONLINE],
        expect: Judge(nohz_full),
        severity: Medium,
        why: "it saves busy-polling work the tick, and makes every system call of other work slower",
        fix: &[Boot("nohz_full={cpus}")],
        source: "KC; CI",
        profiles: EVERY,
    },
    Rule {
        id: "rcu-nocbs",
        title: "RCU callbacks moved off the CPUs (rcu_nocbs)",
        facts: &["/proc/cmdline", NOHZ_FULL, ISOLATED, ONLINE],
        expect: Judge(rcu_nocbs),
        severity: Medium,
        why: "callbacks of RCU run as softirqs on the CPU that queued them",
        fix: &[Boot("rcu_nocbs={cpus}")],
        source: "tuned realtime-virtual-host; KK",
        profiles: POLLING,
    },
    Rule {
        id: "rcu-options",
        title: "No expedited RCU grace periods (rcu_normal)",
        facts: &["/sys/kernel/rcu_normal", "/proc/cmdline", "/sys/kernel/realtime", "CONFIG_PREEMPT_RT", "CONFIG_PREEMPT_RT_FULL", "CONFIG_ARCH_SUPPORTS_RT", "/proc/sys/kernel/version"],
        expect: Judge(rcu_options),
        severity: Medium,
        why: "expedited grace periods interrupt every CPU",
        fix: &[Run("echo 1 > /sys/kernel/rcu_normal"), Boot("rcupdate.rcu_normal_after_boot=1")],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "rcu-priority",
        title: "Priority and patience delay of RCU",
        facts: &[RCU_PRIORITY, RCU_PATIENCE],
        expect: Show(rcu_priority),
        severity: Medium,
        why: "callbacks below the priority of the real-time work starve while it does not sleep; above it they preempt it",
        fix: &[],
        source: "tuned realtime-virtual-host; KP",
        profiles: EVERY,
    },
    Rule {
        id: "housekeeping",
        title: "CPUs left for everything else, on each memory node",
        facts: &[ONLINE, ISOLATED, NODES],
        expect: Judge(housekeeping),
        severity: Fatal,
        why: "interrupts, workers and the user's shell need a CPU, or the machine stalls",
        fix: &[Do("isolate fewer CPUs")],
        source: "CI",
        profiles: EVERY,
    },
    Rule {
        id: "irq-affinity",
        title: "Interrupts on the CPUs of the real-time work",
        facts: &["/proc/irq/*/effective_affinity_list", "/proc/irq/*/smp_affinity_list", "/proc/irq/default_smp_affinity", ONLINE, ISOLATED],
        expect: Judge(irq_affinity),
        severity: High,
        why: "each hard interrupt stops the thread that is running there",
        fix: &[
            Run("for f in /proc/irq/*/smp_affinity_list; do echo {housekeeping} > \"$f\"; done"),
            Run("echo {housekeeping_mask} > /proc/irq/default_smp_affinity"),
            Boot("irqaffinity={housekeeping}"),
        ],
        source: "CI; rt-conf",
        profiles: EVERY,
    },
    Rule {
        id: "irqbalance",
        title: "irqbalance",
        facts: &[TASKS, BALANCE_CONFIGS[0], BALANCE_CONFIGS[1], ONLINE, ISOLATED],
        expect: Judge(irqbalance),
        severity: High,
        why: "it moves interrupts back onto the CPUs of the real-time work",
        fix: &[Run("systemctl disable --now irqbalance"), Do("or ban the CPUs: IRQBALANCE_BANNED_CPULIST={cpus}")],
        source: "tuned realtime",
        profiles: EVERY,
    },
    Rule {
        id: "workqueues",
        title: "CPUs of the kernel's workqueues",
        facts: &["/sys/devices/virtual/workqueue/cpumask", "/sys/devices/virtual/workqueue/*/cpumask", ONLINE, ISOLATED],
        expect: Judge(workqueues),
        severity: Medium,
        why: "work of the kernel runs on the CPUs of the real-time work",
        fix: &[Run("echo {housekeeping_mask} > /sys/devices/virtual/workqueue/cpumask")],
        source: "tuned realtime",
        profiles: EVERY,
    },
    Rule {
        id: "service-cpus",
        title: "CPUs of system services (systemd CPUAffinity)",
        facts: &["/etc/systemd/system.conf", "/etc/systemd/system.conf.d/*.conf", ONLINE, ISOLATED],
        expect: Judge(service_cpus),
        severity: Medium,
        why: "services run on all CPUs that systemd allows",
        fix: &[Do("set CPUAffinity={housekeeping} in /etc/systemd/system.conf and boot")],
        source: "tuned cpu-partitioning",
        profiles: POLLING,
    },
];

/// The CPUs of the real-time workload, or the reason why none are isolated.
fn set_apart(facts: &Facts) -> Known<CpuSet> {
    match facts.online.is_empty() {
        true => Err(Missing::Absent(ONLINE.to_owned())),
        false if facts.housekeeping().is_empty() => Err(Missing::DoesNotApply(
            "no CPUs are set apart for real-time work (isolated, or named with -c)".to_owned(),
        )),
        false => Ok(facts.cpus.clone()),
    }
}

fn list(cpus: &CpuSet) -> String {
    if cpus.is_empty() {
        "none".to_owned()
    } else {
        cpus.to_string()
    }
}

fn isolcpus(facts: &Facts) -> Judged {
    let isolated = facts.cpu_list(ISOLATED)?;
    let flags = facts.boot("isolcpus").ok().flatten().unwrap_or_default();
    let mut found = format!("isolated: {}", list(&isolated));
    // Without this flag, storage and network queues send their interrupts there.
    if !isolated.is_empty() && !flags.split(',').any(|word| word == "managed_irq") {
        found.push_str(", but not from managed interrupts (isolcpus=managed_irq,…)");
    }
    Answer::is(!isolated.is_empty() && facts.cpus.minus(&isolated).is_empty(), found)
}

fn partition(facts: &Facts) -> Judged {
    let isolated = facts.maybe("/sys/fs/cgroup/cpuset.cpus.isolated")?;
    let Some(isolated) = isolated else {
        return Missing::not_here("no cgroup v2 with cpuset partitions");
    };
    let found =
        if isolated.is_empty() { "none isolated".to_owned() } else { format!("isolated: {isolated}") };
    let booted = facts.cpu_list(ISOLATED).is_ok_and(|cpus| !cpus.is_empty());
    Answer::is(
        !isolated.is_empty() || booted,
        if booted { format!("{found}; isolcpus= does the same") } else { found },
    )
}

fn nohz_full(facts: &Facts) -> Judged {
    let cpus = facts.cpu_list(NOHZ_FULL).or_else(|missing| match facts.maybe(NOHZ_FULL)? {
        None if facts.absence_means_something() => Ok(CpuSet::default()), // not built in
        _ => Err(missing),
    })?;
    let found = format!("nohz_full: {}", list(&cpus));
    match facts.profile {
        Profile::BusyPoll => Answer::is(!cpus.is_empty() && facts.cpus.minus(&cpus).is_empty(), found),
        Profile::Periodic | Profile::Audio if !cpus.is_empty() => {
            Answer::reported(format!("{found} (no benefit for threads that sleep)"))
        }
        Profile::Periodic | Profile::Audio => Answer::good(found),
        Profile::Network => Answer::reported(found),
    }
}

fn rcu_nocbs(facts: &Facts) -> Judged {
    let cpus = set_apart(facts)?;
    let wide = |value: &str| matches!(value, "" | "all");
    let booted = facts.boot("rcu_nocbs")?;
    let ticks = facts.cpu_list(NOHZ_FULL).unwrap_or_default(); // nohz_full= implies it
    let named = booted.and_then(|value| value.parse::<CpuSet>().ok()).unwrap_or_default();
    let covered =
        booted.is_some_and(wide) || cpus.iter().all(|cpu| named.contains(cpu) || ticks.contains(cpu));
    Answer::is(
        covered,
        booted.map_or("rcu_nocbs is not set".to_owned(), |value| format!("rcu_nocbs={value}")),
    )
}

fn rcu_options(facts: &Facts) -> Judged {
    let normal = facts.number("/sys/kernel/rcu_normal")?;
    let by_kernel = super::super::answers::realtime(facts).0 == Some(true);
    let found = match (normal, by_kernel) {
        (0, true) => "rcu_normal is 0; PREEMPT_RT sets it after boot, so it was reset since".to_owned(),
        (normal, _) => format!("rcu_normal is {normal}"),
    };
    Answer::is(normal == 1, found)
}

fn housekeeping(facts: &Facts) -> Judged {
    let isolated = facts.cpu_list(ISOLATED)?;
    let online = facts.cpu_list(ONLINE)?;
    let left = online.minus(&isolated);
    let found = format!("{} of {} CPUs: {}", left.len(), online.len(), list(&left));
    // A memory-only node has no CPUs.
    let bare = facts.all(NODES).into_iter().find_map(|(path, cpus)| {
        let cpus: CpuSet = cpus.parse().ok()?;
        let without = cpus.meets(&online) && !cpus.meets(&left);
        without.then(|| path.split('/').nth(5).unwrap_or("a node"))
    });
    match bare {
        Some(node) if !left.is_empty() => Answer::bad(format!("{found}; none on {node}")),
        _ => Answer::is(!left.is_empty(), found),
    }
}

fn rcu_priority(facts: &Facts) -> Known<String> {
    let Some(priority) = facts.maybe(RCU_PRIORITY)? else {
        return Missing::not_here("this kernel does not show it");
    };
    let patience =
        facts.text(RCU_PATIENCE).map_or(String::new(), |ms| format!(", nohz_full_patience_delay {ms} ms"));
    Ok(format!("kthread_prio {priority}{patience}"))
}

/// A daemon that is configured to avoid these CPUs is harmless.
fn irqbalance(facts: &Facts) -> Judged {
    if running(facts, &["irqbalance"])?.is_empty() {
        return Answer::good("not running");
    }
    let apart = facts.housekeeping();
    let banned = BALANCE_CONFIGS.iter().find_map(|file| {
        let text = facts.text(file).ok()?;
        let value = text.lines().find_map(|line| line.trim().strip_prefix("IRQBALANCE_BANNED_CPULIST="))?;
        value.trim_matches(['"', '\'']).parse::<CpuSet>().ok()
    });
    match banned {
        Some(banned) if !apart.is_empty() && facts.cpus.minus(&banned).is_empty() => {
            Answer::good(format!("running, and banned from CPU {banned}"))
        }
        Some(banned) => Answer::bad(format!("running, banned from CPU {} only", list(&banned))),
        None => Answer::bad("running"),
    }
}

fn irq_affinity(facts: &Facts) -> Judged {
    let cpus = set_apart(facts)?;
    let mut files = facts.all("/proc/irq/*/effective_affinity_list");
    if files.is_empty() {
        files = facts.some("/proc/irq/*/smp_affinity_list")?; // the same for lines that never fired
    }
    let there = |text: &str| text.parse::<CpuSet>().is_ok_and(|set| set.iter().any(|cpu| cpus.contains(cpu)));
    let lines: Vec<&str> =
        files.iter().filter(|(_, text)| there(text)).filter_map(|(path, _)| path.split('/').nth(3)).collect();
    match lines.is_empty() {
        true => Answer::good(format!("none of {} lines goes to CPU {cpus}", files.len())),
        false => Answer::bad(format!(
            "{} of {} lines go to CPU {cpus}: {}",
            lines.len(),
            files.len(),
            first(&lines)
        )),
    }
}

fn first(lines: &[&str]) -> String {
    let more = if lines.len() > 8 { ", …" } else { "" };
    format!("{}{more}", lines[..lines.len().min(8)].join(", "))
}

fn workqueues(facts: &Facts) -> Judged {
    let cpus = set_apart(facts)?;
    facts.text("/sys/devices/virtual/workqueue/cpumask")?;
    let mut all = facts.all("/sys/devices/virtual/workqueue/cpumask");
    all.extend(facts.all("/sys/devices/virtual/workqueue/*/cpumask"));
    let there = |text: &str| in_mask(text).is_some_and(|set| set.iter().any(|cpu| cpus.contains(*cpu)));
    let wide: Vec<&str> = all.iter().filter(|(_, mask)| there(mask)).map(|(path, _)| owner(path)).collect();
    match wide.is_empty() {
        true => Answer::good(shown(&all[..1])),
        false => Answer::bad(format!("CPU {cpus} is allowed to {}", first(&wide))),
    }
}

/// `…/workqueue/writeback/cpumask` → `writeback`.
fn owner(path: &str) -> &str {
    match path.rsplit('/').nth(1) {
        Some("workqueue") | None => "all unbound work",
        Some(name) => name,
    }
}

/// CPUs of a mask in hexadecimal words, the highest first.
fn in_mask(text: &str) -> Option<Vec<Cpu>> {
    let mut cpus = Vec::new();
    for (index, word) in text.trim().rsplit(',').enumerate() {
        let bits = u32::from_str_radix(word, 16).ok()?;
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| Cpu(index as u32 * 32 + bit)));
    }
    Some(cpus)
}

fn service_cpus(facts: &Facts) -> Judged {
    let cpus = set_apart(facts)?;
    let mut files = facts.all("/etc/systemd/system.conf");
    files.extend(facts.all("/etc/systemd/system.conf.d/*.conf"));
    if files.is_empty() && facts.absence_means_something() {
        return Missing::not_here("no systemd configuration");
    }
    let set = files
        .iter()
        .rev()
        .find_map(|(_, text)| text.lines().find_map(|line| line.trim().strip_prefix("CPUAffinity=")));
    let Some(set) = set else { return Answer::bad("CPUAffinity is not set") };
    let services: CpuSet = set
        .replace(' ', ",")
        .parse()
        .map_err(|_| Missing::Unknown(format!("CPUAffinity={set} is not a CPU list")))?;
    let apart = !services.iter().any(|cpu| cpus.contains(cpu));
    Answer::is(apart, format!("CPUAffinity={set}"))
}

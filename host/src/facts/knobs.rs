//! Settings that change latency: clock, governors, idle, throttling, isolation, memory, watchdogs.

use std::collections::BTreeMap;

use lathunt_core::conditions::Knobs;
use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Cpu;

use super::idle;
use crate::debugfs;
use crate::tree::Tree;

/// Files kept by path in `other`, if they exist.
const OTHER: [&str; 40] = [
    "proc/irq/default_smp_affinity",
    "proc/loadavg",
    "proc/sys/kernel/bpf_stats_enabled",
    "proc/sys/kernel/hung_task_timeout_secs",
    "proc/sys/kernel/kptr_restrict",
    "proc/sys/kernel/nmi_watchdog",
    "proc/sys/kernel/numa_balancing",
    "proc/sys/kernel/perf_event_paranoid",
    "proc/sys/kernel/printk",
    "proc/sys/kernel/sched_autogroup_enabled",
    "proc/sys/kernel/soft_watchdog",
    "proc/sys/kernel/split_lock_mitigate",
    "proc/sys/kernel/tainted",
    "proc/sys/kernel/timer_migration",
    "proc/sys/kernel/watchdog",
    "proc/sys/kernel/watchdog_cpumask",
    "proc/sys/kernel/watchdog_thresh",
    "proc/sys/net/core/busy_poll",
    "proc/sys/net/core/busy_read",
    "proc/sys/vm/compact_unevictable_allowed",
    "proc/sys/vm/compaction_proactiveness",
    "proc/sys/vm/stat_interval",
    "proc/sys/vm/swappiness",
    "sys/devices/system/clocksource/clocksource0/available_clocksource",
    "sys/devices/system/cpu/cpufreq/boost",
    "sys/devices/system/cpu/cpuidle/current_driver",
    "sys/devices/system/cpu/cpuidle/current_governor",
    "sys/devices/system/cpu/intel_pstate/no_turbo",
    "sys/devices/system/cpu/intel_pstate/status",
    "sys/devices/system/cpu/isolated",
    "sys/devices/system/cpu/nohz_full",
    "sys/devices/system/machinecheck/machinecheck0/check_interval",
    "sys/devices/virtual/workqueue/cpumask",
    "sys/kernel/mm/ksm/run",
    "sys/kernel/mm/transparent_hugepage/defrag",
    "sys/kernel/mm/transparent_hugepage/enabled",
    "sys/kernel/rcu_expedited",
    "sys/kernel/rcu_normal",
    "sys/kernel/sched_ext/state",
    "sys/module/pcie_aspm/parameters/policy",
];

/// Boot parameters kept in `other` by name, because no file shows them.
const PARAMETERS: [&str; 15] = [
    "isolcpus",
    "nohz_full",
    "rcu_nocbs",
    "irqaffinity",
    "threadirqs",
    "skew_tick",
    "idle",
    "processor.max_cstate",
    "intel_idle.max_cstate",
    "tsc",
    "clocksource",
    "mitigations",
    "nosmt",
    "rcutree.kthread_prio",
    "efi",
];

/// Reads the settings; the idle states are those of the first CPU of `measured`.
#[must_use]
pub fn read(tree: &Tree, measured: &CpuSet) -> Knobs {
    let first = measured.iter().next().unwrap_or(Cpu(0));
    Knobs {
        clocksource: tree.expected("sys/devices/system/clocksource/clocksource0/current_clocksource"),
        governors: governors(tree),
        idle_states: idle::states(tree, first),
        cpu_dma_latency_us: idle::allowed_latency_us(tree),
        cpu_dma_latency_held_us: None,
        cpu_dma_latency_holders: idle::holders(tree),
        rt_runtime_us: tree.number("proc/sys/kernel/sched_rt_runtime_us"),
        rt_period_us: tree.number("proc/sys/kernel/sched_rt_period_us"),
        fair_server: fair_server(tree, measured),
        other: other(tree),
    }
}

/// CPU lists by governor.
fn governors(tree: &Tree) -> BTreeMap<String, String> {
    let mut by_governor: BTreeMap<String, Vec<Cpu>> = BTreeMap::new();
    for cpu in tree.cpus() {
        if let Some(governor) =
            tree.text(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"))
        {
            by_governor.entry(governor).or_default().push(cpu);
        }
    }
    let list = |cpus: Vec<Cpu>| cpus.into_iter().collect::<CpuSet>().to_string();
    by_governor.into_iter().map(|(governor, cpus)| (list(cpus), governor)).collect()
}

/// Time reserved for fair tasks against real-time ones (since 6.12), `runtime/period` in ns by CPU.
fn fair_server(tree: &Tree, measured: &CpuSet) -> BTreeMap<String, String> {
    let of = |cpu: Cpu| {
        let runtime = debugfs::read(tree, &format!("sched/fair_server/cpu{cpu}/runtime"))?;
        let period = debugfs::read(tree, &format!("sched/fair_server/cpu{cpu}/period"))?;
        Some((cpu.to_string(), format!("{runtime}/{period}")))
    };
    // One refusal is enough: all CPUs of a large machine would give the same error.
    let mut cpus = measured.iter();
    let Some(first) = cpus.next().and_then(of) else { return BTreeMap::new() };
    std::iter::once(first).chain(cpus.filter_map(of)).collect()
}

fn other(tree: &Tree) -> BTreeMap<String, String> {
    let mut found: BTreeMap<String, String> =
        OTHER.iter().filter_map(|&path| Some((format!("/{path}"), tree.text(path)?))).collect();
    if let Some(swaps) = tree.text("proc/swaps") {
        let names: Vec<&str> =
            swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
        found.insert(
            "/proc/swaps".to_owned(),
            if names.is_empty() { "none".to_owned() } else { names.join(" ") },
        );
    }
    let command_line = tree.text("proc/cmdline").unwrap_or_default();
    // Words after "--" are for init, not the kernel.
    for word in command_line.split_ascii_whitespace().take_while(|&word| word != "--") {
        let (name, value) = word.split_once('=').unwrap_or((word, "set"));
        if PARAMETERS.contains(&name) {
            found.insert(format!("boot parameter {name}"), value.to_owned());
        }
    }
    found
}

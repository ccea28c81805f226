//! Memory: what moves, merges, compacts or swaps pages under a running program.

use super::super::facts::{chosen, Facts};
use super::super::rule::Expect::{Judge, OneOf, Report, Show, Within};
use super::super::rule::Fix::{Boot, Do, Run};
use super::super::rule::Severity::{High, Info, Medium};
use super::super::rule::{Answer, Judged, Missing, Rule};
use super::EVERY;

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "swap",
        title: "Swap space",
        facts: &["/proc/swaps", "/proc/sys/vm/swappiness"],
        expect: Judge(swap),
        severity: Medium,
        why: "memory that is not locked takes milliseconds to read back from disk",
        fix: &[Run("swapoff -a"), Run("sysctl -w vm.swappiness=10")],
        source: "realtimeconfigquickscan; tuned latency-performance",
        profiles: EVERY,
    },
    Rule {
        id: "huge-pages",
        title: "Transparent huge pages",
        facts: &[THP],
        expect: Judge(|facts| match facts.maybe(THP)? {
            None => Missing::not_here("not built in"),
            Some(text) => Answer::is(chosen(text) == "never", chosen(text)),
        }),
        severity: Medium,
        why: "khugepaged compacts memory and interrupts every CPU to flush its address translation",
        fix: &[
            Run("echo never > /sys/kernel/mm/transparent_hugepage/enabled"),
            Boot("transparent_hugepage=never"),
        ],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "ksm",
        title: "Merging of equal pages (KSM)",
        facts: &[],
        expect: OneOf { path: "/sys/kernel/mm/ksm/run", values: &["0", "2"], absent: "not built in" },
        severity: Medium,
        why: "a merged page faults at the next write",
        fix: &[Run("echo 2 > /sys/kernel/mm/ksm/run")],
        source: "tuned realtime-virtual-host",
        profiles: EVERY,
    },
    Rule {
        id: "numa-balancing",
        title: "Balancing of memory between nodes",
        facts: &[],
        expect: OneOf { path: "/proc/sys/kernel/numa_balancing", values: &["0"], absent: "not built in" },
        severity: Medium,
        why: "it unmaps pages on purpose to see which CPU uses them",
        fix: &[Run("sysctl -w kernel.numa_balancing=0")],
        source: "tuned network-latency",
        profiles: EVERY,
    },
    Rule {
        id: "compaction",
        title: "Proactive compaction",
        facts: &[],
        expect: OneOf {
            path: "/proc/sys/vm/compaction_proactiveness",
            values: &["0"],
            absent: "not built in",
        },
        severity: Medium,
        why: "moves pages in the background; a thread that touches such a page waits",
        fix: &[Run("sysctl -w vm.compaction_proactiveness=0")],
        source: "xenomai kconf-checklist; practice",
        profiles: EVERY,
    },
    Rule {
        id: "locked-pages",
        title: "Compaction of locked memory",
        facts: &[],
        expect: OneOf {
            path: "/proc/sys/vm/compact_unevictable_allowed",
            values: &["0"],
            absent: "not built in",
        },
        severity: Medium,
        why: "even pages locked by mlock are moved, and fault",
        fix: &[Run("sysctl -w vm.compact_unevictable_allowed=0")],
        source: "practice (0 is the default of PREEMPT_RT)",
        profiles: EVERY,
    },
    Rule {
        id: "page-migration",
        title: "Page migration",
        facts: &["CONFIG_MIGRATION"],
        expect: Show(|facts| {
            let built = facts.config("MIGRATION")? != "n";
            Ok(if built { "built in".to_owned() } else { "not built in".to_owned() })
        }),
        severity: Info,
        why: "pages in use can be moved (compaction, memory nodes, cpusets); a thread that touches such a page waits",
        fix: &[],
        source: "xenomai kconf-checklist",
        profiles: EVERY,
    },
    Rule {
        id: "numa-nodes",
        title: "Memory nodes",
        facts: &[],
        expect: Report { path: "/sys/devices/system/node/online", absent: "one node" },
        severity: Info,
        why: "memory of another node takes twice as long: allocate on the node of the CPU",
        fix: &[],
        source: "rt-tests",
        profiles: EVERY,
    },
    Rule {
        id: "dirty-limit",
        title: "Unwritten file data",
        facts: &["/proc/sys/vm/dirty_bytes", "/proc/sys/vm/dirty_ratio"],
        expect: Judge(dirty),
        severity: Info,
        why: "the more data may wait, the longer a flush keeps disks and workers busy",
        fix: &[Run("sysctl -w vm.dirty_ratio=10")],
        source: "tuned latency-performance",
        profiles: EVERY,
    },
    Rule {
        id: "vmstat",
        title: "Collection of memory statistics",
        facts: &[],
        expect: Within { path: "/proc/sys/vm/stat_interval", min: 10, max: i64::MAX, absent: "not built in" },
        severity: Medium,
        why: "a kernel worker runs on every CPU at this interval (seconds)",
        fix: &[Run("sysctl -w vm.stat_interval=10")],
        source: "tuned network-latency; KK",
        profiles: EVERY,
    },
    Rule {
        id: "memory-locking",
        title: "Memory that this process may lock",
        facts: &["/proc/self/limits", "/proc/self/status"],
        expect: Judge(lockable),
        severity: High,
        why: "memory that is not locked faults in the middle of the work",
        fix: &[Do("raise memlock in /etc/security/limits.conf, and call mlockall in the program")],
        source: "CI; PREEMPT_RT HOWTO",
        profiles: EVERY,
    },
];

fn swap(facts: &Facts) -> Judged {
    let swaps = facts.text("/proc/swaps")?;
    let names: Vec<&str> = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    let swappiness = facts.text("/proc/sys/vm/swappiness").unwrap_or("unknown");
    match names.is_empty() {
        true => Answer::good("none"),
        false => Answer::bad(format!("{} (swappiness {swappiness})", names.join(", "))),
    }
}

fn dirty(facts: &Facts) -> Judged {
    let bytes = facts.number("/proc/sys/vm/dirty_bytes")?;
    let ratio = facts.number("/proc/sys/vm/dirty_ratio")?;
    match bytes {
        0 => Answer::is(ratio <= 10, format!("up to {ratio} % of memory")),
        _ => Answer::good(format!("up to {bytes} bytes")),
    }
}

fn lockable(facts: &Facts) -> Judged {
    let limits = facts.text("/proc/self/limits")?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    let word = line.and_then(|line| line.split_ascii_whitespace().next());
    let word =
        word.ok_or_else(|| Missing::Unknown("/proc/self/limits has no 'Max locked memory'".to_owned()))?;
    let status = facts.text("/proc/self/status")?;
    let set =
        status.lines().find_map(|line| u64::from_str_radix(line.strip_prefix("CapEff:")?.trim(), 16).ok());
    const CAP_IPC_LOCK: u32 = 14;
    match word.parse::<u64>() {
        Err(_) => Answer::good("unlimited"),
        Ok(_) if set.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1) => {
            Answer::good("unlimited by CAP_IPC_LOCK")
        }
        Ok(bytes) => Answer::is(bytes >= 256 << 20, format!("{} KiB", bytes >> 10)),
    }
}

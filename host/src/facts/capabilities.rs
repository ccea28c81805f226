//! What this process may do, and what it lacks without that right.

use std::ffi::OsStr;

use lathunt_core::conditions::Capability;
use procfs::process::{Limits, Status};
use procfs::FromRead;

use crate::tree::Tree;

/// Bits of include/uapi/linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_SYSLOG: u32 = 34;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Every capability that lathunt can use. `search_path` is `$PATH`.
#[must_use]
pub fn read(tree: &Tree, search_path: Option<&OsStr>) -> Vec<Capability> {
    let rights = Rights::read(tree);
    vec![
        root(&rights),
        bpf(tree, &rights),
        btf(tree),
        sched_fifo(tree, &rights),
        mlock(&rights),
        pm_qos(tree),
        tracefs(tree, &rights),
        kernel_log(tree, &rights),
        kernel_symbols(tree, &rights),
        smi_counter(tree),
        stress_ng(search_path),
    ]
}

/// What the kernel grants this process.
struct Rights {
    uid: Option<u32>,
    capabilities: Option<u64>,
    rt_priority_limit: Option<u64>, // u64::MAX: unlimited
    memlock_bytes: Option<u64>,
}

impl Rights {
    fn read(tree: &Tree) -> Rights {
        let noted = |what: &str, error: &dyn std::fmt::Display| tree.note(format!("{what}: {error}"));
        let status =
            Status::from_file(tree.path("proc/self/status")).map_err(|e| noted("/proc/self/status", &e)).ok();
        let limits =
            Limits::from_file(tree.path("proc/self/limits")).map_err(|e| noted("/proc/self/limits", &e)).ok();
        let value = |limit: procfs::process::LimitValue| match limit {
            procfs::process::LimitValue::Unlimited => u64::MAX,
            procfs::process::LimitValue::Value(value) => value,
        };
        Rights {
            uid: status.as_ref().map(|status| status.euid),
            capabilities: status.as_ref().map(|status| status.capeff),
            rt_priority_limit: limits.as_ref().map(|limits| value(limits.max_realtime_priority.soft_limit)),
            memlock_bytes: limits.as_ref().map(|limits| value(limits.max_locked_memory.soft_limit)),
        }
    }

    fn has(&self, capability: u32) -> bool {
        self.capabilities.is_some_and(|set| set >> capability & 1 == 1)
    }
}

/// `lack` is empty if the capability is there.
fn capability(name: &str, lack: impl Into<String>) -> Capability {
    let note = lack.into();
    Capability { name: name.to_owned(), present: note.is_empty(), note }
}

fn root(rights: &Rights) -> Capability {
    let lack = match rights.uid {
        Some(0) => "",
        _ => "not root: each capability is checked separately, and no knob can be changed",
    };
    capability("root", lack)
}

fn bpf(tree: &Tree, rights: &Rights) -> Capability {
    if !(rights.has(CAP_BPF) && rights.has(CAP_PERFMON) || rights.has(CAP_SYS_ADMIN)) {
        return capability(
            "bpf",
            "no CAP_BPF with CAP_PERFMON: no kernel recorder, no calibration, and peaks stay unexplained; run as root \
             or grant both (docs/howto/without-root.md)",
        );
    }
    let lockdown = tree.text("sys/kernel/security/lockdown").unwrap_or_default();
    let confidential = super::kernel::bracketed(&lockdown) == Some("confidentiality");
    let lack = "kernel lockdown is at confidentiality: BPF may not read kernel memory, so no kernel recorder; boot with \
                lockdown=none or integrity";
    capability("bpf", if confidential { lack } else { "" })
}

fn btf(tree: &Tree) -> Capability {
    let there = tree.path("sys/kernel/btf/vmlinux").exists();
    let lack =
        "the kernel has no BTF (CONFIG_DEBUG_INFO_BTF): the BPF recorder cannot load, peaks stay unexplained";
    capability("btf", if there { "" } else { lack })
}

fn sched_fifo(tree: &Tree, rights: &Rights) -> Capability {
    let allowed = rights.has(CAP_SYS_NICE) || rights.rt_priority_limit.is_some_and(|limit| limit > 0);
    if !allowed {
        return capability(
            "sched_fifo",
            "no CAP_SYS_NICE and RLIMIT_RTPRIO 0: measured at SCHED_OTHER, which says nothing about real-time threads; \
             run as root or raise rtprio in /etc/security/limits.conf",
        );
    }
    let lack = match group_budget(tree) {
        Some((file, budget)) if budget <= 0 => format!(
            "RT_GROUP_SCHED: {file} is {budget}, so SCHED_FIFO is refused with EPERM; move to the root cgroup or give \
             this one a budget"
        ),
        _ => String::new(),
    };
    capability("sched_fifo", lack)
}

/// Real-time budget of our own cgroup (v1 `cpu` controller under CONFIG_RT_GROUP_SCHED), µs.
fn group_budget(tree: &Tree) -> Option<(String, i64)> {
    let groups = tree.text("proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        controllers.split(',').any(|name| name == "cpu").then(|| path.trim_matches('/').to_owned())
    })?;
    ["cpu", "cpu,cpuacct"].iter().find_map(|mount| {
        let file = format!("sys/fs/cgroup/{mount}/{own}/cpu.rt_runtime_us").replace("//", "/");
        tree.number(&file).map(|budget| (format!("/{file}"), budget))
    })
}

/// Memory that an instrument locks: its program, libraries, stacks and histograms.
const LOCKED_BYTES: u64 = 256 << 20;

fn mlock(rights: &Rights) -> Capability {
    let there = rights.has(CAP_IPC_LOCK) || rights.memlock_bytes.is_some_and(|limit| limit >= LOCKED_BYTES);
    let lack = "no CAP_IPC_LOCK and a low RLIMIT_MEMLOCK: memory cannot be locked, page faults add latencies of their \
                own; run as root or raise memlock in /etc/security/limits.conf";
    capability("mlock", if there { "" } else { lack })
}

fn pm_qos(tree: &Tree) -> Capability {
    let opened = std::fs::OpenOptions::new().write(true).open(tree.path("dev/cpu_dma_latency"));
    let lack = opened.err().map(|error| {
        format!("/dev/cpu_dma_latency cannot be written ({error}): idle states cannot be limited on request")
    });
    capability("pm_qos", lack.unwrap_or_default())
}

fn tracefs(tree: &Tree, rights: &Rights) -> Capability {
    let mounted = ["sys/kernel/tracing/events", "sys/kernel/debug/tracing/events"];
    let readable = mounted.iter().any(|path| std::fs::read_dir(tree.path(path)).is_ok());
    let known =
        tree.text("proc/filesystems").is_some_and(|list| list.split_whitespace().any(|f| f == "tracefs"));
    let lack = match (readable, known, rights.has(CAP_SYS_ADMIN)) {
        (true, ..) | (_, true, true) => "",
        (_, false, _) => {
            "the kernel has no tracefs: no fallback recorder, no function tracing, no trace marker"
        }
        _ => {
            "tracefs is not readable: no fallback recorder, no function tracing, no trace marker; run as root"
        }
    };
    capability("tracefs", lack)
}

fn kernel_log(tree: &Tree, rights: &Rights) -> Capability {
    let open = tree.text("proc/sys/kernel/dmesg_restrict").as_deref() == Some("0");
    let there = tree.path("dev/kmsg").exists() && (open || rights.has(CAP_SYSLOG));
    let lack = "the kernel's log is not readable (CAP_SYSLOG): throttling, clock trouble and stalls during the run stay \
                unseen";
    capability("kernel_log", if there { "" } else { lack })
}

/// kptr_restrict: 0 shows addresses to processes that may trace, 1 needs CAP_SYSLOG, 2 hides them from all.
fn kernel_symbols(tree: &Tree, rights: &Rights) -> Capability {
    let restricted: u32 = tree.number("proc/sys/kernel/kptr_restrict").unwrap_or(0);
    let there = match restricted {
        0 => {
            rights.has(CAP_SYSLOG)
                || tree.number::<i32>("proc/sys/kernel/perf_event_paranoid").is_some_and(|p| p <= 1)
        }
        1 => rights.has(CAP_SYSLOG),
        _ => false,
    };
    let lack = "kernel symbols are hidden (kptr_restrict, CAP_SYSLOG): stacks and interrupt handlers show as numbers";
    capability("kernel_symbols", if there { "" } else { lack })
}

fn smi_counter(tree: &Tree) -> Capability {
    let there = super::counters::smi_count(tree, lathunt_core::time::Cpu(0)).is_some();
    let lack = "system management interrupts are not countable here (Intel MSR 0x34 through /dev/cpu/*/msr): firmware \
                cannot be distinguished from other hardware causes";
    capability("smi_counter", if there { "" } else { lack })
}

fn stress_ng(search_path: Option<&OsStr>) -> Capability {
    let there = search_path.is_some_and(|path| crate::load::find_program("stress-ng", path).is_some());
    let lack = "stress-ng is not installed: the built-in load is used, which exercises fewer kernel paths; install the \
                package stress-ng";
    capability("stress_ng", if there { "" } else { lack })
}

//! Threads, interrupts and settings of this machine by CPU, read from `/proc` and `/sys`.

use lathunt_core::cpuset::CpuSet;
use lathunt_core::isolate::survey::{CpuFile, CpuSetting, Interrupt, Mask, Survey, Thread};

use super::cgroup;
use crate::error::Result;
use crate::topology::Topology;
use crate::tree::Tree;

/// Reads all of it below `root` (`/` is this machine). Takes some 10 µs for each thread.
///
/// # Errors
/// If the list of online CPUs is not readable.
pub fn read(root: &std::path::Path) -> Result<Survey> {
    let topology = Topology::read(root)?;
    let tree = Tree::new(root);
    let cpusets = cgroup::find(&tree);
    let line = tree.text("proc/cmdline").unwrap_or_default();
    Ok(Survey {
        mechanisms: cpusets.mechanisms(),
        mechanisms_missing: match cpusets.v2.is_some() {
            true => Vec::new(),
            false => cpusets.missing,
        },
        command_line: line.split_ascii_whitespace().map(str::to_owned).collect(),
        interrupts: interrupts(&tree),
        default_affinity: mask(&tree, "proc/irq/default_smp_affinity"),
        masks: masks(&tree),
        threads: threads(&tree),
        cpu_files: cpu_files(&tree, &topology.online),
        online: topology.online,
        possible: topology.possible,
    })
}

fn mask(tree: &Tree, path: &str) -> Option<CpuSet> {
    CpuSet::from_mask(&tree.text(path)?)
}

fn interrupts(tree: &Tree) -> Vec<Interrupt> {
    let list = |path: String| tree.text(&path).and_then(|text| text.parse::<CpuSet>().ok());
    let mut all: Vec<Interrupt> = Vec::new();
    for number in tree.names("proc/irq").iter().filter_map(|name| name.parse::<u32>().ok()) {
        let directory = format!("proc/irq/{number}");
        let Some(allowed) = list(format!("{directory}/smp_affinity_list")) else { continue };
        let names = tree.names(&directory);
        let users = names.iter().filter(|name| tree.path(&format!("{directory}/{name}")).is_dir());
        let users = users.map(String::as_str).collect::<Vec<_>>().join(" ");
        let effective = list(format!("{directory}/effective_affinity_list")).unwrap_or_default();
        let managed = is_read_only(tree, &format!("{directory}/smp_affinity_list"));
        all.push(Interrupt { number, users, allowed, effective, managed });
    }
    all.sort_by_key(|one| one.number);
    all
}

/// Newer kernels make the file read-only if the driver decides (kernel/irq/proc.c); older ones refuse the write.
fn is_read_only(tree: &Tree, path: &str) -> bool {
    use std::os::unix::fs::PermissionsExt;
    std::fs::metadata(tree.path(path)).is_ok_and(|meta| meta.permissions().mode() & 0o200 == 0)
}

fn masks(tree: &Tree) -> Vec<Mask> {
    let mut paths = Vec::new();
    const QUEUES: &str = "sys/devices/virtual/workqueue";
    // Before the single queues: those may use the CPUs allowed for all.
    paths.push((format!("{QUEUES}/cpumask"), "work queues that are bound to no CPU"));
    for name in tree.names(QUEUES) {
        paths.push((format!("{QUEUES}/{name}/cpumask"), "a work queue"));
    }
    for device in tree.names("sys/class/net") {
        let queues = format!("sys/class/net/{device}/queues");
        for queue in tree.names(&queues) {
            paths.push((format!("{queues}/{queue}/rps_cpus"), "received packets"));
            paths.push((format!("{queues}/{queue}/xps_cpus"), "packets to send"));
        }
    }
    let read = |(path, about): (String, &'static str)| {
        // A device with one queue has the file, and reading it fails.
        let cpus = CpuSet::from_mask(std::fs::read_to_string(tree.path(&path)).ok()?.trim())?;
        Some(Mask { path: format!("/{path}"), about, cpus })
    };
    paths.into_iter().filter_map(read).collect()
}

fn threads(tree: &Tree) -> Vec<Thread> {
    let mut all = Vec::new();
    for pid in tree.names("proc").iter().filter_map(|name| name.parse::<i32>().ok()) {
        for tid in tree.names(&format!("proc/{pid}/task")).iter().filter_map(|name| name.parse().ok()) {
            all.extend(thread(tree, pid, tid));
        }
    }
    all
}

/// `None` if it has ended since.
fn thread(tree: &Tree, pid: i32, tid: i32) -> Option<Thread> {
    const KERNEL: u64 = 0x0020_0000; // PF_KTHREAD, include/linux/sched.h
    const BOUND: u64 = 0x0400_0000; // PF_NO_SETAFFINITY
    let read = |file: &str| std::fs::read_to_string(tree.path(&format!("proc/{pid}/task/{tid}/{file}"))).ok();
    let stat = read("stat")?;
    let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
    let flags: u64 = rest.split_ascii_whitespace().nth(6)?.parse().ok()?;
    let status = read("status")?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(Thread {
        pid,
        tid,
        comm: name.to_owned(),
        kernel: flags & KERNEL != 0,
        bound: flags & BOUND != 0,
        cpus: list.trim().parse().ok()?,
    })
}

fn cpu_files(tree: &Tree, online: &CpuSet) -> Vec<CpuFile> {
    let mut all = Vec::new();
    for cpu in online.iter() {
        let base = format!("sys/devices/system/cpu/cpu{cpu}");
        let mut add = |path: String, of: CpuSetting| {
            let value = tree.text(&path);
            all.extend(value.map(|value| CpuFile { cpu, of, path: format!("/{path}"), value }));
        };
        add(format!("{base}/cpufreq/scaling_governor"), CpuSetting::Governor);
        for state in tree.names(&format!("{base}/cpuidle")) {
            let state = format!("{base}/cpuidle/{state}");
            let Some(exit_us) = tree.number(&format!("{state}/latency")) else { continue };
            let name = tree.text(&format!("{state}/name")).unwrap_or_default();
            add(format!("{state}/disable"), CpuSetting::IdleState { name, exit_us });
        }
    }
    all
}

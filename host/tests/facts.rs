//! Facts of machines that are not here, from hand-made trees, and of the one that is.

use std::fs;
use std::io::Write;
use std::path::Path;

use lathunt_core::conditions::{Capability, Conditions};
use lathunt_core::cpuset::CpuSet;
use lathunt_host::facts;
use lathunt_host::topology::Topology;
use lathunt_host::tree::{Tree, LIVE};

/// A root directory with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for (path, content) in files {
        write(root.path(), path, content.as_bytes());
    }
    root
}

fn write(root: &Path, path: &str, content: &[u8]) {
    let file = root.join(path);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, content).unwrap();
}

fn gathered(root: &tempfile::TempDir, measured: &str) -> Conditions {
    facts::gather(root.path(), &measured.parse::<CpuSet>().unwrap())
}

fn noted(conditions: &Conditions, words: &str) -> bool {
    conditions.notes.iter().any(|note| note.contains(words))
}

fn capability<'c>(all: &'c [Capability], name: &str) -> &'c Capability {
    all.iter().find(|capability| capability.name == name).unwrap()
}

/// `/proc/self/status` and `limits` of a process with these rights.
fn rights(root: &Path, uid: u32, capabilities: u64, rt_priority: &str, memlock: &str) {
    let status = format!(
        "Name:\ttest\nUmask:\t0022\nState:\tR (running)\nTgid:\t7\nNgid:\t0\nPid:\t7\nPPid:\t1\nTracerPid:\t0\n\
         Uid:\t{uid}\t{uid}\t{uid}\t{uid}\nGid:\t0\t0\t0\t0\nFDSize:\t64\nGroups:\t0 \nThreads:\t1\nSigQ:\t0/9\n\
         SigPnd:\t0000000000000000\nShdPnd:\t0000000000000000\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n\
         SigCgt:\t0000000000000000\nCapInh:\t0000000000000000\nCapPrm:\t{capabilities:016x}\n\
         CapEff:\t{capabilities:016x}\nCapBnd:\t{capabilities:016x}\nCapAmb:\t0000000000000000\n"
    );
    write(root, "proc/self/status", status.as_bytes());
    let unlimited =
        |name: &str, unit: &str| format!("{name:<25} unlimited            unlimited            {unit:<10}\n");
    let limits = [
        "Limit                     Soft Limit           Hard Limit           Units     \n".to_owned(),
        unlimited("Max cpu time", "seconds"),
        unlimited("Max file size", "bytes"),
        unlimited("Max data size", "bytes"),
        unlimited("Max stack size", "bytes"),
        unlimited("Max core file size", "bytes"),
        unlimited("Max resident set", "bytes"),
        unlimited("Max processes", "processes"),
        unlimited("Max open files", "files"),
        format!("Max locked memory         {memlock:<20} {memlock:<20} bytes     \n"),
        unlimited("Max address space", "bytes"),
        unlimited("Max file locks", "locks"),
        unlimited("Max pending signals", "signals"),
        unlimited("Max msgqueue size", "bytes"),
        unlimited("Max nice priority", ""),
        format!("Max realtime priority     {rt_priority:<20} {rt_priority:<20}           \n"),
        unlimited("Max realtime timeout", "us"),
    ];
    write(root, "proc/self/limits", limits.concat().as_bytes());
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

const MEMINFO: &str = "MemTotal:       16384000 kB\nMemFree:        9999999 kB\nBuffers: 1 kB\nCached: 1 kB\nSwapCached: 0 kB\n\
    Active: 1 kB\nInactive: 1 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\nDirty: 0 kB\nWriteback: 0 kB\nMapped: 1 kB\nSlab: 1 kB\n\
    Committed_AS: 1 kB\nVmallocTotal: 1 kB\nVmallocUsed: 1 kB\nVmallocChunk: 0 kB\n";

/// An industrial PC: Intel, four CPUs, PREEMPT_RT, isolated CPUs, everything readable.
fn intel_rt_box() -> tempfile::TempDir {
    let root = tree(&[
        ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nmodel name\t: Intel(R) Core(TM) i7-8700T CPU @ 2.40GHz\ncpu MHz\t\t: 800.012\nflags\t\t: fpu tsc constant_tsc nonstop_tsc\n"),
        ("proc/meminfo", MEMINFO),
        ("proc/cmdline", "BOOT_IMAGE=/vmlinuz root=/dev/sda1 isolcpus=managed_irq,domain,2-3 nohz_full=2-3 rcu_nocbs=2-3 processor.max_cstate=1 -- quiet=1\n"),
        ("proc/sys/kernel/osrelease", "6.12.43+deb13-rt-amd64\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Debian 6.12.43-1 (2025-08-27)\n"),
        ("proc/sys/kernel/arch", "x86_64\n"),
        ("proc/sys/kernel/hostname", "press-4\n"),
        ("proc/sys/kernel/sched_rt_runtime_us", "-1\n"),
        ("proc/sys/kernel/sched_rt_period_us", "1000000\n"),
        ("proc/sys/kernel/kptr_restrict", "0\n"),
        ("proc/sys/kernel/tainted", "4096\n"),
        ("proc/swaps", "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n/dev/sda2                               partition\t999420\t\t0\t\t-2\n"),
        ("proc/filesystems", "nodev\tsysfs\nnodev\ttracefs\n"),
        ("proc/irq/default_smp_affinity", "3\n"),
        ("sys/kernel/realtime", "1\n"),
        ("sys/kernel/btf/vmlinux", "btf"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n"),
        ("sys/class/dmi/id/sys_vendor", "Siemens AG\n"),
        ("sys/class/dmi/id/product_name", "SIMATIC IPC427E\n"),
        ("sys/class/dmi/id/bios_version", "V21.01.19\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/cpu/possible", "0-7\n"),
        ("sys/devices/system/cpu/isolated", "2-3\n"),
        ("sys/devices/system/cpu/nohz_full", "2-3\n"),
        ("sys/devices/system/cpu/smt/control", "forceoff\n"),
        ("sys/devices/system/cpu/smt/active", "0\n"),
        ("sys/kernel/debug/sched/fair_server/cpu2/runtime", "50000000\n"),
        ("sys/kernel/debug/sched/fair_server/cpu2/period", "1000000000\n"),
        ("dev/kmsg", ""),
    ]);
    for cpu in 0..4 {
        let governor = if cpu < 2 { "powersave\n" } else { "performance\n" };
        write(
            root.path(),
            &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor"),
            governor.as_bytes(),
        );
        let max: &[u8] = if cpu == 3 { b"4000000\n" } else { b"3900000\n" };
        write(root.path(), &format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"), max);
    }
    for (state, name, latency, disable) in [(0, "POLL", 0, 0), (1, "C1E", 10, 0), (2, "C10", 890, 1)] {
        let base = format!("sys/devices/system/cpu/cpu2/cpuidle/state{state}");
        write(root.path(), &format!("{base}/name"), format!("{name}\n").as_bytes());
        write(root.path(), &format!("{base}/latency"), format!("{latency}\n").as_bytes());
        write(root.path(), &format!("{base}/disable"), format!("{disable}\n").as_bytes());
    }
    let config = "CONFIG_PREEMPT_RT=y\n# CONFIG_PREEMPT_DYNAMIC is not set\nCONFIG_PREEMPT=y\nCONFIG_HZ=250\nCONFIG_HIGH_RES_TIMERS=y\n";
    write(root.path(), "boot/config-6.12.43+deb13-rt-amd64", config.as_bytes());
    write(root.path(), "dev/cpu_dma_latency", &0i32.to_ne_bytes());
    let mut msr = vec![0; 0x34];
    msr.extend(17u64.to_le_bytes());
    write(root.path(), "dev/cpu/0/msr", &msr);
    write(root.path(), "proc/812/comm", b"ethercatd\n");
    fs::create_dir_all(root.path().join("proc/812/fd")).unwrap();
    std::os::unix::fs::symlink("/dev/cpu_dma_latency", root.path().join("proc/812/fd/5")).unwrap();
    rights(root.path(), 0, u64::MAX >> 23, "0", "unlimited");
    root
}

#[test]
fn an_intel_box_with_preempt_rt_is_read_in_full() {
    let root = intel_rt_box();
    let c = gathered(&root, "2-3");
    assert_eq!(c.host.as_deref(), Some("press-4"));
    assert_eq!(c.machine.architecture.as_deref(), Some("x86_64"));
    assert_eq!(c.machine.cpu_model.as_deref(), Some("Intel(R) Core(TM) i7-8700T CPU @ 2.40GHz"));
    assert_eq!(
        (c.machine.cpus_online.as_deref(), c.machine.cpus_measured.as_deref()),
        (Some("0-3"), Some("2-3"))
    );
    assert_eq!(
        (c.machine.cpu_max_hz, c.machine.memory_bytes),
        (Some(4_000_000_000), Some(16_384_000 * 1024))
    );
    assert_eq!(c.machine.product.as_deref(), Some("Siemens AG SIMATIC IPC427E, firmware V21.01.19"));
    assert_eq!(c.machine.hypervisor.as_deref(), Some("none"));
    assert_eq!(c.machine.smt.as_deref(), Some("forceoff, no sibling active"));
    assert_eq!(c.kernel.preemption.as_deref(), Some("PREEMPT_RT"));
    assert_eq!((c.kernel.realtime, c.kernel.hz), (Some(true), Some(250)));
    assert_eq!(c.kernel.preemption_in_force.as_deref(), Some("full"));
    assert_eq!(c.kernel.config["PREEMPT_DYNAMIC"], "n");
    assert_eq!(c.notes, Vec::<String>::new());
    assert!(
        c.capabilities.iter().filter(|c| c.name != "stress_ng").all(|c| c.present),
        "{:?}",
        c.capabilities
    );
}

#[test]
fn the_knobs_of_an_intel_box_are_read_in_full() {
    let root = intel_rt_box();
    let knobs = gathered(&root, "2-3").knobs;
    assert_eq!(knobs.clocksource.as_deref(), Some("tsc"));
    let governors: Vec<(&str, &str)> =
        knobs.governors.iter().map(|(c, g)| (c.as_str(), g.as_str())).collect();
    assert_eq!(governors, [("0-1", "powersave"), ("2-3", "performance")]);
    let idle: Vec<_> =
        knobs.idle_states.iter().map(|s| (s.name.as_str(), s.exit_latency_us, s.disabled)).collect();
    assert_eq!(
        idle,
        [("POLL", Some(0), Some(false)), ("C1E", Some(10), Some(false)), ("C10", Some(890), Some(true))]
    );
    assert_eq!(knobs.cpu_dma_latency_us, Some(0));
    assert_eq!(knobs.cpu_dma_latency_holders, ["ethercatd/812"]);
    assert_eq!((knobs.rt_runtime_us, knobs.rt_period_us), (Some(-1), Some(1_000_000)));
    assert_eq!(knobs.fair_server["2"], "50000000/1000000000");
    for (path, value) in [
        ("/sys/devices/system/cpu/isolated", "2-3"),
        ("/proc/swaps", "/dev/sda2"),
        ("/proc/sys/kernel/tainted", "4096"),
        ("/proc/irq/default_smp_affinity", "3"),
        ("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]"),
        ("boot parameter isolcpus", "managed_irq,domain,2-3"),
        ("boot parameter rcu_nocbs", "2-3"),
        ("boot parameter processor.max_cstate", "1"),
    ] {
        assert_eq!(knobs.other.get(path).map(String::as_str), Some(value), "{path}");
    }
    let smi = facts::counters::smi_count(&Tree::new(root.path()), lathunt_core::time::Cpu(0));
    assert_eq!(smi, Some(17));
    let topology = Topology::read(root.path()).unwrap();
    assert_eq!((topology.isolated.to_string(), topology.possible.to_string()), ("2-3".into(), "0-7".into()));
}

#[test]
fn an_arm_board_is_named_by_its_device_tree_and_core() {
    let root = tree(&[
        ("proc/cpuinfo", "processor\t: 0\nBogoMIPS\t: 108.00\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd08\n"),
        ("proc/meminfo", MEMINFO),
        ("proc/device-tree/model", "Raspberry Pi 4 Model B Rev 1.4\0"),
        ("proc/sys/kernel/osrelease", "6.6.31-rt31-v8+\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_RT Wed May 29 2024\n"),
        ("proc/cmdline", "console=serial0,115200\n"),
        ("sys/devices/system/cpu/online", "0-3\n"),
        ("sys/devices/system/clocksource/clocksource0/current_clocksource", "arch_sys_counter\n"),
    ]);
    write(root.path(), "proc/device-tree/cpus/cpu@0/clock-frequency", &1_500_000_000u32.to_be_bytes());
    let c = gathered(&root, "3");
    assert_eq!(c.machine.cpu_model.as_deref(), Some("ARM Cortex-A72"));
    assert_eq!(c.machine.product.as_deref(), Some("Raspberry Pi 4 Model B Rev 1.4"));
    assert_eq!(c.machine.cpu_max_hz, Some(1_500_000_000));
    assert_eq!((c.kernel.preemption.as_deref(), c.kernel.realtime), (Some("PREEMPT_RT"), Some(true)));
    assert_eq!(c.machine.hypervisor, None, "this CPU cannot say");
    assert!(noted(&c, "hypervisor: unknown; this CPU has no flag for one"));
    assert_eq!(c.kernel.hz, None);
    assert!(noted(&c, "build options are unknown"));
}

#[test]
fn a_virtual_machine_with_a_dynamic_kernel_says_what_is_derived_and_from_what() {
    let root = tree(&[
        ("proc/cpuinfo", "vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\ncpu MHz\t\t: 2445.424\nflags\t\t: fpu hypervisor lm\n"),
        ("proc/meminfo", MEMINFO),
        ("proc/sys/kernel/osrelease", "6.18.44\n"),
        ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC @0\n"),
        ("proc/cmdline", "console=ttyS0 quiet\n"),
        ("sys/devices/system/cpu/online", "0-1\n"),
        ("sys/kernel/security/lockdown", "none [integrity] confidentiality\n"),
    ]);
    write(
        root.path(),
        "proc/config.gz",
        &packed("CONFIG_PREEMPT_NONE=y\nCONFIG_PREEMPT_DYNAMIC=y\nCONFIG_HZ=250\n"),
    );
    let c = gathered(&root, "0-1");
    assert_eq!(c.kernel.preemption.as_deref(), Some("PREEMPT_DYNAMIC"));
    assert_eq!(c.kernel.preemption_in_force.as_deref(), Some("none"));
    assert!(noted(&c, "preemption in force: from the command line"));
    assert_eq!((c.machine.hypervisor.as_deref(), c.kernel.realtime), (Some("unnamed"), Some(false)));
    assert_eq!(c.machine.cpu_max_hz, Some(2_445_424_000));
    assert!(noted(&c, "highest CPU frequency: no cpufreq"));
    write(root.path(), "proc/cmdline", b"preempt=voluntary preempt=full\n");
    assert_eq!(
        gathered(&root, "0-1").kernel.preemption_in_force.as_deref(),
        Some("full"),
        "the last word counts"
    );
    write(root.path(), "sys/kernel/debug/sched/preempt", b"none voluntary full (lazy) \n");
    assert_eq!(gathered(&root, "0-1").kernel.preemption_in_force.as_deref(), Some("lazy"), "debugfs knows");
}

#[test]
fn a_locked_down_container_is_told_what_each_missing_right_costs() {
    let root = tree(&[
        ("proc/sys/kernel/kptr_restrict", "2\n"),
        ("proc/sys/kernel/dmesg_restrict", "1\n"),
        ("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n"),
        ("sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.rt_runtime_us", "0\n"),
        ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n"),
    ]);
    rights(root.path(), 1000, 0, "0", "8388608");
    let c = gathered(&root, "0");
    for (name, words) in [
        ("root", "not root"),
        ("bpf", "no CAP_BPF with CAP_PERFMON"),
        ("btf", "no BTF"),
        ("sched_fifo", "measured at SCHED_OTHER"),
        ("mlock", "page faults add latencies"),
        ("pm_qos", "/dev/cpu_dma_latency cannot be written"),
        ("tracefs", "no tracefs"),
        ("kernel_log", "not readable"),
        ("kernel_symbols", "show as numbers"),
        ("smi_counter", "not countable"),
    ] {
        let found = capability(&c.capabilities, name);
        assert!(!found.present && found.note.contains(words), "{found:?}");
    }
    assert_eq!(
        (c.kernel.release.as_ref(), c.knobs.clocksource.as_ref(), c.machine.memory_bytes),
        (None, None, None)
    );
    assert!(noted(&c, "/proc/sys/kernel/osrelease does not exist") && noted(&c, "/proc/meminfo"));

    rights(root.path(), 0, u64::MAX >> 23, "99", "unlimited");
    let c = gathered(&root, "0");
    assert!(capability(&c.capabilities, "bpf").note.contains("lockdown is at confidentiality"));
    assert!(capability(&c.capabilities, "sched_fifo").note.contains("cpu.rt_runtime_us is 0"));
    assert!(!capability(&c.capabilities, "kernel_symbols").present, "kptr_restrict 2 hides from root too");
}

#[test]
fn damaged_files_are_noted_and_give_no_value() {
    let root =
        tree(&[("proc/sys/kernel/sched_rt_runtime_us", "lots\n"), ("proc/meminfo", "MemTotal: much\n")]);
    write(root.path(), "proc/config.gz", &packed("CONFIG_HZ=250\n")[..12]);
    write(root.path(), "dev/cpu_dma_latency", b"ab");
    write(root.path(), "proc/sys/kernel/hostname", b"caf\xe9\n");
    let c = gathered(&root, "0");
    assert_eq!((c.knobs.rt_runtime_us, c.knobs.cpu_dma_latency_us, c.kernel.hz), (None, None, None));
    for words in
        ["'lots' is not the expected number", "/proc/config.gz: damaged", "/proc/meminfo", "cpu_dma_latency"]
    {
        assert!(noted(&c, words), "{words}: {:?}", c.notes);
    }
    assert_eq!(c.host.as_deref(), Some("caf\u{fffd}"));
}

#[test]
fn this_machine_is_read_without_root_and_agrees_with_its_own_tools() {
    let topology = Topology::read(Path::new(LIVE)).unwrap();
    let c = facts::gather(Path::new(LIVE), &topology.online);
    let uname = |flag: &str| {
        let output = std::process::Command::new("uname").arg(flag).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(c.kernel.release, Some(uname("-r")));
    assert_eq!(c.kernel.version, Some(uname("-v")));
    assert_eq!(c.machine.architecture, Some(uname("-m")));
    assert_eq!(c.machine.cpus_online, Some(topology.online.to_string()));
    assert!(c.machine.memory_bytes.unwrap() > 64 << 20);
    assert!(c.kernel.command_line.is_some() && c.kernel.preemption.is_some());
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    assert!(!mounts.contains("/proc/self/fd"), "a detached mount must leave no trace");
}

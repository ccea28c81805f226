//! The machine: CPU, memory, firmware, hypervisor, SMT.

use std::path::Path;

use lathunt_core::conditions::Machine;
use lathunt_core::cpuset::CpuSet;
use procfs::FromRead;

use crate::arch;
use crate::tree::Tree;

const ONLINE: &str = "sys/devices/system/cpu/online";

/// Adds the CPUs that are online now: one that came online during a recording was not recorded.
pub fn add_online(root: &Path, machine: &mut Machine) {
    let now = Tree::new(root).expected(ONLINE);
    let cpus = |list: &Option<String>| list.as_deref()?.parse::<CpuSet>().ok();
    if let (Some(before), Some(now)) = (cpus(&machine.cpus_online), cpus(&now)) {
        let all: CpuSet = before.iter().chain(now.iter()).collect();
        machine.cpus_online = Some(all.to_string());
    }
}

/// Reads the machine.
#[must_use]
pub fn read(tree: &Tree) -> Machine {
    let cpuinfo = tree.expected("proc/cpuinfo").unwrap_or_default();
    Machine {
        architecture: architecture(tree),
        cpu_model: cpu_model(&cpuinfo),
        cpus_online: tree.expected(ONLINE),
        cpus_measured: None,
        cpu_max_hz: cpu_max_hz(tree, &cpuinfo),
        memory_bytes: memory_bytes(tree),
        product: product(tree),
        hypervisor: hypervisor(tree, &cpuinfo),
        smt: smt(tree),
    }
}

/// `/proc/sys/kernel/arch` exists since 6.1; before, the running program's architecture is used for the live
/// system.
fn architecture(tree: &Tree) -> Option<String> {
    tree.text("proc/sys/kernel/arch").or_else(|| tree.is_live().then(|| std::env::consts::ARCH.to_owned()))
}

/// The first value of `key` in the text of `/proc/cpuinfo`.
fn field<'t>(cpuinfo: &'t str, key: &str) -> Option<&'t str> {
    cpuinfo.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key && !value.trim().is_empty()).then(|| value.trim())
    })
}

/// x86 prints a name. 64-bit ARM prints numbers only; the core is then named from its part number if known.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    if let Some(name) = field(cpuinfo, "model name") {
        return Some(name.to_owned());
    }
    let (implementer, part) = (field(cpuinfo, "CPU implementer")?, field(cpuinfo, "CPU part")?);
    Some(match arm_core(implementer, part) {
        Some(name) => name.to_owned(),
        None => format!("ARM implementer {implementer} part {part}"),
    })
}

/// Main ID register numbers (arch/arm64/include/asm/cputype.h).
fn arm_core(implementer: &str, part: &str) -> Option<&'static str> {
    (implementer == "0x41").then_some(())?;
    Some(match part {
        "0xd03" => "ARM Cortex-A53",
        "0xd04" => "ARM Cortex-A35",
        "0xd05" => "ARM Cortex-A55",
        "0xd07" => "ARM Cortex-A57",
        "0xd08" => "ARM Cortex-A72",
        "0xd09" => "ARM Cortex-A73",
        "0xd0a" => "ARM Cortex-A75",
        "0xd0b" => "ARM Cortex-A76",
        "0xd0c" => "ARM Neoverse-N1",
        "0xd0d" => "ARM Cortex-A77",
        "0xd40" => "ARM Neoverse-V1",
        "0xd41" => "ARM Cortex-A78",
        "0xd44" => "ARM Cortex-X1",
        "0xd47" => "ARM Cortex-A710",
        "0xd49" => "ARM Neoverse-N2",
        "0xd4f" => "ARM Neoverse-V2",
        _ => return None,
    })
}

/// Highest frequency of any CPU: from cpufreq (kHz), else the device tree (Hz), else the present one (noted).
fn cpu_max_hz(tree: &Tree, cpuinfo: &str) -> Option<u64> {
    let limits = tree.cpus().into_iter().filter_map(|cpu| {
        tree.number::<u64>(&format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/cpuinfo_max_freq"))
    });
    if let Some(khz) = limits.max() {
        return Some(khz * 1000);
    }
    let nodes = tree.names("proc/device-tree/cpus");
    let declared = nodes.iter().filter_map(|node| {
        let cells = tree.bytes(&format!("proc/device-tree/cpus/{node}/clock-frequency"))?;
        Some(u64::from(u32::from_be_bytes(cells.try_into().ok()?)))
    });
    if let Some(hz) = declared.max() {
        return Some(hz);
    }
    let Some(mhz) =
        field(cpuinfo, "cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok()).filter(|&mhz| mhz > 0.0)
    else {
        tree.note(
            "highest CPU frequency: unknown (no cpufreq, no frequency in the device tree or /proc/cpuinfo)",
        );
        return None;
    };
    tree.note("highest CPU frequency: no cpufreq, so the present one of /proc/cpuinfo is given");
    Some((mhz * 1e6).round() as u64)
}

fn memory_bytes(tree: &Tree) -> Option<u64> {
    match procfs::Meminfo::from_file(tree.path("proc/meminfo")) {
        Ok(memory) => Some(memory.mem_total),
        Err(error) => {
            tree.note(format!("/proc/meminfo: {error}"));
            None
        }
    }
}

/// DMI if the firmware has it, else the device tree's model.
fn product(tree: &Tree) -> Option<String> {
    let dmi = |name: &str| tree.text(&format!("sys/class/dmi/id/{name}")).filter(|text| !text.is_empty());
    let name: Vec<String> = ["sys_vendor", "product_name"].into_iter().filter_map(dmi).collect();
    if !name.is_empty() {
        let firmware: Vec<String> =
            ["bios_vendor", "bios_version", "bios_date"].into_iter().filter_map(dmi).collect();
        return Some(match firmware.is_empty() {
            true => name.join(" "),
            false => format!("{}, firmware {}", name.join(" "), firmware.join(" ")),
        });
    }
    let model =
        tree.text("proc/device-tree/model").or_else(|| tree.text("sys/firmware/devicetree/base/model"));
    if model.is_none() {
        tree.note("product and firmware: unknown (neither DMI nor a device tree)");
    }
    model
}

/// The hypervisor according to the CPU, the kernel or the firmware; `none` only if the CPU would report one.
fn hypervisor(tree: &Tree, cpuinfo: &str) -> Option<String> {
    let live = tree.is_live().then(arch::hypervisor).flatten();
    let named = live
        .filter(|name| name != "none")
        .or_else(|| tree.text("sys/hypervisor/type").filter(|kind| !kind.is_empty()))
        .or_else(|| tree.text("proc/device-tree/hypervisor/compatible"))
        .or_else(|| by_firmware(tree));
    if named.is_some() {
        return named;
    }
    match field(cpuinfo, "flags") {
        Some(flags) if flags.split_ascii_whitespace().any(|flag| flag == "hypervisor") => {
            Some("unnamed".to_owned())
        }
        Some(_) => Some("none".to_owned()),
        None => {
            tree.note("hypervisor: unknown; this CPU has no flag for one");
            None
        }
    }
}

/// Product names that only virtual machines have.
fn by_firmware(tree: &Tree) -> Option<String> {
    let known = [
        ("QEMU", "QEMU"),
        ("KVM", "KVM"),
        ("VMware", "VMware"),
        ("innotek", "VirtualBox"),
        ("Xen", "Xen"),
        ("Amazon EC2", "Amazon EC2"),
        ("Google Compute Engine", "Google Compute Engine"),
    ];
    let texts = ["sys_vendor", "product_name"].map(|name| tree.text(&format!("sys/class/dmi/id/{name}")));
    let found = known.iter().find(|(sign, _)| texts.iter().flatten().any(|text| text.starts_with(sign)));
    // EC2 has bare-metal instances of the same vendor name; their product name ends in ".metal".
    let metal = texts.iter().flatten().any(|text| text.ends_with(".metal"));
    found.filter(|_| !metal).map(|(_, name)| (*name).to_owned())
}

fn smt(tree: &Tree) -> Option<String> {
    let control = tree.text("sys/devices/system/cpu/smt/control")?;
    match tree.text("sys/devices/system/cpu/smt/active").as_deref() {
        Some("1") => Some(format!("{control}, siblings active")),
        Some("0") => Some(format!("{control}, no sibling active")),
        _ => Some(control),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_came_online_later_counts_as_online_and_one_that_went_offline_still_does() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join(ONLINE);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "0,2\n").unwrap();
        let mut machine = Machine { cpus_online: Some("0-1".to_owned()), ..Machine::default() };
        add_online(root.path(), &mut machine);
        assert_eq!(machine.cpus_online.as_deref(), Some("0-2"));
        std::fs::remove_file(&file).unwrap();
        add_online(root.path(), &mut machine);
        assert_eq!(machine.cpus_online.as_deref(), Some("0-2"));
    }
}

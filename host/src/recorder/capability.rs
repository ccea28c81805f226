//! Requirements of the recorder, and the cost of each that is missing: one clear line each.

use lathunt_core::conditions::Capability;

use crate::symbols::Symbols;

const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// `btf`, `bpf` and `kernel_symbols`.
#[must_use]
pub fn capability() -> Vec<Capability> {
    let btf = std::path::Path::new("/sys/kernel/btf/vmlinux").exists();
    let effective = effective_capabilities();
    let has = |bit: u32| effective & (1 << bit) != 0;
    let bpf = has(CAP_SYS_ADMIN) || (has(CAP_BPF) && has(CAP_PERFMON));
    let symbols = Symbols::read().err().map(|error| error.to_string());
    let capability = |name: &str, present: bool, note: &str| Capability {
        name: name.to_owned(),
        present,
        note: if present { String::new() } else { note.to_owned() },
    };
    vec![
        capability(
            "btf",
            btf,
            "the kernel has no BTF (/sys/kernel/btf/vmlinux, CONFIG_DEBUG_INFO_BTF): no kernel recorder, peaks cannot be explained",
        ),
        capability(
            "bpf",
            bpf,
            "no right to load BPF programs: no kernel recorder, peaks cannot be explained; run as root or with CAP_BPF and CAP_PERFMON",
        ),
        capability("kernel_symbols", symbols.is_none(), symbols.as_deref().unwrap_or_default()),
    ]
}

fn effective_capabilities() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

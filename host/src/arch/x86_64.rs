//! x86-64: TSC, CPUID, APIC vectors. Sources: Intel SDM volumes 2 and 3, AMD APM volume 3.

use std::arch::x86_64::{__cpuid, __rdtscp, _mm_lfence, _rdtsc};

/// Reads the time stamp counter after all earlier instructions have completed and before any later one starts.
/// About 20 ns.
#[inline]
#[must_use]
pub fn counter() -> u64 {
    // SAFETY: LFENCE (SSE2) and RDTSC are part of every x86-64 CPU; Linux lets user space read the TSC unless a
    // process asked otherwise with PR_SET_TSC.
    unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    }
}

/// Names of the ways to read the counter.
pub const COUNTER_READS: [(&str, super::CounterRead); 3] = [
    ("rdtsc", super::CounterRead::Plain),
    ("rdtscp", super::CounterRead::Ordered),
    ("lfence; rdtsc; lfence", super::CounterRead::Fenced),
];

/// RDTSC alone: the processor may reorder it with its neighbours.
#[inline(always)]
#[must_use]
pub fn counter_plain() -> u64 {
    // SAFETY: as in `counter`.
    unsafe { _rdtsc() }
}

/// RDTSCP: waits for all earlier instructions. Every processor with an invariant counter has it.
#[inline(always)]
#[must_use]
pub fn counter_ordered() -> u64 {
    let mut processor = 0;
    // SAFETY: RDTSCP is part of every x86-64 CPU since 2008 (Nehalem, K10); it only writes `processor`.
    unsafe { __rdtscp(&mut processor) }
}

/// Ticks per second where the CPU or the hypervisor states them; `None`: the caller has to measure.
#[must_use]
pub fn counter_hz() -> Option<u64> {
    if __cpuid(0).eax >= 0x15 {
        let leaf = __cpuid(0x15); // ratio ebx/eax of the crystal frequency ecx
        if leaf.eax != 0 && leaf.ebx != 0 && leaf.ecx != 0 {
            return Some(u64::from(leaf.ecx) * u64::from(leaf.ebx) / u64::from(leaf.eax));
        }
    }
    // VMware's and (since 2.9) QEMU's timing leaf: TSC frequency in kHz.
    let timing = has_hypervisor() && __cpuid(0x4000_0000).eax >= 0x4000_0010;
    let khz = if timing { __cpuid(0x4000_0010).eax } else { 0 };
    (khz != 0).then(|| u64::from(khz) * 1000)
}

/// Whether the counter ticks at one rate in every power state (CPUID 0x80000007, EDX bit 8).
#[must_use]
pub fn counter_is_invariant() -> Option<bool> {
    (__cpuid(0x8000_0000).eax >= 0x8000_0007).then(|| __cpuid(0x8000_0007).edx >> 8 & 1 == 1)
}

fn has_hypervisor() -> bool {
    __cpuid(1).ecx >> 31 & 1 == 1
}

/// Name of the hypervisor by its CPUID signature; `none` if the CPU reports no hypervisor. A hypervisor can
/// hide.
#[must_use]
pub fn hypervisor() -> Option<String> {
    if !has_hypervisor() {
        return Some("none".to_owned());
    }
    let leaf = __cpuid(0x4000_0000);
    let bytes: Vec<u8> = [leaf.ebx, leaf.ecx, leaf.edx].iter().flat_map(|word| word.to_le_bytes()).collect();
    let signature = String::from_utf8_lossy(&bytes).trim_matches('\0').trim().to_owned();
    Some(match signature.as_str() {
        "KVMKVMKVM" => "KVM".to_owned(),
        "Microsoft Hv" => "Hyper-V".to_owned(),
        "VMwareVMware" => "VMware".to_owned(),
        "XenVMMXenVMM" => "Xen".to_owned(),
        "TCGTCGTCGTCG" => "QEMU TCG".to_owned(),
        "bhyve bhyve" => "bhyve".to_owned(),
        "ACRNACRNACRN" => "ACRN".to_owned(),
        "Jailhouse" => "Jailhouse".to_owned(),
        "" => "unnamed".to_owned(),
        other => other.to_owned(),
    })
}

/// Name of a system vector: an interrupt of no device (arch/x86/include/asm/irq_vectors.h, 6.x).
#[must_use]
pub fn system_vector(vector: u32) -> Option<&'static str> {
    Some(match vector {
        2 => "NMI",
        0xff => "spurious APIC interrupt",
        0xfe => "APIC error",
        0xfd => "reschedule",
        0xfc => "function call",
        0xfb => "function call (single)",
        0xfa => "thermal",
        0xf9 => "threshold APIC",
        0xf8 => "reboot",
        0xf7 => "x86 platform IPI",
        0xf6 => "IRQ work",
        0xf4 => "deferred error",
        0xf3 => "hypervisor callback",
        0xf2 => "posted interrupt",
        0xf1 => "posted interrupt wakeup",
        0xf0 => "posted interrupt nested",
        0xef => "managed IRQ shutdown",
        0xee => "Hyper-V re-enlightenment",
        0xed => "Hyper-V stimer0",
        0xec => "local timer",
        0xeb => "posted MSI notification",
        _ => return None,
    })
}

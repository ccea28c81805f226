//! 64-bit ARM: the generic timer's virtual counter, inter-processor interrupts. Source: Arm ARM, DDI 0487, chapter D12.

use std::arch::asm;

/// Reads the virtual counter after all earlier instructions have completed and before any later one starts. Costs 10 to
/// 40 ns; resolution 1 to 40 ns (24 to 1000 MHz), coarser where firmware says so.
#[inline]
#[must_use]
pub fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: CNTVCT_EL0 is readable in user space under Linux (CNTKCTL_EL1.EL0VCTEN is set); ISB has no other effect
    // than ordering.
    unsafe {
        asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) ticks, options(nostack, nomem, preserves_flags))
    };
    ticks
}

/// Names of the ways to read the counter.
pub const COUNTER_READS: [(&str, super::CounterRead); 3] = [
    ("mrs cntvct_el0", super::CounterRead::Plain),
    ("isb; mrs cntvct_el0", super::CounterRead::Ordered),
    ("isb; mrs cntvct_el0; isb", super::CounterRead::Fenced),
];

/// The counter alone: the processor may reorder the read with its neighbours.
#[inline(always)]
#[must_use]
pub fn counter_plain() -> u64 {
    let ticks: u64;
    // SAFETY: as in `counter`.
    unsafe { asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags)) };
    ticks
}

/// The counter, read after all earlier instructions have completed.
#[inline(always)]
#[must_use]
pub fn counter_ordered() -> u64 {
    let ticks: u64;
    // SAFETY: as in `counter`.
    unsafe { asm!("isb", "mrs {}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags)) };
    ticks
}

/// Ticks per second, as stated by the firmware; `None` if it is not set.
#[must_use]
pub fn counter_hz() -> Option<u64> {
    let hz: u64;
    // SAFETY: CNTFRQ_EL0 is readable in user space under Linux.
    unsafe { asm!("mrs {}, cntfrq_el0", out(reg) hz, options(nostack, nomem, preserves_flags)) };
    (hz != 0).then_some(hz) // firmware that does not set it leaves 0
}

/// The generic timer's counter ticks at one rate by definition of the architecture.
#[must_use]
pub fn counter_is_invariant() -> Option<bool> {
    Some(true)
}

/// User space cannot ask the CPU: higher exception levels are invisible. The firmware's tables may name a hypervisor.
#[must_use]
pub fn hypervisor() -> Option<String> {
    None
}

/// Name of an inter-processor interrupt, by the number of the ipi tracepoints (arch/arm64/kernel/smp.c, 6.x).
#[must_use]
pub fn system_vector(vector: u32) -> Option<&'static str> {
    Some(match vector {
        0 => "reschedule",
        1 => "function call",
        2 => "CPU stop",
        3 => "CPU stop (NMI)",
        4 => "timer broadcast",
        5 => "IRQ work",
        6 => "CPU backtrace",
        7 => "kgdb roundup",
        _ => return None,
    })
}

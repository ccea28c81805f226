//! `/proc/interrupts` and `/proc/softirqs`: counts by CPU and class.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::time::Cpu;

/// Class of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// A device.
    Io,
    /// The local timer: the tick, and expiring timers.
    LocalTimer,
    /// A wake-up from another CPU.
    Rescheduling,
    /// A function call from another CPU.
    FunctionCall,
    /// Another CPU changed the address space of the running thread.
    TlbShootdown,
    /// Deferred work (irq_work).
    IrqWork,
    /// Non-maskable: watchdog, profiling.
    Nmi,
    /// Thermal events, machine checks, the hypervisor and others.
    Other,
    /// A softirq.
    Softirq,
}

impl Class {
    /// All, in the order of tables.
    pub const ALL: [Class; 9] = [
        Class::Io,
        Class::LocalTimer,
        Class::Rescheduling,
        Class::FunctionCall,
        Class::TlbShootdown,
        Class::IrqWork,
        Class::Nmi,
        Class::Other,
        Class::Softirq,
    ];

    /// For people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Class::Io => "I/O",
            Class::LocalTimer => "local timer",
            Class::Rescheduling => "rescheduling",
            Class::FunctionCall => "function call",
            Class::TlbShootdown => "TLB shootdown",
            Class::IrqWork => "IRQ work",
            Class::Nmi => "NMI",
            Class::Other => "other",
            Class::Softirq => "softirq",
        }
    }
}

/// One line of these files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// `36`, `LOC`, `NET_RX`.
    pub name: String,
    /// Its class.
    pub class: Class,
    /// The kernel's description.
    pub about: String,
    /// Counts by CPU.
    pub counts: BTreeMap<Cpu, u64>,
}

/// The lines of `/proc/interrupts`, then those of `/proc/softirqs`.
#[must_use]
pub fn parse(interrupts: &str, softirqs: &str) -> Vec<Line> {
    let mut all = lines(interrupts, class);
    all.extend(lines(softirqs, |_, _| Class::Softirq));
    all
}

fn lines(text: &str, class: impl Fn(&str, &str) -> Class) -> Vec<Line> {
    let mut rows = text.lines();
    let cpus: Vec<Cpu> = rows
        .next()
        .unwrap_or_default()
        .split_ascii_whitespace()
        .filter_map(|word| word.strip_prefix("CPU")?.parse().ok().map(Cpu))
        .collect();
    if cpus.is_empty() {
        return Vec::new(); // not such a file
    }
    let line = |row: &str| {
        let (name, rest) = row.split_once(':')?;
        let words: Vec<&str> = rest.split_ascii_whitespace().collect();
        // ERR and MIS have one total.
        let figures: Option<Vec<u64>> =
            words.get(..cpus.len())?.iter().map(|word| word.parse().ok()).collect();
        let (name, about) = (name.trim().to_owned(), words[cpus.len()..].join(" "));
        let counts = cpus.iter().copied().zip(figures?).collect();
        Some(Line { class: class(&name, &about), name, about, counts })
    };
    rows.filter_map(line).collect()
}

/// x86 has names for its vectors (arch/x86/kernel/irq.c), arm64 numbers its IPIs and has its timer among the devices
/// (arch/arm64/kernel/smp.c): there the description decides.
fn class(name: &str, about: &str) -> Class {
    match name {
        "LOC" => return Class::LocalTimer,
        "RES" => return Class::Rescheduling,
        "CAL" => return Class::FunctionCall,
        "TLB" => return Class::TlbShootdown,
        "IWI" => return Class::IrqWork,
        "NMI" | "PMI" => return Class::Nmi,
        _ => {}
    }
    let says = |word: &str| about.contains(word);
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return if says("arch_timer") || says("lapic") { Class::LocalTimer } else { Class::Io };
    }
    match name.starts_with("IPI") {
        true if says("Rescheduling") => Class::Rescheduling,
        true if says("Function call") => Class::FunctionCall,
        true if says("IRQ work") => Class::IrqWork,
        true if says("Timer") => Class::LocalTimer,
        _ => Class::Other,
    }
}

/// Difference between two readings, without unchanged lines.
#[must_use]
pub fn between(before: &[Line], after: &[Line]) -> Vec<Line> {
    let mut changed = Vec::new();
    for line in after {
        let old = before.iter().find(|one| one.name == line.name && one.class == line.class);
        let was = |cpu: &Cpu| old.and_then(|old| old.counts.get(cpu)).copied().unwrap_or(0);
        let counts: BTreeMap<Cpu, u64> =
            line.counts.iter().map(|(cpu, count)| (*cpu, count.saturating_sub(was(cpu)))).collect();
        if counts.values().any(|&count| count > 0) {
            changed.push(Line { counts, ..line.clone() });
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    const X86: &str = "           CPU0       CPU1       
 24:          1          0  IO-APIC   5-edge      ACPI:Ged
 36:          0    1383498 PCI-MSIX-0000:00:02.0   1-edge      virtio1-req.0
NMI:          3          0   Non-maskable interrupts
LOC:    4739358    4800842   Local timer interrupts
RES:     478143     352150   Rescheduling interrupts
ERR:          0
";
    const ARM: &str = "           CPU0       CPU1
 11:       1502        940     GICv3  30 Level     arch_timer
 48:         12          0     GICv3  79 Edge      eth0
IPI0:        20         30       Rescheduling interrupts
IPI1:         5          6       Function call interrupts
";
    const SOFT: &str = "                    CPU0       CPU1
          HI:          0          0
       TIMER:     457015     528490
";

    #[test]
    fn both_architectures_are_sorted_into_the_same_classes() {
        let classes = |text| -> Vec<Class> { parse(text, SOFT).iter().map(|line| line.class).collect() };
        use Class::{FunctionCall, Io, LocalTimer, Nmi, Rescheduling, Softirq};
        assert_eq!(classes(X86), [Io, Io, Nmi, LocalTimer, Rescheduling, Softirq, Softirq]);
        assert_eq!(classes(ARM), [LocalTimer, Io, Rescheduling, FunctionCall, Softirq, Softirq]);
    }

    #[test]
    fn differences_are_by_cpu_and_lines_that_stand_still_are_left_out() {
        let before = parse(X86, SOFT);
        let after = parse(&X86.replace("1383498", "1383500"), &SOFT.replace("457015", "457020"));
        let changed = between(&before, &after);
        let told: Vec<_> = changed
            .iter()
            .map(|line| (line.name.as_str(), line.counts[&Cpu(0)], line.counts[&Cpu(1)]))
            .collect();
        assert_eq!(told, [("36", 0, 2), ("TIMER", 5, 0)]);
    }

    #[test]
    fn text_that_is_something_else_has_no_lines() {
        for text in ["", "CPU0\n", "nonsense\n24: x y\n", "CPU0 CPU1\n24: 1\n"] {
            assert!(parse(text, "").is_empty(), "{text}");
        }
    }
}

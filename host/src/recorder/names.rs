//! Names that are in no event: threads, interrupt lines, idle states. Read when a window is decoded.

use std::collections::{BTreeSet, HashMap};
use std::fs;

use lathunt_core::printable;
use lathunt_core::time::{Cpu, Mono, Ns, Tid};
use lathunt_core::trace::event::{Kind, TaskRef};
use lathunt_core::trace::window::Window;
use procfs::process::Process;

use crate::clock;

/// Adds missing names to `window`. A thread that has ended stays without a name, even if its id was reused.
pub(super) fn fill(window: &mut Window) {
    let (unnamed, cpus) = unnamed(window);
    let end = window.events.last().map_or(Mono(u64::MAX), |event| event.at);
    for tid in unnamed {
        if let Some(comm) = name_at(tid, end) {
            window.comms.insert(tid, printable::line(&comm).into_owned());
        }
    }
    window.irq_names = interrupts();
    if let Some(cpu) = cpus.first() {
        window.idle_states = idle_states(*cpu);
    }
}

/// The name of a thread that existed at `then`.
fn name_at(tid: Tid, then: Mono) -> Option<String> {
    let stat = Process::new(tid.0).and_then(|thread| thread.stat()).ok()?;
    let ago = clock::mono().since(then);
    let boot = Ns(clock::read(libc::CLOCK_BOOTTIME).unsigned_abs()).saturating_sub(ago);
    let started = stat.starttime.saturating_mul(1_000_000_000) / procfs::ticks_per_second();
    (started <= boot.0).then_some(stat.comm)
}

/// Threads that no event of the window names, and its CPUs.
fn unnamed(window: &Window) -> (BTreeSet<Tid>, BTreeSet<Cpu>) {
    let (mut seen, mut named, mut cpus) = (BTreeSet::new(), BTreeSet::from([Tid::IDLE]), BTreeSet::new());
    let mut task = |task: &TaskRef| {
        match task.comm {
            Some(_) => named.insert(task.tid),
            None => seen.insert(task.tid),
        };
    };
    for event in &window.events {
        cpus.insert(event.cpu);
        task(&TaskRef { tid: event.current.unwrap_or_default(), ..TaskRef::default() });
        match &event.kind {
            Kind::Switch { prev, next, .. } => {
                task(prev);
                task(next);
            }
            Kind::Waking { task: woken, .. } | Kind::Migrate { task: woken, .. } => task(woken),
            _ => {}
        }
    }
    (seen.difference(&named).copied().collect(), cpus)
}

/// The names of each line in /proc/interrupts: the actions at the end of its row.
pub(super) fn interrupts() -> HashMap<u32, String> {
    parse_interrupts(&fs::read_to_string("/proc/interrupts").unwrap_or_default())
}

/// The names in a text of /proc/interrupts.
#[must_use]
pub fn parse_interrupts(text: &str) -> HashMap<u32, String> {
    let mut lines = text.lines();
    let cpus = lines.next().map_or(0, |head| head.split_ascii_whitespace().count());
    let row = |line: &str| -> Option<(u32, String)> {
        let (number, rest) = line.split_once(':')?;
        // counts, chip, (hardware number and trigger in one or two words,) actions
        let words: Vec<&str> = rest.split_ascii_whitespace().skip(cpus).collect();
        let start = words.iter().rposition(|word| word.ends_with("-edge") || word.ends_with("-fasteoi"));
        let start = start.or_else(|| words.iter().rposition(|word| matches!(*word, "Edge" | "Level")))?;
        let name = words[start + 1..].join(" ");
        (!name.is_empty()).then_some((number.trim().parse().ok()?, name))
    };
    lines.filter_map(row).collect()
}

/// Names of the idle states of `cpu` by number, from cpuidle.
fn idle_states(cpu: Cpu) -> HashMap<u32, String> {
    let name = |state: u32| {
        fs::read_to_string(format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/name")).ok()
    };
    (0..).map_while(|state| Some((state, name(state)?.trim_end().to_owned()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_lines_have_the_names_of_their_actions() {
        let text = "           CPU0       CPU1       \n  4:       2059          0   IO-APIC   4-edge      ttyS0\n\
             25:          0        113  PCI-MSIX-0000:00:02.0   0-edge      virtio0-config, eth0\n\
             12:          1          0     GICv3  27 Level     arch_timer\nLOC:     123   456   Local timer interrupts\n";
        let names = parse_interrupts(text);
        assert_eq!(names[&4], "ttyS0");
        assert_eq!(names[&25], "virtio0-config, eth0");
        assert_eq!(names[&12], "arch_timer");
        assert_eq!(names.len(), 3);
    }
}

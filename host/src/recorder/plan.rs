//! Decides which programs this kernel can run: facts first, then the decision.
//!
//! Probes the feature itself (the tracepoint's type in BTF), never a version.

use std::collections::BTreeSet;

use libbpf_rs::btf::types::{Struct, Typedef};

use crate::bpf_object::kernel_types;
use crate::error::{Error, Result};

/// Prefix of the sections of programs that run over all objects of a kind.
pub(super) const ITERATOR: &str = "iter/";
/// The one that runs over all threads.
pub(super) const TASKS: &str = "iter/task";

/// Facts only; the rules are below.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// Tracepoints and iterators that BPF programs can attach to, of those needed.
    pub tracepoints: BTreeSet<String>,
    /// PREEMPT_RT: softirqs run in threads and can be preempted.
    pub realtime: bool,
}

/// What to load, and what is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Plan {
    /// Tracepoints and iterators whose programs are loaded.
    pub load: BTreeSet<String>,
    /// What cannot be recorded, and the consequence: one line each.
    pub notes: Vec<String>,
}

/// Without these there is no recorder.
const REQUIRED: [&str; 6] = [
    "sched_switch",
    "sched_waking",
    "hrtimer_expire_entry",
    "hrtimer_expire_exit",
    "timer_expire_entry",
    "timer_expire_exit",
];

/// Worth a note if missing; all others depend on the architecture.
const WANTED: [(&str, &str); 9] = [
    ("irq_handler_entry", "hard interrupts cannot be named"),
    ("nmi_handler", "time in NMIs stays unexplained"),
    ("cpu_idle", "late exits from idle cannot be distinguished from other lateness"),
    ("csd_function_entry", "functions sent by other CPUs are not named (their interrupt is)"),
    ("page_fault_user", "page faults are not counted (x86 only)"),
    ("sched_migrate_task", "migrations are not shown"),
    ("sched_exit_tp", "the time of the switch itself is not measured (since about 6.15)"),
    ("sched_pi_setprio", "priority inheritance is not shown"),
    (TASKS, "waits for a CPU and jobs that began before the recording are not seen (since 5.8)"),
];

impl Kernel {
    /// Queries the running kernel for `tracepoints`.
    pub fn probe<'a>(tracepoints: impl Iterator<Item = &'a str>) -> Result<Kernel> {
        let btf = kernel_types()?;
        let has = |name: &&str| match name.strip_prefix(ITERATOR) {
            Some(of) => btf.type_by_name::<Struct<'_>>(&format!("bpf_iter__{of}")).is_some(),
            None => btf.type_by_name::<Typedef<'_>>(&format!("btf_trace_{name}")).is_some(),
        };
        let version = std::fs::read_to_string("/proc/sys/kernel/version").unwrap_or_default();
        Ok(Kernel {
            tracepoints: tracepoints.filter(has).map(str::to_owned).collect(),
            realtime: version.contains("PREEMPT_RT") || version.contains("PREEMPT RT"),
        })
    }
}

impl Plan {
    /// The decision.
    pub fn of(kernel: &Kernel) -> Result<Plan> {
        let missing = REQUIRED.iter().filter(|&&name| !kernel.tracepoints.contains(name));
        let missing: Vec<_> = missing.copied().collect();
        if !missing.is_empty() {
            return Err(Error::refused(
                "record kernel events:",
                format!("this kernel has no tracepoint {}", missing.join(", ")),
                "it needs CONFIG_TRACEPOINTS and BTF",
            ));
        }
        let mut load = kernel.tracepoints.clone();
        let mut notes: Vec<String> = WANTED
            .iter()
            .filter(|(name, _)| !load.contains(*name))
            .map(|(name, cost)| match name.strip_prefix(ITERATOR) {
                Some(of) => format!("no BPF iterator over each {of}: {cost}"),
                None => format!("no tracepoint {name}: {cost}"),
            })
            .collect();
        if kernel.realtime {
            load.retain(|name| !name.starts_with("softirq_"));
            notes.push("PREEMPT_RT: softirqs are threads here and are recorded as such".to_owned());
        }
        Ok(Plan { load, notes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capable() -> Kernel {
        let names = REQUIRED.iter().chain(WANTED.iter().map(|(name, _)| name)).chain(&["softirq_entry"]);
        Kernel { tracepoints: names.map(|&name| name.to_owned()).collect(), realtime: false }
    }

    #[test]
    fn a_capable_kernel_loads_everything_silently() {
        let plan = Plan::of(&capable()).unwrap();
        assert_eq!((plan.load, plan.notes), (capable().tracepoints, vec![]));
    }

    #[test]
    fn an_optional_tracepoint_costs_a_note_and_a_required_one_the_recorder() {
        let mut kernel = capable();
        kernel.tracepoints.remove("csd_function_entry");
        assert_eq!(Plan::of(&kernel).unwrap().notes.len(), 1);
        kernel.tracepoints.remove("sched_waking");
        assert!(Plan::of(&kernel).unwrap_err().to_string().contains("sched_waking"));
    }

    #[test]
    fn softirqs_are_threads_on_preempt_rt() {
        let plan = Plan::of(&Kernel { realtime: true, ..capable() }).unwrap();
        assert!(!plan.load.contains("softirq_entry"));
    }
}

//! Totals at a scrape, independent of windows, and their metrics.

use super::{number, of_cpu};
use crate::histogram::Histogram;
use crate::monitor::metric::{Family, Kind, Sample};
use crate::monitor::window::SeriesKey;
use crate::run::Loss;
use crate::time::{Cpu, Ns};

/// Interrupts of one class on one CPU since the start of the recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interrupts {
    /// CPU.
    pub cpu: Cpu,
    /// `io`, `local_timer`, `reschedule`, `softirq_net_rx`, `nmi`, …
    pub class: String,
    /// Number.
    pub count: u64,
    /// Total time, without nested interrupts.
    pub total: Ns,
}

/// Totals at a scrape.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// Every series since the start of the recorder, with its known number of lost wake-ups.
    pub series: Vec<(SeriesKey, Histogram, u64)>,
    /// Interrupts.
    pub interrupts: Vec<Interrupts>,
    /// Loss counters above zero.
    pub losses: Vec<Loss>,
    /// Tasks that wait for a CPU, by name, with the longest wait.
    pub waiting: Vec<(String, Ns)>,
    /// Thermal throttling time of each CPU, if the kernel counts it.
    pub throttled: Vec<(Cpu, Ns)>,
    /// CPU time of the monitor itself.
    pub own_cpu: Ns,
    /// Memory of the monitor itself, bytes.
    pub own_memory: Option<u64>,
}

/// Families of counters and gauges that do not depend on windows.
pub(super) fn counters(totals: &Totals) -> Vec<Family> {
    let of_class = |of: &dyn Fn(&Interrupts) -> f64| -> Vec<Sample> {
        let sample = |one: &Interrupts| number(vec![of_cpu(one.cpu), ("class", one.class.clone())], of(one));
        totals.interrupts.iter().map(sample).collect()
    };
    vec![
        Family {
            name: "lathunt_interrupts",
            help: "Interrupts and softirqs since the monitor began, by class.",
            kind: Kind::Counter,
            samples: of_class(&|one| one.count as f64),
        },
        Family {
            name: "lathunt_interrupt_seconds",
            help: "Time they took, net of what interrupted them.",
            kind: Kind::Counter,
            samples: of_class(&|one| one.total.as_secs()),
        },
        Family {
            name: "lathunt_waiting_seconds",
            help: "How long a task of this name has been waiting for a CPU by now; absent where none waits for more than a second.",
            kind: Kind::Gauge,
            samples: totals
                .waiting
                .iter()
                .map(|(task, waits)| number(vec![("task", task.clone())], waits.as_secs()))
                .collect(),
        },
        Family {
            name: "lathunt_lost_events",
            help: "Records that the recorder lost, by counter; absent counters are zero.",
            kind: Kind::Counter,
            samples: totals
                .losses
                .iter()
                .map(|loss| number(vec![("counter", loss.counter.clone())], loss.count as f64))
                .collect(),
        },
        Family {
            name: "lathunt_throttled_seconds",
            help:
                "Time the CPU was slowed down by heat since boot; absent where the kernel does not count it.",
            kind: Kind::Counter,
            samples: totals
                .throttled
                .iter()
                .map(|(cpu, time)| number(vec![of_cpu(*cpu)], time.as_secs()))
                .collect(),
        },
    ]
}

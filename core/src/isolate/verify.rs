//! Checks an isolated CPU: disturbances while the other CPUs are loaded, their causes and remedies.
//!
//! A count alone is not a failure: an isolated CPU whose program wakes threads has more rescheduling interrupts than
//! any other. So each kind is judged separately, and only guarantees of isolation (no movable interrupts, no foreign
//! threads) can fail.

mod text;

use serde::Serialize;

use super::interrupts::{Class, Line};
use crate::cpuset::CpuSet;
use crate::time::{Cpu, Ns};

/// Severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// None occurred.
    Quiet,
    /// Occurred, and isolation at run time cannot prevent it.
    Noise,
    /// Occurred although isolation should prevent it.
    Broken,
}

/// Whether isolation works.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// No preventable disturbance during the full observation.
    Isolated,
    /// A preventable disturbance occurred.
    NotIsolated,
    /// None occurred, but the busy loop did not run all the time, so that the CPU may have been idle.
    Inconclusive,
}

/// The verdict on one kind of disturbance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What.
    pub cause: String,
    /// Severity.
    pub level: Level,
    /// Count on all isolated CPUs; `None`: not counted.
    pub count: Option<u64>,
    /// Its cause.
    pub because: String,
    /// Its remedy; empty if none is needed.
    pub remedy: String,
}

/// A gap of the busy loop.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Gap {
    /// Where.
    pub cpu: Cpu,
    /// How long.
    pub gap_ns: Ns,
    /// Who.
    pub cause: String,
    /// Evidence.
    pub reasons: String,
}

/// Latency of a timed thread on the isolated CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// Activations.
    pub samples: u64,
    /// Median.
    pub median_ns: Ns,
    /// 99.9 of 100.
    pub p999_ns: Ns,
    /// The worst.
    pub max_ns: Ns,
    /// Steal time of these CPUs; `None`: unknown.
    pub stolen_ns: Option<Ns>,
    /// Idle share of these CPUs, 0 to 1; `None`: unknown.
    pub idle: Option<f64>,
}

/// All observations.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Watched {
    /// The isolated CPUs.
    #[serde(serialize_with = "as_text")]
    pub cpus: CpuSet,
    /// For how long, s.
    pub seconds: f64,
    /// The load.
    pub load: String,
    /// Interrupts and softirqs on the isolated CPUs.
    pub came: Vec<Line>,
    /// Numbers of managed interrupts.
    pub managed: Vec<String>,
    /// Numbers of interrupts that move at their next occurrence.
    pub moving: Vec<String>,
    /// Threads found on the isolated CPUs, moved or not movable.
    pub foreign: Vec<String>,
    /// CPUs without a tick while one thread runs (`nohz_full=`).
    #[serde(serialize_with = "as_text")]
    pub nohz_full: CpuSet,
    /// Whether RCU callbacks are offloaded (`rcu_nocbs=`).
    pub rcu_nocbs: bool,
    /// Gaps of the busy loop, worst first; `None`: it could not run.
    pub gaps: Option<Vec<Gap>>,
    /// The busy loop was ended early.
    pub cut_short: bool,
    /// Cyclic latency before isolation; `None`: the CPUs were isolated already.
    pub before: Option<Latency>,
    /// If it could not be measured before: on as many other CPUs, under the same load.
    pub beside: Option<Latency>,
    /// On the isolated CPUs.
    pub after: Option<Latency>,
    /// Remarks.
    pub notes: Vec<String>,
}

fn as_text<S: serde::Serializer>(cpus: &CpuSet, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(cpus)
}

impl Watched {
    fn on_isolated(&self, line: &Line) -> u64 {
        line.counts.iter().filter(|(cpu, _)| self.cpus.contains(**cpu)).map(|(_, count)| count).sum()
    }

    fn sum(&self, class: Class) -> u64 {
        self.came.iter().filter(|line| line.class == class).map(|line| self.on_isolated(line)).sum()
    }

    /// Movable device interrupts on the isolated CPUs.
    #[must_use]
    pub fn movable(&self) -> u64 {
        self.io().iter().filter(|(_, level, _)| *level == Level::Broken).map(|(_, _, count)| count).sum()
    }

    /// Device interrupts on isolated CPUs.
    fn io(&self) -> Vec<(&Line, Level, u64)> {
        let mut all = Vec::new();
        for line in self.came.iter().filter(|line| line.class == Class::Io) {
            let count = self.on_isolated(line);
            // After a change of affinity, an interrupt occurs once more on its old CPU, which migrates it.
            let excused =
                self.managed.contains(&line.name) || (self.moving.contains(&line.name) && count == 1);
            if count > 0 {
                all.push((line, if excused { Level::Noise } else { Level::Broken }, count));
            }
        }
        all
    }

    /// A finding for each cause.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        let mut all = self.io_findings();
        all.push(self.tick());
        for (class, because, remedy) in PER_CLASS {
            let count = self.sum(class);
            let quiet = count == 0;
            all.push(Finding {
                cause: class.name().to_owned(),
                level: if quiet { Level::Quiet } else { Level::Noise },
                count: Some(count),
                because: if quiet { String::new() } else { because.to_owned() },
                remedy: if quiet { String::new() } else { remedy.to_owned() },
            });
        }
        all.extend(self.softirqs());
        all.push(Finding {
            cause: "foreign threads".to_owned(),
            level: if self.foreign.is_empty() { Level::Quiet } else { Level::Broken },
            count: Some(self.foreign.len() as u64),
            because: self.foreign.iter().take(5).cloned().collect::<Vec<_>>().join(", "),
            remedy: match self.foreign.is_empty() {
                true => String::new(),
                false => {
                    "they chose this CPU themselves: configure them, or let `lathunt isolate run` move them"
                        .to_owned()
                }
            },
        });
        all
    }

    fn io_findings(&self) -> Vec<Finding> {
        let lines = self.io();
        if lines.is_empty() {
            let cause = "I/O interrupts".to_owned();
            let (because, remedy) = (String::new(), String::new());
            return vec![Finding { cause, level: Level::Quiet, count: Some(0), because, remedy }];
        }
        let finding = |(line, level, count): (&Line, Level, u64)| {
            let (because, remedy) = match level {
                Level::Broken => ("somebody moved it back", "stop irqbalance, or ban these CPUs in it"),
                _ if self.managed.contains(&line.name) => (
                    "managed: its driver decides where it comes",
                    "boot with isolcpus=managed_irq, or give the device fewer queues",
                ),
                _ => ("it came once more to be carried over", ""),
            };
            Finding {
                cause: format!("interrupt {} ({})", line.name, line.about),
                level,
                count: Some(count),
                because: because.to_owned(),
                remedy: remedy.to_owned(),
            }
        };
        lines.into_iter().map(finding).collect()
    }

    fn tick(&self) -> Finding {
        let count = self.sum(Class::LocalTimer);
        let rate = count as f64 / self.seconds.max(1e-9) / self.cpus.len().max(1) as f64;
        let covered = self.cpus.minus(&self.nohz_full).is_empty();
        let (because, remedy) = match covered {
            _ if count == 0 => (String::new(), String::new()),
            true if rate < 20.0 => (format!("{rate:.1}/s each: timers of what runs there, no tick"), String::new()),
            true => (
                format!("{rate:.0}/s each although nohz_full covers them: more than one thread was runnable, or a timer was used"),
                "one thread for each isolated CPU; no POSIX timers or perf events there".to_owned(),
            ),
            false => (format!("{rate:.0}/s each: the tick, no nohz_full here"), format!("boot with nohz_full={}", self.cpus)),
        };
        let level = if count == 0 { Level::Quiet } else { Level::Noise };
        Finding { cause: "local timer".to_owned(), level, count: Some(count), because, remedy }
    }

    fn softirqs(&self) -> Vec<Finding> {
        let lines =
            self.came.iter().filter(|line| line.class == Class::Softirq && self.on_isolated(line) > 0);
        let finding = |line: &Line| {
            let (because, remedy) = match line.name.as_str() {
                "TIMER" | "HRTIMER" => {
                    ("timers of the tick and of what runs there", "nohz_full; timer_migration does the rest")
                }
                "SCHED" => ("load balancing at the tick", "nohz_full, or isolcpus=domain"),
                "RCU" if self.rcu_nocbs => ("callbacks of what runs there", ""),
                "RCU" => ("RCU callbacks are processed where they were made", "boot with rcu_nocbs"),
                "NET_RX" | "NET_TX" => (
                    "packets sent or received by what runs there",
                    "keep network work off this CPU; rps_cpus, xps_cpus",
                ),
                "BLOCK" => {
                    ("block I/O of what runs there completes there", "rq_affinity 0 of the disk's queue")
                }
                _ => ("raised by what runs there", ""),
            };
            Finding {
                cause: format!("softirq {}", line.name),
                level: Level::Noise,
                count: Some(self.on_isolated(line)),
                because: because.to_owned(),
                remedy: remedy.to_owned(),
            }
        };
        lines.map(finding).collect()
    }

    /// Whether isolation works.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match self.findings().iter().any(|finding| finding.level == Level::Broken) {
            true => Verdict::NotIsolated,
            false if self.gaps.is_none() || self.cut_short => Verdict::Inconclusive,
            false => Verdict::Isolated,
        }
    }
}

/// Classes whose count does not identify the source; the tick is judged separately.
const PER_CLASS: [(Class, &str, &str); 6] = [
    (
        Class::Rescheduling,
        "threads were woken there from other CPUs: those of the program itself, or kernel threads bound there",
        "wake them from the isolated CPUs, or poll; rcu_nocbs keeps RCU's away",
    ),
    (
        Class::FunctionCall,
        "other CPUs had work done there: membarrier, code patched by tracing or BPF, caches drained",
        "no tracing or module loading at work; quiet file systems",
    ),
    (
        Class::TlbShootdown,
        "what runs there shares its address space with threads elsewhere that unmap memory",
        "lock and pre-fault memory; do not free it while working",
    ),
    (Class::IrqWork, "the kernel put work off: printk, tracing, nohz", ""),
    (Class::Nmi, "the watchdog or profiling", "boot with nmi_watchdog=0; no perf on these CPUs"),
    (Class::Other, "heat, machine checks or the hypervisor", ""),
];

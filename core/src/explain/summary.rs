//! Summary of a whole trace: times of each CPU and each thread, interrupts, wake-up latencies.
//!
//! One walk, constant memory per CPU and thread. Times are between the scheduler's events; interrupt time counts for
//! its CPU, is part of the running time of the interrupted thread, and is also shown separately.

mod digest;
mod in_order;
mod line;
mod reader;
mod tasks;

use serde::{Deserialize, Serialize};

use super::text::wrap;
use crate::time::{Cpu, Ns, Tid};

pub use digest::{Batch, Digester, Walk};
pub use in_order::{combine, summarize};

/// Figures of one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfCpu {
    /// Its id.
    pub cpu: Cpu,
    /// Events read.
    pub events: u64,
    /// Events counted as lost.
    pub lost: u64,
    /// Number of losses of unknown size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_uncounted: u64,
    /// Time with a thread.
    pub busy_ns: Ns,
    /// Time with the idle task.
    pub idle_ns: Ns,
    /// Time in which the task on the CPU is not recorded: the rest of the whole.
    #[serde(default)]
    pub unrecorded_ns: Ns,
    /// Time in interrupts and softirqs (part of busy and idle time); `None` if no interrupt is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_ns: Option<Ns>,
    /// Context switches.
    pub switches: u64,
    /// Switches that are missing without a reported loss: the thread switched out is not the one switched in last. The
    /// time of both in between is not counted.
    #[serde(default)]
    pub unseen_switches: u64,
}

impl OfCpu {
    /// The sums with the unrecorded rest of `whole`, and `not_interrupted` for a CPU without interrupts: `None` if the whole
    /// trace has none, because then they are not recorded.
    fn of(self, whole: Ns, not_interrupted: Option<Ns>) -> OfCpu {
        let unrecorded_ns = whole.saturating_sub(self.busy_ns + self.idle_ns);
        OfCpu { unrecorded_ns, interrupted_ns: self.interrupted_ns.or(not_interrupted), ..self }
    }
}

/// Figures of one thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfThread {
    /// Its id.
    pub tid: Tid,
    /// Its last name.
    pub comm: String,
    /// Its earlier names.
    #[serde(skip)]
    pub earlier: Vec<String>,
    /// Time on a CPU, including interrupts.
    pub run_ns: Ns,
    /// Time runnable without a CPU.
    pub ready_ns: Ns,
    /// Time blocked.
    pub blocked_ns: Ns,
    /// Interrupt time within its running time; `None` if no interrupt is recorded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interrupted_ns: Option<Ns>,
    /// Number of wake-ups.
    pub wakeups: u64,
    /// The largest wake-up latency; `None` without wake-ups.
    pub worst_wakeup_ns: Option<Ns>,
    /// Number of migrations.
    pub migrations: u64,
}

/// An interrupt source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupter {
    /// `hard IRQ 25 (virtio0)`, `vector local_timer`, `softirq NET_RX`.
    pub name: String,
    /// Number of occurrences.
    pub count: u64,
    /// Total time, without nested interrupts.
    pub total_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// Wake-up latencies of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wakeups {
    /// Number of wake-ups.
    pub count: u64,
    /// Median (resolution of the histogram: 1 µs).
    pub median_ns: Ns,
    /// 99 % were at most this.
    pub p99_ns: Ns,
    /// 99.9 % were at most this.
    pub p999_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
    /// Additional wake-ups, not counted above, of threads that still waited for a CPU when the trace ended.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unfinished: u64,
    /// The longest of these waits, until the end of the trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_unfinished_ns: Option<Ns>,
    /// Wake-ups with lost events in between, not counted above: if the switch-in was lost, the next one was taken.
    #[serde(default)]
    pub spanning_losses: u64,
    /// The longest of them, if it is paired correctly.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_spanning_ns: Option<Ns>,
    /// Additional wake-ups, not counted above, whose switch-in was not recorded.
    #[serde(default)]
    pub unseen_switch_ins: u64,
    /// Maximum latency of one of these: until the thread was switched out or woken again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_unseen_ns: Option<Ns>,
}

/// The summary.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    /// `lathunt-summary`.
    #[serde(default)]
    pub format: String,
    /// Version of this format.
    #[serde(default)]
    pub version: u32,
    /// Events read.
    pub events: u64,
    /// Time from the first to the last event.
    pub span_ns: Ns,
    /// Per CPU.
    pub cpus: Vec<OfCpu>,
    /// Per thread, most running time first.
    pub threads: Vec<OfThread>,
    /// Interrupts, most time first.
    pub interrupters: Vec<Interrupter>,
    /// Wake-ups of all threads.
    pub wakeups: Wakeups,
    /// CPUs whose events end before those of the others although they had work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// Damage found.
    pub damage: Vec<String>,
}

/// Maximum number of lines of each table on the terminal.
const MOST: usize = 20;

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `-` if nothing is known.
fn known(time: Option<Ns>) -> String {
    time.map_or("-".to_owned(), |time| time.to_string())
}

/// `12`, `12+?` if some were not counted, `?` if none was counted.
fn lost_of(cpu: &OfCpu) -> String {
    match (cpu.lost, cpu.lost_uncounted) {
        (lost, 0) => lost.to_string(),
        (0, _) => "?".to_owned(),
        (lost, _) => format!("{lost}+?"),
    }
}

impl Summary {
    /// The terminal text, at most 100 columns.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = format!("{} events in {}\n\n", self.events, self.span_ns);
        text.push_str(
            "CPU       events     lost        busy        idle  unrecorded interrupted  switches\n",
        );
        for cpu in &self.cpus {
            text.push_str(&format!(
                "{:>3} {:>12} {:>8} {:>11} {:>11} {:>11} {:>11} {:>9}\n",
                cpu.cpu,
                cpu.events,
                lost_of(cpu),
                cpu.busy_ns,
                cpu.idle_ns,
                cpu.unrecorded_ns,
                known(cpu.interrupted_ns),
                cpu.switches
            ));
        }
        text.push_str("\nthread                           run       ready     blocked interrupted  wakeups    max wakeup\n");
        for thread in self.threads.iter().take(MOST) {
            let (worst, interrupted) = (known(thread.worst_wakeup_ns), known(thread.interrupted_ns));
            let name: String = format!("{}/{}", thread.comm, thread.tid).chars().take(24).collect();
            text.push_str(&format!(
                "{name:<24} {:>11} {:>11} {:>11} {interrupted:>11} {:>8} {worst:>13}\n",
                thread.run_ns, thread.ready_ns, thread.blocked_ns, thread.wakeups
            ));
        }
        if self.threads.len() > MOST {
            text.push_str(&format!("… and {} more\n", self.threads.len() - MOST));
        }
        text.push_str("\ninterrupter                              count       total         max\n");
        for interrupter in self.interrupters.iter().take(MOST) {
            let name: String = interrupter.name.chars().take(36).collect();
            let (count, total, worst) = (interrupter.count, interrupter.total_ns, interrupter.worst_ns);
            text.push_str(&format!("{name:<36} {count:>9} {total:>11} {worst:>11}\n"));
        }
        if self.interrupters.is_empty() {
            text.push_str("no interrupt is recorded (irq_vectors:*, irq:*)\n");
        }
        let Wakeups { count, median_ns, p99_ns, p999_ns, worst_ns, .. } = &self.wakeups;
        text.push_str(&match count {
            0 => "\nno wake-up with its switch-in is recorded\n".to_owned(),
            _ => format!(
                "\n{count} wake-ups: median {median_ns}, 99 % {p99_ns}, 99.9 % {p999_ns}, max {worst_ns}\n"
            ),
        });
        let unseen: u64 = self.cpus.iter().map(|cpu| cpu.unseen_switches).sum();
        if unseen > 0 {
            let told = format!(
                "{unseen} context switches were not recorded (nor marked as lost): the activity around them is not counted"
            );
            wrap(&mut text, "! ", &told);
        }
        if let Some(longest) = self.wakeups.longest_unfinished_ns {
            let more = self.wakeups.unfinished;
            let told = format!(
                "{more} more not finished when the trace ended (the longest had waited {longest}) are not counted"
            );
            wrap(&mut text, "! ", &told);
        }
        if let Some(longest) = self.wakeups.longest_unseen_ns {
            let more = self.wakeups.unseen_switch_ins;
            let told = format!("{more} more with no recorded switch-in (at most {longest}) are not counted");
            wrap(&mut text, "! ", &told);
        }
        if let Some(longest) = self.wakeups.longest_spanning_ns {
            let spanning_losses = self.wakeups.spanning_losses;
            let told = format!(
                "{spanning_losses} more with lost events in between (apparently up to {longest}) are not counted"
            );
            wrap(&mut text, "! ", &told);
        }
        for silent in &self.silent {
            wrap(&mut text, "! ", silent);
        }
        for damage in &self.damage {
            wrap(&mut text, "! ", &format!("the file is damaged at {damage}"));
        }
        text
    }
}

#[cfg(test)]
mod tests;

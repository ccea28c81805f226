//! A whole trace at a glance: what each CPU and each thread did, who interrupted most, how long wake-ups took.
//!
//! One walk, constant memory per CPU and thread. Intervals are those of the scheduler's events; time in interrupts is
//! counted for their CPU and is part of the running time of the thread that they interrupted, and shown beside it.

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

/// What one CPU did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfCpu {
    /// Which.
    pub cpu: Cpu,
    /// Events read.
    pub events: u64,
    /// Events lost, where counted.
    pub lost: u64,
    /// Times that an unknown number was lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost_uncounted: u64,
    /// A thread had it.
    pub busy_ns: Ns,
    /// The idle task had it.
    pub idle_ns: Ns,
    /// In interrupts and softirqs (part of the two).
    pub interrupted_ns: Ns,
    /// Context switches.
    pub switches: u64,
    /// Switches that are missing without a mark of loss: who left the CPU is not who was switched in last. What both did
    /// meanwhile is not counted.
    #[serde(default)]
    pub unseen_switches: u64,
}

/// What one thread did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OfThread {
    /// Which.
    pub tid: Tid,
    /// Its last name.
    pub comm: String,
    /// On a CPU, with what interrupted it there.
    pub run_ns: Ns,
    /// Runnable without a CPU.
    pub ready_ns: Ns,
    /// Blocked.
    pub blocked_ns: Ns,
    /// Of the running time, in interrupts.
    pub interrupted_ns: Ns,
    /// Wake-ups.
    pub wakeups: u64,
    /// The longest from waking to switched in; `None` without any.
    pub worst_wakeup_ns: Option<Ns>,
    /// Migrations.
    pub migrations: u64,
}

/// An interrupt source.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupter {
    /// `hard IRQ 25 (virtio0)`, `vector local_timer`, `softirq NET_RX`.
    pub name: String,
    /// How often.
    pub count: u64,
    /// Time in it, without what interrupted it in turn.
    pub total_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
}

/// Wake-up latencies of all threads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Wakeups {
    /// How many.
    pub count: u64,
    /// Half were at most this (to the resolution of the histogram: 1 µs).
    pub median_ns: Ns,
    /// 99 % were at most this.
    pub p99_ns: Ns,
    /// 99.9 % were at most this.
    pub p999_ns: Ns,
    /// The longest.
    pub worst_ns: Ns,
    /// Wake-ups with lost events on the way, which are not among those above: where the switch-in was lost, the next
    /// one stands for it.
    #[serde(default)]
    pub spanning_losses: u64,
    /// The longest of them, if each is what it seems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_spanning_ns: Option<Ns>,
    /// Further wake-ups, which are not among those above either: their switch-in was not recorded.
    #[serde(default)]
    pub unseen_switch_ins: u64,
    /// The longest that one of these can have taken: until the thread left its CPU again, or was woken again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_unseen_ns: Option<Ns>,
}

/// All of it.
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
    /// From the first to the last.
    pub span_ns: Ns,
    /// Per CPU.
    pub cpus: Vec<OfCpu>,
    /// Per thread, most running time first.
    pub threads: Vec<OfThread>,
    /// Most time first.
    pub interrupters: Vec<Interrupter>,
    /// Real-time threads' and others' together.
    pub wakeups: Wakeups,
    /// CPUs whose events end before those of the others although they had something to do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<String>,
    /// Damage met.
    pub damage: Vec<String>,
}

/// Lines of each table on the terminal.
const MOST: usize = 20;

#[allow(clippy::trivially_copy_pass_by_ref)] // serde gives a reference
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// `12`, `12+?` where some were not counted, `?` where none was.
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
        text.push_str("CPU       events     lost        busy        idle interrupted  switches\n");
        for cpu in &self.cpus {
            text.push_str(&format!(
                "{:>3} {:>12} {:>8} {:>11} {:>11} {:>11} {:>9}\n",
                cpu.cpu,
                cpu.events,
                lost_of(cpu),
                cpu.busy_ns,
                cpu.idle_ns,
                cpu.interrupted_ns,
                cpu.switches
            ));
        }
        text.push_str("\nthread                           run       ready     blocked interrupted  wakeups  worst wakeup\n");
        for thread in self.threads.iter().take(MOST) {
            let worst = thread.worst_wakeup_ns.map_or("-".to_owned(), |worst| worst.to_string());
            let name: String = format!("{}/{}", thread.comm, thread.tid).chars().take(24).collect();
            text.push_str(&format!(
                "{name:<24} {:>11} {:>11} {:>11} {:>11} {:>8} {worst:>13}\n",
                thread.run_ns, thread.ready_ns, thread.blocked_ns, thread.interrupted_ns, thread.wakeups
            ));
        }
        if self.threads.len() > MOST {
            text.push_str(&format!("… and {} more\n", self.threads.len() - MOST));
        }
        text.push_str("\ninterrupter                              count       total       worst\n");
        for interrupter in self.interrupters.iter().take(MOST) {
            let name: String = interrupter.name.chars().take(36).collect();
            let (count, total, worst) = (interrupter.count, interrupter.total_ns, interrupter.worst_ns);
            text.push_str(&format!("{name:<36} {count:>9} {total:>11} {worst:>11}\n"));
        }
        let Wakeups { count, median_ns, p99_ns, p999_ns, worst_ns, .. } = &self.wakeups;
        text.push_str(&format!(
            "\n{count} wake-ups: median {median_ns}, 99 % {p99_ns}, 99.9 % {p999_ns}, worst {worst_ns}\n"
        ));
        let unseen: u64 = self.cpus.iter().map(|cpu| cpu.unseen_switches).sum();
        if unseen > 0 {
            let told = format!(
                "{unseen} context switches were not recorded (nor marked as lost): the activity around them is not counted"
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

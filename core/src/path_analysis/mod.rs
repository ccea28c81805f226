//! Path analysis: an upper limit of the scheduling latency from the longest sections of kernel code that delay a thread.
//!
//! D. B. de Oliveira, D. Casini, R. S. de Oliveira, T. Cucinotta: Demystifying the Real-Time Linux Scheduling Latency,
//! ECRTS 2020. Without interrupts, the thread of the highest priority waits at most
//! max(D_ST, D_POID) + D_PAIE + D_PSD for the CPU; interrupts in that time add to it ([`latency`]). The theorem is valid for
//! fully preemptive kernels (PREEMPT_RT). The result is a bound over the measured maxima: a longer section may occur later.
//!
//! Not included: threads of higher or equal priority, the delay of a wake-up from another CPU, the exit from an idle state,
//! sections without an event (`preempt_disable_notrace`), and a section that is still open at the end of the recording. Steal time
//! lengthens the section in which it occurs.

pub mod executions;
pub mod latency;

use serde::{Deserialize, Serialize};

use self::executions::Executions;
use crate::series::Thread;
use crate::time::{Cpu, Mono, Ns};

/// The terms of a path analysis of one CPU (`record --path-analysis`). Times exclude interrupts and NMIs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathAnalysis {
    /// CPU.
    pub cpu: Cpu,
    /// D_POID: longest time with preemption or interrupts disabled by a thread, not to schedule.
    pub poid: Option<Longest>,
    /// D_PAIE: longest time with both enabled while need_resched is set, until preemption is disabled to schedule.
    pub paie: Option<Longest>,
    /// D_PSD: longest time with preemption disabled to schedule.
    pub psd: Option<Longest>,
    /// D_ST: longest time from interrupts disabled for the context switch until preemption is enabled.
    pub dst: Option<Longest>,
    /// Executions of interrupts and NMIs, per source.
    pub interrupts: Vec<Executions>,
    /// Number of lost executions and sections; if any is lost, no bound is computed.
    pub lost: u64,
}

/// The longest section of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Longest {
    /// Length, without interrupts.
    pub ns: Ns,
    /// When it ended.
    pub end: Mono,
    /// The thread that ended it; after a context switch, the next one.
    pub thread: Thread,
    /// The code at its beginning and its end.
    pub place: String,
}

impl PathAnalysis {
    /// The reason why these figures contradict each other; `None`: they do not.
    #[must_use]
    pub fn contradiction(&self) -> Option<String> {
        let ns = |one: &Option<Longest>| one.as_ref().map(|one| one.ns);
        if ns(&self.dst) > ns(&self.psd) {
            return Some("DST, the end of PSD, is longer than PSD".to_owned());
        }
        let mut sources: Vec<&str> = self.interrupts.iter().map(|one| one.source.as_str()).collect();
        sources.sort_unstable();
        if sources.windows(2).any(|pair| pair[0] == pair[1]) {
            return Some("one source of interrupts has two entries".to_owned());
        }
        let of = |one: &Executions| one.contradiction().map(|what| format!("{}: {what}", one.source));
        self.interrupts.iter().find_map(of)
    }

    /// Adds what was measured on the same CPU at another time.
    pub fn merge(&mut self, other: &PathAnalysis) {
        let longer = |mine: &mut Option<Longest>, other: &Option<Longest>| {
            if mine.as_ref().map(|one| one.ns) < other.as_ref().map(|one| one.ns) {
                mine.clone_from(other);
            }
        };
        longer(&mut self.poid, &other.poid);
        longer(&mut self.paie, &other.paie);
        longer(&mut self.psd, &other.psd);
        longer(&mut self.dst, &other.dst);
        self.lost = self.lost.saturating_add(other.lost);
        for theirs in &other.interrupts {
            match self.interrupts.iter_mut().find(|mine| mine.source == theirs.source) {
                Some(mine) => mine.merge(theirs),
                None => self.interrupts.push(theirs.clone()),
            }
        }
    }
}

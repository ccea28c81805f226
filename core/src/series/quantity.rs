//! The quantities, and one table of their properties. A new quantity needs a variant, a row, and an instrument that
//! measures it: all code that lists, ranks, names or exports quantities reads the table.

use serde::{Deserialize, Serialize};

/// The measured quantity: start event → end event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Quantity {
    /// Programmed wake-up time → first instruction of the thread in user space (what cyclictest prints).
    Cyclic,
    /// Programmed expiry → timer handler.
    Timer,
    /// sched_waking → switched in.
    Wakeup,
    /// Programmed expiry → switched in.
    #[serde(rename = "timer+wakeup")]
    TimerWakeup,
    /// sched_waking → switched in, while a task of equal real-time priority was running: FIFO order, not a latency.
    #[serde(rename = "sharedprio")]
    SharedPrio,
    /// Switched in → out of the scheduler.
    Switch,
    /// Programmed expiry or waking of an activation → the thread waits for its next one.
    Response,
    /// need_resched → scheduler entry: an estimate of blocking, not a bound.
    Blocking,
    /// Interrupts off → on, whether or not a task waited.
    Irqsoff,
    /// Preemption off → on.
    Preemptoff,
    /// Interrupts and preemption off → either of them on.
    Preemptirqsoff,
    /// One iteration of a loop that never stops: its own cost, or a gap.
    Npt,
    /// Gap that no software explains.
    Hardware,
    /// Stimulus → response, measured from outside.
    Roundtrip,
    /// Part of a round trip: stimulus sent → received by the responder's thread, if both use the same clock.
    Outward,
    /// Part of a round trip: stimulus received → answer sent, in the responder.
    Turnaround,
    /// Part of a round trip: answer sent → received by the box, if both use the same clock.
    Return,
    /// Part of a round trip: the round trip minus the turnaround, if the two ends use different clocks.
    Ways,
    /// Release of a thread (by a timer, or by the next lower thread while it computes) → its first instruction.
    Preemption,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The name in files and tables.
    pub name: &'static str,
    /// Start event → end event, for plots and reports.
    pub meaning: &'static str,
    /// Order in reports and in the choice of the judged quantity, 0 first: measured by a thread before measured in the
    /// kernel.
    pub rank: u8,
    /// Directory name in latency_hist of the PREEMPT_RT patch; `None`: it had no such histogram.
    pub latency_hist: Option<&'static str>,
    /// Help text of the graph in `monitor`; `None`: `monitor` does not record it.
    pub monitor: Option<&'static str>,
    /// Interrupts or preemption were off, whether or not a task waited: not the latency of a task, and never a late
    /// case.
    pub is_potential: bool,
}

impl Quantity {
    /// The row of this quantity.
    #[must_use]
    pub fn facts(self) -> &'static Facts {
        match self {
            Quantity::Cyclic => &Facts {
                name: "cyclic",
                meaning: "programmed wake-up → first instruction in user space",
                rank: 0,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Timer => &Facts {
                name: "timer",
                meaning: "programmed expiry → timer handler",
                rank: 2,
                latency_hist: Some("missed_timer_offsets"),
                monitor: Some("Programmed expiry of a timer to its handler."),
                is_potential: false,
            },
            Quantity::Wakeup => &Facts {
                name: "wakeup",
                meaning: "waking → switched in",
                rank: 3,
                latency_hist: Some("wakeup"),
                monitor: Some("Waking of a real-time task to its run."),
                is_potential: false,
            },
            Quantity::TimerWakeup => &Facts {
                name: "timer+wakeup",
                meaning: "programmed expiry → switched in",
                rank: 1,
                latency_hist: Some("timerandwakeup"),
                monitor: Some("Programmed expiry of a timer to the run of the real-time task it wakes."),
                is_potential: false,
            },
            Quantity::SharedPrio => &Facts {
                name: "sharedprio",
                meaning: "waking → switched in, behind a task of equal priority",
                rank: 4,
                latency_hist: Some("wakeup/sharedprio"),
                monitor: Some("Waking of a real-time task to its run, after one of the same priority."),
                is_potential: false,
            },
            Quantity::Switch => &Facts {
                name: "switch",
                meaning: "switched in → out of the scheduler",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Response => &Facts {
                name: "response",
                meaning: "programmed expiry or waking → the thread waits for its next activation",
                rank: 4,
                latency_hist: None,
                monitor: Some("Release of a job to its end, of tasks with a deadline."),
                is_potential: false,
            },
            Quantity::Blocking => &Facts {
                name: "blocking",
                meaning: "need_resched → scheduler entry (an observed-blocking estimate, not a bound)",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Irqsoff => &Facts {
                name: "irqsoff",
                meaning: "interrupts off → on (potential: possibly no task waited)",
                rank: 4,
                latency_hist: Some("irqsoff"),
                monitor: None,
                is_potential: true,
            },
            Quantity::Preemptoff => &Facts {
                name: "preemptoff",
                meaning: "preemption off → on (potential: possibly no task waited)",
                rank: 4,
                latency_hist: Some("preemptoff"),
                monitor: None,
                is_potential: true,
            },
            Quantity::Preemptirqsoff => &Facts {
                name: "preemptirqsoff",
                meaning: "both off → one of them on (potential: possibly no task waited)",
                rank: 4,
                latency_hist: Some("preemptirqsoff"),
                monitor: None,
                is_potential: true,
            },
            Quantity::Npt => &Facts {
                name: "npt",
                meaning: "one iteration of a busy loop",
                rank: 0,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Hardware => &Facts {
                name: "hardware",
                meaning: "gap that no software explains",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Roundtrip => &Facts {
                name: "roundtrip",
                meaning: "stimulus → response, seen from outside",
                rank: 0,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Outward => &Facts {
                name: "outward",
                meaning: "stimulus sent → received by the responder",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Turnaround => &Facts {
                name: "turnaround",
                meaning: "stimulus received → answer sent, in the responder",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Return => &Facts {
                name: "return",
                meaning: "answer sent → received by the box",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Ways => &Facts {
                name: "ways",
                meaning: "round trip without the turnaround: both ways together",
                rank: 4,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
            Quantity::Preemption => &Facts {
                name: "preemption",
                meaning: "release by a timer or a lower thread → running",
                rank: 0,
                latency_hist: None,
                monitor: None,
                is_potential: false,
            },
        }
    }

    /// The name in files and tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// Whether this is a potential latency: interrupts or preemption were off, whether or not a task waited.
    #[must_use]
    pub fn is_potential(self) -> bool {
        self.facts().is_potential
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_in_tables_is_the_name_in_files() {
        for quantity in
            [Quantity::Cyclic, Quantity::TimerWakeup, Quantity::SharedPrio, Quantity::Preemptirqsoff]
        {
            assert_eq!(serde_json::to_string(&quantity).unwrap(), format!("\"{}\"", quantity.name()));
        }
    }
}

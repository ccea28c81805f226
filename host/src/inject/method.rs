//! Which method produces which kind of disturbance on this kernel.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::bpf::{Programs, Softirq, Timer};
use super::threads::{self, Faults};
use super::{Options, Pulse};
use crate::error::Result;

/// What holds the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Interrupts off: not even a timer interrupt gets through.
    Irqoff,
    /// Preemption off: interrupts get through, no thread does.
    Preemptoff,
    /// A softirq (NET_RX) that takes long.
    Softirq,
    /// A thread of high real-time priority.
    Thread,
    /// The same, busy with page faults.
    Pagefault,
}

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 5] = [Kind::Irqoff, Kind::Preemptoff, Kind::Softirq, Kind::Thread, Kind::Pagefault];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Irqoff => "irqoff",
            Kind::Preemptoff => "preemptoff",
            Kind::Softirq => "softirq",
            Kind::Thread => "thread",
            Kind::Pagefault => "pagefault",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Kind {
    type Err = String;
    fn from_str(text: &str) -> std::result::Result<Kind, String> {
        let names = || Kind::ALL.map(Kind::name).join(", ");
        Kind::ALL
            .into_iter()
            .find(|kind| kind.name() == text)
            .ok_or_else(|| format!("'{text}' is not a disturbance; there are {}", names()))
    }
}

/// A kind, made ready for this kernel.
pub(super) enum Method {
    /// `syscall` program that turns interrupts off.
    IrqsOff(Programs),
    /// In hrtimer_start(), where the kernel has them off.
    IrqsOffAtTimer(Programs, Timer),
    /// `raw_tp` program.
    PreemptOff(Programs),
    Softirq(Programs, Softirq),
    Thread,
    Faults(Faults),
}

impl Method {
    /// Loads and allocates the resources for `kind`.
    pub fn prepare(kind: Kind) -> Result<Method> {
        Ok(match kind {
            Kind::Irqoff => match Programs::load("hold_irqs_off") {
                Ok(programs) => Method::IrqsOff(programs),
                Err(_) => Method::IrqsOffAtTimer(Programs::load("hold_at_timer")?, Timer::new()?),
            },
            Kind::Preemptoff => Method::PreemptOff(Programs::load("hold_here")?),
            Kind::Softirq => Method::Softirq(Programs::load("hold_softirq")?, Softirq::new()?),
            Kind::Thread => Method::Thread,
            Kind::Pagefault => Method::Faults(Faults::new()?),
        })
    }

    /// Name of the method, for the report.
    pub fn name(&self) -> &'static str {
        match self {
            Method::IrqsOff(_) => "BPF program with bpf_local_irq_save, on the CPU itself",
            Method::IrqsOffAtTimer(..) => "BPF program where the kernel starts a timer, with interrupts off",
            Method::PreemptOff(_) => "BPF test run on the CPU itself (preemption off)",
            Method::Softirq(..) => "BPF program in NET_RX, by a packet to ourselves",
            Method::Thread => "FIFO thread",
            Method::Faults(_) => "FIFO thread with page faults",
        }
    }

    /// Notable side effects.
    pub fn notes(&self, options: &Options<'_>) -> Vec<String> {
        match self {
            Method::Thread | Method::Faults(_) => threads::throttling(options.length).into_iter().collect(),
            _ => Vec::new(),
        }
    }

    /// Moves the calling thread to where pulses are produced.
    pub fn enter(&self, options: &Options<'_>) -> Result<()> {
        threads::pin(options.cpu)?;
        match self {
            Method::Thread | Method::Faults(_) => threads::fifo(options.priority, options.length),
            // Above ordinary load so that a pulse starts on time, below every measured thread. Without the right to
            // do so, pulses come when the scheduler runs this thread.
            _ => {
                let _ = threads::fifo(1, options.length);
                Ok(())
            }
        }
    }

    /// One disturbance.
    pub fn pulse(&mut self, options: &Options<'_>) -> Result<Pulse> {
        match self {
            Method::IrqsOff(programs) | Method::PreemptOff(programs) => programs.run(options),
            Method::IrqsOffAtTimer(programs, timer) => programs.by_timer(options, timer),
            Method::Softirq(programs, softirq) => programs.by_packet(options, softirq),
            Method::Thread => Ok(threads::spin(options.length)),
            Method::Faults(faults) => Ok(faults.pulse(options.length)),
        }
    }
}

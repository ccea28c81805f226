//! The events `osnoise:*`: the noise of a context, and its net time, without nested interrupts.

use super::steps::Step;
use crate::explain::segment::Kind;
use crate::printable;
use crate::time::{Mono, Ns};

/// `irq_noise: qxl:21 start 548.771085017 duration 7139 ns`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Noise<'s> {
    /// `irq`, `softirq`, `nmi`, `thread`.
    pub kind: &'s str,
    /// `qxl:21`.
    pub name: &'s str,
    /// On the clock of the lines.
    pub start: Mono,
    /// Net time, without nested interrupts.
    pub net: Ns,
}

impl<'s> Noise<'s> {
    /// The noise of a line; `base` is subtracted from its start, if lines count from the start of the buffer.
    pub(super) fn of(step: &'s Step, base: Ns) -> Option<Noise<'s>> {
        let (event, rest) = step.what.split_once(": ")?;
        let kind = event.strip_suffix("_noise")?;
        let (name, rest) = rest.rsplit_once("start ")?;
        let (start, net) = start_and_duration(rest)?;
        Some(Noise { kind, name: name.trim(), start: Mono(start.0.saturating_sub(base.0)), net })
    }

    /// Name of its part: `irq qxl:21`, `thread cc1/87882`.
    pub(super) fn named(&self) -> String {
        let name = printable::line(self.name);
        match self.kind {
            "thread" => match name.rsplit_once(':') {
                Some((comm, tid)) => format!("thread {comm}/{tid}"),
                None => format!("thread {name}"),
            },
            "nmi" => "NMI".to_owned(),
            kind => format!("{kind} {name}"),
        }
    }
}

/// Kind of the segment for a noise of this kind.
pub(super) fn kind_of(noise: &str) -> Kind {
    match noise {
        "irq" => Kind::HardIrq,
        "nmi" => Kind::Nmi,
        "softirq" => Kind::Softirq,
        _ => Kind::Thread,
    }
}

/// `18.402544662 duration 14465989 ns`
pub(super) fn start_and_duration(text: &str) -> Option<(Mono, Ns)> {
    let (start, rest) = text.split_once(" duration ")?;
    let (seconds, nanos) = start.trim().split_once('.')?;
    let nanos = format!("{nanos:0<9}").parse::<u64>().ok()?;
    let start = seconds.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    let mut words = rest.split_whitespace();
    let net = words.next()?.parse().ok()?;
    // Without its unit, the number may be cut.
    words.next().filter(|unit| *unit == "ns").map(|_| (Mono(start), Ns(net)))
}

/// Difference between the starts in the lines and the times of the lines, which count from the start of the buffer in
/// the latency format. A line is written at the end of its noise, so no noise ends after its line.
pub(super) fn base(steps: &[Step]) -> Ns {
    /// Lines have microseconds.
    const ROUNDED: Ns = Ns(10_000);
    let ends = steps.iter().filter_map(|step| {
        let (_, rest) = step.what.split_once("start ")?;
        let (start, net) = start_and_duration(rest)?;
        Some(Ns((start + net).0.saturating_sub(step.at.0)))
    });
    ends.max().filter(|base| *base > ROUNDED).unwrap_or_default()
}

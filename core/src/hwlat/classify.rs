//! Finds the cause of one gap. Evidence is required; "cannot tell" is a valid answer.
//!
//! In this order: the clocks disagree → clock. The trace shows interrupts, softirqs or threads → software; the
//! remainder is classified further. SMIs were counted → firmware. Steal time → host. Interrupts were off in the probe,
//! or all CPUs stalled at the same time → outside this kernel: hardware on bare metal, hardware or host in a guest.
//! Otherwise "cannot tell", with the reason.

use serde::{Deserialize, Serialize};

use crate::time::Ns;

/// Evidence about one gap. `None` is "unknown", never 0.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The gap by CLOCK_MONOTONIC.
    pub gap_ns: Ns,
    /// The same by the processor's counter.
    pub counter_ns: Option<Ns>,
    /// Smallest gap; a smaller remainder is ignored.
    pub threshold_ns: Ns,
    /// What ran on the CPU in the gap according to the trace, with net times; `None`: no trace.
    pub software: Option<Vec<(String, Ns)>>,
    /// Why there is no trace, if known.
    pub unrecorded: Option<&'static str>,
    /// SMIs of this CPU across the gap.
    pub smi: Option<u64>,
    /// Steal time during the gap, with a resolution of 10 ms.
    pub steal_ns: Option<Ns>,
    /// `none`, or the hypervisor's name; `None`: unknown.
    pub hypervisor: Option<String>,
    /// Interrupts were off in the probe: no software of this kernel could run, NMIs excepted.
    pub interrupts_off: bool,
    /// NMIs during the gap.
    pub nmi: Option<u64>,
    /// CPUs that had a gap at the same time, and CPUs watched at that time.
    pub together: Option<(usize, usize)>,
}

/// Cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Interrupts, softirqs or threads of this kernel.
    Software,
    /// Firmware, by a system management interrupt.
    Smi,
    /// The host of this virtual machine.
    Host,
    /// One clock jumped and the other did not: no time was lost.
    Clock,
    /// Hardware or firmware without a counter.
    Hardware,
    /// Certainly outside this kernel; a guest cannot distinguish the host from the hardware.
    HardwareOrHost,
    /// Insufficient evidence.
    CannotTell,
}

impl Cause {
    /// The name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Software => "software",
            Cause::Smi => "firmware (SMI)",
            Cause::Host => "host",
            Cause::Clock => "clock, not a stall",
            Cause::Hardware => "hardware or firmware",
            Cause::HardwareOrHost => "hardware or host",
            Cause::CannotTell => "cannot tell",
        }
    }
}

/// The cause with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The cause.
    pub cause: Cause,
    /// Time not explained by software; `None`: unknown.
    pub remainder_ns: Option<Ns>,
    /// Evidence, one sentence each.
    pub reasons: Vec<String>,
}

impl Judgement {
    /// The part of a gap of this length that this kernel is not known to have caused.
    #[must_use]
    pub fn foreign(&self, gap: Ns) -> Ns {
        match (self.cause, self.remainder_ns) {
            (Cause::Software, _) => Ns::ZERO,
            (_, Some(rest)) => rest.min(gap),
            (_, None) => gap,
        }
    }

    /// The cause of a gap of this length; if software took a part, both parts, the larger first.
    #[must_use]
    pub fn told(&self, gap: Ns) -> String {
        let parts = self.parts(gap);
        match &parts[..] {
            [_] => self.cause.name().to_owned(),
            _ => parts
                .iter()
                .map(|(time, cause)| format!("{} {time}", cause.name()))
                .collect::<Vec<_>>()
                .join(", "),
        }
    }

    /// The cause of the larger part of a gap of this length; `None`: it cannot be told.
    #[must_use]
    pub fn culprit(&self, gap: Ns) -> Option<&'static str> {
        let cause = self.parts(gap)[0].1;
        (cause != Cause::CannotTell).then(|| cause.name())
    }

    /// The parts of a gap of this length, the larger first: at least one.
    fn parts(&self, gap: Ns) -> Vec<(Ns, Cause)> {
        let foreign = self.foreign(gap);
        let software = Ns(gap.0 - foreign.0);
        if foreign == Ns::ZERO || software == Ns::ZERO {
            return vec![(gap, self.cause)];
        }
        let mut parts = vec![(software, Cause::Software), (foreign, self.cause)];
        parts.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        parts
    }
}

/// Judges one gap.
#[must_use]
pub fn classify(evidence: &Evidence) -> Judgement {
    let mut reasons = Vec::new();
    if let Some(counter) = evidence.counter_ns {
        let (low, high) = (counter.min(evidence.gap_ns), counter.max(evidence.gap_ns));
        // The clocks are read in sequence: a difference of a few percent is an interruption between the reads.
        if low < evidence.threshold_ns && high.0 - low.0 > (high.0 / 10).max(1_000) {
            reasons.push(format!("the counter saw {counter}, CLOCK_MONOTONIC {}", evidence.gap_ns));
            return Judgement { cause: Cause::Clock, remainder_ns: None, reasons };
        }
    }
    let software = software(evidence, &mut reasons);
    let remainder = software.map(|software| Ns(evidence.gap_ns.0.saturating_sub(software.0)));
    let cause = match remainder {
        Some(rest) if rest < evidence.threshold_ns => Cause::Software,
        _ => beyond(evidence, remainder, &mut reasons),
    };
    Judgement { cause, remainder_ns: remainder, reasons }
}

/// Time of software; `None` if not recorded.
fn software(evidence: &Evidence, reasons: &mut Vec<String>) -> Option<Ns> {
    if evidence.interrupts_off {
        reasons.push("interrupts were off".to_owned());
        if let Some(nmi) = evidence.nmi.filter(|&nmi| nmi > 0) {
            reasons.push(format!("{nmi} NMIs ran, of unknown length"));
            return None;
        }
        return Some(Ns::ZERO);
    }
    let Some(all) = &evidence.software else {
        reasons.push(evidence.unrecorded.unwrap_or("no kernel record is available").to_owned());
        return None;
    };
    let sum = all.iter().fold(Ns::ZERO, |sum, (_, ns)| Ns(sum.0.saturating_add(ns.0)));
    let mut largest = all.clone();
    largest.sort_by_key(|(_, ns)| std::cmp::Reverse(*ns));
    largest.truncate(3);
    match largest.is_empty() {
        true => reasons.push("the kernel's record shows no other task or interrupt on the CPU".to_owned()),
        false => {
            reasons.push(largest.iter().map(|(who, ns)| format!("{who} {ns}")).collect::<Vec<_>>().join(", "))
        }
    }
    Some(sum)
}

/// The cause outside this kernel.
fn beyond(evidence: &Evidence, remainder: Option<Ns>, reasons: &mut Vec<String>) -> Cause {
    if let Some((gaps, watched)) = evidence.together.filter(|&(gaps, watched)| gaps > 1 && watched > 1) {
        reasons.push(format!("{gaps} of {watched} CPUs stalled at the same time"));
    }
    if let Some(count) = evidence.smi.filter(|&count| count > 0) {
        reasons.push(format!("{count} SMIs were counted"));
        return Cause::Smi;
    }
    let rest = remainder.unwrap_or(evidence.gap_ns);
    let guest = evidence.hypervisor.as_deref() != Some("none");
    if let Some(steal) = evidence.steal_ns.filter(|&steal| steal > Ns::ZERO) {
        // Steal time has a resolution of 10 ms: it may exceed the gap, is hardly less, and is 0 for short gaps.
        const STEP_NS: u64 = 10_000_000;
        const SHORTEST_NS: u64 = 1_000_000;
        reasons.push(format!("the host stole {steal} at about that time"));
        if remainder.is_some() && steal.0 + STEP_NS >= rest.0 && rest.0 >= SHORTEST_NS {
            return Cause::Host;
        }
    }
    if guest {
        let name =
            evidence.hypervisor.as_deref().unwrap_or("the processor does not report whether it is virtual");
        reasons.push(format!("hardware and host cannot be distinguished in a guest ({name})"));
    }
    // Software on one CPU cannot stop the others at the same time without trace events.
    let all_stood = evidence.together.is_some_and(|(gaps, watched)| watched > 1 && gaps == watched);
    match remainder {
        None => Cause::CannotTell,
        Some(_) if evidence.interrupts_off || all_stood => match guest {
            true => Cause::HardwareOrHost,
            false => Cause::Hardware,
        },
        Some(_) => {
            reasons.push("interrupts were on: something unrecorded may have run".to_owned());
            Cause::CannotTell
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gap(us: u64) -> Evidence {
        Evidence {
            gap_ns: Ns::from_us(us),
            counter_ns: Some(Ns::from_us(us)),
            threshold_ns: Ns::from_us(10),
            software: Some(Vec::new()),
            hypervisor: Some("none".to_owned()),
            ..Evidence::default()
        }
    }

    #[test]
    fn what_the_kernel_did_is_never_called_hardware() {
        let by_irq = Evidence {
            software: Some(vec![("function call IPI".to_owned(), Ns::from_us(495))]),
            smi: Some(3),
            ..gap(500)
        };
        let judged = classify(&by_irq);
        assert_eq!((judged.cause, judged.remainder_ns), (Cause::Software, Some(Ns::from_us(5))));
        let by_two = |first, second| {
            let part = |us| ("function call IPI".to_owned(), Ns::from_us(us));
            classify(&Evidence { software: Some(vec![part(first), part(second)]), ..gap(500) })
        };
        assert_eq!((by_two(250, 245).cause, by_two(245, 250).cause), (Cause::Software, Cause::Software));
        assert_eq!(by_two(250, 240).cause, Cause::CannotTell, "what remains is a gap of the threshold");
    }

    #[test]
    fn of_a_gap_that_software_made_only_the_rest_is_somebody_elses() {
        let preempted = Evidence {
            software: Some(vec![("another program".to_owned(), Ns::from_us(15_960))]),
            hypervisor: Some("KVM".to_owned()),
            ..gap(16_000)
        };
        let judged = classify(&preempted);
        assert_eq!((judged.cause, judged.foreign(preempted.gap_ns)), (Cause::CannotTell, Ns::from_us(40)));
        let told = format!("software {}, cannot tell {}", Ns::from_us(15_960), Ns::from_us(40));
        assert_eq!(judged.told(preempted.gap_ns), told);
        let hardly =
            Evidence { software: Some(vec![("another program".to_owned(), Ns::from_us(40))]), ..preempted };
        let told = format!("cannot tell {}, software {}", Ns::from_us(15_960), Ns::from_us(40));
        assert_eq!(classify(&hardly).told(hardly.gap_ns), told, "the larger part first");
        let alone = classify(&gap(200));
        assert_eq!(
            (alone.told(Ns::from_us(200)), alone.foreign(Ns::from_us(200))),
            ("cannot tell".to_owned(), Ns::from_us(200))
        );
        let unrecorded = classify(&Evidence { software: None, ..gap(200) });
        assert_eq!(unrecorded.foreign(Ns::from_us(200)), Ns::from_us(200), "all of it, without a record");
    }

    #[test]
    fn smis_that_were_counted_are_blamed_for_what_remains() {
        let judged = classify(&Evidence { smi: Some(1), together: Some((4, 4)), ..gap(200) });
        assert_eq!(judged.cause, Cause::Smi);
        assert!(judged.reasons.iter().any(|reason| reason.contains("4 of 4 CPUs")), "{judged:?}");
    }

    #[test]
    fn by_elimination_alone_nothing_is_hardware() {
        assert_eq!(classify(&gap(200)).cause, Cause::CannotTell, "interrupts were on");
        assert_eq!(classify(&Evidence { interrupts_off: true, ..gap(200) }).cause, Cause::Hardware);
        assert_eq!(classify(&Evidence { software: None, ..gap(200) }).cause, Cause::CannotTell, "no record");
        let nmi = Evidence { interrupts_off: true, nmi: Some(1), ..gap(200) };
        assert_eq!(classify(&nmi).cause, Cause::CannotTell, "an NMI may have taken it");
        let guest = Evidence { interrupts_off: true, hypervisor: Some("KVM".to_owned()), ..gap(200) };
        assert_eq!(classify(&guest).cause, Cause::HardwareOrHost, "the host may have taken it");
        let silent = Evidence { interrupts_off: true, hypervisor: None, ..gap(200) };
        assert_eq!(classify(&silent).cause, Cause::HardwareOrHost, "it may be a guest");
    }

    #[test]
    fn a_machine_that_stands_still_as_a_whole_was_stopped_from_outside() {
        let all = Evidence { together: Some((2, 2)), ..gap(20_000) };
        assert_eq!(classify(&all).cause, Cause::Hardware);
        let guest = Evidence { hypervisor: Some("TCG".to_owned()), ..all.clone() };
        assert_eq!(classify(&guest).cause, Cause::HardwareOrHost);
        assert_eq!(classify(&Evidence { together: Some((1, 2)), ..all.clone() }).cause, Cause::CannotTell);
        assert_eq!(
            classify(&Evidence { software: None, ..all.clone() }).cause,
            Cause::CannotTell,
            "no record"
        );
        let by_software =
            Evidence { software: Some(vec![("migration/0".to_owned(), Ns::from_ms(20))]), ..all };
        assert_eq!(classify(&by_software).cause, Cause::Software, "stop_machine shows in the record");
    }

    #[test]
    fn stolen_time_is_the_hosts() {
        let stolen =
            Evidence { hypervisor: Some("KVM".to_owned()), steal_ns: Some(Ns::from_ms(20)), ..gap(25_000) };
        assert_eq!(classify(&stolen).cause, Cause::Host);
        let too_little = Evidence { steal_ns: Some(Ns::from_ms(10)), ..gap(50_000) };
        assert_eq!(classify(&too_little).cause, Cause::CannotTell);
        let short = Evidence { steal_ns: Some(Ns::from_ms(10)), ..gap(20) };
        assert_eq!(classify(&short).cause, Cause::CannotTell, "10 ms cannot be told from 20 µs");
    }

    #[test]
    fn a_jump_of_one_clock_is_no_stall() {
        let jump = Evidence { counter_ns: Some(Ns(50)), ..gap(300) };
        assert_eq!(classify(&jump).cause, Cause::Clock);
        let both = Evidence { counter_ns: Some(Ns::from_us(200)), ..gap(300) };
        assert_eq!(classify(&both).cause, Cause::CannotTell, "both saw a gap");
    }
}

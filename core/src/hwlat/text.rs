//! The text report, and that of `hwlatdetect` (rt-tests 2.4, src/hwlatdetect/hwlatdetect.py).

use std::fmt::Write;

use super::{Found, Hwlat};
use crate::numbers::counted;
use crate::printable;
use crate::time::Ns;

/// The report as text.
#[must_use]
pub fn text(report: &Hwlat) -> String {
    let mut text = format!(
        "Gaps of at least {} on CPU {}, watched {} of every {}\n",
        report.threshold_ns, report.cpus, report.width_ns, report.window_ns
    );
    let _ = writeln!(text, "hypervisor: {}", report.hypervisor.as_deref().unwrap_or("unknown"));
    let _ = match report.smi {
        Some(count) => writeln!(text, "SMIs during the run: {count}"),
        None => writeln!(text, "SMIs during the run: not countable here"),
    };
    for found in &report.found {
        one(&mut text, found);
    }
    if let [first, second] = report.found.as_slice() {
        let _ = writeln!(text, "\nCompared: {}; {}", in_short(first), in_short(second));
    }
    text
}

fn in_short(found: &Found) -> String {
    let max = found.max_ns.map_or("no gap".to_owned(), |max| format!("longest gap {max}"));
    let rate = match found.watched_ns.0 {
        0 => String::new(),
        watched => format!(", {:.1} a second watched", found.gaps as f64 * 1e9 / watched as f64),
    };
    format!("{} ({max}{rate})", found.detector)
}

fn one(text: &mut String, found: &Found) {
    let max = found.max_ns.map_or("none above the threshold".to_owned(), |max| format!("largest {max}"));
    let _ = writeln!(text, "\n{}: {}, {max}", found.detector, counted(found.gaps, "gap"));
    for gap in &found.worst {
        let _ = writeln!(
            text,
            "  CPU {:<3} {:>12}  {}: {}",
            gap.cpu,
            gap.gap_ns.to_string(),
            gap.judgement.told(gap.gap_ns),
            printable::line(&gap.judgement.reasons.join("; "))
        );
    }
    for note in &found.notes {
        let _ = writeln!(text, "  note: {note}");
    }
}

/// Output of `hwlatdetect` before the test.
#[must_use]
pub fn hwlatdetect_head(
    seconds: u64,
    report: &Hwlat,
    cpu_list: Option<&str>,
    output: Option<&str>,
) -> String {
    let us = |ns: Ns| ns.0 / 1000;
    format!(
        "hwlatdetect:  test duration {seconds} seconds\n   detector: tracer\n   parameters:\n        \
         CPU list:          {}\n        Latency threshold: {}us\n        Sample window:     {}us\n        \
         Sample width:      {}us\n     Non-sampling period:  {}us\n        Output File:       {}\n\nStarting test\n",
        cpu_list.unwrap_or("None"),
        us(report.threshold_ns),
        us(report.window_ns),
        us(report.width_ns),
        us(report.window_ns).saturating_sub(us(report.width_ns)),
        output.unwrap_or("None"),
    )
}

/// Output of `hwlatdetect` after the test.
#[must_use]
pub fn hwlatdetect_tail(found: &Found) -> String {
    let max = found.max_ns.map_or("Below threshold".to_owned(), |max| format!("{}us", max.0 / 1000));
    format!(
        "test finished\nMax Latency: {max}\nSamples recorded: {}\nSamples exceeding threshold: {}\n",
        found.samples.len(),
        found.samples.len(), // there, too: every sample exceeds the threshold
    )
}

/// The CPUs on which SMIs were counted; `by_cpu` begins with CPU 0.
#[must_use]
pub fn hwlatdetect_smis(by_cpu: &[u64]) -> String {
    let counted = by_cpu.iter().enumerate().filter(|&(_, &count)| count > 0);
    counted.map(|(cpu, count)| format!("{count} SMIs occured on cpu {cpu}\n")).collect()
}

/// A sample as `hwlatdetect` prints it.
#[must_use]
pub fn hwlatdetect_sample(sample: &super::tracer_line::Sample) -> String {
    format!("ts: {}, inner:{}, outer:{}\n", sample.timestamp, sample.inner_us, sample.outer_us)
}

#[cfg(test)]
mod tests {
    use super::super::tracer_line::Sample;
    use super::*;

    #[test]
    fn two_detectors_are_compared_by_their_longest_gap_and_their_rate() {
        let found = |detector, gaps, max_ns, watched| Found {
            histograms: Default::default(),
            detector,
            watched_ns: Ns::from_ms(watched),
            gaps,
            max_ns,
            worst: Vec::new(),
            samples: Vec::new(),
            notes: Vec::new(),
            left: Vec::new(),
        };
        let (tracer, spin) =
            (found("kernel tracer", 3, Some(Ns::from_us(12)), 2_000), found("spin", 0, None, 500));
        let longest = Ns::from_us(12);
        assert_eq!(in_short(&tracer), format!("kernel tracer (longest gap {longest}, 1.5 a second watched)"));
        assert_eq!(in_short(&spin), "spin (no gap, 0.0 a second watched)");
        assert_eq!(in_short(&found("spin", 0, None, 0)), "spin (no gap)");
    }

    #[test]
    fn hwlatdetects_report_is_printed_as_it_does() {
        let report = Hwlat {
            format: super::super::FORMAT,
            version: super::super::VERSION,
            cpus: "0-1".to_owned(),
            threshold_ns: Ns::from_us(10),
            window_ns: Ns::from_ms(1000),
            width_ns: Ns::from_ms(500),
            hypervisor: None,
            smi: None,
            found: Vec::new(),
        };
        let head = "hwlatdetect:  test duration 120 seconds\n   detector: tracer\n   parameters:\n        CPU list:          None\n        Latency threshold: 10us\n        Sample window:     1000000us\n        Sample width:      500000us\n     Non-sampling period:  500000us\n        Output File:       None\n\nStarting test\n";
        assert_eq!(hwlatdetect_head(120, &report, None, None), head);
        let sample = Sample {
            cpu: None,
            inner_us: 14,
            outer_us: 12,
            timestamp: "7.000000001".to_owned(),
            count: Some(2),
            nmi: None,
        };
        assert_eq!(hwlatdetect_sample(&sample), "ts: 7.000000001, inner:14, outer:12\n");
        let found = Found {
            histograms: Default::default(),
            detector: "kernel tracer",
            watched_ns: Ns::ZERO,
            gaps: 2,
            max_ns: Some(sample.largest()),
            worst: Vec::new(),
            samples: vec![sample],
            notes: Vec::new(),
            left: Vec::new(),
        };
        assert_eq!(
            hwlatdetect_tail(&found),
            "test finished\nMax Latency: 14us\nSamples recorded: 1\nSamples exceeding threshold: 1\n"
        );
        assert_eq!(hwlatdetect_smis(&[0, 3]), "3 SMIs occured on cpu 1\n");
        let none = Found { gaps: 0, max_ns: None, samples: Vec::new(), ..found };
        assert!(hwlatdetect_tail(&none).contains("Max Latency: Below threshold\nSamples recorded: 0\n"));
    }
}

//! Lines of the kernel's hwlat tracer (kernel/trace/trace_output.c, `trace_hwlat_print`):
//! `<...>-1234 [001] d.... 12.345: #7 inner/outer(us): 14/1234 ts:1416235893.123456789 count:3 nmi-total:8 nmi-count:1`.

use serde::Serialize;

use crate::time::{Cpu, Ns};

/// One sample: the largest gap of one width.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Sample {
    /// CPU; `None` if the line does not have it.
    pub cpu: Option<Cpu>,
    /// Between the two reads of one iteration, µs.
    pub inner_us: u64,
    /// Between two iterations, µs.
    pub outer_us: u64,
    /// Wall-clock time as printed, `seconds.nanoseconds`.
    pub timestamp: String,
    /// Gaps above the threshold in this width; `None` before 5.9.
    pub count: Option<u64>,
    /// NMIs in this width; `None` if the clock is not NMI-safe or there were none.
    pub nmi: Option<u64>,
}

impl Sample {
    /// The sample of a line of `trace` or `trace_pipe`; `None` for any other line.
    #[must_use]
    pub fn parse(line: &str) -> Option<Sample> {
        let (head, tail) = line.split_once("inner/outer(us):")?;
        // The option verbose prints a time of eight hexadecimal digits in brackets.
        let inside = head.split(['[', ']']).nth(1).filter(|inside| inside.len() < 8);
        let cpu = inside.and_then(|cpu| cpu.trim().parse().ok()).map(Cpu);
        // The numbers are padded: "  14/1234 ".
        let (inner, rest) = tail.split_once('/')?;
        let mut words = rest.split_ascii_whitespace();
        let outer = words.next()?;
        let (mut timestamp, mut count, mut nmi) = (None, None, None);
        for word in words {
            match word.split_once(':')? {
                ("ts", value) => timestamp = Some(value.to_owned()),
                ("count", value) => count = value.parse().ok(),
                ("nmi-count", value) => nmi = value.parse().ok(),
                _ => {}
            }
        }
        Some(Sample {
            cpu,
            inner_us: inner.trim().parse().ok()?,
            outer_us: outer.parse().ok()?,
            timestamp: timestamp?,
            count,
            nmi,
        })
    }

    /// The larger of the two.
    #[must_use]
    pub fn largest(&self) -> Ns {
        Ns::from_us(self.inner_us.max(self.outer_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_old_and_new_kernels_are_read() {
        let new = "  <...>-1234    [001] d....    12.345678: #7     inner/outer(us):   14/1234  ts:1416235893.123456789 count:3 nmi-total:8 nmi-count:1";
        let sample = Sample::parse(new).unwrap();
        assert_eq!((sample.cpu, sample.inner_us, sample.outer_us), (Some(Cpu(1)), 14, 1234));
        assert_eq!(
            (sample.timestamp.as_str(), sample.count, sample.nmi),
            ("1416235893.123456789", Some(3), Some(1))
        );
        assert_eq!(sample.largest(), Ns::from_us(1234));
        let old = "<...>-1 [000] .... 5.0: #1 inner/outer(us):  9999/10    ts:1.000000002";
        assert_eq!(Sample::parse(old).unwrap().count, None);
        let verbose = "<...> 791 1 5 00000000 00000000 [13932202] 737.262ms (+3154.870ms): #1 inner/outer(us): 37140/28212 ts:1.070572098";
        assert_eq!(Sample::parse(verbose).unwrap().cpu, None);
    }

    #[test]
    fn other_lines_are_not_samples() {
        for line in
            ["# tracer: hwlat", "", "x inner/outer(us): a/b ts:1", "inner/outer(us): 1/2", "inner/outer(us):"]
        {
            assert_eq!(Sample::parse(line), None, "{line}");
        }
    }
}

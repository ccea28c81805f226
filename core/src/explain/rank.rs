//! Ranks the causes of many peaks: by worst, by count, by total time.

use std::collections::BTreeMap;

use super::segment::Explanation;
use crate::time::{Cpu, Mono, Ns};

/// One cause, over all peaks that it explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranked {
    /// [`Explanation::cause`].
    pub cause: String,
    /// The worst latency that it caused.
    pub worst: Ns,
    /// Start of the worst peak.
    pub worst_at: Mono,
    /// CPU of the worst peak.
    pub worst_cpu: Cpu,
    /// Number of peaks.
    pub count: u32,
    /// Sum of their latencies.
    pub total: Ns,
}

/// Sort key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The worst single latency.
    Worst,
    /// The number of peaks.
    Count,
    /// The sum of latencies.
    Total,
}

/// The causes of `peaks` (CPU, start, explanation), greatest first; equal ones by name.
#[must_use]
pub fn rank<'e>(peaks: impl IntoIterator<Item = (Cpu, Mono, &'e Explanation)>, by: By) -> Vec<Ranked> {
    let mut causes: BTreeMap<&str, Ranked> = BTreeMap::new();
    for (cpu, at, explanation) in peaks {
        let latency = explanation.total_ns;
        let ranked = causes.entry(&explanation.cause).or_insert_with(|| Ranked {
            cause: explanation.cause.clone(),
            worst: latency,
            worst_at: at,
            worst_cpu: cpu,
            count: 0,
            total: Ns::ZERO,
        });
        ranked.count += 1;
        ranked.total = ranked.total + latency;
        if latency > ranked.worst {
            (ranked.worst, ranked.worst_at, ranked.worst_cpu) = (latency, at, cpu);
        }
    }
    let mut ranked: Vec<Ranked> = causes.into_values().collect();
    ranked.sort_by_key(|cause| {
        std::cmp::Reverse(match by {
            By::Worst => cause.worst.0,
            By::Count => u64::from(cause.count),
            By::Total => cause.total.0,
        })
    });
    ranked
}

#[cfg(test)]
mod tests {
    use super::super::segment::{Kind, Segment};
    use super::*;

    fn explained(cause: &str, total: u64) -> Explanation {
        Explanation {
            sentence: String::new(),
            advice: String::new(),
            tree: Segment::leaf(Kind::Passage, "", Mono(0), Ns(total)),
            total_ns: Ns(total),
            unexplained_ns: Ns(0),
            cause: cause.to_owned(),
            limits: Vec::new(),
        }
    }

    #[test]
    fn each_order_puts_another_cause_first_and_the_worst_keeps_its_moment() {
        let peaks =
            [("a", 100), ("b", 60), ("b", 70), ("c", 20), ("c", 21), ("c", 22)].map(|(c, t)| explained(c, t));
        let listed = || peaks.iter().zip(1..).map(|(peak, at)| (Cpu(at as u32 % 2), Mono(at), peak));
        let names = |by| rank(listed(), by).into_iter().map(|cause| cause.cause).collect::<Vec<_>>();
        assert_eq!(names(By::Worst), ["a", "b", "c"]);
        assert_eq!(names(By::Count), ["c", "b", "a"]);
        assert_eq!(names(By::Total), ["b", "a", "c"]);
        let b = rank(listed(), By::Total).remove(0);
        assert_eq!(
            (b.worst, b.worst_at, b.worst_cpu, b.count, b.total),
            (Ns(70), Mono(3), Cpu(1), 2, Ns(130))
        );
    }
}

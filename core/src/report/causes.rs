//! Causes over all peaks, ranked by worst, by count and by time.
//!
//! A cause is a leaf of an explanation (or an unexplained part, which is ranked like any other). The same stall is
//! often a peak of several quantities (timer, timer+wakeup, cyclic); it counts once, as its longest peak.

use std::collections::HashMap;

use crate::explain::Segment;
use crate::peak::Peak;
use crate::time::Ns;

/// One cause over all peaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its label.
    pub name: String,
    /// Its longest time in one peak.
    pub worst_ns: Ns,
    /// Index of that peak.
    pub worst_peak: usize,
    /// Number of peaks with it.
    pub peaks: usize,
    /// Its total time in all peaks.
    pub time_ns: Ns,
}

/// Causes of `peaks`, the worst first; equal ones by time, then name.
#[must_use]
pub fn rank(peaks: &[Peak]) -> Vec<Cause> {
    let mut causes: HashMap<String, Cause> = HashMap::new();
    for index in distinct(peaks) {
        let Some(explanation) = &peaks[index].explanation else { continue };
        let mut shares = HashMap::new();
        add_leaves(&explanation.tree, &mut shares);
        for (name, time) in shares {
            let cause = causes.entry(name).or_insert_with_key(|name| Cause {
                name: name.clone(),
                worst_ns: Ns::ZERO,
                worst_peak: index,
                peaks: 0,
                time_ns: Ns::ZERO,
            });
            cause.peaks += 1;
            cause.time_ns = cause.time_ns + time;
            if time > cause.worst_ns {
                (cause.worst_ns, cause.worst_peak) = (time, index);
            }
        }
    }
    let mut ranked: Vec<Cause> = causes.into_values().collect();
    ranked.sort_by(|a, b| {
        (b.worst_ns, b.time_ns).cmp(&(a.worst_ns, a.time_ns)).then_with(|| a.name.cmp(&b.name))
    });
    ranked
}

/// Indices of distinct peaks, the longest first.
#[must_use]
pub fn distinct(peaks: &[Peak]) -> Vec<usize> {
    stalls(peaks).into_iter().map(|stall| stall.peak).collect()
}

/// One stall: its longest peak, and the shorter ones that overlap with it on the same CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Index of the longest peak.
    pub peak: usize,
    /// Indices of the others.
    pub also: Vec<usize>,
}

/// Peaks grouped by overlap on one CPU, the longest first. An explained peak is never below an unexplained one. Without
/// potential latencies: possibly no task was late.
#[must_use]
pub fn stalls(peaks: &[Peak]) -> Vec<Stall> {
    let mut order: Vec<usize> = (0..peaks.len()).filter(|&i| !peaks[i].quantity.is_potential()).collect();
    order.sort_by_key(|&i| (std::cmp::Reverse(peaks[i].total_ns), i));
    let mut stalls: Vec<Stall> = Vec::new();
    for i in order {
        let this = &peaks[i];
        let end = this.begin + this.total_ns;
        let holds = |stall: &&mut Stall| {
            let other: &Peak = &peaks[stall.peak];
            other.cpu == this.cpu
                && this.begin < other.begin + other.total_ns
                && other.begin < end
                && (other.explanation.is_some() || this.explanation.is_none())
        };
        match stalls.iter_mut().find(holds) {
            Some(stall) => stall.also.push(i),
            None => stalls.push(Stall { peak: i, also: Vec::new() }),
        }
    }
    stalls
}

fn add_leaves(node: &Segment, shares: &mut HashMap<String, Ns>) {
    for gap in &node.gaps {
        let share = shares.entry(format!("unexplained: {}", gap.label)).or_default();
        *share = *share + gap.duration_ns;
    }
    if node.children.is_empty() && node.gaps.is_empty() {
        let share = shares.entry(node.label.clone()).or_default();
        *share = *share + node.duration_ns;
    }
    node.children.iter().for_each(|child| add_leaves(child, shares));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::{Explanation, Kind};
    use crate::series::{Quantity, Thread};
    use crate::time::{Cpu, Mono};

    /// On CPU `cpu` from `begin` on, made of these leaves.
    fn peak(cpu: u32, begin: u64, leaves: &[(&str, u64)]) -> Peak {
        let parts: Vec<Segment> = leaves
            .iter()
            .map(|&(label, ns)| Segment::leaf(Kind::Thread, label, Mono(begin), Ns(ns)))
            .collect();
        let total_ns: Ns = parts.iter().map(|part| part.duration_ns).sum();
        let tree = Segment::group(Kind::Passage, "interval", Mono(begin), total_ns, parts);
        let (sentence, advice, cause) = (String::new(), String::new(), String::new());
        let unexplained_ns = Ns::ZERO;
        let explanation =
            Explanation { sentence, advice, tree, total_ns, unexplained_ns, cause, limits: Vec::new() };
        Peak {
            quantity: Quantity::Cyclic,
            cpu: Cpu(cpu),
            begin: Mono(begin),
            total_ns,
            victim: Thread::default(),
            culprit: None,
            explanation: Some(explanation),
            no_evidence: None,
            context: None,
            during_action: false,
            counted_as: None,
        }
    }

    #[test]
    fn a_cause_has_the_most_that_it_took_of_one_peak_and_what_it_took_of_all() {
        let peaks = [
            peak(0, 0, &[("a", 10), ("b", 990)]),
            peak(0, 5_000, &[("a", 500)]),
            peak(1, 9_000, &[("a", 5), ("c", 295)]),
        ];
        let told: Vec<_> = rank(&peaks)
            .into_iter()
            .map(|cause| (cause.name, cause.worst_ns.0, cause.worst_peak, cause.peaks, cause.time_ns.0))
            .collect();
        let of = |name: &str, worst, peak, peaks, time| (name.to_owned(), worst, peak, peaks, time);
        assert_eq!(told, [of("b", 990, 0, 1, 990), of("a", 500, 1, 3, 515), of("c", 295, 2, 1, 295)]);
    }

    #[test]
    fn a_stall_is_its_longest_peak_wherever_that_stands_and_other_cpus_are_others() {
        let peaks = [peak(0, 50, &[("a", 100)]), peak(0, 0, &[("a", 150)]), peak(1, 0, &[("a", 120)])];
        let stall = |peak, also: &[usize]| Stall { peak, also: also.to_vec() };
        assert_eq!(stalls(&peaks), [stall(1, &[0]), stall(2, &[])]);
        let after = [peak(0, 150, &[("a", 100)]), peak(0, 0, &[("a", 150)])];
        assert_eq!(stalls(&after), [stall(1, &[]), stall(0, &[])], "one begins as the other ends");
        let mut unexplained = peaks;
        unexplained[1].explanation = None;
        assert_eq!(distinct(&unexplained), [1, 2, 0], "an explained one stays beside it");
    }
}

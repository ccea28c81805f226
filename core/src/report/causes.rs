//! Who did it, over all peaks: causes ranked by worst, by count and by time.
//!
//! A cause is a leaf of an explanation (or an unexplained stretch, which is ranked like any other). The same stall is
//! often a peak of several quantities (timer, timer+wakeup, cyclic); it counts once, as its longest peak.

use std::collections::HashMap;

use crate::explain::Segment;
use crate::peak::Peak;
use crate::time::Ns;

/// One cause with what it did in all peaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Its label.
    pub name: String,
    /// The most it took of one peak.
    pub worst_ns: Ns,
    /// Index of that peak.
    pub worst_peak: usize,
    /// In how many peaks it appears.
    pub peaks: usize,
    /// What it took of all peaks together.
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

/// Indices of peaks that stand for themselves, the longest first.
#[must_use]
pub fn distinct(peaks: &[Peak]) -> Vec<usize> {
    stalls(peaks).into_iter().map(|stall| stall.peak).collect()
}

/// One stall: its longest peak, and the shorter ones that saw the same on the same CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Index of the longest peak.
    pub peak: usize,
    /// Indices of the others.
    pub also: Vec<usize>,
}

/// Peaks that overlap on one CPU put together, the longest first. An explained peak is never put under an
/// unexplained one. Potential latencies are none of them: nobody need have suffered what they would head.
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

//! Explanation of a part of an explained interval: the timer lateness of a late wake-up, or the wake-up after it.
//!
//! One event may be the maximum of several quantities. The sentence of each must cover only its own time: the phases of
//! the tree within it.

use super::segment::{Explanation, Gap, Kind, Segment};
use crate::time::{Mono, Ns};

/// Maximum number of clauses in its sentence.
const CLAUSES: usize = 3;
/// Minimum share of the part for a clause.
const WORTH_A_CLAUSE: f64 = 0.05;

/// The explanation of `total` from `begin`. `None`: the phases of `whole` do not start and end there.
#[must_use]
pub fn explain_part(whole: &Explanation, begin: Mono, total: Ns) -> Option<Explanation> {
    let end = begin + total;
    let is_in = |from: Mono, length: Ns| from >= begin && from + length <= end;
    let root = &whole.tree;
    let phases = root.children.iter().filter(|phase| is_in(phase.begin, phase.duration_ns));
    let children: Vec<Segment> = phases.cloned().collect();
    let gaps = root.gaps.iter().filter(|gap| is_in(gap.begin, gap.duration_ns));
    let gaps: Vec<Gap> = gaps.cloned().collect();
    let phases = children.iter().map(|phase| phase.duration_ns);
    let covered: Ns = phases.chain(gaps.iter().map(|gap| gap.duration_ns)).sum();
    if covered != total || total == whole.total_ns {
        return None;
    }
    let node = Segment::leaf(Kind::Passage, root.label.clone(), begin, total);
    let tree = Segment { children, gaps, thread: root.thread.clone(), ..node };
    let unexplained_ns = tree.total_unexplained();
    let own = clauses(&tree, unexplained_ns);
    let told = own.iter().take(CLAUSES).map(|(what, net)| {
        let percent = 100.0 * net.share_of(total);
        format!("{what} {net} ({percent:.0} %)")
    });
    let sentence = format!("{total} of {}: {}", whole.total_ns, told.collect::<Vec<_>>().join("; "));
    // The advice is for the cause of the whole.
    let (cause, advice) = match (own.first(), clauses(root, whole.unexplained_ns).first()) {
        (Some((cause, _)), Some((main, _))) if cause != main => (cause.clone(), String::new()),
        _ => (whole.cause.clone(), whole.advice.clone()),
    };
    let limits = whole.limits.clone();
    Some(Explanation { sentence, advice, tree, total_ns: total, unexplained_ns, cause, limits })
}

/// Causes with their time, the largest first.
fn clauses(tree: &Segment, unexplained: Ns) -> Vec<(String, Ns)> {
    let mut all = leaves(tree);
    if unexplained > Ns::ZERO {
        all.push(("unexplained".to_owned(), unexplained));
    }
    all.sort_by_key(|(_, net)| std::cmp::Reverse(*net)); // stable
    let worth = all.iter().filter(|(_, net)| net.share_of(tree.duration_ns) >= WORTH_A_CLAUSE).count();
    all.truncate(worth.max(1));
    all
}

/// Leaves added up by name, the largest first.
fn leaves(tree: &Segment) -> Vec<(String, Ns)> {
    let mut all: Vec<(String, Ns)> = Vec::new();
    for leaf in tree.leaves() {
        match all.iter_mut().find(|(label, _)| *label == leaf.label) {
            Some((_, net)) => *net = *net + leaf.duration_ns,
            None => all.push((leaf.label.clone(), leaf.duration_ns)),
        }
    }
    all.sort_by_key(|(_, net)| std::cmp::Reverse(*net)); // stable
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 245 µs: 153 until the timer's handler, 2 of it, and 90 until the switch.
    fn whole() -> Explanation {
        let us = Ns::from_us;
        let at = |offset: u64| Mono(1_000 + us(offset).0);
        let spin = Segment::leaf(Kind::IrqsOff, "irqs off: vnd/812", at(0), us(140));
        let late = Segment::group(Kind::TimerLate, "timer late", at(0), us(153), vec![spin]);
        let timer = Segment::leaf(Kind::TimerInterrupt, "timer interrupt", at(153), us(2));
        let hog = Segment::leaf(Kind::Thread, "hog/9 (RT 98)", at(155), us(90));
        let wait = Segment::group(Kind::WakeupWait, "waking → switched in", at(155), us(90), vec![hog]);
        let tree = Segment::group(Kind::Passage, "expiry → run", at(0), us(245), vec![late, timer, wait]);
        Explanation {
            sentence: "waited 245 µs: vnd".to_owned(),
            advice: "move vnd".to_owned(),
            total_ns: tree.duration_ns,
            unexplained_ns: tree.total_unexplained(),
            tree,
            cause: "irqs off: vnd".to_owned(),
            limits: Vec::new(),
        }
    }

    #[test]
    fn the_sentence_of_a_part_is_about_its_own_time_and_adds_up() {
        let whole = whole();
        let timer = explain_part(&whole, Mono(1_000), Ns::from_us(153)).unwrap();
        assert_eq!(
            timer.sentence,
            "153 µs of 245 µs: irqs off: vnd/812 140 µs (92 %); unexplained 13.0 µs (8 %)"
        );
        assert_eq!((timer.cause.as_str(), timer.unexplained_ns), ("irqs off: vnd", Ns::from_us(13)));
        assert!(timer.tree.adds_up() && timer.tree.duration_ns == Ns::from_us(153));
        let wakeup = explain_part(&whole, Mono(1_000 + 155_000), Ns::from_us(90)).unwrap();
        assert_eq!(wakeup.sentence, "90.0 µs of 245 µs: hog/9 (RT 98) 90.0 µs (100 %)");
        let other = (wakeup.cause.as_str(), wakeup.advice.as_str());
        assert_eq!(other, ("hog/9 (RT 98)", ""), "another one than that of the whole");
    }

    #[test]
    fn what_is_no_part_or_all_of_it_has_none() {
        let whole = whole();
        assert!(explain_part(&whole, Mono(1_000), Ns::from_us(245)).is_none());
        assert!(explain_part(&whole, Mono(1_000), Ns::from_us(100)).is_none());
        assert!(explain_part(&whole, Mono(0), Ns::from_us(153)).is_none());
    }
}

//! The tree of an explanation as rows with bars, from the outermost part to the innermost.
//!
//! A bar is at the position of its time in the interval, so the rows are in time order. A part added up from several
//! occurrences starts at the first.

use crate::explain::segment::with_faults;
use crate::explain::{Explanation, Gap, Segment};
use crate::time::{Mono, Ns};

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// 0 is the whole.
    pub depth: usize,
    /// Its label.
    pub label: String,
    /// Its time.
    pub time: Ns,
    /// Percent of the whole.
    pub share: f64,
    /// Start of the bar, percent of the whole.
    pub offset: f64,
    /// Occurrences added up.
    pub count: u32,
    /// Inferred, not recorded.
    pub inferred: bool,
    /// No evidence explains it.
    pub unexplained: bool,
    /// The rows below are its parts.
    pub group: bool,
    /// Kernel stack, innermost first.
    pub stack: Vec<String>,
    /// The events that prove it.
    pub evidence: Vec<String>,
}

/// The rows of `explanation`, parents before their parts.
#[must_use]
pub fn rows(explanation: &Explanation) -> Vec<Row> {
    let mut rows = Vec::new();
    let whole = Whole { begin: explanation.tree.begin, total: explanation.tree.duration_ns };
    whole.add(&explanation.tree, 0, &mut rows);
    rows
}

struct Whole {
    begin: Mono,
    total: Ns,
}

impl Whole {
    fn percent(&self, part: Ns) -> f64 {
        if self.total == Ns::ZERO {
            0.0
        } else {
            (part.0 as f64 / self.total.0 as f64 * 100.0).min(100.0)
        }
    }

    fn add(&self, node: &Segment, depth: usize, rows: &mut Vec<Row>) {
        let evidence =
            |e: &crate::explain::Evidence| format!("+{} CPU {}: {}", e.at.since(self.begin), e.cpu, e.event);
        rows.push(Row {
            depth,
            label: with_faults(&node.label, node.faults),
            time: node.duration_ns,
            share: self.percent(node.duration_ns),
            offset: self.percent(node.begin.since(self.begin)),
            count: node.count,
            inferred: node.inferred,
            unexplained: false,
            group: !node.children.is_empty() || !node.gaps.is_empty(),
            stack: node.stack.clone(),
            evidence: node.evidence.iter().map(evidence).collect(),
        });
        let mut gaps: Vec<&Gap> = node.gaps.iter().collect();
        gaps.sort_by_key(|gap| gap.begin);
        let mut gaps = gaps.into_iter().peekable();
        for child in &node.children {
            while let Some(gap) = gaps.next_if(|gap| gap.begin < child.begin) {
                rows.push(self.gap(gap, depth + 1));
            }
            self.add(child, depth + 1, rows);
        }
        rows.extend(gaps.map(|gap| self.gap(gap, depth + 1)));
    }

    fn gap(&self, gap: &Gap, depth: usize) -> Row {
        Row {
            depth,
            label: format!("unexplained: {}", gap.label),
            time: gap.duration_ns,
            share: self.percent(gap.duration_ns),
            offset: self.percent(gap.begin.since(self.begin)),
            count: 1,
            inferred: false,
            unexplained: true,
            group: false,
            stack: Vec::new(),
            evidence: Vec::new(),
        }
    }
}

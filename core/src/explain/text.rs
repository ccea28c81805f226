//! An explanation as terminal text: the sentence first, then the tree, at most [`WIDTH`] columns.

use super::segment::{with_faults, Explanation, Segment};
use crate::time::{Mono, Ns};

/// Columns of the text.
pub const WIDTH: usize = 100;

/// What to print in addition to the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The events that prove each part.
    pub evidence: bool,
    /// Kernel stacks.
    pub stacks: bool,
}

/// Sentence, advice, tree and limits of `explanation`, each line ending in a newline.
///
/// Each line of the tree: time, share of the total, start (relative to the interval), label. `~` marks inferred parts,
/// `?` unexplained ones.
#[must_use]
pub fn render(explanation: &Explanation, options: Options) -> String {
    let mut text = String::new();
    wrap(&mut text, "", &explanation.sentence);
    if !explanation.advice.is_empty() {
        wrap(&mut text, "→ ", &explanation.advice);
    }
    text.push_str(&line("µs", "%", "begin", ' ', 0, "what"));
    let page = Page { total: explanation.total_ns, begin: explanation.tree.begin, options };
    page.node(&mut text, &explanation.tree, 0);
    for limit in &explanation.limits {
        wrap(&mut text, "! ", limit);
    }
    text
}

/// Maximum number of parts of one node on the terminal: the longest ones.
const MOST_PARTS: usize = 24;

/// Minimum length of the parts shown.
fn shortest_shown(parts: &[Segment]) -> Ns {
    if parts.len() <= MOST_PARTS {
        return Ns::ZERO;
    }
    let mut lengths: Vec<Ns> = parts.iter().map(|part| part.duration_ns).collect();
    lengths.sort_unstable_by_key(|length| std::cmp::Reverse(*length));
    lengths[MOST_PARTS - 1]
}

struct Page {
    total: Ns,
    begin: Mono,
    options: Options,
}

impl Page {
    fn node(&self, text: &mut String, node: &Segment, depth: usize) {
        let mark = if node.inferred { '~' } else { ' ' };
        let count = if node.count > 1 { format!(" ({}×)", node.count) } else { String::new() };
        text.push_str(&self.line(
            node.duration_ns,
            node.begin,
            mark,
            depth,
            &format!("{}{count}", with_faults(&node.label, node.faults)),
        ));
        if self.options.stacks && !node.stack.is_empty() {
            let stack = format!("stack: {}", node.stack.join(" < "));
            note(text, depth, &stack);
        }
        if self.options.evidence {
            for proof in &node.evidence {
                note(text, depth, &format!("by {} on CPU {} at {}", proof.event, proof.cpu, proof.at));
            }
        }
        let shortest = shortest_shown(&node.children);
        for child in node.children.iter().filter(|child| child.duration_ns >= shortest) {
            self.node(text, child, depth + 1);
        }
        let short: Vec<Ns> =
            node.children.iter().map(|c| c.duration_ns).filter(|ns| *ns < shortest).collect();
        if !short.is_empty() {
            let label = format!("… {} shorter parts together (--json has each)", short.len());
            text.push_str(&self.line(short.into_iter().sum(), node.begin, ' ', depth + 1, &label));
        }
        for gap in &node.gaps {
            let label = format!("unexplained: {}", gap.label);
            text.push_str(&self.line(gap.duration_ns, gap.begin, '?', depth + 1, &label));
        }
    }

    fn line(&self, duration: Ns, begin: Mono, mark: char, depth: usize, what: &str) -> String {
        let share =
            if self.total == Ns::ZERO { 0.0 } else { 100.0 * duration.0 as f64 / self.total.0 as f64 };
        let begin = format!("+{:.1}", begin.since(self.begin).as_us());
        line(&format!("{:.1}", duration.as_us()), &format!("{share:.1}"), &begin, mark, depth, what)
    }
}

fn line(duration: &str, share: &str, begin: &str, mark: char, depth: usize, what: &str) -> String {
    let mut text = String::new();
    wrap(&mut text, &format!("{duration:>10} {share:>6} {begin:>11} {mark} {}", indent(depth)), what);
    text
}

/// Levels deeper than the limit are not indented further.
fn indent(depth: usize) -> String {
    "  ".repeat(depth.min(20))
}

fn note(text: &mut String, depth: usize, what: &str) {
    wrap(text, &format!("{:31} {}  ", "", indent(depth)), what);
}

pub(super) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let mut kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

/// Appends `words` after `head`, in lines of at most [`WIDTH`] columns.
pub(super) fn wrap(text: &mut String, head: &str, words: &str) {
    let mut line = head.to_owned();
    let mut empty = true;
    for word in words.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            text.push_str(&line);
            text.push('\n');
            line = " ".repeat(head.chars().count());
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(&cut(word, WIDTH - head.chars().count()));
        empty = false;
    }
    text.push_str(&line);
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::super::segment::Kind;
    use super::*;

    #[test]
    fn of_many_parts_the_longest_are_shown_and_the_others_summed_up() {
        let part = |n: u64| Segment::leaf(Kind::Running, format!("part {n}"), Mono(n), Ns(1000 * n));
        let parts: Vec<Segment> = (1..=100).map(part).collect();
        let total: Ns = parts.iter().map(|part| part.duration_ns).sum();
        let explanation = Explanation {
            sentence: String::new(),
            advice: String::new(),
            tree: Segment::group(Kind::Passage, "all", Mono(0), total, parts),
            total_ns: total,
            unexplained_ns: Ns::ZERO,
            cause: String::new(),
            limits: Vec::new(),
        };
        let text = render(&explanation, Options::default());
        assert!(text.contains("part 77") && text.contains("part 100") && !text.contains("part 76"), "{text}");
        assert!(text.contains("2926.0") && text.contains("… 76 shorter parts together"), "{text}");
    }
}

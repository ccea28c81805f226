//! Joins lines that a mail program or a terminal wrapped at some width.
//!
//! A line that starts nothing of its own continues the line before it, if its first word did not fit there. That width
//! is the one that explains most of such lines. A terminal cuts within words, at exactly its width; a mail program cuts at
//! blanks, and removes them. Rows of tables start with numbers, like the rest of a line: tables of rtla are left alone.

use std::borrow::Cow;

use super::{is_around, is_fence, is_known, LOOKED_AT};
use crate::trace::ftrace_text::line::{begins, parse, Line};

/// Widths that occur.
const WIDTHS: std::ops::RangeInclusive<usize> = 50..=240;

/// Widths of terminals.
const TERMINALS: [usize; 5] = [80, 100, 120, 132, 160];

/// Blanks with which the kernel aligns what is within an event (`context    irq`), minus one.
const MOST_BLANKS: usize = 5;

/// The width at which lines were wrapped.
struct Width {
    columns: usize,
    /// Within words.
    is_hard: bool,
}

/// A line, and the next one, which starts nothing.
struct Pair {
    /// Characters of the line, with and without trailing blanks.
    raw: usize,
    length: usize,
    /// Least characters of both if the first word of the next one had stayed.
    more: usize,
    is_prose: bool,
    /// A blank is at the break: a mail program removes it.
    is_at_blank: bool,
}

impl Pair {
    fn of(line: &str, next: &str) -> Option<Pair> {
        if line.trim().is_empty() || is_rule(line) || !is_rest(next) {
            return None;
        }
        let word = next.split_whitespace().next().unwrap_or_default();
        let length = line.trim_end().chars().count();
        Some(Pair {
            raw: line.chars().count(),
            length,
            more: length + 1 + word.chars().count(),
            is_prose: is_around(next),
            is_at_blank: line.ends_with(' ') || next.starts_with(' '),
        })
    }

    fn fits(&self, width: usize) -> bool {
        self.length <= width && width < self.more
    }

    /// The same where more than one blank may have been at the break: a mail program leaves one of them or none.
    fn may_fit(&self, width: usize) -> bool {
        self.fits(width) || self.is_at_blank && self.length <= width && width < self.more + MOST_BLANKS
    }
}

/// `lines` with wrapped ones joined.
pub(super) fn joined<'t>(lines: Vec<Cow<'t, str>>) -> Vec<Cow<'t, str>> {
    let is_table =
        |line: &str| ["Timer Latency (", "# RTLA ", "Max Single"].iter().any(|name| line.contains(name));
    if lines.iter().take(LOOKED_AT).any(|line| is_table(line)) {
        return lines;
    }
    let Some(width) = width(&lines) else { return lines };
    let mut whole: Vec<Cow<'t, str>> = Vec::with_capacity(lines.len());
    let mut before: Option<Cow<'t, str>> = None;
    for line in lines {
        let pair = before.as_deref().and_then(|before| Pair::of(before, &line));
        match (pair.filter(|pair| pair.may_fit(width.columns)), whole.last_mut()) {
            (Some(pair), Some(last)) if width.is_hard => {
                let blanks = width.columns.saturating_sub(pair.raw);
                last.to_mut().push_str(&" ".repeat(blanks));
                last.to_mut().push_str(&line);
            }
            (Some(_), Some(last)) => {
                let end = last.trim_end().len();
                last.to_mut().truncate(end);
                last.to_mut().push(' ');
                last.to_mut().push_str(line.trim_start());
            }
            _ => whole.push(line.clone()),
        }
        before = Some(line);
    }
    whole
}

fn width(lines: &[Cow<'_, str>]) -> Option<Width> {
    let lines = &lines[..lines.len().min(LOOKED_AT)];
    let first = lines.iter().position(|line| is_known(line) || begins(line.trim()))?;
    let lines = &lines[first..];
    let pairs: Vec<Pair> = lines.windows(2).filter_map(|two| Pair::of(&two[0], &two[1])).collect();
    let support = |width: usize| pairs.iter().filter(|pair| pair.fits(width)).count();
    let columns = WIDTHS.max_by_key(|width| support(*width)).filter(|width| support(*width) > 0)?;
    let there = || pairs.iter().filter(|pair| pair.fits(columns));
    let longer = lines.iter().filter(|line| line.trim_end().chars().count() > columns).count();
    if longer * 20 > lines.len() || there().count() < 2 && there().all(|pair| pair.is_prose) {
        return None;
    }
    let full = there().map(|pair| pair.raw).max()?;
    let cut = there().filter(|pair| pair.raw == full).count();
    let is_widest = lines.iter().all(|line| line.chars().count() <= full);
    let is_certain = cut > 2 || TERMINALS.contains(&full) || cut > 1 && there().any(|pair| pair.is_at_blank);
    let is_hard = is_widest && cut * 10 >= there().count() * 9 && is_certain;
    Some(Width { columns: if is_hard { full } else { columns }, is_hard })
}

/// Whether a line is the rest of another: it starts no event, comment, frame of a stack, or row of a table.
fn is_rest(line: &str) -> bool {
    let line = line.trim();
    let is_sample = || {
        line.strip_prefix('#').is_some_and(|rest| {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            digits > 0 && matches!(rest.as_bytes().get(digits), None | Some(b' ' | b'\t' | b'/'))
        })
    };
    let is_read = || match parse(line) {
        Some(Line::Comment) => !is_sample(),
        Some(_) => true,
        None => false,
    };
    // Kernels before 2.6.29 print these without a '#'.
    let is_of_heading = line.starts_with("latency:") || line.starts_with("| task:");
    !(line.is_empty()
        || is_rule(line)
        || is_of_heading
        || line.starts_with("=>")
        || is_fence(line)
        || is_known(line)
        || begins(line)
        || is_of_graph(line)
        || is_of_analysis(line)
        || is_read())
}

/// A line of rtla's analysis: an item, a thread with its time (`objtool:49256  3.79 us`), or a frame of a stack.
fn is_of_analysis(line: &str) -> bool {
    const ITEMS: [&str; 11] = [
        "Previous IRQ interference",
        "IRQ handler delay",
        "IRQ latency",
        "Timerlat IRQ duration",
        "Blocking thread",
        "NMI interference",
        "IRQ interference",
        "Softirq interference",
        "Thread interference",
        "Thread latency",
        "Max timerlat IRQ latency",
    ];
    let is_thread = || {
        let (who, time) = line.strip_suffix(" us")?.rsplit_once(char::is_whitespace)?;
        let (_, tid) = who.trim_end().rsplit_once(':')?;
        (tid.parse::<u32>().is_ok() && time.parse::<f64>().is_ok()).then_some(())
    };
    line.starts_with("->") || ITEMS.iter().any(|item| line.starts_with(item)) || is_thread().is_some()
}

fn is_rule(line: &str) -> bool {
    line.trim().bytes().all(|byte| matches!(byte, b'-' | b'=' | b'_'))
}

/// `  0)   0.516 us    |  _raw_spin_lock();`, and the lines between two threads.
fn is_of_graph(line: &str) -> bool {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.len() < line.len() && rest.starts_with(')') && (line.contains('|') || line.contains("=>"))
        || line.contains(") ") && line.contains(" | ")
}

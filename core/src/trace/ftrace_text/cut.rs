//! Lines that were cut: all at one width, by a terminal or a pager, so that their last field is another one, or missing;
//! or the first and the last, where the text was cut.

use super::line::{parse, EventLine, Line};

/// Bytes before the last line, or after the first, that are compared with it.
const NEAR: usize = 1 << 16;

/// Least events that show what a whole one has.
const SHOWN: usize = 20;

/// Least width that counts.
const LEAST: usize = 60;

/// Ends of sentences, and of lines of a function graph.
const ENDS: [char; 9] = ['.', '!', '?', ')', ';', '{', '}', '`', '/'];

/// The longest lines of a text.
#[derive(Debug, Default)]
pub(crate) struct Cut {
    longest: usize,
    count: u64,
    /// One of them ends within a field.
    is_open: bool,
}

impl Cut {
    /// The next line.
    pub fn line(&mut self, line: &str) {
        if line.len() < self.longest || line.starts_with('#') {
            return;
        }
        let length = line.chars().count();
        if length > self.longest {
            *self = Cut { longest: length, ..Cut::default() };
        }
        if length == self.longest {
            self.count += 1;
            self.is_open |= is_open(line);
        }
    }

    /// What to say if the lines were cut.
    pub fn found(&self) -> Option<String> {
        let is_cut = self.longest >= LEAST && self.count >= 3 && self.is_open;
        is_cut.then(|| {
            format!("{} lines end after {} characters, at least one of them within a field: the text was cut at that width", self.count, self.longest)
        })
    }
}

/// Whether a line ends within a field: an open bracket, a field without its value, an arrow without its function.
fn is_open(line: &str) -> bool {
    let line = line.trim_end();
    let count = |c: char| line.matches(c).count();
    line.ends_with(['=', '<', ','])
        || line.ends_with("<-")
        || line.ends_with("==>")
        || count('(') > count(')')
        || count('[') > count(']')
}

/// Whether the last line, which has no end, is a part of an event: it lacks words of others of its name, or is of a name
/// that no other one has, or has no time.
pub(crate) fn ends_within(text: &str) -> bool {
    if text.is_empty() || text.ends_with('\n') {
        return false;
    }
    let near = text.len().saturating_sub(NEAR);
    let near = (near..text.len()).find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut lines = text[near..].lines().rev();
    let Some(line) = lines.next() else { return false };
    // A frame, or a rule between parts, that is the beginning of another.
    let is_part = || {
        let is_longer = |other: &str| other.len() > line.len() && other.starts_with(line);
        lines.clone().any(is_longer) && !lines.clone().any(|other| other == line)
    };
    let last = match parse(line) {
        Some(Line::Event(last)) => last,
        Some(_) => return line.trim().is_empty() || is_part(),
        None => return is_part() || !line.trim_end().ends_with(ENDS) && !is_frame(line),
    };
    let others: Vec<EventLine> = events(lines).collect();
    if last.name == "text" && others.iter().any(|other| other.name.starts_with(last.fields)) {
        return true;
    }
    let words = |event: &EventLine| event.fields.split_whitespace().count();
    let least = others.iter().filter(|other| other.name == last.name).map(words).min();
    least.map_or(others.len() >= SHOWN, |least| words(&last) < least)
}

/// Whether the first line is a frame of a stack without its event, or an event that lacks the start of its thread's name.
pub(crate) fn starts_within(text: &str) -> bool {
    let near = NEAR.min(text.len());
    let near = (0..=near).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    let mut lines = text[..near].lines().skip_while(|line| line.trim().is_empty());
    let Some(line) = lines.next() else { return false };
    let Some(Line::Event(first)) = parse(line) else { return is_frame(line) };
    let other = events(lines).find(|other| other.tid == first.tid);
    other.is_some_and(|other| other.comm != first.comm && other.comm.ends_with(first.comm))
}

/// ` => schedule`
fn is_frame(line: &str) -> bool {
    line.trim_start().starts_with("=>")
}

fn events<'t>(lines: impl Iterator<Item = &'t str>) -> impl Iterator<Item = EventLine<'t>> {
    lines.filter_map(|line| match parse(line) {
        Some(Line::Event(event)) => Some(event),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_starts_or_ends_within_a_line_lacks_a_part_of_it() {
        let line = |at: u32| {
            format!("  control-1  [000]  1.0000{at}: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n")
        };
        let text: String = (10..40).map(line).collect();
        let ends = |cut: usize| ends_within(&text[..text.len() - cut]);
        assert_eq!([0, 1, 3, 17, 45, 47, 60].map(ends), [false, false, false, true, true, true, true]);
        let starts = |cut: usize| starts_within(&text[cut..]);
        assert_eq!([0, 2, 4, 8, 9].map(starts), [false, false, true, true, true]);
        assert!(!ends_within(line(10).trim_end()));
    }

    #[test]
    fn lines_of_one_length_are_cut_only_if_one_of_them_has_no_end() {
        let found = |lines: &[String]| {
            let mut cut = Cut::default();
            lines.iter().for_each(|line| cut.line(line));
            cut.found()
        };
        let line = |end: &str| format!("{:>70}{end}", "");
        let [whole, open] = [line(" a=1"), line("1 a=")];
        assert_eq!(found(&[whole.clone(), whole.clone(), whole.clone()]), None);
        assert!(found(&[whole.clone(), open.clone(), whole.clone()])
            .is_some_and(|cut| cut.contains("74 characters")));
        assert_eq!(
            found(&[whole.clone(), open.clone(), whole.clone(), line("1 a=12")]),
            None,
            "not the longest"
        );
        assert_eq!(found(&[whole, open]), None, "too few");
    }
}

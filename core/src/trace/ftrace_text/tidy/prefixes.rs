//! What pasting put before each line: quoting, numbers of lines, time stamps of consoles and logs.

use super::{is_known, known, parse, Line, LOOKED_AT};

/// Whether a console or a log put its time before an event: with it the name of the thread would be another one.
pub(super) fn is_logged(line: &str) -> bool {
    let line = line.trim_start();
    console(line).or_else(|| stamped(line)).is_some_and(is_known)
}

/// The prefix that a logger puts before every line, taken from the heading: `2025-01-02 10:11:12,345 INFO dut: `.
pub(super) fn prefix<'t>(lines: impl Iterator<Item = &'t str>) -> Option<String> {
    const LONGEST: usize = 80;
    lines.map(bare).find_map(|line| {
        let is_cpus = |at: &usize| line[at + 5..].bytes().all(|byte| byte.is_ascii_digit());
        let at = line.find("# tracer:").or_else(|| line.rfind("cpus=").filter(is_cpus));
        let at = at.filter(|at| *at <= LONGEST)?;
        let before = &line[..at];
        (!before.trim().is_empty() && !before.contains('#')).then(|| before.to_owned())
    })
}

/// The line without a prefix of the shape of `before`: the same characters, with any digits for digits.
pub(super) fn without_shape<'t>(line: &'t str, before: &str) -> &'t str {
    let shape = before.trim_end();
    let Some(head) = line.get(..shape.len()) else { return line };
    let same = |(a, b): (u8, u8)| {
        a == b
            || a.is_ascii_digit() && b.is_ascii_digit()
            || a == b' ' && b.is_ascii_digit()
            || b == b' ' && a.is_ascii_digit()
    };
    if !head.bytes().zip(shape.bytes()).all(same) {
        return line;
    }
    let blanks = before.len() - shape.len();
    let rest = &line[shape.len()..];
    let start = rest.bytes().take(blanks).take_while(|byte| *byte == b' ').count();
    &rest[start..]
}

/// The line without pasted prefixes.
pub(super) fn bare(line: &str) -> &str {
    without_prefix(line.trim_end_matches('\r'))
}

fn without_prefix(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..8 {
        let is_event = |line: &str| matches!(parse(line), Some(Line::Event(_)));
        let trimmed = rest.trim_start();
        let shorter = quoted(trimmed).or_else(|| console(trimmed)).or_else(|| stamped(trimmed));
        let numbered =
            || numbered(trimmed).filter(|line| is_known(line) || line.trim_start().starts_with('#'));
        // If it is an event with the prefix, removing the prefix must leave an event.
        match shorter.or_else(numbered) {
            Some(shorter) if !is_event(rest) || is_event(without_prefix(shorter)) => rest = shorter,
            _ => return rest,
        }
    }
    rest
}

/// `> `, `| ` of quoting and of boxes; not `| task: cat-7 (uid:0 …`, of headings before Linux 2.6.29.
pub(super) fn quoted(line: &str) -> Option<&str> {
    let is_heading = |rest: &str| rest.starts_with(" task:") || rest.starts_with('=');
    line.strip_prefix(['>', '|']).filter(|rest| !line.starts_with("||") && !is_heading(rest))
}

/// What a tool put before, or around, every line.
pub(super) enum Style {
    /// The file, and with grep's `-n` the number of the line: `trace.txt:12:`, and `trace.txt-12-` beside a match.
    File(String),
    /// The number of the line, of editors, `cat -n`, `nl`, grep: `  12 `.
    Number,
    /// The number of equal lines, of `uniq -c`.
    Count,
    /// A frame: `| … |`.
    Frame,
}

/// Columns of the number that `uniq -c` prints.
const COUNT: usize = 7;

impl Style {
    /// The style of most lines; `None` if there is none, or if fewer lines are known without it.
    pub fn of(text: &str) -> Option<Style> {
        let lines = || text.lines().take(LOOKED_AT).filter(|line| !line.trim().is_empty());
        let all = lines().count();
        let is_most = |style: &Style| {
            let with = lines().filter(|line| style.of_line(line).is_some()).count();
            with > 1 && with * 20 >= all * 19
        };
        let file = || {
            let head = lines().find_map(|line| line.split_once(':')).map(|(head, _)| head)?;
            // `kworker/u8:1-12` is a thread.
            let name = head.rsplit('/').next().unwrap_or_default();
            let is_name = name.contains(|c: char| c.is_ascii_alphabetic() && c != 'u');
            let is_file = is_name && head.contains(['.', '/', '_']) && !head.contains(char::is_whitespace);
            (is_file && head.len() < 200).then(|| Style::File(head.to_owned()))
        };
        let numbers = || numbering(lines()).then_some(Style::Number);
        let styles = [file(), numbers(), Some(Style::Count), Some(Style::Frame)];
        let style = styles.into_iter().flatten().find(|style| match style {
            Style::Number => true,
            style => is_most(style),
        })?;
        // A table may have ascending numbers at its start, and then a heading without one.
        let is_table = matches!(style, Style::Number) && lines().any(|line| line.starts_with('#'));
        let head: String = lines().flat_map(|line| [line, "\n"]).collect();
        let without = known(&style.without(&head));
        (without > 0 && without >= known(&head) && !is_table).then_some(style)
    }

    /// `text` without it.
    pub fn without(&self, text: &str) -> String {
        let bare = |line: &'_ str| self.of_line(line).unwrap_or(line).to_owned() + "\n";
        let mut plain: String = text.lines().map(bare).collect();
        // Where the text was cut, it has no last end of a line.
        if !text.ends_with('\n') {
            plain.pop();
        }
        plain
    }

    fn of_line<'t>(&self, line: &'t str) -> Option<&'t str> {
        match self {
            Style::File(file) => {
                let rest = line.strip_prefix(file.as_str())?.strip_prefix([':', '-'])?;
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                let behind = rest[digits..].strip_prefix([':', '-']).filter(|_| digits > 0);
                Some(behind.unwrap_or(rest))
            }
            Style::Number => line_number(line).map(|(_, rest)| rest),
            Style::Count => {
                let (number, rest) = (line.get(..COUNT)?, line.get(COUNT..)?.strip_prefix(' ')?);
                let number = number.trim_start();
                let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
                is_number.then_some(rest)
            }
            Style::Frame => line.trim().strip_prefix('|')?.strip_suffix('|'),
        }
    }
}

/// Whether most lines have their number before them, each one more than the line before.
fn numbering<'t>(lines: impl Iterator<Item = &'t str>) -> bool {
    let (mut all, mut ascending, mut before) = (0, 0, None);
    for line in lines {
        let number = line_number(line).map(|(number, _)| number);
        all += 1;
        ascending += u32::from(before.is_some() && number == before);
        before = number.map(|number| number.saturating_add(1));
    }
    2 * ascending > all
}

/// The number of a line, and the line.
fn line_number(line: &str) -> Option<(u32, &str)> {
    let line = line.trim_start();
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    let rest = &line[digits..];
    let number = line[..digits].parse().ok()?;
    let behind = match rest.is_empty() {
        true => rest,
        false => rest.strip_prefix([':', '-', '\t', '|']).or_else(|| rest.strip_prefix(' '))?,
    };
    Some((number, behind))
}

/// `   12  ` and `12: ` of editors and of grep.
fn numbered(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < line.len() && line.len() - rest.len() <= 7;
    let behind = rest.strip_prefix([':', '\t', '|']).or_else(|| rest.strip_prefix("  "))?;
    is_number.then_some(behind)
}

/// `[   12.345678] ` of the console, with the CPU or thread that some kernels add: `[   12.345678][    T1] `, and the
/// level of /proc/kmsg before it: `<6>`.
fn console(line: &str) -> Option<&str> {
    if let Some((level, rest)) = line.strip_prefix('<').and_then(|line| line.split_once('>')) {
        let is_level =
            !level.is_empty() && level.len() <= 3 && level.bytes().all(|byte| byte.is_ascii_digit());
        return is_level.then_some(rest);
    }
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let is_stamp =
        inside.contains('.') && inside.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_caller = inside
        .trim()
        .strip_prefix(['T', 'C'])
        .is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
    (is_stamp || is_caller).then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

/// `2024-10-22T09:41:07.123456 ` and `[2024-10-22 09:41:07] ` of logs, `Nov 25 12:00:01 host kernel: ` of syslog,
/// `2024-10-22T09:41:07+02:00 host kernel: ` of journals, `12:00:01.123 ` of terminals.
fn stamped(line: &str) -> Option<&str> {
    let (first, rest) = line.split_once(' ')?;
    let is_clock = |word: &str| {
        let mut parts = word.split(':');
        let two = |part: Option<&str>| {
            part.is_some_and(|part| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit()))
        };
        two(parts.next())
            && two(parts.next())
            && parts.next().is_some_and(|part| part.starts_with(|c: char| c.is_ascii_digit()))
    };
    let is_date = |word: &str| {
        let digits: Vec<&str> = word.split('-').collect();
        digits.len() == 3
            && digits[0].len() == 4
            && digits.iter().all(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    if let Some((date, clock)) = first.split_once('T')
        && is_date(date)
        && is_clock(clock)
    {
        return Some(behind_host(rest));
    }
    if is_date(first.trim_start_matches('[')) {
        let (clock, rest) = rest.split_once(' ')?;
        return is_clock(clock).then(|| behind_host(rest));
    }
    if is_clock(first.trim_matches(['[', ']'])) {
        return Some(rest);
    }
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if MONTHS.contains(&first) {
        let (_, rest) = rest.trim_start().split_once(' ')?;
        let (clock, rest) = rest.split_once(' ')?;
        return is_clock(clock)
            .then(|| behind_host(rest.split_once("kernel: ").map_or(rest, |(_, rest)| rest)));
    }
    None
}

/// Without the `host kernel: ` or `host cat[1234]: ` of a journal.
fn behind_host(rest: &str) -> &str {
    let behind = rest.trim_start().split_once(' ').and_then(|(_, rest)| {
        let (program, behind) = rest.split_once(": ")?;
        let number = program.strip_suffix(']').and_then(|program| program.rsplit_once('['));
        let is_number = number.is_some_and(|(name, number)| {
            !name.is_empty() && !name.contains(' ') && number.bytes().all(|byte| byte.is_ascii_digit())
        });
        (program == "kernel" || is_number).then_some(behind)
    });
    behind.unwrap_or(rest)
}

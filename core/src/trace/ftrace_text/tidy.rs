//! A text as people paste it, without what pasting added: byte order marks, UTF-16, carriage returns, quoting, Markdown,
//! colours, and the time stamps of consoles and logs before each line.
//!
//! Only where the first lines show no event and no heading of a tracer as they are: a text that can be read is not touched.

use std::borrow::Cow;

use super::line::{parse, Line};

/// Lines looked at.
const LOOKED_AT: usize = 2_000;

/// `bytes` as text that can be read.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = decoded(bytes);
    let mut first = text.lines().take(LOOKED_AT);
    if first.any(|line| is_known(line) && quoted(line.trim_start()).is_none()) {
        return text;
    }
    if !text.lines().take(LOOKED_AT).any(|line| is_known(&bare(line))) {
        return text;
    }
    let mut tidy = String::with_capacity(text.len());
    for line in text.lines() {
        tidy.push_str(&bare(line));
        tidy.push('\n');
    }
    Cow::Owned(tidy)
}

fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    let wide = |of: fn([u8; 2]) -> u16| {
        let units = bytes[2..].chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
        let text: String = char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect();
        Cow::Owned(text)
    };
    match bytes {
        [0xff, 0xfe, ..] => wide(u16::from_le_bytes),
        [0xfe, 0xff, ..] => wide(u16::from_be_bytes),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest),
        _ => String::from_utf8_lossy(bytes),
    }
}

/// An event, or the heading of a tracer.
fn is_known(line: &str) -> bool {
    let heading = line.trim_start().starts_with("# tracer:") || line.contains(" latency trace v");
    heading && line.trim_start().starts_with('#') || matches!(parse(line), Some(Line::Event(_)))
}

/// The line without what was put before it.
fn bare(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches('\r');
    let plain = match line.contains('\u{1b}') {
        true => Cow::Owned(without_colours(line)),
        false => Cow::Borrowed(line),
    };
    if plain.trim_start().starts_with("```") || plain.trim_start().starts_with("~~~") {
        return Cow::Borrowed("");
    }
    match plain {
        Cow::Borrowed(line) => Cow::Borrowed(without_prefix(line)),
        Cow::Owned(line) => Cow::Owned(without_prefix(&line).to_owned()),
    }
}

fn without_prefix(line: &str) -> &str {
    let mut rest = line;
    for _ in 0..8 {
        if matches!(parse(rest), Some(Line::Event(_))) {
            return rest;
        }
        let trimmed = rest.trim_start();
        let shorter = quoted(trimmed).or_else(|| console(trimmed)).or_else(|| stamped(trimmed));
        match shorter {
            Some(shorter) => rest = shorter,
            None => return rest,
        }
    }
    rest
}

/// `> `, `| ` of quoting and of boxes.
fn quoted(line: &str) -> Option<&str> {
    line.strip_prefix(['>', '|']).filter(|rest| !line.starts_with("||") && !rest.starts_with('='))
}

/// `[   12.345678] ` of the console, with the CPU or thread that some kernels add: `[   12.345678][    T1] `.
fn console(line: &str) -> Option<&str> {
    let (inside, rest) = line.strip_prefix('[')?.split_once(']')?;
    let is_stamp =
        inside.contains('.') && inside.trim().bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let is_caller = inside
        .trim()
        .strip_prefix(['T', 'C'])
        .is_some_and(|id| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit()));
    (is_stamp || is_caller).then(|| rest.strip_prefix(' ').unwrap_or(rest))
}

/// `2024-10-22T09:41:07.123456 ` and `2024-10-22 09:41:07 ` of logs, `Nov 25 12:00:01 host kernel: ` of syslog,
/// `12:00:01.123 ` of terminals.
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
    if let Some((date, clock)) = first.split_once('T') {
        if is_date(date) && is_clock(clock) {
            return Some(rest);
        }
    }
    if is_date(first) {
        let (clock, rest) = rest.split_once(' ')?;
        return is_clock(clock).then_some(rest);
    }
    if is_clock(first.trim_matches(['[', ']'])) {
        return Some(rest);
    }
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    if MONTHS.contains(&first) {
        let (_, rest) = rest.trim_start().split_once(' ')?;
        let (clock, rest) = rest.split_once(' ')?;
        return if is_clock(clock) { rest.split_once("kernel: ").map(|(_, rest)| rest) } else { None };
    }
    None
}

fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = behind.find(|c: char| c.is_ascii_alphabetic()).map_or(behind.len(), |at| at + 1);
        rest = if behind.starts_with('[') { &behind[end..] } else { behind };
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVENT: &str =
        "          <idle>-0       [001] d.h1.  3469.824588: softirq_entry: vec=9 [action=RCU]";

    #[test]
    fn what_pasting_put_before_lines_is_taken_away() {
        let prefixes = [
            "> > ",
            "| ",
            "[   12.345678] ",
            "[   12.345678][    T1] ",
            "2024-10-22T09:41:07.123456  ",
            "2024-10-22 09:41:07.1 ",
            "Nov 25 12:00:01 host kernel: [    1.000000] ",
            "> 12:00:01.123 ",
            "\u{1b}[2;37m",
        ];
        for prefix in prefixes {
            let pasted = format!("{prefix}# tracer: nop\r\n{prefix}#\r\n{prefix}{EVENT}\r\n");
            let tidy = text(pasted.as_bytes());
            assert!(matches!(parse(tidy.lines().nth(2).unwrap()), Some(Line::Event(_))), "{prefix}: {tidy}");
        }
        let pasted = format!("Hello,\n```\n{EVENT}\n```\n");
        assert!(text(pasted.as_bytes()).lines().any(|line| line == EVENT));
    }

    #[test]
    fn other_encodings_are_read_and_a_plain_text_is_not_touched() {
        let wide: Vec<u8> =
            [0xff, 0xfe].into_iter().chain(EVENT.encode_utf16().flat_map(u16::to_le_bytes)).collect();
        assert_eq!(text(&wide), EVENT);
        let marked = format!("\u{feff}{EVENT}");
        assert_eq!(text(marked.as_bytes()), EVENT);
        assert!(matches!(text(EVENT.as_bytes()), Cow::Borrowed(EVENT)));
    }
}

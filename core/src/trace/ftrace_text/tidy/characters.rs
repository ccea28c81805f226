//! Characters of a text as the tracer printed them: encodings, markup of web pages and mail, colours, the output of pagers.

use std::borrow::Cow;

use super::{known, LARGEST_PASTED};

/// The text of `bytes` without what encodings, pages, mail, terminals and pagers added.
pub(super) fn plain(bytes: &[u8]) -> Cow<'_, str> {
    let text = printable_decoded(entities_decoded(decoded(bytes)));
    printed(printed(spaced(text), '\u{8}', typed_over), '\u{1b}', without_colours)
}

/// `repair` of a text that contains `mark`.
fn printed<'t>(text: Cow<'t, str>, mark: char, repair: impl Fn(&str) -> String) -> Cow<'t, str> {
    match text.contains(mark) {
        true => Cow::Owned(repair(&text)),
        false => text,
    }
}

/// Columns as the parser expects them: no tabs, one blank where all blanks are doubled, ASCII arrows, dots and dashes.
pub(super) fn columns(text: Cow<'_, str>) -> Cow<'_, str> {
    let text = if_known(text, '\t', |text| text.replace('\t', " "));
    let text = if_known(text, '\\', unescaped);
    let text =
        if text.contains(['…', '⇒', '→', '←', '–']) { better(text, false, ascii) } else { text };
    let text = match known(&text) {
        0 => better(text, true, with_points),
        _ => text,
    };
    match is_spread(&text) {
        true => better(text, false, |text| text.lines().map(|line| single(line) + "\n").collect()),
        false => text,
    }
}

/// `repair` of a text that contains `mark`: if lines are known then; in a long text, if more are.
fn if_known<'t>(text: Cow<'t, str>, mark: char, repair: impl Fn(&str) -> String) -> Cow<'t, str> {
    match text.contains(mark) {
        true => {
            let is_long = text.len() >= LARGEST_PASTED;
            better(text, is_long, repair)
        }
        false => text,
    }
}

/// The repaired text, unless fewer lines are known then; or, if `is_more` is required, not more.
fn better<'t>(text: Cow<'t, str>, is_more: bool, repair: impl Fn(&str) -> String) -> Cow<'t, str> {
    let repaired = repair(&text);
    let (before, after) = (known(&text), known(&repaired));
    match after > before || after > 0 && after == before && !is_more {
        true => Cow::Owned(repaired),
        false => text,
    }
}

/// Without the backslashes of Markdown: `\_\_do\_softirq`.
fn unescaped(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        let is_escape =
            c == '\\' && matches!(characters.peek(), Some('_' | '*' | '[' | ']' | '<' | '>' | '#' | '`'));
        if !is_escape {
            plain.push(c);
        }
    }
    plain
}

/// Arrows, dots and dashes of word processors.
fn ascii(text: &str) -> String {
    let text = text.replace('…', "...").replace('⇒', "==>").replace('→', "->").replace('←', "<-");
    text.replace('–', "-")
}

/// Times with a decimal comma.
fn with_points(text: &str) -> String {
    let bytes = text.as_bytes();
    let is_fraction = |at: usize| {
        let digits = bytes[at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        at > 0 && bytes[at - 1].is_ascii_digit() && matches!(digits, 6 | 9)
    };
    let point = |(at, c)| if c == ',' && is_fraction(at) { '.' } else { c };
    text.char_indices().map(point).collect()
}

/// Whether there are only runs of blanks between words, in at least two known lines.
fn is_spread(text: &str) -> bool {
    let has_one = |line: &str| {
        let bytes = line.trim().as_bytes();
        bytes.windows(3).any(|three| three[1] == b' ' && three[0] != b' ' && three[2] != b' ')
    };
    let mut known = text.lines().take(200).filter(|line| super::is_known(line)).peekable();
    let first = known.next().is_some_and(|line| line.contains("  "));
    first && known.peek().is_some() && !text.lines().take(200).any(has_one)
}

fn single(line: &str) -> String {
    line.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Old line ends, lines that a pager wrote over, and the blanks that word processors put.
fn spaced(text: Cow<'_, str>) -> Cow<'_, str> {
    let has_old_ends = text.contains('\r') && !text.contains('\n');
    let is_over = |line: &str| line.trim_end_matches('\r').contains('\r');
    let is_written_over = !has_old_ends && text.contains('\r') && text.split('\n').any(is_over);
    if is_written_over {
        let seen = |line: &str| {
            let line = line.trim_end_matches('\r');
            line.rsplit_once('\r').map_or(line, |(_, last)| last).to_owned() + "\n"
        };
        return Cow::Owned(text.replace('\u{a0}', " ").lines().map(seen).collect());
    }
    if !has_old_ends && !text.contains('\u{a0}') {
        return text;
    }
    let ends = if has_old_ends { "\n" } else { "\r" };
    Cow::Owned(text.replace('\u{a0}', " ").replace('\r', ends))
}

/// Without bold and underlined characters as `man` and `less` print them: a character, a backspace, the character again.
fn typed_over(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{8}' => {
                plain.pop();
            }
            c => plain.push(c),
        }
    }
    plain
}

fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        let end = behind.find(|c: char| c.is_ascii_alphabetic()).map_or(behind.len(), |at| at + 1);
        rest = if behind.starts_with('[') { &behind[end..] } else { behind };
    }
    plain.push_str(rest);
    plain
}

/// Decodes the markup of a web page, from which the text was copied: `==&gt;` is `==>`.
fn entities_decoded(text: Cow<'_, str>) -> Cow<'_, str> {
    const MARKS: [&str; 6] = ["==&gt;", "&lt;idle&gt;", "&lt;...&gt;", "&lt;-", "&nbsp;", "&amp;lt;"];
    let is_page = text.trim_start().starts_with("<");
    if is_page || !MARKS.iter().any(|mark| text.contains(mark)) && !text.contains("<br") {
        return text;
    }
    let mut plain = text.into_owned();
    for end in ["<br>", "<br/>", "<br />"] {
        plain = plain.replace(&format!("{end}\n"), "\n").replace(end, "\n");
    }
    // Some pages encode what is encoded already.
    for _ in 0..3 {
        let is_again =
            plain.contains("&amp;lt;") || plain.contains("&amp;gt;") || plain.contains("&amp;nbsp;");
        plain = plain.replace("&gt;", ">").replace("&lt;", "<").replace("&quot;", "\"");
        plain =
            plain.replace("&nbsp;", " ").replace("&#39;", "'").replace("&#x27;", "'").replace("&amp;", "&");
        if !is_again {
            break;
        }
    }
    Cow::Owned(plain)
}

/// In the heading of a mail.
pub(crate) const IS_PRINTABLE: &str = "-Encoding: quoted-printable";

/// Decodes quoted-printable mail if `text` is such.
fn printable_decoded(text: Cow<'_, str>) -> Cow<'_, str> {
    // Thread names may start with 3D: requires the heading, an encoded arrow, or several encoded blanks.
    let marks = [IS_PRINTABLE, "=3D> ", "=3D=3D>", "=C2=A0=C2=A0"];
    match marks.iter().any(|mark| text.contains(mark)) {
        true => Cow::Owned(printable(&text)),
        false => text,
    }
}

/// Decodes quoted-printable (RFC 2045, 6.7): `=3D>` is `=>`, and a line that ends in `=` continues.
pub(crate) fn printable(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        let digit = |at: usize| char::from(*behind.get(at)?).to_digit(16);
        match (byte, behind) {
            (b'=', [b'\n', behind @ ..] | [b'\r', b'\n', behind @ ..]) => rest = behind,
            (b'=', _) => match (digit(0), digit(1)) {
                (Some(high), Some(low)) => {
                    bytes.push((high * 16 + low) as u8);
                    rest = &behind[2..];
                }
                _ => bytes.push(byte),
            },
            _ => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The text of `bytes` in any Unicode encoding.
pub(crate) fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match wide(bytes) {
        Some(text) => Cow::Owned(text),
        None => String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    }
}

/// The text of `bytes` if they are UTF-16 or UTF-32.
pub(super) fn wide(bytes: &[u8]) -> Option<String> {
    if let [0xff, 0xfe, 0, 0, rest @ ..] = bytes {
        let units = rest.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]));
        return Some(units.map(|unit| char::from_u32(unit).unwrap_or('\u{fffd}')).collect());
    }
    let (of, bytes): (fn([u8; 2]) -> u16, _) = match bytes {
        [0xff, 0xfe, rest @ ..] => (u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => (u16::from_be_bytes, rest),
        [1..=255, 0, 1..=255, 0, ..] => (u16::from_le_bytes, bytes),
        [0, 1..=255, 0, 1..=255, ..] => (u16::from_be_bytes, bytes),
        _ => return None,
    };
    let units = bytes.chunks_exact(2).map(|pair| of([pair[0], pair[1]]));
    Some(char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect())
}

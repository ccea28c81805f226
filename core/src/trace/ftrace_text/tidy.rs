//! Removes artifacts of pasting from a text: byte order marks, UTF-16, carriage returns, quoting, Markdown, colours,
//! quoted-printable mail, and the time stamps of consoles and logs before each line.
//!
//! Only if the first lines have no event and no heading of a tracer: a readable text is not changed.

use std::borrow::Cow;

use super::line::{parse, Line};

/// Number of lines examined.
const LOOKED_AT: usize = 2_000;

/// Maximum size of a text with prose around it: a larger text is not copied for that.
const LARGEST_PASTED: usize = 1 << 20;

/// `bytes` as readable text.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = out_of_page(spaced(printable_decoded(decoded(bytes))));
    let first = || text.lines().take(LOOKED_AT);
    let plainly = first().filter(|line| is_known(line) && quoted(line.trim_start()).is_none()).count();
    let cleaned = first().filter(|line| is_known(&bare(line))).count();
    let is_pasted = text.len() < LARGEST_PASTED && plainly > 0;
    let is_prose = |line: &str| is_pasted && is_around(line);
    let is_bare = !first().take_while(|line| !is_known(line)).any(is_prose) && !first().any(is_fence);
    let is_broken = text.len() < LARGEST_PASTED && is_broken(&text);
    let before = prefix(first());
    let is_stamped = 2 * first().filter(|line| is_known(line) && is_logged(line)).count() > plainly;
    if plainly >= cleaned && is_bare && !is_broken && !is_stamped && before.is_none() {
        return text;
    }
    if cleaned == 0 {
        return text;
    }
    let without = |line| match &before {
        Some(before) => without_shape(bare(line), before),
        None => bare(line),
    };
    let mut lines: Vec<Cow<str>> = text.lines().map(without).collect();
    blank_around(&mut lines);
    let mut tidy = String::with_capacity(text.len());
    let mut is_open = false; // the previous line may continue
    for line in lines {
        let goes_on = continues(&line)
            || is_broken
                && tidy.trim_end().len() > tidy.trim_end().rfind('\n').unwrap_or(0) + 50
                && (is_remnant(&line) || tidy.trim_end().ends_with(':') && !is_known(&line));
        if is_open && goes_on {
            tidy.pop();
            tidy.push(' ');
            tidy.push_str(line.trim_start());
        } else {
            is_open = matches!(parse(&line), Some(Line::Event(_))) || is_open_heading(&line);
            tidy.push_str(&line);
        }
        tidy.push('\n');
    }
    Cow::Owned(tidy)
}

/// As [`text`], but borrows input that needs no repair, even with invalid UTF-8. For more than a mebibyte, the first mebibyte
/// decides.
pub(super) fn bytes(bytes: &[u8]) -> Cow<'_, [u8]> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if wide(bytes).is_some() {
        return Cow::Owned(text(bytes).into_owned().into_bytes());
    }
    let cut = bytes.get(..LARGEST_PASTED).map_or(bytes.len(), |head| {
        head.iter().rposition(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1)
    });
    let head = String::from_utf8_lossy(&bytes[..cut]);
    match text(head.as_bytes()) {
        Cow::Borrowed(tidy) if tidy.len() == head.len() => Cow::Borrowed(bytes),
        _ => match text(bytes) {
            Cow::Borrowed(tidy) if tidy.len() == bytes.len() => Cow::Borrowed(bytes),
            tidy => Cow::Owned(tidy.into_owned().into_bytes()),
        },
    }
}

/// Whether a console or a log put its time before an event: with it the name of the thread would be another one.
fn is_logged(line: &str) -> bool {
    let line = line.trim_start();
    console(line).or_else(|| stamped(line)).is_some_and(is_known)
}

/// Old line ends, and the blanks that word processors put.
fn spaced(text: Cow<'_, str>) -> Cow<'_, str> {
    let has_old_ends = text.contains('\r') && !text.contains('\n');
    if !has_old_ends && !text.contains('\u{a0}') {
        return text;
    }
    let ends = if has_old_ends { "\n" } else { "\r" };
    Cow::Owned(text.replace('\u{a0}', " ").replace('\r', ends))
}

/// Whether a mail program has wrapped lines: the rest of a line follows an event or a heading.
fn is_broken(text: &str) -> bool {
    let lines = || text.lines().take(LOOKED_AT);
    let is_event = |line: &str| matches!(parse(&bare(line)), Some(Line::Event(_)));
    lines().zip(lines().skip(1)).any(|(line, next)| {
        let next = bare(next);
        continues(&next) && (is_event(line) || is_open_heading(&bare(line)))
    })
}

/// Whether it is the rest of the previous line: not an event, a comment, a stack, or prose.
fn is_remnant(line: &str) -> bool {
    let line = line.trim();
    let is_word = line.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, ',' | '|' | '_'));
    is_word && !is_known(line) && !is_around(line)
}

/// The prefix that a logger puts before every line, taken from the heading: `2025-01-02 10:11:12,345 INFO dut: `.
fn prefix<'t>(lines: impl Iterator<Item = &'t str>) -> Option<String> {
    const LONGEST: usize = 80;
    lines.map(bare).find_map(|line| {
        let at = line.find("# tracer:").filter(|at| *at <= LONGEST)?;
        let before = &line[..at];
        (!before.trim().is_empty() && !before.contains('#')).then(|| before.to_owned())
    })
}

/// The line without a prefix of the shape of `before`: the same characters, with any digits for digits.
fn without_shape<'t>(line: Cow<'t, str>, before: &str) -> Cow<'t, str> {
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
    match line {
        Cow::Borrowed(line) => Cow::Borrowed(&line[shape.len() + start..]),
        Cow::Owned(_) => Cow::Owned(rest[start..].to_owned()),
    }
}

/// `# latency: 55060 us, #343/343, CPU#4 | (M:desktop VP:0, KP:0, SP:0 HP:0` without its closing parenthesis.
fn is_open_heading(line: &str) -> bool {
    line.trim_start_matches(['#', ' ']).starts_with("latency:") && line.contains('(') && !line.contains(')')
}

/// The rest of a line of a tracer: `<-end_page_writeback`, `98:R irq_work/0`, `#P:4)`.
fn is_rest(line: &str) -> bool {
    let line = line.trim_start();
    let is_thread = || {
        let (prio, state) = line.split_once(':').unwrap_or(("", ""));
        let is_prio = !prio.is_empty() && prio.len() <= 3 && prio.bytes().all(|byte| byte.is_ascii_digit());
        is_prio
            && state.len() > 2
            && state.starts_with(|c: char| c.is_ascii_uppercase())
            && state[1..].starts_with([' ', '+'])
    };
    let is_heading =
        || ["SP:", "HP:", "KP:", "#P:"].iter().any(|name| line.starts_with(name)) && line.ends_with(')');
    line.starts_with("<-") || is_heading() || is_thread()
}

/// The trace within an HTML page of systrace: in a script element, or in a JavaScript string.
fn out_of_page(text: Cow<'_, str>) -> Cow<'_, str> {
    let head = text.get(..text.len().min(400)).unwrap_or("").trim_start().to_ascii_lowercase();
    if !(head.starts_with("<!doctype html") || head.starts_with("<html")) {
        return text;
    }
    // The code of the page may name the heading, too.
    let starts = |at: usize| text[..at].ends_with(['\n', '"', '>']);
    let Some(begin) = text.match_indices("# tracer:").map(|(at, _)| at).find(|at| starts(*at)) else {
        return text;
    };
    let rest = &text[begin..];
    let end = ["</script", "\";"].iter().filter_map(|end| rest.find(end)).min().unwrap_or(rest.len());
    let mut trace = String::with_capacity(end);
    for line in rest[..end].lines() {
        let line = line.strip_suffix("\\n\\").or_else(|| line.strip_suffix("\\n")).unwrap_or(line);
        trace.push_str(&line.replace("&gt;", ">").replace("&lt;", "<").replace("&amp;", "&"));
        trace.push('\n');
    }
    Cow::Owned(trace)
}

/// Decodes quoted-printable mail (RFC 2045, 6.7): `=3D>` is `=>`, and a line that ends in `=` continues.
fn printable_decoded(text: Cow<'_, str>) -> Cow<'_, str> {
    // Thread names may start with 3D: requires an encoded arrow, or several encoded blanks.
    if !["=3D> ", "=3D=3D>", "=C2=A0=C2=A0"].iter().any(|arrow| text.contains(arrow)) {
        return text;
    }
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
    Cow::Owned(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether a line is the rest of a wrapped event: it has fields, and no time.
fn continues(line: &str) -> bool {
    if is_rest(line) {
        return true;
    }
    let first = line.split_whitespace().next().unwrap_or_default();
    let is_field = first == "==>" || first.split_once('=').is_some_and(|(name, _)| !name.is_empty());
    is_field && !is_known(line) && !line.trim_start().starts_with(['#', '='])
        || first == "==>" && !is_known(line)
}

/// Blanks the prose before a trace, and after it if it is fenced: these lines are not damaged events.
fn blank_around(lines: &mut [Cow<'_, str>]) {
    let Some(first) = lines.iter().position(|line| is_known(line)) else { return };
    let last = lines.iter().rposition(|line| is_known(line)).unwrap_or(first);
    let is_fenced = lines.iter().any(|line| is_fence(line));
    for (place, line) in lines.iter_mut().enumerate() {
        let is_outside = place < first || is_fenced && place > last && !continues(line);
        if is_fence(line) || is_outside && is_around(line) && !is_rest(line) {
            *line = Cow::Borrowed("");
        }
    }
}

/// Whether it is prose: no CPU, stack or heading.
fn is_around(line: &str) -> bool {
    let line = line.trim();
    let has_cpu = line.contains('[') && line.contains(']');
    let is_words = line.starts_with(|c: char| c.is_alphabetic()) || line.starts_with(['-', '*']);
    is_words && !has_cpu && !line.contains(['=', '|']) && !line.contains("us")
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~")
}

fn decoded(bytes: &[u8]) -> Cow<'_, str> {
    match wide(bytes) {
        Some(text) => Cow::Owned(text),
        None => String::from_utf8_lossy(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)),
    }
}

/// The text of `bytes` if they are UTF-16.
fn wide(bytes: &[u8]) -> Option<String> {
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

/// Whether it is an event, or the heading of a tracer or of rtla.
fn is_known(line: &str) -> bool {
    // Kernels before 2.6.29 print the second without a '#'.
    let heading = line.trim_start().starts_with("# tracer:") || line.contains(" latency trace v1");
    heading || is_of_rtla(line) || is_of_graph(line) || matches!(parse(line), Some(Line::Event(_)))
}

/// ` 3750 us | 0) bash-1507 | d..1 | 0.516 us | _raw_spin_lock();` of the display-graph option.
fn is_of_graph(line: &str) -> bool {
    line.split_once(" us |").is_some_and(|(time, _)| time.trim().bytes().all(|byte| byte.is_ascii_digit()))
}

/// Whether rtla's analysis or one of its tables starts with this line.
fn is_of_rtla(line: &str) -> bool {
    line.len() < 200
        && ["hit stop tracing", "# RTLA ", "IRQ Timer Latency"].iter().any(|begin| line.contains(begin))
}

/// The line without pasted prefixes.
fn bare(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches('\r');
    let plain = match line.contains('\u{1b}') {
        true => Cow::Owned(without_colours(line)),
        false => Cow::Borrowed(line),
    };
    match plain {
        Cow::Borrowed(line) => Cow::Borrowed(without_prefix(line)),
        Cow::Owned(line) => Cow::Owned(without_prefix(&line).to_owned()),
    }
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

/// `> `, `| ` of quoting and of boxes.
fn quoted(line: &str) -> Option<&str> {
    line.strip_prefix(['>', '|']).filter(|rest| !line.starts_with("||") && !rest.starts_with('='))
}

/// `   12  ` and `12: ` of editors and of grep.
fn numbered(line: &str) -> Option<&str> {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let is_number = rest.len() < line.len() && line.len() - rest.len() <= 7;
    let behind = rest.strip_prefix([':', '\t', '|']).or_else(|| rest.strip_prefix("  "))?;
    is_number.then_some(behind)
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
    if let Some((date, clock)) = first.split_once('T')
        && is_date(date)
        && is_clock(clock)
    {
        return Some(rest);
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
mod tests;

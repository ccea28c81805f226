//! Removes artifacts of pasting from a text: byte order marks, UTF-16, carriage returns, quoting, Markdown, colours,
//! quoted-printable mail, and the time stamps of consoles and logs before each line.
//!
//! Only if the first lines have no event and no heading of a tracer: a readable text is not changed.

mod prefixes;

use std::borrow::Cow;

use super::line::{parse, Line};
use prefixes::{bare, is_logged, numbering, prefix, quoted, without_shape};

/// Number of lines examined.
const LOOKED_AT: usize = 2_000;

/// Maximum size of a text with prose around it: a larger text is not copied for that.
const LARGEST_PASTED: usize = 1 << 20;

/// `bytes` as readable text.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = out_of_page(spaced(printable_decoded(entities_decoded(decoded(bytes)))));
    let first = || text.lines().take(LOOKED_AT);
    let plainly = first().filter(|line| is_known(line) && quoted(line.trim_start()).is_none()).count();
    let cleaned = first().filter(|line| is_known(&bare(line))).count();
    let is_pasted = text.len() < LARGEST_PASTED && plainly > 0;
    let is_prose = |line: &str| is_pasted && is_around(line);
    let last = first().filter(|line| is_known(line)).last();
    let has_prose_after = last.is_some_and(|last| {
        let after = first().skip_while(|line| !std::ptr::eq(*line, last)).skip(1);
        after.skip_while(|line| !line.trim().is_empty()).any(is_prose)
    });
    let has_prose = first().take_while(|line| !is_known(line)).any(is_prose) || has_prose_after;
    let is_bare = !has_prose && !first().any(is_fence);
    let is_broken = text.len() < LARGEST_PASTED && is_broken(&text);
    let before = prefix(first());
    let is_stamped = 2 * first().filter(|line| is_known(line) && is_logged(line)).count() > plainly;
    let is_numbered = numbering(first());
    let is_plain = is_bare && !is_broken && !is_stamped && !is_numbered && before.is_none();
    if plainly >= cleaned && is_plain {
        return text;
    }
    if cleaned == 0 {
        return text;
    }
    let unnumbered = |line| match is_numbered {
        true => prefixes::numbered(line).unwrap_or(line),
        false => line,
    };
    let without = |line| match &before {
        Some(before) => without_shape(bare(line), before),
        None => bare(line),
    };
    let mut lines: Vec<Cow<str>> = text.lines().map(unnumbered).map(without).collect();
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

/// Decodes the markup of a web page, from which the text was copied: `==&gt;` is `==>`.
fn entities_decoded(text: Cow<'_, str>) -> Cow<'_, str> {
    let is_page = text.trim_start().starts_with("<");
    if is_page || !["==&gt;", "&lt;idle&gt;", "&lt;...&gt;", "&lt;-"].iter().any(|mark| text.contains(mark)) {
        return text;
    }
    let plain = text.replace("&gt;", ">").replace("&lt;", "<").replace("&quot;", "\"");
    Cow::Owned(plain.replace("&#39;", "'").replace("&amp;", "&"))
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
    // Prose after the trace is another paragraph.
    let mut is_after = false;
    for (place, line) in lines.iter_mut().enumerate() {
        is_after |= place > last && (is_fenced || line.trim().is_empty());
        let is_outside = place < first || is_after && !continues(line);
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
    is_words && !has_cpu && !line.contains(['=', '|']) && !has_latency_time(line)
}

/// Whether it has `12us:`, `12us+:` or `12us :` of the latency format.
fn has_latency_time(line: &str) -> bool {
    line.match_indices("us").any(|(at, _)| {
        let is_number = line[..at].ends_with(|c: char| c.is_ascii_digit());
        is_number && line[at + 2..].trim_start_matches([' ', '+', '!', '#', '*', '@', '$']).starts_with(':')
    })
}

fn is_fence(line: &str) -> bool {
    let line = line.trim();
    let is_markup = ["<pre>", "</pre>", "<code>", "</code>", "[code]", "[/code]"].contains(&line);
    let is_block = ["{code", "{noformat"].iter().any(|start| line.starts_with(start)) && line.ends_with('}');
    line.starts_with("```") || line.starts_with("~~~") || is_markup || is_block
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

#[cfg(test)]
mod tests;

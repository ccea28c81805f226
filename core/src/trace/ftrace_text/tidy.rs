//! Removes artifacts of pasting from a text: encodings, markup, colours, quoting, Markdown, quoted-printable mail, wrapped
//! lines, and the numbers, file names and time stamps that editors, grep, consoles and logs put before each line.
//!
//! A readable text is not changed.

pub(crate) mod characters;
mod prefixes;
mod wrapped;

use std::borrow::Cow;

use super::line::{parse, Line};
use characters::wide;
use prefixes::{bare, is_logged, prefix, quoted, without_shape, Style};

/// Number of lines examined.
const LOOKED_AT: usize = 2_000;

/// Maximum size of a text with prose around it: a larger text is not copied for that.
const LARGEST_PASTED: usize = 1 << 20;

/// `bytes` as readable text.
#[must_use]
pub fn text(bytes: &[u8]) -> Cow<'_, str> {
    let text = characters::columns(out_of_page(characters::plain(bytes)));
    let text = match Style::of(&text) {
        Some(style) => Cow::Owned(style.without(&text)),
        None => text,
    };
    match repaired(&text) {
        Some(repaired) => Cow::Owned(repaired),
        None => text,
    }
}

/// `text` without prefixes, prose and line breaks that pasting added; `None` if it needs no repair.
fn repaired(text: &str) -> Option<String> {
    let first = || text.lines().take(LOOKED_AT);
    let is_short = text.len() < LARGEST_PASTED;
    let plainly = first().filter(|line| is_known(line) && quoted(line.trim_start()).is_none()).count();
    let cleaned = known(text);
    let is_prose = |line: &str| is_short && plainly > 0 && is_around(line);
    let last = first().filter(|line| is_known(line)).last();
    let has_prose_after = last.is_some_and(|last| {
        let after = first().skip_while(|line| !std::ptr::eq(*line, last)).skip(1);
        after.skip_while(|line| !line.trim().is_empty()).any(is_prose)
    });
    let has_prose = first().take_while(|line| !is_known(line)).any(is_prose) || has_prose_after;
    let before = prefix(first());
    let is_stamped = 2 * first().filter(|line| is_known(line) && is_logged(line)).count() > plainly;
    let has_marks =
        has_prose || is_stamped || before.is_some() || first().any(is_fenced) || first().any(is_of_pager);
    if !is_short && plainly >= cleaned && !has_marks {
        return None;
    }
    let without = |line| before.as_ref().map_or(line, |before| without_shape(line, before));
    let lines = text.lines().map(bare).map(without).filter(|line| !is_of_pager(line));
    let mut lines: Vec<Cow<str>> = lines.map(Cow::Borrowed).collect();
    let count = lines.len();
    if is_short {
        lines = wrapped::joined(lines);
    }
    let is_wrapped = lines.len() < count;
    let is_broken = is_short && (is_wrapped || is_broken(text));
    if plainly >= cleaned && !has_marks && !is_broken || cleaned == 0 && !is_wrapped {
        return None;
    }
    lines.iter_mut().for_each(unfence);
    blank_around(&mut lines);
    let mut tidy = String::with_capacity(text.len());
    let mut is_open = false; // the previous line may continue
    for line in lines {
        let goes_on = continues(&line)
            || is_broken
                && !is_wrapped
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
    if !text.ends_with('\n') {
        tidy.pop();
    }
    Some(tidy)
}

/// Number of known lines among the first.
fn known(text: &str) -> usize {
    text.lines().take(LOOKED_AT).filter(|line| is_known(bare(line))).count()
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

/// Whether a mail program has wrapped lines: the rest of a line follows an event or a heading.
fn is_broken(text: &str) -> bool {
    let lines = || text.lines().take(LOOKED_AT);
    let is_event = |line: &str| matches!(parse(bare(line)), Some(Line::Event(_)));
    lines().zip(lines().skip(1)).any(|(line, next)| {
        let next = bare(next);
        continues(next) && (is_event(line) || is_open_heading(bare(line)))
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
    let starts_with_event = matches!(parse(&lines[first]), Some(Line::Event(_)));
    let is_other = |line: &&Cow<'_, str>| !line.trim().is_empty() && !line.trim_start().starts_with("=>");
    let is_at_start = lines[..first].iter().filter(is_other).count() == 1;
    // Prose after the trace is another paragraph.
    let mut is_after = false;
    for (place, line) in lines.iter_mut().enumerate() {
        is_after |= place > last && (is_fenced || line.trim().is_empty());
        let is_fragment = is_at_start && place < first && starts_with_event && is_fragment(line);
        let is_outside = place < first && !is_fragment || is_after && !continues(line);
        if is_fence(line) || is_outside && is_around(line) && !is_rest(line) {
            *line = Cow::Borrowed("");
        }
    }
}

/// Whether the first line of a text may be the end of a line that was cut: no sentence.
fn is_fragment(line: &str) -> bool {
    !line.trim_end().ends_with([':', '.', ',', '!', '?'])
}

/// Whether a line is prose beside a trace.
pub(crate) fn is_prose(line: &str) -> bool {
    is_around(line) && !line.contains("<-") || line.trim().is_empty()
}

/// Whether it is prose: no CPU, stack or heading.
fn is_around(line: &str) -> bool {
    let line = line.trim();
    let has_cpu = line.contains('[') && line.contains(']');
    let is_item = line.starts_with(['-', '*']) && line.contains(|c: char| c.is_alphanumeric());
    let is_words = line.starts_with(|c: char| c.is_alphabetic()) || is_item;
    is_words && !has_cpu && !line.contains(['=', '|']) && !line.contains("*/") && !has_latency_time(line)
}

/// Whether it has `12us:`, `12us+:` or `12us :` of the latency format.
pub(crate) fn has_latency_time(line: &str) -> bool {
    line.match_indices("us").any(|(at, _)| {
        let is_number = line[..at].ends_with(|c: char| c.is_ascii_digit());
        is_number && line[at + 2..].trim_start_matches([' ', '+', '!', '#', '*', '@', '$']).starts_with(':')
    })
}

/// `--More--(12%)`, `lines 1-24`, `(END)` of pagers.
fn is_of_pager(line: &str) -> bool {
    let line = line.trim();
    let is_of_less = line.strip_prefix("lines ").is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit()) && rest.contains('-') && line.len() < 40
    });
    line.starts_with("--More--") || line == "(END)" || is_of_less
}

/// Whether it is a fence, or has one at its start or end.
fn is_fenced(line: &str) -> bool {
    is_fence(line) || line.trim_end().ends_with("```")
}

/// Removes a fence from the line of an event.
fn unfence(line: &mut Cow<'_, str>) {
    let bare = line.trim_start().strip_prefix("```").unwrap_or(line);
    let bare = bare.trim_end().strip_suffix("```").unwrap_or(bare);
    if bare.len() < line.len() && is_known(bare) {
        *line = Cow::Owned(bare.to_owned());
    }
}

fn is_fence(line: &str) -> bool {
    let line = line.trim();
    let is_markup = ["<pre>", "</pre>", "<code>", "</code>", "[code]", "[/code]"].contains(&line);
    let is_block = ["{code", "{noformat"].iter().any(|start| line.starts_with(start)) && line.ends_with('}');
    line.starts_with("```") || line.starts_with("~~~") || is_markup || is_block
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

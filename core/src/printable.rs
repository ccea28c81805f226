//! Makes untrusted text safe for display: no control character reaches a terminal, an SVG or a page.
//!
//! A thread name may contain `\x1b[2J` or a right-to-left override; both are escaped.

use std::borrow::Cow;
use std::fmt::Write;

/// `text` on one line, with control and direction-changing characters written as `\u{…}`.
#[must_use]
pub fn line(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' | '\t' => shown.push(' '),
            c if is_hidden(c) => shown.extend(c.escape_unicode()),
            c => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// Escapes what [`line()`] escapes, keeping line ends and tabs. Escape sequences are kept if `is_ours` accepts the text
/// after the escape character, such as `[K`.
///
/// The escapes are those of JSON (`\u009b`): it is filtered too, and its data stay the same.
#[must_use]
pub fn lines(text: &str, is_ours: impl Fn(&str) -> bool) -> Cow<'_, str> {
    let is_plain = |c: char| matches!(c, '\n' | '\t') || !is_hidden(c);
    if text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        if c == '\x1b' {
            let end = behind.find(|c: char| !matches!(c, '[' | ';' | '0'..='9')).map_or(0, |end| end + 1);
            if behind.is_char_boundary(end) && is_ours(&behind[..end]) {
                shown.push_str(&rest[..1 + end]);
                rest = &behind[end..];
                continue;
            }
        }
        match is_plain(c) {
            true => shown.push(c),
            false => {
                let mut units = [0; 2];
                for unit in c.encode_utf16(&mut units) {
                    let _ = write!(shown, "\\u{unit:04x}");
                }
            }
        }
        rest = behind;
    }
    Cow::Owned(shown)
}

/// JSON whose strings show nothing hidden, for a file that may be printed; its data stay the same.
#[must_use]
pub fn json(text: String) -> String {
    match lines(&text, |_| false) {
        Cow::Borrowed(_) => text,
        Cow::Owned(shown) => shown,
    }
}

/// Disables commands that CI systems read from logs: the first character of `::` at the start of a line (GitHub, Gitea)
/// and of `##[`, `##vso[` (Azure) and `##teamcity[` anywhere is written as an escape.
///
/// JSON is filtered too: CI systems find commands in it, and any text may look like JSON. Its data stay the same: `\u0023` is
/// also an escape of JSON, `##` occurs only in its strings, and none of its lines starts with `::`.
#[must_use]
pub fn no_commands(text: &str) -> Cow<'_, str> {
    if !(text.contains("::") || text.contains("##")) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for line in text.split_inclusive('\n') {
        let (indent, mut rest) = line.split_at(line.len() - line.trim_start().len());
        shown.push_str(indent);
        if let Some(behind) = rest.strip_prefix("::") {
            shown.push_str("\\u{3a}:");
            rest = behind;
        }
        while let Some(at) = rest.find("##") {
            let name = rest[at + 2..].trim_start_matches(|c: char| c.is_ascii_alphabetic());
            shown.push_str(&rest[..at]);
            shown.push_str(if name.starts_with('[') { "\\u0023" } else { "#" });
            rest = &rest[at + 1..];
        }
        shown.push_str(rest);
    }
    Cow::Owned(shown)
}

/// Whether `c` is invisible or changes the display of other characters (categories Cc, Cf, Zl, Zp of Unicode 16, and
/// fillers that look like spaces), or is not allowed in XML.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}')
        || matches!(c, '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}')
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}')
        || matches!(c, '\u{fffe}' | '\u{ffff}' | '\u{110bd}' | '\u{110cd}' | '\u{13430}'..='\u{1345f}')
        || matches!(c, '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// [`line()`] with the five special characters of XML and HTML escaped, and the second `#` of `##`: no command to a CI system
/// (see [`no_commands`]) if the page is printed.
#[must_use]
pub fn markup(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    let mut before = ' ';
    for c in line(text).chars() {
        let after = std::mem::replace(&mut before, c);
        match c {
            '#' if after == '#' => escaped.push_str("&#35;"),
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

/// At most `width` characters of [`line()`]; `…` marks a truncation.
#[must_use]
pub fn cut(text: &str, width: usize) -> String {
    let text = line(text);
    if text.chars().count() <= width {
        return text.into_owned();
    }
    let mut kept: String = text.chars().take(width.saturating_sub(1)).collect();
    kept.truncate(kept.trim_end().len());
    let _ = kept.write_char('…');
    kept
}

/// `text` broken at spaces into lines of at most `width` characters; longer words are split.
#[must_use]
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in line(text).split_whitespace() {
        let letters: Vec<char> = word.chars().collect();
        for (nth, piece) in letters.chunks(width).enumerate() {
            let gap = usize::from(used > 0 && nth == 0);
            if used + gap + piece.len() > width {
                lines.push(String::new());
                used = 0;
            }
            let last = lines.len() - 1;
            if used > 0 && nth == 0 {
                lines[last].push(' ');
                used += 1;
            }
            lines[last].extend(piece);
            used += piece.len();
        }
    }
    lines
}

/// `text` after `first`, its other lines below the first one.
#[must_use]
pub fn hanging(first: &str, text: &str, width: usize) -> Vec<String> {
    let indent = first.chars().count();
    let lines = wrap(text, width.saturating_sub(indent));
    let begin = |nth| if nth == 0 { first.to_owned() } else { " ".repeat(indent) };
    lines.iter().enumerate().map(|(nth, line)| format!("{}{line}", begin(nth))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_act_on_a_terminal_or_a_page_is_shown_instead() {
        assert_eq!(line("a\x1b[2Jb\u{202e}c\0\n"), "a\\u{1b}[2Jb\\u{202e}c\\u{0} ");
        assert_eq!(markup("<a href='x'>&\"\u{1}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\\u{1}");
        assert_eq!(markup("# ##[x ###"), "# #&#35;[x #&#35;&#35;");
        for hidden in ['\u{61c}', '\u{ad}', '\u{e0041}', '\u{2066}', '\u{9b}', '\u{180e}', '\u{3164}'] {
            assert!(line(&format!("a{hidden}b")).is_ascii(), "{:x}", u32::from(hidden));
        }
        assert!(matches!(line("kworker/0:1"), Cow::Borrowed(_)));
    }

    #[test]
    fn of_escape_sequences_in_a_text_only_our_own_act() {
        let ours = |code: &str| code == "[K" || code == "[1m";
        assert_eq!(lines("a\t\x1b[1mb\x1b[K\n", ours), "a\t\x1b[1mb\x1b[K\n");
        assert_eq!(lines("\x1b[2J\x1b]0;x\x07\r\x1b", ours), "\\u001b[2J\\u001b]0;x\\u0007\\u000d\\u001b");
        assert!(matches!(lines("two\nlines", ours), Cow::Borrowed(_)));
    }

    #[test]
    fn a_name_at_the_begin_of_a_line_commands_no_ci_system() {
        assert_eq!(no_commands("a ::b\n  ::error::x\n"), "a ::b\n  \\u{3a}:error::x\n");
        assert_eq!(no_commands("::x"), "\\u{3a}:x");
        assert_eq!(no_commands("x ##[error]y ##vso[z]"), "x \\u0023#[error]y \\u0023#vso[z]");
        assert_eq!(no_commands("###[a ##teamcity[b ## c ##"), "#\\u0023#[a \\u0023#teamcity[b ## c ##");
        assert_eq!(
            no_commands("[x]\n::error::y"),
            "[x]\n\\u{3a}:error::y",
            "no exception by the first character"
        );
        assert!(matches!(no_commands("std::x\n# y"), Cow::Owned(same) if same == "std::x\n# y"));
        assert!(matches!(no_commands("two\nlines"), Cow::Borrowed(_)));
    }

    proptest::proptest! {
        #[test]
        fn json_keeps_its_strings_and_shows_nothing_hidden(name in r#"(\PC|\p{C}|[\x00-\x1f\x7f-\u{9f}\u{202e}\u{e0041}"\\]){0,8}"#) {
            let data = serde_json::json!({ &name: &name });
            for text in [data.to_string(), serde_json::to_string_pretty(&data).unwrap()] {
                let shown = json(text);
                proptest::prop_assert!(!shown.chars().any(|c| c != '\n' && is_hidden(c)), "{}", shown);
                proptest::prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), data.clone());
            }
        }

        /// Names from the parts of commands, in JSON and as the first text of an output.
        #[test]
        fn no_text_commands_a_ci_system_and_json_keeps_its_strings(name in r#"[:#\[{ \n\\"a-z]{0,3}(##|::|##vso\[|##\[|x){0,3}"#) {
            let data = serde_json::json!([{ &name: &name }]);
            for json in [data.to_string(), serde_json::to_string_pretty(&data).unwrap()] {
                let shown = no_commands(&json);
                proptest::prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), data.clone());
                proptest::prop_assert!(commands(&shown).is_none(), "{}", shown);
            }
            for text in [name.clone(), format!("{{{name}"), format!("[\n{name}")] {
                let shown = no_commands(&text);
                proptest::prop_assert!(commands(&shown).is_none(), "{}", shown);
            }
        }
    }

    /// The first line that a CI system would obey.
    fn commands(text: &str) -> Option<&str> {
        text.lines().find(|line| {
            line.trim_start().starts_with("::") || line.contains("##[") || line.contains("##vso[")
        })
    }

    #[test]
    fn cutting_counts_characters_and_says_that_it_cut() {
        assert_eq!(cut("12.3 µs → late", 14), "12.3 µs → late");
        assert_eq!(cut("12.3 µs → late", 9), "12.3 µs…");
    }

    #[test]
    fn wrapped_lines_hold_the_width_and_lose_no_word() {
        let text = "one two threefourfive six";
        for width in 1..30 {
            let lines = wrap(text, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), text.replace(' ', ""));
        }
        assert_eq!(wrap(text, 14), ["one two", "threefourfive", "six"]);
    }
}

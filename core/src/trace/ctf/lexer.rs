//! Tokens of TSDL, the language of CTF metadata.

use super::super::item::Damage;

/// One token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier or keyword.
    Word(String),
    /// An integer.
    Number(i128),
    /// A text in quotes, or a character in apostrophes.
    Text(String),
    /// `{ } ( ) [ ] < > ; , . = : - + *`, `:=` and `...`.
    Mark(&'static str),
}

const MARKS: [&str; 18] =
    ["...", ":=", "{", "}", "(", ")", "[", "]", "<", ">", ";", ",", ".", "=", ":", "-", "+", "*"];

/// Most tokens of a description. With all events and system calls, that of a Linux kernel has some 200,000.
const MOST: usize = 1 << 20;

/// Splits `text` into tokens with their offsets.
pub(super) fn words(text: &str) -> Result<Vec<(usize, Token)>, Damage> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        if tokens.len() == MOST {
            return Err(bad(at, &format!("more than {MOST} words: above the number of any trace")));
        }
        let rest = &text[at..];
        if bytes[at].is_ascii_whitespace() || bytes[at] == 0 {
            at += 1;
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if bytes[at] == b'"' || bytes[at] == b'\'' {
            let (content, len) = quoted(rest).ok_or_else(|| bad(at, "a text without end"))?;
            tokens.push((at, Token::Text(content)));
            at += len;
        } else if bytes[at].is_ascii_digit() {
            let len = rest.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
            tokens.push((at, Token::Number(number(&rest[..len]).ok_or_else(|| bad(at, "not a number"))?)));
            at += len;
        } else if bytes[at].is_ascii_alphabetic() || bytes[at] == b'_' {
            let len = rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(rest.len());
            tokens.push((at, Token::Word(rest[..len].to_owned())));
            at += len;
        } else if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
            tokens.push((at, Token::Mark(mark)));
            at += mark.len();
        } else {
            return Err(bad(at, "a character that metadata cannot have here"));
        }
    }
    Ok(tokens)
}

fn bad(at: usize, what: &str) -> Damage {
    Damage::new(at as u64, format!("metadata: {what}"))
}

fn quoted(rest: &str) -> Option<(String, usize)> {
    let quote = rest.chars().next()?;
    let mut content = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                'n' => content.push('\n'),
                't' => content.push('\t'),
                other => content.push(other),
            },
            c if c == quote => return Some((content, index + 1)),
            c => content.push(c),
        }
    }
    None
}

/// C notation: decimal, 0x, 0b, leading 0 for octal; suffixes u and l.
fn number(text: &str) -> Option<i128> {
    let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
    let digits = text.trim_end_matches(['u', 'U', 'l', 'L']);
    if let Some(hex) = hex {
        return i128::from_str_radix(hex.trim_end_matches(['u', 'U', 'l', 'L']), 16).ok();
    }
    match digits.strip_prefix('0') {
        Some("") => Some(0),
        Some(octal) if octal.starts_with(['b', 'B']) => i128::from_str_radix(&octal[1..], 2).ok(),
        Some(octal) => i128::from_str_radix(octal, 8).ok(),
        None => digits.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_texts_and_marks_are_told_apart() {
        let text = "a := 0x1fULL ... 010 /* no */ \"x \\\"y\\\"\"; // end\n<b.c>";
        let words: Vec<Token> = words(text).unwrap().into_iter().map(|(_, token)| token).collect();
        let word = |text: &str| Token::Word(text.into());
        let mark = Token::Mark;
        let expected = vec![
            word("a"),
            mark(":="),
            Token::Number(31),
            mark("..."),
            Token::Number(8),
            Token::Text("x \"y\"".into()),
            mark(";"),
            mark("<"),
            word("b"),
            mark("."),
            word("c"),
            mark(">"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn an_open_text_is_damage_with_its_offset() {
        assert_eq!(words("abc \"def").unwrap_err().offset, 4);
    }
}

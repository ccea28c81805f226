//! Shell patterns for names: `*`, `?`, `[a-z]`, `[!a-z]`; a `\` makes the next character literal.
//!
//! The rules are those of fnmatch(3) without flags in the C locale: a pattern covers the whole name, characters are bytes,
//! `[^a]` is `[!a]`, a `]` that comes first in a set is one of its characters, and `[[:digit:]]` is a class. The differences:
//! `[.x.]` and `[=x=]` are not special, a class is not the end of a range, and a set with an unknown class matches nothing. A `[` without its `]` is itself, as
//! in glibc. Restated here because `core` has no system calls, and because the kernel side needs the places of a pattern.

/// A set of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
    fn all() -> Bytes {
        Bytes([u64::MAX; 4])
    }

    fn of(fits: impl Fn(u8) -> bool) -> Bytes {
        let mut set = Bytes::default();
        set.add(fits);
        set
    }

    fn add(&mut self, fits: impl Fn(u8) -> bool) {
        for byte in (0..=u8::MAX).filter(|byte| fits(*byte)) {
            self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
        }
    }

    /// Whether `byte` is one of them.
    #[must_use]
    pub fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] >> (byte % 64) & 1 == 1
    }
}

/// One element of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// `*`: any bytes, or none.
    Any,
    /// One byte of these.
    One(Bytes),
}

/// A pattern.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Glob(Vec<Place>);

impl Glob {
    /// Reads a pattern. Every text is one.
    #[must_use]
    pub fn new(pattern: &[u8]) -> Glob {
        let (mut places, mut at) = (Vec::new(), 0);
        while at < pattern.len() {
            let (place, next) = place(pattern, at).unwrap_or((literal(b'['), at + 1));
            places.push(place);
            at = next;
        }
        Glob(places)
    }

    /// Number of bytes of the shortest name that it matches.
    #[must_use]
    pub fn shortest(&self) -> usize {
        self.0.iter().filter(|place| **place != Place::Any).count()
    }

    /// Its elements.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.0
    }

    /// Whether it matches the whole of `name`. Time: at most the product of the two lengths.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let places = &self.0;
        let (mut place, mut at) = (0, 0);
        // The last `*`, and the end of the bytes that it covers: an earlier one never needs to cover more.
        let mut star = None;
        while at < name.len() {
            match places.get(place) {
                Some(Place::Any) => {
                    star = Some((place, at));
                    place += 1;
                }
                Some(Place::One(bytes)) if bytes.contains(name[at]) => {
                    place += 1;
                    at += 1;
                }
                _ => {
                    let Some((any, covered)) = star else { return false };
                    star = Some((any, covered + 1));
                    (place, at) = (any + 1, covered + 1);
                }
            }
        }
        places[place..].iter().all(|place| *place == Place::Any)
    }
}

/// Whether `pattern` matches the whole of `name`.
#[must_use]
pub fn fits(pattern: &str, name: &str) -> bool {
    Glob::new(pattern.as_bytes()).matches(name.as_bytes())
}

/// The element at `at`, and the index after it; `None` for a `[` without its `]`. After a `\` at the end of the pattern the
/// index is past the end, and no byte fits.
///
/// # Panics
/// If `at` is not in `pattern`.
#[must_use]
pub fn place(pattern: &[u8], at: usize) -> Option<(Place, usize)> {
    match pattern[at] {
        b'*' => Some((Place::Any, at + 1)),
        b'?' => Some((Place::One(Bytes::all()), at + 1)),
        b'[' => set(pattern, at + 1).map(|(bytes, end)| (Place::One(bytes), end)),
        b'\\' => match pattern.get(at + 1) {
            Some(&next) => Some((literal(next), at + 2)),
            None => Some((Place::One(Bytes::default()), at + 2)),
        },
        byte => Some((literal(byte), at + 1)),
    }
}

fn literal(byte: u8) -> Place {
    let mut bytes = Bytes::default();
    bytes.0[usize::from(byte / 64)] = 1 << (byte % 64);
    Place::One(bytes)
}

/// The set that begins after the `[` before `at`, and the index after its `]`.
fn set(pattern: &[u8], mut at: usize) -> Option<(Bytes, usize)> {
    let inverted = matches!(pattern.get(at), Some(b'!' | b'^'));
    at += usize::from(inverted);
    let (first, mut bytes, mut known) = (at, Bytes::default(), true);
    while at == first || *pattern.get(at)? != b']' {
        if let Some(name) = class_name(pattern.get(at..)?) {
            match class(name) {
                Some(fits) => bytes.add(|byte| fits(&byte)),
                None => known = false,
            }
            at += name.len() + 4;
            continue;
        }
        let (low, next) = member(pattern, at)?;
        let is_range =
            pattern.get(next) == Some(&b'-') && pattern.get(next + 1).is_some_and(|end| *end != b']');
        let (high, after) = if is_range { member(pattern, next + 1)? } else { (low, next) };
        bytes.add(|byte| (low..=high).contains(&byte));
        at = after;
    }
    let fits = |byte: u8| known && bytes.contains(byte) != inverted;
    Some((Bytes::of(fits), at + 1))
}

/// A character of a set, and the index after it.
fn member(pattern: &[u8], at: usize) -> Option<(u8, usize)> {
    match *pattern.get(at)? {
        b'\\' => Some((*pattern.get(at + 1)?, at + 2)),
        byte => Some((byte, at + 1)),
    }
}

/// `digit` of `[:digit:]…`.
fn class_name(text: &[u8]) -> Option<&[u8]> {
    let name = text.strip_prefix(b"[:")?;
    let length = name.iter().position(|byte| !byte.is_ascii_lowercase())?;
    name[length..].starts_with(b":]").then(|| &name[..length])
}

fn class(name: &[u8]) -> Option<fn(&u8) -> bool> {
    Some(match name {
        b"alnum" => u8::is_ascii_alphanumeric,
        b"alpha" => u8::is_ascii_alphabetic,
        b"blank" => |byte| matches!(byte, b' ' | b'\t'),
        b"cntrl" => u8::is_ascii_control,
        b"digit" => u8::is_ascii_digit,
        b"graph" => u8::is_ascii_graphic,
        b"lower" => u8::is_ascii_lowercase,
        b"print" => |byte| matches!(byte, b' '..=b'~'),
        b"punct" => u8::is_ascii_punctuation,
        b"space" => |byte| matches!(byte, b' ' | b'\t'..=b'\r'),
        b"upper" => u8::is_ascii_uppercase,
        b"xdigit" => u8::is_ascii_hexdigit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_the_shell() {
        for (pattern, yes, no) in [
            ("", "", "a"),
            ("io-*", "io-", "io"),
            ("?b", "ab", "b"),
            ("a?c*", "abcd", "abd"),
            ("*b*b", "abab", "aba"),
            ("kworker/*", "kworker/1:2", "kworker"),
            ("[!a-c]x", "dx", "bx"),
            ("[^a-c]x", "dx", "bx"),
            ("[]-]", "]", "["),
            ("[a-]", "-", "b"),
            ("[a\\]]", "]", "\\"),
            ("w[[:digit:]_]", "w7", "wx"),
            ("[[:space:]]", "\u{b}", "x"),
            ("\\*", "*", "a"),
            ("[x", "[x", "x"),
            ("[[:digit:]", "[d", "7"),
        ] {
            assert!(fits(pattern, yes), "{pattern} {yes}");
            assert!(!fits(pattern, no), "{pattern} {no}");
        }
        assert!(fits("*", "") && !fits("a\\", "a\\") && !fits("[![:nothing:]]", "x"));
    }

    /// A matcher that tries all lengths of each `*` would take years.
    #[test]
    fn many_stars_cost_no_more_than_the_product_of_the_lengths() {
        let name = "a".repeat(5_000);
        assert!(!fits(&("*a".repeat(500) + "b"), &name));
        assert!(fits(&"*a".repeat(500), &name));
    }
}

//! Thread names selected by a list of shell patterns.

use std::ffi::{CStr, CString};

use crate::recorder::{Names, Place};

/// Bytes of the longest name of a thread (TASK_COMM_LEN - 1).
const NAME: usize = 15;

/// A list of shell patterns: `hog,vic*`, `[a-c]x`. A comma within `[…]` or after a `\` is part of a name; blanks around an
/// entry are not, and neither is a repeated `comm:`.
pub(super) fn patterns(list: &str) -> Result<Vec<CString>, String> {
    let (mut globs, mut begin, mut at) = (Vec::new(), 0, 0);
    let bytes = list.as_bytes();
    while at <= bytes.len() {
        if matches!(bytes.get(at), None | Some(b',')) {
            globs.push(&list[begin..at]);
            begin = at + 1;
            at += 1;
        } else {
            at = end_of_place(bytes, at).ok_or_else(|| {
                format!("'{list}' has a '[' without its ']'; write '\\[' for the bracket itself")
            })?;
        }
    }
    let glob = |glob: &&str| CString::new(named(glob)).ok().filter(|glob| !glob.is_empty());
    let read: Option<Vec<CString>> = globs.iter().map(glob).collect();
    if let Some(other) = globs.iter().map(|glob| named(glob)).find(|name| is_of_another_kind(name)) {
        return Err(format!(
            "'comm:{list}' mixes kinds of tasks: name all by comm:A,B or all by pid:1,2; a thread called '{other}' is '\\{other}'"
        ));
    }
    // Past the end: a `\` was the last character.
    let read = read
        .filter(|_| begin > bytes.len())
        .ok_or_else(|| format!("'{list}' is not a list of names (comm:NAME,GLOB,…)"))?;
    let shortest = |glob: &&CString| {
        places(glob.as_bytes()).iter().filter(|place| matches!(place, Place::One(_))).count()
    };
    match read.iter().find(|glob| shortest(glob) > NAME) {
        Some(long) => Err(format!(
            "'{}' matches no thread: the kernel keeps {NAME} bytes of a name",
            long.to_string_lossy()
        )),
        None => Ok(read),
    }
}

/// An entry of the list. A blank at its end is kept after a `\`.
fn named(entry: &str) -> &str {
    let begin = entry.trim_start();
    let end = if begin.trim_end().ends_with('\\') { begin } else { begin.trim_end() };
    end.strip_prefix("comm:").unwrap_or(end)
}

fn is_of_another_kind(name: &str) -> bool {
    ["pid:", "cgroup:"].iter().any(|kind| name.starts_with(kind))
}

/// End of the element for one character, or of a `*`; `None`: an unterminated set.
fn end_of_place(bytes: &[u8], at: usize) -> Option<usize> {
    match bytes[at] {
        b'\\' => Some(at + 2),
        b'[' => end_of_set(bytes, at).map(|end| end + 1),
        _ => Some(at + 1),
    }
}

/// End of the set that begins with the `[` at `at`: a `]` that comes first in it is one of its characters, and so is that
/// of a class (`[[:digit:]]`).
fn end_of_set(bytes: &[u8], at: usize) -> Option<usize> {
    let first = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'!' | b'^')));
    let mut at = if bytes.get(first) == Some(&b']') { first + 1 } else { first };
    loop {
        at += match (*bytes.get(at)?, bytes.get(at + 1)) {
            (b']', _) => return Some(at),
            (b'\\', _) => 2,
            (b'[', Some(&kind @ (b':' | b'.' | b'='))) => {
                let inside = &bytes[at + 2..];
                4 + inside.windows(2).position(|pair| pair == [kind, b']'])?
            }
            _ => 1,
        };
    }
}

/// Matches like the shell.
pub(super) fn matches(glob: &CStr, name: &CStr) -> bool {
    // SAFETY: both texts end with a NUL and outlive the call.
    unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
}

/// The same for the kernel side; `None`: too long for it.
pub(super) fn machine(globs: &[CString]) -> Option<Names> {
    Names::of(&globs.iter().map(|glob| places(glob.as_bytes())).collect::<Vec<_>>())
}

fn places(glob: &[u8]) -> Vec<Place> {
    let (mut places, mut at) = (Vec::new(), 0);
    while at < glob.len() {
        let end = end_of_place(glob, at).unwrap_or(glob.len()).min(glob.len());
        places.push(match &glob[at..end] {
            b"*" => Place::Any,
            place => Place::One(Box::new(fitting(place))),
        });
        at = end;
    }
    places
}

/// The bytes that `place` matches.
fn fitting(place: &[u8]) -> [bool; 256] {
    let mut fits = [false; 256];
    let Ok(place) = CString::new(place) else { return fits };
    for byte in 1..=u8::MAX {
        let name = [byte, 0];
        fits[usize::from(byte)] = CStr::from_bytes_with_nul(&name).is_ok_and(|name| matches(&place, name));
    }
    fits
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_are_chosen_by_lists_of_shell_patterns() {
        for (list, name, yes) in [
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("?b", "ab", true),
            ("*", "", true),
            ("a*b*c", "axbxbc", true),
            ("[v]ictim", "victim", true),
            ("[!v]ictim", "victim", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("w[[:digit:]]", "w7", true),
            ("w[[:digit:],x]y", "w,y", true),
            ("w[![:digit:]]", "w7", false),
            ("victim,hog", "hog", true),
            ("a*,b*", "bx", true),
            ("a*,b*", "c,bx", false),
            (r"one\,two", "one,two", true),
            ("one[,]two,x", "one,two", true),
            (r"\[x", "[x", true),
            ("kworker/0:1", "kworker/0:1", true),
        ] {
            let globs = patterns(list).unwrap();
            let machine = machine(&globs).unwrap();
            let name = CString::new(name).unwrap();
            assert_eq!(globs.iter().any(|glob| matches(glob, &name)), yes, "{list} {name:?}");
            assert_eq!(machine.matches(name.as_bytes()), yes, "in the kernel: {list} {name:?}");
        }
        for open in ["[", "a,[b", "[]", "[!]", r"[\]", "[[:digit:]", "[[:"] {
            assert!(patterns(open).unwrap_err().contains("without its ']'"), "{open}");
        }
    }

    proptest! {
        #[test]
        fn the_kernel_side_chooses_what_the_shell_does(
            list in r"([ab*?\\]|\[[!^]?[ab]{1,2}\]|\[a-b\]|\\.){1,8}(,[ab*?]{1,4})?",
            names in proptest::collection::vec(r"[abc,\[\*]{0,6}", 20),
        ) {
            if let Ok(globs) = patterns(&list) {
                let machine = machine(&globs).unwrap();
                for name in names {
                    let text = CString::new(name.as_str()).unwrap();
                    let yes = globs.iter().any(|glob| matches(glob, &text));
                    prop_assert_eq!(machine.matches(name.as_bytes()), yes, "{} {}", list, name);
                }
            }
        }
    }
}

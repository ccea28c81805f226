//! Thread names selected by a list of shell patterns.

use lathunt_core::glob::{self, Glob};

use crate::recorder::Names;

/// Bytes of the longest name of a thread (TASK_COMM_LEN - 1).
const NAME: usize = 15;

/// A list of shell patterns: `hog,vic*`, `[a-c]x`. A comma within `[…]` or after a `\` is part of a name; blanks around an
/// entry are not, and neither is a repeated `comm:`.
pub(super) fn patterns(list: &str) -> Result<Vec<String>, String> {
    let (mut globs, mut begin, mut at) = (Vec::new(), 0, 0);
    let bytes = list.as_bytes();
    while at <= bytes.len() {
        if matches!(bytes.get(at), None | Some(b',')) {
            globs.push(&list[begin..at]);
            begin = at + 1;
            at += 1;
        } else {
            let (_, end) = glob::place(bytes, at).ok_or_else(|| {
                format!("'{list}' has a '[' without its ']'; write '\\[' for the bracket itself")
            })?;
            at = end;
        }
    }
    let glob =
        |glob: &&str| Some(named(glob).to_owned()).filter(|glob| !glob.is_empty() && !glob.contains('\0'));
    let read: Option<Vec<String>> = globs.iter().map(glob).collect();
    if let Some(other) = globs.iter().map(|glob| named(glob)).find(|name| is_of_another_kind(name)) {
        return Err(format!(
            "'comm:{list}' mixes kinds of tasks: name all by comm:A,B or all by pid:1,2; a thread called '{other}' is '\\{other}'"
        ));
    }
    // Past the end: a `\` was the last character.
    let read = read
        .filter(|_| begin > bytes.len())
        .ok_or_else(|| format!("'{list}' is not a list of names (comm:NAME,GLOB,…)"))?;
    match read.iter().find(|glob| Glob::new(glob.as_bytes()).shortest() > NAME) {
        Some(long) => Err(format!("'{long}' matches no thread: the kernel keeps {NAME} bytes of a name")),
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

/// For the kernel side; `None`: too long for it.
pub(super) fn machine(globs: &[String]) -> Option<Names> {
    Names::of(&globs.iter().map(|glob| Glob::new(glob.as_bytes())).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;

    use proptest::prelude::*;
    use proptest::string::bytes_regex;

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
            assert_eq!(globs.iter().any(|glob| glob::fits(glob, name)), yes, "{list} {name:?}");
            assert_eq!(machine.matches(name.as_bytes()), yes, "in the kernel: {list} {name:?}");
        }
        for open in ["[", "a,[b", "[]", "[!]", r"[\]", "[[:digit:]", "[[:"] {
            assert!(patterns(open).unwrap_err().contains("without its ']'"), "{open}");
        }
    }

    fn by_libc(glob: &[u8], name: &[u8]) -> bool {
        let [glob, name] = [glob, name].map(|text| CString::new(text).unwrap());
        // SAFETY: both texts end with a NUL and outlive the call.
        unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
    }

    /// Whether each `[` has its `]`, and none of the named differences of [`glob`] occurs.
    fn is_of_both(pattern: &[u8]) -> bool {
        let mut at = Some(0);
        while let Some(begin) = at.filter(|begin| *begin < pattern.len()) {
            at = glob::place(pattern, begin).map(|(_, end)| end);
        }
        let has = |text: &[u8]| pattern.windows(text.len()).any(|part| part == text);
        at.is_some() && ![&b"[."[..], b"[=", b"-[:"].into_iter().any(has)
    }

    const PATTERN: &str = r"(?s-u)([ab*?!^:z\x80\]-]|\\[^\x00]|\[[!^]?[\]ab^!]?([ab]-[bz]|[:az\x80-]|\[:(lower|punct|digit):\]|\\[^\x00]){0,3}\]){0,6}";

    proptest! {
        #![proptest_config(ProptestConfig { cases: 1_000, max_global_rejects: 10_000, ..ProptestConfig::default() })]

        #[test]
        fn patterns_are_those_of_fnmatch(
            pattern in bytes_regex(PATTERN).unwrap(),
            name in bytes_regex(r"(?s-u)[ab*?\\!^:z1\x80\xff\[\]-]{0,6}").unwrap(),
        ) {
            prop_assume!(is_of_both(&pattern));
            prop_assert_eq!(Glob::new(&pattern).matches(&name), by_libc(&pattern, &name));
        }

        #[test]
        fn the_kernel_side_chooses_what_the_shell_does(
            list in r"([ab*?\\]|\[[!^]?[ab]{1,2}\]|\[a-b\]|\\.){1,8}(,[ab*?]{1,4})?",
            names in proptest::collection::vec(r"[abc,\[\*]{0,6}", 20),
        ) {
            if let Ok(globs) = patterns(&list) {
                let machine = machine(&globs).unwrap();
                for name in names {
                    let yes = globs.iter().any(|glob| by_libc(glob.as_bytes(), name.as_bytes()));
                    prop_assert_eq!(machine.matches(name.as_bytes()), yes, "{} {}", list, name);
                }
            }
        }
    }
}

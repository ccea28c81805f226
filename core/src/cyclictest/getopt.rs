//! `getopt_long` of glibc as cyclictest uses it: clusters of short options, optional arguments, unique prefixes of
//! long names, and operands anywhere between them.
//!
//! Own code rather than a crate: argument parsers for Rust differ in the details that scripts rely on (`-Sp90`, `-qmu
//! "-h 2000"` as one word, `-t 4` although the argument of `-t` is optional).

/// Whether an option takes an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    /// None.
    Nothing,
    /// One, in the same word or the next.
    Argument,
    /// One, in the same word only.
    Optional,
}

/// An option: its short letter, its long name, or both.
#[derive(Clone, Copy, Debug)]
pub struct Spec<Id> {
    /// Identifier for the caller.
    pub id: Id,
    /// `-x`.
    pub short: Option<u8>,
    /// `--name`.
    pub long: Option<&'static str>,
    /// Its argument.
    pub takes: Takes,
}

/// One option as found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found<'a, Id> {
    /// Which.
    pub id: Id,
    /// As the user wrote it: `-x` or `--name`.
    pub written: String,
    /// Its argument.
    pub argument: Option<&'a [u8]>,
    /// The next word, which some options examine without consuming it.
    pub next_word: Option<&'a [u8]>,
}

/// What is wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadUsage {
    /// No such short option.
    #[error("invalid option -- '{0}'")]
    Short(char),
    /// No such long option.
    #[error("unrecognized option '{0}'")]
    Long(String),
    /// A prefix of several.
    #[error("option '{0}' is ambiguous; possibilities:{1}")]
    Ambiguous(String, String),
    /// The argument is missing.
    #[error("option '{0}' requires an argument")]
    Missing(String),
    /// An argument where none belongs.
    #[error("option '{0}' doesn't allow an argument")]
    Superfluous(String),
}

/// Options and operands of a command line.
#[derive(Debug)]
pub struct Parsed<'a, Id> {
    /// In the order they were written.
    pub options: Vec<Found<'a, Id>>,
    /// Words that are not options.
    pub operands: Vec<&'a [u8]>,
}

/// Parses `words` (without the name of the program). An ambiguous prefix in `specs` matches only if the name is exact;
/// `retired` is searched if nothing in `specs` matches.
///
/// # Errors
/// The first error, in glibc's wording.
pub fn parse<'a, Id: Copy>(
    words: &'a [Vec<u8>],
    specs: &[Spec<Id>],
    retired: &[Spec<Id>],
) -> Result<Parsed<'a, Id>, BadUsage> {
    let mut parsed = Parsed { options: Vec::new(), operands: Vec::new() };
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_slice();
        at += 1;
        match word {
            b"--" => {
                parsed.operands.extend(words[at..].iter().map(Vec::as_slice));
                break;
            }
            [b'-', b'-', name @ ..] => parsed.options.push(long(name, words, &mut at, specs, retired)?),
            [b'-', letters @ ..] if !letters.is_empty() => {
                cluster(letters, words, &mut at, (specs, retired), &mut parsed.options)?;
            }
            operand => parsed.operands.push(operand),
        }
    }
    Ok(parsed)
}

fn next_word(words: &[Vec<u8>], at: usize) -> Option<&[u8]> {
    words.get(at).map(Vec::as_slice)
}

fn long<'a, Id: Copy>(
    text: &'a [u8],
    words: &'a [Vec<u8>],
    at: &mut usize,
    specs: &[Spec<Id>],
    retired: &[Spec<Id>],
) -> Result<Found<'a, Id>, BadUsage> {
    let (name, given) = match text.iter().position(|&byte| byte == b'=') {
        Some(equals) => (&text[..equals], Some(&text[equals + 1..])),
        None => (text, None),
    };
    let written = format!("--{}", String::from_utf8_lossy(name));
    let shown = format!("--{}", String::from_utf8_lossy(text));
    let spec = match find_long(name, specs, &shown)? {
        Some(spec) => spec,
        None => find_long(name, retired, &shown)?.ok_or_else(|| BadUsage::Long(written.clone()))?,
    };
    let argument = match (spec.takes, given) {
        (Takes::Nothing, Some(_)) => return Err(BadUsage::Superfluous(written)),
        (Takes::Argument, None) => {
            let next = next_word(words, *at).ok_or_else(|| BadUsage::Missing(written.clone()))?;
            *at += 1;
            Some(next)
        }
        (_, given) => given,
    };
    Ok(Found { id: spec.id, written, argument, next_word: next_word(words, *at) })
}

/// The spec with this exact name, or the only one with this prefix.
fn find_long<'s, Id>(
    name: &[u8],
    specs: &'s [Spec<Id>],
    shown: &str,
) -> Result<Option<&'s Spec<Id>>, BadUsage> {
    let long = |spec: &Spec<Id>| spec.long.unwrap_or_default().as_bytes().to_vec();
    if let Some(exact) = specs.iter().find(|spec| spec.long.is_some() && long(spec) == name) {
        return Ok(Some(exact));
    }
    let fits: Vec<&Spec<Id>> =
        specs.iter().filter(|spec| spec.long.is_some() && long(spec).starts_with(name)).collect();
    match fits[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => {
            let names: String =
                fits.iter().map(|spec| format!(" '--{}'", spec.long.unwrap_or_default())).collect();
            Err(BadUsage::Ambiguous(shown.to_owned(), names))
        }
    }
}

fn cluster<'a, Id: Copy>(
    letters: &'a [u8],
    words: &'a [Vec<u8>],
    at: &mut usize,
    (specs, retired): (&[Spec<Id>], &[Spec<Id>]),
    found: &mut Vec<Found<'a, Id>>,
) -> Result<(), BadUsage> {
    for (index, &letter) in letters.iter().enumerate() {
        let spec = specs
            .iter()
            .chain(retired)
            .find(|spec| spec.short == Some(letter))
            .ok_or(BadUsage::Short(char::from(letter)))?;
        let rest = Some(&letters[index + 1..]).filter(|rest| !rest.is_empty());
        let written = format!("-{}", char::from(letter));
        let argument = match (spec.takes, rest) {
            (Takes::Nothing, _) => None,
            (Takes::Argument, None) => {
                let next = next_word(words, *at).ok_or_else(|| BadUsage::Missing(written.clone()))?;
                *at += 1;
                Some(next)
            }
            (_, rest) => rest,
        };
        let ends = spec.takes != Takes::Nothing;
        found.push(Found { id: spec.id, written, argument, next_word: next_word(words, *at) });
        if ends {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPECS: [Spec<char>; 5] = [
        Spec { id: 'q', short: Some(b'q'), long: Some("quiet"), takes: Takes::Nothing },
        Spec { id: 'h', short: Some(b'h'), long: Some("histogram"), takes: Takes::Argument },
        Spec { id: 'H', short: Some(b'H'), long: Some("histofall"), takes: Takes::Argument },
        Spec { id: 't', short: Some(b't'), long: Some("threads"), takes: Takes::Optional },
        Spec { id: 'f', short: None, long: Some("histfile"), takes: Takes::Argument },
    ];

    fn ids(line: &[&str]) -> Result<Vec<(char, Option<String>)>, String> {
        let words: Vec<Vec<u8>> = line.iter().map(|word| word.as_bytes().to_vec()).collect();
        let parsed = parse(&words, &SPECS, &[]).map_err(|error| error.to_string())?;
        let text = |argument: &[u8]| String::from_utf8_lossy(argument).into_owned();
        Ok(parsed.options.iter().map(|found| (found.id, found.argument.map(text))).collect())
    }

    #[test]
    fn words_are_split_as_glibc_splits_them() {
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(ids(&["-qh", "20"]), Ok(vec![('q', None), ('h', some("20"))]));
        assert_eq!(ids(&["-qh20"]), Ok(vec![('q', None), ('h', some("20"))]));
        assert_eq!(ids(&["-h 2000"]), Ok(vec![('h', some(" 2000"))]));
        assert_eq!(ids(&["-t", "4", "-q"]), Ok(vec![('t', None), ('q', None)]));
        assert_eq!(ids(&["-t4"]), Ok(vec![('t', some("4"))]));
        assert_eq!(ids(&["--thread=2"]), Ok(vec![('t', some("2"))]));
        assert_eq!(ids(&["--histog", "5"]), Ok(vec![('h', some("5"))]));
        assert_eq!(ids(&["x", "--", "-q"]), Ok(vec![]));
    }

    #[test]
    fn errors_are_worded_as_glibc_words_them() {
        for (line, error) in [
            (vec!["-z"], "invalid option -- 'z'"),
            (vec!["--nope=3"], "unrecognized option '--nope'"),
            (
                vec!["--hist=3"],
                "option '--hist=3' is ambiguous; possibilities: '--histogram' '--histofall' '--histfile'",
            ),
            (vec!["-h"], "option '-h' requires an argument"),
            (vec!["--quiet=1"], "option '--quiet' doesn't allow an argument"),
        ] {
            assert_eq!(ids(&line), Err(error.to_owned()));
        }
    }
}

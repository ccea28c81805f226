//! The declarations of an instrumented program's events: text lines in its shared memory.
//!
//! ```text
//! event 2 control:cycle
//! field u32 axis
//! field str label 32
//! field enum mode u8 IDLE=0 RUN=1
//! end
//! ```
//!
//! An invalid declaration is skipped and reported; its events then count as damaged. Not here: the descriptors in the
//! program (crate `lathunt-tracer`), and the declarations of a CTF file (`export::ctf`).

use super::bytes::nul;

/// Type of a field in a record: packed, little endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// An integer.
    Int {
        /// 1, 2, 4 or 8.
        bytes: usize,
        /// Two's complement.
        signed: bool,
    },
    /// IEEE 754.
    Float {
        /// 4 or 8.
        bytes: usize,
    },
    /// One byte, 0 or 1.
    Bool,
    /// An integer with names.
    Enum {
        /// 1, 2, 4 or 8.
        bytes: usize,
        /// Two's complement.
        signed: bool,
        /// Names and values.
        labels: Vec<(String, i64)>,
    },
    /// Text with a terminating NUL.
    Str {
        /// Maximum bytes before the NUL, or of data.
        max: usize,
    },
    /// Text of fixed size, padded with NULs.
    Chars {
        /// Bytes.
        size: usize,
    },
    /// Bytes of fixed size.
    Bytes {
        /// Bytes.
        size: usize,
    },
    /// A 16-bit length and that many bytes.
    Blob {
        /// Maximum bytes before the NUL, or of data.
        max: usize,
    },
}

/// A field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// C identifier.
    pub name: String,
    /// Layout.
    pub kind: FieldKind,
}

/// An event that a program declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declaration {
    /// Event id in its records.
    pub id: u16,
    /// `provider:name`.
    pub name: String,
    /// In the order of the record.
    pub fields: Vec<Field>,
    fixed_bytes: Option<usize>,
}

/// A line that is not a valid declaration.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("line {line} of the declarations is damaged: '{text}'")]
pub struct Damaged {
    /// Line number, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
}

impl Declaration {
    /// An event with these fields.
    #[must_use]
    pub fn new(id: u16, name: &str, fields: Vec<Field>) -> Declaration {
        let fixed_bytes = fields.iter().map(|field| field.kind.fixed_bytes()).sum();
        Declaration { id, name: name.to_owned(), fields, fixed_bytes }
    }

    /// Whether `payload` is exactly these fields.
    #[must_use]
    #[inline]
    pub fn fits(&self, payload: &[u8]) -> bool {
        if let Some(bytes) = self.fixed_bytes {
            return payload.len() == bytes;
        }
        let rest = self.fields.iter().try_fold(payload, |rest, field| field.kind.skip(rest));
        rest.is_some_and(<[u8]>::is_empty)
    }
}

impl FieldKind {
    fn fixed_bytes(&self) -> Option<usize> {
        match *self {
            FieldKind::Int { bytes, .. } | FieldKind::Float { bytes } | FieldKind::Enum { bytes, .. } => {
                Some(bytes)
            }
            FieldKind::Bool => Some(1),
            FieldKind::Chars { size } | FieldKind::Bytes { size } => Some(size),
            FieldKind::Str { .. } | FieldKind::Blob { .. } => None,
        }
    }

    /// The bytes after this field; `None` if it does not fit.
    fn skip<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        match *self {
            FieldKind::Str { max } => {
                let length = nul(bytes).filter(|&length| length <= max)?;
                bytes.get(length + 1..)
            }
            FieldKind::Blob { max } => {
                let length = usize::from(u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?));
                (length <= max).then(|| bytes.get(2 + length..))?
            }
            _ => bytes.get(self.fixed_bytes()?..),
        }
    }
}

/// All complete declarations in `text`, and the invalid lines.
#[must_use]
pub fn parse_declarations(text: &[u8]) -> (Vec<Declaration>, Vec<Damaged>) {
    let text = String::from_utf8_lossy(text);
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    let mut open: Option<(u16, String, Vec<Field>)> = None;
    for (index, line) in text.lines().enumerate() {
        let read = match line.split_once(' ').unwrap_or((line, "")) {
            ("event", rest) => parse_event(rest).map(|(id, name)| open = Some((id, name, Vec::new()))),
            ("field", rest) => {
                parse_field(rest).and_then(|field| open.as_mut().map(|(_, _, fields)| fields.push(field)))
            }
            ("end", "") => {
                open.take().map(|(id, name, fields)| whole.push(Declaration::new(id, &name, fields)))
            }
            _ => None,
        };
        if read.is_none() {
            open = None;
            damaged.push(Damaged { line: index + 1, text: line.to_owned() });
        }
    }
    (whole, damaged)
}

fn parse_event(rest: &str) -> Option<(u16, String)> {
    let (id, name) = rest.split_once(' ')?;
    let printable = !name.is_empty() && name.chars().all(|c| !c.is_control());
    printable.then_some((id.parse().ok()?, name.to_owned()))
}

fn parse_field(rest: &str) -> Option<Field> {
    let mut words = rest.split(' ');
    let (kind, name) = (words.next()?, words.next()?);
    if !is_identifier(name) {
        return None;
    }
    let mut size = || words.next()?.parse::<usize>().ok().filter(|&size| size <= 0xffff);
    let kind = match kind {
        "bool" => FieldKind::Bool,
        "f32" => FieldKind::Float { bytes: 4 },
        "f64" => FieldKind::Float { bytes: 8 },
        "str" => FieldKind::Str { max: size()? },
        "chars" => FieldKind::Chars { size: size()? },
        "bytes" => FieldKind::Bytes { size: size()? },
        "blob" => FieldKind::Blob { max: size()? },
        "enum" => {
            let (bytes, signed) = parse_integer(words.next()?)?;
            let labels = words.map(parse_label).collect::<Option<_>>()?;
            FieldKind::Enum { bytes, signed, labels }
        }
        _ => {
            let (bytes, signed) = parse_integer(kind)?;
            FieldKind::Int { bytes, signed }
        }
    };
    Some(Field { name: name.to_owned(), kind })
}

fn parse_integer(kind: &str) -> Option<(usize, bool)> {
    let signed = match kind.as_bytes().first()? {
        b's' => true,
        b'u' => false,
        _ => return None,
    };
    let bits: usize = kind[1..].parse().ok()?;
    matches!(bits, 8 | 16 | 32 | 64).then_some((bits / 8, signed))
}

fn parse_label(text: &str) -> Option<(String, i64)> {
    let (name, value) = text.split_once('=')?;
    is_identifier(name).then_some((name.to_owned(), value.parse().ok()?))
}

fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str =
        "event 2 control:cycle\nfield u32 axis\nfield str label 4\nfield enum mode s8 IDLE=0 BAD=-1\nend\n";

    #[test]
    fn a_declaration_reads_back_and_judges_payloads() {
        let (events, damaged) = parse_declarations(TEXT.as_bytes());
        assert!(damaged.is_empty());
        let event = &events[0];
        assert_eq!((event.id, event.name.as_str(), event.fields.len()), (2, "control:cycle", 3));
        assert_eq!(
            event.fields[2].kind,
            FieldKind::Enum { bytes: 1, signed: true, labels: vec![("IDLE".into(), 0), ("BAD".into(), -1)] }
        );
        assert!(event.fits(b"\x01\0\0\0abcd\0\xff"));
        assert!(!event.fits(b"\x01\0\0\0abcde\0\xff"), "longer than declared");
        assert!(!event.fits(b"\x01\0\0\0abcd\0"), "a field is missing");
        assert!(!event.fits(b"\x01\0\0\0abcd\0\xff\0"), "something follows");
    }

    #[test]
    fn damage_costs_the_damaged_declaration_only() {
        let text = format!("event 0 a:b\nfield u7 x\nend\n{TEXT}event 3 cut:off\nfield u8 x\n");
        let (events, damaged) = parse_declarations(text.as_bytes());
        assert_eq!(events.len(), 1);
        assert_eq!(damaged.len(), 2, "the bad field and its lonely end: {damaged:?}");
    }
}

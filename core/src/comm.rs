//! A thread's name as in the kernel: 16 bytes without heap memory, so that it can be copied for every activation and be
//! part of a key.

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::printable;

/// A one in each byte.
const EACH: u128 = u128::MAX / 0xff;

/// At most 15 bytes, NUL-padded.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Comm([u8; 16]);

impl Comm {
    /// Bytes after a NUL are ignored.
    #[inline]
    #[must_use]
    pub fn new(bytes: [u8; 16]) -> Comm {
        let word = u128::from_le_bytes(bytes) & u128::MAX >> 8;
        // The lowest remaining high bit belongs to the first NUL; the 16th byte is always NUL.
        let nul = word.wrapping_sub(EACH) & !word & EACH << 7;
        let bits = nul.trailing_zeros() & !7;
        Comm((word & ((1 << bits) - 1)).to_le_bytes())
    }

    /// The first 15 bytes of `text`, as the kernel cuts them.
    #[must_use]
    pub fn cut(text: &str) -> Comm {
        let mut bytes = [0; 16];
        bytes.iter_mut().take(15).zip(text.bytes()).for_each(|(to, byte)| *to = byte);
        Comm::new(bytes)
    }

    /// Text for display: invalid UTF-8 is replaced, control characters are escaped.
    #[must_use]
    pub fn text(&self) -> String {
        printable::line(&self.raw()).into_owned()
    }

    /// [`Comm::text`], different for different names: a name that is not shown as it is ends in its bytes (`a b\x610962`), or
    /// two threads would have one label, and a collector refuses all metrics where two have the same.
    #[must_use]
    pub fn label(&self) -> String {
        let (text, raw) = (self.text(), self.raw());
        if text == raw && !text.contains(['\\', char::REPLACEMENT_CHARACTER]) {
            return text;
        }
        self.bytes().iter().fold(text + "\\x", |label, byte| format!("{label}{byte:02x}"))
    }

    /// The name with its padding.
    #[must_use]
    pub fn padded(self) -> [u8; 16] {
        self.0
    }

    fn raw(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self.bytes())
    }

    fn bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }
}

impl fmt::Display for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text())
    }
}

impl fmt::Debug for Comm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.text())
    }
}

impl Serialize for Comm {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.raw())
    }
}

impl<'de> Deserialize<'de> for Comm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Comm, D::Error> {
        Ok(Comm::cut(&String::deserialize(deserializer)?))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Comm {
    fn schema_name() -> Cow<'static, str> {
        String::schema_name()
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn any_bytes_are_kept_up_to_the_first_nul(bytes: [u8; 16], nuls in proptest::collection::vec(0usize..16, 0..3)) {
            let mut bytes = bytes;
            nuls.into_iter().for_each(|at| bytes[at] = 0);
            let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(15).min(15);
            prop_assert_eq!(&Comm::new(bytes).0[..end], &bytes[..end]);
            prop_assert!(Comm::new(bytes).0[end..].iter().all(|&byte| byte == 0));
        }
    }

    proptest! {
        #[test]
        fn different_names_have_different_labels(
            names in proptest::collection::vec(r"([ab\\x61\u{fffd}\n\t\x01]|\\u\{1\})[ab 61]{0,3}", 2..40),
            byte: u8,
        ) {
            let mut names: Vec<Comm> = names.iter().map(|name| Comm::cut(name)).collect();
            // Labels are names, too, and bytes need not be text.
            names.extend(names.clone().iter().map(|name| Comm::cut(&name.label())));
            let invalid = [byte, 0xff, byte, 0].repeat(4).try_into().unwrap();
            names.push(Comm::new(invalid));
            names.sort_unstable();
            names.dedup();
            let labels: std::collections::BTreeSet<String> = names.iter().map(Comm::label).collect();
            prop_assert_eq!(labels.len(), names.len());
            prop_assert!(labels.iter().all(|label| printable::line(label) == *label));
        }
    }

    #[test]
    fn a_name_is_what_comes_before_the_first_nul_and_fifteen_bytes_at_most() {
        assert_eq!(Comm::new(*b"motion\0old rest!").text(), "motion");
        assert_eq!(Comm::new(*b"motion\0old rest!"), Comm::cut("motion"));
        assert_eq!(Comm::cut("a name that is far too long").text(), "a name that is ");
        assert_eq!(Comm::new([0xff; 16]).text(), "\u{fffd}".repeat(15), "strangers choose the bytes");
        assert_eq!(format!("{:<8}|", Comm::cut("x")), "x       |");
        let json = serde_json::to_string(&Comm::cut("x")).unwrap();
        assert_eq!((json.as_str(), serde_json::from_str::<Comm>(&json).unwrap()), ("\"x\"", Comm::cut("x")));
    }
}

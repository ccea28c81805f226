//! A value at the head of a file, of which only the start is kept: a file may have gigabytes there.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Characters of a text that are kept.
const KEPT: usize = 100;

/// A text or number, or that it is neither.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Short {
    Text(String),
    Number(u64),
    /// `true`, `-1`, `1.5`, `null`.
    Other(String),
    List,
    Object,
    #[default]
    Missing,
}

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Short::Text(text) => write!(f, "{text:?}"),
            Short::Number(number) => write!(f, "{number}"),
            Short::Other(value) => f.write_str(value),
            Short::List => f.write_str("a list"),
            Short::Object => f.write_str("an object"),
            Short::Missing => f.write_str("missing"),
        }
    }
}

struct Reads;

impl<'de> Visitor<'de> for Reads {
    type Value = Short;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Short, E> {
        Ok(Short::Text(text.chars().take(KEPT).collect()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Short, E> {
        Ok(Short::Number(number))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Short, E> {
        Ok(Short::Other(number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Short, E> {
        Ok(Short::Other(number.to_string()))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Short, E> {
        Ok(Short::Other(value.to_string()))
    }

    fn visit_unit<E>(self) -> Result<Short, E> {
        Ok(Short::Other("null".to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut all: A) -> Result<Short, A::Error> {
        while all.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Short::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Short, A::Error> {
        while all.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Short::Object)
    }
}

impl<'de> Deserialize<'de> for Short {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Short, D::Error> {
        deserializer.deserialize_any(Reads)
    }
}

//! Event classes of a text, identified by their field names, and the encoding of lines as records of these classes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use super::fields::{FieldValue, Fields};
use crate::trace::bytes::Order;
use crate::trace::catalogue::{Catalogue, EventClass, Field, Place};
use crate::trace::value::Element;

/// Two lines of one event have the same class if their fields have the same names, and the same ones are texts.
pub(super) struct Shapes {
    /// Classes by the hash of their fields.
    classes: HashMap<u64, Vec<u32>>,
    /// Random, so that a hostile text cannot produce collisions.
    seed: u64,
    /// Artificial addresses of functions, which the text names.
    functions: HashMap<String, u64>,
}

impl Shapes {
    /// The class of an event with these fields; `None` for one that [`Shapes::learn`] has not seen.
    pub fn class(&self, catalogue: &Catalogue, name: &str, fields: &Fields<'_>) -> Option<u32> {
        let same = |class: &&u32| catalogue.get(**class).is_some_and(|class| is_of(class, name, fields));
        self.classes.get(&self.hash(name, fields))?.iter().find(same).copied()
    }

    /// The class of an event with these fields, created if it is new. Functions get addresses, and an entry in `kallsyms`.
    pub fn learn(
        &mut self,
        catalogue: &mut Catalogue,
        kallsyms: &mut String,
        name: &str,
        fields: &Fields<'_>,
    ) -> u32 {
        for (_, value) in fields {
            let FieldValue::Function(function) = value else { continue };
            if !self.functions.contains_key(*function) {
                let next = 0x1000 + 16 * self.functions.len() as u64;
                kallsyms.push_str(&format!("{next:016x} T {function}\n"));
                self.functions.insert((*function).to_owned(), next);
            }
        }
        if let Some(known) = self.class(catalogue, name, fields) {
            return known;
        }
        let class = catalogue.add(class_of(name, fields));
        self.classes.entry(self.hash(name, fields)).or_default().push(class);
        class
    }

    /// Encodes fields as a binary record: eight bytes each, followed by the texts.
    pub fn record(&self, fields: &Fields<'_>, data: &mut Vec<u8>) {
        data.clear();
        let mut texts_at = 8 * fields.len();
        for (_, value) in fields {
            let word = match value {
                FieldValue::Number(number) => *number as u64,
                FieldValue::Function(function) => self.functions.get(*function).copied().unwrap_or(0),
                FieldValue::Text(text) => {
                    let len = text.len().min(0xffff);
                    let at = texts_at.min(0xffff);
                    texts_at += len;
                    (len as u64) << 16 | at as u64
                }
            };
            data.extend_from_slice(&word.to_le_bytes());
        }
        for (_, value) in fields {
            if let FieldValue::Text(text) = value {
                data.extend_from_slice(&text.as_bytes()[..text.len().min(0xffff)]);
            }
        }
    }

    fn hash(&self, name: &str, fields: &Fields<'_>) -> u64 {
        let name = mixed(self.seed, name.as_bytes());
        fields
            .iter()
            .fold(name, |hash, (name, value)| mixed(hash ^ u64::from(is_text(value)), name.as_bytes()))
    }
}

impl Default for Shapes {
    fn default() -> Self {
        let seed = RandomState::new().hash_one(0);
        Shapes { classes: HashMap::new(), seed, functions: HashMap::new() }
    }
}

/// Mixes `bytes` into `hash`, eight at a time.
fn mixed(hash: u64, bytes: &[u8]) -> u64 {
    let words = bytes.chunks(8).map(|chunk| chunk.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)));
    let mix = |hash: u64, word: u64| {
        let product = u128::from(hash ^ word) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        (product as u64) ^ (product >> 64) as u64
    };
    words.fold(hash.rotate_left(5) ^ bytes.len() as u64, mix)
}

fn is_text(value: &FieldValue<'_>) -> bool {
    matches!(value, FieldValue::Text(_))
}

fn is_of(class: &EventClass, name: &str, fields: &Fields<'_>) -> bool {
    let same = |(field, (name, value)): (&Field, &(Cow<'_, str>, FieldValue<'_>))| {
        field.name == *name && matches!(field.place, Place::DataLoc { .. }) == is_text(value)
    };
    class.name == name && class.fields.len() == fields.len() && class.fields.iter().zip(fields).all(same)
}

fn class_of(name: &str, fields: &Fields<'_>) -> EventClass {
    let place = |(index, (name, value)): (usize, &(Cow<'_, str>, FieldValue<'_>))| {
        let offset = 8 * index as u32;
        let element = Element { size: 1, signed: false, text: true };
        let place = match is_text(value) {
            true => Place::DataLoc { offset, relative: false, element },
            false => Place::Int { offset, size: 8, signed: true },
        };
        Field { name: name.clone().into_owned(), place }
    };
    EventClass {
        system: String::new(),
        name: name.to_owned(),
        fields: fields.iter().enumerate().map(place).collect(),
        order: Order::Little,
        dynamic: None,
    }
}

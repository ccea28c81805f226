//! Event classes and their fields: how to read any field of any record by its name.
//!
//! A class is compiled once from the trace's own description (the kernel's `format` text, CTF metadata); reading an
//! integer afterwards is a bounds check and a load. `print fmt` is never evaluated: it is a C expression of the
//! recording kernel, and its text has less than the fields.

use std::collections::HashMap;
use std::sync::Arc;

use super::bytes::Order;
use super::item::Record;
use super::layout::Layout;
use super::value::{number, up_to_nul, Array, Element, Value};

/// Location of a field in a binary record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// An integer of `size` bytes at `offset`.
    Int {
        /// First byte.
        offset: u32,
        /// 1, 2, 4 or 8 bytes.
        size: u8,
        /// Two's complement.
        signed: bool,
    },
    /// `size` bytes at `offset`, in elements.
    Array {
        /// First byte.
        offset: u32,
        /// All bytes; 0 means up to the end of the record (a flexible array).
        size: u32,
        /// Type of an element.
        element: Element,
    },
    /// Dynamic data: a word at `offset` holds (length << 16 | offset), as the kernel's `__data_loc` does.
    DataLoc {
        /// Where the word is.
        offset: u32,
        /// The offset counts from the end of the word (`__rel_loc`).
        relative: bool,
        /// Type of an element.
        element: Element,
    },
    /// After fields of variable length, or not at a byte boundary: found by walking (CTF).
    Walked {
        /// Its number in the layout.
        leaf: u16,
    },
}

/// One field of an event class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Name in the kernel, or in CTF without the leading underscore; nested names are joined by dots.
    pub name: String,
    /// Its location.
    pub place: Place,
}

/// A class of events: one tracepoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventClass {
    /// The subsystem: `sched`; empty if the format has none.
    pub system: String,
    /// The event: `sched_switch`.
    pub name: String,
    /// Its fields in their order, those common to all events first.
    pub fields: Vec<Field>,
    /// Byte order of its numbers.
    pub order: Order,
    /// Layout for fields without a fixed location (CTF).
    pub(crate) dynamic: Option<Arc<Layout>>,
}

/// A field, or one element of it, found by name. Valid only for its class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef {
    index: u16,
    element: Option<u16>,
}

impl EventClass {
    /// The field of this name; also one element of an array, as `args[2]` or, for system calls, `arg2`.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<FieldRef> {
        let find = |name: &str| self.fields.iter().position(|field| field.name == name);
        if let Some(index) = find(name) {
            return Some(FieldRef { index: index as u16, element: None });
        }
        let (array, element) = match name.strip_suffix(']').and_then(|name| name.split_once('[')) {
            Some((array, element)) => (array, element),
            None => ("args", name.strip_prefix("arg")?),
        };
        let element: u16 = element.parse().ok()?;
        if let Some(index) = find(array) {
            return Some(FieldRef { index: index as u16, element: Some(element) });
        }
        if array != "args" {
            return None;
        }
        // Text has a field per argument; LTTng names the arguments of known system calls.
        let index = find(&format!("args[{element}]"));
        let of_call = self.name.starts_with("syscall_entry_").then(|| self.payload().nth(element.into()));
        index.map(|index| FieldRef { index: index as u16, element: None }).or(of_call.flatten())
    }

    /// The first of `names` that is a field.
    #[must_use]
    pub fn field_of(&self, names: &[&str]) -> Option<FieldRef> {
        names.iter().find_map(|name| self.field(name))
    }

    /// Fields of the event itself, in order: without common fields and contexts.
    pub fn payload(&self) -> impl Iterator<Item = FieldRef> + '_ {
        let own = |field: &Field| !field.name.starts_with("common_") && !field.name.ends_with("_context");
        let indices = self.fields.iter().enumerate().filter(move |(_, field)| own(field));
        indices.map(|(index, _)| FieldRef { index: index as u16, element: None })
    }

    /// The name of a field of this class.
    #[must_use]
    pub fn name_of(&self, field: FieldRef) -> &str {
        self.fields.get(usize::from(field.index)).map_or("", |field| &field.name)
    }

    /// Whether it is a whole field, not an element.
    pub(crate) fn is_whole(&self, field: FieldRef) -> bool {
        field.element.is_none()
    }

    /// Location of a field of this class.
    #[must_use]
    pub fn place_of(&self, field: FieldRef) -> Option<Place> {
        self.fields.get(usize::from(field.index)).map(|field| field.place)
    }

    /// The value of `field`; `None` if the record is too short.
    #[must_use]
    pub fn value<'a>(&self, field: FieldRef, record: &Record<'a>) -> Option<Value<'a>> {
        let place = self.fields.get(usize::from(field.index))?.place;
        let value = match place {
            Place::Walked { leaf } => self.dynamic.as_ref()?.value(leaf, record.data, record.first_bit)?,
            place => read(place, fields_of(record), self.order)?,
        };
        match (field.element, value) {
            (None, value) => Some(value),
            (Some(element), Value::Array(array)) => array.get(usize::from(element)),
            (Some(_), _) => None,
        }
    }

    /// An integer field as 64 bits, negative ones in two's complement.
    #[must_use]
    #[inline]
    pub fn bits(&self, field: FieldRef, record: &Record<'_>) -> Option<u64> {
        match self.fields.get(usize::from(field.index))?.place {
            Place::Int { offset, size, signed } if field.element.is_none() => {
                let begin = offset as usize + (record.first_bit / 8) as usize;
                let bytes = record.data.get(begin..begin + usize::from(size))?;
                Some(if signed { self.order.signed(bytes) as u64 } else { self.order.unsigned(bytes) })
            }
            _ => self.value(field, record)?.bits(),
        }
    }

    /// A text field, without its NUL.
    #[must_use]
    #[inline]
    pub fn text<'a>(&self, field: FieldRef, record: &Record<'a>) -> Option<&'a [u8]> {
        match self.fields.get(usize::from(field.index))?.place {
            Place::Array { offset, size: size @ 1.., element } if element.text && field.element.is_none() => {
                let begin = offset as usize + (record.first_bit / 8) as usize;
                Some(up_to_nul(record.data.get(begin..begin.checked_add(size as usize)?)?))
            }
            _ => match self.value(field, record)? {
                Value::Text(text) => Some(text),
                _ => None,
            },
        }
    }

    /// `sched:sched_switch`, or only the name if there is no system.
    #[must_use]
    pub fn full_name(&self) -> String {
        if self.system.is_empty() {
            self.name.clone()
        } else {
            format!("{}:{}", self.system, self.name)
        }
    }
}

/// The bytes that fixed offsets refer to.
fn fields_of<'a>(record: &Record<'a>) -> &'a [u8] {
    record.data.get((record.first_bit / 8) as usize..).unwrap_or(&[])
}

fn read(place: Place, data: &[u8], order: Order) -> Option<Value<'_>> {
    let array = |bytes, element: Element| {
        if element.text {
            Value::Text(up_to_nul(bytes))
        } else {
            Value::Array(Array { bytes, element, order })
        }
    };
    match place {
        Place::Int { offset, size, signed } => {
            let begin = offset as usize;
            Some(number(data.get(begin..begin.checked_add(usize::from(size))?)?, signed, order))
        }
        Place::Array { offset, size, element } => {
            let begin = offset as usize;
            let end = if size == 0 { data.len() } else { begin.checked_add(size as usize)? };
            Some(array(data.get(begin..end)?, element))
        }
        Place::DataLoc { offset, relative, element } => {
            let word = order.u32_at(data, offset as usize)?;
            let from = if relative { offset as usize + 4 } else { 0 };
            let begin = from + (word & 0xffff) as usize;
            Some(array(data.get(begin..begin + (word >> 16) as usize)?, element))
        }
        Place::Walked { .. } => None,
    }
}

/// All event classes of a trace.
#[derive(Clone, Debug, Default)]
pub struct Catalogue {
    classes: Vec<EventClass>,
    by_name: HashMap<String, Vec<u32>>,
}

impl Catalogue {
    /// Adds a class and returns its index.
    pub fn add(&mut self, class: EventClass) -> u32 {
        let index = self.classes.len() as u32;
        self.by_name.entry(class.name.clone()).or_default().push(index);
        if !class.system.is_empty() {
            self.by_name.entry(class.full_name()).or_default().push(index);
        }
        self.classes.push(class);
        index
    }

    /// The class with this index.
    #[must_use]
    #[inline]
    pub fn get(&self, index: u32) -> Option<&EventClass> {
        self.classes.get(index as usize)
    }

    /// Indices of all classes of this name, with or without the system (`sched_switch`, `sched:sched_switch`).
    #[must_use]
    pub fn find(&self, name: &str) -> &[u32] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// All classes, by index.
    #[must_use]
    pub fn classes(&self) -> &[EventClass] {
        &self.classes
    }
}

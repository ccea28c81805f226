//! Types of CTF fields, as metadata declare them.

use std::sync::Arc;

use super::super::bytes::Order;

/// A declared type; shared if the metadata share it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Type {
    Integer(Integer),
    /// Only binary32 and binary64 are read as numbers.
    Float {
        bits: u32,
        align: u32,
        order: Order,
    },
    /// An integer with labels.
    Enum {
        container: Integer,
        labels: Arc<Vec<(String, i128, i128)>>,
    },
    Text,
    /// `align` is already that of the widest field, or more.
    Struct {
        align: u32,
        fields: Arc<Vec<(String, Type)>>,
    },
    Variant {
        tag: Option<String>,
        options: Arc<Vec<(String, Type)>>,
    },
    Array {
        element: Arc<Type>,
        length: u64,
    },
    Sequence {
        element: Arc<Type>,
        length: String,
    },
}

/// An integer of 1 to 64 bits.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Integer {
    pub bits: u32,
    pub align: u32,
    pub signed: bool,
    pub order: Order,
    /// A character: arrays of it are texts.
    pub text: bool,
    /// Name of the clock whose time it is.
    pub clock: Option<String>,
}

impl Type {
    /// Alignment in bits.
    pub fn align(&self) -> u32 {
        match self {
            Type::Integer(integer) | Type::Enum { container: integer, .. } => integer.align,
            Type::Float { align, .. } => *align,
            Type::Text => 8,
            Type::Struct { align, .. } => *align,
            // A variant has the alignment of its selected option.
            Type::Variant { .. } => 1,
            Type::Array { element, .. } | Type::Sequence { element, .. } => element.align(),
        }
    }
}

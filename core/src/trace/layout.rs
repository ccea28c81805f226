//! Declared types, compiled for a walk over their bits.
//!
//! Lengths of sequences and tags of variants refer to earlier integers; each such integer gets a slot, in which a walk
//! keeps its value. Everything with a name is a numbered leaf: integers, floats, texts and whole arrays.

pub(super) mod anchors;
pub(super) mod walk;

use self::anchors::Anchors;
use self::walk::{packed_bits, PastEnd, Walk};
use super::bytes::Order;
use super::value::Value;

/// Maximum number of integers that lengths and tags of one layout may refer to.
pub(super) const SLOTS: usize = 32;
pub(super) const NO_SLOT: u8 = u8::MAX;

/// Role of an integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Plain,
    /// `id` of an event header.
    Id,
    /// Time.
    Clock,
}

/// A compiled type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Int { bits: u8, align: u32, signed: bool, order: Order, role: Role, slot: u8, text: bool },
    Float { bits: u8, align: u32, order: Order },
    Text,
    Struct { align: u32, parts: Vec<Part> },
    Variant { tag: u8, options: Vec<(Vec<(i128, i128)>, Part)> },
    Array { align: u32, element: Box<Node>, length: Length },
}

/// A node with the numbers of the leaves in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(super) node: Node,
    pub(super) first_leaf: u16,
    pub(super) end_leaf: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Fixed(u64),
    Slot(u8),
}

/// A sequence of structs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    pub(super) parts: Vec<Part>,
    /// The fast path, if there is one.
    pub(super) anchors: Option<Anchors>,
    /// An integer is a time or an id, or is referred to: a walk must read all integers then.
    pub(super) has_roles: bool,
    /// Name of each leaf.
    pub leaves: Vec<String>,
}

impl Layout {
    /// Reads leaf `leaf` of the structs that start at `bit`.
    pub fn value<'a>(&self, leaf: u16, data: &'a [u8], bit: u64) -> Option<Value<'a>> {
        if let (Some(anchors), 0) = (&self.anchors, bit % 8) {
            return anchors.value(leaf, data, (bit / 8) as usize);
        }
        let mut walk = Walk::new(data, bit);
        for part in &self.parts {
            if (part.first_leaf..part.end_leaf).contains(&leaf) {
                return walk.leaf(part, leaf);
            }
            walk.over(&part.node).ok()?;
        }
        None
    }

    /// Walks over the whole layout.
    pub fn over(&self, walk: &mut Walk<'_>) -> Result<(), PastEnd> {
        if let (Some(anchors), 0, false) = (&self.anchors, walk.bit % 8, self.has_roles) {
            walk.bit = 8 * anchors.end(walk.data, (walk.bit / 8) as usize)? as u64;
            return Ok(());
        }
        self.parts.iter().try_for_each(|part| walk.over(&part.node))
    }

    /// The first bit after the layout, if it starts at `bit`.
    #[inline]
    pub fn end(&self, data: &[u8], bit: u64) -> Result<u64, PastEnd> {
        if let (Some(anchors), 0, false) = (&self.anchors, bit % 8, self.has_roles) {
            return Ok(8 * anchors.end(data, (bit / 8) as usize)? as u64);
        }
        let mut walk = Walk::new(data, bit);
        self.over(&mut walk)?;
        Ok(walk.bit)
    }

    /// Leaf by name.
    pub fn find(&self, name: &str) -> Option<u16> {
        self.leaves.iter().position(|leaf| leaf == name).map(|index| index as u16)
    }

    /// Offset of each leaf before the first part of variable length, and the total length if there is none. Only for
    /// layouts that start at a byte.
    pub fn fixed(&self) -> (Vec<(u64, &Node)>, Option<u64>) {
        let mut places = Vec::new();
        let mut bit = Some(0);
        for part in &self.parts {
            bit = bit.and_then(|bit| fixed_part(&part.node, bit, &mut places));
        }
        (places, bit)
    }

    /// Whether it always ends at a byte boundary.
    pub fn ends_at_byte(&self) -> bool {
        fn whole(node: &Node) -> bool {
            match node {
                Node::Int { bits, align, .. } | Node::Float { bits, align, .. } => {
                    bits % 8 == 0 && align % 8 == 0
                }
                Node::Text => true,
                Node::Struct { parts, .. } => parts.iter().all(|part| whole(&part.node)),
                Node::Variant { options, .. } => options.iter().all(|(_, part)| whole(&part.node)),
                Node::Array { element, .. } => whole(element),
            }
        }
        // LTTng's compact header is 5 + 27 bits, or 5 bits and then bytes.
        fn compact(node: &Node) -> bool {
            let Node::Struct { align, parts } = node else { return false };
            let [id, variant] = parts.as_slice() else { return false };
            let Node::Variant { options, .. } = &variant.node else { return false };
            let short = |node: &Node| {
                matches!(node, Node::Struct { align: 1, parts }
                    if matches!(parts.as_slice(), [Part { node: Node::Int { bits: 27, align: 1, .. }, .. }]))
            };
            align % 8 == 0
                && matches!(id.node, Node::Int { bits: 5, align: 1, .. })
                && options.iter().all(|(_, part)| short(&part.node) || whole(&part.node))
        }
        self.parts.iter().all(|part| whole(&part.node) || compact(&part.node))
    }
}

/// Adds the places of the leaves in `node`, which starts at `bit`; returns its end, if that is fixed.
fn fixed_part<'n>(node: &'n Node, bit: u64, places: &mut Vec<(u64, &'n Node)>) -> Option<u64> {
    let aligned = |align: u32| (align <= 8).then(|| bit.next_multiple_of(u64::from(align)));
    match node {
        Node::Int { bits, align, .. } | Node::Float { bits, align, .. } => {
            let begin = aligned(*align)?;
            places.push((begin, node));
            Some(begin + u64::from(*bits))
        }
        Node::Struct { align, parts } => {
            let begin = aligned(*align)?;
            parts.iter().try_fold(begin, |bit, part| fixed_part(&part.node, bit, places))
        }
        Node::Array { align, element, length: Length::Fixed(count) } => {
            let begin = aligned(*align)?;
            let end = begin.checked_add(count.checked_mul(packed_bits(element)?)?)?;
            places.push((begin, node));
            Some(end)
        }
        Node::Text | Node::Variant { .. } | Node::Array { .. } => None,
    }
}

//! Declared types compiled to what is needed to walk over their bits.
//!
//! Lengths of sequences and tags of variants refer to integers met before; each such integer gets a slot, and a walk
//! keeps their values. Everything a name can reach is a leaf with a number: integers, floats, texts and whole arrays.

use super::super::bytes::Order;
use super::super::catalogue::{Array, Element, Value};
use super::super::source::Damage;
use super::types::{Integer, Type};

/// Most integers that lengths and tags of one layout may refer to.
const SLOTS: usize = 32;
const NO_SLOT: u8 = u8::MAX;

/// What an integer is beside its value.
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
    node: Node,
    first_leaf: u16,
    end_leaf: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Length {
    Fixed(u64),
    Slot(u8),
}

/// Some structs one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Layout {
    parts: Vec<Part>,
    /// Name of each leaf.
    pub leaves: Vec<String>,
}

/// The past end, as the only way a walk can fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PastEnd;

/// A walk over bits.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    pub data: &'a [u8],
    /// Next bit.
    pub bit: u64,
    slots: [u64; SLOTS],
    /// Value of the last integer of role [`Role::Id`].
    pub id: Option<u64>,
    /// Value and width of the last integer of role [`Role::Clock`].
    pub clock: Option<(u64, u8)>,
}

impl<'a> Walk<'a> {
    pub fn new(data: &'a [u8], bit: u64) -> Self {
        Walk { data, bit, slots: [0; SLOTS], id: None, clock: None }
    }

    fn align(&mut self, align: u32) {
        let mask = u64::from(align) - 1;
        self.bit = (self.bit + mask) & !mask;
    }

    fn integer(&mut self, bits: u8, order: Order) -> Result<u64, PastEnd> {
        let begin = (self.bit / 8) as usize;
        let value = if self.bit.is_multiple_of(8) && bits.is_multiple_of(8) {
            let bytes = self.data.get(begin..begin + usize::from(bits / 8)).ok_or(PastEnd)?;
            order.unsigned(bytes)
        } else {
            let end = (self.bit + u64::from(bits)).div_ceil(8) as usize;
            bit_field(self.data.get(begin..end).ok_or(PastEnd)?, (self.bit % 8) as u32, bits.into(), order)
        };
        self.bit += u64::from(bits);
        Ok(value)
    }

    fn advance(&mut self, bits: u64) -> Result<(), PastEnd> {
        let end = self.bit.checked_add(bits).ok_or(PastEnd)?;
        if end > self.data.len() as u64 * 8 {
            return Err(PastEnd);
        }
        self.bit = end;
        Ok(())
    }

    fn text(&mut self) -> Result<&'a [u8], PastEnd> {
        self.align(8);
        let rest = self.data.get((self.bit / 8) as usize..).ok_or(PastEnd)?;
        let len = rest.iter().position(|&byte| byte == 0).ok_or(PastEnd)?;
        self.bit += 8 * (len as u64 + 1);
        Ok(&rest[..len])
    }

    /// Goes over `node`, keeping what later nodes refer to.
    fn over(&mut self, node: &Node) -> Result<(), PastEnd> {
        match node {
            Node::Int { bits, align, signed, order, role, slot, .. } => {
                self.align(*align);
                if *slot == NO_SLOT && *role == Role::Plain {
                    return self.advance(u64::from(*bits));
                }
                let value = self.integer(*bits, *order)?;
                match role {
                    Role::Id => self.id = Some(value),
                    Role::Clock => self.clock = Some((value, *bits)),
                    Role::Plain => {}
                }
                if let Some(kept) = self.slots.get_mut(usize::from(*slot)) {
                    *kept = if *signed { sign_extend(value, *bits) as u64 } else { value };
                }
                Ok(())
            }
            Node::Float { bits, align, .. } => {
                self.align(*align);
                self.advance(u64::from(*bits))
            }
            Node::Text => self.text().map(|_| ()),
            Node::Struct { align, parts } => {
                self.align(*align);
                parts.iter().try_for_each(|part| self.over(&part.node))
            }
            Node::Variant { tag, options } => {
                let option = self.option(*tag, options).ok_or(PastEnd)?;
                self.over(&option.node)
            }
            Node::Array { align, element, length } => {
                self.align(*align);
                let count = self.length(*length);
                match packed_bits(element) {
                    Some(bits) => self.advance(count.checked_mul(bits).ok_or(PastEnd)?),
                    None => self.over_each(element, count),
                }
            }
        }
    }

    fn over_each(&mut self, element: &Node, count: u64) -> Result<(), PastEnd> {
        for _ in 0..count {
            let before = self.bit;
            self.over(element)?;
            // Elements of no size: any number of them is as long as one.
            if self.bit == before {
                break;
            }
        }
        Ok(())
    }

    fn length(&self, length: Length) -> u64 {
        match length {
            Length::Fixed(count) => count,
            Length::Slot(slot) => self.slots.get(usize::from(slot)).copied().unwrap_or(0),
        }
    }

    fn option<'n>(&self, tag: u8, options: &'n [(Vec<(i128, i128)>, Part)]) -> Option<&'n Part> {
        let value = self.slots.get(usize::from(tag)).copied()?;
        // Ranges of a signed tag are compared as signed numbers.
        let holds = |&(low, high): &(i128, i128)| {
            let value = if low < 0 { i128::from(value as i64) } else { i128::from(value) };
            (low..=high).contains(&value)
        };
        options.iter().find(|(ranges, _)| ranges.iter().any(holds)).map(|(_, part)| part)
    }

    /// Goes to leaf `leaf` inside `part` and reads it; `None` where the variant turned out another way.
    fn leaf(&mut self, part: &Part, leaf: u16) -> Option<Value<'a>> {
        match &part.node {
            Node::Struct { align, parts } => {
                self.align(*align);
                for part in parts {
                    if (part.first_leaf..part.end_leaf).contains(&leaf) {
                        return self.leaf(part, leaf);
                    }
                    self.over(&part.node).ok()?;
                }
                None
            }
            Node::Variant { tag, options } => {
                let option = self.option(*tag, options)?;
                (option.first_leaf..option.end_leaf).contains(&leaf).then(|| self.leaf(option, leaf))?
            }
            node => self.value(node),
        }
    }

    fn value(&mut self, node: &Node) -> Option<Value<'a>> {
        match node {
            Node::Int { bits, align, signed, order, .. } => {
                self.align(*align);
                let value = self.integer(*bits, *order).ok()?;
                Some(if *signed { Value::Signed(sign_extend(value, *bits)) } else { Value::Unsigned(value) })
            }
            Node::Float { bits, align, order } => {
                self.align(*align);
                let raw = self.integer((*bits).min(64), *order).ok()?;
                match bits {
                    32 => Some(Value::Float(f32::from_bits(raw as u32).into())),
                    64 => Some(Value::Float(f64::from_bits(raw))),
                    _ => None,
                }
            }
            Node::Text => self.text().ok().map(Value::Text),
            Node::Array { align, element, length } => {
                self.align(*align);
                let count = self.length(*length);
                let begin = (self.bit / 8) as usize;
                let byte_aligned = self.bit.is_multiple_of(8);
                self.advance(count.checked_mul(packed_bits(element)?)?).ok()?;
                let bytes = self.data.get(begin..(self.bit / 8) as usize)?;
                array_value(element, bytes).filter(|_| byte_aligned)
            }
            Node::Struct { .. } | Node::Variant { .. } => None,
        }
    }
}

fn array_value<'a>(element: &Node, bytes: &'a [u8]) -> Option<Value<'a>> {
    match element {
        Node::Int { text: true, .. } => Some(Value::Text(super::super::catalogue::up_to_nul(bytes))),
        Node::Int { bits, signed, order, .. } if bits % 8 == 0 => {
            let element = Element { size: bits / 8, signed: *signed, text: false };
            Some(Value::Array(Array { bytes, element, order: *order }))
        }
        _ => None,
    }
}

/// Bits of one element, where elements stand without gaps: then an array need not be walked.
fn packed_bits(element: &Node) -> Option<u64> {
    match element {
        Node::Int { bits, align, slot: NO_SLOT, role: Role::Plain, .. } => {
            (u32::from(*bits) % align == 0).then_some(u64::from(*bits))
        }
        _ => None,
    }
}

fn sign_extend(value: u64, bits: u8) -> i64 {
    let unused = 64 - u32::from(bits.clamp(1, 64));
    ((value << unused) as i64) >> unused
}

/// `bits` bits from bit `skip` of `bytes` on. Little-endian fields begin at the least significant bit of a byte.
fn bit_field(bytes: &[u8], skip: u32, bits: u32, order: Order) -> u64 {
    let all = match order {
        Order::Little => bytes.iter().rev().fold(0u128, |sum, &byte| (sum << 8) | u128::from(byte)) >> skip,
        Order::Big => {
            let sum = bytes.iter().fold(0u128, |sum, &byte| (sum << 8) | u128::from(byte));
            sum >> (bytes.len() as u32 * 8 - skip - bits)
        }
    };
    (all & ((1u128 << bits) - 1)) as u64
}

impl Layout {
    /// Reads leaf `leaf` of the structs that begin at `bit`.
    pub fn value<'a>(&self, leaf: u16, data: &'a [u8], bit: u64) -> Option<Value<'a>> {
        let mut walk = Walk::new(data, bit);
        for part in &self.parts {
            if (part.first_leaf..part.end_leaf).contains(&leaf) {
                return walk.leaf(part, leaf);
            }
            walk.over(&part.node).ok()?;
        }
        None
    }

    /// Goes over all of it.
    pub fn over(&self, walk: &mut Walk<'_>) -> Result<(), PastEnd> {
        self.parts.iter().try_for_each(|part| walk.over(&part.node))
    }

    /// Leaf by name.
    pub fn find(&self, name: &str) -> Option<u16> {
        self.leaves.iter().position(|leaf| leaf == name).map(|index| index as u16)
    }

    /// From the first struct on: byte offset of each leaf, as long as nothing before it has a changing length, and
    /// the length of all if nothing has. Only for layouts that begin at a byte.
    pub fn fixed(&self) -> (Vec<(u64, &Node)>, Option<u64>) {
        let mut places = Vec::new();
        let mut bit = Some(0);
        for part in &self.parts {
            bit = bit.and_then(|bit| fixed_part(&part.node, bit, &mut places));
        }
        (places, bit)
    }

    /// Whether it ends at a byte whatever it contains.
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

/// Places of the leaves in `node`, which begins at `bit`; gives where it ends, if that is fixed.
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

/// Compiles structs into layouts; counts nodes, so that metadata that repeat themselves stay finite.
pub(super) struct Compiler {
    /// Nodes that may still be made.
    budget: usize,
    parts: Vec<Part>,
    leaves: Vec<String>,
    /// Names in reach: path, and the integer's number.
    names: Vec<(String, usize)>,
    /// Labels of the enumerations among the integers, by number.
    labels: Vec<Option<Labels>>,
    /// Integers that are referred to, in the order of their slots.
    referred: Vec<usize>,
    integers: usize,
}

type Labels = std::sync::Arc<Vec<(String, i128, i128)>>;

impl Compiler {
    pub fn new(budget: usize) -> Self {
        Compiler {
            budget,
            parts: Vec::new(),
            leaves: Vec::new(),
            names: Vec::new(),
            labels: Vec::new(),
            referred: Vec::new(),
            integers: 0,
        }
    }

    /// Adds a struct; its fields are called by their names with `suffix` behind them.
    pub fn add(&mut self, declared: &Type, suffix: &str, header: bool) -> Result<(), Damage> {
        let part = self.part(declared, "", suffix, header)?;
        self.parts.push(part);
        Ok(())
    }

    /// The layout, and what is left of the budget.
    pub fn finish(mut self) -> (Layout, usize) {
        let mut numbered = 0;
        for part in &mut self.parts {
            number_slots(&mut part.node, &self.referred, &mut numbered);
        }
        (Layout { parts: self.parts, leaves: self.leaves }, self.budget)
    }

    fn part(&mut self, declared: &Type, path: &str, suffix: &str, header: bool) -> Result<Part, Damage> {
        self.budget = self.budget.checked_sub(1).ok_or_else(|| broken("fields beyond measure"))?;
        let first_leaf = self.leaves.len() as u16;
        let node = match declared {
            Type::Struct { align, fields } => {
                let mut parts = Vec::new();
                for (name, field) in fields.iter() {
                    let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                    parts.push(self.part(field, &path, suffix, header)?);
                }
                Node::Struct { align: *align, parts }
            }
            Type::Variant { tag, options } => self.variant(tag.as_deref(), options, path, suffix, header)?,
            _ => {
                let node = self.leaf_node(declared, path, header)?;
                self.leaves.push(leaf_name(path, suffix));
                node
            }
        };
        let end_leaf = u16::try_from(self.leaves.len()).map_err(|_| broken("too many fields"))?;
        Ok(Part { node, first_leaf, end_leaf })
    }

    fn leaf_node(&mut self, declared: &Type, path: &str, header: bool) -> Result<Node, Damage> {
        match declared {
            Type::Integer(integer) => Ok(self.integer(integer, None, path, header)),
            Type::Enum { container, labels } => {
                Ok(self.integer(container, Some(labels.clone()), path, header))
            }
            Type::Float { bits, align, order } => {
                Ok(Node::Float { bits: (*bits).min(128) as u8, align: *align, order: *order })
            }
            Type::Text => Ok(Node::Text),
            Type::Array { element, length } => {
                let length = Length::Fixed(*length);
                let align = element.align();
                Ok(Node::Array { align, element: Box::new(self.element(element)?), length })
            }
            Type::Sequence { element, length } => {
                let slot = self.refer(length, path)?.0;
                let align = element.align();
                Ok(Node::Array {
                    align,
                    element: Box::new(self.element(element)?),
                    length: Length::Slot(slot),
                })
            }
            Type::Struct { .. } | Type::Variant { .. } => Err(broken("a struct where a value is meant")),
        }
    }

    /// An element of an array: what is inside it has no names of its own.
    fn element(&mut self, element: &Type) -> Result<Node, Damage> {
        let leaves = self.leaves.len();
        let part = self.part(element, "[]", "", false)?;
        self.leaves.truncate(leaves);
        Ok(part.node)
    }

    fn integer(&mut self, integer: &Integer, labels: Option<Labels>, path: &str, header: bool) -> Node {
        let number = self.integers;
        self.integers += 1;
        self.names.push((path.to_owned(), number));
        self.labels.push(labels);
        let last = path.rsplit('.').next().unwrap_or(path);
        let role = match (&integer.clock, header && last == "id") {
            (Some(_), _) => Role::Clock,
            (None, true) => Role::Id,
            (None, false) => Role::Plain,
        };
        Node::Int {
            bits: integer.bits as u8,
            align: integer.align,
            signed: integer.signed,
            order: integer.order,
            role,
            slot: NO_SLOT,
            text: integer.text,
        }
    }

    /// The slot of what `reference` names, seen from `path`: the innermost struct first, then outwards.
    fn refer(&mut self, reference: &str, path: &str) -> Result<(u8, Option<Labels>), Damage> {
        let absolute = ["event.fields.", "event.context.", "stream.event.context.", "stream.event.header."];
        let reference = absolute.iter().find_map(|root| reference.strip_prefix(root)).unwrap_or(reference);
        let mut scope = path;
        let number = loop {
            scope = scope.rsplit_once('.').map_or("", |(outer, _)| outer);
            let full = if scope.is_empty() { reference.to_owned() } else { format!("{scope}.{reference}") };
            if let Some((_, number)) = self.names.iter().rev().find(|(name, _)| *name == full) {
                break *number;
            }
            if scope.is_empty() {
                return Err(broken(&format!("'{reference}' is not a field before its use")));
            }
        };
        let slot = match self.referred.iter().position(|&known| known == number) {
            Some(slot) => slot,
            None => {
                self.referred.push(number);
                self.referred.len() - 1
            }
        };
        if slot >= SLOTS {
            return Err(broken("too many lengths and tags in one event"));
        }
        Ok((slot as u8, self.labels[number].clone()))
    }

    fn variant(
        &mut self,
        tag: Option<&str>,
        options: &[(String, Type)],
        path: &str,
        suffix: &str,
        header: bool,
    ) -> Result<Node, Damage> {
        let tag = tag.ok_or_else(|| broken("a variant without tag"))?;
        let (slot, labels) = self.refer(tag, path)?;
        let labels = labels.ok_or_else(|| broken("a variant whose tag is no enumeration"))?;
        let mut compiled = Vec::new();
        for (name, option) in options {
            // An underscore protects labels that are keywords (CTF 1.8.3, 7.1).
            let plain = name.strip_prefix('_').unwrap_or(name);
            let means = |label: &str| label == name || label == plain;
            let ranges = labels.iter().filter(|(label, ..)| means(label)).map(|&(_, low, high)| (low, high));
            let ranges: Vec<_> = ranges.collect();
            let part = self.part(option, &format!("{path}.{name}"), suffix, header)?;
            compiled.push((ranges, part));
        }
        Ok(Node::Variant { tag: slot, options: compiled })
    }
}

/// `_prev_comm` is called `prev_comm`; fields of contexts say so at their end, as `vtid_context`.
fn leaf_name(path: &str, suffix: &str) -> String {
    let plain = path.strip_prefix('_').unwrap_or(path);
    format!("{plain}{suffix}")
}

fn broken(what: &str) -> Damage {
    Damage::new(0, format!("metadata: {what}"))
}

/// Integers are numbered in the order of compilation, which is that of the nodes.
fn number_slots(node: &mut Node, referred: &[usize], numbered: &mut usize) {
    match node {
        Node::Int { slot, .. } => {
            if let Some(index) = referred.iter().position(|number| number == numbered) {
                *slot = index as u8;
            }
            *numbered += 1;
        }
        Node::Struct { parts, .. } => {
            parts.iter_mut().for_each(|part| number_slots(&mut part.node, referred, numbered))
        }
        Node::Variant { options, .. } => {
            options.iter_mut().for_each(|(_, part)| number_slots(&mut part.node, referred, numbered));
        }
        Node::Array { element, .. } => number_slots(element, referred, numbered),
        Node::Float { .. } | Node::Text => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_fields_begin_at_the_end_that_their_order_says() {
        // 5 bits 0x1f, then 27 bits 0x1234567, in both orders.
        let little = (0x1fu32 | (0x0123_4567 << 5)).to_le_bytes();
        assert_eq!(bit_field(&little[..1], 0, 5, Order::Little), 0x1f);
        assert_eq!(bit_field(&little, 5, 27, Order::Little), 0x0123_4567);
        let big = ((0x1fu32 << 27) | 0x0123_4567).to_be_bytes();
        assert_eq!(bit_field(&big[..1], 0, 5, Order::Big), 0x1f);
        assert_eq!(bit_field(&big, 5, 27, Order::Big), 0x0123_4567);
        assert_eq!(sign_extend(0x1f, 5), -1);
    }
}

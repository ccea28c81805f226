//! A walk over the bits of a compiled layout: the general path, for every layout.

use super::{Length, Node, Part, Role, NO_SLOT, SLOTS};
use crate::trace::bytes::{nul, Order};
use crate::trace::value::{Array, Element, Value};

/// The data end too early: the only way in which a walk can fail.
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

    pub fn align(&mut self, align: u32) {
        let mask = u64::from(align) - 1;
        self.bit = (self.bit + mask) & !mask;
    }

    pub fn integer(&mut self, bits: u8, order: Order) -> Result<u64, PastEnd> {
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
        let len = nul(rest).ok_or(PastEnd)?;
        self.bit += 8 * (len as u64 + 1);
        Ok(&rest[..len])
    }

    /// Walks over `node`, and keeps the values that later nodes refer to.
    pub fn over(&mut self, node: &Node) -> Result<(), PastEnd> {
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
            // Elements of size 0: any number of them has no length.
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

    /// Walks to leaf `leaf` inside `part` and reads it; `None` if the variant has another option selected.
    pub fn leaf(&mut self, part: &Part, leaf: u16) -> Option<Value<'a>> {
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

    pub fn value(&mut self, node: &Node) -> Option<Value<'a>> {
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
        Node::Int { text: true, .. } => Some(Value::Text(crate::trace::value::up_to_nul(bytes))),
        Node::Int { bits, signed, order, .. } if bits % 8 == 0 => {
            let element = Element { size: bits / 8, signed: *signed, text: false };
            Some(Value::Array(Array { bytes, element, order: *order }))
        }
        _ => None,
    }
}

/// Bits of one element, if elements have no gaps: then an array need not be walked.
pub(super) fn packed_bits(element: &Node) -> Option<u64> {
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

/// `bits` bits from bit `skip` of `bytes` on. Little-endian fields start at the least significant bit of a byte.
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

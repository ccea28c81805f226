//! A fast path for layouts of whole bytes and texts only, such as most events of LTTng and perf.
//!
//! Between two texts everything has a fixed offset: a leaf is found by skipping the texts before it, without reading
//! the other fields. (A walk from the first field for each field would be quadratic.)

use super::walk::{packed_bits, PastEnd, Walk};
use super::{Length, Node, Part};
use crate::trace::bytes::nul;
use crate::trace::value::Value;

/// Locations of the texts and leaves of a layout.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::trace) struct Anchors {
    /// Bytes from the start, or from the previous text, to each text.
    gaps: Vec<usize>,
    /// Bytes after the last text.
    tail: usize,
    leaves: Vec<Anchored>,
}

/// A leaf: number of texts before it, and of bytes after the last of these.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Anchored {
    texts: usize,
    behind: usize,
    node: Node,
}

impl Anchors {
    /// `None` if a part is not whole bytes or a text.
    pub fn of(parts: &[Part]) -> Option<Anchors> {
        let mut anchors = Anchors::default();
        parts.iter().try_for_each(|part| anchors.add(&part.node))?;
        Some(anchors)
    }

    fn add(&mut self, node: &Node) -> Option<()> {
        let len = match node {
            Node::Struct { align: ..=8, parts } => {
                return parts.iter().try_for_each(|part| self.add(&part.node))
            }
            Node::Int { bits, align: ..=8, .. } | Node::Float { bits, align: ..=8, .. } => {
                bits.is_multiple_of(8).then_some(usize::from(bits / 8))?
            }
            Node::Array { align: ..=8, element, length: Length::Fixed(count) } => {
                let bits = packed_bits(element).filter(|bits| bits.is_multiple_of(8))?;
                usize::try_from(count.checked_mul(bits / 8)?).ok()?
            }
            Node::Text => 0,
            _ => return None,
        };
        self.leaves.push(Anchored { texts: self.gaps.len(), behind: self.tail, node: node.clone() });
        self.tail = self.tail.checked_add(len)?;
        if *node == Node::Text {
            self.gaps.push(std::mem::take(&mut self.tail));
        }
        Some(())
    }

    /// The first byte after `texts` texts, from byte `begin`.
    #[inline]
    fn behind(&self, texts: usize, data: &[u8], begin: usize) -> Option<usize> {
        self.gaps.get(..texts)?.iter().try_fold(begin, |at, gap| {
            let text = at.checked_add(*gap)?;
            let len = nul(data.get(text..)?)?;
            Some(text + len + 1)
        })
    }

    /// The first byte after the layout.
    #[inline]
    pub fn end(&self, data: &[u8], begin: usize) -> Result<usize, PastEnd> {
        let end = self.behind(self.gaps.len(), data, begin).and_then(|at| at.checked_add(self.tail));
        end.filter(|&end| end <= data.len()).ok_or(PastEnd)
    }

    /// Reads leaf `leaf`.
    #[inline]
    pub fn value<'a>(&self, leaf: u16, data: &'a [u8], begin: usize) -> Option<Value<'a>> {
        let leaf = self.leaves.get(usize::from(leaf))?;
        let at = self.behind(leaf.texts, data, begin)?.checked_add(leaf.behind)?;
        match &leaf.node {
            Node::Int { bits, signed, order, .. } => {
                let bytes = data.get(at..at.checked_add(usize::from(bits / 8))?)?;
                Some(match signed {
                    true => Value::Signed(order.signed(bytes)),
                    false => Value::Unsigned(order.unsigned(bytes)),
                })
            }
            Node::Text => {
                let rest = data.get(at..)?;
                Some(Value::Text(&rest[..nul(rest)?]))
            }
            node => Walk::new(data, 8 * at as u64).value(node),
        }
    }
}

//! The header of an event, compiled: id and time in a few loads.
//!
//! Every event has one, so it dominates the cost of reading CTF. Two forms cover the known tracers: numbers at fixed
//! places (perf, barectf, our own), and LTTng's, whose first bits select a short or a long rest. Any other header, and
//! any in big-endian order, is walked.

use super::super::bytes::Order;
use crate::trace::layout::walk::{PastEnd, Walk};
use crate::trace::layout::{Layout, Node, Role, NO_SLOT};

/// Contents of a header, and the first bit after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Said {
    pub id: u64,
    /// Value of the clock, and its width.
    pub clock: Option<(u64, u8)>,
    pub end: u64,
}

/// Reader for the headers of one stream.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Header {
    Fixed { align: u32, rest: Fixed },
    Chosen { align: u32, tag: Bits, options: Vec<(Vec<(i128, i128)>, Fixed)> },
    Walked(Layout),
}

/// Numbers at fixed places, in bits from the start of the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Fixed {
    id: Option<Bits>,
    clock: Option<Bits>,
    /// Length in bits.
    len: u64,
}

/// An unsigned little-endian number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bits {
    first: u64,
    count: u8,
}

impl Default for Header {
    fn default() -> Self {
        Header::Fixed { align: 1, rest: Fixed::default() }
    }
}

impl Header {
    pub fn of(layout: Layout) -> Header {
        compiled(&layout).unwrap_or(Header::Walked(layout))
    }

    /// Whether it has a time.
    pub fn has_clock(&self) -> bool {
        match self {
            Header::Fixed { rest, .. } => rest.clock.is_some(),
            Header::Chosen { options, .. } => options.iter().any(|(_, rest)| rest.clock.is_some()),
            Header::Walked(_) => true,
        }
    }

    /// The header at `bit` of a packet.
    #[inline]
    pub fn read(&self, data: &[u8], bit: u64) -> Result<Said, PastEnd> {
        let aligned = |align: u32| bit.next_multiple_of(u64::from(align));
        match self {
            Header::Fixed { align, rest } => rest.read(data, aligned(*align)),
            Header::Chosen { align, tag, options } => {
                let begin = aligned(*align);
                let value = i128::from(tag.read(data, begin)?);
                let holds =
                    |ranges: &[(i128, i128)]| ranges.iter().any(|&(low, high)| low <= value && value <= high);
                let (_, rest) = options.iter().find(|(ranges, _)| holds(ranges)).ok_or(PastEnd)?;
                rest.read(data, begin)
            }
            Header::Walked(layout) => {
                let mut walk = Walk::new(data, bit);
                layout.over(&mut walk)?;
                Ok(Said { id: walk.id.unwrap_or(0), clock: walk.clock, end: walk.bit })
            }
        }
    }
}

impl Fixed {
    #[inline]
    fn read(&self, data: &[u8], begin: u64) -> Result<Said, PastEnd> {
        let end = begin + self.len;
        if end > 8 * data.len() as u64 {
            return Err(PastEnd);
        }
        let id = self.id.map_or(Ok(0), |bits| bits.read(data, begin))?;
        let clock = match self.clock {
            Some(bits) => Some((bits.read(data, begin)?, bits.count)),
            None => None,
        };
        Ok(Said { id, clock, end })
    }

    /// Adds the numbers of `node`, which starts at `self.len`; `None` if they have no fixed place.
    fn add(&mut self, node: &Node, widest: u32, slots: &mut Vec<(u8, Bits)>) -> Option<()> {
        match node {
            Node::Int { bits, align, signed: false, order: Order::Little, role, slot, .. }
                if *align <= widest =>
            {
                let first = self.len.next_multiple_of(u64::from(*align));
                let place = Bits { first, count: *bits };
                match role {
                    Role::Id => self.id = Some(place),
                    Role::Clock => self.clock = Some(place),
                    Role::Plain => {}
                }
                if *slot != NO_SLOT {
                    slots.push((*slot, place));
                }
                self.len = first + u64::from(*bits);
                Some(())
            }
            Node::Struct { align, parts } if *align <= widest => {
                self.len = self.len.next_multiple_of(u64::from(*align));
                parts.iter().try_for_each(|part| self.add(&part.node, widest, slots))
            }
            _ => None,
        }
    }
}

impl Bits {
    #[inline]
    fn read(self, data: &[u8], begin: u64) -> Result<u64, PastEnd> {
        let bit = begin + self.first;
        let (byte, skip) = ((bit / 8) as usize, (bit % 8) as u32);
        match data.get(byte..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(eight) if skip + u32::from(self.count) <= 64 => {
                let unused = 64 - u32::from(self.count.clamp(1, 64));
                Ok((u64::from_le_bytes(*eight) >> skip << unused) >> unused)
            }
            _ => Walk::new(data, bit).integer(self.count, Order::Little),
        }
    }
}

fn compiled(layout: &Layout) -> Option<Header> {
    let [top] = layout.parts.as_slice() else { return None };
    let Node::Struct { align, parts } = &top.node else { return None };
    let (mut rest, mut slots) = (Fixed::default(), Vec::new());
    for (index, part) in parts.iter().enumerate() {
        let Node::Variant { tag, options } = &part.node else {
            rest.add(&part.node, *align, &mut slots)?;
            continue;
        };
        if index + 1 != parts.len() {
            return None;
        }
        let (_, tag) = *slots.iter().find(|(slot, _)| slot == tag)?;
        let option = |(ranges, part): &(Vec<(i128, i128)>, crate::trace::layout::Part)| {
            let mut rest = rest.clone();
            rest.add(&part.node, *align, &mut Vec::new())?;
            Some((ranges.clone(), rest))
        };
        let options = options.iter().map(option).collect::<Option<Vec<_>>>()?;
        return Some(Header::Chosen { align: *align, tag, options });
    }
    Some(Header::Fixed { align: *align, rest })
}

#[cfg(test)]
mod tests {
    use super::super::compiler::Compiler;
    use super::super::tsdl;
    use super::*;

    /// As LTTng declares it: compact, then "large".
    const HEADERS: [&str; 2] = [
        "struct { enum : uint5_t { compact = 0 ... 30, extended = 31 } id; variant <id> {
           struct { uint27_clock_t timestamp; } compact;
           struct { uint32_t id; uint64_clock_t timestamp; } extended; } v; } align(8)",
        "struct { enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id; variant <id> {
           struct { uint32_clock_t timestamp; } compact;
           struct { uint32_t id; uint64_clock_t timestamp; } extended; } v; } align(8)",
    ];

    fn layout(header: &str, order: &str) -> Layout {
        let text = format!(
            "typealias integer {{ size = 5; align = 1; }} := uint5_t;
             typealias integer {{ size = 16; align = 8; }} := uint16_t;
             typealias integer {{ size = 32; align = 8; }} := uint32_t;
             typealias integer {{ size = 27; align = 1; map = clock.m.value; }} := uint27_clock_t;
             typealias integer {{ size = 32; align = 8; map = clock.m.value; }} := uint32_clock_t;
             typealias integer {{ size = 64; align = 8; map = clock.m.value; }} := uint64_clock_t;
             trace {{ major = 1; byte_order = {order}; }};
             stream {{ event.header := {header}; }};"
        );
        let (blocks, damage) = tsdl::parse(&text);
        assert_eq!(damage, None);
        let mut budget = 1000;
        let mut compiler = Compiler::new(&mut budget);
        compiler.add(blocks[1].type_of("event.header").unwrap(), "", true).unwrap();
        compiler.finish()
    }

    proptest::proptest! {
        /// Whatever the bytes: the short way says what the walk says.
        #[test]
        fn the_compiled_header_is_the_walked_one(data: Vec<u8>, bit in 0u64..40, which in 0usize..2) {
            let layout = layout(HEADERS[which], "le");
            let compiled = Header::of(layout.clone());
            let is_compiled = matches!(compiled, Header::Chosen { .. });
            proptest::prop_assert!(is_compiled);
            proptest::prop_assert_eq!(compiled.read(&data, bit), Header::Walked(layout).read(&data, bit));
        }
    }

    #[test]
    fn a_big_endian_header_is_walked() {
        assert!(matches!(Header::of(layout(HEADERS[0], "be")), Header::Walked(_)));
    }

    #[test]
    fn a_short_header_of_lttng_is_five_bits_and_27() {
        let word = (3u32 | 1000 << 5).to_le_bytes();
        let header = Header::of(layout(HEADERS[0], "le"));
        assert_eq!(header.read(&word, 0), Ok(Said { id: 3, clock: Some((1000, 27)), end: 32 }));
        assert_eq!(header.read(&word[..3], 0), Err(PastEnd));
    }
}

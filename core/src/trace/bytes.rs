//! A bounded reader over bytes of either byte order, with offsets in its errors.
//!
//! Every decoder uses this or `slice::get`: an index from a file cannot panic.

use super::item::Damage;

/// Number of bytes before the first NUL; eight at a time, because thread names are not much longer.
#[inline]
pub(crate) fn nul(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    let mut eights = bytes.chunks_exact(8);
    for (index, eight) in eights.by_ref().enumerate() {
        let word = eight.try_into().map_or(0, u64::from_le_bytes);
        // The lowest bit that this sets is in the first byte that is zero.
        let zeros = word.wrapping_sub(ONES) & !word & (ONES << 7);
        if zeros != 0 {
            return Some(8 * index + zeros.trailing_zeros() as usize / 8);
        }
    }
    let rest = eights.remainder();
    rest.iter().position(|&byte| byte == 0).map(|at| bytes.len() - rest.len() + at)
}

/// Byte order of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
}

impl Order {
    /// An unsigned number of `bytes.len()` ≤ 8 bytes; longer ones are cut to their first eight.
    #[must_use]
    #[inline]
    pub fn unsigned(self, bytes: &[u8]) -> u64 {
        match (self, bytes.len()) {
            (_, 1) => u64::from(bytes[0]),
            (Order::Little, 2) => u64::from(u16::from_le_bytes([bytes[0], bytes[1]])),
            (Order::Little, 4) => u64::from(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])),
            (Order::Little, 8) => u64::from_le_bytes([
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7],
            ]),
            (Order::Little, _) => {
                bytes.iter().take(8).rev().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
            }
            (Order::Big, _) => bytes.iter().take(8).fold(0, |sum, &byte| (sum << 8) | u64::from(byte)),
        }
    }

    /// A signed number, sign-extended from its width.
    #[must_use]
    #[inline]
    pub fn signed(self, bytes: &[u8]) -> i64 {
        let unused = 64 - 8 * bytes.len().clamp(1, 8) as u32;
        ((self.unsigned(bytes) << unused) as i64) >> unused
    }

    /// 32 bits at `at`; `None` past the end.
    #[must_use]
    #[inline]
    pub fn u32_at(self, bytes: &[u8], at: usize) -> Option<u32> {
        let four: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            Order::Little => u32::from_le_bytes(four),
            Order::Big => u32::from_be_bytes(four),
        })
    }

    /// 64 bits at `at`; `None` past the end.
    #[must_use]
    #[inline]
    pub fn u64_at(self, bytes: &[u8], at: usize) -> Option<u64> {
        let eight: [u8; 8] = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(match self {
            Order::Little => u64::from_le_bytes(eight),
            Order::Big => u64::from_be_bytes(eight),
        })
    }
}

/// Reads forward through `bytes`, which start at offset `base` of the file.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    bytes: &'a [u8],
    base: u64,
    at: usize,
    /// Byte order of numbers.
    pub order: Order,
}

impl<'a> Reader<'a> {
    /// A reader at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8], base: u64, order: Order) -> Self {
        Reader { bytes, base, at: 0, order }
    }

    /// Offset in the file.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.base + self.at as u64
    }

    /// Number of bytes left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// The next `len` bytes, which hold `what`.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn take(&mut self, len: u64, what: &'static str) -> Result<&'a [u8], Damage> {
        let end = usize::try_from(len).ok().and_then(|len| self.at.checked_add(len));
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at += bytes.len();
                Ok(bytes)
            }
            None => Err(Damage::new(
                self.offset(),
                format!("{what}: {len} bytes announced, {} there", self.left()),
            )),
        }
    }

    /// 8 bits.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u8(&mut self, what: &'static str) -> Result<u8, Damage> {
        Ok(self.take(1, what)?[0])
    }

    /// 16 bits.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u16(&mut self, what: &'static str) -> Result<u16, Damage> {
        let order = self.order;
        Ok(order.unsigned(self.take(2, what)?) as u16)
    }

    /// 32 bits.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u32(&mut self, what: &'static str) -> Result<u32, Damage> {
        let order = self.order;
        Ok(order.unsigned(self.take(4, what)?) as u32)
    }

    /// 64 bits.
    ///
    /// # Errors
    /// The bytes end before.
    pub fn u64(&mut self, what: &'static str) -> Result<u64, Damage> {
        let order = self.order;
        Ok(order.unsigned(self.take(8, what)?))
    }

    /// A text up to its NUL, which is consumed.
    ///
    /// # Errors
    /// There is no NUL.
    pub fn text(&mut self, what: &'static str) -> Result<&'a str, Damage> {
        let rest = &self.bytes[self.at..];
        let Some(len) = nul(rest) else {
            return Err(Damage::new(self.offset(), format!("{what}: text without end")));
        };
        let text = self.take(len as u64, what)?;
        self.at += 1;
        std::str::from_utf8(text).map_err(|_| Damage::new(self.offset(), format!("{what}: not a text")))
    }

    /// Exactly these bytes.
    ///
    /// # Errors
    /// The bytes differ.
    pub fn expect(&mut self, bytes: &[u8], what: &'static str) -> Result<(), Damage> {
        let offset = self.offset();
        if self.take(bytes.len() as u64, what)? == bytes {
            Ok(())
        } else {
            Err(Damage::new(offset, format!("{what} is not there")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_their_sign_and_order() {
        assert_eq!(Order::Little.signed(&[0xff, 0xff]), -1);
        assert_eq!(Order::Big.signed(&[0xff, 0xfe]), -2);
        assert_eq!(Order::Big.unsigned(&[1, 2, 3]), 0x01_02_03);
        assert_eq!(Order::Little.unsigned(&[1, 2, 3]), 0x03_02_01);
        assert_eq!(Order::Little.signed(&[0, 0, 0, 0, 0, 0, 0, 0x80]), i64::MIN);
    }

    #[test]
    fn a_missing_byte_is_said_with_its_offset() {
        let mut reader = Reader::new(&[1, 2, 3], 100, Order::Little);
        assert_eq!(reader.u16("size"), Ok(0x0201));
        let damage = reader.u32("count").unwrap_err();
        assert_eq!(damage.offset, 102);
        assert_eq!(damage.what, "count: 4 bytes announced, 1 there");
    }

    proptest::proptest! {
        #[test]
        fn the_first_nul_is_found(bytes in proptest::collection::vec(0u8..4, 0..40), high: bool) {
            let bytes: Vec<u8> = bytes.iter().map(|&b| if high && b > 0 { b | 0x80 } else { b }).collect();
            proptest::prop_assert_eq!(nul(&bytes), bytes.iter().position(|&byte| byte == 0));
        }
    }
}

//! Values of fields, independent of the format.

use std::fmt;

use super::bytes::{nul, Order};

/// Type of the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Element {
    /// Bytes per element.
    pub size: u8,
    /// Two's complement.
    pub signed: bool,
    /// Characters: the array is a text that ends at its first NUL.
    pub text: bool,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    /// An unsigned number or a pointer.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// A floating-point number.
    Float(f64),
    /// A text up to its NUL; bytes, because UTF-8 is not guaranteed.
    Text(&'a [u8]),
    /// An array of numbers.
    Array(Array<'a>),
}

/// An array of numbers, as recorded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Array<'a> {
    /// All their bytes.
    pub bytes: &'a [u8],
    /// Type of the elements.
    pub element: Element,
    /// Their byte order.
    pub order: Order,
}

impl<'a> Array<'a> {
    /// The element `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<Value<'a>> {
        let size = usize::from(self.element.size.max(1));
        let begin = index.checked_mul(size)?;
        let bytes = self.bytes.get(begin..begin.checked_add(size)?)?;
        Some(number(bytes, self.element.signed, self.order))
    }

    /// Number of whole elements.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len() / usize::from(self.element.size.max(1))
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

pub(super) fn number<'a>(bytes: &[u8], signed: bool, order: Order) -> Value<'a> {
    if signed {
        Value::Signed(order.signed(bytes))
    } else {
        Value::Unsigned(order.unsigned(bytes))
    }
}

impl Value<'_> {
    /// The number as 64 bits, negative ones in two's complement; `None` if it is not an integer.
    #[must_use]
    pub fn bits(&self) -> Option<u64> {
        match *self {
            Value::Unsigned(number) => Some(number),
            Value::Signed(number) => Some(number as u64),
            _ => None,
        }
    }

    /// Whether `text` from the user equals this value: numbers in decimal or with 0x, texts literally.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        match *self {
            Value::Unsigned(number) => parse_number(text).is_some_and(|wanted| wanted == i128::from(number)),
            Value::Signed(number) => parse_number(text).is_some_and(|wanted| wanted == i128::from(number)),
            Value::Float(number) => text.parse::<f64>().is_ok_and(|wanted| wanted == number),
            Value::Text(bytes) => bytes == text.as_bytes(),
            Value::Array(_) => self.to_string() == text,
        }
    }
}

fn parse_number(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

impl fmt::Display for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unsigned(number) => write!(f, "{number}"),
            Value::Signed(number) => write!(f, "{number}"),
            Value::Float(number) => write!(f, "{number}"),
            Value::Text(bytes) => f.write_str(&String::from_utf8_lossy(bytes)),
            Value::Array(array) => {
                f.write_str("[")?;
                for index in 0..array.len() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(f, "{separator}{}", array.get(index).unwrap_or(Value::Unsigned(0)))?;
                }
                f.write_str("]")
            }
        }
    }
}

/// The bytes before the first NUL.
#[must_use]
#[inline]
pub fn up_to_nul(bytes: &[u8]) -> &[u8] {
    // Thread names have this size, and every switch has two: all bytes are tested at once. The lowest zero byte is
    // found exactly (Mycroft 1987); borrows only reach higher bytes.
    if let Ok(name) = <[u8; 16]>::try_from(bytes) {
        const LOW: u128 = u128::MAX / 0xff;
        let name = u128::from_le_bytes(name);
        let zeros = name.wrapping_sub(LOW) & !name & (LOW << 7);
        return &bytes[..(zeros.trailing_zeros() / 8) as usize];
    }
    let len = nul(bytes).unwrap_or(bytes.len());
    &bytes[..len]
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn a_name_ends_at_its_first_nul(bytes in proptest::collection::vec(proptest::prop_oneof![0u8..=2, 0x7fu8..=0x81, 0xfeu8..], 16)) {
            let plainly = bytes.split(|&byte| byte == 0).next().unwrap();
            proptest::prop_assert_eq!(up_to_nul(&bytes), plainly);
        }
    }
}

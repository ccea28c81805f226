//! Resolves kernel addresses to names, from the text of `/proc/kallsyms`.
//!
//! The text is kept and sorted by address on first use: most traces are read without any look-up.

use std::sync::OnceLock;

/// Maximum length of a function: an address farther after the last symbol is unknown (modules that are not listed).
const FARTHEST: u64 = 1 << 20;

/// Maximum number of symbols; a kernel with all its modules has 300,000.
const MOST: usize = 1 << 21;

/// Symbols of one kernel.
#[derive(Debug, Default)]
pub struct Symbols {
    text: Box<[u8]>,
    /// (address, start and end of the name in the text), ascending.
    sorted: OnceLock<Vec<(u64, u32, u32)>>,
}

impl Symbols {
    /// From lines `ADDRESS TYPE NAME [MODULE]`; other lines are skipped.
    #[must_use]
    pub fn new(text: impl Into<Box<[u8]>>) -> Self {
        Symbols { text: text.into(), sorted: OnceLock::new() }
    }

    /// The source text; empty if the trace has none.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// The symbol that contains `address`, and the offset in it. `None` below the first symbol, and if all addresses
    /// are hidden (`kptr_restrict`).
    #[must_use]
    pub fn resolve(&self, address: u64) -> Option<(&str, u64)> {
        let sorted = self.sorted.get_or_init(|| sort(&self.text));
        let index = sorted.partition_point(|&(start, ..)| start <= address).checked_sub(1)?;
        // Of several names for one address, the first in the file is used, as in trace-cmd.
        let (start, ..) = sorted[index];
        let first = sorted.partition_point(|&(other, ..)| other < start);
        if address - start > FARTHEST {
            return None;
        }
        let (_, begin, end) = sorted[first];
        let name = std::str::from_utf8(self.text.get(begin as usize..end as usize)?).ok()?;
        Some((name, address - start))
    }

    /// Number of symbols.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sorted.get_or_init(|| sort(&self.text)).len()
    }

    /// Whether there are no symbols.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn sort(text: &[u8]) -> Vec<(u64, u32, u32)> {
    let mut symbols: Vec<(u64, u32, u32)> = Vec::with_capacity(text.len() / 48);
    let mut begin = 0;
    for line in text.split(|&byte| byte == b'\n') {
        if let Some((address, from, to)) = line_parts(line)
            && let (true, Ok(from), Ok(to)) =
                (address != 0, u32::try_from(begin + from), u32::try_from(begin + to))
        {
            symbols.push((address, from, to));
        }
        if symbols.len() >= MOST {
            break;
        }
        begin += line.len() + 1;
    }
    symbols.sort_by_key(|&(address, ..)| address);
    symbols
}

fn line_parts(line: &[u8]) -> Option<(u64, usize, usize)> {
    let address_end = line.iter().position(|&byte| byte == b' ')?;
    let address = u64::from_str_radix(std::str::from_utf8(&line[..address_end]).ok()?, 16).ok()?;
    let from = address_end + 3;
    let name = line.get(from..)?;
    let len = name.iter().position(|byte| matches!(byte, b' ' | b'\t' | b'\r')).unwrap_or(name.len());
    (len > 0).then_some((address, from, from + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_symbol_that_begins_before_it() {
        let symbols = Symbols::new(
            *b"ffffffff81000000 T startup\nffffffff81000100 t helper\t[mod]\nffffffff81000100 T alias\nno symbol\n",
        );
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0010), Some(("startup", 0x10)));
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0100), Some(("helper", 0)));
        assert_eq!(symbols.resolve(0x1000), None);
        assert_eq!(symbols.resolve(0xffff_ffff_8130_0000), None, "too far to belong to it");
    }

    #[test]
    fn hidden_addresses_resolve_to_nothing() {
        let symbols = Symbols::new(*b"0000000000000000 T startup\n");
        assert_eq!(symbols.resolve(0xffff_ffff_8100_0010), None);
        assert!(symbols.is_empty());
    }
}

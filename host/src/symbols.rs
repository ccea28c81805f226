//! Names of kernel addresses, from /proc/kallsyms, and the code at them.

mod code;

use std::cell::RefCell;
use std::collections::HashMap;

use crate::error::{Error, Result};
use code::Code;

/// Larger than any function.
const LARGEST: u64 = 1 << 20;

/// The kernel's symbols, ascending by address.
pub struct Symbols {
    table: Vec<(u64, u32)>, // address, offset of the name in `names`
    names: String,          // each name ends with '\n'
    code: Option<Code>,
    enabled: RefCell<HashMap<u64, Option<bool>>>, // asked so far
}

impl Symbols {
    /// Reads the table of the running kernel: about 50 ms and 6 MB, once.
    ///
    /// # Errors
    /// If it cannot be read, or the kernel hides the addresses (needs root or CAP_SYSLOG, kptr_restrict ≤ 1).
    pub fn read() -> Result<Symbols> {
        let path = "/proc/kallsyms";
        let text = std::fs::read_to_string(path).map_err(|error| Error::new("read", path, error))?;
        Symbols::parse(&text).ok_or_else(|| {
            Error::refused(
                "name kernel functions:",
                "the kernel hides the addresses in /proc/kallsyms",
                "needs root or CAP_SYSLOG, and kernel.kptr_restrict below 2; stacks show addresses",
            )
        })
    }

    /// No names: every lookup fails.
    #[must_use]
    pub fn none() -> Symbols {
        Symbols { table: Vec::new(), names: String::new(), code: None, enabled: RefCell::default() }
    }

    /// Also reads the kernel's code, as far as this user may.
    #[must_use]
    pub fn with_code(self) -> Symbols {
        Symbols { code: Code::open().ok(), ..self }
    }

    /// Whether interrupts were re-enabled at `address`, where one was taken, or had been on before; `None` if the code
    /// does not say, or cannot be read. About 100 µs per new address.
    #[must_use]
    pub fn enabled_there(&self, address: u64) -> Option<bool> {
        let code = self.code.as_ref()?;
        let ask = || code.enabled_there(self, address);
        *self.enabled.borrow_mut().entry(address).or_insert_with(ask)
    }

    /// `None` if no symbol has an address.
    fn parse(text: &str) -> Option<Symbols> {
        let mut symbols = Symbols::none();
        for line in text.lines() {
            let mut fields = line.split_ascii_whitespace();
            let (Some(address), Some(_), Some(name)) = (fields.next(), fields.next(), fields.next()) else {
                continue;
            };
            let Ok(address) = u64::from_str_radix(address, 16) else { continue };
            if address != 0 {
                symbols.table.push((address, symbols.names.len() as u32));
                symbols.names.push_str(name);
                symbols.names.push('\n');
            }
        }
        symbols.table.sort_by_key(|&(address, _)| address);
        (!symbols.table.is_empty()).then_some(symbols)
    }

    /// Start and end of the function at `address`; `None` if it is unknown.
    #[must_use]
    pub fn bounds(&self, address: u64) -> Option<(u64, u64)> {
        let after = self.table.partition_point(|&(start, _)| start <= address);
        let (begin, _) = *self.table.get(after.checked_sub(1)?)?;
        let (end, _) = *self.table.get(after)?;
        (end - begin < LARGEST).then_some((begin, end))
    }

    /// Start of the function `name`; `None` if there is none. Linear search.
    #[must_use]
    pub fn address(&self, name: &str) -> Option<u64> {
        let is_it = |&&(_, offset): &&(u64, u32)| {
            self.names[offset as usize..].strip_prefix(name).is_some_and(|rest| rest.starts_with('\n'))
        };
        self.table.iter().find(is_it).map(|&(address, _)| address)
    }

    /// `name+0x12`; `None` below the first symbol or more than 16 MB above the last one before it.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<String> {
        let after = self.table.partition_point(|&(start, _)| start <= address);
        let (start, name) = *self.table.get(after.checked_sub(1)?)?;
        let offset = address - start;
        let name = self.names[name as usize..].lines().next()?;
        (offset < 16 << 20).then(|| format!("{name}+{offset:#x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_named_after_the_symbol_it_lies_in() {
        let text =
            "ffffffff81000100 t second\nffffffff81000000 T first\nffffffffc0000000 t third\t[module]\n";
        let symbols = Symbols::parse(text).unwrap();
        assert_eq!(symbols.name(0xffff_ffff_8100_00ff).as_deref(), Some("first+0xff"));
        assert_eq!(symbols.name(0xffff_ffff_8100_0100).as_deref(), Some("second+0x0"));
        assert_eq!(symbols.name(0xffff_ffff_c000_0001).as_deref(), Some("third+0x1"));
        assert_eq!(symbols.name(0xffff_ffff_80ff_ffff), None);
        assert_eq!(
            symbols.bounds(0xffff_ffff_8100_00ff),
            Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_0100))
        );
        assert_eq!(symbols.bounds(0xffff_ffff_8100_0100), None, "far too long");
        assert_eq!(symbols.address("second"), Some(0xffff_ffff_8100_0100));
        assert_eq!((symbols.address("sec"), symbols.address("fourth")), (None, None));
        assert_eq!(symbols.bounds(0xffff_ffff_c000_0001), None, "the last one has no end");
    }

    #[test]
    fn hidden_addresses_are_no_table() {
        assert!(Symbols::parse("0000000000000000 T _stext\n0000000000000000 t other\n").is_none());
    }
}

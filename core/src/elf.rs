//! Which variable of a program is at an address? Reads the symbol table of an untrusted ELF file.
//!
//! Without I/O: the caller passes a function that reads parts of the file. Every offset and size is checked, tables are
//! limited to [`LARGEST_TABLE`] and names to [`LONGEST_NAME`]; a larger, damaged or other than little-endian 64-bit ELF
//! file yields no name. Sources: System V ABI, chapter 4 (object files), and elf(5). Not here: code, lines, DWARF.

/// Maximum bytes of a symbol table that are searched: five million symbols.
pub const LARGEST_TABLE: u64 = 128 << 20;
/// Maximum bytes of all segment headers, or all section headers.
const LARGEST_HEADERS: usize = 8 << 20;
/// Maximum bytes of a name.
pub const LONGEST_NAME: usize = 256;

/// `length` bytes of a file at an offset; `None` where it has fewer, or cannot be read.
pub type ReadAt<'a> = dyn Fn(u64, usize) -> Option<Vec<u8>> + 'a;

const SYMBOL: usize = 24;
/// Symbols are read in pieces of this size.
const PIECE: usize = SYMBOL << 15;
const OBJECT: u8 = 1;
const NOTYPE: u8 = 0;

/// A segment that is loaded (`PT_LOAD`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Load {
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
}

/// Segments and symbol tables of an ELF file.
#[derive(Debug)]
pub struct Elf {
    loads: Vec<Load>,
    /// Symbol tables with their names: offset and size of both, the complete table first.
    tables: Vec<[(u64, u64); 2]>,
}

impl Elf {
    /// Reads the headers; `None`: not an ELF file of that kind, or damaged.
    #[must_use]
    pub fn read(file: &ReadAt<'_>) -> Option<Elf> {
        let head = file(0, 64)?;
        // 64 bits, least significant byte first.
        if head.get(..6)? != b"\x7fELF\x02\x01" {
            return None;
        }
        let (programs, sections) = (u64_at(&head, 32)?, u64_at(&head, 40)?);
        let (program_size, program_count) = (u16_at(&head, 54)?, u16_at(&head, 56)?);
        let (section_size, section_count) = (u16_at(&head, 58)?, u16_at(&head, 60)?);
        let loads = match program_size >= 56 {
            true => {
                table(file, programs, program_size, program_count)?.iter().filter_map(|it| load(it)).collect()
            }
            false => Vec::new(),
        };
        let sections = match section_size >= 64 {
            true => table(file, sections, section_size, section_count).unwrap_or_default(), // stripped
            false => Vec::new(),
        };
        let symbols = |kind: u32| sections.iter().filter(move |it| u32_at(it, 4) == Some(kind));
        let with_names = |it: &Vec<u8>| {
            let names = sections.get(u32_at(it, 40)? as usize)?;
            Some([(u64_at(it, 24)?, u64_at(it, 32)?), (u64_at(names, 24)?, u64_at(names, 32)?)])
        };
        const SYMTAB: u32 = 2;
        const DYNSYM: u32 = 11;
        let tables = symbols(SYMTAB).chain(symbols(DYNSYM)).filter_map(with_names).take(2).collect();
        Some(Elf { loads, tables })
    }

    /// Load bias (memory − file address), with the start of the file mapped at `start`. `None`: no segment has it.
    #[must_use]
    pub fn bias(&self, start: u64) -> Option<u64> {
        const PAGE: u64 = 0x1000;
        let load = self.loads.iter().find(|load| load.offset < PAGE && load.in_file > 0)?;
        Some(start.wrapping_sub(load.address.wrapping_sub(load.offset)))
    }

    /// Whether something is loaded at `address` (of the file).
    #[must_use]
    pub fn is_loaded(&self, address: u64) -> bool {
        self.loads.iter().any(|load| address.checked_sub(load.address).is_some_and(|at| at < load.in_memory))
    }

    /// Name of the variable at `address` (of the file), and the offset in it. Of several, the smallest. Reads a symbol
    /// table: some ms for a large program.
    #[must_use]
    pub fn variable(&self, file: &ReadAt<'_>, address: u64) -> Option<(String, u64)> {
        self.tables.iter().find_map(|[symbols, names]| {
            if symbols.1 > LARGEST_TABLE {
                return None;
            }
            let covers = |symbol: &&[u8]| {
                let (value, size) = (u64_at(symbol, 8)?, u64_at(symbol, 16)?);
                let is_data = matches!(symbol[4] & 0xf, OBJECT | NOTYPE) && u16_at(symbol, 6)? != 0;
                (is_data && address.checked_sub(value)? < size).then_some((size, value))
            };
            let mut best: Option<((u64, u64), u32)> = None;
            for from in (0..symbols.1).step_by(PIECE) {
                let length = (symbols.1 - from).min(PIECE as u64) as usize;
                let piece = file(symbols.0.checked_add(from)?, length)?;
                let found = piece.chunks_exact(SYMBOL).filter_map(|it| Some((covers(&it)?, u32_at(it, 0)?)));
                best = found.chain(best).min_by_key(|((size, _), _)| *size);
            }
            let ((_, value), name) = best?;
            let left = names.1.checked_sub(u64::from(name))?;
            let bytes = file(names.0.checked_add(u64::from(name))?, (left as usize).min(LONGEST_NAME))?;
            let bytes = bytes.split(|byte| *byte == 0).next()?;
            let text = String::from_utf8_lossy(bytes);
            (!text.is_empty()).then(|| (readable(&text), address - value))
        })
    }
}

/// `count` entries of `size` bytes.
fn table(file: &ReadAt<'_>, offset: u64, size: u16, count: u16) -> Option<Vec<Vec<u8>>> {
    let length = usize::from(size) * usize::from(count);
    let bytes = (length <= LARGEST_HEADERS).then(|| file(offset, length))??;
    Some(bytes.chunks_exact(usize::from(size)).map(<[u8]>::to_vec).collect())
}

fn load(entry: &[u8]) -> Option<Load> {
    const PT_LOAD: u32 = 1;
    let at = |offset| u64_at(entry, offset);
    (u32_at(entry, 0)? == PT_LOAD).then_some(())?;
    Some(Load { offset: at(8)?, address: at(16)?, in_file: at(32)?, in_memory: at(40)? })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// `_ZN4loop1mE` → `loop::m`, `_ZL1m` and `_ZN12_GLOBAL__N_11mE` → `m`: nested names of the Itanium C++ ABI (5.1), and
/// of Rust without the hash. Other names are unchanged.
fn readable(name: &str) -> String {
    nested(name).unwrap_or_else(|| name.to_owned())
}

fn nested(name: &str) -> Option<String> {
    let rest = name.strip_prefix("_Z")?;
    let (mut rest, is_nested) = match rest.strip_prefix('N') {
        Some(rest) => (rest.trim_start_matches(['K', 'V']), true),
        None => (rest.strip_prefix('L').unwrap_or(rest), false),
    };
    let mut parts: Vec<&str> = Vec::new();
    while let Some(digit) =
        rest.strip_prefix('L').or(Some(rest)).filter(|it| it.starts_with(|c: char| c.is_ascii_digit()))
    {
        let end = digit.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = digit[..end].parse().ok()?;
        let part = digit.get(end..end.checked_add(length)?)?;
        if part != "_GLOBAL__N_1" {
            parts.push(part); // the anonymous namespace has no name
        }
        rest = digit.get(end + length..)?;
        if !is_nested {
            break;
        }
    }
    let is_hash = |part: &str| {
        part.len() == 17 && part.starts_with('h') && part[1..].bytes().all(|b| b.is_ascii_hexdigit())
    };
    if parts.len() > 1 && parts.last().is_some_and(|last| is_hash(last)) {
        parts.pop();
    }
    let whole = if is_nested { rest.starts_with('E') } else { rest.is_empty() };
    (whole && !parts.is_empty()).then(|| parts.join("::"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn names_of_cpp_and_rust_are_readable_and_others_stay() {
        for (name, want) in [
            ("m", "m"),
            ("_ZL1m", "m"),
            ("_ZN4loop5stateE", "loop::state"),
            ("_ZN12_GLOBAL__N_11mE", "m"),
            ("_ZN4loop4LOCK17h0123456789abcdefE", "loop::LOCK"),
            ("_ZZ4mainE1m", "_ZZ4mainE1m"),
            ("_ZN99999999999999999999mE", "_ZN99999999999999999999mE"),
            ("_ZN3aä", "_ZN3aä"),
            ("_Z", "_Z"),
            ("_ZN", "_ZN"),
        ] {
            assert_eq!(readable(name), want);
        }
    }

    /// One segment at 0x10000 with 0x100 bytes in the file and 0x1000 in memory; `mutex` of 40 bytes at 0x10800, in a table.
    fn program() -> Vec<u8> {
        let mut bytes = vec![0u8; 0x600];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(0, b"\x7fELF\x02\x01\x01");
        put(32, &64u64.to_le_bytes()); // program headers
        put(40, &0x200u64.to_le_bytes()); // section headers
        put(54, &56u16.to_le_bytes());
        put(56, &1u16.to_le_bytes());
        put(58, &64u16.to_le_bytes());
        put(60, &3u16.to_le_bytes());
        put(64, &1u32.to_le_bytes()); // PT_LOAD
        for (at, value) in [(8, 0x100u64), (16, 0x10_100), (32, 0x100), (40, 0x1000)] {
            put(64 + at, &value.to_le_bytes());
        }
        put(0x240 + 4, &2u32.to_le_bytes()); // SHT_SYMTAB
        put(0x240 + 24, &0x400u64.to_le_bytes());
        put(0x240 + 32, &48u64.to_le_bytes());
        put(0x240 + 40, &2u32.to_le_bytes());
        put(0x280 + 4, &3u32.to_le_bytes()); // SHT_STRTAB
        put(0x280 + 24, &0x500u64.to_le_bytes());
        put(0x280 + 32, &7u64.to_le_bytes());
        put(0x400 + 24, &1u32.to_le_bytes()); // the second symbol
        put(0x400 + 24 + 4, &[OBJECT, 0, 4, 0]);
        put(0x400 + 24 + 8, &0x10_800u64.to_le_bytes());
        put(0x400 + 24 + 16, &40u64.to_le_bytes());
        put(0x500, b"\0mutex\0");
        bytes
    }

    fn reader(bytes: &[u8]) -> impl Fn(u64, usize) -> Option<Vec<u8>> + '_ {
        |at, length| Some(bytes.get(at as usize..(at as usize).checked_add(length)?)?.to_vec())
    }

    #[test]
    fn a_variable_is_found_by_its_address_wherever_the_program_is_loaded() {
        let bytes = program();
        let file = reader(&bytes);
        let elf = Elf::read(&file).unwrap();
        assert_eq!(elf.bias(0x5555_0000_0000), Some(0x5554_ffff_0000));
        assert_eq!(elf.variable(&file, 0x10_800), Some(("mutex".to_owned(), 0)));
        assert_eq!(elf.variable(&file, 0x10_810), Some(("mutex".to_owned(), 16)));
        assert_eq!(elf.variable(&file, 0x10_828), None);
        assert!(elf.is_loaded(0x10_828) && !elf.is_loaded(0x11_100) && !elf.is_loaded(0));
    }

    #[test]
    fn damaged_and_hostile_files_have_no_name_and_end_nothing() {
        let whole = program();
        let mut random = Random::new(7);
        for round in 0..20_000 {
            let mut bytes = whole.clone();
            for _ in 0..1 + random.below(6) {
                let headers = [0..128, 0x200..0x2c0, 0x400..0x430];
                let part = headers[random.below(3) as usize].clone();
                let at = part.start + random.below(part.len() as u64) as usize;
                bytes[at] = if random.below(3) == 0 { 0xff } else { random.below(256) as u8 };
            }
            if round % 4 == 0 {
                bytes.truncate(random.below(bytes.len() as u64) as usize);
            }
            let most = std::cell::Cell::new(0);
            let file = |at: u64, length: usize| {
                most.set(most.get().max(length));
                let at = usize::try_from(at).ok()?;
                Some(bytes.get(at..at.checked_add(length)?)?.to_vec())
            };
            if let Some(elf) = Elf::read(&file) {
                let _ = (elf.bias(random.below(u64::MAX)), elf.is_loaded(0x10_800));
                let _ = elf.variable(&file, 0x10_800);
            }
        }
    }
}

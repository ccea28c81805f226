//! Examines the kernel's machine code where an interrupt was taken: were interrupts re-enabled there, or had they been on
//! before?
//!
//! A pending interrupt is taken as soon as interrupts are re-enabled: after `popf`, or after the one instruction that
//! follows `sti` (Intel SDM, volume 2B, STI; AMD APM, volume 3, STI). Everywhere else interrupts had been on, so this code
//! did not delay it. Undecided: the start of a function and the address after a call, which is reached by a jump; returns
//! from exceptions, which enable interrupts anywhere, but keep them off only for their own duration.
//!
//! x86-64 only; elsewhere undecided.

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};

use crate::bpf_object;
use crate::error::Result;
use crate::symbols::Symbols;

static OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/code.bpf.o.gz"));

/// Bytes at a time: `CODE_BYTES` of src/bpf/code.bpf.c.
const CHUNK: usize = 256;

/// Reads the running kernel's code.
pub struct Code {
    object: Object,
}

impl Code {
    /// Loads the program: a few ms.
    ///
    /// # Errors
    /// What the kernel refuses, in one line.
    pub fn open() -> Result<Code> {
        Ok(Code { object: bpf_object::load("code", bpf_object::open("code", OBJECT)?)? })
    }

    /// Whether interrupts were re-enabled at `address`; `None` if undecided. Some 10 µs.
    #[must_use]
    pub fn enabled_there(&self, symbols: &Symbols, address: u64) -> Option<bool> {
        let (begin, end) = symbols.bounds(address)?;
        if symbols.name(address)?.contains("_thunk") {
            return None; // of a return or an indirect jump
        }
        verdict(&self.bytes(begin, end)?, begin, address)
    }

    fn bytes(&self, begin: u64, end: u64) -> Option<Vec<u8>> {
        let program = self.object.progs_mut().next()?;
        let map = self.object.maps().find(|map| map.name() == "code")?;
        let mut bytes = Vec::new();
        for address in (begin..end).step_by(CHUNK) {
            let mut context = address.to_ne_bytes();
            let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
            let read = program.test_run(input).is_ok_and(|output| output.return_value == 0);
            if !read {
                break; // the end of the mapping
            }
            bytes.extend(map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).ok()??);
        }
        bytes.truncate((end - begin) as usize);
        Some(bytes)
    }
}

/// The same for the function `code`, which starts at `begin`.
#[cfg(target_arch = "x86_64")]
fn verdict(code: &[u8], begin: u64, address: u64) -> Option<bool> {
    use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic};

    let mut before: [Option<Instruction>; 2] = [None; 2];
    let mut found = None;
    for instruction in Decoder::with_ip(64, code, begin, DecoderOptions::NONE) {
        let sti = before[1].is_some_and(|last| last.mnemonic() == Mnemonic::Sti);
        if sti && instruction.near_branch_target() == address {
            return Some(true); // `sti; jmp address`
        }
        if instruction.ip() == address {
            let [earlier, last] = before.map(|before| before.map(|before| before.mnemonic()));
            found = Some(match last {
                Some(Mnemonic::Popfq) => Some(true),
                _ if earlier == Some(Mnemonic::Sti) => Some(true),
                None | Some(Mnemonic::Endbr64 | Mnemonic::Sti | Mnemonic::Call) => None,
                Some(_) => Some(false),
            });
        }
        before = [before[1], Some(instruction)];
    }
    found?
}

#[cfg(not(target_arch = "x86_64"))]
fn verdict(_: &[u8], _: u64, _: u64) -> Option<bool> {
    None
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// endbr64; pushfq; cli; inc rax; popfq; nop; call +0; sti; nop; inc rax; sti; jmp L; int3; inc rcx; L: inc rax; ret
    const FUNCTION: [u8; 35] = [
        0xf3, 0x0f, 0x1e, 0xfa, 0x9c, 0xfa, 0x48, 0xff, 0xc0, 0x9d, 0x90, 0xe8, 0, 0, 0, 0, 0xfb, 0x90, 0x48,
        0xff, 0xc0, 0xfb, 0xeb, 0x04, 0xcc, 0x48, 0xff, 0xc1, 0x48, 0xff, 0xc0, 0xc3, 0xcc, 0xcc, 0xcc,
    ];

    #[test]
    fn interrupts_come_back_on_behind_popf_and_behind_the_instruction_after_sti() {
        let says = |offset: u64| verdict(&FUNCTION, 0x1000, 0x1000 + offset);
        for (offset, expected, why) in [
            (0, None, "the first instruction"),
            (4, None, "behind endbr64"),
            (5, Some(false), "behind pushf"),
            (9, Some(false), "before popf"),
            (10, Some(true), "behind popf"),
            (11, Some(false), "one further"),
            (16, None, "behind a call"),
            (17, None, "behind sti they are not on yet"),
            (18, Some(true), "one behind that"),
            (21, Some(false), "two behind that"),
            (28, Some(true), "where the instruction after sti jumps to"),
            (31, Some(false), "behind that"),
            (7, None, "no instruction begins there"),
            (99, None, "outside"),
        ] {
            assert_eq!(says(offset), expected, "{why}");
        }
    }
}

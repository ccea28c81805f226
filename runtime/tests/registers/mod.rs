//! All registers of a thread: filled with a pattern, kept for some time, compared.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
use aarch64 as cpu;
#[cfg(target_arch = "x86_64")]
use x86_64 as cpu;

pub use cpu::{rounding, set_rounding};

/// Words of the pattern: more than any architecture fills.
const WORDS: usize = 160;

/// Fills all registers from a pattern that `seed` decides, counts `loops` down with branches on flags, and compares.
pub fn check(seed: u64, loops: u64) {
    let mut pattern = [0u64; WORDS];
    for (at, word) in pattern.iter_mut().enumerate() {
        *word = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(at as u32) ^ at as u64;
    }
    let mut found = pattern;
    found.fill(0);
    let flags = cpu::keep(&pattern, &mut found, loops);
    assert_eq!(flags, 0, "a branch was taken by somebody else's flags");
    for (at, (&was, &is)) in pattern.iter().zip(&found).enumerate() {
        assert!(is == was || !cpu::used(at), "word {at} of the registers: {was:#x} became {is:#x}");
    }
}

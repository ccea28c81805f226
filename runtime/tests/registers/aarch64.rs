//! aarch64: x0 to x28 and x30, all of v0 to v31, the flags.

use std::arch::naked_asm;

use super::WORDS;

/// 0 to 28: general registers (x18 is the platform's); 32 to 95: v0 to v31.
pub fn used(word: usize) -> bool {
    (word < 29 && word != 18) || (32..96).contains(&word)
}

/// Returns how many branches went wrong.
pub fn keep(pattern: &[u64; WORDS], found: &mut [u64; WORDS], loops: u64) -> u64 {
    // SAFETY: preserves what the ABI demands and writes to `found` only.
    unsafe { keep_all(pattern.as_ptr(), found.as_mut_ptr(), loops) }
}

#[unsafe(naked)]
unsafe extern "C" fn keep_all(pattern: *const u64, found: *mut u64, loops: u64) -> u64 {
    // The counter, the result and the addresses are in memory; x30 is what reaches them.
    naked_asm!(
        "sub sp, sp, #208",
        "stp x19, x20, [sp, #0]",
        "stp x21, x22, [sp, #16]",
        "stp x23, x24, [sp, #32]",
        "stp x25, x26, [sp, #48]",
        "stp x27, x28, [sp, #64]",
        "stp x29, x30, [sp, #80]",
        "stp d8, d9, [sp, #96]",
        "stp d10, d11, [sp, #112]",
        "stp d12, d13, [sp, #128]",
        "stp d14, d15, [sp, #144]",
        "str x2, [sp, #160]",
        "str x1, [sp, #168]",
        "str xzr, [sp, #176]",
        "add x30, x0, #256",
        "ldp q0, q1, [x30, #0]",
        "ldp q2, q3, [x30, #32]",
        "ldp q4, q5, [x30, #64]",
        "ldp q6, q7, [x30, #96]",
        "ldp q8, q9, [x30, #128]",
        "ldp q10, q11, [x30, #160]",
        "ldp q12, q13, [x30, #192]",
        "ldp q14, q15, [x30, #224]",
        "ldp q16, q17, [x30, #256]",
        "ldp q18, q19, [x30, #288]",
        "ldp q20, q21, [x30, #320]",
        "ldp q22, q23, [x30, #352]",
        "ldp q24, q25, [x30, #384]",
        "ldp q26, q27, [x30, #416]",
        "ldp q28, q29, [x30, #448]",
        "ldp q30, q31, [x30, #480]",
        "mov x30, x0",
        "ldp x0, x1, [x30, #0]",
        "ldp x2, x3, [x30, #16]",
        "ldp x4, x5, [x30, #32]",
        "ldp x6, x7, [x30, #48]",
        "ldp x8, x9, [x30, #64]",
        "ldp x10, x11, [x30, #80]",
        "ldp x12, x13, [x30, #96]",
        "ldp x14, x15, [x30, #112]",
        "ldp x16, x17, [x30, #128]",
        "ldr x19, [x30, #152]",
        "ldp x20, x21, [x30, #160]",
        "ldp x22, x23, [x30, #176]",
        "ldp x24, x25, [x30, #192]",
        "ldp x26, x27, [x30, #208]",
        "ldr x28, [x30, #224]",
        "2:",
        "cmp x0, x0",
        "b.ne 4f",
        "cmn sp, #1",
        "b.eq 4f",
        "5:",
        "ldr x30, [sp, #160]",
        "subs x30, x30, #1",
        "str x30, [sp, #160]",
        "b.ne 2b",
        "b 3f",
        "4:",
        "ldr x30, [sp, #176]",
        "add x30, x30, #1",
        "str x30, [sp, #176]",
        "b 5b",
        "3:",
        "ldr x30, [sp, #168]",
        "stp x0, x1, [x30, #0]",
        "stp x2, x3, [x30, #16]",
        "stp x4, x5, [x30, #32]",
        "stp x6, x7, [x30, #48]",
        "stp x8, x9, [x30, #64]",
        "stp x10, x11, [x30, #80]",
        "stp x12, x13, [x30, #96]",
        "stp x14, x15, [x30, #112]",
        "stp x16, x17, [x30, #128]",
        "str x19, [x30, #152]",
        "stp x20, x21, [x30, #160]",
        "stp x22, x23, [x30, #176]",
        "stp x24, x25, [x30, #192]",
        "stp x26, x27, [x30, #208]",
        "str x28, [x30, #224]",
        "add x30, x30, #256",
        "stp q0, q1, [x30, #0]",
        "stp q2, q3, [x30, #32]",
        "stp q4, q5, [x30, #64]",
        "stp q6, q7, [x30, #96]",
        "stp q8, q9, [x30, #128]",
        "stp q10, q11, [x30, #160]",
        "stp q12, q13, [x30, #192]",
        "stp q14, q15, [x30, #224]",
        "stp q16, q17, [x30, #256]",
        "stp q18, q19, [x30, #288]",
        "stp q20, q21, [x30, #320]",
        "stp q22, q23, [x30, #352]",
        "stp q24, q25, [x30, #384]",
        "stp q26, q27, [x30, #416]",
        "stp q28, q29, [x30, #448]",
        "stp q30, q31, [x30, #480]",
        "ldr x0, [sp, #176]",
        "ldp d14, d15, [sp, #144]",
        "ldp d12, d13, [sp, #128]",
        "ldp d10, d11, [sp, #112]",
        "ldp d8, d9, [sp, #96]",
        "ldp x29, x30, [sp, #80]",
        "ldp x27, x28, [sp, #64]",
        "ldp x25, x26, [sp, #48]",
        "ldp x23, x24, [sp, #32]",
        "ldp x21, x22, [sp, #16]",
        "ldp x19, x20, [sp, #0]",
        "add sp, sp, #208",
        "ret",
    )
}

/// Sets the rounding mode, 0 to 3.
pub fn set_rounding(mode: u32) {
    let control = u64::from(mode) << 22;
    // SAFETY: a valid control word without traps; the code around computes nothing in floating point.
    unsafe { std::arch::asm!("msr fpcr, {}", in(reg) control, options(nomem, nostack)) };
}

/// The rounding mode, twice: there is one register.
pub fn rounding() -> (u32, u32) {
    let control: u64;
    // SAFETY: reads a register.
    unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack)) };
    let mode = (control >> 22 & 3) as u32;
    (mode, mode)
}

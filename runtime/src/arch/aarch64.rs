//! aarch64, AAPCS64: x19 to x30, the low halves of v8 to v15, FPCR.

use std::arch::naked_asm;

/// Saves the running stack into `*from` and continues on the stack `to`.
///
/// # Safety
/// `to` was saved by this function or made by [`prepare`], and is used once.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut *mut u8, to: *mut u8) {
    naked_asm!(
        "sub sp, sp, #176",
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
        "mrs x9, fpcr",
        "str x9, [sp, #160]",
        "mov x9, sp",
        "str x9, [x0]",
        "mov sp, x1",
        "ldr x9, [sp, #160]",
        "msr fpcr, x9",
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
        "add sp, sp, #176",
        "ret",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn first() -> ! {
    // No caller: unwinders and debuggers stop here.
    naked_asm!("mov x29, xzr", "mov x30, xzr", "mov x0, x19", "blr x20", "brk #0")
}

/// A stack that calls `entry(argument)` when it is switched to, with the caller's floating-point control register.
///
/// # Safety
/// `top` is the end of writable memory of at least 256 bytes.
pub unsafe fn prepare(top: *mut u8, entry: super::Entry, argument: usize) -> *mut u8 {
    let top = (top as usize & !15) as *mut u64;
    let control: u64;
    // SAFETY: reads a register; the words are below `top`, by the caller's promise.
    unsafe {
        std::arch::asm!("mrs {}, fpcr", out(reg) control, options(nomem, nostack));
        let frame = top.sub(22);
        for word in 0..22 {
            frame.add(word).write(0);
        }
        frame.write(argument as u64); // x19
        frame.add(1).write(entry as usize as u64); // x20
        frame.add(11).write(first as *const () as usize as u64); // x30
        frame.add(20).write(control);
        frame.cast()
    }
}

/// The counter of constant rate, in ticks.
#[must_use]
#[inline(always)]
pub fn counter() -> u64 {
    let ticks: u64;
    // SAFETY: Linux lets user space read the virtual counter; nothing else is touched.
    unsafe { std::arch::asm!("mrs {}, cntvct_el0", out(reg) ticks, options(nomem, nostack)) };
    ticks
}

/// Guaranteed for CNTVCT by the architecture.
#[must_use]
pub fn invariant() -> bool {
    true
}

/// The kernel's name for its clock when it trusts the counter.
#[must_use]
pub fn clocksource() -> &'static [u8] {
    b"arch_sys_counter"
}

/// The stack pointer of interrupted code.
///
/// # Safety
/// `context` is the third argument of a signal handler.
#[must_use]
pub unsafe fn stack_pointer(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*context).uc_mcontext.sp as usize }
}

//! x86-64, System V ABI: rbx, rbp, r12 to r15, MXCSR and the x87 control word.

use std::arch::naked_asm;

/// Saves the running stack into `*from` and continues on the stack `to`.
///
/// # Safety
/// `to` was saved by this function or made by [`prepare`], and is used once.
#[unsafe(naked)]
pub unsafe extern "C" fn switch(from: *mut *mut u8, to: *mut u8) {
    // Returns by a jump: the branch predictor's return stack belongs to the other stack.
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "pop rcx",
        "jmp rcx",
    )
}

#[unsafe(naked)]
unsafe extern "C" fn first() -> ! {
    // No caller: unwinders and debuggers stop here.
    naked_asm!("xor ebp, ebp", "mov rdi, r12", "call r13", "ud2")
}

/// A stack that calls `entry(argument)` when it is switched to, with the caller's floating-point control words.
///
/// # Safety
/// `top` is the end of writable memory of at least 128 bytes.
pub unsafe fn prepare(top: *mut u8, entry: super::Entry, argument: usize) -> *mut u8 {
    let top = (top as usize & !15) as *mut usize;
    let mut control: u64 = 0;
    // SAFETY: both store into `control`, 4 and 2 bytes; the words are below `top`, by the caller's promise.
    unsafe {
        std::arch::asm!("stmxcsr [{0}]", "fnstcw [{0} + 4]", in(reg) &mut control, options(nostack));
        let frame = top.sub(10);
        frame.write(control as usize); // MXCSR and x87 control word
        for word in 1..=6 {
            frame.add(word).write(0); // r15, r14, r13, r12, rbx, rbp
        }
        frame.add(3).write(entry as usize); // r13
        frame.add(4).write(argument); // r12
        frame.add(7).write(first as *const () as usize);
        frame.cast()
    }
}

/// The counter of constant rate, in ticks.
#[must_use]
#[inline(always)]
pub fn counter() -> u64 {
    // SAFETY: every x86-64 CPU has the instruction.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Whether the CPU reports that the counter has a constant rate.
#[must_use]
pub fn invariant() -> bool {
    use std::arch::x86_64::__cpuid;
    // Advanced power management information, EDX bit 8: invariant TSC.
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
}

/// The kernel's name for its clock when it trusts the counter.
#[must_use]
pub fn clocksource() -> &'static [u8] {
    b"tsc"
}

/// The stack pointer of interrupted code.
///
/// # Safety
/// `context` is the third argument of a signal handler.
#[must_use]
pub unsafe fn stack_pointer(context: *const libc::ucontext_t) -> usize {
    // SAFETY: the caller's promise.
    unsafe { (*context).uc_mcontext.gregs[libc::REG_RSP as usize] as usize }
}

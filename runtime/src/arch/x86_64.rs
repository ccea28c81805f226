//! x86-64, System V ABI: rbx, rbp, r12 to r15, MXCSR and the x87 control word.

use std::arch::{asm, naked_asm};

/// Saves the running stack into `*from` and continues on the stack `to`.
///
/// # Safety
/// `to` was saved by this function or made by [`prepare`], and is used once.
#[inline(always)]
pub unsafe fn switch(from: *mut *mut u8, to: *mut u8) {
    // In its caller, which has saved most registers already. Not a function: the branch predictor's return stack would have
    // one entry more after a jump into another thread's call, and a return is mispredicted where the two came from different
    // places.
    // SAFETY: the registers that the compiler does not let us name are saved here, all others are named.
    unsafe {
        asm!(
            "push rbp",
            "push rbx",
            "lea rax, [rip + 2f]",
            "push rax",
            "sub rsp, 8",
            "stmxcsr [rsp]",
            "fnstcw [rsp + 4]",
            "mov [rdi], rsp",
            "mov rsp, rsi",
            "ldmxcsr [rsp]",
            "fldcw [rsp + 4]",
            "add rsp, 8",
            "pop rcx",
            "jmp rcx",
            "2:",
            "pop rbx",
            "pop rbp",
            inout("rdi") from => _,
            inout("rsi") to => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("sysv64"),
        );
    }
}

#[unsafe(naked)]
unsafe extern "C" fn first() -> ! {
    // No caller: unwinders and debuggers stop here.
    naked_asm!("xor ebp, ebp", "pop rdi", "pop rax", "call rax", "ud2")
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
        let frame = top.sub(4);
        frame.write(control as usize); // MXCSR and x87 control word
        frame.add(1).write(first as *const () as usize);
        frame.add(2).write(argument);
        frame.add(3).write(entry as usize);
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

//! x86-64: rax to r15 without rsp, all of xmm (or ymm where there is AVX), the x87 stack, the flags.

use std::arch::naked_asm;

use super::WORDS;

/// 0 to 13: general registers; 16 to 79: xmm or ymm; 80 to 87: x87 as integers.
pub fn used(word: usize) -> bool {
    let vector = if avx() { 16..80 } else { 16..48 };
    word < 14 || vector.contains(&word)
}

fn avx() -> bool {
    std::arch::is_x86_feature_detected!("avx")
}

/// Returns how many branches went wrong.
pub fn keep(pattern: &[u64; WORDS], found: &mut [u64; WORDS], loops: u64) -> u64 {
    // SAFETY: both functions preserve what the ABI demands and write to `found` only.
    unsafe {
        if avx() {
            keep_avx(pattern.as_ptr(), found.as_mut_ptr(), loops)
        } else {
            keep_sse(pattern.as_ptr(), found.as_mut_ptr(), loops)
        }
    }
}

/// The general registers around a body that fills and stores the vectors. The loop's counter, the result and the addresses
/// are on the stack: no register is left over.
macro_rules! keep {
    ($name:ident, [$($load:literal),*], [$($store:literal),*]) => {
        #[unsafe(naked)]
        unsafe extern "C" fn $name(pattern: *const u64, found: *mut u64, loops: u64) -> u64 {
            naked_asm!(
                "push rbx", "push rbp", "push r12", "push r13", "push r14", "push r15",
                "push rdx", "push rsi", "push 0",
                $($load,)*
                "fninit", "fldpi", "fldl2e", "fldl2t", "fldlg2", "fldln2", "fld1", "fldz",
                "mov rax, [rdi]", "mov rbx, [rdi + 8]", "mov rcx, [rdi + 16]", "mov rdx, [rdi + 24]",
                "mov rsi, [rdi + 32]", "mov rbp, [rdi + 40]", "mov r8, [rdi + 48]", "mov r9, [rdi + 56]",
                "mov r10, [rdi + 64]", "mov r11, [rdi + 72]", "mov r12, [rdi + 80]", "mov r13, [rdi + 88]",
                "mov r14, [rdi + 96]", "mov r15, [rdi + 104]",
                "2:",
                "stc", "jnc 4f",
                "cmp rax, rax", "jne 4f",
                "clc", "jc 4f",
                "cmp rsp, 0", "je 4f",
                "5:",
                "sub qword ptr [rsp + 16], 1",
                "jnz 2b",
                "jmp 3f",
                "4:", "add qword ptr [rsp], 1", "jmp 5b",
                "3:",
                // rdi: the address of the results.
                "mov rdi, [rsp + 8]",
                "mov [rdi], rax", "mov [rdi + 8], rbx", "mov [rdi + 16], rcx", "mov [rdi + 24], rdx",
                "mov [rdi + 32], rsi", "mov [rdi + 40], rbp", "mov [rdi + 48], r8", "mov [rdi + 56], r9",
                "mov [rdi + 64], r10", "mov [rdi + 72], r11", "mov [rdi + 80], r12", "mov [rdi + 88], r13",
                "mov [rdi + 96], r14", "mov [rdi + 104], r15",
                $($store,)*
                // The x87 stack must hold exactly what was loaded: compare with the constants.
                "xor eax, eax", "xor ecx, ecx", "mov edx, 1",
                "fldz", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fld1", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fldln2", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fldlg2", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fldl2t", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fldl2e", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "fldpi", "fcomip st(0), st(1)", "cmovne eax, edx", "fstp st(0)",
                "add rax, [rsp]",
                "add rsp, 24",
                "pop r15", "pop r14", "pop r13", "pop r12", "pop rbp", "pop rbx",
                "ret",
            )
        }
    };
}

keep!(
    keep_avx,
    [
        "vmovdqu ymm0, [rdi + 128]",
        "vmovdqu ymm1, [rdi + 160]",
        "vmovdqu ymm2, [rdi + 192]",
        "vmovdqu ymm3, [rdi + 224]",
        "vmovdqu ymm4, [rdi + 256]",
        "vmovdqu ymm5, [rdi + 288]",
        "vmovdqu ymm6, [rdi + 320]",
        "vmovdqu ymm7, [rdi + 352]",
        "vmovdqu ymm8, [rdi + 384]",
        "vmovdqu ymm9, [rdi + 416]",
        "vmovdqu ymm10, [rdi + 448]",
        "vmovdqu ymm11, [rdi + 480]",
        "vmovdqu ymm12, [rdi + 512]",
        "vmovdqu ymm13, [rdi + 544]",
        "vmovdqu ymm14, [rdi + 576]",
        "vmovdqu ymm15, [rdi + 608]"
    ],
    [
        "vmovdqu [rdi + 128], ymm0",
        "vmovdqu [rdi + 160], ymm1",
        "vmovdqu [rdi + 192], ymm2",
        "vmovdqu [rdi + 224], ymm3",
        "vmovdqu [rdi + 256], ymm4",
        "vmovdqu [rdi + 288], ymm5",
        "vmovdqu [rdi + 320], ymm6",
        "vmovdqu [rdi + 352], ymm7",
        "vmovdqu [rdi + 384], ymm8",
        "vmovdqu [rdi + 416], ymm9",
        "vmovdqu [rdi + 448], ymm10",
        "vmovdqu [rdi + 480], ymm11",
        "vmovdqu [rdi + 512], ymm12",
        "vmovdqu [rdi + 544], ymm13",
        "vmovdqu [rdi + 576], ymm14",
        "vmovdqu [rdi + 608], ymm15",
        "vzeroupper"
    ]
);

keep!(
    keep_sse,
    [
        "movdqu xmm0, [rdi + 128]",
        "movdqu xmm1, [rdi + 144]",
        "movdqu xmm2, [rdi + 160]",
        "movdqu xmm3, [rdi + 176]",
        "movdqu xmm4, [rdi + 192]",
        "movdqu xmm5, [rdi + 208]",
        "movdqu xmm6, [rdi + 224]",
        "movdqu xmm7, [rdi + 240]",
        "movdqu xmm8, [rdi + 256]",
        "movdqu xmm9, [rdi + 272]",
        "movdqu xmm10, [rdi + 288]",
        "movdqu xmm11, [rdi + 304]",
        "movdqu xmm12, [rdi + 320]",
        "movdqu xmm13, [rdi + 336]",
        "movdqu xmm14, [rdi + 352]",
        "movdqu xmm15, [rdi + 368]"
    ],
    [
        "movdqu [rdi + 128], xmm0",
        "movdqu [rdi + 144], xmm1",
        "movdqu [rdi + 160], xmm2",
        "movdqu [rdi + 176], xmm3",
        "movdqu [rdi + 192], xmm4",
        "movdqu [rdi + 208], xmm5",
        "movdqu [rdi + 224], xmm6",
        "movdqu [rdi + 240], xmm7",
        "movdqu [rdi + 256], xmm8",
        "movdqu [rdi + 272], xmm9",
        "movdqu [rdi + 288], xmm10",
        "movdqu [rdi + 304], xmm11",
        "movdqu [rdi + 320], xmm12",
        "movdqu [rdi + 336], xmm13",
        "movdqu [rdi + 352], xmm14",
        "movdqu [rdi + 368], xmm15"
    ]
);

/// Sets the rounding mode of SSE and x87, 0 to 3.
pub fn set_rounding(mode: u32) {
    let mxcsr = (0x1f80 & !0x6000) | (mode << 13);
    let control: u16 = (0x037f & !0x0c00) | ((mode as u16) << 10);
    // SAFETY: valid control words without unmasked exceptions; the code around computes nothing in floating point.
    unsafe {
        std::arch::asm!("ldmxcsr [{}]", in(reg) &mxcsr, options(nostack));
        std::arch::asm!("fldcw [{}]", in(reg) &control, options(nostack));
    }
}

/// The rounding modes of SSE and x87.
pub fn rounding() -> (u32, u32) {
    let (mut mxcsr, mut control) = (0u32, 0u16);
    // SAFETY: stores 4 and 2 bytes.
    unsafe {
        std::arch::asm!("stmxcsr [{}]", in(reg) &mut mxcsr, options(nostack));
        std::arch::asm!("fnstcw [{}]", in(reg) &mut control, options(nostack));
    }
    (mxcsr >> 13 & 3, u32::from(control >> 10 & 3))
}

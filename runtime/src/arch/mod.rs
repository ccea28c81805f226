//! Architecture-specific code: the switch between two stacks, the first switch to a new one, the counter.
//!
//! A switch saves the callee-saved registers and the floating-point control words. Everything else is either dead at a call,
//! or was saved by the kernel in the signal frame of a preempted thread, with the CPU's full vector state.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;

#[cfg(target_arch = "aarch64")]
pub use aarch64::{clocksource, counter, invariant, prepare, stack_pointer, switch};
#[cfg(target_arch = "x86_64")]
pub use x86_64::{clocksource, counter, invariant, prepare, stack_pointer, switch};

/// Entry function of a new thread's stack. It never returns.
pub type Entry = unsafe extern "C" fn(usize) -> !;

/// Whether the kernel checks return addresses against a shadow stack for this thread: switching stacks would end it.
#[must_use]
pub fn shadow_stack() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        const ARCH_SHSTK_STATUS: libc::c_long = 0x5005;
        let mut status: u64 = 0;
        // SAFETY: writes one u64, or fails on kernels without shadow stacks.
        let answer = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_SHSTK_STATUS, &mut status) };
        answer == 0 && status & 1 != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}

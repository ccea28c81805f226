//! What was needed for a moment goes back to the system.

/// Gives back all memory that was freed: some ms. By itself glibc gives back what lies at the end of its heap, and after a
/// window was explained and written there is always something behind the tens of MB that it took (malloc_trim(3); other
/// C libraries do not keep so much, and have no such call). Not by mapping large blocks one by one instead: their pages
/// would be faulted in anew for each flight record, which doubled a monitor's CPU time in the kernel.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

//! Returns memory of a short-lived need to the system.

/// Returns all freed memory to the system: some ms. By itself glibc returns only the end of its heap, and after a window
/// was explained and written some allocation always follows the tens of MB that it took (malloc_trim(3); other C libraries
/// keep less, and have no such call). Mapping large blocks individually instead would fault in their pages anew for each
/// flight record, which doubled a monitor's CPU time in the kernel.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: frees nothing that is in use.
    unsafe {
        libc::malloc_trim(0);
    }
}

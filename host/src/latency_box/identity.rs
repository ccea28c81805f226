//! Identifies the clock of the other end: two ends of one boot share `CLOCK_MONOTONIC`.

use std::fs;

use lathunt_core::time::Tid;

use crate::error::{Error, Result};

/// A number for this boot and time namespace; 0 if unknown.
#[must_use]
pub fn of_boot() -> u64 {
    let Ok(boot) = fs::read_to_string("/proc/sys/kernel/random/boot_id") else { return 0 };
    let Ok(space) = fs::read_link("/proc/self/ns/time") else { return 0 };
    // FNV-1a, 64 bit
    let bytes = boot.bytes().chain(space.to_string_lossy().into_owned().into_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The id of the calling thread as in the kernel's own events; `None` in a PID namespace, where it has a different id.
#[must_use]
pub fn of_thread() -> Option<Tid> {
    crate::sched::ids_are_the_kernels().then(crate::sched::tid)
}

/// 64 random bits: the key of a session.
///
/// # Errors
/// As getrandom(2).
pub fn random_key() -> Result<u64> {
    let mut key = 0u64;
    // SAFETY: eight bytes, as stated.
    let got = unsafe { libc::getrandom((&raw mut key).cast(), 8, 0) };
    if got == 8 {
        Ok(key)
    } else {
        Err(Error::last_os("make", "a random key"))
    }
}

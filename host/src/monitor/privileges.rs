//! Gives up every capability but CAP_BPF and CAP_PERFMON, for good.
//!
//! Once attached, the recorder's figures are read from memory that is mapped. Two things still ask for a capability: the
//! programs' recursion counters (CAP_BPF where `unprivileged_bpf_disabled` is set), and an explanation that looks at the
//! kernel's code, by a program of ours that is run (BPF_PROG_TEST_RUN) and a map. CAP_PERFMON is kept with CAP_BPF
//! because a kernel may ask for both. Files stay as readable as they are for the user the
//! daemon runs as. Nothing started from here can gain anything back (no_new_privs, empty bounding set).

use crate::error::{Error, Result};

const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;
const VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Header {
    version: u32,
    pid: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// Drops all capabilities but the two, in the calling thread; threads started later inherit that. Call it before any
/// is started.
///
/// # Errors
/// When the kernel refuses; then nothing is certain and the caller must not go on as if it were.
pub fn keep_bpf_and_perfmon() -> Result<()> {
    // SAFETY: prctl with plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os("give up", "new privileges"));
    }
    // SAFETY: as above. It fails where there are no ambient capabilities, which is as good.
    unsafe { libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) };
    let exists = |capability: &u32| {
        // SAFETY: as above; it fails beyond the last capability of this kernel.
        let read = unsafe { libc::prctl(libc::PR_CAPBSET_READ, *capability, 0, 0, 0) };
        read >= 0
    };
    for capability in (0u32..64).take_while(exists) {
        // Needs CAP_SETPCAP; without it the set cannot be used either, because of no_new_privs.
        // SAFETY: as above.
        unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) };
    }
    let mut header = Header { version: VERSION_3, pid: 0 };
    let mut sets = [Sets::default(); 2];
    // SAFETY: the kernel's structures for version 3: a header and two sets.
    if unsafe { libc::syscall(libc::SYS_capget, &mut header, sets.as_mut_ptr()) } != 0 {
        return Err(Error::last_os("read", "the own capabilities"));
    }
    for (word, set) in (0u32..).zip(&mut sets) {
        let kept = [CAP_PERFMON, CAP_BPF].iter().filter(|&&bit| bit / 32 == word);
        let kept = kept.fold(0, |mask, bit| mask | 1u32 << (bit % 32)) & set.permitted;
        *set = Sets { effective: kept, permitted: kept, inheritable: 0 };
    }
    // SAFETY: as above.
    if unsafe { libc::syscall(libc::SYS_capset, &mut header, sets.as_ptr()) } != 0 {
        return Err(Error::last_os("give up", "capabilities"));
    }
    Ok(())
}

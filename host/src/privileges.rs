//! Gives up every capability that the remaining work does not need, for good.
//!
//! A command asks for its capabilities by name once everything is attached. Files stay as readable as they are for the user that it runs
//! as: root without CAP_DAC_OVERRIDE writes its own files and no others. Nothing started from here can gain anything back
//! (no_new_privs, empty bounding set). What was started before keeps what it had: the program that `record` runs, a load.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Capabilities that some command keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// Results of root that become those of the user who called sudo.
    Chown = 0,
    /// Files of others: outputs of root in a directory of the user who called sudo.
    DacOverride = 1,
    /// The same for reading alone.
    DacReadSearch = 2,
    /// Signals to processes of other users.
    Kill = 5,
    /// Locked memory beyond the limit.
    IpcLock = 14,
    /// What descriptors and mappings of other processes are, and the stacks of threads that wait (/proc/PID/fd, maps,
    /// stack): the kernel asks for it where they have rights that this process gave up, or are another user's.
    SysPtrace = 19,
    /// Real-time priority.
    SysNice = 23,
    /// Kernel addresses in /proc/kallsyms.
    Syslog = 34,
    /// A kernel may ask for it together with CAP_BPF.
    Perfmon = 38,
    /// Recursion counters of programs, programs that look at the kernel's code (BPF_PROG_TEST_RUN), and maps.
    Bpf = 39,
}

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

/// Drops all capabilities but `kept`, in the calling thread; threads started later inherit that. Call it before any is
/// started. What is not there is not gained.
///
/// # Errors
/// When the kernel refuses; then nothing is certain and the caller must not go on as if it were.
pub fn keep(kept: &[Capability]) -> Result<()> {
    no_new_privileges()?;
    // SAFETY: prctl with plain numbers. It fails where there are no ambient capabilities, which is as good.
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
        let bits = kept.iter().map(|capability| *capability as u32).filter(|bit| bit / 32 == word);
        let bits = bits.fold(0, |mask, bit| mask | 1u32 << (bit % 32)) & set.permitted;
        *set = Sets { effective: bits, permitted: bits, inheritable: 0 };
    }
    // SAFETY: as above.
    if unsafe { libc::syscall(libc::SYS_capset, &mut header, sets.as_ptr()) } != 0 {
        return Err(Error::last_os("give up", "capabilities"));
    }
    Ok(())
}

/// Nothing that is executed from here on gains a right that this process does not have.
///
/// # Errors
/// When the kernel refuses.
pub fn no_new_privileges() -> Result<()> {
    // SAFETY: prctl with plain numbers.
    if unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) } != 0 {
        return Err(Error::last_os("give up", "new privileges"));
    }
    Ok(())
}

/// Whether files can be written below `directory` without a capability: it is this user's.
#[must_use]
pub fn owns(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|found| found.uid() == crate::trusted::me())
}

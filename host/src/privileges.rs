//! Permanently drops every capability that the remaining work does not need.
//!
//! A command names the capabilities it keeps once everything is attached. Files stay readable according to the user that it
//! runs as: root without CAP_DAC_OVERRIDE writes its own files and no others. Nothing started from here can regain anything
//! (no_new_privs, empty bounding set). Programs started before keep theirs: the program that `record` runs, a load.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Error, Result};

/// Capabilities that some command keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Capability {
    /// Root's results are given to the user who called sudo.
    Chown = 0,
    /// Files of others: outputs of root in a directory of the user who called sudo.
    DacOverride = 1,
    /// The same for reading only.
    DacReadSearch = 2,
    /// Signals to processes of other users.
    Kill = 5,
    /// Locked memory beyond the limit.
    IpcLock = 14,
    /// Descriptors and mappings of other processes, and the stacks of waiting threads (/proc/PID/fd, maps, stack): needed if
    /// these have rights that this process dropped, or are another user's.
    SysPtrace = 19,
    /// Real-time priority.
    SysNice = 23,
    /// Kernel addresses in /proc/kallsyms.
    Syslog = 34,
    /// Some kernels require it together with CAP_BPF.
    Perfmon = 38,
    /// Recursion counters of programs, programs that read the kernel's code (BPF_PROG_TEST_RUN), and maps.
    Bpf = 39,
}

/// Capabilities for everything that lathunt does without root, in the syntax of `setcap`.
pub const FILE_CAPABILITIES: &str =
    "cap_bpf,cap_perfmon,cap_sys_nice,cap_ipc_lock,cap_syslog,cap_dac_read_search+ep";

/// Commands that give this program its capabilities. They name it as it was started, and its file as it is: `setcap`
/// takes no symbolic link, and a program outside of `$PATH` has no short name.
#[must_use]
pub fn how_to_get() -> String {
    let typed = std::env::args_os().next().filter(|typed| typed.as_encoded_bytes().contains(&b'/'));
    let typed = typed.map_or("lathunt".to_owned(), |typed| quoted(&typed.to_string_lossy()));
    let file = std::env::current_exe();
    let file = file.map_or("$(command -v lathunt)".to_owned(), |file| quoted(&file.to_string_lossy()));
    format!("run `sudo {typed} ...`, or once `sudo setcap {FILE_CAPABILITIES} {file}`")
}

/// A word of a shell.
fn quoted(word: &str) -> String {
    let is_plain = |letter: char| letter.is_alphanumeric() || "._-+/".contains(letter);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
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
/// started. Capabilities it lacks are not gained.
///
/// # Errors
/// If the kernel refuses; then the state is undefined and the caller must not continue.
pub fn keep(kept: &[Capability]) -> Result<()> {
    no_new_privileges()?;
    // SAFETY: prctl with plain numbers. It fails if there are no ambient capabilities, which is fine.
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
        return Err(Error::last_os("read", "the capabilities of this process"));
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

/// Programs executed from here on gain no right that this process does not have.
///
/// # Errors
/// If the kernel refuses.
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

//! Drops privileges before untrusted files are read: a command that only reads gives up, before the first byte, everything it
//! does not need for that, so no parser runs with root's rights.
//!
//! Dropped are capabilities except those for files; system calls that start programs, open sockets, signal, load or mount
//! (seccomp); writing anywhere but to the results (Landlock, since Linux 5.13). Each as far as this kernel supports it. An
//! ordinary user drops only capabilities: such a process can do no more than its user can.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::privileges::{self, Capability};
use crate::trusted;

/// Whether a command starts a program afterwards (an image converter).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Programs {
    /// None.
    None,
    /// With the remaining rights.
    Some,
}

/// Restricts the calling thread and its children, permanently. `outputs`: files or directories that will be written, existing
/// or not.
///
/// # Errors
/// If the kernel refuses to drop the capabilities.
pub fn to_reading(outputs: &[&Path], programs: Programs) -> Result<()> {
    if trusted::me() != 0 {
        return privileges::keep(&[]);
    }
    privileges::no_new_privileges()?;
    as_caller();
    // Not every kernel has both, and a container may refuse them.
    let _ = write_only(outputs);
    let _ = without_calls(programs);
    // The input files may be any user's, and results under `sudo` go into the directory of its caller.
    privileges::keep(&[Capability::DacOverride, Capability::DacReadSearch])
}

/// Under sudo, new files belong to its caller: by the file-system user id, which needs no capability afterwards, whereas
/// CAP_CHOWN would give away any file. The kernel drops the effective capabilities for files with it (setfsuid(2));
/// [`privileges::keep`] restores those that are kept. Without CAP_SETUID nothing changes, and results are root's.
fn as_caller() {
    let Some((user, group)) = trusted::sudo_caller() else { return };
    // SAFETY: plain numbers; the group first, since setting the user id removes the right to set it.
    unsafe {
        libc::setfsgid(group);
        libc::setfsuid(user);
    }
}

/// Landlock rights for files and, except for creating, for the contents of directories (include/uapi/linux/landlock.h).
const WRITE_FILE: u64 = 1 << 1;
const TRUNCATE: u64 = 1 << 14; // since version 3
const REFER: u64 = 1 << 13; // since version 2
/// Removing and creating of each kind.
const MAKE: u64 = 0x1ff0;
const IOCTL_DEVICE: u64 = 1 << 15; // since version 5
const TCP: u64 = 0x3; // since version 4: bind, connect
const SCOPES: u64 = 0x3; // since version 6: abstract sockets, signals

#[repr(C)]
struct Ruleset {
    files: u64,
    net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct Beneath {
    allowed: u64,
    parent: i32,
}

fn call(number: libc::c_long, arguments: [usize; 4]) -> io::Result<libc::c_long> {
    let [a, b, c, d] = arguments;
    // SAFETY: of Landlock's calls; what the arguments point to is valid in each.
    match unsafe { libc::syscall(number, a, b, c, d) } {
        -1 => Err(io::Error::last_os_error()),
        result => Ok(result),
    }
}

fn write_only(outputs: &[&Path]) -> io::Result<()> {
    let version = call(libc::SYS_landlock_create_ruleset, [0, 0, 1, 0])?;
    let since = |first: libc::c_long, right: u64| if version >= first { right } else { 0 };
    let of_files = WRITE_FILE | since(3, TRUNCATE);
    let all = of_files | MAKE | since(2, REFER);
    let ruleset =
        Ruleset { files: all | since(5, IOCTL_DEVICE), net: since(4, TCP), scoped: since(6, SCOPES) };
    // Older kernels have a shorter structure, and accept a longer one whose rest is 0.
    let fd =
        call(libc::SYS_landlock_create_ruleset, [(&raw const ruleset).addr(), size_of::<Ruleset>(), 0, 0])?;
    // SAFETY: just made, owned by nobody else.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    for (place, rights) in outputs.iter().flat_map(|output| places(output, all, of_files)) {
        let Ok(place) = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(place) else {
            continue;
        };
        let rule = Beneath { allowed: rights, parent: place.as_raw_fd() };
        call(libc::SYS_landlock_add_rule, [fd.as_raw_fd() as usize, 1, (&raw const rule).addr(), 0])?;
    }
    call(libc::SYS_landlock_restrict_self, [fd.as_raw_fd() as usize, 0, 0, 0]).map(drop)
}

/// The possible targets of `output`: itself, and the directory in which it will be created, even if it is a link now.
fn places(output: &Path, all: u64, of_files: u64) -> Vec<(PathBuf, u64)> {
    let real = std::fs::canonicalize(output).unwrap_or_else(|_| output.to_owned());
    let mut found = Vec::new();
    for path in [output, &real] {
        match std::fs::metadata(path) {
            Ok(there) if there.is_dir() => found.push((path.to_owned(), all)),
            Ok(_) => found.push((path.to_owned(), of_files)),
            Err(_) => {}
        }
        // The nearest existing directory: those below are created.
        let mut above = path.ancestors().skip(1).map(|above| match above.as_os_str().is_empty() {
            true => Path::new("."),
            false => above,
        });
        // An image of a device: the directory of devices is no place for results.
        let device = std::fs::metadata(path).is_ok_and(|there| !there.is_file() && !there.is_dir());
        found.extend(
            above.find(|above| above.is_dir()).filter(|_| !device).map(|above| (above.to_owned(), all)),
        );
    }
    found
}

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
const IS: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
/// Offsets in seccomp_data.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;
#[cfg(target_arch = "x86_64")]
const OWN: u32 = 0xc000_003e;
#[cfg(target_arch = "aarch64")]
const OWN: u32 = 0xc000_00b7;
/// From here on, x86-64 has the numbers of x32.
const X32: u32 = 0x4000_0000;

const STARTS: [libc::c_long; 2] = [libc::SYS_execve, libc::SYS_execveat];
const REFUSED: [libc::c_long; 46] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_socket,
    libc::SYS_connect,
    libc::SYS_bind,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_open_by_handle_at,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_mknodat,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_setuid,
    libc::SYS_setresuid,
    libc::SYS_setfsuid,
    libc::SYS_syslog,
];

fn without_calls(programs: Programs) -> io::Result<()> {
    let step = |code: u16, jt: u8, jf: u8, k: u32| libc::sock_filter { code, jt, jf, k };
    let refuse = step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32);
    let mut filter = vec![
        step(LOAD, 0, 0, ARCHITECTURE),
        step(IS, 1, 0, OWN),
        step(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(LOAD, 0, 0, NUMBER),
    ];
    if cfg!(target_arch = "x86_64") {
        filter.extend([step(AT_LEAST, 0, 1, X32), refuse]);
    }
    let starts = if programs == Programs::None { &STARTS[..] } else { &[] };
    for number in REFUSED.iter().chain(starts) {
        filter.extend([step(IS, 0, 1, *number as u32), refuse]);
    }
    filter.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: the program and its filter live through the call.
    match unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Runs `inside` in a separate process; returns whether it returned true.
    fn forked(inside: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child only makes system calls and ends.
        unsafe {
            let child = libc::fork();
            if child == 0 {
                libc::_exit(i32::from(!inside()));
            }
            let mut status = -1;
            libc::waitpid(child, &mut status, 0);
            status == 0
        }
    }

    #[test]
    #[ignore = "needs root"]
    fn root_that_reads_strangers_files_can_write_its_results_and_nothing_else() {
        const NAME: &str = "root_that_reads_strangers_files_can_write_its_results_and_nothing_else";
        if !crate::testing::may_run(NAME, crate::testing::lacks_root()) {
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        for directory in ["out", "else"] {
            fs::create_dir(at(directory)).unwrap();
        }
        fs::write(at("else/there"), "dear to root").unwrap();
        fs::write(at("target"), "").unwrap();
        std::os::unix::fs::symlink(at("target"), at("out/link")).unwrap();
        let has_landlock = call(libc::SYS_landlock_create_ruleset, [0, 0, 1, 0]).is_ok();
        let refused = |result: io::Result<()>| {
            result.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
        };
        assert!(forked(|| {
            let outputs = [at("out/new/page.html"), at("out/link"), PathBuf::from("/dev/null")];
            let outputs: Vec<&Path> = outputs.iter().map(PathBuf::as_path).collect();
            to_reading(&outputs, Programs::None).is_ok()
                && fs::read_to_string(at("else/there")).is_ok()
                && fs::create_dir(at("out/new")).is_ok()
                && crate::beneath::Directory::open(&at("out/new"), crate::beneath::Foreign::Refused)
                    .and_then(|new| {
                        let name = std::ffi::OsStr::new("page.html");
                        (0..2).try_for_each(|_| new.replace(name, b"x", crate::beneath::Readers::Umask, true))
                    })
                    .is_ok()
                && fs::write(at("target"), "x").is_ok()
                && fs::write("/dev/null", "x").is_ok()
                && std::thread::spawn(|| 1).join().is_ok()
        }));
        assert!(forked(|| {
            let done = to_reading(&[&at("out/page.html")], Programs::None).is_ok();
            let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
            let files = refused(fs::write(at("else/there"), "x"))
                && refused(fs::write(at("else/new"), "x"))
                && refused(fs::remove_file(at("else/there")))
                && refused(fs::write("/proc/self/coredump_filter", "0"));
            done && (files || !has_landlock)
                && status.contains("CapEff:\t0000000000000006\n")
                && refused(std::net::UdpSocket::bind("127.0.0.1:0").map(drop))
                && refused(std::process::Command::new("/bin/true").status().map(drop))
                // SAFETY: no pointers; the parent is this test.
                && unsafe { libc::kill(libc::getppid(), 0) } != 0
        }));
        assert_eq!(fs::read_to_string(at("else/there")).unwrap(), "dear to root");
    }
}

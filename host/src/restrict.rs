//! Drops privileges before untrusted files are read: a command that only reads gives up, before the first byte, everything it
//! does not need for that, so no parser runs with root's rights.
//!
//! Dropped are capabilities except those for files; system calls that start programs, open sockets, signal, load, mount or
//! change the mode of a file (`calls`); writing anywhere but to the results (Landlock, since Linux 5.13). Each as far as this
//! kernel supports it. An ordinary user drops only capabilities: such a process can do no more than its user can.

mod calls;

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
    let _ = calls::refuse(programs);
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

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use super::*;
    use crate::beneath::{Directory, Foreign, Readers};

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

    /// An existing result keeps the permissions that its user gave it, whatever the umask.
    fn keeps_mode(directory: &Path, mode: u32) -> bool {
        let path = directory.join(format!("{mode:o}"));
        // SAFETY: no pointers; this process has one thread.
        unsafe { libc::umask(0) };
        let made = File::options().create(true).write(true).truncate(true).mode(mode).open(&path);
        // SAFETY: as above.
        unsafe { libc::umask(0o077) };
        let before = made.and_then(|file| file.metadata()).unwrap().mode();
        let name = path.file_name().unwrap_or_default();
        let replaced = Directory::open(directory, Foreign::Refused)
            .and_then(|directory| directory.replace(name, b"x", Readers::Umask, true));
        // SAFETY: as above.
        unsafe { libc::umask(0o022) };
        replaced.is_ok() && fs::metadata(&path).unwrap().mode() == before
    }

    fn own_calls_work() -> bool {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: a valid rlimit; signal 0 is none.
        unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) == 0 && libc::raise(0) == 0 }
    }

    /// Processes of the same user, by any call, and the shell that reads the terminal.
    fn others_are_out_of_reach() -> bool {
        let refused = |result: libc::c_long| {
            result == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
        };
        // SAFETY: signal 0 is none; no limit is set or read; a character that is readable.
        unsafe {
            let parent = libc::getppid();
            refused(libc::kill(parent, 0).into())
                && refused(libc::syscall(libc::SYS_tkill, parent, 0))
                && refused(libc::syscall(libc::SYS_tgkill, parent, parent, 0))
                && refused(libc::syscall(libc::SYS_prlimit64, parent, libc::RLIMIT_NOFILE, 0, 0))
                && refused(libc::ioctl(0, libc::TIOCSTI, c"x".as_ptr()).into())
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
                && Directory::open(&at("out/new"), Foreign::Refused)
                    .and_then(|new| {
                        let name = std::ffi::OsStr::new("page.html");
                        (0..2).try_for_each(|_| new.replace(name, b"x", Readers::Umask, true))
                    })
                    .is_ok()
                && fs::write(at("target"), "x").is_ok()
                && keeps_mode(&at("out/new"), 0o640)
                && keeps_mode(&at("out/new"), 0o666)
                && own_calls_work()
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
            let modes = refused(fs::set_permissions(at("else/there"), fs::Permissions::from_mode(0o666)))
                && refused(
                    File::open(at("else/there"))
                        .and_then(|file| file.set_permissions(fs::Permissions::from_mode(0o666))),
                );
            done && (files || !has_landlock)
                && modes
                && others_are_out_of_reach()
                && status.contains("CapEff:\t0000000000000006\n")
                && refused(std::net::UdpSocket::bind("127.0.0.1:0").map(drop))
                && refused(std::process::Command::new("/bin/true").status().map(drop))
        }));
        assert_eq!(fs::read_to_string(at("else/there")).unwrap(), "dear to root");
    }
}

//! Dead programs leave their memory for later readers. That must not fill the machine: when a program starts, only the newest
//! few of its user's dead files are kept.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::SystemTime;

/// Files of dead programs that are kept: enough for the last crashes, small compared with the memory of live programs.
const KEPT: usize = 8;
/// The same while a session runs: its consumer removes them, unless it has died itself.
const KEPT_FOR_CONSUMER: usize = 256;

/// Removes the oldest files of dead programs in `directory`.
pub fn sweep(directory: &Path, session: bool) {
    let own = format!("{}-", std::process::id());
    let mut dead: Vec<_> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        // Closing any descriptor of our own file would drop our record lock on it.
        .filter(|entry| !entry.file_name().to_string_lossy().starts_with(&own) && is_dead(&entry.path()))
        .filter_map(|entry| {
            Some((entry.metadata().ok()?.modified().unwrap_or(SystemTime::UNIX_EPOCH), entry.path()))
        })
        .collect();
    dead.sort();
    let excess = dead.len().saturating_sub(if session { KEPT_FOR_CONSUMER } else { KEPT });
    for (_, path) in dead.into_iter().take(excess) {
        let _ = fs::remove_file(path);
    }
}

/// No process holds its lock, and none has its process id.
fn is_dead(path: &Path) -> bool {
    let pid: Option<i32> = path
        .file_name()
        .and_then(|name| name.to_str()?.split('-').next()?.parse().ok())
        .filter(|&pid| pid > 0);
    let (Some(pid), Ok(file)) = (pid, fs::File::open(path)) else { return false };
    // SAFETY: all-zero is a valid flock; signal 0 only checks.
    unsafe {
        let mut whole: libc::flock = std::mem::zeroed();
        whole.l_type = libc::F_RDLCK as libc::c_short;
        let free = libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut whole) == 0
            && whole.l_type == libc::F_UNLCK as libc::c_short;
        free && libc::kill(pid, 0) != 0 && *libc::__errno_location() == libc::ESRCH
    }
}

//! Kills everything that the load started: children, then the orphans that these leave, until none is left.
//!
//! As the subreaper the keeper inherits every orphan below it, even if it left its process group or session.

use std::fs;
use std::time::Duration;

/// Kills every descendant of this process. Returns when there is none.
pub(crate) fn until_alone() {
    loop {
        for pid in children() {
            // SAFETY: kill takes plain values; the pid is a child of ours and not reaped yet, so it cannot be another's.
            unsafe { libc::kill(pid, libc::SIGKILL) };
        }
        // All that have ended, before the next look at every process of the machine: there may be thousands of both.
        match (0..).map(|_| ended()).find(|pid| *pid <= 0) {
            Some(0) => std::thread::sleep(Duration::from_millis(2)),
            _ => return, // ECHILD: no child, hence no descendant
        }
    }
}

fn ended() -> libc::pid_t {
    // SAFETY: waits for any child of this process, no status wanted.
    unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) }
}

/// Children of this process, by the parent's pid in `/proc/PID/stat`.
fn children() -> Vec<libc::pid_t> {
    let own = std::process::id();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<libc::pid_t>().ok());
    pids.filter(|pid| parent(*pid) == Some(own)).collect()
}

fn parent(pid: libc::pid_t) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?; // a name may contain anything
    after_name.split_ascii_whitespace().nth(1)?.parse().ok()
}

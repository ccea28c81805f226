//! Keeper's side of watching the load: the CPU time of its processes in windows of a second, from /proc.
//!
//! The rusage of the keeper covers children only once they are reaped. `perf_event_open` with inheritance would count
//! without reading /proc, but costs each context switch of the load, and an interrupt on the measured CPUs per reading.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;

use lathunt_core::time::{Mono, Ns};

use crate::clock;

/// Start of a line on a window: its end and length, the CPU time of the load in it, that of the keeper so far, all in ns,
/// and the number of its processes that are runnable at the end.
pub(super) const WINDOW: &str = "window";
/// The line of a keeper that cannot see its processes in /proc.
pub(super) const UNWATCHED: &str = "unwatched";

const LENGTH: Ns = Ns(1_000_000_000);
/// Windows leave room in the pipe (usually 64 KiB) for the line on the end, so that the keeper never blocks in a write.
const MOST_UNREAD: libc::c_int = 2_048;

/// A process for ever: pid and start time, clock ticks.
type Id = (u32, u64);

/// A process in /proc.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    id: Id,
    parent: u32,
    ticks: u64, // CPU time, with that of its reaped children
    is_runnable: bool,
}

/// CPU times of the processes below this one, at the end of the last window.
pub(super) struct Activity {
    known: BTreeMap<Id, u64>,
    since: Mono,
}

impl Activity {
    /// Starts the first window, whose processes all count from zero. `None`: /proc shows other processes than ours.
    pub fn start() -> Option<Activity> {
        let own = std::process::id().to_string();
        let is_ours = fs::read_link("/proc/self").is_ok_and(|link| link.to_string_lossy() == own);
        let is_visible = is_ours && !below(std::process::id()).is_empty();
        is_visible.then(|| Activity { known: BTreeMap::new(), since: clock::mono() })
    }

    /// Reports the window if it is over, or `now`. It continues while nobody reads `report`.
    pub fn look(&mut self, now: bool, report: &mut File) {
        let end = clock::mono();
        let length = end.since(self.since);
        if (length < LENGTH && !now) || unread(report) > MOST_UNREAD {
            return;
        }
        let found = below(std::process::id());
        // A child may count twice: by itself, then with its parent. The question is only whether it ran.
        let grown = |process: &Process| {
            process.ticks.saturating_sub(self.known.get(&process.id).copied().unwrap_or_default())
        };
        let used = found.iter().map(grown).sum::<u64>().saturating_mul(tick_ns());
        let runnable = found.iter().filter(|process| process.is_runnable).count();
        let line = format!("{WINDOW} {} {} {used} {} {runnable}\n", end.0, length.0, own_time().0);
        if report.write_all(line.as_bytes()).is_ok() {
            self.known = found.into_iter().map(|process| (process.id, process.ticks)).collect();
            self.since = end;
        }
    }
}

/// Bytes in a pipe.
fn unread(pipe: &File) -> libc::c_int {
    let mut bytes = 0;
    // SAFETY: FIONREAD writes an int to a local.
    unsafe { libc::ioctl(pipe.as_raw_fd(), libc::FIONREAD, &mut bytes) };
    bytes
}

/// The descendants of `ancestor`.
fn below(ancestor: u32) -> Vec<Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut others: Vec<Process> =
        pids.filter_map(|pid| parse(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect();
    let (mut found, mut parents) = (Vec::new(), vec![ancestor]);
    while let Some(parent) = parents.pop() {
        let (children, rest): (Vec<_>, Vec<_>) = others.into_iter().partition(|one| one.parent == parent);
        parents.extend(children.iter().map(|child| child.id.0));
        found.extend(children);
        others = rest;
    }
    found
}

/// `/proc/PID/stat` (proc_pid_stat(5)): field 3 is the state, 4 is the parent, 14 to 17 are CPU times, 22 is the start.
fn parse(pid: u32, stat: &str) -> Option<Process> {
    let (_, after_name) = stat.rsplit_once(')')?; // a name may contain anything
    let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
    let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
    let ticks = (14..=17).map(field).sum::<Option<u64>>()?;
    let is_runnable = fields.first() == Some(&"R");
    Some(Process { id: (pid, field(22)?), parent: u32::try_from(field(4)?).ok()?, ticks, is_runnable })
}

fn tick_ns() -> u64 {
    // SAFETY: sysconf takes a plain value.
    let hz = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    1_000_000_000 / u64::try_from(hz).unwrap_or(100).max(1)
}

/// CPU time of this process.
fn own_time() -> Ns {
    // SAFETY: plain old data, for which zeros are valid; the call writes to a local.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut time);
        time
    };
    Ns((time.tv_sec as u64).saturating_mul(1_000_000_000) + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "7 (a) R 1 2) T 5 7 7 0 -1 64 1 2 3 4 10 20 300 4000 30 10 1 0 9876 1 2";
        let stopped = Process { id: (7, 9_876), parent: 5, ticks: 4_330, is_runnable: false };
        assert_eq!(parse(7, stat), Some(stopped));
        assert!(parse(7, &stat.replace(") T", ") R")).unwrap().is_runnable);
        assert_eq!(parse(7, "7 (a) R 1 2"), None);
    }

    #[test]
    fn a_child_is_below_its_parent_and_only_there() {
        let mut child = std::process::Command::new("sleep").arg("9").spawn().unwrap();
        let is_below = |ancestor| below(ancestor).iter().any(|one| one.id.0 == child.id());
        assert!(is_below(std::process::id()) && !is_below(child.id()));
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

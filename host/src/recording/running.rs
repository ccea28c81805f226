//! Running tasks, for the error that none match a selection.

use std::fmt;
use std::fs;
use std::path::Path;

/// A thread of user space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// Its process.
    pub pid: i32,
    /// Itself.
    pub tid: i32,
    /// Its name.
    pub comm: String,
    /// `RT 80`, `nice 0`, `DEADLINE`.
    pub scheduled: String,
    /// Of SCHED_FIFO, SCHED_RR or SCHED_DEADLINE.
    pub is_real_time: bool,
    /// CPU time since it started, in ticks of the kernel.
    pub ticks: u64,
}

impl fmt::Display for Running {
    /// `control/7 (RT 80)`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{} ({})", self.comm, self.tid, self.scheduled)
    }
}

/// All but this process, real-time ones first, then those with the most CPU time.
#[must_use]
pub fn running() -> Vec<Running> {
    let own = std::process::id() as i32;
    let mut all: Vec<Running> = Vec::new();
    for pid in numbers(Path::new("/proc")).filter(|&pid| pid != own) {
        let threads = numbers(Path::new(&format!("/proc/{pid}/task")));
        all.extend(threads.filter_map(|tid| of(pid, tid)));
    }
    all.sort_by_key(|one| (!one.is_real_time, std::cmp::Reverse(one.ticks)));
    all
}

fn numbers(directory: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// `None`: it has ended, or is a kernel thread.
fn of(pid: i32, tid: i32) -> Option<Running> {
    parsed(pid, tid, &fs::read(format!("/proc/{pid}/task/{tid}/stat")).ok()?)
}

/// Fields of proc_pid_stat(5), counted from 1: 9 flags, 14 utime, 15 stime, 18 priority, 19 nice, 41 policy.
fn parsed(pid: i32, tid: i32, stat: &[u8]) -> Option<Running> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let stat = String::from_utf8_lossy(stat);
    // A program may name itself `a) R 1`.
    let (before, after) = stat.rsplit_once(") ")?;
    let comm = before.split_once(" (")?.1.to_owned();
    let fields: Vec<&str> = after.split(' ').collect();
    let number = |field: usize| fields.get(field - 3)?.trim().parse::<i64>().ok();
    if number(9)?.unsigned_abs() & PF_KTHREAD != 0 {
        return None;
    }
    let (is_real_time, scheduled) = match number(41)? {
        1 | 2 => (true, format!("RT {}", -1 - number(18)?)),
        6 => (true, "DEADLINE".to_owned()),
        _ => (false, format!("nice {}", number(19)?)),
    };
    let ticks = (number(14)? + number(15)?).unsigned_abs();
    Some(Running { pid, tid, comm, scheduled, is_real_time, ticks })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(comm: &str, flags: u64, priority: i32, policy: u8) -> String {
        let before = "1 1 1 0 -1";
        let times = "0 0 0 0 12 30 0 0";
        let rest = format!("{} 3 0 {policy}", vec!["0"; 19].join(" "));
        format!("7 ({comm}) S {before} {flags} {times} {priority} -5 {rest} 0\n")
    }

    #[test]
    fn a_thread_is_read_with_its_priority_whatever_it_calls_itself() {
        let of = |stat: String| parsed(7, 8, stat.as_bytes());
        let loop_ = of(stat("a) R 1", 0x40, -81, 1)).unwrap();
        assert_eq!(
            (loop_.to_string().as_str(), loop_.is_real_time, loop_.ticks),
            ("a) R 1/8 (RT 80)", true, 42)
        );
        assert_eq!(of(stat("sh", 0, 15, 0)).unwrap().to_string(), "sh/8 (nice -5)");
        assert_eq!(of(stat("kworker", 0x0020_0000, 20, 0)), None);
        assert_eq!(parsed(7, 8, b"7 (x) S"), None);
    }

    #[test]
    fn the_real_thing_has_this_machine_s_first_process() {
        let all = running();
        assert!(all.iter().any(|one| one.pid == 1), "{all:?}");
        assert!(all.iter().all(|one| one.pid != std::process::id() as i32));
        assert!(all.is_sorted_by_key(|one| !one.is_real_time));
    }
}

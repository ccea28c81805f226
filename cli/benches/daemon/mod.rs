//! A running monitor, and what it has cost so far.
#![allow(dead_code)] // each bench uses its part

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Killed when dropped.
pub struct Daemon(Child);

/// So far.
pub struct Cost {
    /// CPU time, user and system.
    pub seconds: f64,
    /// Resident memory.
    pub megabytes: f64,
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Daemon {
    /// Starts one and waits until it records; `None` when it cannot.
    pub fn start(database: &Path) -> Option<Daemon> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.args(["monitor", "--listen", "off", "--database"]).arg(database);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().ok()?;
        let mut lines = BufReader::new(child.stderr.take()?).lines().map_while(Result::ok);
        let daemon = Daemon(child);
        let begun = lines.any(|line| line.contains("recording: "));
        std::thread::spawn(move || lines.for_each(drop));
        begun.then_some(daemon)
    }

    /// `None` when it has ended.
    pub fn cost(&self) -> Option<Cost> {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/{}/{name}", self.0.id())).ok();
        // On-CPU time in ns; /proc/PID/stat knows ticks of 10 ms.
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).ok()?;
        let of = |task: std::io::Result<std::fs::DirEntry>| -> Option<u64> {
            let text = std::fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
            text.split_whitespace().next()?.parse().ok()
        };
        let ns: u64 = tasks.filter_map(of).sum();
        let status = read("status")?;
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        let kilobytes: f64 = resident.trim().trim_end_matches(" kB").parse().ok()?;
        Some(Cost { seconds: ns as f64 / 1e9, megabytes: kilobytes / 1024.0 })
    }

    /// Asks it to end, and waits until it has.
    pub fn end(mut self) -> std::io::Result<ExitStatus> {
        // SAFETY: the child was not waited for, so its pid is its own.
        unsafe { libc::kill(self.0.id() as libc::pid_t, libc::SIGTERM) };
        self.0.wait()
    }
}

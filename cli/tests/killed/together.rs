//! All processes of a command are killed at the same instant: no keeper, guard or parent is left to clean up.

use std::fs;
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A cgroup for the processes of one command.
pub struct Together(PathBuf);

impl Together {
    /// `None`: no cgroup v2 is mounted, or the kernel is older than 5.14 (`cgroup.kill`).
    pub fn new() -> Option<Together> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let fields = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        let mount = fields.filter(|fields| fields.get(2) == Some(&"cgroup2")).find_map(|fields| {
            let path = PathBuf::from(fields[1]).join(format!("killed-{}", std::process::id()));
            (fs::create_dir(&path).is_ok() || path.is_dir()).then_some(path)
        })?;
        let together = Together(mount);
        together.0.join("cgroup.kill").exists().then_some(together)
    }

    /// Puts the child in it before its first instruction.
    pub fn holds(&self, command: &mut Command) {
        let mut procs = fs::OpenOptions::new().write(true).open(self.0.join("cgroup.procs")).unwrap();
        // SAFETY: one write of a static byte to an open descriptor.
        unsafe { command.pre_exec(move || procs.write_all(b"0")) };
    }

    /// Kills all of them, and waits until they are gone.
    pub fn kill(&self, child: &mut Child) {
        fs::write(self.0.join("cgroup.kill"), "1").unwrap();
        child.wait().unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        let populated = || fs::read_to_string(self.0.join("cgroup.events")).unwrap().contains("populated 1");
        while populated() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Together {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

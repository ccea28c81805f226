//! A program that waits at its beginning until the recorder knows it.

use std::ffi::OsString;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use lathunt_core::time::Tid;

use crate::error::{Error, Result};

/// How long a shell may take to stop itself.
const PATIENCE: Duration = Duration::from_secs(5);

/// A started program; it is ended with SIGTERM when this is dropped while it runs.
pub struct HeldChild {
    child: Child,
}

impl HeldChild {
    /// Starts `command` and stops it before its first instruction: a shell stops itself and then becomes the program,
    /// so that no code of ours runs between fork and exec.
    ///
    /// # Errors
    /// When there is no shell, or it does not stop.
    pub fn start(command: &[OsString]) -> Result<HeldChild> {
        let child = Command::new("/bin/sh")
            .args(["-c", "kill -STOP $$; exec \"$@\"", "lathunt-child"])
            .args(command)
            .spawn()
            .map_err(|error| Error::new("start", "the command", error))?;
        let held = HeldChild { child };
        let begun = Instant::now();
        while !held.is_stopped() {
            if begun.elapsed() > PATIENCE {
                return Err(Error::refused("start", "the command", "its shell did not stop"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(held)
    }

    /// Its process id, which is the id of its first thread.
    #[must_use]
    pub fn tid(&self) -> Tid {
        Tid(self.child.id() as i32)
    }

    /// Lets it run.
    pub fn go(&self) {
        self.signal(libc::SIGCONT);
    }

    /// Its exit code when it has ended (128 + signal for one that was killed).
    pub fn ended(&mut self) -> Option<i32> {
        use std::os::unix::process::ExitStatusExt;
        let status = self.child.try_wait().ok().flatten()?;
        status.code().or(status.signal().map(|signal| 128 + signal))
    }

    fn is_stopped(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('T'))
    }

    fn signal(&self, signal: i32) {
        // SAFETY: plain values; the child is ours and not yet waited for, so its id is not somebody else's.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }
}

impl Drop for HeldChild {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal(libc::SIGTERM);
            self.go();
            let begun = Instant::now();
            while self.ended().is_none() && begun.elapsed() < Duration::from_millis(500) {
                std::thread::sleep(Duration::from_millis(5));
            }
            if self.ended().is_none() {
                self.signal(libc::SIGKILL);
                let _ = self.child.wait();
            }
        }
    }
}

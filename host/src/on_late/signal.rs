//! A signal to another process: to the process named, never to a later one with the same id.

use std::fmt;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::error::{Error, Result};

/// Signals that can be named.
const NAMED: [(&str, libc::c_int); 9] = [
    ("USR1", libc::SIGUSR1),
    ("USR2", libc::SIGUSR2),
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("TERM", libc::SIGTERM),
    ("QUIT", libc::SIGQUIT),
    ("STOP", libc::SIGSTOP),
    ("CONT", libc::SIGCONT),
    ("KILL", libc::SIGKILL),
];

/// A running process, and the signal for it.
#[derive(Debug)]
pub struct Target {
    pid: libc::pid_t,
    signal: libc::c_int,
    process: OwnedFd, // not another process that gets the same id later
}

impl Target {
    /// Reads `PID` or `PID:SIGNAL` (USR1 without one) and opens the process.
    ///
    /// # Errors
    /// One line: no such process, one that must not be signalled, an unknown signal, or SIGUSR1 by default although
    /// the process would be killed by it.
    pub fn parse(text: &str) -> Result<Target> {
        let refused = |why: &str| Error::refused("send", format!("a signal to '{text}'"), why.to_owned());
        let (pid, name) = text.split_once(':').map_or((text, None), |(pid, name)| (pid, Some(name)));
        let pid: libc::pid_t = pid
            .parse()
            .ok()
            .filter(|&pid| pid > 1)
            .ok_or_else(|| refused("write signal:PID, with a PID above 1"))?;
        let named = |name: &str| {
            let name = name.strip_prefix("SIG").unwrap_or(name);
            NAMED.iter().find(|(known, _)| *known == name).map(|(_, signal)| *signal)
        };
        let known = NAMED.map(|(name, _)| name).join(", ");
        let signal = match name {
            None => libc::SIGUSR1,
            Some(name) => {
                named(name).ok_or_else(|| refused(&format!("no such signal; known are {known}")))?
            }
        };
        if pid as u32 == std::process::id() {
            return Err(refused("it is this process"));
        }
        // SAFETY: plain values; the descriptor is ours when the call succeeds.
        let opened = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        if opened < 0 {
            return Err(
                Error::last_os("send", format!("a signal to '{text}'")).hint("no process has this id")
            );
        }
        // SAFETY: see above.
        let process = unsafe { OwnedFd::from_raw_fd(opened as i32) };
        let target = Target { pid, signal, process };
        target.deliver(0).map_err(|error| Error::new("send", format!("a signal to '{text}'"), error))?;
        if is_of_the_kernel(pid) {
            return Err(refused("it is a kernel thread, which ignores signals"));
        }
        if name.is_none() && !handles(pid, signal) {
            return Err(refused(
                "it does not handle SIGUSR1 and would be ended by it: name the signal (signal:PID:TERM)",
            ));
        }
        // Everything read about it belongs to the process opened here, not to a later one with its id.
        target.deliver(0).map_err(|error| Error::new("send", format!("a signal to '{text}'"), error))?;
        Ok(target)
    }

    fn deliver(&self, signal: libc::c_int) -> std::io::Result<()> {
        // SAFETY: our descriptor, a plain number, no information attached.
        let sent = unsafe {
            let none = std::ptr::null::<libc::siginfo_t>();
            libc::syscall(libc::SYS_pidfd_send_signal, self.process.as_raw_fd(), signal, none, 0)
        };
        match sent {
            0 => Ok(()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }

    /// Sends it; returns the result in one line.
    #[must_use]
    pub fn send(&self) -> String {
        match self.deliver(self.signal) {
            Ok(()) => format!("{self}: sent"),
            Err(error) => format!("{self}: {error}"),
        }
    }

    /// Its descriptor, which the attendant keeps.
    pub(super) fn descriptor(&self) -> i32 {
        self.process.as_raw_fd()
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMED.iter().find(|(_, signal)| *signal == self.signal).map_or("?", |(name, _)| name);
        write!(f, "SIG{name} to process {}", self.pid)
    }
}

/// By `PF_KTHREAD` (include/linux/sched.h) among the flags of the process, the ninth field of its stat.
fn is_of_the_kernel(pid: libc::pid_t) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = stat.rsplit_once(')').map(|(_, after_name)| after_name); // a name may contain anything
    let flags = after_name.and_then(|rest| rest.split_ascii_whitespace().nth(6)?.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Whether the process catches or ignores `signal`.
fn handles(pid: libc::pid_t, signal: libc::c_int) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["SigCgt:", "SigIgn:"].iter().any(|field| {
        let mask = status.lines().find_map(|line| line.strip_prefix(field));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
    })
}

//! A program that is stopped at its start until the recorder is ready.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::time::Tid;

use crate::error::{Error, Result};
use crate::user::User;

/// How long a program may take to start.
const PATIENCE: Duration = Duration::from_secs(5);

/// Lets the child that `command` starts end with the thread that starts it, however that ends.
pub fn bound_to_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: plain system calls, which a child may make between fork and exec.
    unsafe {
        command.pre_exec(move || {
            crate::cpu_time::give_back();
            // Our own handler, which only sets a flag, is in force until exec.
            libc::signal(libc::SIGTERM, libc::SIG_DFL);
            match libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) {
                0 if libc::getppid() as u32 != parent => libc::_exit(1), // it died before that
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        })
    }
}

/// Why `program` was not started, and what to do: a limit of the caller is named.
#[must_use]
pub fn not_started(program: &str, error: std::io::Error) -> Error {
    let hint = match error.kind() {
        ErrorKind::NotFound if program.contains('/') => {
            "no such program, or the interpreter in its first line is missing"
        }
        ErrorKind::NotFound => "no such program in PATH",
        ErrorKind::PermissionDenied => "it is not a program, or this user may not run it",
        _ => "",
    };
    Error::new("start", program, error).hint(hint)
}

/// A started program; SIGTERM is sent when this is dropped while it runs.
pub struct HeldChild {
    child: Child,
    held: bool,
}

impl HeldChild {
    /// Starts `command` and stops it before its first instruction: it asks to be traced, and the kernel stops a traced
    /// program after exec. So it has its name already, and none of its code has run. With `aside`, its stdout goes to
    /// stderr. With `user` it runs as that user.
    ///
    /// # Errors
    /// Why the program cannot be started, in one line.
    pub fn start(command: &[OsString], aside: bool, user: Option<&User>) -> Result<HeldChild> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::refused("start", "the command", "it is empty"));
        };
        let shown = program.to_string_lossy().into_owned();
        let mut command = Command::new(program);
        command.args(arguments);
        if aside {
            let stderr = std::io::stderr().as_fd().try_clone_to_owned();
            command.stdout(stderr.map_or_else(|_| Stdio::null(), Stdio::from));
        }
        // Before it asks to be traced: a process that changes its user can no longer be traced.
        user.into_iter().for_each(|user| user.runs(&mut command));
        // SAFETY: one system call, allowed between fork and exec. If it is refused the program is not held.
        unsafe {
            command.pre_exec(|| {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                Ok(())
            });
        }
        let child = bound_to_parent(&mut command).spawn().map_err(|error| not_started(&shown, error))?;
        let mut held = HeldChild { child, held: false };
        let begun = Instant::now();
        while held.is_ours() && !held.held {
            if begun.elapsed() > PATIENCE {
                return Err(Error::refused("start", shown, "it did not start"));
            }
            held.held = held.has_stopped();
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(held)
    }

    /// Its process id, which is the id of its first thread.
    #[must_use]
    pub fn tid(&self) -> Tid {
        Tid(self.child.id() as i32)
    }

    /// Lets it run. Call it from the thread that started it.
    pub fn go(&mut self) {
        if std::mem::take(&mut self.held) {
            // SAFETY: plain values; the child is ours and not yet waited for, so its id is not somebody else's.
            unsafe { libc::ptrace(libc::PTRACE_DETACH, self.child.id() as i32, 0, 0) };
        }
    }

    /// Its exit status, once it has exited. [`Child::try_wait`] alone also returns stops while the child is traced.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        let change = self.change(libc::WEXITED | libc::WNOHANG | libc::WNOWAIT)?;
        let ends = [libc::CLD_EXITED, libc::CLD_KILLED, libc::CLD_DUMPED].contains(&change);
        ends.then(|| self.child.try_wait().ok().flatten()).flatten()
    }

    /// Whether we trace it.
    fn is_ours(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        tracer.is_some_and(|tracer| tracer.trim() != "0")
    }

    /// Consumes its initial stop, if it has happened; never its end, which [`HeldChild::ended`] waits for.
    fn has_stopped(&self) -> bool {
        self.change(libc::WSTOPPED | libc::WNOHANG).is_some()
    }

    /// The `si_code` of the state change that waitid() returns with these flags. While the child is traced, stops are returned
    /// whatever the flags (`wait_task_stopped` in kernel/exit.c).
    fn change(&self, flags: i32) -> Option<i32> {
        // SAFETY: zeros are valid for this plain struct, which is valid to write; the child is ours. Without a change, the id
        // stays 0.
        unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            let changes =
                libc::waitid(libc::P_PID, self.child.id(), &mut info, flags) == 0 && info.si_pid() != 0;
            changes.then_some(info.si_code)
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_held_with_its_own_name_and_ends_with_its_own_code() {
        let command = ["sh", "-c", "exit 7"].map(OsString::from);
        let mut child = HeldChild::start(&command, false, None).unwrap();
        assert!(child.held);
        let comm = std::fs::read_to_string(format!("/proc/{}/comm", child.tid())).unwrap();
        assert_eq!((comm.as_str(), child.ended()), ("sh\n", None));
        // A second stop while it is traced, before the delivery of a signal.
        // SAFETY: plain values; the child is ours and stopped.
        unsafe {
            libc::kill(child.tid().0, libc::SIGUSR1);
            libc::ptrace(libc::PTRACE_CONT, child.tid().0, 0, 0);
        }
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(child.ended(), None);
        assert!(child.has_stopped());
        child.go();
        let begun = Instant::now();
        let code = loop {
            match child.ended() {
                None if begun.elapsed() < PATIENCE => std::thread::sleep(Duration::from_millis(1)),
                ended => break ended,
            }
        };
        assert_eq!(code.and_then(|status| status.code()), Some(7));
    }

    #[test]
    fn what_cannot_be_started_is_told_in_one_line() {
        for (command, expected) in
            [("/nonexistent/program", "no such program"), ("/etc/passwd", "not a program")]
        {
            let error = HeldChild::start(&[command.into()], false, None).err().unwrap().to_string();
            assert!(error.contains(command) && error.contains(expected) && !error.contains('\n'), "{error}");
        }
    }
}

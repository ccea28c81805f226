//! Programs and signals in response to a late case while the measurement goes on.
//!
//! They are started by a separate process, forked before anything is measured: it has left the measured CPUs and the
//! measuring threads' priority, it still has the right to become another user, and it ends everything below it when an
//! action takes too long, on request, or when this process is gone, even by `kill -9` (`attendant`).
//!
//! Not here: which cases are late, how many actions are allowed, and traces (`cli::on_late`).

mod attendant;
mod guard;
mod output;
pub mod signal;

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Mono;

use crate::error::{Error, Result};
use crate::signals;
use crate::user::User;
pub use signal::Target;

/// How long the attendant may take to accept a case.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long it may take to end after the longest action.
const GRACE: Duration = Duration::from_secs(5);

/// One action.
#[derive(Debug)]
pub enum Action {
    /// A command for `sh -c`; the case is on its stdin.
    Command(String),
    /// A signal to a process.
    Signal(Target),
}

/// Rules for actions.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Where they run.
    pub cpus: CpuSet,
    /// Everything that a command started is killed after this.
    pub timeout: Duration,
    /// User that commands run as; `None`: that of this process.
    pub user: Option<User>,
}

/// A case for the attendant.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// The command's stdin.
    pub json: &'a str,
    /// Variables of its environment.
    pub environment: &'a [(&'a str, String)],
}

/// Outcome of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// When its first action began.
    pub begin: Mono,
    /// When its last action was over.
    pub end: Mono,
    /// Result of each action, one line each.
    pub did: Vec<String>,
}

/// The process that acts. It ends when this is dropped.
#[derive(Debug)]
pub struct ActionProcess {
    guard: libc::pid_t, // our child
    pid: libc::pid_t,   // of the process that acts, below it
    stream: Option<UnixStream>,
    heard: Vec<u8>,
    timeout: Duration,
    actions: u32,
    busy: bool,
}

impl ActionProcess {
    /// Forks it. Call this before threads are started, memory is locked, or privileges are dropped.
    ///
    /// # Errors
    /// The kernel refuses a socket or a process.
    pub fn start(actions: Vec<Action>, rules: Rules) -> Result<ActionProcess> {
        let (ours, theirs) =
            UnixStream::pair().map_err(|error| Error::new("make", "a socket for --on-late", error))?;
        let (timeout, count) = (rules.timeout, actions.len() as u32);
        // SAFETY: the child only runs `attend`, which obeys its module header and never returns.
        match unsafe { libc::fork() } {
            -1 => Err(Error::last_os("start", "the process that acts on late cases")),
            0 => {
                drop(ours);
                attendant::attend(&actions, &rules, theirs)
            }
            guard => {
                drop(theirs);
                let pid = acting(&ours)
                    .map_err(|error| Error::new("start", "the process that acts on late cases", error))?;
                let set = ours.set_nonblocking(true);
                set.map_err(|error| Error::new("use", "the socket for --on-late", error))?;
                let (stream, heard) = (Some(ours), Vec::new());
                Ok(ActionProcess { guard, pid, stream, heard, timeout, actions: count, busy: false })
            }
        }
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether an action is still running.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy
    }

    /// Acts on `case`. Returns at once.
    ///
    /// # Errors
    /// The attendant is gone, or does not accept it.
    pub fn act(&mut self, case: &Case) -> Result<()> {
        let message = attendant::message(case);
        let sent = self.send(&message);
        self.busy = sent.is_ok();
        sent.map_err(|error| {
            self.stream = None;
            Error::new("act on", "a late case", error).hint("the process that acts was killed")
        })
    }

    fn send(&mut self, mut message: &[u8]) -> std::io::Result<()> {
        let Some(stream) = &mut self.stream else { return Err(ErrorKind::BrokenPipe.into()) };
        let begun = Instant::now();
        while !message.is_empty() {
            match stream.write(message) {
                Ok(written) => message = &message[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock && begun.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_micros(200));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Outcome of the case, once all its actions are over. Never blocks.
    pub fn done(&mut self) -> Option<Done> {
        if !self.busy {
            return None;
        }
        let mut bytes = [0; 4096];
        loop {
            match self.stream.as_mut().map(|stream| stream.read(&mut bytes)) {
                Some(Ok(length)) if length > 0 => self.heard.extend_from_slice(&bytes[..length]),
                Some(Err(error)) if error.kind() == ErrorKind::WouldBlock => break,
                Some(Err(error)) if error.kind() == ErrorKind::Interrupted => {}
                _ => {
                    self.busy = false;
                    let now = crate::clock::mono();
                    let did = vec!["the process that acts was killed".to_owned()];
                    return Some(Done { begin: now, end: now, did });
                }
            }
        }
        let (done, length) = attendant::answer(&self.heard)?;
        self.heard.drain(..length);
        self.busy = false;
        Some(done)
    }

    /// Waits until the actions on the last case are over: at most their time limit, or some seconds after a stop signal.
    pub fn wait(&mut self) -> Option<Done> {
        let longest = self.timeout * self.actions.max(1) + GRACE;
        let begun = Instant::now();
        let limit = || if signals::stop_requested().is_some() { GRACE } else { longest };
        while self.busy && begun.elapsed() < limit() {
            if let Some(done) = self.done() {
                return Some(done);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

/// Its id, which it sends first.
fn acting(mut stream: &UnixStream) -> std::io::Result<libc::pid_t> {
    let mut id = [0; 4];
    stream.set_read_timeout(Some(GRACE))?;
    stream.read_exact(&mut id)?;
    Ok(i32::from_ne_bytes(id))
}

impl Drop for ActionProcess {
    fn drop(&mut self) {
        self.stream = None; // it sees the end of the stream, kills running commands, and ends
        let begun = Instant::now();
        // SAFETY: waits for our own child, with no status wanted.
        while unsafe { libc::waitpid(self.guard, std::ptr::null_mut(), libc::WNOHANG) } == 0 {
            if begun.elapsed() > GRACE {
                return; // a process below it does not die; it continues trying
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests;

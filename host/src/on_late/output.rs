//! Output of a command of `--on-late`: to stderr; that of another user through a pipe, made printable.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{FromRawFd, OwnedFd};
use std::process::Stdio;

use lathunt_core::printable;

/// Maximum bytes of one command that are passed on; the rest is read and discarded.
const MOST: usize = 1 << 20;

/// Of one command.
pub(super) struct Output {
    stderr: Option<File>,
    /// Ends of the pipe; `None`: the command has stderr itself.
    pipe: Option<(File, Option<OwnedFd>)>,
    left: usize,
}

impl Output {
    /// `through_pipe`: the command does not get stderr itself.
    pub fn of(stderr: Option<&OwnedFd>, through_pipe: bool) -> Output {
        let stderr = stderr.and_then(|stderr| stderr.try_clone().ok()).map(File::from);
        let pipe = through_pipe.then(pipe).flatten();
        let stderr = stderr.filter(|_| !through_pipe || pipe.is_some());
        Output { stderr, pipe: pipe.map(|(ours, theirs)| (File::from(ours), Some(theirs))), left: MOST }
    }

    /// The command's end.
    pub fn end(&self) -> Stdio {
        let end = match &self.pipe {
            Some((_, theirs)) => theirs.as_ref().and_then(|theirs| theirs.try_clone().ok()),
            None => self.stderr.as_ref().and_then(|stderr| stderr.try_clone().ok()).map(OwnedFd::from),
        };
        end.map_or_else(Stdio::null, Stdio::from)
    }

    /// The command has inherited its end.
    pub fn is_handed_over(&mut self) {
        self.pipe.iter_mut().for_each(|(_, theirs)| *theirs = None);
    }

    /// Prints new output. Never waits for the command.
    pub fn pass_on(&mut self) {
        let (Some((ours, _)), Some(stderr)) = (&mut self.pipe, &mut self.stderr) else { return };
        let mut bytes = [0; 4096];
        // At most a pipe's capacity: a command that prints continuously must not hide its end.
        for _ in 0..16 {
            let Ok(length @ 1..) = ours.read(&mut bytes) else { return };
            let text = String::from_utf8_lossy(&bytes[..length.min(self.left)]);
            self.left -= length.min(self.left);
            let _ = stderr.write_all(printable::lines(&text, |_| false).as_bytes());
        }
    }
}

/// Its read end, which is non-blocking, and its write end.
fn pipe() -> Option<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: an array of two; the descriptors are ours when the call succeeds.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return None;
        }
        let [ours, theirs] = ends.map(|end| OwnedFd::from_raw_fd(end));
        libc::fcntl(ends[0], libc::F_SETFL, libc::O_NONBLOCK);
        Some((ours, theirs))
    }
}

//! A user's program that answers: it reads each stimulus from stdin and writes it back to stdout when its work is done. `cat`
//! is such a program. The answer is sent when the stimulus has come back completely.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use lathunt_core::latency_box::deframe::Deframer;
use lathunt_core::latency_box::message::Message;

use crate::child::bound_to_parent;
use crate::error::{Error, Result};
use crate::link::descriptor::Descriptor;
use crate::link::{Inlet, Outlet};

/// The program and both pipes.
pub struct Relay {
    child: Child,
    to: Descriptor,
    from: Descriptor,
    deframer: Deframer,
}

impl Relay {
    /// Starts the program.
    ///
    /// # Errors
    /// If there is no such program.
    pub fn start(command: &[OsString]) -> Result<Relay> {
        let Some((program, arguments)) = command.split_first() else {
            return Err(Error::refused("start", "a program without a name", "write -- COMMAND"));
        };
        let what = program.to_string_lossy().into_owned();
        let failed = |error| Error::new("start", what.clone(), error);
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = bound_to_parent(&mut command).spawn().map_err(failed)?;
        let (Some(to), Some(from)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(Error::refused("start", what, "it has no pipes"));
        };
        let (to, from) = (Descriptor::file(OwnedFd::from(to)), Descriptor::file(OwnedFd::from(from)));
        Ok(Relay { child, to, from, deframer: Deframer::default() })
    }

    /// Passes it a stimulus and waits until that comes back.
    pub(super) fn pass(&mut self, message: &Message, stop: &AtomicBool) -> io::Result<()> {
        let ended = || io::Error::new(io::ErrorKind::BrokenPipe, "the program that answers has ended");
        self.to.send(&message.encode()).map_err(|error| match error.raw_os_error() {
            Some(libc::EPIPE) => ended(),
            _ => error,
        })?;
        while !stop.load(Ordering::Relaxed) {
            // A stimulus that came back late is not mistaken for this one.
            while let Some(back) = self.deframer.next() {
                if back == *message {
                    return Ok(());
                }
            }
            match self.from.receive(self.deframer.space()) {
                Ok(0) => return Err(ended()),
                Ok(n) => self.deframer.filled(n),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

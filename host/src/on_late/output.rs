//! Output of commands of `--on-late`: through a pipe to stderr, made printable and limited. A command quotes names that other
//! users chose, and one that prints without end must not fill the disk on which stderr is.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Stdio;

use lathunt_core::printable;

/// Maximum bytes of one command that are passed on; the rest is read and discarded.
const MOST: usize = 1 << 20;
/// Maximum bytes of all commands of a measurement.
const MOST_OF_ALL: usize = 64 << 20;
/// Bytes read at once. A character has at most six times its bytes when it is made printable, and a pipe that has room at all
/// takes 4096 bytes without waiting.
const PIECE: usize = 512;
/// Pieces passed on before the command is looked at again: more than a pipe holds.
const PIECES: usize = 256;

/// What all commands of a measurement may still print, in bytes.
pub(super) struct Allowance(usize);

impl Allowance {
    /// At the start of a measurement.
    pub fn new() -> Allowance {
        Allowance(MOST_OF_ALL)
    }
}

/// Of one command.
pub(super) struct Output {
    stderr: Option<File>,
    /// Ends of the pipe; `None`: nothing is passed on.
    pipe: Option<(File, Option<OwnedFd>)>,
    printed: usize,
    /// Whether the rest was discarded.
    is_cut: bool,
    /// The start of a character whose end was not read yet.
    begun: Vec<u8>,
}

impl Output {
    pub fn of(stderr: Option<&OwnedFd>) -> Output {
        let stderr = stderr.and_then(|stderr| stderr.try_clone().ok()).map(File::from);
        let pipe = pipe().map(|(ours, theirs)| (File::from(ours), Some(theirs)));
        Output { stderr, pipe, printed: 0, is_cut: false, begun: Vec::new() }
    }

    /// The command's end.
    pub fn end(&self) -> Stdio {
        let end = self.pipe.as_ref().and_then(|(_, theirs)| theirs.as_ref()?.try_clone().ok());
        end.map_or_else(Stdio::null, Stdio::from)
    }

    /// The command has inherited its end.
    pub fn is_handed_over(&mut self) {
        self.pipe.iter_mut().for_each(|(_, theirs)| *theirs = None);
    }

    /// Prints new output as far as it is allowed. Waits neither for the command nor for the reader of stderr.
    pub fn pass_on(&mut self, allowed: &mut Allowance) {
        let (Some((ours, _)), Some(stderr)) = (&mut self.pipe, &mut self.stderr) else { return };
        let mut bytes = [0; 1 << 16];
        for _ in 0..PIECES {
            let left = (MOST - self.printed).min(allowed.0);
            // A reader that does not read stops the command, as if it had stderr itself.
            if left > 0 && !has_room(stderr) {
                return;
            }
            let most = if left > 0 { PIECE } else { bytes.len() };
            let Ok(length @ 1..) = ours.read(&mut bytes[..most]) else { return };
            self.is_cut |= length > left;
            let passed = length.min(left);
            self.printed += passed;
            allowed.0 -= passed;
            let text = whole(&mut self.begun, &bytes[..passed]);
            let _ = stderr.write_all(printable::no_commands(&printable::lines(&text, |_| false)).as_bytes());
        }
    }

    /// `, its output was cut off after 1 MiB`, if it was.
    pub fn told(&self) -> String {
        match self.is_cut {
            false => String::new(),
            true if self.printed == MOST => format!(", its output was cut off after {} MiB", MOST >> 20),
            true => {
                let all = MOST_OF_ALL >> 20;
                format!(", its output was cut off: commands of this measurement printed {all} MiB")
            }
        }
    }
}

/// `bytes` as text; a character that they begin and do not end is kept in `begun`.
fn whole(begun: &mut Vec<u8>, bytes: &[u8]) -> String {
    begun.extend_from_slice(bytes);
    let last = (1..=begun.len().min(3)).rev().find(|&length| {
        let tail = &begun[begun.len() - length..];
        std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
    });
    let rest = begun.split_off(begun.len() - last.unwrap_or(0));
    let text = String::from_utf8_lossy(begun).into_owned();
    *begun = rest;
    text
}

/// Whether a piece can be written without waiting.
fn has_room(file: &File) -> bool {
    let mut poll = libc::pollfd { fd: file.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one structure, and no wait.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Output on stderr of a command that prints `text`, and the addition to its result.
    fn passed_on(text: Vec<u8>, allowed: &mut Allowance) -> (Vec<u8>, String) {
        let place = tempfile::tempfile().unwrap();
        let mut output = Output::of(Some(&OwnedFd::from(place.try_clone().unwrap())));
        let (_, theirs) = output.pipe.as_mut().unwrap();
        let mut theirs = File::from(theirs.take().unwrap());
        let writer = std::thread::spawn(move || theirs.write_all(&text).unwrap());
        while !writer.is_finished() {
            output.pass_on(allowed);
        }
        output.pass_on(allowed);
        let mut seen = Vec::new();
        std::io::Seek::rewind(&mut &place).unwrap();
        (&place).read_to_end(&mut seen).unwrap();
        (seen, output.told())
    }

    #[test]
    fn a_command_that_prints_without_end_fills_no_disk() {
        let allowed = &mut Allowance::new();
        let (seen, told) = passed_on(vec![b'y'; 20 << 20], allowed);
        assert_eq!((seen.len(), told.as_str()), (MOST, ", its output was cut off after 1 MiB"));
        assert_eq!(passed_on(vec![b'y'; MOST], allowed), (vec![b'y'; MOST], String::new()));
        allowed.0 = 100;
        let (seen, told) = passed_on(vec![b'y'; 101], allowed);
        assert!(seen.len() == 100 && told.contains("printed 64 MiB"), "{told}");
        assert_eq!(passed_on(Vec::new(), allowed), (Vec::new(), String::new()));
    }

    #[test]
    fn its_text_is_made_printable_and_no_character_is_torn() {
        let text = "ä€𝄞".repeat(PIECE) + "\x1b[2J\n::error::x\n";
        let (seen, _) = passed_on(text.clone().into_bytes(), &mut Allowance::new());
        let seen = String::from_utf8(seen).unwrap();
        assert_eq!(seen, text.replace('\x1b', "\\u001b").replace("\n::", "\n\\u{3a}:"));
        let (seen, _) = passed_on(b"a\xff\xe2\x82".to_vec(), &mut Allowance::new());
        assert_eq!(String::from_utf8(seen).unwrap(), "a\u{fffd}");
    }

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for() {
        let (ours, theirs) = pipe().unwrap();
        let mut output = Output::of(Some(&theirs));
        let (_, end) = output.pipe.as_mut().unwrap();
        let mut end = File::from(end.take().unwrap());
        let writer = std::thread::spawn(move || end.write_all(&[b'x'; 300_000]).is_err());
        for _ in 0..100 {
            output.pass_on(&mut Allowance::new());
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert!(output.printed < 100_000 && !output.is_cut, "{}", output.printed);
        drop((output, ours));
        assert!(writer.join().unwrap(), "the command learns that nobody reads");
    }
}

//! Named pipes: one that passes figures to its reader and never blocks the writer, and one that gets a result.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::signals;

/// A pipe in the file system, removed when dropped. Only this pipe is written and removed: the owner of its directory may put
/// a link or another file in its place.
#[derive(Debug)]
pub struct NamedPipe {
    path: PathBuf,
    /// Device and inode.
    identity: (u64, u64),
}

impl NamedPipe {
    /// Creates the pipe; an old pipe of that name is replaced, any other file is not.
    ///
    /// # Errors
    /// If another file has that name, or the directory is not writable.
    pub fn create(path: &Path) -> Result<NamedPipe> {
        if fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_fifo()) {
            let _ = fs::remove_file(path); // mkfifo reports the error
        }
        let shown = path.display().to_string();
        let name = CString::new(path.as_os_str().as_bytes())
            .map_err(|error| Error::new("create", format!("named pipe {shown}"), error))?;
        // SAFETY: name is a valid C string.
        if unsafe { libc::mkfifo(name.as_ptr(), 0o666) } != 0 {
            return Err(Error::last_os("create", format!("named pipe {shown}")));
        }
        let made = fs::symlink_metadata(path).ok().and_then(|made| identity(&made));
        let identity = made.ok_or_else(|| {
            Error::refused("create", format!("named pipe {shown}"), "it was replaced at once")
        })?;
        Ok(NamedPipe { path: path.to_owned(), identity })
    }

    /// The write end, if a reader has the pipe open now.
    #[must_use]
    pub fn reader_waits(&self) -> Option<File> {
        let flags = libc::O_NONBLOCK | libc::O_NOFOLLOW;
        let file = OpenOptions::new().write(true).custom_flags(flags).open(&self.path).ok()?;
        (identity(&file.metadata().ok()?) == Some(self.identity)).then_some(file)
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        let there = fs::symlink_metadata(&self.path).ok().and_then(|there| identity(&there));
        if there == Some(self.identity) {
            let _ = fs::remove_file(&self.path); // it was removed before us
        }
    }
}

/// Device and inode of a pipe; `None`: another kind of file.
fn identity(file: &fs::Metadata) -> Option<(u64, u64)> {
    file.file_type().is_fifo().then(|| (file.dev(), file.ino()))
}

/// How long a pipe may have no reader before that is reported, and how long it is waited for after a signal.
const SILENCE: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);

/// Opens the pipe `path` for writing a result, once there is a reader. `waiting` is called once if there is none for a second.
///
/// # Errors
/// It cannot be opened, or a signal requested the end and there is no reader for ten seconds.
pub fn for_result(path: &Path, waiting: impl FnOnce()) -> std::io::Result<File> {
    let (begin, mut waiting) = (Instant::now(), Some(waiting));
    loop {
        match OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(path) {
            // Again, for writes that wait; the reader is there. The first stays open meanwhile, or it would see the end.
            Ok(first) => return OpenOptions::new().write(true).open(path).inspect(|_| drop(first)),
            Err(error) if error.raw_os_error() != Some(libc::ENXIO) => return Err(error),
            Err(_) if signals::stop_requested().is_some() && begin.elapsed() > PATIENCE => {
                return Err(std::io::Error::other("the pipe has no reader"));
            }
            Err(_) => {}
        }
        if begin.elapsed() > SILENCE
            && let Some(waiting) = waiting.take()
        {
            waiting();
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_replaces_a_pipe_but_no_other_file_and_goes_away() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("stats");
        let first = NamedPipe::create(&path).unwrap();
        assert!(first.reader_waits().is_none());
        std::mem::forget(first); // as after a kill
        drop(NamedPipe::create(&path).unwrap());
        assert!(!path.exists());
        fs::write(&path, "precious").unwrap();
        assert!(NamedPipe::create(&path).is_err());
        assert_eq!(fs::read(&path).unwrap(), b"precious");
    }

    #[test]
    fn a_file_in_the_place_of_the_pipe_is_neither_written_nor_removed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        let pipe = NamedPipe::create(&at("stats")).unwrap();
        let mut readers = OpenOptions::new();
        let reader = readers.read(true).custom_flags(libc::O_NONBLOCK).open(at("stats")).unwrap();
        assert!(pipe.reader_waits().is_some());
        fs::remove_file(at("stats")).unwrap();
        std::os::unix::fs::symlink("precious", at("stats")).unwrap();
        assert!(pipe.reader_waits().is_none());
        fs::remove_file(at("stats")).unwrap();
        fs::hard_link(at("precious"), at("stats")).unwrap();
        assert!(pipe.reader_waits().is_none());
        drop((pipe, reader));
        assert_eq!(fs::read(at("stats")).unwrap(), b"precious");
    }
}

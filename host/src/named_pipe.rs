//! Named pipes: one that passes figures to its reader and never blocks the writer, and one that gets a result.

use std::ffi::CString;
use std::fs::{self, File, OpenOptions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::error::{Error, Result};
use crate::signals;

/// A pipe in the file system, removed when dropped.
#[derive(Debug)]
pub struct NamedPipe {
    path: PathBuf,
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
        Ok(NamedPipe { path: path.to_owned() })
    }

    /// The write end, if a reader has the pipe open now.
    #[must_use]
    pub fn reader_waits(&self) -> Option<File> {
        OpenOptions::new().write(true).custom_flags(libc::O_NONBLOCK).open(&self.path).ok()
    }
}

impl Drop for NamedPipe {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path); // it was removed before us
    }
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
}

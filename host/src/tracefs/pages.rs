//! Copies pages of one CPU's ring into a file, unchanged.
//!
//! While recording, whole pages are moved by splice(2) without copying them through this process; the rest is read
//! at the end. A page that is not full yet stays in the ring until then, so that the file contains full pages.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use crate::beneath::{Directory, Readers};
use crate::error::{Error, Result};

/// Maximum bytes moved per round, so that no CPU waits long for another.
const PIPE_BYTES: usize = 1 << 20;
/// Maximum rounds of one drain: a ring that fills faster than it is read must not block the others for ever.
const MOST_TURNS: usize = 64;

/// The ring of one CPU and the file its pages go to.
#[derive(Debug)]
pub(super) struct CpuPages {
    raw: File,
    path: PathBuf,
    file: File,
    name: OsString,
    pipe: (OwnedFd, OwnedFd),
    page_bytes: usize,
    /// Bytes in the file.
    pub written: u64,
}

impl CpuPages {
    /// Opens the rings of all CPUs (`trace_pipe_raw`, name of the file). If one fails, no file is left.
    pub fn open_all(
        rings: impl Iterator<Item = (PathBuf, OsString)>,
        directory: &Directory,
        page_bytes: usize,
    ) -> Result<Vec<CpuPages>> {
        let mut cpus: Vec<CpuPages> = Vec::new();
        for (raw, name) in rings {
            match CpuPages::open(&raw, directory, name, page_bytes) {
                Ok(cpu) => cpus.push(cpu),
                Err(error) => {
                    cpus.into_iter().for_each(|cpu| cpu.remove(directory));
                    return Err(error);
                }
            }
        }
        Ok(cpus)
    }

    /// `raw` is `trace_pipe_raw`; creates the file at `path`.
    fn open(raw: &Path, directory: &Directory, name: OsString, page_bytes: usize) -> Result<CpuPages> {
        let ring = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(raw);
        let raw = ring.map_err(|error| Error::new("read", raw.display().to_string(), error))?;
        let path = directory.path().join(&name);
        // Left by a recording that was killed, or whose disk was full: it may be all that is left of that one.
        if directory.find(&name).is_ok_and(|found| found.is_some()) {
            let mut old = name.clone();
            old.push(".partial");
            let renamed = directory.rename(&name, &old);
            renamed.map_err(|error| Error::new("rename", path.display().to_string(), error))?;
        }
        let pipe = pipe()?;
        let file = directory
            .create_new(&name, Readers::Owner)
            .map_err(|error| Error::new("make", path.display().to_string(), error))?;
        Ok(CpuPages { raw, name, path, file, pipe, page_bytes, written: 0 })
    }

    /// Moves the available full pages.
    pub fn drain(&mut self) -> Result<()> {
        let (out, into) = (self.pipe.0.as_raw_fd(), self.pipe.1.as_raw_fd());
        for _ in 0..MOST_TURNS {
            let room = PIPE_BYTES / self.page_bytes * self.page_bytes;
            let moved = match splice(self.raw.as_raw_fd(), into, room) {
                Ok(0) => return Ok(()),
                Ok(moved) => moved,
                Err(error) if is_empty(&error) => return Ok(()),
                // Kernels that refuse to splice: everything is read instead.
                Err(error) if error.kind() == ErrorKind::InvalidInput => return self.read_all(),
                Err(error) => return Err(Error::new("read", "the trace ring", error)),
            };
            let mut left = moved;
            while left > 0 {
                let written = splice(out, self.file.as_raw_fd(), left)
                    .map_err(|error| Error::new("write", self.path.display().to_string(), error))?;
                left -= written.min(left);
                self.written += written as u64;
            }
        }
        Ok(())
    }

    /// Moves all pages, including the partly filled last one.
    pub fn read_all(&mut self) -> Result<()> {
        let mut page = vec![0; self.page_bytes];
        loop {
            match self.raw.read(&mut page) {
                Ok(0) => return Ok(()),
                Ok(read) => {
                    page[read..].fill(0);
                    self.file
                        .write_all(&page)
                        .map_err(|error| Error::new("write", self.path.display().to_string(), error))?;
                    self.written += page.len() as u64;
                }
                Err(error) if is_empty(&error) => return Ok(()),
                Err(error) => return Err(Error::new("read", "the trace ring", error)),
            }
        }
    }

    /// Copies the pages into `target` at `offset`.
    pub fn copy_to(&mut self, target: &mut File, offset: u64) -> Result<()> {
        use std::io::{Seek, SeekFrom};
        let written = |error| Error::new("write", "trace.dat", error);
        target.seek(SeekFrom::Start(offset)).map_err(written)?;
        self.file.seek(SeekFrom::Start(0)).map_err(written)?;
        std::io::copy(&mut self.file, target).map_err(written)?; // copy_file_range, if the file system supports it
        Ok(())
    }

    /// Removes their file.
    pub fn remove(self, directory: &Directory) {
        let _ = directory.remove(&self.name);
    }
}

/// Nothing to read now. A CPU that has not been online since the instance was made has no ring yet: ENODEV
/// (kernel/trace/ring_buffer.c, ring_buffer_alloc_read_page()).
fn is_empty(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
        || error.raw_os_error() == Some(libc::ENODEV)
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    let mut ends: [RawFd; 2] = [0; 2];
    // SAFETY: `ends` has room for the two descriptors, which nobody else owns.
    let (out, into) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(Error::last_os("make", "a pipe"));
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: a plain call; a smaller pipe only means more rounds.
    unsafe { libc::fcntl(into.as_raw_fd(), libc::F_SETPIPE_SZ, PIPE_BYTES) };
    Ok((out, into))
}

fn splice(from: RawFd, to: RawFd, bytes: usize) -> std::io::Result<usize> {
    let flags = libc::SPLICE_F_MOVE | libc::SPLICE_F_NONBLOCK;
    // SAFETY: null offsets mean the descriptors' own positions.
    let moved = unsafe { libc::splice(from, std::ptr::null_mut(), to, std::ptr::null_mut(), bytes, flags) };
    usize::try_from(moved).map_err(|_| std::io::Error::last_os_error())
}

//! Files as bytes, mapped: a trace of many gigabytes costs address space, not memory.

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Once;

use lathunt_core::trace::ftrace_text::Release;

use crate::holes;
use crate::input::{self, Input};
use crate::signals;

/// A file mapped for reading. An empty file has no mapping.
#[derive(Debug)]
pub struct Mapped {
    address: *mut libc::c_void,
    length: usize,
}

// SAFETY: the mapping is read-only and lives as long as the value; any thread may read it.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the file at `path`.
    ///
    /// If the file is truncated while it is mapped, the process ends with one line and exit code 1.
    ///
    /// # Errors
    /// It cannot be opened or mapped, most of it is holes, or it is not a regular file: a FIFO would wait for a writer.
    pub fn open(path: &Path) -> std::io::Result<Mapped> {
        Mapped::of(&input::regular(path)?)
    }

    /// Maps an open input, from its first byte; empty if it has no length.
    ///
    /// # Errors
    /// It cannot be mapped, most of it is holes, or it is not a regular file.
    pub fn whole(input: &Input) -> std::io::Result<Mapped> {
        match input.is_regular() {
            true => Mapped::of(input.as_file()),
            false => Err(std::io::Error::other("it is not a regular file")),
        }
    }

    /// All bytes of a stream without length or seeking (a pipe), through an unnamed temporary file.
    ///
    /// # Errors
    /// It cannot be read or stored, or is longer than `limit`.
    pub fn spooled(from: impl Read, limit: u64) -> std::io::Result<Mapped> {
        let directory = std::env::temp_dir();
        let mut file = File::options()
            .read(true)
            .write(true)
            .custom_flags(libc::O_TMPFILE)
            .mode(0o600)
            .open(&directory)
            .map_err(|error| {
                std::io::Error::other(format!("no temporary file in {}: {error}", directory.display()))
            })?;
        let copied = std::io::copy(&mut from.take(limit + 1), &mut file)?;
        if copied > limit {
            return Err(std::io::Error::other(format!(
                "it does not end after {} MiB: write it to a file first",
                limit >> 20
            )));
        }
        Mapped::of(&file)
    }

    fn of(file: &File) -> std::io::Result<Mapped> {
        let length = usize::try_from(file.metadata()?.len()).map_err(std::io::Error::other)?;
        if length == 0 {
            return Ok(Mapped { address: std::ptr::null_mut(), length: 0 });
        }
        holes::refuse(file, length as u64)?;
        static HANDLER: Once = Once::new();
        HANDLER.call_once(|| signals::on_shortened(on_shortened));
        // SAFETY: a new private read-only mapping of an open file; the kernel checks the arguments.
        let address = unsafe {
            libc::mmap(std::ptr::null_mut(), length, libc::PROT_READ, libc::MAP_PRIVATE, file.as_raw_fd(), 0)
        };
        if address == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error());
        }
        Ok(Mapped { address, length })
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if self.length == 0 {
            return &[];
        }
        // SAFETY: `address` is a live read-only mapping of `length` bytes until drop.
        unsafe { std::slice::from_raw_parts(self.address.cast(), self.length) }
    }
}

impl Release for Mapped {
    /// Removes the whole pages in `bytes` from this process; they stay in the page cache until the kernel reclaims them.
    fn release(&self, bytes: &[u8]) {
        // SAFETY: sysconf has no preconditions.
        let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1);
        let inside = self.bytes().as_ptr_range();
        let given = bytes.as_ptr_range();
        if given.start < inside.start || given.end > inside.end {
            return;
        }
        let begin = (given.start as usize).next_multiple_of(page);
        let end = given.end as usize / page * page;
        if begin < end {
            // SAFETY: pages of a live private mapping of a file that nobody writes through: the next access reads the
            // same bytes from the file.
            unsafe { libc::madvise(begin as *mut libc::c_void, end - begin, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        if self.length > 0 {
            // SAFETY: the mapping made by `open`, unmapped once.
            unsafe { libc::munmap(self.address, self.length) };
        }
    }
}

/// The file ended before a page of its mapping: no reader of it can continue.
extern "C" fn on_shortened(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel passes a valid siginfo.
    if unsafe { (*info).si_code } != libc::BUS_ADRERR {
        // Sent by a process, or a defect of the memory: it kills, once this handler returns.
        // SAFETY: signal and raise may be called in a signal handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let said =
        "lathunt: a file was truncated while it was read; read it when its writer is done, or read a copy\n";
    // SAFETY: write and _exit may be called in a signal handler; the text is static.
    unsafe {
        libc::write(libc::STDERR_FILENO, said.as_ptr().cast(), said.len());
        libc::_exit(1);
    }
}

/// Maximum read from a file without length.
const MOST: u64 = 1 << 30;

/// Present content of a file without length, such as the kernel's own: reading stops when it would block, and at the
/// maximum length.
///
/// # Errors
/// It cannot be read, or its length is known and above the maximum.
pub fn read_now(input: Input) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match input.at_most(MOST)?.take(MOST).read_to_end(&mut bytes) {
        Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => Ok(bytes),
        read => read.map(|_| bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_its_bytes_and_an_empty_one_is_none() {
        let path = std::env::temp_dir().join(format!("lathunt-mapped-{}", std::process::id()));
        std::fs::write(&path, b"trace").unwrap();
        assert_eq!(Mapped::open(&path).unwrap().bytes(), b"trace");
        std::fs::write(&path, b"").unwrap();
        assert_eq!(Mapped::open(&path).unwrap().bytes(), b"");
        std::fs::remove_file(&path).unwrap();
        assert!(Mapped::open(&path).is_err());
    }
}

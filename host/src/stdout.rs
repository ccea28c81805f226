//! Standard output on which no result is lost silently.
//!
//! Rust's runtime opens closed standard descriptors on `/dev/null` before `main`, so that `>&-` looks like `>/dev/null`, and
//! std's `Stdout` ignores EBADF: a descriptor that is not open for writing takes everything. Both would lose a result
//! with exit status 0. Here a function in `.init_array`, which runs before Rust's runtime, looks at the descriptor, and
//! writes report EBADF.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

static CLOSED: AtomicBool = AtomicBool::new(false);

/// Called by the dynamic loader or the C library before `main`.
extern "C" fn look() {
    // SAFETY: a query of a descriptor that may be closed.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    CLOSED.store(flags == -1, Ordering::Relaxed);
}

// SAFETY: the section holds pointers to functions without arguments that are needed, which `look` satisfies; it uses
// nothing that Rust's runtime sets up.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether stdout was closed when the process started.
#[must_use]
pub fn was_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// Whether `path` is a name of stdout.
#[must_use]
pub fn is_named(path: &Path) -> bool {
    ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// Writes `bytes` to stdout at once.
///
/// # Errors
/// It is closed or not open for writing, its disk is full, or its reader left (`BrokenPipe`).
pub fn write(bytes: &[u8]) -> io::Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    if was_closed() {
        return Err(io::Error::other("it was closed when lathunt started"));
    }
    File::from(io::stdout().as_fd().try_clone_to_owned()?).write_all(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stdout_of_a_test_is_open() {
        assert!(!was_closed());
        assert!(is_named(Path::new("/dev/stdout")) && !is_named(Path::new("stdout")));
    }
}

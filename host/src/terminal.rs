//! The terminal on standard error.

/// Columns of the terminal on stderr; `None` when it is none or does not say.
#[must_use]
pub fn columns() -> Option<usize> {
    // SAFETY: winsize is plain data, and TIOCGWINSZ writes one of it to the pointer given.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(libc::STDERR_FILENO, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0)
}

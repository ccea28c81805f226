//! The terminal: its width on standard error, single keys on standard input.

/// Columns of the terminal on stderr; `None` if it is not a terminal or does not say.
#[must_use]
pub fn columns() -> Option<usize> {
    size_of_stderr().map(|(columns, _)| columns)
}

/// Columns and lines of the terminal on stderr; `None` if it is not a terminal or does not say.
#[must_use]
pub fn size_of_stderr() -> Option<(usize, usize)> {
    size(libc::STDERR_FILENO)
}

/// Columns and lines of the terminal on stdout; `None` if it is not a terminal or does not say.
#[must_use]
pub fn size_of_stdout() -> Option<(usize, usize)> {
    size(libc::STDOUT_FILENO)
}

fn size(fd: libc::c_int) -> Option<(usize, usize)> {
    // SAFETY: winsize is plain data, and TIOCGWINSZ writes one of it to the pointer given.
    let size = unsafe {
        let mut size: libc::winsize = std::mem::zeroed();
        (libc::ioctl(fd, libc::TIOCGWINSZ, &raw mut size) == 0).then_some(size)
    };
    size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row))).filter(|&(columns, _)| columns > 0)
}

/// Single keys from the terminal on stdin, without Enter and without echo; dropping it restores the terminal.
pub struct Keys {
    before: libc::termios,
}

impl Keys {
    /// `None` if stdin is not a terminal.
    #[must_use]
    pub fn read() -> Option<Keys> {
        // SAFETY: termios is plain data; both calls get a valid pointer to one.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            if libc::tcgetattr(libc::STDIN_FILENO, &raw mut before) != 0 {
                return None;
            }
            let mut keys = before;
            keys.c_lflag &= !(libc::ICANON | libc::ECHO);
            keys.c_cc[libc::VMIN] = 0;
            keys.c_cc[libc::VTIME] = 0;
            (libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const keys) == 0)
                .then_some(Keys { before })
        }
    }

    /// Keys pressed since the last call.
    #[must_use]
    pub fn pressed(&self) -> Vec<u8> {
        let mut typed = [0u8; 64];
        // SAFETY: the buffer is as long as said; with VMIN 0 the call returns at once.
        let got = unsafe { libc::read(libc::STDIN_FILENO, typed.as_mut_ptr().cast(), typed.len()) };
        typed[..usize::try_from(got).unwrap_or(0)].to_vec()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        // SAFETY: what tcgetattr gave.
        unsafe { libc::tcsetattr(libc::STDIN_FILENO, libc::TCSANOW, &raw const self.before) };
    }
}

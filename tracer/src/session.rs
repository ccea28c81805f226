//! The running session's settings for programs that start now: read from `BASE/lathunt-UID.session`.
//!
//! In programs that were running before the session, the consumer writes the enable bytes instead. The file of
//! root's session applies to all users. Only files of root or the user are trusted.

use std::ffi::CStr;

use crate::file::read_owned;
use crate::text::path_into;

const TEXT_MAX: usize = 8192;

/// The session file's text; see LAYOUT.md for its lines.
pub struct Session {
    text: [u8; TEXT_MAX],
    length: usize,
}

impl Session {
    /// The session that covers this user, if any. `base` is the directory of all shared memory.
    #[must_use]
    pub fn read(base: &[u8], uid: u32) -> Option<Session> {
        let mut session = Session { text: [0; TEXT_MAX], length: 0 };
        for owner in [uid, 0] {
            let mut path = [0; 512];
            let Some(path) = path_into(&mut path, format_args!("/lathunt-{owner}.session"), base) else {
                continue;
            };
            session.length = read_owned(path, owner, &mut session.text);
            if session.length > 0 {
                return Some(session);
            }
        }
        None
    }

    /// The values of `key`, in order.
    fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.text[..self.length].split(|&byte| byte == b'\n').filter_map(move |line| {
            line.strip_prefix(key.as_bytes()).and_then(|rest| rest.strip_prefix(b" "))
        })
    }

    /// Whether full rings overwrite their oldest packets.
    #[must_use]
    pub fn overwrites(&self) -> bool {
        self.values("mode").any(|mode| mode == b"overwrite")
    }

    /// Bytes of packets per thread, if the session sets them.
    #[must_use]
    pub fn ring_bytes(&self) -> Option<u64> {
        std::str::from_utf8(self.values("ring_bytes").next()?).ok()?.parse().ok()
    }

    /// Whether the program called `comm` with process id `pid` is selected.
    #[must_use]
    pub fn covers(&self, comm: &CStr, pid: u64) -> bool {
        let pid_fits = match self.values("pid").next() {
            None => true,
            Some(_) => {
                self.values("pid").any(|text| std::str::from_utf8(text).is_ok_and(|t| t.parse() == Ok(pid)))
            }
        };
        let comm_fits =
            self.values("comm").next().is_none() || self.values("comm").any(|pattern| matches(pattern, comm));
        pid_fits && comm_fits
    }

    /// Whether the event is enabled: the last `enable` or `disable` line that matches its name decides.
    #[must_use]
    pub fn wants(&self, event: &CStr) -> bool {
        let mut wanted = false;
        for line in self.text[..self.length].split(|&byte| byte == b'\n') {
            if line.strip_prefix(b"enable ").is_some_and(|pattern| matches(pattern, event)) {
                wanted = true;
            }
            if line.strip_prefix(b"disable ").is_some_and(|pattern| matches(pattern, event)) {
                wanted = false;
            }
        }
        wanted
    }
}

/// Shell pattern, as `fnmatch` reads it.
fn matches(pattern: &[u8], text: &CStr) -> bool {
    let mut terminated = [0; 256];
    if pattern.len() >= terminated.len() {
        return false;
    }
    terminated[..pattern.len()].copy_from_slice(pattern);
    // SAFETY: both texts are NUL-terminated.
    unsafe { libc::fnmatch(terminated.as_ptr().cast(), text.as_ptr(), 0) == 0 }
}

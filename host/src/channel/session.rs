//! What the user wants recorded: a small text file, read by the consumer and by programs that start.
//!
//! ```text
//! lathunt-session 1
//! mode discard
//! comm motion*
//! enable control:*
//! disable control:noisy
//! dir /var/tmp/trace
//! ```

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

/// A session.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Session {
    /// Full rings overwrite their oldest packets, and only a snapshot writes (flight recorder).
    pub overwrite: bool,
    /// Bytes per thread; `None`: the tracer's default.
    pub ring_bytes: Option<u64>,
    /// Shell patterns of program names; empty: all.
    pub comms: Vec<String>,
    /// Process ids; empty: all.
    pub pids: Vec<u32>,
    /// Shell patterns of event names with `true` for enable; the last that matches decides.
    pub rules: Vec<(bool, String)>,
    /// Where traces are written.
    pub dir: PathBuf,
    /// Most bytes written; `None`: until the disk is full.
    pub limit_bytes: Option<u64>,
    /// Realtime minus monotonic, ns, for all traces of the session.
    pub clock_offset_ns: i64,
    /// Seconds since 1970.
    pub created: i64,
    /// Process id of the consumer.
    pub consumer: u32,
}

impl Session {
    /// A session that records every event of every program into `dir`.
    #[must_use]
    pub fn new(dir: PathBuf) -> Session {
        Session {
            dir,
            rules: vec![(true, "*".to_owned())],
            clock_offset_ns: super::clock::realtime_offset_ns(),
            created: super::clock::realtime_seconds(),
            consumer: std::process::id(),
            ..Session::default()
        }
    }

    /// Whether `event` is wanted.
    #[must_use]
    pub fn wants(&self, event: &str) -> bool {
        self.rules
            .iter()
            .rev()
            .find(|(_, pattern)| matches(pattern, event))
            .is_some_and(|&(enable, _)| enable)
    }

    /// Whether the program takes part.
    #[must_use]
    pub fn covers(&self, comm: &str, pid: u32) -> bool {
        (self.comms.is_empty() || self.comms.iter().any(|pattern| matches(pattern, comm)))
            && (self.pids.is_empty() || self.pids.contains(&pid))
    }

    /// Reads the file; `None` where there is no session.
    ///
    /// # Errors
    /// The file is there and cannot be read.
    pub fn read(path: &Path) -> Result<Option<Session>> {
        match fs::read_to_string(path) {
            Ok(text) => Session::parse(&text).map(Some).ok_or_else(|| {
                Error::refused("read the session", path.display().to_string(), "delete it to start afresh")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::new("read the session", path.display().to_string(), error)),
        }
    }

    /// Writes the file at once: readers see the old or the new session.
    ///
    /// # Errors
    /// The place cannot be written, or a pattern holds a line break.
    pub fn write(&self, path: &Path) -> Result<()> {
        let text = self.text();
        if Session::parse(&text).as_ref() != Some(self) || text.len() > 8000 {
            return Err(Error::refused(
                "keep the session",
                path.display().to_string(),
                "a name or pattern is too odd or too long",
            ));
        }
        let fresh = path.with_extension(format!("session.{}", std::process::id()));
        super::place::replace(path, &fresh, &text)
            .map_err(|source| Error::new("write the session", path.display().to_string(), source))
    }

    fn text(&self) -> String {
        let mut text = String::from("lathunt-session 1\n");
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{key} {value}");
        };
        line("mode", &if self.overwrite { "overwrite" } else { "discard" });
        line("dir", &self.dir.display());
        line("clock_offset_ns", &self.clock_offset_ns);
        line("created", &self.created);
        line("consumer", &self.consumer);
        self.ring_bytes.iter().for_each(|bytes| line("ring_bytes", bytes));
        self.limit_bytes.iter().for_each(|bytes| line("limit_bytes", bytes));
        self.comms.iter().for_each(|comm| line("comm", comm));
        self.pids.iter().for_each(|pid| line("pid", pid));
        self.rules.iter().for_each(|(enable, rule)| line(if *enable { "enable" } else { "disable" }, rule));
        text
    }

    fn parse(text: &str) -> Option<Session> {
        let mut lines = text.lines();
        if lines.next()? != "lathunt-session 1" {
            return None;
        }
        let mut session = Session::default();
        for line in lines {
            let (key, value) = line.split_once(' ')?;
            match key {
                "mode" => session.overwrite = value == "overwrite",
                "dir" => session.dir = value.into(),
                "clock_offset_ns" => session.clock_offset_ns = value.parse().ok()?,
                "created" => session.created = value.parse().ok()?,
                "consumer" => session.consumer = value.parse().ok()?,
                "ring_bytes" => session.ring_bytes = Some(value.parse().ok()?),
                "limit_bytes" => session.limit_bytes = Some(value.parse().ok()?),
                "comm" => session.comms.push(value.to_owned()),
                "pid" => session.pids.push(value.parse().ok()?),
                "enable" => session.rules.push((true, value.to_owned())),
                "disable" => session.rules.push((false, value.to_owned())),
                _ => return None,
            }
        }
        Some(session)
    }
}

/// Shell pattern, as `fnmatch` reads it: the traced programs use the same function.
fn matches(pattern: &str, text: &str) -> bool {
    let (Ok(pattern), Ok(text)) = (std::ffi::CString::new(pattern), std::ffi::CString::new(text)) else {
        return false;
    };
    // SAFETY: both texts are NUL-terminated.
    unsafe { libc::fnmatch(pattern.as_ptr(), text.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_matching_rule_decides() {
        let mut session = Session::new("/tmp/x".into());
        session.rules.push((false, "control:*".into()));
        session.rules.push((true, "control:cycle".into()));
        assert!(
            session.wants("other:event") && session.wants("control:cycle") && !session.wants("control:noisy")
        );
    }

    #[test]
    fn a_session_reads_back_and_refuses_what_its_file_cannot_hold() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("lathunt-0.session");
        let mut session =
            Session { comms: vec!["motion*".into()], pids: vec![7], ..Session::new("/tmp/a b".into()) };
        session.write(&path).unwrap();
        assert_eq!(Session::read(&path).unwrap(), Some(session.clone()));
        session.rules.push((true, "evil\ndir /etc".into()));
        assert!(session.write(&path).is_err());
        fs::write(&path, "something else").unwrap();
        assert!(Session::read(&path).is_err());
        assert_eq!(Session::read(&place.path().join("none")).unwrap(), None);
    }
}

//! What the user wants recorded: a small text file in the user's own state directory, and a copy of its rules (without
//! directory and user) for programs that start.
//!
//! ```text
//! lathunt-session 1
//! mode discard
//! comm motion*
//! enable control:*
//! disable control:noisy
//! dir /var/tmp/trace (not in the copy)
//! ```

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::beneath::{Directory, Foreign, Readers};
use crate::error::{Error, Result};
use crate::trusted::{self, Owner};

use super::place::Place;

/// Maximum size of its file: programs read it at once.
const MOST_BYTES: u64 = 8000;

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
    /// Shell patterns of event names with `true` for enable; the last match decides.
    pub rules: Vec<(bool, String)>,
    /// Where traces are written.
    pub dir: PathBuf,
    /// Most bytes written; `None`: until the disk is full.
    pub limit_bytes: Option<u64>,
    /// Realtime minus monotonic, ns, for all traces of the session.
    pub clock_offset_ns: i64,
    /// Seconds since 1970.
    pub created: i64,
    /// Allow `dir` to belong to another user.
    pub foreign: bool,
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
            ..Session::default()
        }
    }

    /// Its directory, created if missing.
    ///
    /// # Errors
    /// It cannot be created or written, or belongs to another user.
    pub fn open_dir(&self) -> std::io::Result<Directory> {
        let foreign = if self.foreign { Foreign::Allowed } else { Foreign::Refused };
        Directory::make(&self.dir, Readers::Owner, foreign)
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

    /// Whether the program is selected.
    #[must_use]
    pub fn covers(&self, comm: &str, pid: u32) -> bool {
        (self.comms.is_empty() || self.comms.iter().any(|pattern| matches(pattern, comm)))
            && (self.pids.is_empty() || self.pids.contains(&pid))
    }

    /// Reads the file; `None` if there is no session.
    ///
    /// # Errors
    /// The file exists and cannot be read, or is accessible to other users.
    pub fn read(path: &Path) -> Result<Option<Session>> {
        match trusted::read_text(path, Owner::Me, MOST_BYTES) {
            Ok(text) => Session::parse(&text).map(Some).ok_or_else(|| {
                Error::refused("read the session", path.display().to_string(), "delete it to start afresh")
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::new("read the session", path.display().to_string(), error)),
        }
    }

    /// Writes the file atomically, and the copy for programs: readers see the old or the new session.
    ///
    /// # Errors
    /// The location cannot be written, or a pattern contains a line break.
    pub fn write(&self, place: &Place, consumer: Option<u32>) -> Result<()> {
        let (text, path) = (self.text(), place.session());
        if Session::parse(&text).as_ref() != Some(self) || text.len() as u64 > MOST_BYTES {
            return Err(Error::refused(
                "keep the session",
                path.display().to_string(),
                "a name or pattern is too long or contains a line break",
            ));
        }
        let name = path.file_name().unwrap_or_default();
        place
            .state()?
            .replace(name, text.as_bytes(), Readers::Owner, false)
            .map_err(|source| Error::new("write the session", path.display().to_string(), source))?;
        // The consumer's id is for people and scripts: lathunt does not rely on it.
        let consumer = consumer.map_or(String::new(), |pid| format!("consumer {pid}\n"));
        place.publish(Some(&(self.rules_text() + &consumer)));
        Ok(())
    }

    fn text(&self) -> String {
        let mut text = self.rules_text();
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{key} {value}");
        };
        line("dir", &self.dir.display());
        line("clock_offset_ns", &self.clock_offset_ns);
        line("created", &self.created);
        if self.foreign {
            line("foreign", &"allowed");
        }
        self.limit_bytes.iter().for_each(|bytes| line("limit_bytes", bytes));
        text
    }

    /// The rules for programs that start.
    fn rules_text(&self) -> String {
        let mut text = String::from("lathunt-session 1\n");
        let mut line = |key: &str, value: &dyn std::fmt::Display| {
            let _ = writeln!(text, "{key} {value}");
        };
        line("mode", &if self.overwrite { "overwrite" } else { "discard" });
        self.ring_bytes.iter().for_each(|bytes| line("ring_bytes", bytes));
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
                "foreign" => session.foreign = true,
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

/// Matches a shell pattern by `fnmatch`: the traced programs use the same function.
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
        let base = tempfile::tempdir().unwrap();
        let place = Place::new(base.path().into());
        let path = place.session();
        let mut session =
            Session { comms: vec!["motion*".into()], pids: vec![7], ..Session::new("/tmp/a b".into()) };
        session.write(&place, Some(7)).unwrap();
        assert_eq!(Session::read(&path).unwrap(), Some(session.clone()));
        session.rules.push((true, "evil\ndir /etc".into()));
        assert!(session.write(&place, None).is_err());
        let published = base.path().join(format!("lathunt-{}.session", trusted::me()));
        let published = std::fs::read_to_string(published).unwrap();
        assert!(published.contains("comm motion*") && !published.contains("dir"), "{published}");
        std::fs::write(&path, "something else").unwrap();
        assert!(Session::read(&path).is_err());
        assert_eq!(Session::read(&base.path().join("none")).unwrap(), None);
    }
}

//! Paths of the shared memory, the session and the lock.
//!
//! Programs of all users put their memory below `/dev/shm`, or below `LATHUNT_TRACE_DIR`, which the traced programs read
//! too: any user may place files there. So no trusted state is read from there. The session, its lock and the consumer's
//! report are in a directory that only this user can write: `/run/lathunt` for root, `$XDG_RUNTIME_DIR/lathunt` or
//! `/tmp/lathunt-UID` for others. Programs that start read a copy of the session's rules, which is written there for
//! them and never read back.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{openat, AtFlags, Mode, OFlags, CWD};

use super::lock;
use crate::beneath::{Directory, Foreign, Readers};
use crate::error::{Error, Result};
use crate::trusted::{me, Owner};

/// Lock by which a user's consumer keeps root's from reading the same rings: in the directory of that user's programs.
const CONSUMER_LOCK: &str = ".consumer";

/// Most files of one user that are looked at.
const MOST_FILES: usize = 1 << 16;

/// The directory that a user's programs and the consumer share, and that of the consumer's own state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    base: PathBuf,
    state: PathBuf,
    /// Prefix of the names of the session's files.
    name: String,
    uid: u32,
}

/// A program's file: the directory of its user, and its name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Owner of directory and file.
    pub uid: u32,
    /// The user's directory.
    pub directory: PathBuf,
    /// `PID-START-N`.
    pub name: OsString,
}

impl Place {
    /// The place of this user.
    #[must_use]
    pub fn from_environment() -> Place {
        let (base, name) = match std::env::var_os("LATHUNT_TRACE_DIR").map(PathBuf::from) {
            Some(base) => {
                let whole = base.canonicalize().unwrap_or_else(|_| base.clone());
                let [a, b, c, d, ..] = super::output::uuid_of(&[&whole.to_string_lossy()]);
                (base, format!("trace-{a:02x}{b:02x}{c:02x}{d:02x}"))
            }
            None => ("/dev/shm".into(), "trace".to_owned()),
        };
        Place { base, state: crate::knob::default_directory(), name, uid: me() }
    }

    /// The place of this user below `base`, including the state.
    #[must_use]
    pub fn new(base: PathBuf) -> Place {
        let uid = me();
        Place { state: base.join(format!("lathunt-{uid}.state")), base, name: "trace".to_owned(), uid }
    }

    /// The session's file.
    #[must_use]
    pub fn session(&self) -> PathBuf {
        self.state.join(format!("{}.session", self.name))
    }

    /// Lock file of the running consumer.
    #[must_use]
    pub fn lock(&self) -> PathBuf {
        self.state.join(format!("{}.lock", self.name))
    }

    /// File of the consumer's status report.
    #[must_use]
    pub fn status(&self) -> PathBuf {
        self.state.join(format!("{}.status", self.name))
    }

    /// The directory of the state, created if missing; refused if others can write it.
    ///
    /// # Errors
    /// It is refused, or cannot be created.
    pub fn state(&self) -> Result<Directory> {
        Directory::make(&self.state, Readers::Owner, Foreign::Refused)
            .and_then(Directory::private)
            .map_err(|source| Error::new("use", self.state.display().to_string(), source))
    }

    /// Publishes the session's rules for programs that start, or removes them. It is a copy for them only; if another
    /// user has taken its name, programs get the rules when the consumer finds them.
    pub(super) fn publish(&self, rules: Option<&str>) {
        let name = OsString::from(format!("lathunt-{}.session", self.uid));
        let Ok(base) = Directory::open(&self.base, Foreign::Allowed) else { return };
        match rules {
            // All users' programs read those of root; a file that is not ours is replaced if the kernel allows it.
            Some(rules) => drop(base.replace(&name, rules.as_bytes(), Readers::Everybody, false)),
            None => drop(base.remove(&name)),
        }
    }

    /// Claims this user's rings, against root's consumer. `None` if the directory does not exist or is refused: then
    /// this user has no programs either.
    pub(super) fn claim_programs(&self) -> Option<lock::Lock> {
        let base = Directory::open(&self.base, Foreign::Allowed).ok()?;
        let own =
            base.below(OsStr::new(&format!("lathunt-{}", self.uid)), Readers::Owner).ok()?.private().ok()?;
        lock::hold(own.open_or_create(OsStr::new(CONSUMER_LOCK), Readers::Owner, Owner::Me).ok()?)
    }

    /// Releases the claim of [`Place::claim_programs`], while the session's lock is still held.
    pub(super) fn leave_programs(&self) {
        let own = self.base.join(format!("lathunt-{}", self.uid));
        if let Ok(own) = of_user(&own, self.uid) {
            remove(&own, OsStr::new(CONSUMER_LOCK));
        }
    }

    /// The files of all programs that we may read: our own; root reads those of all users, except users who run a
    /// consumer themselves.
    #[must_use]
    pub fn programs(&self) -> Vec<Share> {
        let mut shares = Vec::new();
        for (uid, path) in self.directories() {
            let Ok(directory) = of_user(&path, uid) else { continue };
            if uid != self.uid && lock::is_held_in(&directory, OsStr::new(CONSUMER_LOCK), Owner::User(uid)) {
                continue;
            }
            let names = names(&directory).take(MOST_FILES).filter(|name| is_share(name));
            shares.extend(names.map(|name| Share { uid, directory: path.clone(), name }));
        }
        shares.sort();
        shares
    }

    fn directories(&self) -> Vec<(u32, PathBuf)> {
        let Ok(base) = Directory::open(&self.base, Foreign::Allowed) else { return Vec::new() };
        let of_uid = |name: OsString| {
            let uid: u32 = name.to_str()?.strip_prefix("lathunt-")?.parse().ok()?;
            (uid == self.uid || self.uid == 0).then(|| (uid, self.base.join(name)))
        };
        names(&base).filter_map(of_uid).collect()
    }
}

impl Share {
    /// Its directory, open.
    ///
    /// # Errors
    /// It is not a directory of that user, or is a link.
    pub(super) fn open_directory(&self) -> io::Result<Directory> {
        of_user(&self.directory, self.uid)
    }

    /// The file's whole name.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.directory.join(&self.name)
    }
}

/// A user's directory, which must have been created by that user.
fn of_user(path: &Path, uid: u32) -> io::Result<Directory> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(CWD, path, flags, Mode::empty())?;
    if rustix::fs::fstat(&fd)?.st_uid != uid {
        return Err(io::Error::other("the directory belongs to another user"));
    }
    Ok(Directory::of_fd(fd, path.to_owned()))
}

/// `PID-START-N`: nothing else, such as a terminal's escape sequences, becomes part of a path or a message.
fn is_share(name: &OsStr) -> bool {
    let numbers = |text: &str| text.split('-').map(|part| part.parse::<u64>().is_ok()).collect::<Vec<_>>();
    name.to_str().is_some_and(|text| numbers(text) == [true, true, true])
}

fn names(directory: &Directory) -> impl Iterator<Item = OsString> {
    use std::os::unix::ffi::OsStrExt;
    let entries = rustix::fs::Dir::read_from(directory).into_iter().flatten().flatten();
    entries.map(|entry| OsStr::from_bytes(entry.file_name().to_bytes()).to_owned())
}

/// Removes a program's file from its user's directory.
pub(super) fn remove(directory: &Directory, name: &OsStr) {
    let _ = rustix::fs::unlinkat(directory, name, AtFlags::empty());
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn programs_are_regular_names_in_their_users_own_directory() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join(format!("lathunt-{}", me()));
        fs::create_dir(&own).unwrap();
        for name in ["7-8-0", "7-8-\x1b[2J", ".consumer", "7-8", "x"] {
            fs::write(own.join(name), "").unwrap();
        }
        let names: Vec<_> = Place::new(place.path().into()).programs().into_iter().map(|s| s.name).collect();
        assert_eq!(names, ["7-8-0"]);
        fs::rename(&own, place.path().join("elsewhere")).unwrap();
        symlink(place.path().join("elsewhere"), &own).unwrap();
        assert!(Place::new(place.path().into()).programs().is_empty(), "a link is not followed");
    }

    #[test]
    fn the_state_is_refused_where_others_can_write_it() {
        let base = tempfile::tempdir().unwrap();
        let place = Place::new(base.path().into());
        drop(place.state().unwrap());
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        fs::set_permissions(base.path().join(format!("lathunt-{}.state", me())), open).unwrap();
        assert!(place.state().is_err());
    }
}

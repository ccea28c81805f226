//! Writes results: clear errors, and never a partial file.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{anyhow, bail, Result};
use lathunt_core::run::Run;
use lathunt_host::beneath::{Directory, Foreign, Readers, Special};
use lathunt_host::trusted::Owner;

use crate::own::{is_partial_run, Kind};

/// Name of the run file inside an output directory.
pub const RUN_FILE: &str = "run.lathunt.json";

/// Permissions given on the command line.
static FORCE: AtomicBool = AtomicBool::new(false);
static FOREIGN: AtomicBool = AtomicBool::new(false);

/// Maximum bytes of an existing file that are read to determine its kind.
const LOOK_BYTES: u64 = 64 << 20;

/// Stores `--force` and `--allow-foreign-directory`, once, before any command runs.
pub fn allow(force: bool, foreign: bool) {
    FORCE.store(force, Ordering::Relaxed);
    FOREIGN.store(foreign, Ordering::Relaxed);
}

/// Whether directories of other users are accepted.
pub fn foreign() -> Foreign {
    if FOREIGN.load(Ordering::Relaxed) {
        Foreign::Allowed
    } else {
        Foreign::Refused
    }
}

/// Writes `bytes` to `path` so that after any failure, a full disk or a kill either the old or the new file exists, never
/// a part.
///
/// An existing file is replaced only if it is lathunt's own output of the same kind ([`Kind`]); an earlier run is kept as
/// `*.old`, and one that was cut off as `*.partial`. Links of this user are followed; a file that is not regular
/// (`/dev/stdout`, a pipe) is written directly.
///
/// # Errors
/// One line: the file, and the error, or why an existing file must not be overwritten.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    if let Some(special) = special(path)? {
        return opened(path, &special)?.write_all(bytes).map_err(|error| said(path, &error));
    }
    let (directory, name) = place(path)?;
    let keep = may_replace(&directory, &name, path, Kind::of(bytes).as_ref())?;
    let Some(old) = keep else {
        return directory.replace(&name, bytes, Readers::Umask, true).map_err(|error| said(path, &error));
    };
    directory.replace_keeping(&name, &old, bytes).map_err(|error| said(path, &error))?;
    eprintln!("lathunt: renamed an earlier run to {}", path.with_file_name(&old).display());
    Ok(())
}

/// [`write_atomic`] of a run; one without a sample does not take the place of an earlier run.
///
/// # Errors
/// As [`write_atomic`].
pub fn write_run(path: &Path, run: &Run) -> Result<()> {
    if run.has_samples() || special(path)?.is_some() {
        return write_atomic(path, run.to_json().as_bytes());
    }
    let (directory, name) = place(path)?;
    let there = existing(&directory, &name).map_err(|error| said(path, &error))?;
    if there.and_then(|there| there.kind) != Some(Kind::run()) {
        return write_atomic(path, run.to_json().as_bytes());
    }
    eprintln!("lathunt: no sample was taken; the earlier run {} stays", path.display());
    Ok(())
}

/// [`write_atomic`] without waiting for the disk, for a file that the caller knows may be overwritten: survives a kill of this
/// process, not a power failure.
///
/// # Errors
/// One line: the file, and the error.
pub fn write_quick(path: &Path, bytes: &[u8]) -> Result<()> {
    let (directory, name) = place(path)?;
    directory.replace(&name, bytes, Readers::Umask, false).map_err(|error| said(path, &error))
}

/// Path that will be written for `path`, in a directory the file `name`; checked before a measurement, so that none is in
/// vain.
///
/// # Errors
/// One line: why it is not writable.
pub fn target(path: &Path, name: &str) -> Result<PathBuf> {
    target_like(path, name, &Kind::run())
}

/// The same for a file of another kind.
///
/// # Errors
/// As [`target`].
pub fn target_like(path: &Path, name: &str, kind: &Kind) -> Result<PathBuf> {
    let file = if path.is_dir() { path.join(name) } else { path.to_owned() };
    if let Some(special) = special(&file)? {
        // The reader of a pipe would see its end if it were opened now and closed.
        if !special.is_pipe() {
            opened(&file, &special)?;
        }
        return Ok(file);
    }
    let (directory, name) = place(&file)?;
    directory.probe().map_err(|error| said(&file, &error))?;
    may_replace(&directory, &name, &file, Some(kind))?;
    Ok(file)
}

/// The directory `path`, created if missing.
///
/// # Errors
/// One line: it cannot be created, or is not writable.
pub fn directory(path: &Path, readers: Readers) -> Result<Directory> {
    Directory::make_for_caller(path, readers, foreign()).map_err(|error| said(path, &error))
}

/// Writes a file into an open directory.
///
/// # Errors
/// One line: the file, and the error.
pub fn put(directory: &Directory, name: &str, bytes: &[u8], readers: Readers) -> Result<()> {
    let written = directory.replace(OsStr::new(name), bytes, readers, true);
    written.map_err(|error| said(&directory.path().join(name), &error))
}

/// A file that an earlier command may have left: its name, and a check of its kind.
pub type Left = (&'static str, fn(&Kind) -> bool);

/// Ending of an earlier result that is complete, and of one that was cut off: a failed measurement never displaces a
/// good one.
fn ending(is_partial: bool) -> &'static str {
    if is_partial {
        "partial"
    } else {
        "old"
    }
}

/// Renames files of an earlier recording in `directory` ([`Earlier`]); returns the first of them.
///
/// # Errors
/// One line: the file that belongs to another program, or cannot be renamed.
pub fn set_aside(directory: &Directory, names: &[Left]) -> Result<Option<PathBuf>> {
    earlier(directory, names)?.map(|earlier| earlier.set_aside(directory)).transpose()
}

/// Files of an earlier recording, each with its new name, and those of even earlier ones with such a name.
pub struct Earlier {
    there: Vec<(OsString, OsString)>,
    stale: Vec<OsString>,
}

impl Earlier {
    /// Renames them to `*.old`, or to `*.partial` if the first is missing or a run that was cut off; returns the first. Files of
    /// even earlier recordings with these names are replaced or removed: none stays beside another recording's.
    ///
    /// # Errors
    /// One line: the file that cannot be renamed.
    pub fn set_aside(self, directory: &Directory) -> Result<PathBuf> {
        let Earlier { there, mut stale } = self;
        let at = |name: &OsStr| directory.path().join(name);
        for (name, kept) in &there {
            directory.rename(name, kept).map_err(|error| said(&at(name), &error))?;
            stale.retain(|stale| stale != kept);
        }
        for kept in &stale {
            directory.remove(kept).map_err(|error| said(&at(kept), &error))?;
        }
        Ok(there.first().map_or_else(|| directory.path().to_owned(), |(_, kept)| at(kept)))
    }
}

/// The files of an earlier recording in `directory`, all of which are lathunt's; `None`: there are none.
///
/// # Errors
/// One line: the file that belongs to another program.
pub fn earlier(directory: &Directory, names: &[Left]) -> Result<Option<Earlier>> {
    let at = |name: &OsStr| directory.path().join(name);
    let found = |name: &OsStr| existing(directory, name).map_err(|error| said(&at(name), &error));
    let first = names.first().map(|(name, _)| found(OsStr::new(name))).transpose()?.flatten();
    let ending = ending(first.is_none_or(|first| first.is_partial));
    let (mut there, mut stale) = (Vec::new(), Vec::new());
    for (name, ours) in names {
        let kept = OsString::from(format!("{name}.{ending}"));
        for (name, is_kept) in [(OsStr::new(name), false), (&kept, true)] {
            let Some(found) = found(name)? else { continue };
            let is_ours = found.kind.as_ref().is_none_or(ours);
            if !is_ours && !forced() {
                bail!("cannot write {}: the existing file was not written by lathunt; name another, or pass --force", at(name).display());
            }
            match is_kept {
                false => there.push((name.to_owned(), kept.clone())),
                true if is_ours => stale.push(kept.clone()),
                true => {}
            }
        }
    }
    Ok((!there.is_empty()).then_some(Earlier { there, stale }))
}

fn forced() -> bool {
    FORCE.load(Ordering::Relaxed)
}

fn place(path: &Path) -> Result<(Directory, OsString)> {
    let (directory, name) = Directory::of_file(path, foreign()).map_err(|error| said(path, &error))?;
    Ok((directory.for_caller(), name))
}

/// The pipe or device that `path` names, if it does.
fn special(path: &Path) -> Result<Option<Special>> {
    let shown = path.display();
    if lathunt_host::stdout::is_named(path) && lathunt_host::stdout::was_closed() {
        bail!("cannot write {shown}: stdout was closed when lathunt started; name a file");
    }
    if path.is_dir() {
        bail!("cannot write {shown}: it is a directory; name a file");
    }
    Special::find(path, foreign()).map_err(|error| said(path, &error))
}

fn opened(path: &Path, special: &Special) -> Result<File> {
    let waiting = || eprintln!("lathunt: waiting for a reader of {}", path.display());
    special.open(waiting).map_err(|error| said(path, &error))
}

/// A file that exists.
struct Found {
    /// `None`: it is empty.
    kind: Option<Kind>,
    /// A run that was cut off.
    is_partial: bool,
}

fn existing(directory: &Directory, name: &OsStr) -> std::io::Result<Option<Found>> {
    if directory.find(name)?.is_none() {
        return Ok(None);
    }
    let mut head = Vec::new();
    directory.read(name, Owner::Anyone, u64::MAX)?.take(LOOK_BYTES).read_to_end(&mut head)?;
    let unknown = || Kind::Text("somebody else's".to_owned());
    let kind = (!head.is_empty()).then(|| Kind::of(&head).unwrap_or_else(unknown));
    Ok(Some(Found { kind, is_partial: is_partial_run(&head) }))
}

/// Checks that `name` may be overwritten by a file of `kind`; returns the name under which an earlier run is kept.
fn may_replace(
    directory: &Directory,
    name: &OsStr,
    path: &Path,
    kind: Option<&Kind>,
) -> Result<Option<OsString>> {
    let found = match existing(directory, name) {
        Err(_) if forced() => return Ok(None),
        found => found.map_err(|error| said(path, &error))?,
    };
    let Some(Found { kind: Some(found), is_partial }) = found.filter(|_| !forced()) else { return Ok(None) };
    if Some(&found) != kind {
        bail!(
            "cannot write {}: the file there is not {}; name another file, or pass --force to overwrite it",
            path.display(),
            kind.map_or("written by lathunt".to_owned(), Kind::name)
        );
    }
    if found != Kind::run() {
        return Ok(None);
    }
    let ending = ending(is_partial);
    let mut kept = name.to_owned();
    kept.push(format!(".{ending}"));
    let before = existing(directory, &kept).map_err(|error| said(path, &error))?;
    if before.and_then(|before| before.kind).is_some_and(|before| before != Kind::run()) {
        bail!(
            "cannot write {}: the run there would be kept as *.{ending}, but that file is not a run of lathunt; name another file",
            path.display()
        );
    }
    Ok(Some(kept))
}

fn is_in_a_directory(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.as_os_str().is_empty() || parent.is_dir())
}

/// `cannot write PATH: ERROR`, and what to do.
pub fn said(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space or name another place with -o"
        }
        // /proc and others refuse a new file this way, although the directory is there.
        ErrorKind::NotFound if is_in_a_directory(path) => {
            "; its directory takes no files: name another place with -o"
        }
        ErrorKind::NotFound => "; the directory does not exist",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "; name another place with -o",
        _ => "",
    };
    anyhow!("cannot write {}: {error}{hint}", path.display())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const RUN: &str = "{\"format\":\"lathunt-run\",\"version\":1}";

    #[test]
    fn a_place_that_cannot_be_written_is_told_before() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        assert_eq!(target(directory.path(), RUN_FILE).unwrap(), at(RUN_FILE));
        assert_eq!(target(&at("x.json"), RUN_FILE).unwrap(), at("x.json"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
        let error = target(&at("none/x"), RUN_FILE).unwrap_err().to_string();
        assert!(error.contains("cannot write") && error.contains("the directory does not exist"), "{error}");
        assert!(target(Path::new("/proc/version/x"), RUN_FILE).is_err());
    }

    #[test]
    fn only_own_output_of_the_same_kind_is_overwritten_and_runs_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let (first, second) = (RUN.to_owned(), RUN.replace('1', "2"));
        fs::write(at("my.cpp"), "int main(){}\n").unwrap();
        for refused in
            [target(&at("my.cpp"), RUN_FILE).map(drop), write_atomic(&at("my.cpp"), RUN.as_bytes())]
        {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("not a run of lathunt") && error.contains("--force"), "{error}");
        }
        assert_eq!(fs::read(at("my.cpp")).unwrap(), b"int main(){}\n");
        write_atomic(&at("run"), first.as_bytes()).unwrap();
        write_atomic(&at("run"), second.as_bytes()).unwrap();
        let content = |name: &str| fs::read_to_string(at(name)).unwrap();
        assert_eq!((content("run"), content("run.old")), (second.clone(), first));
        assert!(write_atomic(&at("run"), b"cpu,begin_ns,gap_ns\n").is_err(), "of another kind");
        fs::write(at("run.old"), "dear to somebody").unwrap();
        assert!(write_atomic(&at("run"), RUN.as_bytes()).is_err());
        assert_eq!((content("run"), content("run.old").as_str()), (second, "dear to somebody"));
        fs::write(at("empty"), "").unwrap();
        write_atomic(&at("empty"), RUN.as_bytes()).unwrap(); // created by mktemp
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 4);
    }

    #[test]
    fn a_good_run_is_not_displaced_by_any_number_of_runs_that_were_cut_off() {
        let directory = tempfile::tempdir().unwrap();
        let content = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap_or_default();
        let run = |n: u32, complete: bool| {
            format!("{{\"format\":\"lathunt-run\",\"version\":1,\"complete\":{complete},\"n\":{n}}}")
        };
        let path = directory.path().join("run");
        for (n, complete) in [(1, true), (2, false), (3, false), (4, false)] {
            write_atomic(&path, run(n, complete).as_bytes()).unwrap();
        }
        assert_eq!(
            ["run.old", "run.partial", "run"].map(content),
            [run(1, true), run(3, false), run(4, false)]
        );
        write_atomic(&path, run(5, true).as_bytes()).unwrap();
        write_atomic(&path, run(6, true).as_bytes()).unwrap();
        assert_eq!(
            ["run.old", "run.partial", "run"].map(content),
            [run(5, true), run(4, false), run(6, true)]
        );
        fs::write(directory.path().join("run.old"), "dear to somebody").unwrap();
        let refused = write_atomic(&path, RUN.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains("kept as *.old, but that file is not a run"), "{refused}");
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        write_atomic(&path, b"heading,of,a,table\nold").unwrap();
        write_atomic(&path, b"heading,of,a,table\nnew").unwrap();
        assert!(fs::read(&path).unwrap().ends_with(b"new"));
        let missing = directory.path().join("no/such/x.json");
        let error = write_atomic(&missing, b"x").unwrap_err().to_string();
        assert!(error.contains("the directory does not exist") && !error.contains('\n'), "{error}");
        assert!(write_atomic(directory.path(), b"x").unwrap_err().to_string().contains("is a directory"));
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_a_link_and_a_device_stays_a_device() {
        let directory = tempfile::tempdir().unwrap();
        let (target, link) = (directory.path().join("target"), directory.path().join("link"));
        fs::write(&target, "").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_atomic(&link, b"2").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"2");
        write_atomic(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let error = write_atomic(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("free some space"), "{error}");
    }
}

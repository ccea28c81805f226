//! Run files in, results out: reading with clear errors, writing so that nothing is ever half there.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail, Context, Result};
use lathunt_core::run::Run;

/// Name of the run file inside an output directory.
pub const RUN_FILE: &str = "run.lathunt.json";

/// A run of 64 CPUs and a day is about 50 MB; what is larger is not one of ours.
const LARGEST_BYTES: u64 = 1 << 29;

/// Most of any other file that is read at once.
const MOST_BYTES: u64 = 1 << 30;

/// All bytes of `path`; `-` is stdin. Pipes and pseudo-files, which have no length, included.
///
/// # Errors
/// One line: which file, and why it cannot be read, or that it is too large.
pub fn contents(path: &Path) -> Result<Vec<u8>> {
    let (source, shown): (Box<dyn Read>, _) = match path == Path::new("-") {
        true => (Box::new(std::io::stdin()), "stdin".to_owned()),
        false => {
            let shown = path.display().to_string();
            (Box::new(File::open(path).with_context(|| format!("cannot read {shown}"))?), shown)
        }
    };
    at_most(MOST_BYTES, source, &shown)
}

fn at_most(most: u64, source: impl Read, shown: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(most + 1).read_to_end(&mut bytes).with_context(|| format!("cannot read {shown}"))?;
    if bytes.len() as u64 > most {
        bail!("cannot read {shown}: larger than {} MiB, so it is no such file", most >> 20);
    }
    Ok(bytes)
}

/// A run with the file it was read from.
#[derive(Debug)]
pub struct Loaded {
    /// The file itself, also where a directory was named.
    pub path: PathBuf,
    /// Its contents.
    pub run: Run,
}

impl Loaded {
    /// A short name: the directory of a `run.lathunt.json`, else the file's name without its endings.
    pub fn name(&self) -> String {
        let file = self.path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let directory =
            self.path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        match directory {
            Some(directory) if file == RUN_FILE => directory,
            _ => file.trim_end_matches(".json").trim_end_matches(".lathunt").to_owned(),
        }
    }
}

/// Reads the run at `path`: a run file, or a directory that holds `run.lathunt.json`.
///
/// # Errors
/// One line: which file, what is wrong with it, what to do.
pub fn read_run(path: &Path) -> Result<Loaded> {
    let path = if path.is_dir() { path.join(RUN_FILE) } else { path.to_owned() };
    let shown = path.display().to_string();
    let file = File::open(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            anyhow!("cannot read {shown}: there is no such file; name a run file or the directory 'lathunt hunt -o' wrote")
        }
        _ => anyhow!("cannot read {shown}: {error}"),
    })?;
    let bytes = at_most(LARGEST_BYTES, file, &shown)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        anyhow!(
            "cannot read {shown}: no UTF-8 text from byte {} on; the file is damaged",
            error.valid_up_to()
        )
    })?;
    if text.trim().is_empty() {
        bail!("cannot read {shown}: the file is empty; was the disk full when it was written?");
    }
    let run = Run::from_json(text).map_err(|error| anyhow!("cannot read {shown}: {error}"))?;
    Ok(Loaded { path, run })
}

/// Writes `bytes` to `path` so that after any failure, a full disk or a kill the old file or the new one is there,
/// never a part: a temporary file in the same directory, synced, then renamed.
///
/// A symbolic link is followed; what is no regular file (`/dev/stdout`, a pipe) is written directly.
///
/// # Errors
/// One line: which file, what went wrong. The temporary file is removed.
pub fn write_atomic(path: &Path, bytes: &[u8]) -> Result<()> {
    let shown = path.display();
    match fs::metadata(path) {
        Ok(target) if target.is_dir() => bail!("cannot write {shown}: it is a directory; name a file"),
        Ok(target) if !target.is_file() => {
            let mut file =
                OpenOptions::new().write(true).open(path).with_context(|| format!("cannot write {shown}"))?;
            return file.write_all(bytes).map_err(|error| said(path, &error));
        }
        _ => {}
    }
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let name = target.file_name().ok_or_else(|| anyhow!("cannot write {shown}: that names no file"))?;
    let temporary = target.with_file_name(format!(".{}.{}.part", name.to_string_lossy(), std::process::id()));
    let written = write_and_rename(&temporary, &target, bytes);
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| said(path, &error))
}

/// The same without waiting for the disk: survives a kill of this process, not a power cut.
///
/// # Errors
/// One line: which file, what went wrong. The temporary file is removed.
pub fn write_quick(path: &Path, bytes: &[u8]) -> Result<()> {
    let temporary = path.with_extension(format!("{}.part", std::process::id()));
    let written = create(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(|error| said(path, &error))
}

/// Where `path` will be written, in a directory the file `name`; asked before a measurement, so that none is made in vain.
///
/// # Errors
/// One line: nothing can be written there, and why.
pub fn target(path: &Path, name: &str) -> Result<PathBuf> {
    let file = if path.is_dir() { path.join(name) } else { path.to_owned() };
    let probe = file.with_extension(format!("{}.part", std::process::id()));
    create(&probe).and_then(|_| fs::remove_file(&probe)).map_err(|error| said(&file, &error))?;
    Ok(file)
}

/// A new file. What is there under that name was left by one that was killed, or is a link that is not to be followed.
fn create(temporary: &Path) -> std::io::Result<File> {
    let _ = fs::remove_file(temporary);
    File::create_new(temporary)
}

fn write_and_rename(temporary: &Path, target: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let mut file = create(temporary)?;
    file.write_all(bytes)?;
    if let Ok(old) = fs::metadata(target) {
        file.set_permissions(old.permissions())?;
    }
    file.sync_all()?;
    drop(file);
    fs::rename(temporary, target)?;
    // The name is safe once the directory is; not every file system can sync one, and the data are there anyhow.
    if let Some(directory) = target.parent() {
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let _ = File::open(directory).and_then(|directory| directory.sync_all());
    }
    Ok(())
}

fn said(path: &Path, error: &std::io::Error) -> anyhow::Error {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; free some space or name another place with -o"
        }
        ErrorKind::NotFound => "; the directory does not exist",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "; name another place with -o",
        _ => "",
    };
    anyhow!("cannot write {}: {error}{hint}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_link_in_place_of_the_temporary_file_is_not_followed() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let id = std::process::id();
        fs::write(at("target"), "dear to somebody").unwrap();
        let link = |name: String| std::os::unix::fs::symlink(at("target"), at(&name)).unwrap();
        link(format!(".x.json.{id}.part"));
        write_atomic(&at("x.json"), b"1").unwrap();
        link(format!("x.{id}.part"));
        write_quick(&at("x.json"), b"2").unwrap();
        link(format!("x.{id}.part"));
        target(&at("x.json"), RUN_FILE).unwrap();
        assert_eq!(fs::read(at("target")).unwrap(), b"dear to somebody");
        assert_eq!((fs::read(at("x.json")).unwrap(), at("x.json").is_symlink()), (b"2".to_vec(), false));
    }

    #[test]
    fn a_failed_write_leaves_the_old_file_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.json");
        write_atomic(&path, b"old").unwrap();
        write_atomic(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
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
        write_atomic(&target, b"1").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        write_atomic(&link, b"2").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&target).unwrap(), b"2");
        write_atomic(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let error = write_atomic(Path::new("/dev/full"), b"x").unwrap_err().to_string();
        assert!(error.contains("free some space"), "{error}");
    }

    #[test]
    fn what_is_no_run_is_named_with_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        let said = |name: &str, bytes: Option<&[u8]>| {
            let path = directory.path().join(name);
            if let Some(bytes) = bytes {
                fs::write(&path, bytes).unwrap();
            }
            let error = format!("{:#}", read_run(&path).unwrap_err());
            assert!(error.contains(name) && !error.contains('\n'), "{error}");
            error
        };
        assert!(said("absent", None).contains("no such file"));
        assert!(said("empty", Some(b" \n")).contains("is empty"));
        assert!(said("binary", Some(b"\xff\xfe")).contains("byte 0"));
        assert!(said("text", Some(b"T: 0 ( 123) P:95")).contains("not a run file"));
        assert!(said("other", Some(b"{\"format\":\"x\"}")).contains("expected \"lathunt-run\""));
        assert!(said("newer", Some(b"{\"format\":\"lathunt-run\",\"version\":99}")).contains("newer lathunt"));
    }
}

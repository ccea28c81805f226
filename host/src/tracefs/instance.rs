//! A private instance of the trace buffer: created, configured, removed, and found again after a `kill -9`.
//!
//! Removing an instance removes everything in it, so its name is the journal: it contains the creating process and
//! its start time. An instance whose creator is gone is removed by the next recording or by `lathunt restore`. A creator in
//! another PID or time namespace (a container) cannot be found by these numbers: it holds a lock on the directory.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use super::{read_whole, uprobes, Tracefs};
use crate::error::{Error, Result};
use crate::private_directory::{hold, locked_to_remove};

const PREFIX: &str = "lathunt-";

/// Directory of an instance; removed when dropped.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
    _held: File,
}

impl Instance {
    /// A new instance that is not recording. `purpose`: a word in its name.
    pub fn new(tracefs: &Tracefs, purpose: &str) -> Result<Instance> {
        remove_left(tracefs);
        let (process, started) = (std::process::id(), own_start_time());
        let path = tracefs.root().join("instances").join(format!("{PREFIX}{purpose}-{process}-{started}"));
        fs::create_dir(&path).map_err(|error| {
            Error::new("make", path.display().to_string(), error).hint("needs root and a writable tracefs")
        })?;
        let held = hold(&path).map_err(|error| {
            let _ = fs::remove_dir(&path);
            Error::new("lock", path.display().to_string(), error)
        })?;
        let instance = Instance { path, _held: held };
        instance.set("tracing_on", "0")?;
        Ok(instance)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file of the instance.
    pub fn set(&self, file: &str, value: &str) -> Result<()> {
        self.write(file, value).map_err(|error| {
            Error::new("write", format!("'{value}' to {}", self.path.join(file).display()), error)
        })
    }

    /// One write; never creates a file.
    pub fn write(&self, file: &str, value: &str) -> std::io::Result<()> {
        OpenOptions::new().write(true).open(self.path.join(file))?.write_all(value.as_bytes())
    }

    /// Whether it is off; each program with the right to trace can switch it off. Cost: one read of tracefs.
    pub fn is_off(&self) -> bool {
        self.text("tracing_on").trim_end() == "0"
    }

    /// Text of a file of the instance; empty if it is absent.
    pub fn text(&self, file: &str) -> String {
        let bytes = read_whole(&self.path.join(file)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = remove(&self.path); // if this fails, the next start finds it
    }
}

fn remove(path: &Path) -> std::io::Result<()> {
    let set = |file: &str, value: &[u8]| {
        let opened = OpenOptions::new().write(true).open(path.join(file));
        opened.and_then(|mut file| file.write_all(value))
    };
    // The tracer and the events are switched off first: otherwise the kernel returns EBUSY.
    let _ = set("tracing_on", b"0");
    let _ = set("current_tracer", b"nop");
    let _ = set("events/enable", b"0");
    fs::remove_dir(path)
}

/// Instances and uprobes whose creator has ended without removing them.
#[must_use]
pub fn left(tracefs: &Tracefs) -> Vec<PathBuf> {
    let probes = uprobes::left(tracefs).into_iter().map(|group| probe(tracefs, &group));
    instances(tracefs).filter(|path| is_left(path) == Some(true)).chain(probes).collect()
}

fn instances(tracefs: &Tracefs) -> impl Iterator<Item = PathBuf> + use<> {
    let entries = fs::read_dir(tracefs.root().join("instances")).into_iter().flatten().flatten();
    entries.map(|entry| entry.path())
}

/// Whether the process that started at that time lives: by its number, or because it holds an instance.
pub(super) fn lives(tracefs: &Tracefs, process: u32, started: u64) -> bool {
    let is_its = |path: &PathBuf| maker(path) == Some((process, started)) && is_left(path) == Some(false);
    start_time(process) == Some(started) || instances(tracefs).any(|path| is_its(&path))
}

/// The path by which a uprobe is listed.
fn probe(tracefs: &Tracefs, group: &str) -> PathBuf {
    tracefs.root().join("events").join(group)
}

/// The process that created it, and its start time; `None`: not ours.
fn maker(path: &Path) -> Option<(u32, u64)> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    let (_, maker) = name.split_once('-')?;
    let (process, started) = maker.split_once('-')?;
    Some((process.parse().ok()?, started.parse().ok()?))
}

/// `None`: not ours.
fn is_left(path: &Path) -> Option<bool> {
    let (process, started) = maker(path)?;
    Some(start_time(process) != Some(started) && locked_to_remove(path).is_ok())
}

/// As long as it is locked here, no process can take it for its own.
fn remove_unheld(path: &Path) -> std::io::Result<()> {
    let _locked = locked_to_remove(path)?;
    remove(path)
}

/// Removes them; returns the result for each.
pub fn remove_left(tracefs: &Tracefs) -> Vec<(PathBuf, std::io::Result<()>)> {
    let unheld = instances(tracefs).filter(|path| is_left(path) == Some(true));
    let mut done: Vec<_> = unheld.map(|path| (path.clone(), remove_unheld(&path))).collect();
    // A uprobe is busy while an instance records it.
    let probes = uprobes::left(tracefs).into_iter();
    done.extend(probes.map(|group| (probe(tracefs, &group), uprobes::remove(tracefs, &group))));
    done
}

/// Whether the process has ended.
pub(crate) fn has_ended(process: u32) -> bool {
    start_time(process).is_none()
}

/// That of this process.
pub(super) fn own_start_time() -> u64 {
    start_time(std::process::id()).unwrap_or(0)
}

/// Field 22 of /proc/PID/stat: ticks since boot; with the process id it identifies one process for ever. `None`: it has
/// ended, whether or not its parent has waited for it.
pub(super) fn start_time(process: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name before it, in parentheses, may contain anything.
    let (state, rest) = stat.rsplit_once(')')?.1.trim_start().split_once(' ')?;
    (!matches!(state, "Z" | "X")).then(|| rest.split_ascii_whitespace().nth(18)?.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_belongs_to_its_maker_while_that_one_lives() {
        let process = std::process::id();
        let started = start_time(process).unwrap();
        let instances = tempfile::tempdir().unwrap();
        let of = |name: String| {
            let path = instances.path().join(name);
            let _ = fs::create_dir(&path);
            is_left(&path)
        };
        assert_eq!(of(format!("lathunt-npt-{process}-{started}")), Some(false));
        assert_eq!(
            of(format!("lathunt-npt-{process}-{}", started + 1)),
            Some(true),
            "its number was used again"
        );
        let foreign = "lathunt-trace-4194305-1".to_owned();
        assert_eq!(of(foreign.clone()), Some(true));
        let held = hold(&instances.path().join(&foreign)).unwrap();
        assert_eq!(of(foreign.clone()), Some(false), "its maker has another number in its own namespace");
        assert!(remove_unheld(&instances.path().join(&foreign)).is_err());
        drop(held);
        assert_eq!(of(foreign), Some(true));
        assert_eq!(of("trace-cmd".to_owned()), None);
        assert_eq!(of("lathunt-trace-x-y".to_owned()), None);
        assert_eq!(of("lathunt-4194305-1".to_owned()), None);
    }

    #[test]
    fn an_instance_is_left_although_nobody_has_waited_for_its_maker() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let stat = format!("/proc/{}/stat", child.id());
        while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(start_time(child.id()), None);
        child.wait().unwrap();
    }
}

//! `--tasks`: the tasks whose latencies are recorded, and the matching threads now.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use lathunt_core::glob::{fits, Glob};
use lathunt_core::time::Tid;

use super::names::{machine, patterns};
use crate::error::{Error, Result};
use crate::recorder::Follow;

/// Possible prefixes of an entry of the list.
const KINDS: [&str; 3] = ["comm:", "pid:", "cgroup:"];

/// The tasks whose latencies are recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every real-time thread of user space.
    RealTime,
    /// Every thread, ordinary ones and the kernel's too.
    All,
    /// All threads of these processes (or these threads), and their children.
    Pids(Vec<i32>),
    /// Threads whose name matches one of these shell patterns.
    Comm(Vec<String>),
    /// Threads of this control group and those below it.
    Cgroup(PathBuf),
}

impl fmt::Display for Selection {
    /// `real-time tasks`, `tasks comm:control*`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Selection::RealTime => f.write_str("real-time tasks"),
            Selection::All => f.write_str("all tasks"),
            Selection::Pids(pids) => {
                let pids: Vec<String> = pids.iter().map(i32::to_string).collect();
                write!(f, "tasks pid:{}", pids.join(","))
            }
            Selection::Comm(globs) => write!(f, "tasks comm:{}", globs.join(",")),
            Selection::Cgroup(path) => write!(f, "tasks cgroup:{}", path.display()),
        }
    }
}

impl FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Selection, String> {
        match text.split_once(':') {
            None if text == "rt" => Ok(Selection::RealTime),
            None if text == "all" => Ok(Selection::All),
            Some(("pid", list)) => {
                let number = |pid: &str| pid.strip_prefix("pid:").unwrap_or(pid).parse().ok();
                let pid = |pid: &str| number(pid.trim()).filter(|&pid| pid > 0);
                let pids: Option<Vec<i32>> = list.split(',').map(pid).collect();
                pids.map(Selection::Pids)
                    .ok_or_else(|| format!("'{list}' is not a list of process ids (pid:12,34)"))
            }
            Some(("comm", globs)) if !globs.is_empty() => patterns(globs).map(Selection::Comm),
            Some(("cgroup", path)) if KINDS.iter().any(|kind| path.contains(&format!(",{kind}"))) => {
                Err(format!("'{path}': name one control group, or the one above several"))
            }
            Some(("cgroup", path)) if !path.is_empty() => Ok(Selection::Cgroup(path.into())),
            _ => Err("name rt, all, pid:N,…, comm:GLOB,… or cgroup:PATH".to_owned()),
        }
    }
}

impl Selection {
    /// The threads that match now; `None` if the kernel side decides by itself.
    ///
    /// # Errors
    /// One line: a process or group that does not exist.
    pub fn threads(&self) -> Result<Option<Vec<Tid>>> {
        match self {
            Selection::RealTime | Selection::All => Ok(None),
            Selection::Pids(pids) => {
                let mut tids = Vec::new();
                for pid in pids {
                    let of = threads_of(Path::new(&format!("/proc/{pid}/task")));
                    if of.is_empty() {
                        return Err(Error::refused(
                            "record",
                            format!("process {pid}"),
                            "there is no such process",
                        ));
                    }
                    tids.extend(of);
                }
                Ok(Some(tids))
            }
            Selection::Comm(globs) => Ok(Some(by_name(globs))),
            Selection::Cgroup(path) => {
                let Some(path) = cgroup(path) else {
                    let what = format!("control group {}", path.display());
                    let hint =
                        "there is none; name a directory of /sys/fs/cgroup, or as /proc/PID/cgroup does";
                    return Err(Error::refused("record", what, hint));
                };
                let mut tids = Vec::new();
                in_cgroup(&path, &mut tids, 0);
                Ok(Some(tids))
            }
        }
    }

    /// Names of the list that none of `seen` has.
    #[must_use]
    pub fn absent<'s>(&self, seen: impl Iterator<Item = &'s str> + Clone) -> Vec<String> {
        let Selection::Comm(globs) = self else { return Vec::new() };
        globs.iter().filter(|glob| !seen.clone().any(|comm| fits(glob, comm))).cloned().collect()
    }

    /// Whether threads are looked up again while recording: the kernel side follows those that join the selection
    /// ([`Selection::follow`]), but not in every way.
    #[must_use]
    pub fn looks_again(&self) -> bool {
        matches!(self, Selection::Comm(_) | Selection::Cgroup(_))
    }

    /// What the kernel side follows.
    #[must_use]
    pub fn follow(&self) -> Follow {
        match self {
            Selection::Comm(globs) => machine(globs).map(Follow::Names),
            Selection::Cgroup(path) => cgroup(path).and_then(|path| followed_cgroup(&path)),
            _ => None,
        }
        .unwrap_or(Follow::Forks)
    }
}

fn numbers(directory: &Path) -> impl Iterator<Item = i32> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn threads_of(directory: &Path) -> Vec<Tid> {
    numbers(directory).map(Tid).collect()
}

fn by_name(globs: &[String]) -> Vec<Tid> {
    let globs: Vec<Glob> = globs.iter().map(|glob| Glob::new(glob.as_bytes())).collect();
    let mut tids = Vec::new();
    for pid in numbers(Path::new("/proc")) {
        for tid in numbers(Path::new(&format!("/proc/{pid}/task"))) {
            let comm = fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            let comm = comm.strip_suffix(b"\n").unwrap_or(&comm);
            if globs.iter().any(|glob| glob.matches(comm)) {
                tids.push(Tid(tid));
            }
        }
    }
    tids
}

/// Version 1 or 2.
fn is_cgroup(path: &Path) -> bool {
    path.join("cgroup.threads").exists() || path.join("tasks").exists()
}

/// A directory, or a name as in `/proc/PID/cgroup`: below the mount point of a hierarchy, version 2 first.
fn cgroup(path: &Path) -> Option<PathBuf> {
    if path.is_absolute() && is_cgroup(path) {
        return Some(path.to_owned());
    }
    let relative = path.strip_prefix("/").unwrap_or(path);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let of = |kind: &str| -> Vec<PathBuf> {
        let mounted = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
        mounted.filter(|of| of.get(2) == Some(&kind)).map(|of| PathBuf::from(of[1])).collect()
    };
    let below = [vec![PathBuf::from("/sys/fs/cgroup")], of("cgroup2"), of("cgroup")].concat();
    below.into_iter().map(|mount| mount.join(relative)).find(|path| is_cgroup(path))
}

/// A cgroup of version 2, whose id is that of its directory (kernfs, on 64 bits).
fn followed_cgroup(path: &Path) -> Option<Follow> {
    let path = path.canonicalize().ok()?;
    let is_group = |path: &&Path| path.join("cgroup.threads").exists();
    let groups = path.ancestors().take_while(is_group).count() as u32;
    let id = path.metadata().ok()?.ino();
    // The root has no level, and every program is executed below it.
    (groups > 1).then_some(Follow::Cgroup { id, level: groups - 1 })
}

fn in_cgroup(path: &Path, tids: &mut Vec<Tid>, depth: usize) {
    let list =
        fs::read_to_string(path.join("cgroup.threads")).or_else(|_| fs::read_to_string(path.join("tasks")));
    tids.extend(list.unwrap_or_default().lines().filter_map(|line| line.parse().ok().map(Tid)));
    if depth < 32 {
        let below = fs::read_dir(path).into_iter().flatten().flatten();
        below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).for_each(|entry| {
            in_cgroup(&entry.path(), tids, depth + 1);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_nonsense_is_named() {
        assert_eq!("rt".parse(), Ok(Selection::RealTime));
        assert_eq!("pid:1,23".parse(), Ok(Selection::Pids(vec![1, 23])));
        assert_eq!("comm:jack*".parse(), Ok(Selection::Comm(vec!["jack*".into()])));
        let two = Selection::Comm(vec!["a".into(), "b".into()]);
        for list in ["comm:a,b", "comm:a, b", "comm:a,comm:b", "comm:a, comm:b"] {
            assert_eq!(list.parse(), Ok(two.clone()), "{list}");
        }
        assert_eq!("pid:1,pid:23".parse(), Ok(Selection::Pids(vec![1, 23])));
        assert_eq!(r"comm:a,\comm:b".parse(), Ok(Selection::Comm(vec!["a".into(), "\\comm:b".into()])));
        for mixed in
            ["comm:a,pid:3", "comm:a,cgroup:/b", "pid:3,comm:a", "cgroup:/a,comm:b", "cgroup:/a,cgroup:/b"]
        {
            let said = mixed.parse::<Selection>().unwrap_err();
            assert!(
                said.lines().count() == 1 && said.contains("name") || said.contains("process ids"),
                "{said}"
            );
        }
        let long = "comm:a,a_name_of_16_byt".parse::<Selection>().unwrap_err();
        assert!(long.contains("15 bytes"), "{long}");
        assert!("comm:*a_name_of_15_by*".parse::<Selection>().is_ok());
        assert_eq!(two.absent(["b", "c"].into_iter()), ["a"]);
        for wrong in
            ["", "pid:", "pid:0", "pid:1,x", "comm:", "comm:a,", "comm:,", "comm:a\\", "cgroup:", "fifo"]
        {
            assert!(wrong.parse::<Selection>().is_err(), "{wrong}");
        }
        assert!(Selection::Pids(vec![i32::MAX])
            .threads()
            .unwrap_err()
            .to_string()
            .contains("no such process"));
        assert!(Selection::Cgroup("/no/such".into()).threads().unwrap_err().to_string().contains("/no/such"));
    }

    #[test]
    fn the_threads_of_this_process_are_found_by_its_id() {
        let own = Selection::Pids(vec![std::process::id() as i32]).threads().unwrap().unwrap();
        assert!(own.contains(&Tid(std::process::id() as i32)));
    }
}

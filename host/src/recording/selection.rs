//! `--tasks`: whose latencies are recorded, and which threads that means now.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, fs};

use lathunt_core::time::Tid;

use crate::error::{Error, Result};

/// Whose latencies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Every real-time thread of user space.
    RealTime,
    /// Every thread, ordinary ones and the kernel's too.
    All,
    /// All threads of these processes (or these threads), and what they start.
    Pids(Vec<i32>),
    /// Threads whose name matches one of these patterns of the shell.
    Comm(Vec<CString>),
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
            Selection::Comm(globs) => {
                let globs: Vec<_> = globs.iter().map(|glob| glob.to_string_lossy()).collect();
                write!(f, "tasks comm:{}", globs.join(","))
            }
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
                let pid = |pid: &str| pid.trim().parse().ok().filter(|&pid| pid > 0);
                let pids: Option<Vec<i32>> = list.split(',').map(pid).collect();
                pids.map(Selection::Pids)
                    .ok_or_else(|| format!("'{list}' is no list of process ids (pid:12,34)"))
            }
            Some(("comm", globs)) if !globs.is_empty() => patterns(globs).map(Selection::Comm),
            Some(("cgroup", path)) if !path.is_empty() => Ok(Selection::Cgroup(path.into())),
            _ => Err("name rt, all, pid:N,…, comm:GLOB,… or cgroup:PATH".to_owned()),
        }
    }
}

impl Selection {
    /// The threads that are meant now; `None` where the kernel side decides by itself.
    ///
    /// # Errors
    /// One line: what does not exist.
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

    /// Whether threads are looked up again while recording; those of processes are followed by the kernel side.
    #[must_use]
    pub fn looks_again(&self) -> bool {
        matches!(self, Selection::Comm(_) | Selection::Cgroup(_))
    }
}

fn numbers(directory: &Path) -> impl Iterator<Item = i32> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn threads_of(directory: &Path) -> Vec<Tid> {
    numbers(directory).map(Tid).collect()
}

/// A list of shell patterns: `hog,vic*`, `[a-c]x`. A comma within `[…]` or behind a `\` belongs to a name.
fn patterns(list: &str) -> std::result::Result<Vec<CString>, String> {
    let (mut globs, mut begin, mut at) = (Vec::new(), 0, 0);
    let bytes = list.as_bytes();
    while at <= bytes.len() {
        match bytes.get(at) {
            None | Some(b',') => {
                globs.push(&list[begin..at]);
                begin = at + 1;
            }
            Some(b'\\') => at += 1,
            Some(b'[') => {
                at = end_of_set(bytes, at).ok_or_else(|| {
                    format!("'{list}' has a '[' without its ']'; write '\\[' for the bracket itself")
                })?;
            }
            Some(_) => {}
        }
        at += 1;
    }
    let glob = |glob: &&str| CString::new(*glob).ok().filter(|glob| !glob.is_empty());
    let read: Option<Vec<CString>> = globs.iter().map(glob).collect();
    // Past the end: a `\` was the last of it.
    read.filter(|_| begin > bytes.len())
        .ok_or_else(|| format!("'{list}' is no list of names (comm:NAME,GLOB,…)"))
}

/// Where the set that begins with the `[` at `at` ends: a `]` that is the first in it is one of its characters.
fn end_of_set(bytes: &[u8], at: usize) -> Option<usize> {
    let first = at + 1 + usize::from(matches!(bytes.get(at + 1), Some(b'!' | b'^')));
    let mut at = if bytes.get(first) == Some(&b']') { first + 1 } else { first };
    while *bytes.get(at)? != b']' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    Some(at)
}

fn by_name(globs: &[CString]) -> Vec<Tid> {
    let mut tids = Vec::new();
    for pid in numbers(Path::new("/proc")) {
        for tid in numbers(Path::new(&format!("/proc/{pid}/task"))) {
            let comm = fs::read(format!("/proc/{pid}/task/{tid}/comm")).unwrap_or_default();
            let comm = CString::new(comm.strip_suffix(b"\n").unwrap_or(&comm)).unwrap_or_default();
            if globs.iter().any(|glob| matches(glob, &comm)) {
                tids.push(Tid(tid));
            }
        }
    }
    tids
}

/// Of version 2, or of version 1.
fn is_cgroup(path: &Path) -> bool {
    path.join("cgroup.threads").exists() || path.join("tasks").exists()
}

/// A directory, or named as `/proc/PID/cgroup` does: below where a hierarchy is mounted, version 2 before the others.
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

/// As the shell does.
fn matches(glob: &CStr, name: &CStr) -> bool {
    // SAFETY: both texts end with a NUL and outlive the call.
    unsafe { libc::fnmatch(glob.as_ptr(), name.as_ptr(), 0) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read_and_nonsense_is_named() {
        assert_eq!("rt".parse(), Ok(Selection::RealTime));
        assert_eq!("pid:1,23".parse(), Ok(Selection::Pids(vec![1, 23])));
        assert_eq!("comm:jack*".parse(), Ok(Selection::Comm(vec![c"jack*".into()])));
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
    fn names_are_chosen_by_lists_of_shell_patterns() {
        for (list, name, yes) in [
            ("a*c", "abbc", true),
            ("a*c", "abcd", false),
            ("?b", "ab", true),
            ("*", "", true),
            ("a*b*c", "axbxbc", true),
            ("[v]ictim", "victim", true),
            ("[!v]ictim", "victim", false),
            ("[^a-c]x", "dx", true),
            ("[]]", "]", true),
            ("victim,hog", "hog", true),
            ("a*,b*", "bx", true),
            ("a*,b*", "c,bx", false),
            (r"one\,two", "one,two", true),
            ("one[,]two,x", "one,two", true),
            (r"\[x", "[x", true),
            ("kworker/0:1", "kworker/0:1", true),
        ] {
            let globs = patterns(list).unwrap();
            let name = CString::new(name).unwrap();
            assert_eq!(globs.iter().any(|glob| matches(glob, &name)), yes, "{list} {name:?}");
        }
        for open in ["[", "a,[b", "[]", "[!]", r"[\]"] {
            assert!(patterns(open).unwrap_err().contains("without its ']'"), "{open}");
        }
    }

    #[test]
    fn the_threads_of_this_process_are_found_by_its_id() {
        let own = Selection::Pids(vec![std::process::id() as i32]).threads().unwrap().unwrap();
        assert!(own.contains(&Tid(std::process::id() as i32)));
    }
}

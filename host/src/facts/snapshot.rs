//! Takes the snapshot that the rules of `lathunt check` evaluate, from the running system or from a copy of another.
//!
//! The rules name the files (`core::check::rules`). Facts that are in no file are read here under a name with `@`
//! (`live.rs`), on the running system only. Opens devices for reading only, changes nothing; debugfs and tracefs are read
//! through detached mounts if they are not mounted.

mod live;
mod network;

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lathunt_core::check::snapshot::{component, matches};
use lathunt_core::check::{rules, Kconfig, Origin, Snapshot};

use super::kernel;
use crate::debugfs::DetachedMount;
use crate::input;
use crate::tree::Tree;
use crate::wall;

/// Largest file taken; `/proc/interrupts` of 1000 CPUs has about 2 MB.
const LIMIT: u64 = 4 << 20;

/// The facts of the system below `root` (`/` is this machine); counters are read again after `watch`, on the running
/// system only, because they do not advance in a copy.
#[must_use]
pub fn take(root: &Path, watch: Duration) -> Snapshot {
    let tree = Tree::new(root);
    let live = tree.is_live();
    let mut reader = Reader::new(root, live);
    let mut snapshot = Snapshot::empty(if live { Origin::Live } else { Origin::Tree });
    snapshot.config = kernel::config_text(&tree).map(|text| Kconfig::of(&text).options());
    let (at, plain): (Vec<&str>, Vec<&str>) =
        rules::files().into_iter().partition(|name| name.starts_with('@'));
    if live {
        snapshot.taken = wall::now_rfc3339(); // of a copy, that is not known
    }
    let begin = Instant::now();
    plain.iter().for_each(|pattern| reader.read(pattern));
    if live {
        at.iter().for_each(|name| reader.keep(name, live::read(name)));
    }
    (snapshot.files, snapshot.unreadable) = reader.taken();
    if live && !watch.is_zero() {
        std::thread::sleep(watch.saturating_sub(begin.elapsed()));
        let counters: Vec<String> = snapshot.files.keys().filter(|name| is_counter(name)).cloned().collect();
        counters.iter().for_each(|name| match name.starts_with('@') {
            true => reader.keep(name, live::read(name)),
            false => reader.read(name),
        });
        snapshot.later = reader.taken().0;
        snapshot.later_s = Some(begin.elapsed().as_secs_f64());
    }
    snapshot
}

fn is_counter(name: &str) -> bool {
    rules::TWICE.iter().any(|pattern| matches(pattern, name))
}

/// Reads file names with wildcards below a root.
struct Reader {
    root: PathBuf,
    mounts: Vec<(&'static str, DetachedMount)>,
    files: BTreeMap<String, String>,
    unreadable: BTreeMap<String, String>,
}

impl Reader {
    fn new(root: &Path, live: bool) -> Reader {
        let mut reader = Reader {
            root: root.to_owned(),
            mounts: Vec::new(),
            files: BTreeMap::new(),
            unreadable: BTreeMap::new(),
        };
        for (at, kind, sign) in
            [("/sys/kernel/debug", "debugfs", "sched"), ("/sys/kernel/tracing", "tracefs", "current_tracer")]
        {
            if !live || Path::new(at).join(sign).exists() {
                continue;
            }
            match DetachedMount::new(kind) {
                Ok(mount) => reader.mounts.push((at, mount)),
                Err(error) => {
                    reader.unreadable.insert(format!("{at}/*"), error.to_string());
                }
            }
        }
        reader
    }

    /// Path of the file of this name.
    fn place(&self, name: &str) -> PathBuf {
        let mounted = self.mounts.iter().find_map(|(at, mount)| {
            let rest = name.strip_prefix(at)?;
            rest.starts_with('/').then(|| mount.path().join(rest.trim_start_matches('/')))
        });
        mounted.unwrap_or_else(|| self.root.join(name.trim_start_matches('/')))
    }

    fn read(&mut self, pattern: &str) {
        for name in self.expand(pattern) {
            let place = self.place(&name);
            let read =
                if name.ends_with('/') { names(&place).map(|names| names.join("\n")) } else { text(&place) };
            // Of a thread's status only one line is used; the rest is 1.5 KB per thread.
            let of_thread = pattern.contains("/task/") && pattern.ends_with("/status");
            self.keep(&name, if of_thread { read.map(|text| allowed_cpus(&text)) } else { read });
        }
    }

    fn keep(&mut self, name: &str, read: std::io::Result<String>) {
        match read {
            Ok(text) => {
                self.files.insert(name.to_owned(), text);
            }
            // A file may also vanish while a process ends (ESRCH).
            Err(error) if gone(&error) => {}
            Err(error) => {
                self.unreadable.insert(name.to_owned(), error.to_string());
            }
        }
    }

    /// Every name that the pattern matches here.
    fn expand(&mut self, pattern: &str) -> Vec<String> {
        let mut refused = None;
        let mut found = vec![String::new()];
        for part in pattern.split('/').skip(1) {
            found = found
                .into_iter()
                .flat_map(|base| {
                    if !part.contains('*') {
                        return vec![format!("{base}/{part}")];
                    }
                    let entries = names(&self.place(&base)).unwrap_or_else(|error| {
                        refused = Some(error).filter(|error| !gone(error)).or(refused.take());
                        Vec::new()
                    });
                    // /proc/* stands for processes.
                    let process = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
                    let wanted = |name: &String| component(part, name) && (base != "/proc" || process(name));
                    entries.into_iter().filter(wanted).map(|name| format!("{base}/{name}")).collect()
                })
                .collect();
        }
        if let (true, Some(error)) = (found.is_empty(), refused) {
            self.unreadable.insert(pattern.to_owned(), error.to_string());
        }
        found
    }

    fn taken(&mut self) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
        (std::mem::take(&mut self.files), std::mem::take(&mut self.unreadable))
    }
}

fn allowed_cpus(status: &str) -> String {
    status.lines().find(|line| line.starts_with("Cpus_allowed_list:")).unwrap_or_default().to_owned()
}

fn gone(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
        || matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV | libc::ENXIO))
}

fn text(place: &Path) -> std::io::Result<String> {
    if place.is_dir() {
        return Err(ErrorKind::NotFound.into()); // a wildcard may match directories too
    }
    let mut bytes = Vec::new();
    input::regular(place)?.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned())
}

fn names(place: &Path) -> std::io::Result<Vec<String>> {
    let entries = fs::read_dir(place)?.flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::LIVE;

    #[test]
    fn a_tree_is_read_by_the_names_that_the_rules_use() {
        let root = tempfile::tempdir().unwrap();
        for (name, content) in [
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/sys/kernel/watchdog", "0\n"),
            ("proc/7/task/7/stat", "7 (x) S 0\n"),
            ("proc/self/task/7/stat", "not a process\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/kernel/tracing/instances/other/current_tracer", "nop\n"),
            ("boot/config-6.1.0", "CONFIG_HZ=250\nCONFIG_MUSIC=y\n"),
        ] {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let fifo = root.path().join("proc/version");
        rustix::fs::mknodat(rustix::fs::CWD, fifo, rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU, 0)
            .unwrap();
        let snapshot = take(root.path(), Duration::from_secs(3600));
        assert_eq!(
            snapshot.unreadable.get("/proc/version").map(String::as_str),
            Some("it is a FIFO, expected a regular file")
        );
        assert_eq!(snapshot.of, Origin::Tree);
        assert_eq!(snapshot.files["/proc/sys/kernel/watchdog"], "0");
        assert_eq!(snapshot.files["/proc/7/task/7/stat"], "7 (x) S 0");
        assert!(!snapshot.files.keys().any(|name| name.starts_with("/proc/self/task")));
        assert_eq!(snapshot.files["/sys/devices/system/cpu/cpu1/cpufreq/scaling_governor"], "performance");
        assert_eq!(snapshot.files["/sys/kernel/tracing/instances/"], "other");
        let config = snapshot.config.as_ref().unwrap();
        assert_eq!((config["HZ"].as_str(), config["PREEMPT_RT"].as_str()), ("250", "n"));
        assert!(!config.contains_key("MUSIC") && config.len() == rules::options().len());
        assert!(snapshot.later.is_empty() && snapshot.unreadable.len() == 1, "{snapshot:?}");
    }

    #[test]
    fn the_running_system_yields_the_facts_that_every_linux_has() {
        let snapshot = take(Path::new(LIVE), Duration::from_millis(20));
        assert_eq!(snapshot.of, Origin::Live);
        for name in ["/proc/sys/kernel/osrelease", "/proc/stat", "@clock_resolution_ns", "/proc/self/status"]
        {
            assert!(snapshot.files.contains_key(name), "{name}");
        }
        assert!(snapshot.later.contains_key("/proc/stat") && snapshot.later_s.is_some_and(|s| s >= 0.02));
    }
}

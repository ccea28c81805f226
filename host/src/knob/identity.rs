//! Is this still the object whose knob was changed? Identifiers are reused: interrupt numbers, thread ids, cgroup
//! names.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::kind::Kind;

/// Distinguishes the object behind `path` from a later one of the same name; empty if the path always means the same
/// object.
pub(super) fn of(kind: Kind, path: &Path) -> String {
    let Some(directory) = path.parent() else { return String::new() };
    match kind {
        Kind::Affinity => started(path),
        Kind::Cgroup => inode(path),
        _ if path.starts_with("/proc/irq") => interrupt_users(directory),
        _ if path.starts_with("/sys/fs/cgroup") => inode(directory),
        _ => String::new(),
    }
}

fn inode(path: &Path) -> String {
    fs::metadata(path).map(|meta| format!("inode {}", meta.ino())).unwrap_or_default()
}

/// When the thread started, in clock ticks since boot: the 22nd figure of its `stat` (proc(5)).
fn started(path: &Path) -> String {
    let stat = fs::read_to_string(path.join("stat")).unwrap_or_default();
    let behind_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    behind_name.split_ascii_whitespace().nth(19).map(|ticks| format!("started {ticks}")).unwrap_or_default()
}

/// Names of the drivers' handlers: the subdirectories of `/proc/irq/N`.
fn interrupt_users(directory: &Path) -> String {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let handlers = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut names: Vec<String> =
        handlers.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names.join(" ")
}

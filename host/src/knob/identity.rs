//! Is this still the object whose knob was changed? Numbers are given out again: an interrupt's, a cgroup's name.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What tells the object behind `path` from a later one of the same name; empty where a path always means the same.
pub(super) fn of(path: &Path) -> String {
    let Some(directory) = path.parent() else { return String::new() };
    if path.starts_with("/proc/irq") {
        return interrupt_users(directory);
    }
    if path.starts_with("/sys/fs/cgroup") {
        return fs::metadata(directory).map(|meta| format!("inode {}", meta.ino())).unwrap_or_default();
    }
    String::new()
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

//! Reads and writes a knob of each kind. Most are files; the others represent objects: the CPUs of a thread, the
//! existence of a cgroup.

use std::fs;
use std::io::{Error, ErrorKind, Result, Write};
use std::path::Path;

use lathunt_core::cpuset::CpuSet;
use lathunt_core::time::Tid;
use serde::{Deserialize, Serialize};

use crate::sched;

/// What kind of knob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A cgroup of ours, `present` or `absent`. Aside: the directory to which its members move when it is removed.
    Cgroup,
    /// Whether children of a cgroup have cpusets: its `cgroup.subtree_control`, `+cpuset` or `-cpuset`.
    Subtree,
    /// A file that holds a value.
    #[default]
    File,
    /// The CPUs of an interrupt, `/proc/irq/N/smp_affinity_list`. Aside: the CPU on which it arrived.
    Interrupt,
    /// The CPUs of a thread, `/proc/PID/task/TID`. Aside: what the kernel may make of it when a cpuset ends.
    Affinity,
}

impl Kind {
    /// Whether it is a plain file.
    #[must_use]
    pub fn is_file(&self) -> bool {
        *self == Kind::File
    }

    /// The present value of the knob; of `always [madvise] never` the selected word.
    pub(super) fn read(self, path: &Path) -> Result<String> {
        match self {
            Kind::File | Kind::Interrupt => {
                let text = fs::read_to_string(path)?;
                Ok(chosen(text.trim()).unwrap_or(text.trim()).to_owned())
            }
            Kind::Affinity => allowed(path).map(|cpus| cpus.to_string()),
            Kind::Cgroup => Ok(if path.try_exists()? { "present" } else { "absent" }.to_owned()),
            Kind::Subtree => {
                let on = fs::read_to_string(path)?.split_ascii_whitespace().any(|word| word == "cpuset");
                Ok(if on { "+cpuset" } else { "-cpuset" }.to_owned())
            }
        }
    }

    /// Sets the knob to `value`. Never creates or truncates a file.
    pub(super) fn write(self, path: &Path, value: &str, aside: &str) -> Result<()> {
        match (self, value.trim()) {
            (Kind::Affinity, value) => {
                let cpus: CpuSet =
                    value.parse().map_err(|error| Error::new(ErrorKind::InvalidInput, error))?;
                sched::set_affinity_of(tid(path)?, &cpus)
            }
            (Kind::Cgroup, "present") => fs::create_dir(path),
            (Kind::Cgroup, _) => remove_cgroup(path, Path::new(aside)),
            (_, value) => fs::OpenOptions::new().write(true).open(path)?.write_all(value.as_bytes()),
        }
    }
}

fn chosen(text: &str) -> Option<&str> {
    let one_line = !text.contains('\n');
    text.split_ascii_whitespace()
        .filter(|_| one_line && text.contains(' '))
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
}

fn tid(path: &Path) -> Result<Tid> {
    let number = path.file_name().and_then(|name| name.to_str()?.parse().ok());
    number.map(Tid).ok_or_else(|| Error::new(ErrorKind::InvalidInput, "no thread id"))
}

/// CPUs that the thread behind `/proc/PID/task/TID` may use, offline ones included.
fn allowed(path: &Path) -> Result<CpuSet> {
    let status = fs::read_to_string(path.join("status"))?;
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.trim().parse().ok()).ok_or_else(|| ErrorKind::InvalidData.into())
}

/// Linux 6.1 widens threads to the CPUs that are online when a partition ends, and never again (cpuset_hotplug_workfn:
/// "we don't mess with cpumasks of tasks in top_cpuset"): if one of its CPUs is offline, every thread of the root
/// group would lose that CPU for good.
fn refuse_while_offline(path: &Path) -> Result<()> {
    let list =
        |path: &Path| fs::read_to_string(path).ok().and_then(|text| text.trim().parse::<CpuSet>().ok());
    let online = list(Path::new("/sys/devices/system/cpu/online")).unwrap_or_default();
    let own = list(&path.join("cpuset.cpus")).unwrap_or_default();
    let absent = own.minus(&online);
    // A CPU that has just come online is given to its partition a moment later; until then it counts as offline here.
    let given = || own.minus(&list(&path.join("cpuset.cpus.effective")).unwrap_or_default()).is_empty();
    for _ in 0..200 {
        if !absent.is_empty() || given() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    match absent.is_empty() {
        true => Ok(()),
        false => Err(Error::other(format!(
            "CPU {absent} is offline, and threads would not get it back; try again when it is online"
        ))),
    }
}

/// Moves the members of the cgroup to `home` (or its parent if that is gone), and removes it. Children forked in
/// between are moved by the next scan.
fn remove_cgroup(path: &Path, home: &Path) -> Result<()> {
    let parent = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let home = if !home.as_os_str().is_empty() && home.is_dir() { home } else { parent };
    let partition = path.join("cpuset.cpus.partition");
    if partition.exists() {
        refuse_while_offline(path)?;
        let _ = fs::write(partition, "member"); // removing it does the same, in newer kernels
    }
    let mut last = Error::from(ErrorKind::ResourceBusy);
    for _ in 0..200 {
        for list in ["cgroup.procs", "tasks"] {
            let members = fs::read_to_string(path.join(list)).unwrap_or_default();
            for member in members.lines() {
                // A member that has ended needs no move; others show up again in the next scan.
                let _ = fs::write(home.join(list), member);
            }
        }
        match fs::remove_dir(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => last = error,
            Ok(()) => return Ok(()),
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_choice_only_the_chosen_word_counts() {
        assert_eq!(chosen("always [madvise] never"), Some("madvise"));
        assert_eq!(chosen("performance"), None);
    }

    #[test]
    fn the_cpus_of_a_thread_are_read_as_the_kernel_lists_them() {
        let own = Path::new("/proc/self/task").join(sched::tid().0.to_string());
        let read: CpuSet = Kind::Affinity.read(&own).unwrap().parse().unwrap();
        assert!(sched::affinity().unwrap().minus(&read).is_empty());
    }
}

//! Memory maps of processes: they name the files behind page faults, and code addresses, after the processes have
//! ended.
//!
//! Processes that run at the start or at the end are read then. The command and its children are neither: they are read
//! while they run, soon after their start and then increasingly rarely, because reading the maps of a process delays
//! its page faults by some µs. The maps are written each time, so that they exist even if the recorder is killed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathunt_host::beneath::{Directory, Readers};
use lathunt_host::sched;

use crate::file;

/// First interval of reading a command's maps; it doubles up to [`RAREST`].
const FIRST: Duration = Duration::from_millis(40);
const RAREST: Duration = Duration::from_secs(2);
/// The same for all processes of the machine.
const FIRST_OF_ALL: Duration = Duration::from_secs(2);
const RAREST_OF_ALL: Duration = Duration::from_secs(60);
/// Maximum number of processes of one command that are read.
const MOST_PROCESSES: usize = 256;

/// Maps of processes, by their numbers.
#[derive(Debug)]
pub struct Maps {
    of: BTreeMap<u32, (String, String)>,
    directory: Arc<Directory>,
    family: Schedule,
    all: Schedule,
}

/// When to read again.
#[derive(Debug)]
struct Schedule {
    due: Instant,
    distance: Duration,
    rarest: Duration,
}

impl Schedule {
    fn new(first: Duration, rarest: Duration) -> Schedule {
        Schedule { due: Instant::now() + first, distance: first, rarest }
    }

    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let due = now >= self.due;
        if due {
            self.distance = (2 * self.distance).min(self.rarest);
            self.due = now + self.distance;
        }
        due
    }
}

impl Maps {
    /// Maps to be written into `directory`.
    pub fn new(directory: Arc<Directory>) -> Maps {
        Maps {
            of: BTreeMap::new(),
            directory,
            family: Schedule::new(FIRST, RAREST),
            all: Schedule::new(FIRST_OF_ALL, RAREST_OF_ALL),
        }
    }

    /// Reads all processes, or the command `child` and its descendants, if it is due.
    pub fn look(&mut self, child: Option<u32>) {
        if self.all.is_due() {
            self.take_all();
        } else if let Some(child) = child.filter(|_| self.family.is_due()) {
            self.take_family(child);
        } else {
            return;
        }
        let _ = self.write(); // it is written again at the end, where errors are reported
    }

    fn take_family(&mut self, process: u32) {
        let mut left = VecDeque::from([process]);
        for _ in 0..MOST_PROCESSES {
            let Some(process) = left.pop_front() else { return };
            self.look_at(process);
            left.extend(children(process));
        }
    }

    /// Reads all running processes.
    pub fn take_all(&mut self) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.look_at(process);
            }
        }
    }

    fn look_at(&mut self, process: u32) {
        // In a container this is another process than that of this number in the events.
        if !sched::ids_are_the_kernels() {
            return;
        }
        let Ok(text) = fs::read_to_string(format!("/proc/{process}/maps")) else { return };
        let files: String =
            text.lines().filter(|line| line.contains(" /")).fold(String::new(), |mut all, line| {
                let _ = writeln!(all, "{line}");
                all
            });
        if !files.is_empty() {
            let comm = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            self.of.insert(process, (comm.trim_end().to_owned(), files));
        }
    }

    /// Writes all maps: `# PID COMM`, then lines as in /proc/PID/maps, for each process.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self) -> anyhow::Result<()> {
        let mut text = String::new();
        for (process, (comm, files)) in &self.of {
            let _ = write!(text, "# {process} {comm}\n{files}");
        }
        file::put(&self.directory, crate::beside::MAPS_FILE, text.as_bytes(), Readers::Owner)
    }
}

fn children(process: u32) -> Vec<u32> {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of_task = |task: fs::DirEntry| fs::read_to_string(task.path().join("children")).unwrap_or_default();
    tasks
        .map(of_task)
        .flat_map(|text| text.split_whitespace().flat_map(str::parse).collect::<Vec<_>>())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_of_a_child_are_there_when_it_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let mut maps = Maps::new(Arc::new(file::directory(directory.path(), Readers::Umask).unwrap()));
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let written = || fs::read_to_string(directory.path().join("maps")).unwrap_or_default();
        let named = format!("# {} sleep\n", child.id());
        let begin = Instant::now();
        while !written().contains(&named) && begin.elapsed() < Duration::from_secs(20) {
            maps.look(Some(child.id()));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let text = written();
        assert!(text.starts_with(&named), "{text}");
        assert!(text.lines().any(|line| line.contains("/sleep") || line.contains("/coreutils")), "{text}");
    }
}

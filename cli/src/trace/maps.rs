//! Memory maps of processes: they name the files behind page faults, and code addresses, after the processes are gone.
//!
//! Processes that run at the end are read then. The command and its children are gone by then: they are looked at
//! while they run, soon after their start and then ever more rarely, because reading the maps of a process holds
//! up its page faults for some µs.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write;
use std::fs;
use std::time::{Duration, Instant};

/// First distance of two looks at a command; it doubles up to [`RAREST`].
const FIRST: Duration = Duration::from_millis(40);
const RAREST: Duration = Duration::from_secs(2);
/// Processes of one command that are looked at.
const MOST_PROCESSES: usize = 256;

/// Maps of processes, by their numbers.
#[derive(Debug, Default)]
pub struct Maps {
    of: BTreeMap<u32, (String, String)>,
    next: Option<(Instant, Duration)>,
}

impl Maps {
    /// Looks at `process` and its descendants, if it is time to.
    pub fn look_at_family(&mut self, process: u32) {
        let now = Instant::now();
        let (due, distance) = *self.next.get_or_insert((now + FIRST, FIRST));
        if now < due {
            return;
        }
        let distance = (2 * distance).min(RAREST);
        self.next = Some((now + distance, distance));
        let mut left = VecDeque::from([process]);
        for _ in 0..MOST_PROCESSES {
            let Some(process) = left.pop_front() else { return };
            self.look_at(process);
            left.extend(children(process));
        }
    }

    /// Looks at all processes there are.
    pub fn take_all(&mut self) {
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            if let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) {
                self.look_at(process);
            }
        }
    }

    fn look_at(&mut self, process: u32) {
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

    /// `# PID COMM`, then lines as in /proc/PID/maps, of each process.
    #[must_use]
    pub fn into_text(self) -> String {
        let sections =
            self.of.into_iter().map(|(process, (comm, files))| format!("# {process} {comm}\n{files}"));
        sections.collect()
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
        let mut maps = Maps::default();
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let begin = Instant::now();
        while !maps.of.contains_key(&child.id()) && begin.elapsed() < Duration::from_secs(20) {
            maps.look_at_family(child.id());
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let text = maps.into_text();
        assert!(text.starts_with(&format!("# {} ", child.id())), "{text}");
        assert!(text.lines().any(|line| line.contains("/sleep") || line.contains("/coreutils")), "{text}");
    }
}

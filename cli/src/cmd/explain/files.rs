//! Names of the files behind page faults: from maps of the process, or by scanning the traced machine's file
//! tree.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{bail, Result};
use lathunt_core::trace::event::Kind;
use lathunt_core::trace::source::Info;
use lathunt_core::trace::syscall_names::SyscallTable;
use lathunt_core::trace::window::Window;
use lathunt_host::recorder::parse_interrupts;
use lathunt_host::trusted::{self, Owner};
use serde_json::Value;

use crate::beside::{BESIDE_CTF, CONDITIONS_FILE, INTERRUPTS_FILE, MAPS_FILE};
use crate::input::{contents, Contents};

/// Known device and inode numbers.
pub struct Names {
    /// By device (major << 20 | minor) and inode.
    known: HashMap<(u32, u64), String>,
    root: Option<PathBuf>,
    walked: bool,
    /// Names of interrupt lines, if the trace has only their numbers.
    interrupts: HashMap<u32, String>,
}

/// Maximum number of files and directories examined under `--root`.
const MOST: usize = 2_000_000;

impl Names {
    /// From `--maps` (a file, or the PID of a process on this machine) and the maps saved in the trace.
    ///
    /// # Errors
    /// The maps cannot be read.
    pub fn new(maps: Option<&str>, root: Option<PathBuf>, info: &Info) -> Result<Names> {
        let mut names = Names { known: HashMap::new(), root, walked: false, interrupts: HashMap::new() };
        names.read(&info.proc_maps);
        if let Some(maps) = maps {
            let path = match maps.parse::<u32>() {
                Ok(pid) => PathBuf::from(format!("/proc/{pid}/maps")),
                Err(_) => PathBuf::from(maps),
            };
            let before = names.known.len();
            names.read(&String::from_utf8_lossy(&bounded(&path)?));
            if names.known.len() == before {
                bail!(
                    "cannot use {}: no line maps a file; it must have the format of /proc/PID/maps",
                    path.display()
                );
            }
        }
        if let Some(root) = names.root.as_ref().filter(|root| !root.is_dir()) {
            bail!("cannot read {}: not a directory", root.display());
        }
        Ok(names)
    }

    /// Reads the maps and interrupt names that `lathunt trace` saved in its directory, if `trace` is one.
    pub fn read_saved(&mut self, trace: &Path) {
        if let Some(text) = saved(trace, MAPS_FILE) {
            self.read(&text);
        }
        if let Some(text) = saved(trace, INTERRUPTS_FILE) {
            self.interrupts = parse_interrupts(&text);
        }
    }

    /// Parses lines of /proc/PID/maps: `BEGIN-END PERMS OFFSET MAJOR:MINOR INODE PATH`; skips others.
    fn read(&mut self, text: &str) {
        for line in text.lines() {
            let mut words = line.split_ascii_whitespace().skip(3);
            let (Some(device), Some(inode)) = (words.next(), words.next()) else { continue };
            let path = words.collect::<Vec<_>>().join(" ");
            let Some((major, minor)) = device.split_once(':') else { continue };
            let hex = |text| u32::from_str_radix(text, 16).ok();
            if let (Some(major), Some(minor), Ok(inode)) = (hex(major), hex(minor), inode.parse::<u64>())
                && path.starts_with('/')
                && inode > 0
            {
                self.known.insert((major << 20 | minor, inode), path);
            }
        }
    }

    /// Names the files of the window's page faults, and its interrupt lines.
    pub fn fill(&mut self, window: &mut Window) {
        if window.irq_names.is_empty() {
            window.irq_names.clone_from(&self.interrupts);
        }
        let mut wanted: HashSet<(u32, u64)> = HashSet::new();
        for event in &window.events {
            if let Kind::FilemapFault { dev, ino, .. } = event.kind {
                wanted.insert((dev, ino));
            }
        }
        if !self.walked
            && wanted.iter().any(|file| !self.known.contains_key(file))
            && let Some(root) = self.root.clone()
        {
            self.walked = true;
            self.walk(&root);
        }
        for file in wanted {
            if let Some(name) = self.known.get(&file) {
                window.files.insert(file, name.clone());
            }
        }
    }

    fn walk(&mut self, root: &Path) {
        let mut left = vec![root.to_owned()];
        let mut seen = 0;
        while let Some(directory) = left.pop() {
            let Ok(entries) = fs::read_dir(&directory) else { continue };
            for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
                seen += 1;
                if seen > MOST {
                    return;
                }
                let Ok(meta) = fs::symlink_metadata(&path) else { continue };
                if meta.is_dir() {
                    let kernel = ["/proc", "/sys"].iter().any(|own| path == Path::new(own));
                    if !kernel {
                        left.push(path);
                    }
                } else if meta.is_file() {
                    let device = (libc_major(meta.dev()) << 20) | libc_minor(meta.dev());
                    let shown = path.strip_prefix(root).map_or_else(
                        |_| path.display().to_string(),
                        |inside| Path::new("/").join(inside).display().to_string(),
                    );
                    self.known.entry((device, meta.ino())).or_insert(shown);
                }
            }
        }
    }
}

/// The bytes of a file given on the command line, including pseudo-files without length.
///
/// # Errors
/// It cannot be read, is not a file, or is too large.
pub fn bounded(path: &Path) -> Result<Contents> {
    if path.exists() && !path.is_file() {
        bail!("cannot read {}: not a regular file", path.display());
    }
    contents(path)
}

/// Most bytes of a file beside a trace.
const MOST_SAVED: u64 = 64 << 20;

/// A file saved by `lathunt trace`, in its directory or beside the exported CTF.
pub fn saved(trace: &Path, name: &str) -> Option<String> {
    let places = [trace.join(name), trace.join(BESIDE_CTF).join(name)];
    places.iter().find_map(|path| trusted::read_text(path, Owner::Anyone, MOST_SAVED).ok())
}

/// Facts about the machine saved by `lathunt trace`.
pub struct SavedFacts {
    /// The preemption model in force.
    preemption: Option<String>,
    /// `x86_64`, `aarch64`.
    architecture: Option<String>,
}

impl SavedFacts {
    /// Reads those of the directory `trace`; empty if it is not from lathunt.
    pub fn read(trace: &Path) -> SavedFacts {
        let text = saved(trace, CONDITIONS_FILE).unwrap_or_default();
        let file: Value = serde_json::from_str(&text).unwrap_or_default();
        let (kernel, machine) = (&file["conditions"]["kernel"], &file["conditions"]["machine"]);
        let preemption = match kernel["realtime"].as_bool() {
            Some(true) => Some("rt"),
            _ => kernel["preemption_in_force"].as_str(),
        };
        SavedFacts {
            preemption: preemption.map(str::to_owned),
            architecture: machine["architecture"].as_str().map(str::to_owned),
        }
    }

    /// Adds them to a window of that trace.
    pub fn fill(&self, window: &mut Window) {
        window.preemption.clone_from(&self.preemption);
        if let Some(architecture) = &self.architecture {
            window.syscalls = SyscallTable::of_machine(architecture);
        }
    }
}

/// Major number in the encoding of `stat` (glibc's gnu_dev_major).
fn libc_major(dev: u64) -> u32 {
    (((dev >> 8) & 0xfff) | ((dev >> 32) & !0xfff)) as u32
}

/// Minor number in the encoding of `stat`.
fn libc_minor(dev: u64) -> u32 {
    ((dev & 0xff) | ((dev >> 12) & !0xff)) as u32
}

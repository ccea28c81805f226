//! A private instance of the kernel's trace buffer; the top-level buffer is never touched. Where tracefs is mounted
//! nowhere, a detached mount is used, which ends with this process.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::debugfs::DetachedMount;
use crate::error::{Error, Result};

const MOUNTED: &str = "/sys/kernel/tracing";
const PREFIX: &str = "lathunt-npt-";
/// What a trace of the kernel records for questions of latency.
const GROUPS: [&str; 4] = ["sched", "irq", "irq_vectors", "timer"];

/// The root of tracefs.
pub(super) struct Root {
    path: PathBuf,
    _mount: Option<DetachedMount>,
}

impl Root {
    pub fn open() -> Result<Root> {
        if Path::new(MOUNTED).join("instances").exists() {
            return Ok(Root { path: MOUNTED.into(), _mount: None });
        }
        let mount = DetachedMount::new("tracefs")?;
        Ok(Root { path: mount.path(), _mount: Some(mount) })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Why there can be no instance here (or no `file`); `None`: there can.
pub(super) fn missing(file: Option<&str>) -> Option<String> {
    let root = match Root::open() {
        Ok(root) => root,
        Err(error) => return Some(error.to_string()),
    };
    for name in ["instances"].into_iter().chain(file) {
        match fs::metadata(root.path(name)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some(format!("this kernel's tracefs has no {name}"));
            }
            Err(error) => return Some(format!("tracefs: {error}; needs root")),
        }
    }
    None
}

/// An instance; removed when dropped.
pub struct Instance {
    root: Root,
    path: PathBuf,
}

impl Instance {
    pub(super) fn new() -> Result<Instance> {
        let root = Root::open()?;
        let base = root.path("instances");
        // What a killed run left: its process is gone.
        for entry in fs::read_dir(&base).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let owner = name.strip_prefix(PREFIX).and_then(|pid| pid.parse::<u32>().ok());
            if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                remove(&entry.path());
            }
        }
        let path = base.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&path).map_err(|error| {
            Error::new("make", "a private trace instance", error).hint("tracefs is root's")
        })?;
        let instance = Instance { root, path };
        instance.set("tracing_on", "1")?;
        Ok(instance)
    }

    pub(super) fn root(&self) -> &Root {
        &self.root
    }

    pub(super) fn set(&self, file: &str, value: &str) -> Result<()> {
        fs::write(self.path.join(file), value)
            .map_err(|error| Error::new("write", format!("{value} to {file} of a trace instance"), error))
    }

    /// From now on scheduler, interrupts and timers are recorded. Groups that this kernel lacks are left out.
    pub(super) fn trace_kernel(&self) -> Result<()> {
        let mut there = GROUPS.iter().filter(|group| self.path.join("events").join(group).exists());
        there.try_for_each(|group| self.set(&format!("events/{group}/enable"), "1"))
    }

    pub(super) fn marker(&self) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.path.join("trace_marker"))
            .map_err(|error| Error::new("open", "trace_marker of a trace instance", error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        remove(&self.path);
    }
}

fn remove(instance: &Path) {
    let _ = fs::write(instance.join("tracing_on"), "0");
    let _ = fs::write(instance.join("events/enable"), "0");
    let _ = fs::remove_dir(instance);
}

//! A private instance of the kernel's trace buffer, for the probes and the kernel's own events.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;

use crate::error::{Error, Result};
use crate::tracefs::{self, Tracefs};

/// Event groups of a kernel trace for latency questions.
const GROUPS: [&str; 4] = ["sched", "irq", "irq_vectors", "timer"];

/// Why an instance (or `file`) is unavailable here; `None`: it is available.
pub(super) fn missing(file: Option<&str>) -> Option<String> {
    let tracefs = match Tracefs::open() {
        Ok(tracefs) => tracefs,
        Err(error) => return Some(error.to_string()),
    };
    for name in ["instances"].into_iter().chain(file) {
        match fs::metadata(tracefs.root().join(name)) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Some(format!("this kernel's tracefs has no {name}"));
            }
            Err(error) => return Some(format!("tracefs: {error}; needs root")),
        }
    }
    None
}

/// An instance that records; removed when dropped.
pub struct Instance {
    instance: tracefs::Instance, // dropped before the mount that contains it
    tracefs: Tracefs,
}

impl Instance {
    pub(super) fn new() -> Result<Instance> {
        let tracefs = Tracefs::open()?;
        let instance = tracefs::Instance::new(&tracefs, "npt")?;
        instance.set("tracing_on", "1")?;
        Ok(Instance { instance, tracefs })
    }

    pub(super) fn tracefs(&self) -> &Tracefs {
        &self.tracefs
    }

    pub(super) fn set(&self, file: &str, value: &str) -> Result<()> {
        self.instance.set(file, value)
    }

    /// Records scheduler, interrupts and timers from now on. Groups that this kernel lacks are left out.
    pub(super) fn trace_kernel(&self) -> Result<()> {
        let mut there =
            GROUPS.iter().filter(|group| self.instance.path().join("events").join(group).exists());
        there.try_for_each(|group| self.set(&format!("events/{group}/enable"), "1"))
    }

    pub(super) fn marker(&self) -> Result<File> {
        OpenOptions::new()
            .write(true)
            .open(self.instance.path().join("trace_marker"))
            .map_err(|error| Error::new("open", "trace_marker of a trace instance", error))
    }
}

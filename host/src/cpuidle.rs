//! Disabling idle states of single CPUs, where `/dev/cpu_dma_latency` would limit all CPUs.

use std::path::{Path, PathBuf};

use lathunt_core::conditions::IdleState;
use lathunt_core::cpuset::CpuSet;

use crate::error::Result;
use crate::facts::idle;
use crate::knob::{self, Knobs};
use crate::tree::Tree;

/// The states that were disabled; they are restored when it is dropped, or after `kill -9` by the next command.
#[derive(Debug)]
pub struct Disabled {
    knobs: Option<Knobs>,
    /// How many; those that were disabled before are not among them.
    pub count: usize,
}

/// Disables the idle states of `cpus` that `is_too_deep` accepts. A CPU in such a state leaves it at its next interrupt.
///
/// # Errors
/// If one cannot be written, or another lathunt has changed settings; nothing is changed then.
pub fn disable(cpus: &CpuSet, about: &str, is_too_deep: impl Fn(&IdleState) -> bool) -> Result<Disabled> {
    let tree = Tree::new(Path::new("/"));
    let mut files: Vec<PathBuf> = Vec::new();
    for cpu in cpus.iter() {
        let states = idle::states(&tree, cpu);
        let deep = states.iter().filter(|state| state.disabled != Some(true) && is_too_deep(state));
        let file = |state: &IdleState| {
            format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{}/disable", state.state)
        };
        files.extend(deep.map(|state| PathBuf::from(file(state))));
    }
    if files.is_empty() {
        return Ok(Disabled { knobs: None, count: 0 });
    }
    let (mut knobs, _) = Knobs::open_about(&knob::default_directory(), about)?;
    for file in &files {
        if let Err(error) = knobs.set(file, "1") {
            knobs.restore()?;
            return Err(error);
        }
    }
    Ok(Disabled { knobs: Some(knobs), count: files.len() })
}

impl Disabled {
    /// Restores them.
    ///
    /// # Errors
    /// The setting that could not be restored.
    pub fn restore(self) -> Result<()> {
        self.knobs.map_or(Ok(()), |knobs| knobs.restore().map(drop))
    }
}

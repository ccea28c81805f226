//! The conditions under which this machine measures: facts for [`Conditions`], read and not judged.
//!
//! Every reader takes the root of the file tree, so that tests run on file trees of other machines. What cannot be
//! read stays `None` with a note that says why; nothing is guessed, and a derived fact names its source. What
//! changes *during* a run is in [`counters`].

pub mod capabilities;
pub mod counters;
pub mod idle;
pub mod kernel;
pub mod knobs;
pub mod machine;
pub mod neighbours;
pub mod packed;
pub mod snapshot;

use std::path::Path;

use crate::tree::Tree;
use lathunt_core::conditions::Conditions;
use lathunt_core::cpuset::CpuSet;

/// All facts of the system below `root` (`/` is this machine), for a measurement on `measured`.
///
/// Takes a few milliseconds, opens no device but `/dev/cpu_dma_latency` (for reading), changes nothing. The caller
/// fills in `started`, `duration_s`, `command`, `load` and `during`.
#[must_use]
pub fn gather(root: &Path, measured: &CpuSet) -> Conditions {
    let tree = Tree::new(root);
    let kernel = kernel::read(&tree);
    let knobs = knobs::read(&tree, measured);
    let mut machine = machine::read(&tree);
    machine.cpus_measured = Some(measured.to_string());
    Conditions {
        tool: Some(format!("lathunt {}", env!("CARGO_PKG_VERSION"))),
        host: tree.text("proc/sys/kernel/hostname"),
        capabilities: capabilities::read(&tree, Some(&crate::programs::search_path())),
        machine,
        kernel,
        knobs,
        notes: tree.into_notes(),
        ..Conditions::default()
    }
}

//! `lathunt trace` of the kernel, from the recording to the explanation of causes that were made on purpose.

mod recording;
mod scenarios;

use std::path::Path;
use std::process::{Command, Output};

use lathunt_host::testing::{lacks_root, may_run};
use lathunt_host::tracefs::Tracefs;
use tempfile::TempDir;

/// A directory on a disk (a page of a file in memory is never cold).
pub fn directory() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

/// `lathunt COMMAND…`, to its end.
pub fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

/// The same, which must succeed; its standard output.
pub fn lathunt_ok(arguments: &[&str]) -> String {
    let output = lathunt(arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {:?} {said}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

/// As text of a command line.
pub fn shown(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Names of lathunt's trace instances, also if tracefs is not mounted.
pub fn instances() -> Vec<String> {
    let tracefs = Tracefs::open().unwrap();
    let entries = std::fs::read_dir(tracefs.root().join("instances")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with("lathunt-trace-")).collect()
}

/// Whether the test may go on.
pub fn may_trace(name: &str) -> bool {
    may_run(name, lacks_root())
}

//! Programs that lathunt runs on its own: for root, from the system directories only.
//!
//! `$PATH` is the caller's. A program that somebody puts first in it must not run as root. A command that the user names is
//! looked up by the user's `$PATH` (not here).

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

use crate::trusted;

/// Search path of root's programs.
const OF_THE_SYSTEM: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The search path: fixed for root, `$PATH` for others.
#[must_use]
pub fn search_path() -> OsString {
    match trusted::me() {
        0 => OsString::from(OF_THE_SYSTEM),
        _ => std::env::var_os("PATH").unwrap_or_default(),
    }
}

/// The program `name`, if installed.
#[must_use]
pub fn find(name: &str) -> Option<PathBuf> {
    find_program(name, &search_path())
}

/// A command that runs `name`, with the same search path for its own children; starting it fails if it is not installed.
#[must_use]
pub fn command(name: &str) -> Command {
    let mut command = Command::new(find(name).unwrap_or_else(|| PathBuf::from(format!("/usr/bin/{name}"))));
    command.env("PATH", search_path());
    command
}

/// The first executable file `name` on a search path like `$PATH`.
#[must_use]
pub fn find_program(name: &str, search_path: &OsStr) -> Option<PathBuf> {
    use std::os::unix::fs::PermissionsExt;
    let executable = |path: &PathBuf| {
        path.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(search_path).map(|directory| directory.join(name)).find(executable)
}

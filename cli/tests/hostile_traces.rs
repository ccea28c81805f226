//! Links in a trace that another user has made, as root, with `nobody` as that user.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

const NOBODY: u32 = 65534;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// As the other user; it must succeed.
fn nobody(script: &str, directory: &Path) {
    let done =
        Command::new("sh").args(["-ec", script]).current_dir(directory).uid(NOBODY).gid(NOBODY).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Exit code of `explain theirs --summary`, and what it says on stderr.
fn explained(directory: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let output = command.args(["explain", "theirs", "--summary"]).current_dir(directory).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// A directory that root explains may be anybody's: what is published of it must not come from root's files.
#[test]
#[ignore = "needs root"]
fn links_in_a_trace_of_another_user_do_not_lead_to_files_of_root() {
    let name = "links_in_a_trace_of_another_user_do_not_lead_to_files_of_root";
    if !lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let at = |name: &str| place.path().join(name);
    let line = "  a-1  [000]  1.000001: sched_waking: comm=secret pid=2 prio=9 target_cpu=000\n";
    fs::write(at("secret"), line).unwrap();
    fs::create_dir(at("hidden")).unwrap();
    fs::write(at("hidden/metadata"), "/* CTF 1.8 */\n").unwrap();
    set_mode(&at("secret"), 0o600);
    set_mode(&at("hidden"), 0o700);
    fs::create_dir(at("theirs")).unwrap();
    std::os::unix::fs::chown(at("theirs"), Some(NOBODY), Some(NOBODY)).unwrap();
    for (script, expected) in [
        ("ln -s ../secret theirs/trace.dat", "a symbolic link of user 65534 to a file of user 0"),
        ("rm theirs/*; ln -s ../hidden theirs/ctf", "contains no trace"),
        (
            "rm theirs/*; echo '/* CTF 1.8 */' >theirs/metadata; ln -s ../secret theirs/stream",
            "a symbolic link of user 65534",
        ),
    ] {
        nobody(script, place.path());
        let (code, said) = explained(place.path());
        assert!(code == Some(1) && said.contains(expected), "{script}: {said}");
    }
    // Links to own files are followed.
    nobody(
        &format!("rm theirs/*; printf '%s' '{line}' >theirs/own; ln -s own theirs/trace.dat"),
        place.path(),
    );
    let (code, said) = explained(place.path());
    assert!(matches!(code, Some(0 | 3)), "{said}");
}

//! Limits of the caller: one line and an exit code, never an abort.

use std::fs;
use std::process::Command;

use super::runs::run_of;

#[test]
fn a_limit_that_leaves_no_room_is_named_in_one_line_and_nothing_aborts() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("many.json"), run_of(3_000, 10_240, place.path())).unwrap();
    for (limit, words, expected) in [
        (
            "-s 64",
            "--version",
            "lathunt: the stack is limited to 64 KiB, 1024 KiB are needed; raise the limit (ulimit -s)",
        ),
        ("-s 512", "cyclic -D 50ms", "lathunt: the stack is limited to 512 KiB"),
        ("-S -s 64", "--version", ""),
        ("-d 8000", "report many.json", "lathunt: out of memory: "),
        (
            "-n 4",
            "report many.json",
            "Too many open files (os error 24); raise the limit of open files (ulimit -n)",
        ),
    ] {
        let script = format!("ulimit {limit}; exec {} {words}", env!("CARGO_BIN_EXE_lathunt"));
        let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let code = i32::from(!expected.is_empty());
        assert_eq!(output.status.code(), Some(code), "{limit} {words}: {} {said}", output.status);
        assert!(said.contains(expected) && said.lines().count() <= 1, "{limit} {words}: {said}");
    }
}

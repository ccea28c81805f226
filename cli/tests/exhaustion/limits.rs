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
        ("-n 4", "report many.json", "lathunt: the number of open files is limited to 4, 6"),
        ("-n 16", "check", "are needed; raise the limit (ulimit -n)"),
        ("-n 63", "npt -n 10", "lathunt: the number of open files is limited to 63, 6"),
        ("-S -n 16", "--version", ""),
    ] {
        let script = format!("ulimit {limit}; exec {} {words}", env!("CARGO_BIN_EXE_lathunt"));
        let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        let code = i32::from(!expected.is_empty());
        assert_eq!(output.status.code(), Some(code), "{limit} {words}: {} {said}", output.status);
        assert!(said.contains(expected) && said.lines().count() <= 1, "{limit} {words}: {said}");
    }
}

#[test]
fn a_recorder_for_which_too_few_files_are_left_is_named_with_the_limit_alone() {
    let script = format!("ulimit -n 72; exec {} npt -n 1000 -p 0", env!("CARGO_BIN_EXE_lathunt"));
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let note = said.lines().find(|line| line.contains("no record of the kernel")).unwrap_or_default();
    // Without the capability to load programs, that is the reason.
    let by_limit = "Too many open files (os error 24); raise the limit of open files (ulimit -n)";
    assert!(note.ends_with(by_limit) || note.contains("CAP_BPF"), "{} {said}", output.status);
    assert!(!note.contains("libbpf"), "{note}");
}

//! Permissions without root, and the user under sudo. With a second user id.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};
use tempfile::TempDir;

use crate::{lathunt, told};

const NOBODY: u32 = 65_534;

/// The binary where a user without rights reaches it, in a directory of theirs.
fn of_nobody() -> (TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("lathunt");
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), &binary).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    (place, binary)
}

fn as_nobody(place: &TempDir, binary: &PathBuf, arguments: &[&str]) -> (String, Option<i32>) {
    let mut command = Command::new(binary);
    command.args(arguments).current_dir(place.path()).stdin(Stdio::null()).uid(NOBODY).gid(NOBODY);
    told(&command.output().unwrap())
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
#[ignore = "root: run by make test"]
fn without_rights_each_refusal_names_the_right_and_a_hunt_says_first_what_it_measured() {
    if !may_run("without_rights_each_refusal_names_the_right", lacks_root()) {
        return;
    }
    let (place, binary) = of_nobody();
    let (text, code) = as_nobody(&place, &binary, &["record", "-D", "1s", "--tasks", "all"]);
    assert_eq!(code, Some(1), "{text}");
    // Commands that work as they are, wherever this binary is.
    let file = binary.display();
    let (by_sudo, once) = (format!("`sudo {file} ...`"), format!("+ep {file}`"));
    for part in ["needs CAP_BPF and CAP_PERFMON", &by_sudo, "`sudo setcap cap_bpf,cap_perfmon,", &once] {
        assert!(text.contains(part) && text.lines().count() == 1, "{part}: {text}");
    }
    let (text, code) = as_nobody(&place, &binary, &["hunt", "-D", "1s", "--load", "none", "-o", "out"]);
    assert_eq!(code, Some(0), "{text}");
    let first = text.lines().find(|line| line.starts_with("  · ")).unwrap();
    assert!(first.contains("measured as an ordinary task at nice 0"), "{first}");
    let cases =
        on_one_line(text.split("Worst cases").nth(1).unwrap().split("Model-free bound").next().unwrap());
    assert_eq!(cases.matches("not explained").count(), 0, "{text}");
    assert_eq!(cases.matches("none is explained: no kernel recorder").count(), 1, "{text}");
}

#[test]
#[ignore = "root: run by make test"]
fn with_the_rights_of_the_how_to_a_user_measures_and_explains() {
    let setcap = || Command::new("setcap").arg("-h").output().err().map(|_| "setcap is not installed");
    if !may_run("with_the_rights_of_the_how_to", lacks_root().or_else(lacks_bpf).or_else(setcap)) {
        return;
    }
    let page = include_str!("../../../docs/howto/without-root.md");
    let line = page.lines().find(|line| line.contains("sudo setcap ")).unwrap();
    let rights = line.split_whitespace().find(|word| word.starts_with("cap_")).unwrap();
    let (place, binary) = of_nobody();
    let given = |rights: &str| Command::new("setcap").arg(rights).arg(&binary).status().unwrap().success();
    assert!(given(rights), "{rights}");
    let (text, code) = as_nobody(&place, &binary, &["hunt", "-D", "1s", "--load", "none", "-o", "out"]);
    assert!(matches!(code, Some(0 | 3)), "{text}");
    assert!(!text.contains("ordinary task") && !text.contains("no kernel recorder"), "{text}");
    assert!(text.contains("calibrat") && !text.contains("without locked memory"), "{text}");
    // The table says which of them a recording needs.
    assert!(given("cap_bpf,cap_perfmon+ep"));
    let (text, code) =
        as_nobody(&place, &binary, &["record", "-q", "-o", "r", "--tasks", "all", "-D", "500ms"]);
    assert!(matches!(code, Some(0 | 3)) && text.contains("latency"), "{text}");
}

#[test]
#[ignore = "root: run by make test"]
fn under_sudo_results_and_the_command_are_those_of_the_caller() {
    if !may_run("under_sudo_results_and_the_command", lacks_root().or_else(lacks_bpf)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let sudo = |more: &[&str], output: &str| {
        let mut command = lathunt();
        command.args(["record", "-q", "-o"]).arg(place.path().join(output)).args(more);
        command.args(["--", "sh", "-c", "echo uid $(id -u) groups $(id -G) rtprio $(ulimit -r); sleep 0.3"]);
        command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
        told(&command.output().unwrap()).0
    };
    let text = sudo(&[], "a/out");
    assert!(text.contains("uid 65534 groups 65534 rtprio "), "{text}");
    // Root of a container may not lift limits.
    let lifts =
        Command::new("prlimit").args(["--rtprio=99", "true"]).status().is_ok_and(|ended| ended.success());
    assert!(text.contains("rtprio 99") || !lifts, "{text}");
    assert!(text.contains("sh runs as nobody, who called sudo; --user root runs it as root"), "{text}");
    for name in ["a", "a/out", "a/out/run.lathunt.json", "a/out/report.html"] {
        let found = fs::metadata(place.path().join(name)).unwrap();
        assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY), "{name}");
    }
    assert_eq!(fs::metadata(place.path()).unwrap().uid(), 0, "what was there stays as it was");
    assert!(sudo(&["--user", "root"], "b").contains("uid 0"));
    let refused = sudo(&["--user", "no-such-user"], "c");
    assert!(refused.contains("/etc/passwd has no such user") && refused.lines().count() == 1, "{refused}");
}

#[test]
#[ignore = "root: run by make test"]
fn under_sudo_what_readers_write_is_the_callers() {
    if !may_run("under_sudo_what_readers_write", lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    std::os::unix::fs::chown(place.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    let run = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/howto/how-sure.lathunt.json");
    // Only root may read it, and the caller has no right in its directory.
    let secret = tempfile::tempdir().unwrap();
    let hidden = secret.path().join("run.lathunt.json");
    fs::copy(run, &hidden).unwrap();
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600)).unwrap();
    let hidden = hidden.to_str().unwrap();
    let (histogram, set) = (secret.path().join("hist.txt"), secret.path().join("set.json"));
    fs::write(
        &histogram,
        "# Histogram\n000000 000000\n000001 000010\n# Total: 000000010\n# Min Latencies: 00001\n# Avg Latencies: 00001\n# Max Latencies: 00001\n# Histogram Overflows: 00000\n",
    )
    .unwrap();
    fs::write(&set, r#"{"tasks":{"t":{"policy":"SCHED_FIFO","priority":10,"loop":5,"run":1000,"timer":{"ref":"u","period":10000}}}}"#)
        .unwrap();
    let (histogram, set) = (histogram.to_str().unwrap(), set.to_str().unwrap());
    let written: [(&str, &[&str]); 5] = [
        ("plot.svg", &["plot", hidden, "-o"]),
        ("plot.html", &["plot", hidden, "-o"]),
        ("report.html", &["report", hidden, "-o"]),
        ("imported.lathunt.json", &["import", histogram, "-o"]),
        ("set.json", &["tasks", "convert", set, "-o"]),
    ];
    for (name, arguments) in written {
        let path = place.path().join(name);
        for _ in 0..2 {
            let mut command = lathunt();
            command.args(arguments).arg(&path);
            command.env("SUDO_UID", "65534").env("SUDO_GID", "65534").env("SUDO_USER", "nobody");
            let (text, _) = told(&command.output().unwrap());
            let found = fs::metadata(&path).unwrap_or_else(|error| panic!("{name}: {error}: {text}"));
            assert_eq!((found.uid(), found.gid()), (NOBODY, NOBODY), "{name}");
        }
    }
    assert_eq!(fs::metadata(hidden).unwrap().uid(), 0, "what was read stays as it was");
}

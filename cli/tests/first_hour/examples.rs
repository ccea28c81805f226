//! Every example of every manual page runs as it is printed, in a directory with the files that it names. Only lengths are
//! shorter.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

use crate::told;

/// What an example needs around it, by the start of its line: `{}` is the line. Addresses are on loopback, and a session of the
/// tracer without an instrumented program ends with status 1, because it recorded nothing.
const AROUND: [(&str, &str); 12] = [
    ("monitor", "timeout --preserve-status -s INT 2 {} --database new.sqlite --window 1s --listen off"),
    ("munin", "LATHUNT_DATABASE=windows.sqlite {}"),
    ("respond", "timeout --preserve-status -s INT 1 {}"),
    (
        "box udp",
        "timeout -s INT 20 lathunt respond udp:127.0.0.1:4711 & sleep 0.5; {}; c=$?; kill $!; exit $c",
    ),
    ("trace start", "{}; c=$?; lathunt trace stop; exit $c"),
    ("trace stop", "lathunt trace start -o session; {} 2>&1 | grep 'no event was recorded'"),
    ("trace status", IN_SESSION),
    ("trace snapshot", IN_SESSION),
    ("trace enable", IN_SESSION),
    ("trace disable", IN_SESSION),
    ("isolate apply", "{} && lathunt isolate restore"),
    ("isolate restore", "lathunt isolate apply -c 1 && {}"),
];
const IN_SESSION: &str = "lathunt trace start -o session; {}; c=$?; lathunt trace stop; exit $c";

/// The typed lines of a page.
fn examples(page: &str) -> Vec<String> {
    let Some((_, examples)) = page.split_once(".SH EXAMPLES\n") else { return Vec::new() };
    let typed = examples.lines().filter_map(|line| line.strip_prefix("\\fB")?.strip_suffix("\\fR"));
    typed.map(|line| line.replace("\\-", "-").replace("\\(aq", "'").replace("\\\\", "\\")).collect()
}

/// `-D 60s` as `-D 300ms`: what is proved is that the line works, not how long it may take.
fn shortened(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 1..words.len() {
        if words[at - 1] == "-D" {
            words[at] = "300ms";
        }
    }
    let line = words.join(" ").replace("1e7", "1e5");
    line.replace("udp:0.0.0.0", "udp:127.0.0.1").replace("udp:192.168.1.2", "udp:127.0.0.1")
}

/// The line with all that it needs around it.
fn surrounded(line: &str) -> String {
    let around = AROUND.iter().find(|(verb, _)| line.starts_with(&format!("lathunt {verb}")));
    around.map_or(line.to_owned(), |(_, shell)| shell.replace("{}", line))
}

fn prepare(place: &Path) {
    let bin = place.join("bin");
    fs::create_dir(&bin).unwrap();
    symlink(env!("CARGO_BIN_EXE_lathunt"), bin.join("lathunt")).unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    fs::copy(repository.join("core/tests/data/cases/pty_worker.dat"), place.join("trace.dat")).unwrap();
    fs::copy(repository.join("examples/task_set.json"), place.join("set.json")).unwrap();
    fs::write(place.join("app"), "#!/bin/sh\nsleep 0.3\n").unwrap();
    fs::set_permissions(place.join("app"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(
        place.join("cyclictest.txt"),
        "T: 0 ( 2912) P:95 I:1000 C:  10000 Min:      3 Act:    4 Avg:    5 Max:      28\n",
    )
    .unwrap();
    let (text, code) = shell(place, &surrounded("lathunt monitor").replace("new.", "windows."));
    assert_eq!(code, Some(0), "{text}");
    for name in ["run", "before", "after"] {
        let line = format!("lathunt cyclic -D 300ms -c 0 -p 0 -q -o {name}.lathunt.json");
        let (text, code) = shell(place, &line);
        assert_eq!(code, Some(0), "{text}");
    }
}

fn shell(place: &Path, line: &str) -> (String, Option<i32>) {
    let path = format!("{}:{}", place.join("bin").display(), std::env::var("PATH").unwrap_or_default());
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(place).env("PATH", path).env("LATHUNT_TRACE_DIR", place);
    told(&command.stdin(Stdio::null()).output().unwrap())
}

#[test]
#[ignore = "root: run by make test"]
fn every_example_of_the_manual_pages_works_as_printed() {
    if !may_run("every_example_of_the_manual_pages", lacks_root().or_else(lacks_bpf)) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    prepare(place.path());
    let pages = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/man");
    let mut run: Vec<String> = Vec::new();
    for page in fs::read_dir(pages).unwrap() {
        let page = page.unwrap().path();
        let lines = examples(&fs::read_to_string(&page).unwrap());
        assert!(!lines.is_empty(), "{} has no EXAMPLES", page.display());
        run.extend(lines.into_iter().filter(|line| !run.contains(line)).collect::<Vec<_>>());
    }
    let mut failed = Vec::new();
    for line in run {
        let typed = surrounded(&shortened(&line));
        let (mut text, mut code) = shell(place.path(), &typed);
        // Another test's measurement may hold the journal of settings, or have taken a CPU offline.
        for _ in 0..4 {
            if code != Some(1) {
                break;
            }
            std::thread::sleep(Duration::from_millis(1_500));
            (text, code) = shell(place.path(), &typed);
        }
        // 2 and 3 are verdicts; 1 is an error.
        if !matches!(code, Some(0 | 2 | 3)) {
            failed.push(format!("{line}: {code:?}\n{text}"));
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

//! Three users in their first hour: what each types next stands in what was printed before.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

use crate::told;

/// A user's shell in a directory of their own.
struct Shell {
    place: tempfile::TempDir,
    seen: String,
}

impl Shell {
    fn new() -> Shell {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("bin")).unwrap();
        let binary = place.path().join("bin/lathunt");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_lathunt"), binary).unwrap();
        Shell { place, seen: String::new() }
    }

    /// Types `line`; `known` is what this user needs for it, and must have been printed before.
    fn types(&mut self, line: &str, known: &[&str]) -> (String, Option<i32>) {
        for part in known {
            assert!(self.seen.contains(part), "'{part}' of `{line}` was not printed before:\n{}", self.seen);
        }
        let path = format!(
            "{}:{}",
            self.place.path().join("bin").display(),
            std::env::var("PATH").unwrap_or_default()
        );
        let mut command = Command::new("sh");
        command.args(["-c", line]).current_dir(self.place.path()).env("PATH", path).stdin(Stdio::null());
        let (text, code) = told(&command.output().unwrap());
        self.seen += &text;
        (text, code)
    }
}

fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn example(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples").join(name)
}

/// She has a loop in C++ and a deadline. `lathunt` alone shows `record`; the report's place is in its last line.
#[test]
#[ignore = "root: run by make test"]
fn an_integrator_finds_the_holder_of_the_mutex() {
    let compiler = || Command::new("g++").arg("--version").output().err().map(|_| "needs g++");
    if !may_run("an_integrator_finds_the_holder", lacks_root().or_else(lacks_bpf).or_else(compiler)) {
        return;
    }
    let mut shell = Shell::new();
    shell.types("lathunt", &[]);
    let built = format!("g++ -O2 -pthread -o app {}", example("control_loop.cpp").display());
    assert_eq!(shell.types(&built, &[]).1, Some(0));
    // As she would do first, without the dashes.
    let (text, _) =
        shell.types("lathunt record --deadline 1ms ./app 3", &["lathunt record --deadline 1ms -- ./app"]);
    assert!(text.contains("lathunt record --deadline 1ms -- ./app 3"), "{text}");
    // The logger of the example holds the mutex for 0.7 to 1.5 ms, by the machine.
    let (text, code) = shell
        .types("lathunt record --deadline 500us -- ./app 3", &["lathunt record --deadline 1ms -- ./app 3"]);
    assert_eq!(code, Some(2), "{text}");
    let said = on_one_line(&text);
    assert!(said.contains("FAIL") && said.contains("logger") && said.contains("mutex"), "{text}");
    let report = said.rsplit("run: ").next().unwrap().split(' ').next().unwrap().to_owned();
    let (text, code) = shell.types(&format!("lathunt report --text {report}"), &[&report]);
    assert!(code == Some(0) && text.contains("logger"), "{text}");
}

/// He has no rights on this machine, and measures what he may.
#[test]
fn an_audio_developer_without_rights_is_told_what_lacks() {
    let mut shell = Shell::new();
    shell.types("lathunt", &[]);
    let drop = if lacks_root().is_none() { "setpriv --bounding-set=-all --inh-caps=-all " } else { "" };
    let line = format!("{drop}lathunt record -D 1s --tasks all");
    let (text, code) = match lacks_root() {
        // Root without capabilities is as good as another user, and reaches the binary.
        None => shell.types(&line.replace("setpriv ", "setpriv --securebits=+noroot "), &["lathunt record"]),
        Some(_) => shell.types(&line, &["lathunt record"]),
    };
    if lacks_bpf().is_none() && code != Some(1) {
        return; // this user has the rights
    }
    assert!(text.contains("CAP_BPF and CAP_PERFMON") && text.contains("sudo setcap"), "{text}");
}

/// They replace cyclictest in a script that compares a board with its last release.
#[test]
fn a_board_engineer_replaces_cyclictest_and_compares() {
    let mut shell = Shell::new();
    std::os::unix::fs::symlink("lathunt", shell.place.path().join("bin/cyclictest")).unwrap();
    let (text, code) = shell.types("cyclictest -q -t1 -a0 -i1000 -l200 -h400 > old.txt; cat old.txt", &[]);
    assert!(code == Some(0) && text.contains("# Max Latencies:"), "{text}");
    let (text, code) = shell.types("lathunt import old.txt -o old.lathunt.json", &[]);
    assert!(code == Some(0), "{text}");
    let (text, code) =
        shell.types("lathunt cyclic -c 0 -p 0 -D 500ms -q --require-verdict -o new.lathunt.json", &[]);
    assert!(code == Some(3) && text.contains("--deadline"), "{text}");
    let (_, code) = shell
        .types("lathunt cyclic -c 0 -p 0 -D 500ms -q --deadline 1us -o new.lathunt.json", &["--deadline"]);
    assert_eq!(code, Some(2));
    let (text, code) = shell
        .types("lathunt compare old.lathunt.json new.lathunt.json --plot both.svg", &["new.lathunt.json"]);
    assert!(code == Some(0) && text.contains("cyclic"), "{text}");
    assert!(fs::read_to_string(shell.place.path().join("both.svg")).unwrap().starts_with("<svg"));
}

//! A mutex of a program is named by its variable.

use std::path::Path;
use std::process::Command;

use super::*;

/// Compiled as `gate`, with `flags`.
fn program(place: &Path, flags: &[&str]) -> PathBuf {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/gate.c");
    let program = place.join("gate");
    let built =
        Command::new("cc").args(["-O1", "-pthread"]).args(flags).arg("-o").arg(&program).arg(source).status();
    assert!(built.unwrap().success());
    program
}

/// All texts of the run's late cases and of the waits of its threads.
fn told(place: &Path, program: &Path, mutex: &str) -> String {
    let directory = place.join("run");
    let words = ["record", "-q", "--deadline", "control=1ms,*=none", "-o", directory.to_str().unwrap(), "--"];
    let output = lathunt(&[&words[..], &[program.to_str().unwrap(), mutex]].concat());
    let run = read(&directory);
    let why = run.peaks.iter().filter_map(|peak| peak.explanation.as_ref());
    let cases = why.map(|why| serde_json::to_string(why).unwrap());
    let places = run.tasks.iter().flat_map(|task| &task.blocking).map(|wait| wait.place.clone());
    cases.chain(places).chain([said(&output)]).collect::<Vec<_>>().join("\n")
}

#[test]
#[ignore = "root: run by make test"]
fn the_mutex_a_job_waited_for_is_named_by_its_variable_or_where_it_is() {
    if !may_run("the_mutex_a_job_waited_for_is_named_by_its_variable_or_where_it_is", lacks_bpf()) {
        return;
    }
    for (flags, mutex, want) in [
        (&["-pie", "-fPIE"][..], "gate", "gate in gate"),
        (&["-no-pie", "-fno-pie"][..], "valued", "valued+24 in gate"),
        (&["-s"][..], "gate", "gate+0x"),
        (&[][..], "heap", "on the heap"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let program = program(place.path(), flags);
        let told = told(place.path(), &program, mutex);
        assert!(told.contains(want), "{flags:?} {mutex}, {want}: {told}");
    }
}

//! Questions that lead somewhere: each refusal names what to type instead.

use std::fs;
use std::path::Path;

use crate::{lathunt, told};

const TRACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data/cases/pty_worker.dat");

fn explain(arguments: &[&str]) -> (String, Option<i32>) {
    told(&lathunt().arg("explain").args(arguments).output().unwrap())
}

#[test]
fn a_session_that_recorded_nothing_is_no_success_and_names_what_records() {
    let place = tempfile::tempdir().unwrap();
    let trace = place.path().join("t");
    let session = |arguments: &[&str]| {
        let mut command = lathunt();
        command.arg("trace").args(arguments).env("LATHUNT_TRACE_DIR", place.path());
        told(&command.output().unwrap())
    };
    let (text, code) = session(&["start", "-o", trace.to_str().unwrap()]);
    assert!(code == Some(0) && text.contains("no instrumented program is running"), "{text}");
    let (text, code) = session(&["stop"]);
    assert_eq!(code, Some(1), "{text}");
    assert!(
        text.contains("no event was recorded") && text.contains("lathunt trace -o DIR -- COMMAND"),
        "{text}"
    );
    let (text, code) = explain(&[trace.to_str().unwrap()]);
    assert!(code == Some(1) && text.contains("`lathunt trace -o ") && text.contains("-- COMMAND`"), "{text}");
}

#[test]
fn a_run_file_is_a_run_and_its_flight_recording_answers() {
    let place = tempfile::tempdir().unwrap();
    let run = place.path().join("run.lathunt.json");
    let measured =
        lathunt().args(["cyclic", "-D", "100ms", "-p", "0", "-q", "-o"]).arg(&run).output().unwrap();
    assert_eq!(measured.status.code(), Some(0));
    for named in [run.as_path(), place.path()] {
        let (text, code) = explain(&[named.to_str().unwrap()]);
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("is a run, not a trace") && text.contains("lathunt report --text"), "{text}");
    }
    fs::write(place.path().join("flight.bin"), "LHFLIGHT").unwrap();
    let (text, _) = explain(&[run.to_str().unwrap()]);
    assert!(text.contains("is a run: reading its flight recording"), "{text}");
}

#[test]
fn a_name_that_no_thread_has_lists_those_that_there_are() {
    let (text, code) = explain(&[TRACE, "--wakeups", "--comm", "pty_wrker"]);
    assert!(code == Some(0) && text.contains("no thread of this trace is called 'pty_wrker'"), "{text}");
    let nearest = text.split("there are ").nth(1).unwrap();
    let (known, _) = explain(&[TRACE, "--summary"]);
    let name = nearest.split('/').next().unwrap().trim();
    assert!(known.contains(name), "{name} of:\n{known}");
    let (text, _) = explain(&[TRACE, "--wakeups", "--tid", "1"]);
    assert!(text.contains("no thread of this trace has the id 1"), "{text}");
}

#[test]
fn a_dash_is_stdin_and_a_directory_shows_what_is_in_it() {
    let by_name = explain(&[TRACE, "--wakeups"]).0;
    let mut command = lathunt();
    command.args(["explain", "-", "--wakeups"]).stdin(fs::File::open(TRACE).unwrap());
    let (piped, code) = told(&command.output().unwrap());
    assert_eq!(code, Some(0), "{piped}");
    assert_eq!(by_name.lines().nth(1), piped.lines().find(|line| line.contains("intervals")), "{piped}");
    let place = tempfile::tempdir().unwrap();
    fs::copy(TRACE, place.path().join("trace.dat")).unwrap();
    let (text, code) = explain(&[place.path().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{text}");
    let summary = explain(&[place.path().to_str().unwrap(), "--summary"]).0;
    assert!(text.starts_with(&summary) && text.contains("no query given"), "{text}");
    assert!(!Path::new("-").exists());
}

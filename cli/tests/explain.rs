//! `lathunt explain` from the outside: answers, and what it says of files that are none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("explain").args(arguments).output().unwrap()
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/data/cases").join(format!("{name}.dat"))
}

fn json(arguments: &[&str]) -> Value {
    let output = explain(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = explain(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty() && said.trim_end().lines().count() == 1, "{said}");
    said
}

fn explained(node: &Value) -> u64 {
    let gaps = node["gaps"]
        .as_array()
        .map_or(0, |gaps| gaps.iter().map(|gap| gap["duration_ns"].as_u64().unwrap()).sum());
    match node["children"].as_array() {
        Some(children) => children.iter().map(explained).sum::<u64>() + gaps,
        None => node["duration_ns"].as_u64().unwrap(),
    }
}

#[test]
fn every_explained_passage_adds_up_in_the_json() {
    let path = case("inversion");
    let path = path.to_str().unwrap();
    let answers = json(&[path, "--between", "sys:600", "sys:601", "--worst", "3", "--json"]);
    let passages = answers["passages"].as_array().unwrap();
    assert_eq!(passages.len(), 3);
    for passage in passages {
        assert_eq!(passage["total_ns"].as_u64().unwrap(), explained(&passage["tree"]));
        assert!(passage["sentence"].is_string() && passage["remedy"].is_string());
    }
    let wakeups = json(&[path, "--wakeups", "--comm", "servo*", "--json"]);
    assert!(wakeups["passages"]
        .as_array()
        .unwrap()
        .iter()
        .all(|passage| passage["thread"]["comm"] == "servoctl"));
    assert!(json(&[path, "--summary", "--json"])["wakeups"]["count"].as_u64().unwrap() > 10);
}

#[test]
fn what_is_no_trace_gets_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let question = ["--between", "sys:600", "sys:601"];
    let ask = |path: &str| refused(&[&[path], &question[..]].concat());
    assert!(ask(&file("empty", b"")).contains("is empty"));
    assert!(ask(&file("text", b"hello\n")).contains("no trace.dat"));
    assert!(ask(directory.path().join("absent").to_str().unwrap()).contains("absent"));
    assert!(ask(directory.path().to_str().unwrap()).contains("holds no trace"));
    let whole = std::fs::read(case("fsync")).unwrap();
    for cut in [1, 10, 100, 5_000] {
        assert!(ask(&file("cut", &whole[..cut])).contains("cannot read"));
    }
    let path = case("fsync");
    assert!(refused(&[path.to_str().unwrap()]).contains("what is to be explained"));
    assert!(refused(&[path.to_str().unwrap(), "--syscall", "no_such_call"]).contains("no system call"));
}

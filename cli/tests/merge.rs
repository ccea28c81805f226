//! Runs of many machines as one: what `report`, `plot` and `compare` make of it.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lathunt_core::run::Run;

fn lathunt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).current_dir(directory).args(arguments).output().unwrap()
}

#[test]
fn a_merged_run_is_taken_by_report_plot_and_compare_and_names_its_machines() {
    let place = tempfile::tempdir().unwrap();
    let mut samples = Vec::new();
    for (number, host) in ["press-7", "press-8", "press-7"].into_iter().enumerate() {
        let mut run = example::run(2, 300 + 100 * number as u64);
        run.conditions.host = Some(host.to_owned());
        run.series.iter_mut().for_each(|series| series.missed = Some(0));
        samples.push(run.series.iter().map(|series| series.histogram.count()).sum::<u64>());
        fs::write(place.path().join(format!("{number}.json")), run.to_json()).unwrap();
    }
    fs::write(place.path().join("3.json"), example::run(2, 700).to_json()).unwrap();
    let merged = lathunt(place.path(), &["merge", "0.json", "1.json", "2.json", "-o", "fleet.lathunt.json"]);
    assert!(matches!(merged.status.code(), Some(0 | 3)), "{}", String::from_utf8_lossy(&merged.stderr));
    let run = Run::from_json(&fs::read_to_string(place.path().join("fleet.lathunt.json")).unwrap()).unwrap();
    let names: Vec<&str> = run.merged.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["press-7", "press-8", "press-7 (2)"]);
    let all: u64 = run.series.iter().map(|series| series.histogram.count()).sum();
    assert_eq!(all, samples.iter().sum::<u64>());
    for arguments in [
        &["report", "fleet.lathunt.json", "-o", "fleet.html"][..],
        &["report", "fleet.lathunt.json", "--text"],
        &["plot", "fleet.lathunt.json", "-o", "fleet.svg"],
        &["compare", "fleet.lathunt.json", "0.json"],
        &["merge", "fleet.lathunt.json", "3.json", "-o", "more.json"],
    ] {
        let output = lathunt(place.path(), arguments);
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let page = fs::read_to_string(place.path().join("fleet.html")).unwrap();
    assert!(
        page.contains("press-7 (2)") && page.contains("merged from 3 runs"),
        "machines are listed in the report"
    );
    // Nothing is written over when something does not fit.
    let again = lathunt(place.path(), &["merge", "fleet.lathunt.json", "0.json", "-o", "twice.json"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&again.stderr).contains("are the same run"), "{again:?}");
    fs::write(
        place.path().join("half.json"),
        fs::read_to_string(place.path().join("0.json"))
            .unwrap()
            .replace("\"complete\":true", "\"complete\":false"),
    )
    .unwrap();
    let before = fs::read(place.path().join("fleet.lathunt.json")).unwrap();
    let input = fs::read(place.path().join("1.json")).unwrap();
    let refused = lathunt(place.path(), &["merge", "0.json", "1.json", "-o", "./1.json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("1.json is one of the runs"));
    assert_eq!(fs::read(place.path().join("1.json")).unwrap(), input);

    let refused = lathunt(place.path(), &["merge", "half.json", "1.json", "-o", "fleet.lathunt.json"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("is incomplete"));
    assert_eq!(fs::read(place.path().join("fleet.lathunt.json")).unwrap(), before);
}

//! Run files of many series, and task sets of many tasks.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use super::{imported, limited, succeeds_within};

/// A run of `number` series of that many linear classes, 40 of which are occupied.
pub fn run_of(number: usize, linear_bins: u32, directory: &Path) -> String {
    let line = "T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      10\n";
    assert_eq!(imported(line, directory).status.code(), Some(0));
    let text = fs::read_to_string(directory.join("run.json")).unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&text).unwrap();
    let series = run["series"][0].clone();
    let bins: Vec<(u32, u64)> =
        (0..40).map(|n| (2 + n * n % 8_000, 3)).collect::<BTreeMap<_, _>>().into_iter().collect();
    let count: u64 = bins.iter().map(|(_, n)| n).sum();
    let (least, most) = (bins[0].0, bins[bins.len() - 1].0);
    run["series"] = (0..number)
        .map(|cpu| {
            let mut one = series.clone();
            one["cpu"] = serde_json::json!(cpu);
            one["seconds"] = serde_json::json!([]);
            one["histogram"] = serde_json::json!({
                "width_ns": 1_000, "linear_bins": linear_bins, "count": count, "sum_ns": count * 1_000_000, "bins": bins,
                "min_ns": least * 1_000 + 7, "max_ns": most * 1_000 + 7,
            });
            one
        })
        .collect();
    run.to_string()
}

#[test]
fn a_run_of_thousands_of_series_takes_memory_for_what_it_holds() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("many.json"), run_of(3_000, 10_240, place.path())).unwrap();
    for words in [
        "report many.json",
        "report many.json --text",
        "merge many.json run.json -o merged.json",
        "plot many.json -o plot.svg",
    ] {
        succeeds_within(100_000, &words.split(' ').collect::<Vec<_>>(), place.path());
    }
    let page = fs::read_to_string(place.path().join("report.html")).unwrap();
    assert!(page.contains("CPU 2999"), "the last one is there, too");
    // Of a million classes each: refused before any of them is allocated.
    fs::write(place.path().join("wide.json"), run_of(600, 1 << 20, place.path())).unwrap();
    let script = format!("ulimit -v 500000; exec {} report wide.json", env!("CARGO_BIN_EXE_lathunt"));
    let output = Command::new("sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.code() == Some(1) && said.contains("classes; no instrument writes"),
        "{} {said}",
        output.status
    );
}

#[test]
fn many_counters_of_losses_are_merged_in_a_time_that_grows_with_their_number() {
    let place = tempfile::tempdir().unwrap();
    let mut run: serde_json::Value = serde_json::from_str(&run_of(2, 10_240, place.path())).unwrap();
    run["losses"] = (0..50_000)
        .map(|n| serde_json::json!({"counter": format!("counter {n}"), "count": 1, "meaning": "lost"}))
        .collect();
    fs::write(place.path().join("losses.json"), run.to_string()).unwrap();
    let output = limited(&["merge", "losses.json", "run.json", "-o", "merged.json"], place.path());
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_set_of_many_tasks_is_read_in_a_time_that_grows_with_their_number() {
    let place = tempfile::tempdir().unwrap();
    for name in [|n: u32| format!("t{n}"), |_| "same".to_owned()] {
        let task =
            |n| format!("\"{}\": {{\"policy\": \"SCHED_OTHER\", \"run\": 100, \"sleep\": 1000}}", name(n));
        let tasks: Vec<String> = (0..20_000).map(task).collect();
        let set = format!("{{\"tasks\": {{{}}}, \"global\": {{\"duration\": 1}}}}", tasks.join(","));
        fs::write(place.path().join("set.json"), set).unwrap();
        limited(&["tasks", "convert", "set.json"], place.path());
    }
}

#[test]
fn a_set_of_few_kilobytes_does_not_take_hours() {
    let place = tempfile::tempdir().unwrap();
    let period = "\"timer\": {\"ref\": \"unique\", \"period\": 1000000000}";
    let events: String = (0..20_000).map(|n| format!("\"cputime{n}\": 1, ")).collect();
    let locks = |task: usize| -> String {
        let lock = |n: usize| format!("\"lock{n}\": \"m{}\", \"cputime{n}\": 1, ", task + n);
        let unlock = |n: usize| format!("\"unlock{n}\": \"m{}\", ", task + n);
        (0..16).map(lock).chain((0..16).map(unlock)).collect()
    };
    let sets = [
        format!("{{\"tasks\": {{\"a\": {{{events}{period}}}}}}}"),
        format!("{{\"tasks\": {{\"a\": {{\"instance\": 100000, {}{period}}}}}}}", locks(0)),
        format!(
            "{{\"tasks\": {{{}}}}}",
            (0..150).map(|n| format!("\"t{n}\": {{{}{period}}}", locks(n))).collect::<Vec<_>>().join(", ")
        ),
    ];
    for set in sets {
        fs::write(place.path().join("set.json"), set).unwrap();
        limited(&["tasks", "convert", "set.json"], place.path());
        limited(&["tasks", "analyse", "set.json"], place.path());
    }
}

#[test]
fn a_run_of_more_values_than_any_instrument_writes_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let run = run_of(1, 100, place.path());
    let at = run.find("\"notes\":[").unwrap() + "\"notes\":[".len();
    for (name, value, count) in [("texts", "\"\",", (1 << 22) + 10), ("values", "0,", (1 << 25) + 10)] {
        let hostile = [&run[..at], &value.repeat(count), &run[at..]].concat();
        fs::write(place.path().join(name), hostile).unwrap();
        let output = limited(&["report", name, "--text"], place.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains("no instrument writes such a run"),
            "{name}: {} {said}",
            output.status
        );
    }
}

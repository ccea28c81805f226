//! What the monitor makes of a wall clock that is set and of a CPU that goes and comes.

use serde_json::Value;

use crate::boot::Outcome;

fn history() -> Option<Value> {
    let outcome = Outcome::of("monitor", "lab: monitor")?;
    Some(serde_json::from_str(&outcome.text("history.json")).unwrap())
}

#[test]
#[ignore = "lab: run by make test"]
fn clock_steps_and_cpus_that_come_and_go_are_recorded_and_no_window_spans_them() {
    let Some(json) = history() else { return };
    let of = |kind: &str| -> Vec<String> {
        let events = json["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind);
        events.map(|event| event["detail"].as_str().unwrap().to_owned()).collect()
    };
    let steps = of("clock_step");
    assert!(steps.len() == 2 && steps[0].contains("forward") && steps[1].contains("back"), "{steps:?}");
    let cpus = of("cpus_changed");
    assert!(cpus.iter().any(|detail| detail.contains("CPUs 1 went offline")), "{cpus:?}");
    assert!(cpus.iter().any(|detail| detail.contains("CPUs 1 came online")), "{cpus:?}");
    let windows = json["windows"].as_array().unwrap();
    let length = |window: &Value| window[1].as_i64().unwrap() - window[0].as_i64().unwrap();
    // The guest is slow, but no window took the hour by which the clock was set.
    assert!(
        windows.len() > 5 && windows.iter().all(|window| (0..60_000).contains(&length(window))),
        "{windows:?}"
    );
    let rows = json["rows"].as_array().unwrap();
    // The time of a maximum is in its window, except for the delay with which the slow guest closes one. That of a
    // thread may be in an earlier window: a job counts in the window in which it ends.
    let around = |begin: i64, end: i64, at: i64| (begin - 5_000..end + 5_000).contains(&at);
    for row in rows.iter().filter(|row| row["max_at"].is_i64()) {
        let [begin, end, at] = ["begin", "end", "max_at"].map(|name| row[name].as_i64().unwrap());
        let before = |window: &Value| around(window[0].as_i64().unwrap(), window[1].as_i64().unwrap(), at);
        let told = around(begin, end, at) || (row["cpu"].is_null() && windows.iter().any(before));
        assert!(told, "{} of {} at {at}: {begin} to {end}", row["quantity"], row["cpu"]);
    }
    let of_cpu_1 = |row: &&Value| row["quantity"] == "timer+wakeup" && row["cpu"] == 1;
    // The last ones, whole or not, together: what came after the CPU.
    let newest = rows.iter().rev().filter(of_cpu_1).take(3);
    let samples: u64 = newest.filter_map(|row| row["histogram"]["count"].as_u64()).sum();
    assert!(samples > 50, "CPU 1 is recorded again after it came back: {samples}");
    assert_eq!((of("window_lost").len(), of("stopped").len()), (0, 1));
}

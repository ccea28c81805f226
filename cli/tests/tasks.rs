//! `lathunt tasks`: exit codes, the document for scripts, one-line errors.

#[path = "tasks_run/call.rs"]
mod call;

use call::lathunt;

fn analysed(set: &str) -> (i32, serde_json::Value) {
    let output = lathunt(&["tasks", "analyse", "-", "--json"], set);
    (output.status.code().unwrap(), serde_json::from_slice(&output.stdout).unwrap())
}

fn task(name: &str, priority: u32, work: u32, period: u32) -> String {
    format!(
        "\"{name}\": {{\"priority\": {priority}, \"policy\": \"SCHED_FIFO\", \"loop\": -1, \"run\": {work}, \
         \"timer\": {{\"ref\": \"unique\", \"period\": {period}}}}}"
    )
}

fn set(tasks: &[String]) -> String {
    format!("{{\"tasks\": {{{}}}}}", tasks.join(", "))
}

#[test]
fn the_exit_code_of_an_analysis_is_that_of_fixed_priorities() {
    let (code, document) = analysed(&set(&[task("a", 3, 3, 7), task("b", 2, 3, 12), task("c", 1, 5, 20)]));
    assert_eq!(code, 0);
    let responses: Vec<_> =
        document["tasks"].as_array().unwrap().iter().map(|t| t["response_us"].clone()).collect();
    assert_eq!(responses, [3, 6, 20]);
    let (code, document) = analysed(&set(&[task("a", 2, 9_000, 20_000), task("b", 1, 15_000, 30_000)]));
    assert_eq!((code, document["tasks"][1]["response_us"].as_u64()), (2, Some(33_000)));
    assert_eq!(document["edf"]["schedulable"], true, "EDF meets what fixed priorities miss");
    let (code, document) = analysed(&set(&[task("a", 2, 9_000, 10_000), task("b", 1, 15_000, 30_000)]));
    assert_eq!((code, document["tasks"][1]["response_us"].is_null()), (3, true), "not bounded: overload");
    assert!(document["edf"]["fails_at_us"].as_u64().is_some());
}

#[test]
fn what_is_no_task_set_is_told_on_one_line() {
    for (input, wanted) in [
        ("", "is empty"),
        ("{", "line 1"),
        ("{\"tasks\": {\"t\": {\"runaway\": 5}}}", "\"runaway\" is no event"),
        ("{\"tasks\": {\"t\": {\"run\": 5, \"deadline\": 0, \"sleep\": 1}}}", "\"deadline\" 0"),
    ] {
        let output = lathunt(&["tasks", "analyse", "-"], input);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
        assert!(said.contains(wanted), "{said}");
    }
}

#[test]
fn generated_sets_are_analysed_and_converted_and_the_seed_decides() {
    let generate = |seed: &str| {
        lathunt(&["tasks", "generate", "--tasks", "5", "--utilisation", "0.6", "--seed", seed], "").stdout
    };
    let first = String::from_utf8(generate("1")).unwrap();
    assert_eq!(first.as_bytes(), generate("1"));
    assert_ne!(first.as_bytes(), generate("2"));
    let (_, document) = analysed(&first);
    let utilisation = document["edf"]["utilisation"].as_f64().unwrap();
    assert!((utilisation - 0.6).abs() < 0.01, "{utilisation}");
    assert_eq!(document["edf"]["schedulable"], true);
    let converted = lathunt(&["tasks", "convert", "-"], &first);
    assert_eq!(converted.status.code(), Some(0));
    assert_eq!(analysed(&String::from_utf8(converted.stdout).unwrap()).1["tasks"], document["tasks"]);
    assert_eq!(
        lathunt(&["tasks", "generate", "--tasks", "2", "--utilisation", "2.5"], "").status.code(),
        Some(1)
    );
}

//! An ordinary thread is late from the time that it asked for, slack included.

use super::truths::build;
use super::*;

/// Runs of the program at most.
const TRIES: usize = 4;

#[test]
#[ignore = "root: run by make test"]
fn the_slack_of_an_ordinary_thread_is_part_of_its_latency_and_named() {
    if !may_run("the_slack_of_an_ordinary_thread_is_part_of_its_latency", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = build(place.path(), "slack");
    // A host that takes the CPU between the wake-up and the program's look at the clock is in its figures alone.
    let apart: Vec<_> = (0..TRIES)
        .map(|_| recorded(&program, place.path()))
        .take_while(|(told, max)| !is_near(*told, *max))
        .collect();
    assert!(apart.len() < TRIES, "recorded, and by the program: {apart:?}");
}

/// What the program sees after its wake-up is on top.
fn is_near(told: Ns, max: Ns) -> bool {
    max.0.abs_diff(told.0) * 20 <= max.0 + 20_000_000
}

/// The largest latency as recorded, and as the program saw it.
fn recorded(program: &Path, place: &Path) -> (Ns, Ns) {
    let output = place.join("run");
    let ended = command(&["record", "-o", output.to_str().unwrap(), "--"]).arg(program).output().unwrap();
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let truth = |key: &str, nth: usize| -> u64 {
        let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_else(|| panic!("{text}"));
        line.split_whitespace().nth(nth).unwrap().parse().unwrap()
    };
    let run = read(&output);
    let task = run.tasks.iter().find(|task| task.thread.comm == "slack").unwrap();
    let told = &task.of(Quantity::TimerWakeup).unwrap().histogram;
    let (max, least) = (truth("TRUTH ", 2), truth("LEAST ", 0));
    assert!(told.min().unwrap() <= Ns(least), "{} of at least {least} ns", told.min().unwrap());
    assert_eq!(told.count() + task.not_recorded, 60, "{text}");
    let slack = task.slack_max_ns.unwrap();
    assert!(slack > Ns::from_ms(1) && slack <= Ns::from_ms(8), "{slack}: {text}");
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("of timer slack in its latencies"), "{text}");
    (told.max().unwrap(), Ns(max))
}

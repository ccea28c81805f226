//! An ordinary thread is late from the time that it asked for, slack included.

use super::truths::build;
use super::*;

#[test]
#[ignore = "root: run by make test"]
fn the_slack_of_an_ordinary_thread_is_part_of_its_latency_and_named() {
    if !may_run("the_slack_of_an_ordinary_thread_is_part_of_its_latency", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (build(place.path(), "slack"), place.path().join("run"));
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
    // What the program sees after its wake-up is on top.
    let off = Ns(max).0.abs_diff(told.max().unwrap().0);
    assert!(off * 20 <= max + 20_000_000, "{} of {max} ns: {text}", told.max().unwrap());
    assert!(told.min().unwrap() <= Ns(least), "{} of at least {least} ns", told.min().unwrap());
    assert_eq!(told.count() + task.not_recorded, 60, "{text}");
    let slack = task.slack_max_ns.unwrap();
    assert!(slack > Ns::from_ms(1) && slack <= Ns::from_ms(8), "{slack}: {text}");
    let unwrapped = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(unwrapped.contains("of timer slack in its latencies"), "{text}");
}

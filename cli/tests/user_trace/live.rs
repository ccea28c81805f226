//! A session while it lives: events are switched on and off from outside, and a flight recorder is looked into, and what
//! is then in the traces is exactly what was wanted at the time.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::lab::{babeltrace, Lab};
use crate::stream;
use lathunt_host::tree::Tree;

/// Events that thread 0 of an emitter has begun and finished.
fn counter(path: &Path) -> (u64, u64) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let word = |at: usize| bytes.get(at..at + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
    (word(0), word(8))
}

/// Waits until thread 0 has come `more` events farther; where it is then.
fn advance(path: &Path, more: u64) -> u64 {
    let (patience, from) = (Instant::now() + Duration::from_secs(20), counter(path).1);
    while counter(path).1 < from + more {
        assert!(Instant::now() < patience, "the emitter stands still at {:?}", counter(path));
        std::thread::sleep(Duration::from_millis(1));
    }
    counter(path).1
}

/// Time for the consumer to look at the session again, and to set the bytes.
fn seen() {
    std::thread::sleep(Duration::from_millis(400));
}

/// Its nice value alone would not do: with CONFIG_SCHED_AUTOGROUP only the group's counts against other sessions.
#[test]
#[ignore = "root: run by make test"]
fn the_consumer_comes_before_ordinary_programs_of_other_sessions() {
    const TEST: &str = "the_consumer_comes_before_ordinary_programs_of_other_sessions";
    let tree = Tree::new(Path::new("/"));
    let autogroup = |pid: &str| tree.text(&format!("proc/{pid}/autogroup"));
    if !lathunt_host::testing::may_run(TEST, lathunt_host::testing::lacks_root()) {
        return;
    }
    let lab = Lab::new();
    let said = lab.trace_ok(&["start", "-o", lab.path("out").to_str().unwrap()]);
    let pid = said.split("consumer ").nth(1).unwrap().split(')').next().unwrap();
    let (theirs, ours) = (autogroup(pid), autogroup("self"));
    let stat = tree.text(&format!("proc/{pid}/stat")).unwrap();
    lab.trace(&["stop"]);
    let nice: i32 =
        stat.rsplit(')').next().unwrap().split_ascii_whitespace().nth(16).unwrap().parse().unwrap();
    assert_eq!(nice, -15);
    assert_eq!(theirs.is_some(), ours.is_some());
    if let (Some(theirs), Some(ours)) = (theirs, ours) {
        assert!(theirs.ends_with(" nice -15"), "{theirs}");
        assert_ne!(theirs.split(' ').next(), ours.split(' ').next(), "only its own group is changed");
    }
}

#[test]
fn events_are_switched_on_and_off_while_the_program_runs() {
    let lab = Lab::new();
    let (program, file, out) = (lab.program("emitter"), lab.path("counters"), lab.path("out"));
    lab.trace_ok(&["start", "-o", out.to_str().unwrap(), "-e", "other:*"]);
    let mut child = lab.spawn(&program, &[file.to_str().unwrap(), "1", "0", "10"]);
    // It waits some seconds for its event to be enabled.
    let patience = Instant::now() + Duration::from_secs(20);
    while !lab.trace_ok(&["status"]).contains("emitter") {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(10));
    }
    lab.trace_ok(&["enable", "test:*"]);
    let (patience, on) = (Instant::now() + Duration::from_secs(20), 200);
    while counter(&file).1 < on {
        assert!(Instant::now() < patience);
        std::thread::sleep(Duration::from_millis(1));
    }
    seen();
    lab.trace_ok(&["disable", "test:count"]);
    seen();
    let off_from = advance(&file, 100);
    let off_until = advance(&file, 500);
    lab.trace_ok(&["enable", "test:count"]);
    seen();
    advance(&file, 200);
    let before_death = counter(&file).1;
    child.kill().unwrap();
    child.wait().unwrap();
    seen();
    lab.trace(&["stop"]);
    let content = stream::read(&lab.traces("out")[0]);
    let numbers = &content.numbers[&0];
    assert_eq!(content.discarded, 0, "the test needs no luck: {} events", numbers.len());
    let holes: Vec<_> = numbers.windows(2).filter(|pair| pair[1] != pair[0] + 1).collect();
    assert_eq!(holes.len(), 1, "one stretch was off: {holes:?}");
    assert!(
        holes[0][0] < off_from && holes[0][1] > off_until,
        "{holes:?}, off from {off_from} to {off_until}"
    );
    assert!(numbers[0] <= on && numbers.last().unwrap() + 1 >= before_death, "{:?}", numbers.last());
    babeltrace(&out);
}

#[test]
fn a_snapshot_of_a_flight_recorder_holds_the_newest_events_without_a_hole() {
    let lab = Lab::new();
    let (program, file, out) = (lab.program("emitter"), lab.path("counters"), lab.path("out"));
    lab.trace_ok(&["start", "-o", out.to_str().unwrap(), "--flight", "--ring", "64K"]);
    let mut child = lab.spawn(&program, &[file.to_str().unwrap(), "1", "0", "5"]);
    advance(&file, 5_000); // several times what the ring holds
    let mut snapshots: Vec<(PathBuf, u64, u64)> = Vec::new();
    for _ in 0..2 {
        let before = advance(&file, 2_000);
        let said = lab.trace_ok(&["snapshot"]);
        let dir = PathBuf::from(said.split(": ").next().unwrap());
        snapshots.push((dir, before, counter(&file).0));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let last = counter(&file).1;
    seen();
    lab.trace(&["stop"]);
    for (dir, before, after) in &snapshots {
        let program = std::fs::read_dir(dir).unwrap().flatten().next().unwrap().path();
        let numbers = &stream::read(&program).numbers[&0];
        assert!(numbers.windows(2).all(|pair| pair[1] == pair[0] + 1), "a hole: {numbers:?}");
        assert!(
            (before - 1..*after).contains(numbers.last().unwrap()),
            "{before} {after} {:?}",
            numbers.last()
        );
        // 64 KiB of records of at most 48 bytes, less the packet that is just being overwritten.
        assert!(numbers.len() > 1_000, "{} events", numbers.len());
        babeltrace(dir);
    }
    let written: Vec<_> =
        lab.traces("out").into_iter().filter(|dir| !dir.to_string_lossy().contains("snapshot")).collect();
    assert_eq!(written.len(), 1, "at its death the newest are written: {written:?}");
    let numbers = &stream::read(&written[0]).numbers[&0];
    assert!(numbers.last().unwrap() + 1 >= last, "{last} {:?}", numbers.last());
}

#[test]
fn killed_in_the_foreground_its_consumer_writes_everything_and_leaves_no_session() {
    let lab = Lab::new();
    let (program, file, out) = (lab.program("emitter"), lab.path("counters"), lab.path("out"));
    let mut recorder = lab
        .command(env!("CARGO_BIN_EXE_lathunt"))
        .args(["trace", "--user", "-o", out.to_str().unwrap()])
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap();
    let mut child = lab.spawn(&program, &[file.to_str().unwrap(), "1", "0", "5"]);
    advance(&file, 1_000);
    let autogroup = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/autogroup"));
    let consumer = lab.trace_ok(&["status"]);
    let consumer = consumer.split("(consumer ").nth(1).and_then(|rest| rest.split(')').next());
    let consumer: u32 = consumer.unwrap().parse().unwrap();
    if let (Ok(own), Ok(ours)) = (autogroup(consumer), autogroup(recorder.id())) {
        assert_ne!(own, ours, "a group of its own, or it stands behind the load");
    }
    recorder.kill().unwrap();
    recorder.wait().unwrap();
    let patience = Instant::now() + Duration::from_secs(20);
    while !lab.trace_ok(&["status"]).contains("no session") {
        assert!(Instant::now() < patience, "{}", lab.trace_ok(&["status"]));
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let content = stream::read(&lab.traces("out")[0]);
    assert!(content.numbers[&0].len() >= 1_000, "{}", content.numbers[&0].len());
}

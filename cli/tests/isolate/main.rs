//! `lathunt isolate` on this machine: everything comes back, whatever happens in between.
//!
//! All tests that change something take one lock, and hold the isolation for fractions of a second.

mod kill;
mod snapshot;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lathunt_host::testing::{lacks_root, may_run};
use snapshot::{Sleepers, Snapshot};

/// One at a time: there is one machine.
fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn may_change(test: &str) -> bool {
    let cpus = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    let reason = lacks_root().or((cpus.trim() == "0").then_some("has one CPU only"));
    may_run(test, reason)
}

/// A journal in memory, away from that of the machine.
fn journal() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn command(journal: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let behind = arguments.iter().position(|one| *one == "--").unwrap_or(arguments.len());
    command.arg("isolate").args(&arguments[..behind]);
    command.arg("--journal").arg(journal).args(&arguments[behind..]);
    command
}

fn isolate(journal: &Path, arguments: &[&str]) -> Output {
    command(journal, arguments).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    let all = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    let (all, journal) = (all.trim(), journal());
    for (arguments, says) in [
        (vec!["plan", "-c", all], "no housekeeping CPU would be left"),
        (vec!["plan", "-c", "8000"], "cannot isolate CPU 8000; online are"),
        (vec!["plan", "-c", "0", "--housekeeping", "0"], "cannot use CPU 0 for housekeeping"),
        (
            vec!["plan", "-c", "0", "--housekeeping", "8000"],
            "cannot use CPU 8000 for housekeeping; online are",
        ),
        (vec!["plan", "-c", ""], "no CPU to isolate"),
        (vec!["plan", "-c", "one"], "not a CPU list"),
        (vec!["apply"], "--cpus"),
        (vec!["run"], "select CPUs to isolate with -c"),
        (vec!["plan", "-c", "0", "--by", "magic"], "magic"),
        (vec!["plan", "-c", "0", "--idle-latency", "fast"], "fast"),
        (vec!["plan", "-c", "0", "--keep", "no-such-program"], "cannot keep no-such-program where it is"),
        (vec!["apply", "-c", "0", "--keep", "no-such-program"], "cannot keep no-such-program where it is"),
        (vec!["run", "-c", "0", "--keep", "999999999", "--", "true"], "cannot keep 999999999 where it is"),
    ] {
        let output = isolate(journal.path(), &arguments);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains(says) && told.lines().count() == 1, "{arguments:?}: {told}");
    }
    let status = isolate(journal.path(), &["status"]);
    assert_eq!(stdout(&status), "No CPU is isolated by lathunt.\n");
    let restored = isolate(journal.path(), &["restore"]);
    assert_eq!((restored.status.code(), stdout(&restored).as_str()), (Some(0), "Nothing to restore.\n"));
}

#[test]
#[ignore = "root: run by make test"]
fn applied_and_restored_the_machine_reads_as_before() {
    if !may_change("isolate: apply and restore") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    for by in ["auto", "affinity"] {
        let mut arguments = vec!["apply", "-c", "1", "--json"];
        if by != "auto" {
            arguments.extend(["--by", by]);
        }
        let applied = isolate(journal.path(), &arguments);
        let during = Snapshot::take();
        let status = stdout(&isolate(journal.path(), &["status"]));
        let again = isolate(journal.path(), &["apply", "-c", "1"]);
        let inside =
            isolate(journal.path(), &["run", "-q", "--", "grep", "Cpus_allowed_list", "/proc/self/status"]);
        let restored = isolate(journal.path(), &["restore"]);
        assert!(applied.status.success(), "{by}: {}", stderr(&applied));
        assert!(status.starts_with("CPU 1 is isolated since "), "{by}: {status}");
        assert!(stderr(&again).contains("CPU 1 is isolated already"), "{by}: {}", stderr(&again));
        assert_eq!(stdout(&inside).trim(), "Cpus_allowed_list:\t1", "{by}: {}", stderr(&inside));
        assert!(restored.status.success(), "{by}: {}", stdout(&restored));
        assert!(during.is_free_of(1, &sleepers), "{by}: something stayed: {during:#?}");
        let differences = before.differences(&Snapshot::take(), &sleepers, true);
        assert!(differences.is_empty(), "{by}: {differences:#?}\n{}", stdout(&restored));
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_command_runs_isolated_newcomers_are_moved_and_everything_comes_back_at_its_end() {
    if !may_change("isolate: run") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    // By affinity alone nothing but the re-scan keeps a newcomer away.
    let started =
        command(journal.path(), &["run", "-c", "1", "--by", "affinity", "--", "sh", "-c", "sleep 2; exit 7"])
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
    await_journal(journal.path(), 20);
    let mut newcomer = Command::new("taskset").args(["-c", "1", "sleep", "20"]).spawn().unwrap();
    let status = format!("/proc/{}/status", newcomer.id());
    let deadline = Instant::now() + Duration::from_secs(8);
    let moved = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        text.contains("Cpus_allowed_list:\t0\n") && text.contains("sleep")
    };
    let mut was_moved = false;
    while !was_moved && Instant::now() < deadline {
        was_moved = moved();
        std::thread::sleep(Duration::from_millis(10));
    }
    let ended = started.wait_with_output().unwrap();
    let back = std::fs::read_to_string(&status).unwrap();
    newcomer.kill().unwrap();
    newcomer.wait().unwrap();
    assert_eq!(ended.status.code(), Some(7), "{}", stderr(&ended));
    assert!(was_moved, "the newcomer stayed: {}", stderr(&ended));
    assert!(back.contains("Cpus_allowed_list:\t1\n"), "the newcomer got its CPU back: {back}");
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}\n{}", stderr(&ended));
}

#[test]
#[ignore = "root: run by make test"]
fn a_signal_ends_the_command_and_restores() {
    if !may_change("isolate: signal") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    for behind in [vec!["--", "sleep", "30"], vec![]] {
        let mut arguments = vec!["run", "-c", "1"];
        arguments.extend(&behind);
        let started = command(journal.path(), &arguments).stderr(Stdio::piped()).spawn().unwrap();
        await_journal(journal.path(), 60);
        await_rest(journal.path());
        let second = isolate(journal.path(), &["apply", "-c", "1"]);
        assert!(stderr(&second).contains(&format!("pid {}", started.id())), "{}", stderr(&second));
        // SAFETY: our own child.
        unsafe { libc::kill(started.id().cast_signed(), libc::SIGTERM) };
        let ended = started.wait_with_output().unwrap();
        let expected = if behind.is_empty() { 0 } else { 128 + libc::SIGTERM };
        assert_eq!(ended.status.code(), Some(expected), "{}", stderr(&ended));
        let differences = before.differences(&Snapshot::take(), &sleepers, false);
        assert!(differences.is_empty(), "{differences:#?}\n{}", stderr(&ended));
    }
}

#[test]
#[ignore = "root: run by make test"]
fn what_somebody_else_changed_since_is_reported_and_left_alone() {
    if !may_change("isolate: conflict") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let mask = "/proc/irq/default_smp_affinity";
    let before = std::fs::read_to_string(mask).unwrap();
    let applied = isolate(journal.path(), &["apply", "-c", "1", "--by", "affinity"]);
    let theirs = std::fs::write(mask, "2");
    sleepers.pin_first(1);
    let status = stdout(&isolate(journal.path(), &["status"]));
    let restored = isolate(journal.path(), &["restore"]);
    let left = std::fs::read_to_string(mask).unwrap();
    std::fs::write(mask, before.trim()).unwrap();
    assert!(applied.status.success() && theirs.is_ok(), "{}", stderr(&applied));
    assert_eq!(left.trim().trim_start_matches('0'), "2", "{}", stdout(&restored));
    assert!(stdout(&restored).contains("default_smp_affinity: left alone at '2'"), "{}", stdout(&restored));
    assert!(status.contains("changed by somebody else: /proc/irq/default_smp_affinity"), "{status}");
    assert_eq!(restored.status.code(), Some(0), "nothing failed");
    assert_eq!(sleepers.cpus_of_first(), "1", "theirs, too");
}

#[test]
#[ignore = "root: run by make test"]
fn of_two_at_once_one_is_refused_and_nothing_is_half_done() {
    if !may_change("isolate: two at once") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let both: Vec<_> = (0..2)
        .map(|_| {
            let mut one = command(journal.path(), &["apply", "-c", "1"]);
            one.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let both: Vec<Output> = both.into_iter().map(|one| one.wait_with_output().unwrap()).collect();
    let restored = isolate(journal.path(), &["restore"]);
    let refused: Vec<String> = both.iter().filter(|one| !one.status.success()).map(stderr).collect();
    assert_eq!(refused.len(), 1, "{both:?}");
    assert!(refused[0].contains("another lathunt") || refused[0].contains("isolated already"), "{refused:?}");
    assert!(restored.status.success(), "{}", stdout(&restored));
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_read_only_proc_irq_is_a_clear_error_and_changes_nothing() {
    if !may_change("isolate: read-only /proc/irq") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let binary = env!("CARGO_BIN_EXE_lathunt");
    for place in ["/proc/irq", "/sys/devices/virtual/workqueue"] {
        let script = format!(
            "mount --bind {place} {place} && mount -o remount,ro,bind {place} && exec {binary} isolate apply -c 1 --journal {}",
            journal.path().display()
        );
        let output = Command::new("unshare").args(["-m", "sh", "-c", &script]).output().unwrap();
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(place) && told.contains("read-only") && told.lines().count() == 1, "{told}");
        let differences = before.differences(&Snapshot::take(), &sleepers, false);
        assert!(differences.is_empty(), "{differences:#?}");
        assert_eq!(stdout(&isolate(journal.path(), &["restore"])), "Nothing to restore.\n");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn verify_counts_what_comes_under_load_and_no_movable_interrupt_does() {
    if !may_change("isolate: verify") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let output =
        isolate(journal.path(), &["verify", "-c", "1", "-D", "2s", "--load", "builtin", "--json", "-q"]);
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}");
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    assert_eq!(report["movable_interrupts"], 0, "{report:#}");
    let expected = match report["verdict"].as_str() {
        Some("isolated") => 0,
        Some("not_isolated") => 2,
        verdict => panic!("{verdict:?}: {report:#}"),
    };
    assert_eq!(report["holds"], expected == 0, "{report:#}");
    assert_eq!(output.status.code(), Some(expected), "{}", stderr(&output));
    let watched = &report["watched"];
    let tick = watched["came"].as_array().unwrap().iter().find(|line| line["class"] == "local_timer");
    assert!(tick.unwrap()["counts"]["0"].as_u64().unwrap() > 50, "the loaded CPU has a tick: {watched:#}");
    assert!(watched["gaps"].is_array(), "the loop ran there: {watched:#}");
    for moment in ["before", "after"] {
        assert!(watched[moment]["samples"].as_u64().unwrap() > 100, "{moment}: {watched:#}");
    }
    let causes: Vec<&str> =
        report["findings"].as_array().unwrap().iter().filter_map(|one| one["cause"].as_str()).collect();
    assert!(causes.contains(&"local timer") && causes.contains(&"rescheduling"), "{causes:?}");
}

/// Short visits of a program of higher priority than the loop, between two looks at the threads.
#[test]
#[ignore = "root: run by make test"]
fn a_program_that_visits_an_isolated_cpu_is_seen_in_the_gaps() {
    if !may_change("isolate: verify, visited") {
        return;
    }
    let (_machine, journal) = (machine(), journal());
    let visits = "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 0.37; \
                  chrt -f 99 taskset -c 1 sh -c 'i=0; while [ $i -lt 4000 ]; do i=$((i+1)); done'; done";
    let mut visitor = Command::new("sh").args(["-c", visits]).spawn().unwrap();
    let arguments = ["verify", "-c", "1", "--by", "affinity", "-D", "3s", "--load", "none", "--json", "-q"];
    let output = isolate(journal.path(), &arguments);
    visitor.kill().unwrap();
    visitor.wait().unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", stderr(&output)));
    assert_eq!((&report["verdict"], output.status.code()), (&"not_isolated".into(), Some(2)), "{report:#}");
    let foreign = report["watched"]["foreign"].to_string();
    assert!(foreign.contains("it ran there"), "{foreign}");
}

#[test]
#[ignore = "root: run by make test"]
fn verify_that_is_asked_to_end_gives_no_verdict_that_it_has_not_watched() {
    if !may_change("isolate: verify cut short") {
        return;
    }
    let (_machine, journal, sleepers) = (machine(), journal(), Sleepers::start());
    let before = Snapshot::take();
    let mut verify = command(journal.path(), &["verify", "-c", "1", "-D", "10s", "--load", "none", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(verify.stderr.take().unwrap()).lines().map_while(Result::ok);
    let watching = told.take_while(|line| line != "watching …").count();
    std::thread::sleep(Duration::from_millis(700));
    // SAFETY: our own child, which has not been waited for.
    unsafe { libc::kill(verify.id().cast_signed(), libc::SIGINT) };
    let output = verify.wait_with_output().unwrap();
    let differences = before.differences(&Snapshot::take(), &sleepers, false);
    assert!(differences.is_empty(), "{differences:#?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(watching > 0 && report["watched"]["cut_short"] == true, "{report:#}");
    let code = if report["verdict"] == "not_isolated" { 2 } else { 3 };
    assert_eq!(output.status.code(), Some(code), "{report:#}");
    assert_eq!(report["holds"], false, "{report:#}");
}

/// Waits until nothing is added to the journal any more: all is changed.
fn await_rest(directory: &Path) {
    let length = || std::fs::metadata(directory.join("knobs.journal")).map_or(0, |file| file.len());
    let (mut last, mut since) = (length(), Instant::now());
    while since.elapsed() < Duration::from_millis(300) {
        std::thread::sleep(Duration::from_millis(10));
        if length() != last {
            (last, since) = (length(), Instant::now());
        }
    }
}

/// Waits until the journal has that many lines.
fn await_journal(directory: &Path, lines: usize) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let now = || std::fs::read_to_string(directory.join("knobs.journal")).unwrap_or_default().lines().count();
    while now() < lines {
        assert!(Instant::now() < deadline, "the journal has only {} lines", now());
        std::thread::sleep(Duration::from_millis(1));
    }
}

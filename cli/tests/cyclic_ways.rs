//! `lathunt cyclic` with a warm-up, a common start, a reservation: what the run says of them.

use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use lathunt_core::run::Run;
use lathunt_core::time::{Ns, Prio};
use lathunt_host::sched::{self, Policy};
use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

fn cyclic(arguments: &[&str]) -> (Output, Option<Run>) {
    let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["cyclic", "--no-mlock", "--json"])
        .args(arguments)
        .output()
        .unwrap();
    let run = Run::from_json(&String::from_utf8_lossy(&output.stdout)).ok();
    (output, run)
}

#[test]
fn a_warm_up_is_kept_apart_and_a_late_sample_in_it_is_named_in_the_verdict() {
    let (output, run) = cyclic(&["-p0", "-l500", "--warm-up=1s", "--deadline=1us"]);
    let run = run.unwrap_or_else(|| panic!("{output:?}"));
    let warm_up = run.warm_up.as_ref().unwrap();
    assert_eq!((warm_up.length_ns, warm_up.series.len()), (Ns(1_000_000_000), run.series.len()));
    for (measured, before) in run.series.iter().zip(&warm_up.series) {
        assert_eq!(measured.histogram.count(), 500, "loops count from the end of the warm-up");
        // A second has a thousand activations; those that were missed have no sample.
        let activations = before.histogram.count() + before.missed.unwrap();
        assert!((800..=1_001).contains(&activations), "{activations}");
        assert!(before.begin < measured.begin && before.thread == measured.thread);
    }
    let reasons = &run.verdict.unwrap().reasons;
    let said = reasons.iter().find(|reason| reason.starts_with("not judged: the warm-up")).unwrap();
    assert!(said.contains("ABOVE the deadline of 1.0 µs"), "{said}");
}

#[test]
fn two_measurements_begin_at_the_moment_that_both_were_told() {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() + 2;
    let moment = format!("@{at}");
    let measured = || {
        let moment = moment.clone();
        std::thread::spawn(move || cyclic(&["-p0", "-l50", "-c0", "--start-at", &moment]).1.unwrap())
    };
    let runs = [measured(), measured()].map(|run| run.join().unwrap());
    let starts = runs.each_ref().map(|run| run.conditions.common_start.clone().unwrap());
    assert!(starts.iter().all(|start| start.at_ns == at * 1_000_000_000 && start.clock == "realtime"));
    // The same clocks were read by both; a slewed one moves by some 100 µs a second.
    assert!(starts[0].begin.0.abs_diff(starts[1].begin.0) < 1_000_000, "{starts:?}");
    for (run, start) in runs.iter().zip(&starts) {
        let begin = run.series[0].begin.unwrap();
        assert!(begin.0.abs_diff(start.begin.0) < 1_000_000, "{begin:?} {start:?}");
        // Peaks are on the grid: whole intervals after the start.
        let beyond = (run.peaks[0].begin.0 - start.begin.0) % 1_000_000;
        assert!(!(2_000..=998_000).contains(&beyond), "{beyond} ns off the grid");
    }
}

#[test]
#[ignore = "root"]
fn a_reservation_is_admitted_and_the_thread_is_a_deadline_thread() {
    if !may_run("a reservation", lacks_root()) {
        return;
    }
    let (output, run) = cyclic(&["-l200", "--deadline-policy=200us:1ms"]);
    let run = run.unwrap_or_else(|| panic!("{output:?}"));
    let threads: Vec<_> = run.series.iter().map(|series| series.thread.clone().unwrap().prio).collect();
    assert_eq!((threads, run.series[0].cpu), (vec![Some(Prio(-1))], None));
    assert_eq!(run.series[0].histogram.count(), 200);
}

#[test]
#[ignore = "root"]
fn nothing_is_claimed_of_a_reservation_that_somebody_took_away() {
    if !may_run("nothing_is_claimed_of_a_reservation_that_somebody_took_away", lacks_root()) {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args([
        "cyclic",
        "--no-mlock",
        "-l800",
        "--deadline-policy=200us:1ms",
        "--deadline=10s",
        "--json",
    ]);
    let running = command.stdout(Stdio::piped()).spawn().unwrap();
    // SAFETY: no pointers.
    let policy = |tid| unsafe { libc::sched_getscheduler(tid) };
    let begun = Instant::now();
    let reserved = loop {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", running.id())).into_iter().flatten().flatten();
        let mut tids = tasks.filter_map(|task| task.file_name().to_string_lossy().parse().ok());
        if let Some(tid) = tids.find(|&tid| policy(tid) == 6) {
            break tid; // SCHED_DEADLINE
        }
        assert!(begun.elapsed().as_secs() < 20, "no thread with a reservation");
        std::thread::sleep(Duration::from_millis(10));
    };
    let ordinary = libc::sched_param { sched_priority: 0 };
    // SAFETY: a thread of our own child; the parameters outlive the call.
    assert_eq!(unsafe { libc::sched_setscheduler(reserved, libc::SCHED_OTHER, &ordinary) }, 0);
    let output = running.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let run = Run::from_json(&String::from_utf8_lossy(&output.stdout)).unwrap();
    let reasons = run.verdict.unwrap().reasons;
    let named = |reason: &String| reason.contains("SCHED_OTHER 0 instead of SCHED_DEADLINE");
    assert!(reasons.iter().any(named), "{reasons:?}");
}

/// Until a thread of this process is real-time: the recorder is loaded before, which takes seconds on a slow machine.
fn wait_until_it_measures(process: u32) {
    let begun = Instant::now();
    let is_fifo = |task: std::fs::DirEntry| {
        let tid = task.file_name().to_string_lossy().parse().unwrap_or(0);
        // SAFETY: no pointers.
        tid > 0 && unsafe { libc::sched_getscheduler(tid) } == libc::SCHED_FIFO
    };
    let tasks = || std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    while !tasks().any(is_fifo) {
        assert!(begun.elapsed() < Duration::from_secs(30), "no real-time thread");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// As after exec: the name at switch-in is out of date at switch-out.
#[test]
#[ignore = "root"]
fn who_takes_another_name_while_it_has_the_cpu_is_blamed_by_that() {
    if !may_run("who_takes_another_name_while_it_has_the_cpu_is_blamed_by_that", lacks_bpf().or(lacks_root()))
    {
        return;
    }
    let cpu = sched::affinity().unwrap().iter().next_back().unwrap();
    let hog = move |goes: std::sync::mpsc::Receiver<()>| {
        // SAFETY: strings that end with a zero.
        let name = |name: &std::ffi::CStr| unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
        name(c"test-before");
        sched::pin(cpu).unwrap();
        sched::set_policy(Policy::Fifo, 99).unwrap();
        let _ = goes.recv();
        name(c"test-after");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(40) {}
    };
    let mut said = String::new();
    // The host may take the CPU before the hog does: then once more.
    let named = (0..3).any(|_| {
        let (go, goes) = std::sync::mpsc::channel();
        let running = std::thread::spawn(move || hog(goes));
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.args(["cyclic", "-c", &cpu.to_string(), "-D", "20s", "-b", "20ms", "-q"]);
        let measuring = command.stdout(Stdio::piped()).spawn().unwrap();
        wait_until_it_measures(measuring.id());
        std::thread::sleep(Duration::from_millis(300));
        go.send(()).unwrap();
        running.join().unwrap();
        said = String::from_utf8(measuring.wait_with_output().unwrap().stdout).unwrap();
        // A timer may expire in the µs before it has its new name.
        let in_these =
            |line: &str| ["timer late while", "interrupts off in"].iter().any(|part| line.contains(part));
        let is_blamed = |line: &str| line.contains("test-before") && !in_these(line);
        assert!(!said.lines().any(is_blamed), "{said}");
        said.contains("test-after/")
    });
    assert!(named, "{said}");
}

#[test]
fn what_makes_no_sense_is_refused_in_one_line() {
    for (arguments, named) in [
        (&["--start-at", "@5"][..], "has passed"),
        (&["--start-at", "noon"], "not a moment"),
        (&["--start-at", "@4000000000"], "7 days"),
        (&["--deadline-policy", "2ms:1ms"], "longer than the period"),
        (&["--deadline-policy", "1ms:10ms"], "--interval 10.000 ms"),
        (&["--deadline-policy", "1ms:1ms", "-c", "0"], "cannot be used with"),
        (&["--warm-up", "0"], "above 0"),
    ] {
        let (output, run) = cyclic(arguments);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), run), (Some(1), None), "{said}");
        assert!(said.trim_end().lines().count() == 1 && said.contains(named), "{said}");
    }
}

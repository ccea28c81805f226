//! `lathunt record` on this machine: what is injected or built in is found, sized, named, and kept.

#[path = "record/asleep.rs"]
mod asleep;
#[path = "record/assumed.rs"]
mod assumed;
#[path = "record/backlog.rs"]
mod backlog;
#[path = "record/brief.rs"]
mod brief;
#[path = "record/changes.rs"]
mod changes;
#[path = "record/composed.rs"]
mod composed;
#[path = "record/ends.rs"]
mod ends;
#[path = "record/execs.rs"]
mod execs;
#[path = "record/hidden.rs"]
mod hidden;
#[path = "record/injected.rs"]
mod injected;
#[path = "record/old_files.rs"]
mod old_files;
#[path = "record/potential.rs"]
mod potential;
#[path = "record/ranks.rs"]
mod ranks;
#[path = "record/slack.rs"]
mod slack;
#[path = "record/sources.rs"]
mod sources;
#[path = "record/truths.rs"]
mod truths;
#[path = "record/variables.rs"]
mod variables;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::thread::sleep;
use std::time::{Duration, Instant};

use lathunt_core::application::{Class, OTHERS};
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_host::testing::{lacks_bpf, may_run};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(arguments);
    command
}

fn lathunt(arguments: &[&str]) -> Output {
    command(arguments).output().unwrap()
}

fn read(directory: &Path) -> Run {
    Run::from_json(&fs::read_to_string(directory.join("run.lathunt.json")).unwrap()).unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn impossible_requests_are_one_clear_line_and_nothing_is_written() {
    let place = tempfile::tempdir().unwrap();
    for (arguments, expected) in [
        (&["record", "--tasks", "fifo"][..], "name rt, all"),
        (&["record", "--tasks", "pid:0"], "not a list of process ids"),
        (&["record", "--worst", "0"], "0 is not in 1..=64"),
        (&["record", "--threshold", "0"], "must be above 0"),
        (&["record", "-D", "abc"], "abc"),
        (&["record", "--live", "--json", "-D", "1s"], "--json"),
        (&["record", "--activation", "mark:begin", "--", "true"], "lathunt explain --between mark:begin"),
        (&["record", "--potential", "everything"], "everything"),
        (&["record", "--latency-hist", "/dev/null", "-D", "1s"], "/dev/null"),
    ] {
        let output = command(arguments).current_dir(&place).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}");
        assert!(said(&output).contains(expected), "{arguments:?}: {}", said(&output));
    }
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0);
}

#[test]
#[ignore = "root: run by make test"]
fn where_nobody_is_recorded_the_tasks_there_are_are_named_and_no_directory_stays() {
    if !may_run("where_nobody_is_recorded_the_tasks_there_are_are_named", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let ended = command(&["record", "--tasks", "comm:no-such-name", "-D", "1500ms", "--deadline", "1ms"])
        .current_dir(&place)
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(3), "{}", said(&ended));
    let text = String::from_utf8(ended.stdout.clone()).unwrap();
    assert!(text.contains("none of these tasks woke up") && !text.contains("report.html"), "{text}");
    let told = said(&ended);
    assert!(told.contains("no sample was taken") && told.contains("--tasks pid:"), "{told}");
    // This test itself is a task that runs.
    assert_eq!(fs::read_dir(&place).unwrap().count(), 0, "{told}");
    let kept = place.path().join("kept");
    fs::create_dir(&kept).unwrap();
    lathunt(&["record", "--tasks", "comm:no-such-name", "-D", "200ms", "-o", kept.to_str().unwrap()]);
    assert!(kept.exists(), "a directory of the user stays");
    // It may not be said that the recording waits for tasks if it does not begin.
    let refused = lathunt(&["record", "-D", "200ms", "-o", "/proc/x"]);
    assert_eq!((refused.status.code(), said(&refused).lines().count()), (Some(1), 1), "{}", said(&refused));
}

#[test]
#[ignore = "root: run by make test"]
fn the_penalty_of_recording_is_measured_on_this_machine_and_kept_in_the_run() {
    if !may_run("the_penalty_of_recording_is_measured_on_this_machine", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let output = place.path().join("run");
    let ended = lathunt(&["record", "--penalty", "-c", "0", "-D", "1s", "-o", output.to_str().unwrap()]);
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let penalty = read(&output).penalty.expect("it was asked for");
    assert_eq!((penalty.cpu, penalty.turns >= 9), (Cpu(0), true));
    // Four system calls and two switches take a microsecond on any machine; the recorder adds something, and far less
    // than the pipe itself takes. How much it may be is for `make bench`.
    assert!(penalty.bare_ns > Ns(500) && penalty.recorded_ns > Ns(500), "{penalty:?}");
    assert!(penalty.ratio > 0.8 && penalty.ratio < 2.0, "{penalty:?}");
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("Cost of recording: a round trip"), "{text}");
}

#[test]
#[ignore = "root: run by make test"]
fn an_application_s_hidden_page_faults_and_its_lock_are_named() {
    if !may_run("an_application_s_hidden_page_faults_and_its_lock_are_named", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (place.path().join("hidden_waits"), place.path().join("run"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../examples/hidden_waits.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let hist = place.path().join("hist");
    let (run, old) = (output.to_str().unwrap(), hist.to_str().unwrap());
    let ended = lathunt(&["record", "-o", run, "--latency-hist", old, "--", program.to_str().unwrap(), "3"]);
    // Inconclusive where the kernel hid an activation.
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let text = String::from_utf8(ended.stdout).unwrap();
    assert!(text.contains("unexpected wait in futex") && text.contains("unexpected page faults"), "{text}");

    let page = fs::read_to_string(output.join("report.html")).unwrap();
    assert!(page.contains("<h2>Threads</h2>") && page.contains("unexpected wait in futex"));

    let run = read(&output);
    let control = run.tasks.iter().find(|task| task.thread.comm == "control").expect("the loop is a task");
    let period = control.period.as_ref().unwrap();
    assert!(period.median_ns.0.abs_diff(1_000_000) < 1_000, "{period:?}");
    assert_eq!(
        (control.waits_in.as_deref(), control.timer_driven),
        (Some("clock_nanosleep TIMER_ABSTIME"), true)
    );
    let turns = control.activations + control.not_recorded + period.missed;
    assert!(turns + 100 > 3_000, "{turns}: {control:?}");
    if cfg!(target_arch = "x86_64") {
        assert!(control.page_faults >= 30, "one every 100 turns: {}", control.page_faults);
        let faulting = control.faulting.as_ref().expect("where they were");
        let hidden = &faulting.places[0];
        assert!(hidden.wakeups >= 25 && hidden.memory.as_deref() == Some("anonymous memory"), "{faulting:?}");
    }
    let lock = control.blocking.iter().find(|blocking| blocking.class == Class::Lock).expect("the lock");
    assert!(lock.count >= 10 && lock.max_ns > Ns::from_us(500), "{lock:?}");
    assert_eq!(lock.released_by.as_ref().map(|by| by.comm.as_str()), Some("low"), "{lock:?}");
    let response = control.of(Quantity::Response).unwrap().histogram.max().unwrap();
    assert!(response > lock.max_ns, "a wait is part of the response");

    let cpu0 = fs::read_to_string(hist.join("wakeup/CPU0")).unwrap();
    assert_eq!(cpu0.lines().count(), 7 + 10_240);
    let max = fs::read_to_string(hist.join("timerandwakeup/max_latency-CPU0")).unwrap();
    assert!(max == "(none)\n" || max.contains(" <- "), "{max}");
}

#[test]
#[ignore = "root: run by make test"]
fn threads_driven_by_timers_descriptors_semaphores_and_sockets_have_their_periods_found() {
    if !may_run("threads_driven_by_timers_descriptors_semaphores_and_sockets", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (program, output) = (place.path().join("drives"), place.path().join("run"));
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/drives.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    let ended = lathunt(&["record", "-q", "-o", output.to_str().unwrap(), "--", program.to_str().unwrap()]);
    assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
    let run = read(&output);
    let of = |comm: &str| {
        run.tasks.iter().find(|task| task.thread.comm == comm).unwrap_or_else(|| panic!("{comm}"))
    };
    for (comm, waits_in, timer, period) in [
        ("relative", "clock_nanosleep", true, Ns::from_ms(4)),
        ("timerfd", "(timerfd)", true, Ns::from_ms(3)),
        ("semaphore", "futex FUTEX_WAIT", false, Ns::from_ms(4)),
        ("socket", "(socket)", false, Ns::from_ms(3)),
    ] {
        let task = of(comm);
        let main = task.waits_in.as_deref().unwrap_or_default();
        assert!(main.contains(waits_in) && !main.contains("ABSTIME"), "{comm} waits in {main}");
        assert_eq!(task.timer_driven, timer, "{comm}");
        assert_eq!((task.process, task.policy.as_str()), (run.tasks[0].process, "SCHED_FIFO"), "{comm}");
        // A host that delays most turns by more than the tenth of a period leaves no period to be found.
        let driver = of(match comm {
            "semaphore" => "relative",
            "socket" => "timerfd",
            own => own,
        });
        let usual =
            driver.of(Quantity::TimerWakeup).and_then(|series| series.histogram.quantile(0.6)).unwrap();
        if task.period.is_none() && usual > Ns(period.0 / 10) {
            eprintln!("{comm}: no period, {usual} late");
            continue;
        }
        let found = task.period.as_ref().unwrap_or_else(|| panic!("{comm} has no period: {task:?}"));
        // A relative sleep adds what the turn took.
        let near = found.median_ns.0.abs_diff(period.0) <= period.0 / 5;
        assert!(near && task.activations > 100, "{comm}: {found:?}, {} activations", task.activations);
    }
}

/// Loading the recorder takes seconds on a slow machine.
fn wait_until_it_records(directory: &Path) {
    let begun = Instant::now();
    while !directory.join("run.lathunt.json").exists() && begun.elapsed() < Duration::from_secs(30) {
        sleep(Duration::from_millis(50));
    }
}

fn cyclic(cpu: &str, seconds: &str) -> Child {
    let mut victim = command(&["cyclic", "-c", cpu, "-p", "80", "-i", "1000", "-D", seconds, "-q"]);
    victim.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap()
}

#[test]
#[ignore = "root: run by make test"]
fn a_signal_ends_with_the_summary_and_a_kill_leaves_the_last_second() {
    if !may_run("a_signal_ends_with_the_summary_and_a_kill_leaves_the_last_second", lacks_bpf()) {
        return;
    }
    for signal in ["-TERM", "-KILL"] {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().to_str().unwrap();
        let recording = command(&["record", "--tasks", "all", "-o", directory])
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        wait_until_it_records(place.path());
        let asked = Instant::now();
        let pid = recording.id().to_string();
        assert!(Command::new("kill").args([signal, &pid]).status().unwrap().success());
        let ended = recording.wait_with_output().unwrap();
        let run = read(place.path());
        assert!(run.series.iter().any(|series| series.histogram.count() > 0));
        match signal {
            "-KILL" => assert!(!run.complete),
            _ => {
                // A second on an idle machine; tests share theirs with compilers. Without the signal it would not end.
                assert!(asked.elapsed() < Duration::from_secs(20), "{:?}", asked.elapsed());
                assert!(run.complete && place.path().join("report.html").exists());
                assert!(String::from_utf8_lossy(&ended.stdout).contains("run: "));
            }
        }
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_claim_ends_a_recording_when_it_is_shown_or_refuted_and_a_program_that_ends_before_is_told() {
    if !may_run("a_claim_ends_a_recording_when_it_is_shown_or_refuted", lacks_bpf()) {
        return;
    }
    let record = |arguments: &[&str]| {
        let place = tempfile::tempdir().unwrap();
        let words = [&["record", "-q", "-o", place.path().to_str().unwrap()], arguments].concat();
        let output = lathunt(&words);
        (output.status.code(), read(place.path()))
    };
    let mut victim = cyclic("0", "60");
    // More than one in a hundred may be lost where a kernel hides switches.
    let (code, run) = record(&["--until", "1e-1@95%", "-D", "40s", "--tasks", "rt"]);
    assert_ne!(code, Some(1));
    assert!(
        run.conditions.notes.iter().any(|note| note.starts_with("--until 1e-1@95%: ")),
        "{:?}",
        run.conditions
    );
    let begun = Instant::now();
    let (code, run) =
        record(&["--until", "1e-9@95%", "-D", "50s", "--tasks", "comm:cyclic*", "--deadline", "1us"]);
    assert!(code == Some(2) && begun.elapsed() < Duration::from_secs(40), "{code:?}, {:?}", begun.elapsed());
    assert!(run.conditions.notes.iter().any(|note| note.contains("by a latency above the deadline")));
    let (code, run) = record(&["--until", "1e-9@95%", "--", "sleep", "0.5"]);
    assert!(code == Some(3) && !run.complete, "{code:?}");
    victim.kill().unwrap();
    victim.wait().unwrap();
}

#[test]
#[ignore = "root: run by make test"]
fn q_ends_the_live_view_with_the_summary() {
    if !may_run("q_ends_the_live_view_with_the_summary", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("run");
    let line =
        format!("{} record --live --tasks all -o {}", env!("CARGO_BIN_EXE_lathunt"), directory.display());
    // A terminal of its own; what is written to script's stdin is typed there.
    let mut script = Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    wait_until_it_records(&directory);
    sleep(Duration::from_millis(1_500));
    script.stdin.take().unwrap().write_all(b"xq").unwrap();
    let ended = script.wait_with_output().unwrap();
    let shown = String::from_utf8_lossy(&ended.stdout);
    assert!(shown.contains("recording (q ends, ? keys)") && shown.contains("last culprit"), "{shown}");
    assert!(shown.contains("Worst cases") && shown.contains("run: "), "{shown}");
    assert!(read(&directory).complete);
}

#[test]
#[ignore = "root: run by make test"]
fn the_tasks_of_a_control_group_of_version_2_are_found_by_either_of_its_names() {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mount =
        mounts.lines().find(|line| line.contains(" cgroup2 ")).and_then(|line| line.split(' ').nth(1));
    let lacks = || mount.is_none().then_some("needs a mounted cgroup2");
    if !may_run("the_tasks_of_a_control_group_of_version_2", lacks_bpf().or_else(lacks)) {
        return;
    }
    let name = format!("lathunt-test-{}", std::process::id());
    let group = Path::new(mount.unwrap()).join(&name);
    fs::create_dir_all(group.join("below")).unwrap();
    let place = tempfile::tempdir().unwrap();
    let mut victim = cyclic("0", "60");
    let mut other = cyclic("0", "60");
    fs::write(group.join("below/cgroup.procs"), victim.id().to_string()).unwrap();
    let found: Vec<Run> = [format!("cgroup:/{name}"), format!("cgroup:{}", group.display())]
        .iter()
        .enumerate()
        .map(|(nth, tasks)| {
            let output = place.path().join(nth.to_string());
            let ended =
                lathunt(&["record", "-q", "--tasks", tasks, "-D", "2s", "-o", output.to_str().unwrap()]);
            assert!(matches!(ended.status.code(), Some(0 | 3)), "{}", said(&ended));
            read(&output)
        })
        .collect();
    for child in [&mut victim, &mut other] {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    fs::remove_dir(group.join("below")).unwrap();
    fs::remove_dir(&group).unwrap();
    let nobody = lathunt(&[
        "record",
        "--tasks",
        "comm:no-such-name",
        "-D",
        "1s",
        "-o",
        place.path().to_str().unwrap(),
    ]);
    let text = String::from_utf8_lossy(&nobody.stdout).into_owned();
    assert!(text.contains("tasks comm:no-such-name: none of these tasks woke up"), "{text}");
    for run in &found {
        let process = |task: &lathunt_core::application::Task| task.process.0 as u32 == victim.id();
        assert!(!run.tasks.is_empty() && run.tasks.iter().all(process), "{:?}", run.tasks);
    }
}

//! What a run leaves and says: refusals, summaries, files, logs, comparisons.

use super::*;
use std::process::Stdio;

#[test]
fn what_cannot_be_run_is_said_on_one_line() {
    let many = r#"{"tasks": {"t": {"instance": 10000, "run": 5, "sleep": 1000}}}"#;
    let disk = r#"{"tasks": {"t": {"iorun": 5, "sleep": 1}}, "global": {"io_device": "/nonexistent/x"}}"#;
    let nowhere = r#"{"tasks": {"t": {"run": 5, "sleep": 1, "cpus": [8000]}}}"#;
    let none = r#"{"tasks": {"t": {"run": 5, "sem_wait": "s"}}}"#;
    for (set, more, wanted) in [
        (many, &[][..], "10000 threads"),
        (disk, &[][..], "io_device"),
        (nowhere, &[][..], "none in common"),
        (none, &["--scheduler", "deadline"][..], "SCHED_DEADLINE needs"),
        (many, &["-c", "8000"][..], "8000"),
    ] {
        let output = lathunt(&[&["tasks", "run", "-", "-D", "100ms"][..], more].concat(), set);
        let said = String::from_utf8(output.stderr).unwrap();
        let errors: Vec<&str> = said.lines().filter(|line| !line.starts_with("warning: ")).collect();
        assert_eq!((output.status.code(), errors.len()), (Some(1), 1), "{said}");
        assert!(errors[0].contains(wanted), "{said}");
    }
}

#[test]
fn an_endless_run_ends_with_its_summary_at_a_signal() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("set.json");
    std::fs::write(
        &file,
        r#"{"tasks": {"t": {"run": 100, "sleep": 5000}, "w": {"run": 1, "suspend": "w", "run1": 1}}}"#,
    )
    .unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .args(["tasks", "run", file.to_str().unwrap()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let asked = Instant::now();
    // SAFETY: the child is ours, and has not been waited for.
    unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
    let output = child.wait_with_output().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("missed their deadline in"), "{text} {}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "no task has a deadline");
}

#[test]
fn the_directory_holds_a_run_that_report_and_plot_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let task =
        r#"{"tasks": {"t": {"cputime": 100, "deadline": 1, "timer": {"ref": "unique", "period": 5000}}}}"#;
    let output = lathunt(&["tasks", "run", "-", "-D", "200ms", "-o", path], task);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("FAIL") && page.contains("The task set, measured and analysed"));
    assert!(page.matches("<g><title>released").count() >= 2, "a bar for each job around the worst");
    let run =
        Run::from_json(&std::fs::read_to_string(directory.path().join("run.lathunt.json")).unwrap()).unwrap();
    // An ordinary thread beside other tests may not get to all of its forty jobs.
    assert_eq!((run.scheduler.as_deref(), run.misses), (Some("other"), run.jobs));
    assert!(run.jobs.is_some_and(|jobs| (2..=40).contains(&jobs)), "{:?}", run.jobs);
    let told = lathunt(&["report", "-q", path], "");
    assert!(String::from_utf8_lossy(&told.stdout).starts_with("FAIL"), "{told:?}");
    let plot = directory.path().join("x.svg");
    let drawn = lathunt(&["plot", path, "-o", plot.to_str().unwrap()], "");
    assert_eq!(drawn.status.code(), Some(0), "{}", String::from_utf8_lossy(&drawn.stderr));
}

#[test]
fn a_thread_is_marked_late_by_its_own_deadline_in_the_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let set = r#"{"tasks": {
        "late": {"cputime": 100, "deadline": 1, "timer": {"ref": "unique", "period": 50000}},
        "slow": {"cputime": 2000, "deadline": 60000000, "timer": {"ref": "unique", "period": 50000}}}}"#;
    let output = lathunt(&["tasks", "run", "-", "-D", "300ms", "-o", path], set);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    let row = |name: &str| {
        let of_figures = page.lines().filter(|line| line.contains("<tr><th scope=\"row\">"));
        of_figures.clone().find(|line| line.contains(&format!(">{name}/"))).unwrap().to_owned()
    };
    assert!(row("late").contains("max late") && !row("slow").contains("max late"), "{}", row("slow"));
}

#[test]
fn logs_have_the_columns_of_rt_app_and_late_jobs_their_delay() {
    let directory = tempfile::tempdir().unwrap();
    let logs = directory.path().join("logs");
    let place = logs.to_str().unwrap();
    let set = r#"{"tasks": {"a/b": {"cputime": 3000, "timer": {"ref": "unique", "period": 2000, "mode": "absolute"}}}}"#;
    let (_, run) = measured(set, &["-D", "200ms", "--log", place]);
    let file = logs.join("rt-app-a_b-0.log");
    let text = std::fs::read_to_string(&file).unwrap();
    let mut rows = text.lines();
    let heading: Vec<&str> = rows.next().unwrap().split_ascii_whitespace().collect();
    let columns = [
        "#idx",
        "perf",
        "run",
        "period",
        "start",
        "end",
        "rel_st",
        "slack",
        "c_duration",
        "c_period",
        "wu_lat",
    ];
    assert_eq!(heading, columns);
    let rows: Vec<Vec<i64>> =
        rows.map(|row| row.split_ascii_whitespace().map(|cell| cell.parse().unwrap()).collect()).collect();
    assert_eq!(rows.len() as u64, run.jobs.unwrap());
    assert_eq!((rows[0][8], rows[0][9]), (3_000, 2_000));
    let last_started = rows.iter().rfind(|row| row[2] > 0).unwrap();
    assert!(last_started[7] < -20_000 && last_started[10] > 20_000, "late jobs are late: {last_started:?}");
    let again = lathunt(&["tasks", "run", "-", "-D", "100ms", "--log", place], set);
    assert_eq!(again.status.code(), Some(1), "no log is overwritten");
    assert_eq!(std::fs::read_to_string(file).unwrap(), text);
}

#[test]
#[ignore = "needs root"]
fn schedulers_are_compared_in_one_document_and_in_one_directory() {
    if !may_run("tasks: compare", lacks_root()) {
        return;
    }
    let _machine = machine();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    // EDF alone meets it.
    let set = set(&[periodic("a", 20, 9_000, 20_000), periodic("b", 10, 15_000, 30_000)]);
    let output = lathunt(&["tasks", "compare", "-", "-D", "600ms", "--json", "-o", path], &set);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let names: Vec<&str> = runs.iter().map(|run| run["scheduler"].as_str().unwrap()).collect();
    assert_eq!(names, ["fifo", "rr", "deadline", "other", "fiber-fp", "fiber-edf"], "{document:#}");
    assert!(runs.iter().all(|run| run["jobs"] == 50), "{document:#}");
    assert!(runs[0]["misses"].as_u64() >= Some(8));
    for name in names {
        let text = std::fs::read_to_string(directory.path().join(format!("{name}.lathunt.json"))).unwrap();
        assert_eq!(Run::from_json(&text).unwrap().scheduler.as_deref(), Some(name));
    }
    let page = std::fs::read_to_string(directory.path().join("report.html")).unwrap();
    assert!(page.contains("deadline a") && page.contains("fifo b"));
}

/// Threads of all processes under a real-time policy of this set.
fn realtime_threads() -> Vec<String> {
    let tasks =
        |process: std::fs::DirEntry| std::fs::read_dir(process.path().join("task")).into_iter().flatten();
    let all = std::fs::read_dir("/proc").unwrap().flatten().flat_map(tasks).flatten();
    let name = |thread: std::fs::DirEntry| {
        let comm = std::fs::read_to_string(thread.path().join("comm")).ok()?;
        let stat = std::fs::read_to_string(thread.path().join("stat")).ok()?;
        let policy = stat.rsplit(')').next()?.split_whitespace().nth(38)?.to_owned();
        (policy != "0" && comm.starts_with("killed-")).then_some(comm)
    };
    all.filter_map(name).collect()
}

#[test]
#[ignore = "needs root"]
fn a_killed_run_is_kept_so_far_judged_and_leaves_no_thread() {
    if !may_run("tasks: kill", lacks_root()) {
        return;
    }
    let _machine = machine();
    // Of "killed-a", every job is late for a deadline of 1 µs, and none for one of a minute.
    for (scheduler, due, outcome) in [
        ("fifo", 1, Outcome::Fail),
        ("deadline", 60_000_000, Outcome::Inconclusive),
        ("fiber-fp", 1, Outcome::Fail),
    ] {
        let a = format!(
            r#""cputime": 200, "deadline": {due}, "dl-runtime": 1000, "dl-deadline": 5000, "dl-period": 5000, "timer": {{"ref": "unique", "period": 5000}}"#
        );
        let b = r#""cputime": 500, "deadline": 60000000, "dl-runtime": 2000, "dl-deadline": 20000, "dl-period": 20000, "timer": {"ref": "unique", "period": 20000}"#;
        let set = format!(
            r#"{{"tasks": {{"killed-a": {{"priority": 10, {a}}}, "killed-b": {{"priority": 5, {b}}}}}}}"#
        );
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("out/run.lathunt.json");
        std::fs::write(directory.path().join("set.json"), set).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["tasks", "run", "set.json", "-D", "60s", "-o", "out", "-s", scheduler])
            .current_dir(directory.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let patience = Instant::now() + Duration::from_secs(20);
        while !file.exists() && Instant::now() < patience && child.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(300));
        if !scheduler.starts_with("fiber") {
            assert_eq!(realtime_threads().len(), 2, "{scheduler}");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(realtime_threads(), Vec::<String>::new());
        let run = Run::from_json(&std::fs::read_to_string(&file).unwrap()).unwrap();
        let (a, b) = (thread(&run, "killed-a"), thread(&run, "killed-b"));
        let seconds = run.conditions.duration_s.unwrap();
        let jobs = [a, b].map(|thread| thread.jobs as f64);
        let wanted = [seconds / 0.005, seconds / 0.020];
        assert!(seconds >= 0.9 && !run.complete, "{seconds}");
        for (jobs, wanted) in jobs.iter().zip(wanted) {
            assert!((wanted - 25.0..=wanted + 1.0).contains(jobs), "{jobs} of {wanted}");
        }
        if outcome == Outcome::Fail {
            assert_eq!(a.misses, a.jobs);
        }
        assert!(run.series.iter().all(|series| series.thread.as_ref().is_some_and(|of| of.tid.0 > 0)));
        assert_eq!(run.verdict.unwrap().outcome, Some(outcome), "{scheduler}");
        let report = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["report", "out", "--text"])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&report.stdout);
        assert!(report.status.success() && !said.contains("PASS"), "{said}");
        assert!(said.contains("cut off"), "{said}");
    }
}

/// Ends and periods (µs) of the lines of a log of rt-app.
fn lines(directory: &std::path::Path, name: &str) -> Vec<(u64, u64)> {
    let text = std::fs::read_to_string(directory.join(format!("{name}.log"))).unwrap();
    let rows = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    rows.map(|row| {
        let column = |nth: usize| row.split_ascii_whitespace().nth(nth).unwrap().parse().unwrap();
        (column(5), column(3))
    })
    .collect()
}

#[test]
#[ignore = "needs root"]
fn the_same_file_has_the_same_jobs_under_rt_app() {
    let has_peer =
        Command::new("rt-app").arg("--help").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    let reason = lacks_root().or((!has_peer).then_some("has no rt-app"));
    if !may_run("tasks: rt-app on the same file", reason) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let task = |name: &str, priority: u32, loops: i32, events: &str| {
        format!(
            r#""{name}": {{"policy": "SCHED_FIFO", "priority": {priority}, "loop": {loops},
                "phases": {{"p": {{"loop": 1, {events}}}}}}}"#
        )
    };
    let timer =
        |period: u32| format!(r#""timer": {{"ref": "unique", "period": {period}, "mode": "absolute"}}"#);
    let set = format!(
        r#"{{"tasks": {{{}, {}, {}}}, "global": {{"duration": 1, "calibration": 100, "logdir": "{place}",
            "log_basename": "peer"}}}}"#,
        task("fast", 30, -1, &format!(r#""runtime": 300, {}"#, timer(4_000))),
        task("slow", 20, -1, &format!(r#""runtime": 1000, {}"#, timer(25_000))),
        task("few", 10, 30, r#""runtime": 200, "sleep": 5000"#),
    );
    let file = directory.path().join("set.json");
    std::fs::write(&file, &set).unwrap();
    let (_, run) = measured(&set, &[]);
    let _machine = machine();
    let peer = Command::new("rt-app").arg(&file).output().unwrap();
    assert!(peer.status.success(), "{}", String::from_utf8_lossy(&peer.stderr));
    for (name, index, period, exact) in
        [("fast", 0, 4_000, 250), ("slow", 1, 25_000, 40), ("few", 2, 5_200, 30)]
    {
        let of_peer = lines(directory.path(), &format!("peer-{name}-{index}"));
        let ours = thread(&run, name).jobs;
        assert_eq!(ours, exact, "{name}");
        // Its length counts from before its threads are there: jobs are missing at the start, but none later.
        let ends = || of_peer.iter().map(|(end, _)| *end);
        let span = ends().max().unwrap().abs_diff(ends().min().unwrap());
        let (lines, there) = (of_peer.len() as u64, 1 + span / period);
        assert!(lines <= ours + 1 && lines * 2 > ours, "{name}: {lines} lines, {ours} jobs");
        assert!(lines.abs_diff(there) <= 1 + exact / 10, "{name}: {lines} lines in {span} us, {ours} jobs");
        let mut periods: Vec<u64> = of_peer.iter().map(|(_, period)| *period).collect();
        periods.sort_unstable();
        assert!(periods[periods.len() / 2].abs_diff(period) < 1_000, "{name}: {periods:?}");
    }
}

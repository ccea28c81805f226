//! The daemon itself: what it records, what it gives up, how it dies.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use lathunt_host::testing::{lacks_bpf, may_run};

use super::{disturb, events, history, history_json, http, last_cpu, lathunt, wait_for, Monitor, INJECTED};

#[test]
#[ignore = "root: run by make test"]
fn an_injected_latency_is_in_the_history_with_size_culprit_and_explanation() {
    if !may_run("an_injected_latency_is_in_the_history", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut monitor = Monitor::start(place.path(), "1s");
    disturb();
    let second = lathunt().args(["monitor", "--database"]).arg(&monitor.database).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains(&monitor.child.id().to_string()) && said.lines().count() == 1, "{said}");
    assert_eq!(second.status.code(), Some(1));
    check_rights(&format!("/proc/{}/status", monitor.child.id()));
    std::thread::sleep(Duration::from_millis(1_500));
    monitor.signal(libc::SIGTERM);
    assert!(monitor.child.wait().unwrap().success());
    monitor.line("ended; ");

    let json = history_json(&monitor.database);
    let cpu: u64 = last_cpu().parse().unwrap();
    let of_cpu = |row: &&serde_json::Value| row["quantity"] == "timer+wakeup" && row["cpu"] == cpu;
    let rows: Vec<_> = json["rows"].as_array().unwrap().iter().filter(of_cpu).collect();
    let due = INJECTED.as_nanos() as u64;
    // A stall of the machine may be larger than what we injected; the window of an injected one is among them.
    let blamed = rows.iter().filter(|row| {
        let max = row["histogram"]["max_ns"].as_u64().unwrap_or(0);
        let culprit = row["peak"]["culprit"].as_str().unwrap_or_default();
        max > due * 8 / 10 && culprit.contains("lathunt-inject") && row["peak"]["total_ns"] == max
    });
    let blamed: Vec<_> = blamed.collect();
    assert!(
        !blamed.is_empty(),
        "nobody was blamed for 25 ms: {:#?}",
        rows.iter().map(|row| &row["peak"]["culprit"]).collect::<Vec<_>>()
    );
    let explanation = &blamed[0]["peak"]["explanation"];
    assert!(explanation["sentence"].as_str().unwrap().contains("lathunt-inject"), "{explanation}");
    assert!(blamed[0]["max_at"].is_i64());
    assert_eq!((events(&json, "started"), events(&json, "stopped"), events(&json, "window_lost")), (1, 1, 0));
    // Whole windows begin and end on the second.
    let whole: Vec<_> = rows.iter().filter(|row| row["whole"] == true).collect();
    assert!(whole.len() >= 3, "{}", whole.len());
    assert!(whole
        .iter()
        .all(|row| row["end"].as_i64().unwrap() % 1_000 == 0 && row["begin"].as_i64().unwrap() % 1_000 == 0));
    for row in rows.iter().filter(|row| row["max_at"].is_i64()) {
        let [begin, end, at] = ["begin", "end", "max_at"].map(|name| row[name].as_i64().unwrap());
        // Closed a little late is closed at the boundary.
        assert!((begin - 50..end + 500).contains(&at), "{at}: {begin} to {end}");
    }
    check_tasks(&json, due);
    check_views(&monitor.database, place.path());
}

/// The victim has a series of its own, under its name.
fn check_tasks(json: &serde_json::Value, due: u64) {
    // Each thread has a series of its wakings alone, too, whose largest can be another one.
    let of_tasks = |row: &&serde_json::Value| {
        row["quantity"] == "timer+wakeup" && row["task"].is_string() && row["cpu"].is_null()
    };
    let rows: Vec<_> = json["rows"].as_array().unwrap().iter().filter(of_tasks).collect();
    let disturbed = rows.iter().find(|row| {
        let culprit = row["peak"]["culprit"].as_str().unwrap_or_default();
        row["histogram"]["max_ns"].as_u64().unwrap_or(0) > due * 8 / 10 && culprit.contains("lathunt-inject")
    });
    let names: Vec<_> = rows.iter().map(|row| &row["task"]).collect();
    let disturbed = disturbed.unwrap_or_else(|| panic!("no task was blamed on the injector: {names:?}"));
    assert_eq!(disturbed["peak"]["victim"]["comm"], disturbed["task"]);
}

/// CAP_BPF and CAP_PERFMON, and no way to gain more.
fn check_rights(status: &str) {
    let status = fs::read_to_string(status).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
        u64::from_str_radix(line.trim(), 16).unwrap()
    };
    let kept = 1 << 39 | 1 << 38;
    assert_eq!((field("CapEff:"), field("CapPrm:")), (kept, kept));
    assert_eq!((field("CapBnd:"), field("CapInh:"), field("CapAmb:"), field("NoNewPrivs:")), (0, 0, 0, 1));
}

fn check_views(database: &Path, place: &Path) {
    let text = String::from_utf8(history(database, &[]).stdout).unwrap();
    assert!(text.contains("Worst windows") && text.contains("lathunt-inject"), "{text}");
    let one = format!("timer+wakeup@{}", last_cpu());
    let csv = String::from_utf8(history(database, &["--csv", "--series", &one]).stdout).unwrap();
    let of_task = ["--csv", "--series", "wakeup@task:lathunt-inject"];
    let absent = history(database, &["--series", "wakeup@task:nobody"]);
    let told = String::from_utf8(absent.stderr).unwrap();
    assert!(absent.status.code() == Some(1) && told.contains("wakeup lathunt-inject"), "{told}");
    let csv_of_task = String::from_utf8(history(database, &of_task).stdout).unwrap();
    assert!(csv_of_task.lines().count() > 1, "{csv_of_task}");
    assert!(
        csv_of_task.lines().skip(1).all(|line| line.contains(",wakeup,,\"lathunt-inject\",")),
        "{csv_of_task}"
    );
    assert!(csv.lines().skip(1).all(|line| line.split(',').nth(4) == Some("timer+wakeup")), "{csv}");
    for file in ["plot.svg", "plot.html"] {
        let path = place.join(file);
        let drawn = history(database, &["--plot", path.to_str().unwrap()]);
        assert!(drawn.status.success());
        let drawing = fs::read_to_string(path).unwrap();
        assert!(drawing.contains("Maxima of consecutive windows") && drawing.contains("<svg"), "{file}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_killed_monitor_loses_its_window_and_says_so_and_goes_on() {
    if !may_run("a_killed_monitor_loses_its_window_and_says_so", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let kills = 4;
    for kill in 0..kills {
        let mut monitor = Monitor::start(place.path(), "200ms");
        std::thread::sleep(Duration::from_millis(700 + 137 * kill));
        monitor.child.kill().unwrap();
        monitor.child.wait().unwrap();
    }
    let mut monitor = Monitor::start(place.path(), "200ms");
    monitor.signal(libc::SIGINT);
    assert!(monitor.child.wait().unwrap().success());
    let json = history_json(&monitor.database);
    assert_eq!(events(&json, "window_lost") as u64, kills);
    assert_eq!(events(&json, "started") as u64, kills + 1);
    let windows = json["windows"].as_array().unwrap();
    assert!(windows.len() as u64 >= kills * 2, "{}", windows.len());
    assert!(windows.iter().all(|window| window[0].as_i64() < window[1].as_i64()));
}

#[test]
#[ignore = "root: run by make test"]
fn activations_that_a_halted_monitor_could_not_read_are_on_record_with_their_window() {
    if !may_run("activations_that_a_halted_monitor_could_not_read", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut monitor = Monitor::start(place.path(), "1s");
    monitor.signal(libc::SIGSTOP);
    // 20,000 wake-ups where 4,096 have room.
    let cyclic = ["cyclic", "-q", "-c", &last_cpu(), "-p", "80", "-i", "100", "-D", "2s"];
    lathunt().args(cyclic).output().unwrap();
    monitor.signal(libc::SIGCONT);
    std::thread::sleep(Duration::from_millis(2_500));
    monitor.signal(libc::SIGTERM);
    assert!(monitor.child.wait().unwrap().success());
    let json = history_json(&monitor.database);
    let told = json["events"].as_array().unwrap().iter().find(|event| event["kind"] == "activations_lost");
    let told = told.unwrap_or_else(|| panic!("nothing is said of them: {:#}", json["events"]));
    let detail = told["detail"].as_str().unwrap();
    let lost: u64 = detail.split(' ').next().unwrap().parse().unwrap();
    assert!((1_000..20_000).contains(&lost) && detail.contains("figures of tasks"), "{detail}");
    // The window that lacks them is the one that CPUs have them in.
    let cpu: u64 = last_cpu().parse().unwrap();
    let rows = json["rows"].as_array().unwrap().iter().filter(|row| row["end"] == told["at"]);
    let row = rows.filter(|row| row["quantity"] == "wakeup").find(|row| row["cpu"] == cpu).unwrap();
    let count = row["histogram"]["count"].as_u64().unwrap();
    assert!(count > lost + 1_000, "{count} of the CPU, {lost} were not read");
}

#[test]
#[ignore = "root: run by make test"]
fn fifty_clients_at_once_see_the_same_maxima_and_reset_nothing() {
    if !may_run("fifty_clients_at_once_see_the_same_maxima", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let monitor = Monitor::start(place.path(), "2s");
    disturb();
    let port = monitor.port;
    let page = move || http::text(port, "/metrics", "text/plain").expect("an answer");
    let maxima = |page: &str| -> Vec<String> {
        page.lines()
            .filter(|line| line.starts_with("lathunt_latency_max_alltime_seconds{"))
            .map(str::to_owned)
            .collect()
    };
    wait_for("the injected maximum", Duration::from_secs(10), || {
        maxima(&page()).iter().any(|line| {
            line.contains("timer+wakeup") && line.rsplit(' ').next().unwrap().parse::<f64>().unwrap() > 0.02
        })
    });
    let clients: Vec<_> = (0..50).map(|_| std::thread::spawn(page)).collect();
    let pages: Vec<String> = clients.into_iter().map(|client| client.join().unwrap()).collect();
    let largest = |page: &String| maxima(page);
    // A window may be closed in between, and then only grow.
    let (first, last) = (largest(&pages[0]), largest(&page()));
    assert!(!first.is_empty() && first.len() <= last.len());
    for page in &pages {
        assert!(
            page.lines().any(|line| line.starts_with("lathunt_latency_max_seconds{"))
                || page.contains("lathunt_windows_total")
        );
        assert_eq!(maxima(page).len(), first.len());
        assert!(page.ends_with('\n') && !page.contains("NaN"));
    }
}

#[test]
#[ignore = "root: run by make test"]
fn it_runs_as_nobody_with_the_capabilities_of_the_shipped_unit() {
    let setpriv = Command::new("setpriv").arg("--version").output().is_ok();
    let lacks = lacks_bpf().or_else(|| (!setpriv).then_some("no setpriv (util-linux)"));
    if !may_run("it_runs_as_nobody_with_the_capabilities_of_the_shipped_unit", lacks) {
        return;
    }
    let unit = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../packaging/systemd/lathunt-monitor.service"),
    );
    let unit = unit.unwrap();
    let given = unit.lines().find_map(|line| line.strip_prefix("AmbientCapabilities=")).unwrap();
    let capabilities: Vec<String> =
        given.split(' ').map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase())).collect();
    let set = format!("-all,{}", capabilities.join(","));
    // Nobody may not reach our binary where it was built.
    let place = tempfile::tempdir().unwrap();
    let binary = place.path().join("lathunt");
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), &binary).unwrap();
    let state = place.path().join("state");
    fs::create_dir(&state).unwrap();
    std::os::unix::fs::chown(&state, Some(65_534), Some(65_534)).unwrap();
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(place.path(), everybody).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--no-new-privs"]);
    for option in ["inh-caps", "ambient-caps", "bounding-set"] {
        command.arg(format!("--{option}={set}"));
    }
    command.arg(&binary);
    let mut monitor = Monitor::started_by(command, &state, "500ms");
    std::thread::sleep(Duration::from_millis(1_200));
    monitor.signal(libc::SIGTERM);
    assert!(monitor.child.wait().unwrap().success());
    assert!(history_json(&monitor.database)["windows"].as_array().unwrap().len() >= 2);
}

#[test]
#[ignore = "root: run by make test"]
fn a_task_that_still_waits_at_the_end_is_in_the_last_window() {
    if !may_run("a_task_that_still_waits_at_the_end_is_in_the_last_window", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = hangs(place.path());
    let mut monitor = Monitor::start(place.path(), "1h");
    let _starving = super::Running(Command::new(program).arg("starves").spawn().unwrap());
    std::thread::sleep(Duration::from_millis(2_000));
    monitor.signal(libc::SIGTERM);
    assert!(monitor.child.wait().unwrap().success());
    let json = history_json(&monitor.database);
    let of_task = |row: &&serde_json::Value| row["quantity"] == "timer+wakeup" && row["task"] == "hangs";
    let row = json["rows"].as_array().unwrap().iter().find(of_task).unwrap();
    let max = row["histogram"]["max_ns"].as_u64().unwrap();
    assert!((900_000_000..4_000_000_000).contains(&max), "{row}");
    assert_eq!(row["peak"]["culprit"], "thread: hog", "{row}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_late_job_in_progress_at_the_end_is_a_miss_and_one_that_its_thread_never_ended_is_lost() {
    let name = "a_late_job_in_progress_at_the_end_is_a_miss_and_one_that_its_thread_never_ended_is_lost";
    if !may_run(name, lacks_bpf()) {
        return;
    }
    for (mode, misses, lost) in [("spins", 1, 0), ("starves", 1, 0), ("ends", 0, 1)] {
        let place = tempfile::tempdir().unwrap();
        let program = hangs(place.path());
        let mut monitor = Monitor::with(place.path(), "1h", &["--deadline", "20ms"]);
        let _running = super::Running(Command::new(program).arg(mode).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(2_000));
        monitor.signal(libc::SIGTERM);
        assert!(monitor.child.wait().unwrap().success());
        let json = history_json(&monitor.database);
        let of_task = |row: &&serde_json::Value| row["quantity"] == "response" && row["task"] == "hangs";
        let row = json["rows"].as_array().unwrap().iter().find(of_task).unwrap();
        // Others may have delayed more of its jobs.
        let at_least = |field: &str, count: u64| row[field].as_u64().unwrap() >= count;
        assert!(at_least("misses", misses) && at_least("lost", lost), "{mode}: {row}");
        let max = row["histogram"]["max_ns"].as_u64().unwrap();
        assert_eq!(max > 900_000_000, misses == 1, "{mode}: {row}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_job_that_is_longer_than_a_window_is_one_miss_with_all_its_time() {
    if !may_run("a_job_that_is_longer_than_a_window", lacks_bpf()) {
        return;
    }
    // Window, what `hangs` does, seconds until the monitor ends, and the late job in progress then, which `hangs` does not tell.
    let across = [
        ("1s", "spins", 4, Some(3_500_000_000)),
        ("1s", "starves", 4, Some(3_500_000_000)),
        ("500ms", "returns", 4, None),
        ("1s", "seldom", 12, None),
    ];
    for (window, mode, seconds, in_progress) in across {
        let place = tempfile::tempdir().unwrap();
        let program = hangs(place.path());
        let mut monitor = Monitor::with(place.path(), window, &["--deadline", "20ms"]);
        let late = fs::File::create(place.path().join("late")).unwrap();
        let _running = super::Running(
            Command::new(program).arg(mode).stdout(late.try_clone().unwrap()).spawn().unwrap(),
        );
        std::thread::sleep(Duration::from_secs(seconds));
        let page = http::text(monitor.port, "/metrics", "text/plain").unwrap();
        monitor.signal(libc::SIGTERM);
        assert!(monitor.child.wait().unwrap().success());
        let told = fs::read_to_string(place.path().join("late")).unwrap();
        let truth: Vec<u64> = told.lines().map(|line| line.parse().unwrap()).chain(in_progress).collect();
        assert!(!truth.is_empty(), "{mode}");
        let json = history_json(&monitor.database);
        let of_task = |row: &&serde_json::Value| row["quantity"] == "response" && row["task"] == "hangs";
        let rows: Vec<_> = json["rows"].as_array().unwrap().iter().filter(of_task).collect();
        let sum = |of: &str| rows.iter().map(|row| row[of].as_u64().unwrap_or(0)).sum::<u64>();
        let max = rows.iter().filter_map(|row| row["histogram"]["max_ns"].as_u64()).max().unwrap_or(0);
        assert_eq!(sum("misses"), truth.len() as u64, "{mode}: {truth:?} {rows:#?}");
        // Where the kernel hides switches, short jobs of any window may be lost.
        assert!(sum("lost") == 0 || page.contains("_not_seen\""), "{mode}: {page} {rows:#?}");
        let longest = *truth.iter().max().unwrap();
        let tolerance = if in_progress.is_some() { 600_000_000 } else { longest / 20 };
        assert!(max.abs_diff(longest) < tolerance, "{mode}: {max} ns of {truth:?}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_task_that_waits_for_a_cpu_is_told_while_it_waits() {
    if !may_run("a_task_that_waits_for_a_cpu_is_told_while_it_waits", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let program = hangs(place.path());
    let monitor = Monitor::start(place.path(), "1h");
    let waits = || {
        let page = http::text(monitor.port, "/metrics", "text/plain").unwrap();
        let line = page.lines().find(|line| line.starts_with("lathunt_waiting_seconds{task=\"hangs\"}"))?;
        line.rsplit(' ').next()?.parse::<f64>().ok()
    };
    let begun = std::time::Instant::now();
    let _starving = super::Running(Command::new(program).arg("starves").spawn().unwrap());
    wait_for("the wait", Duration::from_secs(4), || waits().is_some());
    let waited = waits().unwrap();
    assert!(waited > 0.5 && waited < begun.elapsed().as_secs_f64(), "{waited}");
    wait_for("its end", Duration::from_secs(8), || waits().is_none());
}

/// The program with a thread that gets no CPU.
fn hangs(place: &Path) -> std::path::PathBuf {
    let program = place.join("hangs");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/record/hangs.c");
    let built =
        Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(source).status().unwrap();
    assert!(built.success());
    program
}

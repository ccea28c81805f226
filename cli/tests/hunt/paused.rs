//! Hunts of which the load, the hunt itself, or its preparation is stopped.

use super::*;

/// Everything below `ancestor`.
fn descendants(ancestor: u32) -> Vec<u32> {
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse::<u32>().ok()
    };
    let pids =
        || fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse().ok());
    let children: Vec<u32> = pids().filter(|pid| parent(*pid) == Some(ancestor)).collect();
    children.iter().flat_map(|&child| descendants(child).into_iter().chain([child])).collect()
}

#[test]
#[ignore = "root: run by make test"]
fn a_load_that_paused_is_no_pass_and_one_that_lasted_is_no_doubt() {
    if !may_run("a_load_that_paused_is_no_pass_and_one_that_lasted_is_no_doubt", lacks_root()) {
        return;
    }
    for pauses in [true, false] {
        let place = tempfile::tempdir().unwrap();
        let child = start(&["-D", "8s", "--deadline", "60s", "-i", "200"], place.path());
        wait_for("the measurement", Duration::from_secs(60), || {
            place.path().join("run.lathunt.json").exists()
        });
        std::thread::sleep(Duration::from_secs(3));
        let load = if pauses { descendants(child.id()) } else { Vec::new() };
        // SAFETY: descendants of our child.
        load.iter().for_each(|pid| _ = unsafe { libc::kill(*pid as libc::pid_t, libc::SIGSTOP) });
        child.wait_with_output().unwrap();
        let run = run_in(place.path());
        let reasons = run.verdict.as_ref().map_or(&[][..], |verdict| &verdict.reasons);
        let said = reasons.iter().find(|reason| reason.contains("load"));
        let is_as_wanted = match pauses {
            true => said
                .is_some_and(|said| said.contains("the load ran during ") && said.contains("of 8.0 s only")),
            false => said.is_none(),
        };
        assert!(is_as_wanted, "{pauses}: {reasons:?} {:?}", run.conditions.during);
        wait_for("the load to be gone", Duration::from_secs(5), || {
            load.iter().all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
        });
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_hunt_that_is_interrupted_before_it_measures_says_only_that() {
    if !may_run("a_hunt_that_is_interrupted_before_it_measures_says_only_that", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut command = lathunt();
    command.args(["hunt", "-D", "20s", "--deadline", "60s", "-o"]).arg(place.path().join("out"));
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Its recorder and the calibration take longer than this.
    wait_for("the directory", Duration::from_secs(20), || place.path().join("out").exists());
    signal(&child, libc::SIGINT);
    let id = child.id();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.lines().last().unwrap_or_default();
    assert!(last.contains("stopped by SIGINT before the measurement began"), "{said}");
    assert!(!said.contains("load: ") && output.stdout.is_empty(), "{output:?}");
    assert!(descendants(id).is_empty() && !place.path().join("out/run.lathunt.json").exists());
}

#[test]
#[ignore = "root: run by make test"]
fn a_stop_of_the_hunt_itself_is_told_as_a_stop_however_long_it_lasts() {
    if !may_run("a_stop_of_the_hunt_itself_is_told_as_a_stop", lacks_bpf()) {
        return;
    }
    for stopped in [500, 4_000] {
        let place = tempfile::tempdir().unwrap();
        let child = start(&["-D", "7s", "--load", "none", "--deadline", "10ms", "-c", "1"], place.path());
        wait_for("the measurement", Duration::from_secs(60), || {
            place.path().join("run.lathunt.json").exists()
        });
        signal(&child, libc::SIGSTOP);
        std::thread::sleep(Duration::from_millis(stopped));
        signal(&child, libc::SIGCONT);
        child.wait_with_output().unwrap();
        let run = run_in(place.path());
        let worst = run.peaks.iter().max_by_key(|peak| peak.total_ns).unwrap();
        assert!(worst.total_ns >= Ns::from_ms(stopped - 50), "{worst:?}");
        // If the record lost events, when it should have been continued is not known; that it was stopped is.
        let why = worst.explanation.as_ref().unwrap();
        let said =
            ["it was stopped, by a signal", "is stopped by a signal; whether it was to be continued earlier"];
        assert!(said.iter().any(|said| why.sentence.contains(said)), "{}", why.sentence);
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_load_lasts_to_the_end_of_a_hunt_that_starts_later() {
    if !may_run("a_load_lasts_to_the_end_of_a_hunt_that_starts_later", lacks_root()) {
        return;
    }
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let at = format!("@{}", now + 30);
    let place = tempfile::tempdir().unwrap();
    let busy = "while :; do :; done";
    hunt(
        &["-q", "-D", "1s", "-c", "1", "--deadline", "60s", "--load", busy, "--start-at", &at],
        place.path(),
    );
    let during = run_in(place.path()).conditions.during;
    assert_eq!(during.load_ended_early, None);
    assert!(during.load_over_time.unwrap().ran_ns >= Ns::from_ms(900), "{during:?}");
}

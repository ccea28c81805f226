//! The main job from outside: what it leaves behind, how it ends, what it says to nonsense.

#[path = "hunt/paused.rs"]
mod paused;

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::{Cpu, Ns};
use lathunt_core::verdict::Outcome;
use lathunt_host::testing::{lacks_bpf, lacks_root, may_run};

fn lathunt() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.stdin(Stdio::null());
    command
}

fn hunt(arguments: &[&str], directory: &Path) -> Output {
    lathunt().arg("hunt").args(arguments).arg("-o").arg(directory).output().unwrap()
}

fn run_in(directory: &Path) -> Run {
    let text = fs::read_to_string(directory.join("run.lathunt.json")).unwrap();
    Run::from_json(&text).unwrap_or_else(|error| panic!("{error}: {text:.200}"))
}

fn start(arguments: &[&str], directory: &Path) -> Child {
    let mut command = lathunt();
    command.arg("hunt").args(arguments).arg("-o").arg(directory);
    command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, signal: libc::c_int) {
    // SAFETY: the child was not waited for, so its pid is its own.
    unsafe { libc::kill(child.id() as libc::pid_t, signal) };
}

fn wait_for(what: &str, longest: Duration, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < longest, "waited {longest:?} for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Each of these ends with status 1, one line on stderr that names the culprit, and nothing written.
#[test]
fn nonsense_is_refused_in_one_line_before_anything_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    let below = file.join("below");
    let below = below.to_str().unwrap();
    for (arguments, named) in [
        (&["-c", "4095"][..], "4095"),
        (&["-c", "1-"], "1-"),
        (&["-c", ""], "list of CPUs is empty"),
        (&["-D", "0"], "--duration"),
        (&["-D", "abc"], "abc"),
        (&["-D", "-5s"], "-5"),
        (&["-i", "0"], "--interval"),
        (&["-p", "0"], "0"),
        (&["-p", "100"], "100"),
        (&["--deadline", "soon"], "soon"),
        (&["--peaks", "0"], "--worst"), // an alias
        (&["--until", "1e-7"], "1e-7@95%"),
        (&["--until", "1e-12@95%"], "400 days"),
        (&["--no-such-flag"], "--no-such-flag"),
        (&["-o", below], "file"),
        (&["-o", "/proc/nowhere/x"], "/proc/nowhere"),
    ] {
        let output = lathunt().arg("hunt").args(arguments).current_dir(place.path()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{arguments:?}: {said}");
        assert!(said.contains(named), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 1, "only the file that was there");
}

#[test]
#[ignore = "root: run by make test"]
fn a_hunt_ends_with_a_run_a_report_and_parts_that_add_up() {
    if !may_run("a_hunt_ends_with_a_run_a_report_and_parts_that_add_up", lacks_bpf()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let output = hunt(&["-D", "3s", "--json"], place.path());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{:?} {said}", output.status);
    let run = run_in(place.path());
    assert_eq!(
        Run::from_json(&String::from_utf8(output.stdout).unwrap()).unwrap(),
        run,
        "stdout is the file"
    );
    assert!(run.complete && run.verdict.is_some() && run.conditions.load.as_deref() != Some("none"));
    assert!(!run.calibration.is_empty() && !run.interference.is_empty());
    for quantity in [Quantity::Cyclic, Quantity::Timer, Quantity::Wakeup, Quantity::TimerWakeup] {
        let counts: Vec<u64> = run.of(quantity).map(|series| series.histogram.count()).collect();
        assert!(
            !counts.is_empty() && counts.iter().all(|&count| count > 500),
            "{}: {counts:?}",
            quantity.name()
        );
    }
    let explained: Vec<_> =
        run.peaks.iter().filter_map(|peak| Some((peak, peak.explanation.as_ref()?))).collect();
    assert!(
        explained.len() * 2 >= run.peaks.len(),
        "{} of {} peaks explained",
        explained.len(),
        run.peaks.len()
    );
    for (peak, explanation) in explained {
        assert!(explanation.tree.adds_up(), "{explanation:#?}");
        let leaves: Ns = explanation.tree.leaves().iter().map(|leaf| leaf.duration_ns).sum();
        assert_eq!(
            (leaves + explanation.unexplained_ns, explanation.total_ns),
            (peak.total_ns, peak.total_ns)
        );
    }
    let report = fs::read_to_string(place.path().join("report.html")).unwrap();
    assert!(report.contains("</html>") && !report.contains("src=\"http"));
}

#[test]
#[ignore = "root: run by make test"]
fn a_disturbance_during_a_hunt_is_among_the_worst_and_has_the_right_name() {
    if !may_run("a_disturbance_during_a_hunt_is_among_the_worst_and_has_the_right_name", lacks_bpf()) {
        return;
    }
    for attempt in 1.. {
        let (run, summary) = disturbed_hunt();
        let named = run.peaks.iter().filter(|peak| {
            let cause = peak.explanation.as_ref().map_or("", |explanation| &explanation.cause);
            peak.cpu == Cpu(1)
                && cause.contains("lathunt-inject")
                && (Ns::from_ms(22)..=Ns::from_ms(28)).contains(&peak.total_ns)
        });
        let mut stolen = run.conditions.during.steal.iter().flatten().filter(|steal| steal.cpu == Cpu(1));
        // A host that takes a tenth of the CPU takes the pulses apart, too: then it is done again, a few times.
        if named.clone().count() < 2 && attempt < 4 && stolen.any(|steal| steal.steal_ns > Ns::from_ms(400)) {
            eprintln!("the host took more than a tenth of CPU 1: tried again");
            continue;
        }
        let why = |peak: &Peak| peak.explanation.as_ref().map(|explanation| explanation.sentence.clone());
        let all: Vec<_> = run.peaks.iter().map(|peak| (peak.total_ns, why(peak))).collect();
        assert!(named.count() >= 2, "{all:#?}");
        assert!(summary.contains("lathunt-inject"), "{summary}");
        break;
    }
}

/// A hunt of 4 s on CPU 1 with three pulses of 25 ms, and its summary.
fn disturbed_hunt() -> (Run, String) {
    let place = tempfile::tempdir().unwrap();
    let child = start(&["-D", "4s", "--load", "none", "-c", "1", "--deadline", "10ms"], place.path());
    // The run file appears with the first second of the measurement itself, after calibration.
    wait_for("the measurement", Duration::from_secs(20), || place.path().join("run.lathunt.json").exists());
    let inject = ["inject", "preemptoff", "-c", "1", "--length", "25ms", "--every", "200ms", "-n", "3"];
    assert!(lathunt().args(inject).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(2), "25 ms is above the deadline of 10 ms");
    let summary = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(summary.starts_with("FAIL"), "{summary}");
    // stdout is not a terminal here, so nothing is left out.
    assert!(!summary.contains(" more ") && summary.contains("\nreport: "), "{summary}");
    (run_in(place.path()), summary)
}

#[test]
#[ignore = "root: run by make test"]
fn an_interrupted_hunt_ends_at_once_with_its_summary() {
    if !may_run("an_interrupted_hunt_ends_with_its_summary", lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mut child = start(&["-D", "60s", "-q"], place.path());
    wait_for("the measurement", Duration::from_secs(20), || place.path().join("run.lathunt.json").exists());
    let begun = Instant::now();
    signal(&child, libc::SIGINT);
    let status = child.wait().unwrap();
    // Well under a second on an idle machine; a busy one may take its time, but not that of the measurement.
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let mut verdict = String::new();
    child.stdout.take().unwrap().read_to_string(&mut verdict).unwrap();
    assert!(verdict.contains("deadline"), "{verdict}");
    assert_eq!(status.code(), Some(3), "stopped early is not measured");
    let run = run_in(place.path());
    let why = run.conditions.during.ended_early.concat();
    assert!(!run.complete && why.contains(" s of 60 s (SIGINT)"), "{why}");
    let on_one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(on_one_line(&verdict).contains(&format!("INCOMPLETE: {why}")), "{verdict}");
    // Read again it is the same answer; it has ended, and may be merged and bounded.
    let shown = lathunt().args(["report", "--text"]).arg(place.path()).output().unwrap();
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(shown.contains("INCONCLUSIVE") && on_one_line(&shown).contains(&why), "{shown}");
}

#[test]
fn two_measurements_on_one_cpu_are_a_doubt_of_both() {
    let places = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let start = |length: &str, place: &Path| {
        let mut command = lathunt();
        command
            .args(["cyclic", "-p", "0", "-q", "-c", "0", "--deadline", "1h", "-D", length, "-o"])
            .arg(place);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut first = start("3s", places[0].path());
    std::thread::sleep(Duration::from_millis(1_200));
    let second = start("300ms", places[1].path());
    let (own, others) = (first.id(), second.id());
    let said = String::from_utf8(second.wait_with_output().unwrap().stderr).unwrap();
    assert!(said.contains("another lathunt measures here since "), "{said}");
    assert_eq!(first.wait().unwrap().code(), Some(3));
    for (place, other) in places.iter().zip([others, own]) {
        let run = run_in(place.path());
        assert!(run.conditions.during.neighbours.iter().any(|one| one.process == other && one.cpus == "0"));
        let reasons = run.verdict.unwrap().reasons;
        assert!(reasons.iter().any(|why| why.contains("the two disturb each other")), "{reasons:?}");
    }
}

#[test]
fn a_ci_run_that_lost_its_deadline_does_not_succeed() {
    let place = tempfile::tempdir().unwrap();
    let code = |more: &[&str]| {
        let mut command = lathunt();
        command.args(["cyclic", "-D", "200ms", "-q", "-c", "0", "-o"]).arg(place.path()).args(more);
        command.output().unwrap().status.code()
    };
    assert_eq!((code(&[]), code(&["--require-verdict"])), (Some(0), Some(3)));
    // Read again it is the same answer.
    let verdict = run_in(place.path()).verdict.unwrap();
    assert_eq!(verdict.outcome, Some(Outcome::Inconclusive));
    assert!(verdict.reasons[0].contains("add --deadline"), "{:?}", verdict.reasons);
}

#[test]
#[ignore = "root: run by make test"]
fn a_killed_hunt_leaves_what_it_measured_and_nothing_running() {
    if !may_run("a_killed_hunt_leaves_what_it_measured_and_nothing_running", lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let marker = format!("sleep 71{}", std::process::id());
    let load = format!("while :; do {marker}; done");
    let mut child = start(&["-D", "60s", "--load", &load, "--deadline", "1us"], place.path());
    wait_for("the measurement", Duration::from_secs(20), || place.path().join("run.lathunt.json").exists());
    std::thread::sleep(Duration::from_millis(1_300));
    signal(&child, libc::SIGKILL);
    child.wait().unwrap();
    let run = run_in(place.path());
    assert!(!run.complete);
    let samples: u64 = run.of(Quantity::Cyclic).map(|series| series.histogram.count()).sum();
    assert!(samples > 500, "{samples} samples of more than a second at 1 ms");
    let verdict = run.verdict.unwrap();
    assert_eq!((verdict.outcome, verdict.deadline_ns), (Some(Outcome::Fail), Some(Ns::from_us(1))));
    assert!(verdict.reasons.iter().any(|why| why.contains("cut off")), "{:?}", verdict.reasons);
    wait_for("the load to be gone", Duration::from_secs(5), || !is_running(&marker));
    // The remaining file is a readable run that is marked as incomplete.
    let shown = lathunt().args(["report", "--text"]).arg(place.path()).output().unwrap();
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
}

fn is_running(command_line: &str) -> bool {
    fs::read_dir("/proc").unwrap().flatten().any(|entry| {
        let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words = String::from_utf8_lossy(&words).replace('\0', " ");
        words.trim() == command_line
    })
}

#[test]
#[ignore = "root: run by make test"]
fn a_full_disk_costs_the_files_and_not_the_answer() {
    if !may_run("a_full_disk_costs_the_files_and_not_the_answer", lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let mount =
        |arguments: &[&str]| Command::new(arguments[0]).args(&arguments[1..]).arg(place.path()).status();
    assert!(mount(&["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs"]).unwrap().success());
    let output = hunt(&["-D", "1s", "--load", "none", "-q"], &place.path().join("out"));
    let left: Vec<_> = fs::read_dir(place.path().join("out"))
        .map(|entries| entries.flatten().map(|entry| entry.file_name()).collect())
        .unwrap_or_default();
    assert!(mount(&["umount"]).unwrap().success());
    let (said, verdict) = (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert_eq!(output.status.code(), Some(1), "{said}");
    let last = said.trim_end().lines().last().unwrap_or_default();
    assert!(last.contains("No space left") && last.contains("free some space"), "{said}");
    assert!(verdict.contains("deadline"), "the verdict is printed all the same: {verdict}");
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".part")), "{left:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_claim_is_measured_as_long_as_it_takes_and_a_late_activation_settles_it() {
    if !may_run("a_claim_is_measured_as_long_as_it_takes", lacks_root()) {
        return;
    }
    let samples = |run: &Run| run.of(Quantity::Cyclic).map(|series| series.histogram.count()).sum::<u64>();
    let place = tempfile::tempdir().unwrap();
    let claimed = hunt(&["--until", "1e-3@95%", "--deadline", "60s", "--load", "none"], place.path());
    assert_ne!(claimed.status.code(), Some(1), "{claimed:?}");
    let taken = samples(&run_in(place.path()));
    assert!((2_995..6_000).contains(&taken), "{taken}");
    let place = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let late = hunt(&["--until", "1e-6@95%", "--deadline", "1us", "--load", "none"], place.path());
    assert_eq!(late.status.code(), Some(2), "{late:?}");
    assert!(samples(&run_in(place.path())) < 100_000 && begun.elapsed() < Duration::from_secs(60));
}

//! What report, plot and compare write, through the binary.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use lathunt_core::conditions::Conditions;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::time::{Cpu, Ns};

fn lathunt(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).current_dir(directory).args(arguments).output().unwrap()
}

fn two_runs() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, cpus) in [("a", 2), ("b", 3)] {
        fs::create_dir(directory.path().join(name)).unwrap();
        let file = directory.path().join(name).join("run.lathunt.json");
        let mut run = example::run(cpus, 120_000);
        run.series.iter_mut().for_each(|series| series.missed = Some(0));
        fs::write(file, run.to_json()).unwrap();
    }
    directory
}

#[test]
fn a_report_lands_beside_its_run_or_where_asked() {
    let directory = two_runs();
    assert!(lathunt(directory.path(), &["report", "a"]).status.success());
    assert!(lathunt(directory.path(), &["report", "a/run.lathunt.json", "-o", "x.html"]).status.success());
    let page = fs::read_to_string(directory.path().join("a/report.html")).unwrap();
    assert_eq!(page, fs::read_to_string(directory.path().join("x.html")).unwrap());
    assert!(page.contains("PASS") && page.contains("id=\"latency-cyclic\""));
    for outside in ["=\"http", "src=", "@import", "url(//", "url(http"] {
        let at = page.replace("http://www.w3.org/2000/svg", "").find(outside);
        assert_eq!(at, None, "the page must be whole by itself, but holds {outside}");
    }
}

#[test]
fn text_and_quiet_go_to_stdout() {
    let directory = two_runs();
    let text = String::from_utf8(lathunt(directory.path(), &["report", "a", "--text"]).stdout).unwrap();
    assert!(text.starts_with("PASS  deadline 100 µs") && text.contains("Worst cases"), "{text}");
    let quiet = String::from_utf8(lathunt(directory.path(), &["report", "a", "-q"]).stdout).unwrap();
    assert!(text.starts_with(&quiet) && quiet.lines().count() == 3, "{quiet}");
    assert!(!directory.path().join("a/report.html").exists());
}

/// What a terminal of its own gets, which `script` makes.
fn on_a_terminal(directory: &Path, arguments: &str, environment: (&str, &str)) -> String {
    let line = format!("{} {arguments}", env!("CARGO_BIN_EXE_lathunt"));
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", &line, "/dev/null"]).current_dir(directory);
    script.env_remove("NO_COLOR").env("TERM", "xterm").env(environment.0, environment.1);
    let output = script.stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn who_wants_no_colour_or_has_a_dumb_terminal_gets_plain_text() {
    let place = two_runs();
    let escapes = |environment| on_a_terminal(place.path(), "report --text a", environment).contains('\x1b');
    assert!(escapes(("TERM", "xterm")));
    assert!(escapes(("NO_COLOR", "")), "empty is not set (no-color.org)");
    assert!(!escapes(("NO_COLOR", "1")));
    assert!(!escapes(("TERM", "dumb")));
    let progress = on_a_terminal(place.path(), "cyclic -D 1 -p 0", ("TERM", "dumb"));
    assert!(progress.contains("median") && !progress.contains('\x1b'), "{progress}");
}

#[test]
fn a_stdout_that_is_full_is_an_error_and_one_that_was_closed_is_none() {
    let directory = two_runs();
    for words in [
        "compare a b",
        "compare a b --json",
        "report a --text",
        "report a -q",
        "restore --list",
        "report --help",
        "-V",
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.current_dir(directory.path()).args(words.split(' ')).env("XDG_RUNTIME_DIR", directory.path());
        let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{words}: {said}");
        assert_eq!(said.matches("cannot write to stdout").count(), 1, "{words}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{words}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn plots_of_one_and_of_several_runs() {
    let directory = two_runs();
    for arguments in [
        &["plot", "a", "-o", "one.svg"][..],
        &["plot", "a", "b", "-o", "two.svg"],
        &["plot", "a", "--kind", "seconds", "--quantity", "timer", "-o", "seconds.svg"],
        &["plot", "a", "b", "-o", "two.html"],
    ] {
        let output = lathunt(directory.path(), arguments);
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
    let read = |name: &str| fs::read_to_string(directory.path().join(name)).unwrap();
    let lines = |name: &str| read(name).matches("vector-effect=\"non-scaling-stroke\" d=\"M").count();
    // Each line has its path and its maximum; the latency plot has the deadline besides.
    assert_eq!(lines("one.svg"), 2 * 2 + 1);
    assert_eq!(lines("two.svg"), 5 * 2 + 1);
    assert_eq!(lines("seconds.svg"), 2 * 2);
    assert!(read("two.svg").contains(">a: CPU 0: max") && read("two.svg").contains(">b: CPU 2: max"));
    assert!(read("two.html").contains("id=\"seconds-cyclic\""));
    let unknown = lathunt(directory.path(), &["plot", "a", "--quantity", "npt", "-o", "x.svg"]);
    let said = String::from_utf8_lossy(&unknown.stderr).into_owned();
    assert!(said.contains("the runs have cyclic, timer, wakeup"), "{said}");
}

#[test]
fn a_png_is_made_where_rsvg_convert_is_and_its_absence_is_one_line() {
    let directory = two_runs();
    // Programs first in the caller's PATH are not run as root.
    let planted = directory.path().join("rsvg-convert");
    let is_root = lathunt_host::testing::lacks_root().is_none();
    if is_root {
        fs::write(&planted, "#!/bin/sh\n: >planted-was-run\nexit 1\n").unwrap();
        fs::set_permissions(&planted, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
    let without = Command::new(env!("CARGO_BIN_EXE_lathunt"))
        .current_dir(directory.path())
        .args(["plot", "a", "-o", "x.png"])
        .env("PATH", directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8(without.stderr).unwrap();
    assert!(!directory.path().join("planted-was-run").exists(), "{said}");
    if !is_root || lathunt_host::programs::find("rsvg-convert").is_none() {
        assert_eq!(without.status.code(), Some(1));
        assert!(said.contains("librsvg2-bin") && said.lines().count() == 1, "{said}");
        assert!(!directory.path().join("x.png").exists());
    }
    let absent = Command::new("rsvg-convert")
        .arg("--version")
        .output()
        .err()
        .map(|_| "needs rsvg-convert (librsvg2-bin)");
    if !lathunt_host::testing::may_run("a_png_is_made_where_rsvg_convert_is", absent) {
        return;
    }
    let output = lathunt(directory.path(), &["plot", "a", "-o", "x.png"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let png = fs::read(directory.path().join("x.png")).unwrap();
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    let width = u32::from_be_bytes(png[16..20].try_into().unwrap());
    assert_eq!(width, 1920);
}

#[test]
fn a_comparison_is_a_table_or_json() {
    let directory = two_runs();
    let table = String::from_utf8(lathunt(directory.path(), &["compare", "a", "b"]).stdout).unwrap();
    assert!(table.contains("B/A") && table.contains("! machine: CPUs online"), "{table}");
    let json = lathunt(directory.path(), &["compare", "a", "b", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["runs"].as_array().unwrap().len(), 2);
    assert_eq!(json["rows"][0]["ratios"][0]["max"], 1.0);
}

/// A run of 60 seconds with a sample of 100 µs in the first `late` of them, without a deadline.
fn with_late_seconds(directory: &Path, name: &str, late: u32) -> Run {
    let mut histogram = Histogram::new(Layout::LATENCY);
    let mut run = Run::new(Conditions::default());
    let seconds = (0..60).map(|second| {
        let max_ns = Ns::from_us(if second < late { 100 } else { 20 });
        (0..999).for_each(|_| histogram.record(Ns::from_us(10)));
        histogram.record(max_ns);
        SecondMax { second, max_ns }
    });
    let seconds: Vec<SecondMax> = seconds.collect();
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram);
    series.set_seconds(seconds);
    run.series = vec![series];
    run.complete = true;
    fs::write(directory.join(name), run.to_json()).unwrap();
    run
}

#[test]
fn a_run_that_is_worse_than_allowed_fails_and_one_that_may_be_so_by_chance_does_not() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let mut last = Run::new(Conditions::default());
    for (name, late) in [("calm", 0), ("once", 1), ("often", 9)] {
        last = with_late_seconds(place, name, late);
    }
    let against = |run: &str, limits: &str| {
        let output = lathunt(place, &["compare", "calm", run, "--fail-on", limits]);
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = against("calm", "max +20%, p99.99 +10%");
    assert_eq!((code, text.contains("no figure exceeds its limit\n")), (Some(0), true), "{text}");
    let (code, text) = against("once", "max +20%");
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("~ CPU 0: max 100 µs is above 24.0 µs (A: 20.0 µs)"), "{text}");
    let (code, text) = against("often", "max +20%, p99.99 +10%");
    assert_eq!(code, Some(2), "{text}");
    assert!(text.contains("! CPU 0: max 100 µs") && text.contains("9 of 60 seconds above"), "{text}");
    assert_eq!(against("often", "max +100us").0, Some(0));
    last.complete = false;
    fs::write(place.join("cut"), last.to_json()).unwrap();
    assert_eq!(against("cut", "max +100us").0, Some(3));
    assert_eq!(against("cut", "max +20%").0, Some(2), "what is worse already stays so");
    let json = lathunt(place, &["compare", "calm", "often", "once", "--fail-on", "max +1us", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(
        (&told["fail_on"][0]["outcome"], &told["fail_on"][1]["outcome"]),
        (&"worse".into(), &"not-significant".into())
    );
    for bad in ["max", "max -5%", "p101 +1%", "", "max +20%,"] {
        let output = lathunt(place, &["compare", "calm", "often", "--fail-on", bad]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{bad}");
    }
}

#[test]
fn a_run_is_told_to_machines_that_run_tests() {
    let directory = two_runs();
    let write = || lathunt(directory.path(), &["report", "a", "--junit", "tests.xml"]);
    // A second time: it may replace what it wrote.
    assert!(write().status.success() && write().status.success());
    let xml = fs::read_to_string(directory.path().join("tests.xml")).unwrap();
    assert!(xml.contains("<testsuite name=\"lathunt a\" tests=\"3\" failures=\"0\" errors=\"0\""), "{xml}");
    assert!(!directory.path().join("a/report.html").exists());
    let told = lathunt(directory.path(), &["report", "a", "--annotations"]).stdout;
    assert!(String::from_utf8(told).unwrap().starts_with("::notice title=lathunt PASS%3A a::"));
    fs::write(directory.path().join("pom.xml"), "<testsuites>mine</testsuites>\n").unwrap();
    let refused = lathunt(directory.path(), &["report", "a", "--junit", "pom.xml"]);
    assert_eq!(refused.status.code(), Some(1));
}

#[test]
#[ignore = "root: run by make test"]
fn a_full_disk_gives_one_line_and_keeps_the_old_file() {
    if !lathunt_host::testing::may_run("a_full_disk", lathunt_host::testing::lacks_root()) {
        return;
    }
    let directory = two_runs();
    let disk = directory.path().join("disk");
    fs::create_dir(&disk).unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&disk).status().unwrap();
    assert!(mounted.success());
    fs::write(disk.join("report.html"), "old").unwrap();
    let output = lathunt(directory.path(), &["report", "b", "--force", "-o", "disk/report.html"]);
    let (left, old) = (fs::read_dir(&disk).unwrap().count(), fs::read(disk.join("report.html")).unwrap());
    assert!(Command::new("umount").arg(&disk).status().unwrap().success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("free some space") && said.lines().count() == 1, "{said}");
    assert_eq!((left, old.as_slice()), (1, &b"old"[..]), "nothing half-written stays");
}

#[test]
#[ignore = "root: run by make test"]
fn an_injection_that_is_interrupted_tells_what_it_did() {
    if !lathunt_host::testing::may_run("an_injection_that_is", lathunt_host::testing::lacks_root()) {
        return;
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args([
        "inject", "thread", "-c", "1", "--length", "100us", "--every", "20ms", "--count", "1000", "--json",
    ]);
    let child = command.stdout(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1_500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a report");
    let count = report["count"].as_u64().unwrap();
    assert!(output.status.success() && (1..1_000).contains(&count), "{count} pulses, {:?}", output.status);
    assert_eq!(report["pulses"].as_array().unwrap().len() as u64, count);
}

#[test]
fn a_run_of_cyclic_carries_its_conditions_and_how_long_it_really_was() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["cyclic", "-D", "60s", "-l", "50", "-p", "0", "-c", "0", "--json"]);
    let run = Run::from_json(std::str::from_utf8(&command.output().unwrap().stdout).unwrap()).unwrap();
    let Conditions { started, duration_s, machine, kernel, during, .. } = run.conditions;
    assert!(duration_s.is_some_and(|seconds| (0.049..30.0).contains(&seconds)), "{duration_s:?}");
    assert!(started.is_some() && kernel.release.is_some() && during.steal.is_some());
    assert_eq!(machine.cpus_measured.as_deref(), Some("0"));
}

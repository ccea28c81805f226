//! `lathunt bound`: the published fits through the command, exit codes, one-line errors.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use lathunt_core::comm::Comm;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::window::{SeriesKey, UnixMs, Window, WindowSeries};
use lathunt_core::path_analysis::executions::Collector;
use lathunt_core::path_analysis::{Longest, PathAnalysis};
use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_core::verdict::{JudgedBy, Outcome};
use lathunt_host::beneath::Foreign;
use lathunt_host::monitor::clocks;
use lathunt_host::monitor::store::{Limits, Saved, Store};
use serde_json::Value;

const RAIN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data/bound/rain.txt");

fn bound(directory: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.current_dir(directory).arg("bound").args(arguments).output().unwrap()
}

fn refused(directory: &Path, arguments: &[&str], expected: &str) {
    let output = bound(directory, arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
    assert!(said.contains(expected) && said.lines().count() == 1, "{arguments:?}: {said}");
}

#[test]
fn published_rain_goes_through_the_command() {
    let place = tempfile::tempdir().unwrap();
    let arguments = ["--values", RAIN, "--threshold", "30", "--exceedance", "2.739726e-5", "--json"];
    let output = bound(place.path(), &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    let near = |pointer: &str, want: f64, within: f64| {
        let got = answer.pointer(pointer).and_then(Value::as_f64).unwrap();
        assert!((got - want).abs() <= within, "{pointer}: {got}, not {want}");
    };
    near("/gpd/sigma", 7.440_269, 1e-3);
    near("/gpd/xi", 0.184_499, 1e-3);
    near("/gpd/nllh", 485.093_72, 1e-4);
    near("/observed/theta", 0.941_94, 1e-4);
    near("/extrapolated/value_ns", 106.328, 0.05);
    near("/extrapolated/upper_ns", 184.919, 0.5);
}

/// The largest is 86.6, the next one 85.3; rounded down to tens, both may be above 85.
#[test]
fn plain_numbers_are_compared_with_a_level_in_their_unit() {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("tens.txt"), "70\n80\n60\n").unwrap();
    let above = |arguments: &[&str]| {
        let output = bound(place.path(), arguments);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        (output.status.code(), answer["observed"]["level_ns"].as_f64(), answer["observed"]["above"].as_u64())
    };
    let rain = |level| above(&["--values", RAIN, "--json", "--level", level]);
    assert_eq!(rain("86.6"), (Some(0), Some(86.6), Some(0)));
    assert_eq!(rain("86.5"), (Some(2), Some(86.5), Some(1)));
    assert_eq!(rain("-1").0, Some(2));
    let tens = ["--values", "tens.txt", "--json", "--level", "85"];
    assert_eq!(above(&tens), (Some(0), Some(85.0), Some(0)));
    assert_eq!(above(&[&tens[..], &["--class-width", "10"]].concat()), (Some(3), Some(85.0), Some(1)));
    assert_eq!(above(&[&tens[..], &["--block-maxima"]].concat()), (Some(0), Some(85.0), Some(0)));
    refused(place.path(), &["--values", "tens.txt", "--level", "inf"], "--level inf");
}

#[test]
fn bad_input_gets_one_line_and_a_short_run_no_number() {
    let place = tempfile::tempdir().unwrap();
    let run = example::run(2, 300);
    fs::write(place.path().join("a.json"), run.to_json()).unwrap();
    let mut other = run.clone();
    other.conditions.load = Some("another".to_owned());
    fs::write(place.path().join("b.json"), other.to_json()).unwrap();
    fs::write(place.path().join("bad.txt"), "1\n2\nNaN\n").unwrap();
    fs::write(place.path().join("none.txt"), "\n").unwrap();
    refused(place.path(), &["a.json", "--confidence", "1"], "--confidence 1");
    refused(place.path(), &["a.json", "--exceedance", "0"], "--exceedance 0");
    refused(place.path(), &["a.json", "--per", "week"], "--per week");
    refused(place.path(), &["a.json", "b.json"], "load");
    refused(place.path(), &["--values", "bad.txt"], "line 3");
    refused(place.path(), &["--values", "none.txt"], "no numbers");
    refused(place.path(), &["a.json", "-c", "77"], "no sample");
    refused(place.path(), &["a.json", "-c", "0,77"], "no sample of CPU 77");
    refused(place.path(), &["a.json", "a.json"], "are the same run");
    let write = |name: &str, run: &Run| fs::write(place.path().join(name), run.to_json()).unwrap();
    let mut later = run.clone();
    later.series.iter_mut().for_each(|series| series.histogram.record(Ns(9_000)));
    later.series.iter_mut().for_each(|series| (series.replayed, series.missed) = (None, Some(0)));
    later.conditions.started = Some("2026-07-01T10:00:30+00:00".to_owned());
    let mut first = run.clone();
    (first.conditions.started, first.conditions.duration_s) =
        (Some("2026-07-01T12:00:00+02:00".to_owned()), Some(60.0));
    later.conditions.duration_s = Some(60.0);
    write("first.json", &first);
    write("later.json", &later);
    refused(place.path(), &["first.json", "later.json"], "were measured at the same time");
    assert_eq!(bound(place.path(), &["first.json", "later.json", "--mixed"]).status.code(), Some(0));
    let mut uneven = run.clone();
    uneven.series[1].interval_ns = Some(Ns(777_000));
    write("uneven.json", &uneven);
    refused(place.path(), &["uneven.json", "--per", "hour"], "different intervals");
    refused(place.path(), &["a.json", "uneven.json"], "interval");
    for (text, named) in [
        ("1\n1e300\n", "line 2"),
        ("3e-320\n", "line 1"),
        ("1,5\n", "'1,5'"),
        ("1 2\n", "'1 2'"),
        ("inf\n", "inf"),
    ] {
        fs::write(place.path().join("odd.txt"), text).unwrap();
        refused(place.path(), &["--values", "odd.txt"], named);
    }
    fs::write(place.path().join("odd.txt"), "\u{feff}1\r\n2.5\r\n").unwrap();
    refused(place.path(), &["--values", "odd.txt", "--class-width", "1"], "2.5");
    fs::write(place.path().join("long.txt"), "1".repeat(1 << 20)).unwrap();
    refused(place.path(), &["--values", "long.txt"], "line 1 has 1048576 bytes");
    fs::write(place.path().join("large.txt"), "1\n9007199254740993\n-9007199254740993\n").unwrap();
    let output = bound(place.path(), &["--values", "large.txt"]);
    let large = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(large.contains("largest 9.007199254740994e15 of 3"), "not rounded down: {large}");
    let output = bound(place.path(), &["--values", "odd.txt"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("largest 2.5 of 2 samples"), "{output:?}");
    refused(place.path(), &[], "see --help");
    let output = bound(place.path(), &["a.json", "b.json", "--mixed", "--json"]);
    let answers: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answers.as_array().map(Vec::len), Some(2));
    for answer in answers.as_array().unwrap() {
        assert_eq!(answer.pointer("/extrapolated/value_ns"), Some(&Value::Null), "{answer}");
        assert_eq!(answer["criteria"].as_array().map(Vec::len), Some(4));
    }
    let output = bound(place.path(), &["a.json", "--deadline", "10us"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn the_plots_and_the_answer_are_written_where_they_were_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let rain = ["--values", RAIN, "--threshold", "30", "--exceedance", "2.739726e-5"];
    let asked = [&rain[..], &["-o", "out", "--plot", "rain.svg"]].concat();
    let output = bound(place.path(), &asked);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
    let drawing = read("rain.svg");
    for line in ["observed", "fitted tail, largest likelihood", "upper limit"] {
        assert!(drawing.contains(line), "{line}");
    }
    let answer: Value = serde_json::from_str(&read("out/bound.json")).unwrap();
    assert!(answer.pointer("/extrapolated/upper_ns").unwrap().is_number());
    let page = read("out/bound.html");
    for plot in ["exceedance", "quantiles", "mean-excess", "shape", "in-time"] {
        assert!(page.contains(&format!("id=\"bound-{plot}-0\"")), "{plot}");
    }
    // Its own files may be replaced; those of others not.
    assert!(bound(place.path(), &asked).status.success());
    fs::write(place.path().join("mine.svg"), "<svg>mine</svg>").unwrap();
    refused(place.path(), &[&rain[..], &["--plot", "mine.svg"]].concat(), "mine.svg");
    refused(place.path(), &[&rain[..], &["--plot", "rain.pdf"]].concat(), "must end in");
}

#[test]
fn strictly_a_run_that_was_not_long_enough_is_inconclusive_also_where_it_is_read_again() {
    let place = tempfile::tempdir().unwrap();
    let mut run = example::run(2, 300);
    run.losses.clear();
    run.series.iter_mut().for_each(|series| (series.missed, series.lost) = (Some(0), 0));
    fs::write(place.path().join("a.json"), run.to_json()).unwrap();
    let far = ["a.json", "--deadline", "1s"];
    assert_eq!(bound(place.path(), &far).status.code(), Some(0));
    let strict = bound(place.path(), &[&far[..], &["--strict", "osadl"]].concat());
    assert_eq!(strict.status.code(), Some(3), "{}", String::from_utf8_lossy(&strict.stdout));
    let late = bound(place.path(), &["a.json", "--deadline", "10us", "--strict", "osadl"]);
    assert_eq!(late.status.code(), Some(2), "a sample above the deadline settles it");

    // The file says PASS, and that all criteria were to be met: they were not.
    let verdict = run.verdict.as_mut().unwrap();
    (verdict.outcome, verdict.strict) = (Some(Outcome::Pass), true);
    (verdict.deadline_ns, verdict.judged_by) = (Some(Ns::from_ms(1_000)), Some(JudgedBy::Instrument));
    fs::write(place.path().join("b.json"), run.to_json()).unwrap();
    let mut report = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let told = report.current_dir(&place).args(["report", "--text", "b.json"]).output().unwrap();
    let told = String::from_utf8(told.stdout).unwrap();
    assert!(told.starts_with("INCONCLUSIVE"), "{told}");
    assert!(told.contains("criterion 'long enough' not met"), "{told}");
}

#[test]
fn the_table_of_samples_needed_has_the_published_figure() {
    let place = tempfile::tempdir().unwrap();
    let text = String::from_utf8(bound(place.path(), &["--needed"]).stdout).unwrap();
    assert!(text.contains("fewer than 1e-7") && text.contains("95 %:    29957322"), "{text}");
    // ln(0.001) / ln(1 - 2.5e-7), rounded up; no column of another confidence takes its place.
    let arguments = ["--needed", "--exceedance", "2.5e-7", "--confidence", "0.999", "--interval", "1ms"];
    let text = String::from_utf8(bound(place.path(), &arguments).stdout).unwrap();
    assert!(text.lines().count() == 2 && text.contains("fewer than 2.5e-7"), "{text}");
    assert!(text.contains("99.9 %:    27631018      7.676 h"), "{text}");
    let text = bound(place.path(), &["--needed", "--exceedance", "1e-30"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("more than 2^63"));
    refused(place.path(), &["--needed", "--deadline", "1ms"], "cannot be used with");
}

#[test]
fn the_commands_of_the_how_to_print_what_it_shows() {
    let directory = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/howto"));
    let page = fs::read_to_string(directory.join("how-sure.md")).unwrap();
    let mut lines = page.lines().filter_map(|line| line.strip_prefix("    "));
    let mut shown = 0;
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ lathunt bound ") else { continue };
        let expected = lines.next().unwrap();
        let output = bound(directory, &command.split(' ').collect::<Vec<_>>());
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.lines().any(|printed| printed.starts_with(expected)), "{command}: {text}");
        shown += 1;
    }
    assert_eq!(shown, 3);
}

/// 100 windows of a second, of two CPUs and one task with 1000 samples each; three samples of CPU 1 are late.
fn database(path: &Path) {
    let now = clocks::wall();
    let limits = Limits { keep: Ns(86_400_000_000_000), bytes: 1 << 30 };
    let (mut store, _) = Store::open(path, limits, now, Foreign::Refused).unwrap();
    let series = |key: SeriesKey, late: u64, lost: u64| {
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..1_000 - late).for_each(|n| histogram.record(Ns(5_000 + n * 3)));
        (0..late).for_each(|n| histogram.record(Ns(300_500 + n)));
        WindowSeries { key, histogram, lost, peak: None, peak_at: None, held: None }
    };
    for n in 0..100i64 {
        let late = if [20, 50, 80].contains(&n) { 1 } else { 0 };
        let of_task = SeriesKey::of_task(Quantity::Wakeup, Comm::cut("motion"));
        let of_cpu = |cpu| SeriesKey::of_cpu(Quantity::Wakeup, Cpu(cpu));
        let all = vec![series(of_cpu(0), 0, 0), series(of_cpu(1), late, 0), series(of_task, 0, 0)];
        let begin = UnixMs(now.0 - (100 - n) * 1_000);
        let end = UnixMs(begin.0 + 1_000);
        let window = Window { begin, end, measured: Ns(1_000_000_000), whole: true, series: all };
        assert!(matches!(store.close(window, None), Saved::Yes));
    }
}

#[test]
fn the_windows_of_a_monitor_give_the_statement_of_the_late_samples_that_are_in_them() {
    let place = tempfile::tempdir().unwrap();
    database(&place.path().join("m.sqlite"));
    let answer = |arguments: &[&str], code: i32| -> Value {
        let output = bound(place.path(), &[&["--database", "m.sqlite", "--json"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let all = answer(&["--deadline", "100us", "--since", "1"], 2);
    assert_eq!(
        (all["observed"]["samples"].as_u64(), all["observed"]["above"].as_u64()),
        (Some(200_000), Some(3))
    );
    assert_eq!(all["observed"]["max_ns"], 300_500.0);
    assert_eq!(all["extrapolated"]["upper_ns"], Value::Null);
    // Garwood's limit after 3 of a Poisson mean is 7.7537; less where clusters are counted once.
    let (upper, theta) =
        (&all["observed"]["probability_upper"], all["observed"]["theta"].as_f64().unwrap_or(1.0));
    let mean = upper.as_f64().unwrap() * 200_000.0 * theta;
    assert!((7.7..7.8).contains(&mean), "{all}");
    assert_eq!(all["criteria"].as_array().map(Vec::len), Some(4));
    let of_cpu_0 = answer(&["--deadline", "100us", "-c", "0", "--quantity", "wakeup"], 0);
    assert_eq!(of_cpu_0["observed"]["samples"], 100_000);
    answer(&["--deadline", "100us", "-c", "0", "--strict", "osadl"], 3);
    let late = answer(&["--task", "motion", "--deadline", "100us"], 0);
    assert!(late["observed"]["probability_upper"].is_number(), "{late}");
    // Activations of unknown threads are missing: no number, and no success.
    let (mut store, _) = Store::open(
        &place.path().join("m.sqlite"),
        Limits { keep: Ns(u64::MAX / 2), bytes: 1 << 30 },
        clocks::wall(),
        Foreign::Refused,
    )
    .unwrap();
    store.event(Event::new(
        clocks::wall(),
        Kind::ActivationsLost,
        "5 activations were overwritten".to_owned(),
    ));
    drop(store);
    let unknown = answer(&["--task", "motion", "--deadline", "100us"], 3);
    assert_eq!(unknown["observed"]["probability_upper"], Value::Null);
    let refused = |arguments: &[&str], expected: &str| {
        refused(place.path(), &[&["--database", "m.sqlite"], arguments].concat(), expected);
    };
    refused(&["-c", "7"], "no sample of CPUs 7 since");
    refused(&["--task", "other"], "no sample of the tasks called other since");
    refused(&["--quantity", "cyclic"], "a monitor does not record it");
    refused(&["--since", "0"], "above 0");
    refused(&["a.json"], "cannot be used with");
    fs::write(place.path().join("text"), "no database").unwrap();
    self::refused(place.path(), &["--database", "text"], "text");
    self::refused(place.path(), &["--database", "absent"], "absent");
}

#[test]
fn plain_numbers_do_not_meet_criteria_that_nothing_is_known_of() {
    let place = tempfile::tempdir().unwrap();
    assert_eq!(bound(place.path(), &["--values", RAIN, "--strict", "osadl"]).status.code(), Some(3));
}

/// The terms of rtsl's published example, of two vectors that came twice.
fn path_analysis(cpu: u32) -> PathAnalysis {
    let longest = |ns: u64| {
        let place = "begins in lock+0x1; ends in unlock+0x2".to_owned();
        Some(Longest { ns: Ns(ns), end: Mono(1), thread: Thread::default(), place })
    };
    let mut collector = Collector::new("vector local_timer".to_owned());
    [(0, 46_687), (200_000, 2_634), (10_000_000, 46_687)]
        .into_iter()
        .for_each(|(at, took)| collector.add(Mono(at), Ns(took)));
    PathAnalysis {
        cpu: Cpu(cpu),
        poid: longest(56_194),
        paie: longest(5_167),
        psd: longest(48_092),
        dst: longest(45_883),
        interrupts: vec![collector.executions().clone()],
        lost: 0,
    }
}

#[test]
fn a_path_analysis_gives_a_bound_whose_terms_can_be_added_up() {
    let place = tempfile::tempdir().unwrap();
    let mut run = example::run(2, 300);
    run.conditions.kernel.realtime = Some(true);
    run.path_analysis = vec![path_analysis(0), path_analysis(1)];
    fs::write(place.path().join("paths.json"), run.to_json()).unwrap();
    let output = bound(place.path(), &["paths.json"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find(|line| line.starts_with("bound ")).unwrap_or_else(|| panic!("{said}"));
    // 109,453 without interrupts. With the first vector it is 156,140, and the second one, 200,000 later, is within that and the
    // duration of one that runs when the latency begins.
    assert!(line.starts_with("bound         158.774 µs: of the scheduling latency"), "{line}");
    for term in
        ["POID: 56.194 µs", "DST: 45.883 µs", "PAIE: 5.167 µs", "PSD: 48.092 µs", "no interrupts 109.453 µs"]
    {
        assert!(said.contains(term), "{term}: {said}");
    }
    assert!(said.contains("begins in lock+0x1; ends in unlock+0x2"), "{said}");
    let note = "note: the largest sample is above the bound";
    assert!(!said.contains(note), "{said}");
    let drawn = bound(place.path(), &["paths.json", "--plot", "p.svg"]);
    assert!(drawn.status.success());
    assert!(fs::read_to_string(place.path().join("p.svg")).unwrap().contains("bound 15"));

    let mut beyond = run.clone();
    for path in &mut beyond.path_analysis {
        *path = PathAnalysis { poid: None, paie: None, dst: None, interrupts: Vec::new(), ..path.clone() };
    }
    fs::write(place.path().join("beyond.json"), beyond.to_json()).unwrap();
    let said = String::from_utf8(bound(place.path(), &["beyond.json"]).stdout).unwrap();
    assert!(said.contains(note), "{said}");

    // Without samples it is the whole answer, and without a value the terms still show.
    run.series.clear();
    run.verdict = None;
    run.path_analysis[1].lost = 1;
    fs::write(place.path().join("alone.json"), run.to_json()).unwrap();
    let json = |arguments: &[&str]| -> Value {
        let output = bound(place.path(), &[&["alone.json", "--json"], arguments].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let (all, first) = (json(&[]), json(&["-c", "0"]));
    assert_eq!(
        (&all["bound"]["value_ns"], &first["bound"]["value_ns"]),
        (&Value::Null, &Value::from(158_774.0))
    );
    assert!(all["bound"]["reason"].as_str().unwrap().contains("CPU 1: 1 executions or sections were lost"));
    assert_eq!(all["bound"]["terms"][0]["value_ns"], 56_194);

    // What no measurement can have given is refused.
    run.path_analysis[0].interrupts[0].windows[0].total_ns = Ns(1);
    fs::write(place.path().join("altered.json"), run.to_json()).unwrap();
    refused(place.path(), &["altered.json"], "its longest execution is in no window");
}

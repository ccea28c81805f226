//! `lathunt explain` from the outside: answers, and what it says of files that are none.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn explain(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("explain").args(arguments).output().unwrap()
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/data/cases").join(format!("{name}.dat"))
}

fn json(arguments: &[&str]) -> Value {
    let output = explain(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(arguments: &[&str]) -> String {
    let output = explain(arguments);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(output.stdout.is_empty() && said.trim_end().lines().count() == 1, "{said}");
    said
}

fn explained(node: &Value) -> u64 {
    let gaps = node["gaps"]
        .as_array()
        .map_or(0, |gaps| gaps.iter().map(|gap| gap["duration_ns"].as_u64().unwrap()).sum());
    match node["children"].as_array() {
        Some(children) => children.iter().map(explained).sum::<u64>() + gaps,
        None => node["duration_ns"].as_u64().unwrap(),
    }
}

#[test]
fn a_trace_that_was_exported_as_ctf_is_explained_as_before() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut functions = 0;
    for name in ["futex_pi", "softirq_storm", "pty_worker", "page_fault", "udp_wake"] {
        let (original, exported) = (case(name), place.path().join(name));
        let [original, exported] = [&original, &exported].map(|path| path.to_str().unwrap());
        assert!(explain(&[original, "--ctf", exported]).status.success());
        for question in [["--wakeups", "--evidence"].as_slice(), &["--between", "sys:600", "sys:601"]] {
            let told = |trace| {
                let all = [&[trace, "--worst", "9"], question].concat();
                let text = String::from_utf8(explain(&all).stdout).unwrap();
                // The first line is the file's name and format.
                text.split_once('\n').map(|(_, rest)| rest.to_owned()).unwrap()
            };
            let as_recorded = told(original);
            assert_eq!(told(exported), as_recorded, "{name} {question:?}");
            functions += as_recorded.matches("tick_nohz_handler").count();
        }
    }
    assert!(functions > 0, "kernel functions have names");
}

#[test]
fn every_explained_interval_adds_up_in_the_json() {
    let path = case("inversion");
    let path = path.to_str().unwrap();
    let answers = json(&[path, "--between", "sys:600", "sys:601", "--worst", "3", "--json"]);
    let intervals = answers["passages"].as_array().unwrap();
    assert_eq!(intervals.len(), 3);
    for interval in intervals {
        assert_eq!(interval["total_ns"].as_u64().unwrap(), explained(&interval["tree"]));
        assert!(interval["sentence"].is_string() && interval["remedy"].is_string());
    }
    let wakeups = json(&[path, "--wakeups", "--comm", "servo*", "--json"]);
    assert!(wakeups["passages"]
        .as_array()
        .unwrap()
        .iter()
        .all(|interval| interval["thread"]["comm"] == "servoctl"));
    assert!(json(&[path, "--summary", "--json"])["wakeups"]["count"].as_u64().unwrap() > 10);
}

#[test]
fn what_is_no_trace_gets_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let question = ["--between", "sys:600", "sys:601"];
    let ask = |path: &str| refused(&[&[path], &question[..]].concat());
    assert!(ask(&file("empty", b"")).contains("is empty"));
    assert!(ask(&file("text", b"hello\n")).contains("no trace.dat"));
    assert!(ask(directory.path().join("absent").to_str().unwrap()).contains("absent"));
    assert!(ask(directory.path().to_str().unwrap()).contains("contains no trace"));
    let whole = std::fs::read(case("fsync")).unwrap();
    for cut in [1, 10, 100, 5_000] {
        assert!(ask(&file("cut", &whole[..cut])).contains("cannot read"));
    }
    let path = case("fsync");
    assert!(refused(&[path.to_str().unwrap(), "--syscall", "no_such_call"]).contains("not a system call"));
}

#[test]
fn an_answer_from_a_damaged_trace_ends_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    let line = "  a-1  [000]  1.000000: hrtimer_expire_entry: hrtimer=00000000aa function=hrtimer_wakeup now=1000000000
  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000
  a-1  [000]  1.000003: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=S ==> next_comm=b next_pid=2 next_prio=120\n";
    for (text, code) in [(line.to_owned(), 0), (line.to_owned() + "nothing known\n", 3)] {
        std::fs::write(&path, text).unwrap();
        for question in ["--wakeups", "--summary", "--periods"] {
            let output = explain(&[path.to_str().unwrap(), question]);
            let said = String::from_utf8(output.stdout).unwrap();
            assert_eq!(
                (output.status.code(), said.contains("is damaged")),
                (Some(code), code == 3),
                "{said}"
            );
        }
    }
}

#[test]
fn a_tracers_text_is_answered_without_a_question_and_a_trace_without_switches_ends_with_3() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    let heading = "# tracer: wakeup_rt\r\n# wakeup_rt latency trace v1.1.5 on 6.5.0\r\n# latency: 90 us, #2/2, CPU#0 | (M:preempt_rt #P:4)\r\n";
    let lines = "> a-1  0dN.h3.  1us+:  1:120:R   + [000]  2:  0:R b\r\n> a-1  0d..3.. 88us : 1:120:R ==> [000]  2:  0:R b\r\n";
    std::fs::write(&path, heading.replace("# ", "> # ") + lines).unwrap();
    let output = explain(&[path.to_str().unwrap()]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && said.contains("b/2 (RT 99) waited 90.0 µs for CPU 0"), "{said}");
    let waking = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    std::fs::write(&path, waking).unwrap();
    for question in [
        &["--wakeups"][..],
        &["--between", "event:sched_waking", "event:sched_waking"],
        &["--at", "1.000001"],
    ] {
        let output = explain(&[&[path.to_str().unwrap()], question].concat());
        let said = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.code() == Some(3) && said.contains("sched_switch is not recorded"), "{said}");
    }
    let output = explain(&[path.to_str().unwrap(), "--periods"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.code() == Some(3) && said.contains("hrtimer_expire_entry is not recorded"),
        "{said}"
    );
}

#[test]
fn a_text_that_was_not_read_in_whole_ends_with_3_and_a_table_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("text");
    let line = |at: u32| format!("  dd-7  [001] d.h1.  1.0000{at}: f <-g\n");
    let functions: String = (10..30).map(line).collect();
    let answer = |text: &str| {
        std::fs::write(&path, text).unwrap();
        let output = explain(&[path.to_str().unwrap()]);
        let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code(), said)
    };
    let text = format!("# tracer: function\n#\n{functions}");
    assert_eq!(answer(&text).0, Some(0));
    assert_eq!(answer(&text.replace("  ", "\t")).0, Some(0), "tabs are blanks");
    let (code, said) = answer(&text.replace("[001] d.h1.  1.000015", "(001)"));
    assert!(code == Some(3) && said.contains("a line is not understood"), "{said}");
    let map = "  *A0     995.347121 secs A0 => migration/0:18\n   A0 *B0  995.347149 secs B0 => a:9\n";
    let (code, said) = answer(map);
    assert!(code == Some(1) && said.contains("perf sched map") && said.contains("perf script"), "{said}");
}

#[test]
fn options_that_a_question_would_pass_over_are_refused() {
    let trace = case("fsync");
    let place = tempfile::tempdir().unwrap();
    let out = place.path().join("out");
    let (trace, out) = (trace.to_str().unwrap(), out.to_str().unwrap());
    let of_intervals: [&[&str]; 7] = [
        &["--worst", "3"],
        &["--threshold", "1ms"],
        &["--evidence"],
        &["--maps", "1"],
        &["--root", "/"],
        &["--html", out],
        &["--perfetto", out],
    ];
    let of_threads: [&[&str]; 2] = [&["--tid", "1"], &["--comm", "x"]];
    let refuses = |question: &[&str], option: &[&str]| {
        let said = refused(&[&[trace], question, option].concat());
        assert!(said.contains(&format!("{} has no effect with {}", option[0], question[0])), "{said}");
        assert!(!Path::new(out).exists(), "nothing is written");
    };
    for option in of_intervals {
        refuses(&["--summary"], option);
        refuses(&["--periods"], option);
        refuses(&["--ctf", out], option);
    }
    for option in of_threads {
        refuses(&["--summary"], option);
        refuses(&["--ctf", out], option);
    }
    refuses(&["--ctf", out], &["--json"]);
    assert!(explain(&[trace, "--periods", "--tid", "1", "--json"]).status.success());
}

#[test]
fn a_threshold_that_leaves_nothing_says_how_long_the_longest_was() {
    let trace = case("fsync");
    let question = [trace.to_str().unwrap(), "--wakeups", "--json"];
    let all = json(&question);
    let longest = &all["passages"][0]["total_ns"];
    let none = json(&[&question[..], &["--threshold", "1h"]].concat());
    assert_eq!((none["count"].as_u64(), none["passages"].as_array().map(Vec::len)), (Some(0), Some(0)));
    let text = explain(&[trace.to_str().unwrap(), "--wakeups", "--threshold", "1h"]);
    let said = lathunt_core::time::Ns(longest.as_u64().unwrap()).to_string();
    assert!(String::from_utf8_lossy(&text.stdout).contains(&format!("the longest took {said}")), "{text:?}");
}

#[test]
fn babeltrace2_reads_the_exported_ctf_without_a_word_and_so_do_we() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("ctf");
    let (trace, out) = (case("inversion"), out.to_str().unwrap());
    let written = explain(&[trace.to_str().unwrap(), "--ctf", out]);
    assert!(written.status.success() && written.stderr.is_empty(), "{written:?}");
    let question = ["--between", "sys:600", "sys:601", "--json"];
    let ask = |path: &str| json(&[&[path], &question[..]].concat());
    let (before, after) = (ask(trace.to_str().unwrap()), ask(out));
    assert_eq!(after["trace"]["events"], before["trace"]["events"]);
    for key in ["begin", "end", "thread", "total_ns", "unexplained_ns"] {
        assert_eq!(after["passages"][0][key], before["passages"][0][key], "{key}");
    }
    assert_eq!(explain(&[out, "--ctf", &format!("{out}2")]).status.code(), Some(1), "it is CTF already");
    assert_eq!(explain(&[trace.to_str().unwrap(), "--ctf", out]).status.code(), Some(1), "not empty");
    let peer = Command::new("babeltrace2").arg(out).output();
    let absent = peer.is_err().then_some("babeltrace2 is not installed");
    if lathunt_host::testing::may_run("babeltrace2_reads_the_exported_ctf", absent) {
        let peer = peer.unwrap();
        assert!(peer.status.success() && peer.stderr.is_empty(), "{}", String::from_utf8_lossy(&peer.stderr));
        let lines = String::from_utf8_lossy(&peer.stdout).lines().count();
        assert_eq!(before["trace"]["events"].as_u64(), Some(lines as u64));
    }
}

#[test]
fn periods_and_files_for_other_programs_are_written_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let (page, perfetto) = (file("page.html"), file("trace.perfetto"));
    let trace = case("affinity");
    let trace = trace.to_str().unwrap();
    let exports = ["--html", &page, "--perfetto", &perfetto];
    json(&[&[trace, "--between", "sys:600", "sys:601", "--json", "--worst", "2"], &exports[..]].concat());
    let html = std::fs::read_to_string(page).unwrap();
    assert!(
        html.contains("motord")
            && html.matches("<section").count() == 2
            && !html.contains("http://")
            && !html.contains("https://")
    );
    assert_eq!(std::fs::read(perfetto).unwrap()[0], 0x0a, "a packet");
    let periods = json(&[trace, "--periods", "--json"]);
    assert_eq!(periods["format"], "lathunt-periods");
}

#[test]
fn what_names_files_and_symbols_must_be_something_that_does() {
    let trace = case("page_fault");
    let trace = trace.to_str().unwrap();
    let text = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    for (option, value) in [
        ("--maps", "/dev/zero"),
        ("--maps", "/proc"),
        ("--maps", text),
        ("--kallsyms", "/dev/zero"),
        ("--kallsyms", text),
        ("--root", "/dev/null"),
    ] {
        let said = refused(&[trace, "--wakeups", option, value]);
        assert!(said.contains(value), "{option}: {said}");
    }
}

#[test]
fn a_program_that_is_not_there_leaves_no_trace_of_itself() {
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let out = place.path().join("trace");
    for program in ["/no/such/program", "no-such-program"] {
        let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["trace", "-o", out.to_str().unwrap(), "--", program])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(program) && said.trim_end().lines().count() == 1 && !out.exists(), "{said}");
    }
}

#[test]
fn a_trace_that_comes_through_a_pipe_is_read_like_its_file() {
    let through_a_pipe = |file: &Path| {
        let mut cat = Command::new("cat").arg(file).stdout(std::process::Stdio::piped()).spawn().unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_lathunt"))
            .args(["explain", "/dev/stdin", "--between", "sys:600", "sys:601"])
            .stdin(cat.stdout.take().unwrap())
            .output()
            .unwrap();
        cat.wait().unwrap();
        output
    };
    let file = case("fsync");
    let from_file = explain(&[file.to_str().unwrap(), "--between", "sys:600", "sys:601"]);
    let output = through_a_pipe(&file);
    let told = String::from_utf8_lossy(&output.stdout).replace("/dev/stdin", file.to_str().unwrap());
    assert!(output.status.success() && told == String::from_utf8_lossy(&from_file.stdout), "{output:?}");
    let nothing = through_a_pipe(Path::new("/dev/null"));
    assert_eq!(nothing.status.code(), Some(1));
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    assert!(said.ends_with("the pipe closed without any data\n"), "{said}");
}

//! This binary under the name `cyclictest`: beside the real one, at its edges, and when it is interrupted.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::time::Cpu;
use lathunt_host::sched;
use lathunt_host::testing::{lacks_root, may_run};

struct Ours {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
}

fn ours() -> Ours {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("cyclictest");
    symlink(env!("CARGO_BIN_EXE_lathunt"), &path).unwrap();
    Ours { _directory: directory, path }
}

fn run(arguments: &[&str]) -> Output {
    Command::new(&ours().path).args(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_meant_ends_at_once_with_exit_code_1_and_one_clear_line() {
    for line in
        ["-i 0", "-c 2", "-l abc", "-D abc", "-h 0", "-p 100", "-a 777", "-o 3", "--nonsense", "-t0", "-z"]
    {
        let begun = Instant::now();
        let output = run(&line.split(' ').chain(["-q"]).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(1), "{line}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{line}");
        assert_eq!(stderr(&output).lines().count(), 1, "{line}: {}", stderr(&output));
        assert!(stdout(&output).starts_with("cyclictest V 2.40\nUsage:\ncyclictest <options>\n\n"), "{line}");
    }
    assert_eq!(run(&["--help"]).status.code(), Some(0));
}

#[test]
fn a_file_that_cannot_be_written_takes_nothing_of_the_result_along() {
    let output = run(&["-q", "-l", "5", "--json=/nonexistent/x.json"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("T: 0 (") && stderr(&output).contains("/nonexistent/x.json"));
    let output = run(&["-q", "-l", "5", "-h", "20", "--histfile=/nonexistent/x.hist"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stdout(&output).contains("# Max Latencies: ") && stderr(&output).contains("/nonexistent/x.hist"));
    // nor a stdout that is full the file
    let directory = tempfile::tempdir().unwrap();
    let json = directory.path().join("x.json");
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let ours = ours();
    let mut command = Command::new(&ours.path);
    command.args(["-l", "5"]).arg(format!("--json={}", json.display())).stdout(full).stderr(Stdio::null());
    assert_eq!(command.status().unwrap().code(), Some(1));
    let written: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(written["num_threads"], 1);
}

#[test]
fn root_of_a_user_namespace_has_the_rights_of_who_made_it() {
    let separate = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "prlimit", "--rtprio=0"]).arg(program);
        command
    };
    let allowed = separate(Path::new("true")).status().is_ok_and(|status| status.success());
    let lacks = (!allowed).then_some("needs user namespaces");
    if !may_run("root_of_a_user_namespace", lacks) {
        return;
    }
    let output = separate(&ours().path).args(["-q", "-l", "5", "-p", "80"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = stderr(&output);
    assert!(
        said.contains("Unable to change scheduling policy!") && said.contains("user namespace"),
        "{said}"
    );
}

#[test]
fn memory_for_spikes_is_bounded_and_the_bound_is_told() {
    let output = run(&["-q", "-l", "2", "--spike=1000000", "--spike-nodes=2000000000"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        stderr(&output).contains("--spike-nodes 2000000000: at most 1000000 are listed"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn the_average_is_that_of_the_rows_and_lies_between_minimum_and_maximum() {
    let output = run(&["-q", "-l", "3", "-t", "4", "-h", "1000000", "--json=-"]);
    let text = stdout(&output);
    let json = &text[text.find('{').unwrap()..=text.rfind('}').unwrap()];
    let file: serde_json::Value = serde_json::from_str(json).unwrap();
    for thread in file["thread"].as_object().unwrap().values() {
        let figure = |name: &str| thread[name].as_f64().unwrap();
        let rows = thread["histogram"].as_object().unwrap().iter();
        let sum: f64 = rows.map(|(row, n)| row.parse::<f64>().unwrap() * n.as_f64().unwrap()).sum();
        assert_eq!(thread["histogram_overflows"], 0, "{json}");
        assert!((figure("avg") - sum / figure("cycles")).abs() < 0.006, "{thread}");
        assert!(figure("min") <= figure("avg") && figure("avg") <= figure("max"), "{thread}");
    }
}

#[test]
fn removed_options_of_old_scripts_are_accepted() {
    for line in
        ["-n", "--nanosleep", "--notrace", "-U", "--numa", "-B", "-C", "-E", "-f", "-I", "-P", "-w", "-W"]
    {
        let output = run(&[line, "-q", "-l", "2"]);
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert!(stdout(&output).contains("T: 0 ("), "{line}");
    }
    assert_eq!(
        run(&["-T", "function", "-O", "opt", "-ql2", "-a", "all", "-D", "30s"]).status.code(),
        Some(0)
    );
}

#[test]
fn stdout_under_q_and_h_carries_only_the_block() {
    let text = stdout(&run(&["-q", "-l5", "-t2", "-h 20"]));
    let rows = text.lines().filter(|line| line.starts_with(|c: char| c.is_ascii_digit())).count();
    assert_eq!(rows, 20);
    assert!(text.lines().all(|line| line.is_empty() || line.starts_with(['#', '0'])), "{text}");
    assert!(text.ends_with("\n\n") && !text.ends_with("\n\n\n"));
}

#[test]
fn json_is_valid_whatever_the_words_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("out.json");
    let json = format!("--json={}", file.display());
    for hostile in [&b"quote\"\\"[..], b"line\nbreak\ttab", b"\xff\xfe not utf-8", "–ünï".as_bytes()] {
        let output = Command::new(&ours().path)
            .args(["-q", "-l3", &json])
            .arg(std::ffi::OsStr::from_bytes(hostile))
            .output()
            .unwrap();
        assert!(output.status.success());
        let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        assert_eq!(value["thread"]["0"]["cycles"], 3);
        assert!(value["cmdline:"].as_str().unwrap().contains(&*String::from_utf8_lossy(hostile)));
    }
    // a thread without a sample: rt-tests writes -nan here
    let output = run(&["-q", "-t2", "-i", "1000", "-d", "10000000", "-l3", &json]);
    assert!(output.status.success());
    let value: serde_json::Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    assert_eq!(value["thread"]["1"]["cycles"], 0);
    assert!(value["thread"]["1"]["avg"].is_null());
}

#[test]
fn output_that_cannot_be_written_is_an_error() {
    for option in ["--json=/nonexistent/x", "--fifo=/nonexistent/x"] {
        let output = run(&["-q", "-l3", option]);
        assert_eq!(output.status.code(), Some(1), "{option}");
        assert!(stderr(&output).contains("/nonexistent/x"), "{option}: {}", stderr(&output));
    }
    assert_eq!(run(&["-q", "-l3", "-h5", "--histfile=/nonexistent/x"]).status.code(), Some(1));
}

fn start(arguments: &[&str]) -> (Ours, Child) {
    let ours = ours();
    let child = Command::new(&ours.path)
        .args(arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    (ours, child)
}

fn signal(child: &Child, name: &str) {
    let done = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(done.success());
}

#[test]
fn signals_print_the_status_and_then_the_whole_summary_within_a_second() {
    for (name, interval) in [("-INT", "1000"), ("-TERM", "2000000000")] {
        let (_ours, child) = start(&["-q", "-t2", "-h100", "-i", interval]);
        std::thread::sleep(Duration::from_millis(500));
        signal(&child, "-USR1");
        std::thread::sleep(Duration::from_millis(200));
        let asked = Instant::now();
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(1), "{name}: {:?}", asked.elapsed());
        assert_eq!(output.status.code(), Some(0));
        assert!(stdout(&output).contains("# Max Latencies: "), "{name}");
        assert!(
            stderr(&output).contains("# cyclictest current status:\nT: 0 ("),
            "{name}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn a_named_pipe_hands_out_the_status_and_goes_away() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("stats");
    let (_ours, mut child) = start(&["-q", "-i1000", "--fifo", pipe.to_str().unwrap()]);
    let text = (0..100).find_map(|_| {
        std::thread::sleep(Duration::from_millis(50));
        pipe.exists().then(|| std::fs::read_to_string(&pipe).unwrap())
    });
    assert!(text.unwrap().starts_with("T: 0 ("));
    signal(&child, "-INT");
    assert!(child.wait().unwrap().success());
    assert!(!pipe.exists());
}

/// The text with every number replaced: what is left is the structure, to the byte where widths are fixed.
fn structure(text: &str) -> String {
    let mut out = String::new();
    let mut previous = ' ';
    for c in text.chars() {
        let c = if c.is_ascii_digit() { '9' } else { c };
        // runs of digits and of spaces before them vary with the values inside one width
        let c = if c == '9' && previous == ' ' && out.ends_with(' ') { '9' } else { c };
        if !(c == previous && (c == '9' || c == ' ')) {
            out.push(c);
        }
        previous = c;
    }
    out.replace("( 9", "(9").replace(": 9", ":9").replace(":9", ": 9")
}

#[test]
#[ignore = "root: run by make test"]
fn beside_the_real_cyclictest_the_structure_is_the_same() {
    let real = Path::new("/usr/bin/cyclictest");
    let reason = lacks_root().or_else(|| (!real.exists()).then_some("needs cyclictest (package rt-tests)"));
    if !may_run("beside_the_real_cyclictest_the_structure_is_the_same", reason) {
        return;
    }
    let version = |help: Output| stdout(&help).lines().next().unwrap_or_default().to_owned();
    let theirs = version(Command::new(real).arg("--help").output().unwrap());
    // Since rt-tests 2.7 a histogram has no empty rows and no totals.
    let histograms: &[&str] = match theirs == version(run(&["--help"])) {
        true => &["-q -Sp80 -h 30 -l 50", "-q -Sp80 -H 30 -l 50 -i 500"],
        false => &[],
    };
    for line in histograms.iter().copied().chain([
        "-q -S -p80 -m -l 50",
        "-q -N -p80 -l 50",
        "-q -t 3 -a 1 -p 80 --priospread -l 20",
        "-qm -p80 -l 20 -b 1000000",
        "-q -l 20 --latency=7 -p 3 --policy=rr",
        "-q -l 20 --default-system",
        "-q -l 20 --laptop -x -p4",
        "-q -l 20 -s -p4",
        "-q -l 20 -r -p4",
        "-q -l 20 -A 100 -t2 -p4",
    ]) {
        let words: Vec<&str> = line.split(' ').collect();
        let (theirs, mine) = (Command::new(real).args(&words).output().unwrap(), run(&words));
        assert_eq!(theirs.status.code(), mine.status.code(), "{line}");
        // the list of overflowing cycles has as many entries as there were overflows
        let comparable = |output: &Output| -> String {
            let cut = |line: &str| match line.starts_with("# Thread ") && !line.starts_with("# Thread Ids") {
                true => line.split(':').next().unwrap_or_default().to_owned(),
                false => line.to_owned(),
            };
            let lines: Vec<String> = stdout(output).split('\n').map(cut).collect();
            structure(&lines.join("\n"))
        };
        assert_eq!(comparable(&theirs), comparable(&mine), "{line}");
        let lengths = |output: &Output| -> Vec<usize> {
            let text = stdout(output);
            text.lines().filter(|line| line.starts_with("T:")).map(str::len).collect()
        };
        assert_eq!(lengths(&theirs), lengths(&mine), "{line}: widths of the status lines");
    }
}

/// Whether the first two idle states of a CPU are switched off; `None`: it has no such state.
fn switched_off(cpu: Cpu) -> [Option<bool>; 2] {
    [0, 1].map(|state| {
        let file = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable");
        std::fs::read_to_string(file).ok().map(|text| text.trim() == "1")
    })
}

/// An option of rt-tests 2.8 and later.
#[test]
#[ignore = "root: run by make test"]
fn deeper_idle_states_of_the_measured_cpus_are_off_while_it_runs_and_as_before_afterwards() {
    if !may_run("deeper_idle_states_of_the_measured_cpus", lacks_root()) {
        return;
    }
    let cpus = sched::affinity().unwrap();
    let (other, cpu) = (cpus.iter().next().unwrap(), cpus.iter().next_back().unwrap());
    let before = [switched_off(other), switched_off(cpu)];
    for (deepest, too_deep) in [("0", [false, true]), ("-1", [true, true]), ("7", [false, false])] {
        let ours = ours();
        let mut command = Command::new(&ours.path);
        command.args(["-q", "-p80", "-a", &cpu.to_string(), "-D", "2", "--deepest-idle-state", deepest]);
        let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1_000));
        let during = [switched_off(other), switched_off(cpu)];
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(output.status.success(), "{said}");
        let mut expected = before;
        expected[1].iter_mut().flatten().zip(too_deep).for_each(|(off, too_deep)| *off |= too_deep);
        if other == cpu {
            expected[0] = expected[1];
        }
        assert_eq!(during, expected, "{deepest}: {said}");
        assert_eq!([switched_off(other), switched_off(cpu)], before, "{deepest}");
        assert!(said.contains("not setting cpu_dma_latency, --deepest-idle-state is set instead"), "{said}");
        assert_eq!(said.contains("no deeper idle state"), during == before, "{said}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_break_names_the_thread_and_the_value_and_leaves_0() {
    if !may_run("a_break_names_the_thread_and_the_value_and_leaves_0", lacks_root()) {
        return;
    }
    let output = run(&["-q", "-S", "-p80", "-i", "200", "-b", "1"]);
    assert_eq!(output.status.code(), Some(0));
    let text = stdout(&output);
    let value = |label: &str| -> i64 {
        text.lines().find_map(|line| line.strip_prefix(label)).unwrap().trim().parse().unwrap()
    };
    let tids = text.lines().find_map(|line| line.strip_prefix("# Thread Ids:")).unwrap();
    assert!(tids.split_whitespace().any(|tid| tid.parse() == Ok(value("# Break thread: "))), "{text}");
    assert!(value("# Break value: ") > 1);
}

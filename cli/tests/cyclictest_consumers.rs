//! Third-party consumers of cyclictest read our output: their extraction rules, restated and run on a real run.
//!
//! Each rule names the project it comes from. Where the project uses awk, grep, sed, perl or Python, that program runs
//! here; the values it extracts must be those that the output says.

use std::io::Write;
use std::os::unix::fs::symlink;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

fn cyclictest(arguments: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let binary = directory.path().join("cyclictest");
    symlink(env!("CARGO_BIN_EXE_lathunt"), &binary).unwrap();
    let output = Command::new(&binary).args(arguments.split_whitespace()).output().unwrap();
    assert!(output.status.success(), "{arguments}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn once(cell: &'static OnceLock<String>, arguments: &str) -> &'static str {
    cell.get_or_init(|| cyclictest(arguments))
}

fn histogram() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    once(&TEXT, "-q -S -i 1000 -D 1 -h 400")
}

fn histogram_of_all() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    once(&TEXT, "-q --smp --interval=1000 -D 1 --histofall=300")
}

fn status() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    once(&TEXT, "--smp --interval=200 --distance=0 --quiet --duration=1")
}

/// Values of `# label:` in the text.
fn footer(text: &str, label: &str) -> Vec<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("# {label}:"))).unwrap();
    line.split_whitespace().map(|value| value.parse().unwrap()).collect()
}

/// The number after `label` of each status line.
fn column(text: &str, label: &str) -> Vec<u64> {
    text.lines()
        .filter(|line| line.starts_with("T:") && line.contains(label))
        .map(|line| line.split_once(label).unwrap().1.split_whitespace().next().unwrap().parse().unwrap())
        .collect()
}

fn through(program: &str, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{program}: {error}"));
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn numbers(text: &str) -> Vec<u64> {
    text.split_whitespace()
        .map(|value| value.parse().unwrap_or_else(|_| panic!("no number: {text}")))
        .collect()
}

fn python(script: &str, input: &str) -> Vec<u64> {
    numbers(&through("python3", &["-c", script], input))
}

#[test]
fn osadl_mklatencyplot_finds_the_maximum_and_one_column_per_cpu() {
    let shell = r##"cat >output
max=`grep "Max Latencies" output | tr " " "\n" | sort -n | tail -1 | sed s/^0*//`
grep -v -e "^#" -e "^$" output | tr " " "\t" >histogram
echo $max; cut -f1,2 histogram | wc -l; awk -F'\t' '{print NF}' histogram | sort -u"##;
    let directory = tempfile::tempdir().unwrap();
    let script = format!("cd {}\n{shell}", directory.path().display());
    let cpus = footer(histogram(), "Max Latencies").len() as u64;
    let max = *footer(histogram(), "Max Latencies").iter().max().unwrap();
    assert_eq!(numbers(&through("sh", &["-c", &script], histogram())), [max, 400, 1 + cpus]);
}

#[test]
fn rteval_reads_every_row_and_the_maxima() {
    let script = r##"
import sys
maxima = []
rows = 0
for line in sys.stdin:
    if line.startswith('#'):
        if line.startswith('# Max Latencies: '):
            maxima = [int(x) for x in line.split(':')[1].split()]
        continue
    vals = line.split()
    if not vals:
        continue
    index = int(vals[0])
    assert index == rows
    assert len(vals) >= 3 or len(vals) == 2
    [int(v) for v in vals]
    rows += 1
print(rows, *maxima)
"##;
    let mut expected = vec![400];
    expected.extend(footer(histogram(), "Max Latencies"));
    assert_eq!(python(script, histogram()), expected);
}

#[test]
fn openshift_and_the_benchmark_wrapper_find_their_lines() {
    let script = r##"
import re, sys
text = sys.stdin.read()
print(*re.search(r"# Max Latencies:\t*\s*(.*)\s*\t*", text).group(1).split())
for what in ("Avg.+", "Max.+", "Min.+"):
    print(*re.findall(what, text)[0].split(":")[1].split())
"##;
    let mut expected = footer(histogram(), "Max Latencies");
    for label in ["Avg Latencies", "Max Latencies", "Min Latencies"] {
        expected.extend(footer(histogram(), label));
    }
    assert_eq!(python(script, histogram()), expected);
}

#[test]
fn bench_cyclictest_takes_the_last_value_as_the_maximum_of_all() {
    let perl = r##"while (<>) { if (/^# Max Latencies:\s+(.*)$/) { my @l = split(/\s+/, $1); print $l[-1], "\n"; } }"##;
    let maxima = footer(histogram_of_all(), "Max Latencies");
    let max = maxima.iter().max().unwrap();
    assert_eq!(numbers(&through("perl", &["-e", perl], histogram_of_all())), [*max]);
    assert_eq!(maxima.last(), Some(max));
}

#[test]
fn checkbox_reads_latencies_and_overflows() {
    let script = r##"
import sys
for line in sys.stdin:
    if "# Max Latencies" in line or "# Histogram Overflows" in line:
        print(*[int(x) for x in line.split(":")[1].split()])
"##;
    let expected =
        [footer(histogram(), "Max Latencies"), footer(histogram(), "Histogram Overflows")].concat();
    assert_eq!(python(script, histogram()), expected);
}

#[test]
fn yardstick_and_nilrt_cut_with_awk() {
    let first = through("awk", &["/# Min Latencies:/{print $4}"], histogram());
    assert_eq!(numbers(&first), [footer(histogram(), "Min Latencies")[0]]);
    let all = through("awk", &["/# Max Latencies:/{for (i = 4; i <= NF; i++) print $i}"], histogram_of_all());
    assert_eq!(numbers(&all), footer(histogram_of_all(), "Max Latencies"));
}

#[test]
fn mmtests_splits_the_footer_at_single_spaces() {
    let perl = r#"while (<>) {
        if (/^# (...) Latencies: (.*)/) { print join(" ", split(/ /, $2)), "\n" if $1 eq "Avg"; }
        if (/^# Histogram Overflows: (.*)/) { print join(" ", split(/ /, $1)), "\n"; }
        if (/^T: ([0-9+]) .*Avg:\s+([0-9]+).*Max:\s+([0-9]+)/) { print "$1 $2 $3\n"; } }"#;
    let expected =
        [footer(histogram(), "Avg Latencies"), footer(histogram(), "Histogram Overflows")].concat();
    assert_eq!(numbers(&through("perl", &["-e", perl], histogram())), expected);
    let (avg, max) = (column(status(), "Avg:"), column(status(), "Max:"));
    let expected: Vec<u64> = (0..avg.len().min(10)).flat_map(|at| [at as u64, avg[at], max[at]]).collect();
    assert_eq!(numbers(&through("perl", &["-e", perl], status())), expected);
}

#[test]
fn lkp_reads_the_latency_target_and_the_keys() {
    let script = r##"
import re, sys
for line in sys.stdin:
    if re.match(r"^# Thread", line): continue
    if re.match(r"^# (/dev/cpu_dma_latency) set to (.+)us", line): continue
    m = re.match(r"^# (.*):(.+)", line)
    if m and m.group(1).lower() == "max latencies": print(*m.group(2).split())
"##;
    assert_eq!(python(script, histogram()), footer(histogram(), "Max Latencies"));
}

#[test]
fn the_status_lines_are_what_regular_expressions_of_five_projects_expect() {
    let script = r##"
import re, sys
data = sys.stdin.read()
lines = [l for l in data.splitlines() if l.startswith("T:")]
for l in lines:
    # canonical/rt-tests-snap, with the priority of this run
    assert re.search(r"T:\s*\d+\s*\(\s*\d+\)\s*P:\s*0\s*I:200\s*C:\s*\d+\s*Min:\s*\d+\s*Act:\s*\d+\s*Avg:\s*\d+\s*Max:\s*\d+", l), l
    # openembedded rt_bmark.py
    m = re.search(rb"C:\s*(\d+).*Min:\s*(\d+).*Avg:\s*(\d+).*Max:\s*(\d+)", l.encode())
    print(*[int(g) for g in m.groups()])
    # workload-automation
    head, sep, tail = l.partition("C:")
    assert sep
    words = (sep + tail).replace(":", " ").split()
    pairs = dict(zip(words[0::2], words[1::2]))
    assert list(pairs) == ["C", "Min", "Act", "Avg", "Max"], pairs
    # DistroKit
    m = re.search(r"Min:\s+(?P<min>\w+)\s+Act:\s+\w+\s+Avg:\s+(?P<avg>\w+)\s+Max:\s+(?P<max>\w+)", l)
    assert int(m.group("max")) == int(pairs["Max"])
    # wasmthingy, a basic regular expression of sed
    assert re.match(r"T: *([0-9]*) *\( *([0-9]*) *\) P: *[0-9]* *I: *[0-9]* *C: *[0-9]* *Min: *[0-9]* *Act: *[0-9]* *Avg: *[0-9]* *Max: *([0-9]*)$", l)
"##;
    let [count, min, avg, max] = ["C:", "Min:", "Avg:", "Max:"].map(|label| column(status(), label));
    let expected: Vec<u64> = (0..count.len()).flat_map(|at| [count[at], min[at], avg[at], max[at]]).collect();
    assert_eq!(python(script, status()), expected);
}

#[test]
fn open_estuary_greps_the_maxima() {
    let shell = r#"grep -o "Max:[[:space:]]*[0-9]*" | awk -F: '{print $2}'"#;
    assert_eq!(numbers(&through("sh", &["-c", shell], status())), column(status(), "Max:"));
}

#[test]
fn seapath_reads_rows_and_labels_behind_a_glued_command_line() {
    let script = r##"
import re, sys
label = re.compile(r"^#\s*(?P<label>[A-Za-z ]+?)\s*:\s*(?P<values>[\d\s]*)$")
row = re.compile(r"^(?P<bucket>\d+)(?P<counts>(?:\s+\d+)+)\s*$")
rows, labels = 0, {}
for line in sys.stdin.read().splitlines():
    m = label.match(line)
    if m: labels[m.group("label")] = m.group("values")
    elif row.match(line): rows += 1
print(rows)
print(*labels["Max Latencies"].split())
"##;
    let glued = format!("cyclictest -l 60 -m -S -h400 -q{}", histogram());
    let mut expected = vec![400];
    expected.extend(footer(histogram(), "Max Latencies"));
    assert_eq!(python(script, &glued), expected);
}

#[test]
fn the_civcode_plot_reads_the_table_with_commas() {
    let shell = r##"grep -v -e "^#" -e "^$" | tr " " "," | tr "\t" "," | awk -F, '{print NF}' | sort -u"##;
    let cpus = footer(histogram(), "Max Latencies").len() as u64;
    assert_eq!(numbers(&through("sh", &["-c", shell], histogram())), [1 + cpus]);
}

#[test]
fn ghaf_reads_spikes() {
    let text = cyclictest("-q -S -i 1000 -D 1 --spike=1 --spike-nodes=16");
    let script = r##"
import re, sys
listed, total = 0, None
for line in sys.stdin.read().splitlines():
    if re.match(r"^T:\s*(\d+)\s+Spike:\s*(\d+):\s+TS:\s*(\d+)$", line): listed += 1
    m = re.match(r"^spikes\s*=\s*(\d+)$", line)
    if m: total = int(m.group(1))
print(listed, total)
"##;
    let read = python(script, &text);
    assert_eq!(read[0], 16);
    assert_eq!(read[1], column(&text, "C:").iter().sum::<u64>(), "every latency is above 1 us");
}

#[test]
fn linaro_and_intel_read_the_json() {
    let text = cyclictest("-q -S -i 1000 -D 1 -h 100 --json=-");
    let json = &text[text.find('{').unwrap()..=text.rfind("\n}\n").unwrap() + 1];
    let script = r##"
import json, sys
data = json.load(sys.stdin)
assert data["file_version"] == 1 and data["return_code"] == 0
assert data.get("rt_test_version:") or data.get("rt_test_version")
assert data["cmdline:"] == data["cmdline"]
for i in range(int(data["num_threads"])):
    t = data["thread"][str(i)]
    if "receiver" in t: t = t["receiver"]
    int(t["cpu"]); int(t["node"])
    assert t["min"] <= t["avg"] <= t["max"] + 1
    assert sum(t["histogram"].values()) + t["histogram_overflows"] == t["cycles"]
    print(t["min"], t["max"], t["cycles"])
"##;
    let cpus = footer(&text, "Max Latencies").len();
    let read = python(script, json);
    assert_eq!(read.len(), cpus * 3);
    assert_eq!(read[1], footer(&text, "Max Latencies")[0]);
}

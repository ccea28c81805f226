//! Every output of the tool, with hostile texts in every field of its input that may hold any text. One table lists the outputs; an
//! option or a command that is not in it, and not in the list of those tested elsewhere, fails the test.
//!
//! Inert means: no control, format or direction character, no markup but our own, no command to a CI system, no formula of a
//! spreadsheet, and JSON, XML and SVG that their readers accept.

#[path = "../../core/tests/example/mod.rs"]
mod example;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use lathunt_core::comm::Comm;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::monitor::window::{SeriesKey, UnixMs, Window, WindowSeries, QUANTITIES};
use lathunt_core::peak::Peak;
use lathunt_core::run::Run;
use lathunt_core::series::Thread;
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::beneath::Foreign;
use lathunt_host::monitor::store::{Limits, Store};
use serde_json::Value;

const BINARY: &str = env!("CARGO_BIN_EXE_lathunt");

/// Every class of characters that acts somewhere, as a line of its own where lines count.
const HOSTILE: &str = "\x1b[2J\x1b]0;pwned\x07\u{9b}31m\r\n::set-output name=x::y\n::error::z\n##[error]q ##vso[task.x]w\n\
    \u{202e}\u{2066}\u{61c}\u{ad}\u{feff}\u{e0041}\u{2028}<script>alert(1)</script>\"'><img src=x>-->]]></style>&amp;%0A::x\
    |`id`${y}\0\x7f\u{fffd}";
/// The same at the start of a cell or a line.
const FORMULA: &str = "=cmd|'!A1";

/// What an output is read by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reader {
    Text,
    /// Has commands of its own.
    Annotations,
    Json,
    Csv,
    Markup,
    /// Read by programs alone: only the words of its description are texts.
    Binary,
}
use Reader::{Annotations, Binary, Csv, Json, Markup, Text};

/// Arguments, reader of stdout, files that must be there and their readers.
type Output = (&'static str, Reader, &'static [(&'static str, Reader)]);

const OUTPUTS: &[Output] = &[
    ("report p.json --text --all", Text, &[]),
    ("report p.json --text -q", Text, &[]),
    ("report p.json -o o/report.html", Text, &[("o/report.html", Markup)]),
    ("report p.json --annotations", Annotations, &[]),
    ("report p.json --junit o/j.xml", Text, &[("o/j.xml", Markup)]),
    ("report p.json --junit -", Markup, &[]),
    ("plot p.json -o o/p.svg", Text, &[("o/p.svg", Markup)]),
    ("plot p.json q.json -o o/p.html", Text, &[("o/p.html", Markup)]),
    ("plot p.json -o -", Markup, &[]),
    ("compare p.json q.json", Text, &[]),
    ("compare p.json p.json --json", Json, &[]),
    ("compare p.json p.json --plot o/c.svg", Text, &[("o/c.svg", Markup)]),
    ("compare p.json p.json --plot o/c.html", Text, &[("o/c.html", Markup)]),
    ("bound p.json", Text, &[]),
    ("bound p.json --json", Json, &[]),
    (
        "bound p.json -o o/b --plot o/b.svg",
        Text,
        &[("o/b/bound.json", Json), ("o/b/bound.html", Markup), ("o/b.svg", Markup)],
    ),
    ("bound --database m.sqlite --json", Json, &[]),
    ("merge p.json q.json -o o/m.json", Text, &[("o/m.json", Json)]),
    ("import text -o o/i.json", Text, &[("o/i.json", Json)]),
    ("explain flight.bin --summary", Text, &[]),
    ("explain flight.bin --summary --json", Json, &[]),
    ("explain flight.bin --periods", Text, &[]),
    ("explain flight.bin --wakeups --worst 20 --evidence", Text, &[]),
    ("explain flight.bin --wakeups --worst 20 --json", Json, &[]),
    ("explain flight.bin --wakeups --html o/e.html", Text, &[("o/e.html", Markup)]),
    ("explain flight.bin --wakeups --perfetto o/e.perfetto", Text, &[("o/e.perfetto", Binary)]),
    ("explain flight.bin --ctf o/ctf", Text, &[("o/ctf/metadata", Text)]),
    ("history --database m.sqlite", Text, &[]),
    ("history --database m.sqlite --json", Json, &[]),
    ("history --database m.sqlite --csv", Csv, &[]),
    ("history --database m.sqlite --plot o/h.svg", Text, &[("o/h.svg", Markup)]),
    ("history --database m.sqlite --plot o/h.html", Text, &[("o/h.html", Markup)]),
    ("munin --database m.sqlite", Text, &[]),
    ("munin config --database m.sqlite", Text, &[]),
    ("check -D 0s --root root --all", Text, &[]),
    ("check -D 0s --root root --json", Json, &[]),
    ("check -D 0s --root root --fix-script", Text, &[]),
    ("check -D 0s --snapshot o/s.json", Text, &[("o/s.json", Json)]),
];

/// Commands and options whose outputs other tests look at, because they need root, a measurement or a task set: with the test.
const ELSEWHERE: &[(&str, &str)] = &[
    (
        "hunt cyclic hwlat npt record trace monitor tasks",
        "hostile_names.rs: threads and task sets of such names",
    ),
    ("box respond", "latency_box_hostile.rs: datagrams hold numbers only"),
    ("clock inject completions isolate restore", "no names of others, except of the journal: hostile.rs"),
];

/// Options that name an input, or change nothing of what may be in an output.
const INPUTS: &[&str] = &[
    "--database",
    "--values",
    "--root",
    "--kconfig",
    "--maps",
    "--kallsyms",
    "--force",
    "--help",
    "--version",
    "--series",
    "--deadline",
    "--needed",
    "--mixed",
    "--title",
    "--merge-cpus",
    "--quiet",
];

/// `value` with the hostile text in place of each text that may be any.
fn poisoned(value: &mut Value, path: &str, fixed: &BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter_mut().for_each(|(key, value)| poisoned(value, &format!("{path}.{key}"), fixed));
        }
        Value::Array(values) => values.iter_mut().for_each(|value| poisoned(value, path, fixed)),
        Value::String(text) if !fixed.contains(path) => *text = format!("{FORMULA}{HOSTILE}"),
        _ => {}
    }
}

/// Paths of the texts in `value`.
fn texts(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| texts(value, &format!("{path}.{key}"), found));
        }
        Value::Array(values) => values.iter().for_each(|value| texts(value, path, found)),
        Value::String(_) => drop(found.insert(path.to_owned())),
        _ => {}
    }
}

/// The example run with every text poisoned that a reader of runs accepts.
fn run() -> String {
    let mut run = example::run(2, 40_000);
    run.conditions.notes.push("a note".to_owned());
    let honest = serde_json::to_value(&run).unwrap();
    let mut paths = BTreeSet::new();
    texts(&honest, "", &mut paths);
    let is_read = |value: &Value| Run::from_json(&value.to_string()).is_ok();
    let is_fixed = |path: &&String| {
        let mut value = honest.clone();
        let others = paths.iter().filter(|other| other != path).cloned().collect();
        poisoned(&mut value, "", &others);
        !is_read(&value)
    };
    let fixed: BTreeSet<String> = paths.iter().filter(is_fixed).cloned().collect();
    let mut value = honest;
    poisoned(&mut value, "", &fixed);
    assert!(is_read(&value) && paths.len() - fixed.len() > 20, "{fixed:?}");
    value.to_string()
}

/// A database of a monitor with three windows.
fn database(path: &Path) {
    let limits = Limits { keep: Ns(400 * 86_400_000_000_000), bytes: 1 << 30 };
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as i64;
    let at = |number: i64| UnixMs(now + (number - 4) * 300_000);
    let (mut store, _) = Store::open(path, limits, at(0), Foreign::Refused).unwrap();
    let text = || format!("{FORMULA}{HOSTILE}");
    for number in 1..4 {
        let keys = QUANTITIES.map(|quantity| SeriesKey::of_cpu(quantity, Cpu(0)));
        let of_task = SeriesKey::of_task(QUANTITIES[0], Comm::cut("\x1b[2J\u{202e}<b>\"\n::x"));
        let series = keys.into_iter().chain([of_task]).map(|key| {
            let mut histogram = Histogram::new(Layout::LATENCY);
            (0..200).for_each(|n| histogram.record(Ns(4_000 + n * n * 9)));
            let peak = Peak {
                quantity: key.quantity,
                cpu: Cpu(0),
                begin: Mono(7),
                total_ns: histogram.max().unwrap(),
                victim: Thread { comm: text(), ..Thread::default() },
                culprit: Some(text()),
                explanation: None,
                no_evidence: Some(text()),
                context: None,
                during_action: false,
                counted_as: None,
            };
            WindowSeries { key, histogram, lost: 0, peak: Some(peak), peak_at: Some(at(number)), held: None }
        });
        let series = series.collect();
        let window = Window {
            begin: at(number - 1),
            end: at(number),
            measured: Ns(300_000_000_000),
            whole: true,
            series,
        };
        store.close(window, None);
    }
}

/// A recording in which two names are hostile ones of the same length.
fn recording() -> Vec<u8> {
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data/flight/small.bin"));
    let mut bytes = fs::read(data).unwrap();
    for (name, hostile) in [
        (&b"qemu-system-x86"[..], &b"\x1b[2J\xc2\x9b\n<b>\"'\xff\xfe\x07"[..]),
        (b"tokio-rt-worker", b"::error::x##[e]"),
        (b"rcu_preempt", b"=cmd|'\xe2\x80\xae!A"),
    ] {
        assert_eq!(name.len(), hostile.len());
        let places: Vec<usize> =
            (0..bytes.len() - name.len()).filter(|&at| bytes[at..].starts_with(name)).collect();
        assert!(!places.is_empty());
        places.into_iter().for_each(|at| bytes[at..at + name.len()].copy_from_slice(hostile));
    }
    bytes
}

fn inputs(place: &Path) {
    fs::create_dir(place.join("o")).unwrap();
    let run = run();
    fs::write(place.join("p.json"), &run).unwrap();
    fs::write(place.join("q.json"), example::run(2, 20_000).to_json()).unwrap();
    fs::write(place.join("flight.bin"), recording()).unwrap();
    database(&place.join("m.sqlite"));
    let line = "T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      10\n";
    fs::write(place.join("text"), format!("# \x1b[2J\u{202e}::error::x\n{line}")).unwrap();
    let root = place.join("root");
    for file in [
        "proc/cmdline",
        "proc/version",
        "proc/sys/kernel/hostname",
        "proc/sys/kernel/osrelease",
        "proc/cpuinfo",
    ] {
        fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        fs::write(root.join(file), HOSTILE).unwrap();
    }
}

/// Whether `c` must never be in an output; the ranges of printable.rs, named once more.
fn acts(c: char) -> bool {
    (c.is_control() && !matches!(c, '\n' | '\t'))
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}')
        || matches!(c, '\u{feff}' | '\u{e0000}'..='\u{e0fff}')
}

fn inert(what: &str, bytes: &[u8], reader: Reader, is_log: bool) {
    if reader == Binary {
        for text in ["\x1b[2J", "\u{202e}", "\u{9b}"] {
            assert!(!bytes.windows(text.len()).any(|part| part == text.as_bytes()), "{what}: {text:?}");
        }
        return;
    }
    let text = std::str::from_utf8(bytes).unwrap_or_else(|error| panic!("{what}: {error}"));
    let text = if reader == Csv { text.replace("\r\n", "\n") } else { text.to_owned() };
    let around = |at: usize| text[at..].chars().take(60).collect::<String>();
    let found = text.char_indices().find(|&(_, c)| acts(c)).map(|(at, _)| around(at));
    assert!(found.is_none(), "{what}: {found:?}");
    for line in text.lines().filter(|_| is_log) {
        let own = ["error", "warning", "notice"]
            .iter()
            .any(|level| reader == Annotations && line.starts_with(&format!("::{level} title=lathunt")));
        let commands = own || !line.trim_start().starts_with("::");
        assert!(
            commands && !line.contains("##[") && !line.contains("##vso["),
            "{what}: a CI system obeys {line:?}"
        );
    }
    match reader {
        Json => drop(serde_json::from_str::<Value>(&text).unwrap_or_else(|error| panic!("{what}: {error}"))),
        Markup => {
            for active in ["<script>alert", "<img", "</style>&amp;", "-->]]>", "<b>"] {
                assert!(!text.contains(active), "{what}: {active}");
            }
        }
        Csv => assert!(!text.contains(&format!(",\"{FORMULA}")), "{what}: a formula"),
        Text | Annotations | Binary => {}
    }
}

#[test]
fn no_text_of_an_input_acts_in_any_output() {
    let place = tempfile::tempdir().unwrap();
    inputs(place.path());
    let mut shown = 0;
    for &(words, reader, files) in OUTPUTS {
        let mut command = Command::new("timeout");
        command.args(["60", BINARY]).args(words.split(' ')).current_dir(place.path());
        let output = command.stdin(std::process::Stdio::null()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0 | 2 | 3)), "{words}: {} {said}", output.status);
        inert(words, &output.stdout, reader, true);
        inert(&format!("{words}: stderr"), &output.stderr, Text, true);
        shown += usize::from(String::from_utf8_lossy(&output.stdout).contains("pwned"));
        for &(file, reader) in files {
            let bytes =
                fs::read(place.path().join(file)).unwrap_or_else(|error| panic!("{words}: {file}: {error}"));
            shown += usize::from(String::from_utf8_lossy(&bytes).contains("pwned"));
            inert(&format!("{words}: {file}"), &bytes, reader, false);
        }
    }
    assert!(shown >= 15, "the texts are shown, inert: in {shown} outputs");
}

/// What `lathunt WORDS --help` prints.
fn help(words: &[&str]) -> String {
    let output = Command::new(BINARY).args(words).arg("--help").output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Options of a command with the first words of their descriptions.
fn options(help: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut lines = help.lines().peekable();
    while let Some(line) = lines.next() {
        let at = line.trim_start();
        let Some(long) = at.split(' ').find(|word| word.starts_with("--")).filter(|_| at.starts_with('-'))
        else {
            continue;
        };
        let text = format!(
            "{at} {}",
            lines.peek().map(|line| line.trim()).filter(|line| !line.starts_with('-')).unwrap_or("")
        );
        found.insert(long.to_owned(), text);
    }
    found
}

#[test]
fn every_command_and_every_option_that_writes_is_in_the_table() {
    let all = help(&[]);
    let commands =
        all.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(commands.len() > 20, "{commands:?}");
    let mut missing = Vec::new();
    for command in commands.iter().filter(|command| **command != "help") {
        if ELSEWHERE.iter().any(|(names, _)| names.split(' ').any(|name| name == *command)) {
            continue;
        }
        let used: Vec<&str> = OUTPUTS
            .iter()
            .map(|(words, ..)| *words)
            .filter(|words| words.split(' ').next() == Some(command))
            .collect();
        assert!(!used.is_empty(), "{command} is not in the table of outputs");
        for (option, text) in options(&help(&[command])) {
            let writes = ["<FILE", "<DIR", "<PATH", "Print ", "Write ", "Also ", "Show ", "Save ", "Plot "];
            let is_output =
                writes.iter().any(|word| text.contains(word)) && !INPUTS.contains(&option.as_str());
            let short = if option == "--output" { "-o" } else { option.as_str() };
            let short = if option == "--quiet" { "-q" } else { short };
            let is_used = used.iter().any(|words| words.split(' ').any(|word| word == short));
            if is_output && !is_used {
                missing.push(format!("{command} {option}: {text}"));
            }
        }
    }
    assert!(missing.is_empty(), "not in the table of outputs: {missing:#?}");
}

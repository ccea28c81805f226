//! Threads and markers whose names are escape sequences, markup and direction marks, recorded for real: no output of lathunt acts on a
//! terminal or a page.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Names of threads have 15 bytes.
const NAMES: [&str; 7] = [
    "\x1b]0;pwned\x07<b>",
    "\x1b[2J\x1b[Hx",
    "<img src=x>'\"",
    "\u{202e}\u{e0041}\u{61c}evil",
    "a\nb\r${x}`id`",
    "::error::x",
    "##[error]x",
];

/// What is left of each name wherever it is inert.
const PLAIN: [&str; 7] = ["pwned", "[2J", "img src=x", "evil", "`id`", "error::x", "[error]x"];

/// What a name would act with on a terminal, and, the last two, in a page.
const ACTIVE: [&str; 9] =
    ["\x1b", "\x07", "\r", "\u{2028}", "\u{202e}", "\u{e0041}", "\u{61c}", "<img src=x", "<b>"];

struct Threads(Arc<AtomicBool>);

impl Drop for Threads {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Real-time threads of these names, awake every millisecond; for 60 s at most.
fn threads() -> Threads {
    let over = Arc::new(AtomicBool::new(false));
    for name in NAMES {
        let over = Arc::clone(&over);
        std::thread::spawn(move || {
            let begun = Instant::now();
            let name = std::ffi::CString::new(name).unwrap();
            let parameters = libc::sched_param { sched_priority: 10 };
            // SAFETY: a text that ends with NUL and plain values.
            unsafe {
                libc::prctl(libc::PR_SET_NAME, name.as_ptr());
                libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters);
            }
            while !over.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(60) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
    }
    std::thread::sleep(Duration::from_millis(20));
    Threads(over)
}

fn lathunt(arguments: &[&str], directory: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["60", env!("CARGO_BIN_EXE_lathunt")]).args(arguments);
    command.current_dir(directory).output().unwrap()
}

/// That nothing in `text` acts, and that the names are there as far as they are plain.
fn inert(what: &str, text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let is_page = what.ends_with(".html");
    for active in ACTIVE.iter().filter(|active| is_page || !active.starts_with('<')) {
        let found = text.find(*active).map(|at| text[at..].chars().take(40).collect::<String>());
        assert!(found.is_none(), "{what}: {active:?} in {found:?}");
    }
    let is_log = what.starts_with('[');
    let own = |line: &str| {
        ["error", "warning", "notice"].iter().any(|level| line.starts_with(&format!("::{level} title=")))
    };
    let commands = |line: &&str| (line.trim_start().starts_with("::") && !own(line)) || line.contains("##[");
    let command = text.lines().find(commands).filter(|_| is_log);
    assert!(command.is_none(), "{what}: a CI system obeys {command:?}");
    text.contains("evil") || text.contains("pwned")
}

#[test]
#[ignore = "needs root"]
fn hostile_names_of_recorded_threads_act_nowhere() {
    if !lathunt_host::testing::may_run(
        "hostile_names_of_recorded_threads_act_nowhere",
        lathunt_host::testing::lacks_root(),
    ) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let threads = threads();
    let mut named = 0;
    for arguments in [
        &["trace", "--events", "min", "-D", "1", "-o", "t"][..],
        &["record", "-D", "2", "-o", "r"],
        &["record", "-D", "2", "--json", "-o", "j"],
        &["record", "-D", "2", "--latency-hist", "h", "-o", "k"],
    ] {
        let output = lathunt(arguments, place.path());
        assert!(
            matches!(output.status.code(), Some(0 | 2 | 3)),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        named += usize::from(inert(&format!("{arguments:?}"), &output.stdout));
        inert(&format!("{arguments:?}"), &output.stderr);
    }
    let mut monitor = Command::new("timeout");
    monitor.args([
        "-s",
        "INT",
        "8",
        env!("CARGO_BIN_EXE_lathunt"),
        "monitor",
        "--window",
        "5s",
        "--listen",
        "off",
    ]);
    let monitored = monitor.args(["--database", "m.sqlite"]).current_dir(place.path()).output().unwrap();
    inert("[monitor]", &monitored.stderr);
    drop(threads);
    let munin = lathunt(&["munin", "--database", "m.sqlite"], place.path());
    // The master puts it on its pages as it is. It names the worst victim of each CPU, which may be any of them.
    inert("munin.html", &munin.stdout);
    let names = String::from_utf8_lossy(&munin.stdout);
    assert!(PLAIN.iter().any(|plain| names.contains(plain)), "{munin:?}");
    for arguments in [
        &["history", "--database", "m.sqlite"][..],
        &["history", "--database", "m.sqlite", "--json"],
        &["history", "--database", "m.sqlite", "--csv"],
        &["history", "--database", "m.sqlite", "--plot", "history.html"],
        &["explain", "t", "--summary"],
        &["explain", "t", "--wakeups", "--worst", "20", "--evidence"],
        &["explain", "t", "--wakeups", "--json"],
        &["explain", "t", "--periods"],
        &["explain", "t", "--wakeups", "--worst", "20", "--html", "page.html"],
        &["explain", "t", "--wakeups", "--worst", "20", "--perfetto", "page.perfetto"],
        &["explain", "t", "--ctf", "ctf"],
        &["explain", "r", "--summary"],
        &["explain", "r", "--wakeups", "--worst", "20"],
        &["report", "r"],
    ] {
        let output = lathunt(arguments, place.path());
        assert!(
            matches!(output.status.code(), Some(0 | 3)),
            "{arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        named += usize::from(inert(&format!("{arguments:?}"), &output.stdout));
        inert(&format!("{arguments:?}"), &output.stderr);
    }
    assert!(named > 4, "the names are shown, as text: {named}");
    for page in ["page.html", "r/report.html", "history.html"] {
        inert(page, &fs::read(at(page)).unwrap());
    }
    // Perfetto and CTF hand names on: Perfetto as text that is shown, CTF as the bytes of the trace, but not in what describes them.
    let perfetto = fs::read(at("page.perfetto")).unwrap();
    for active in ["\x1b]0;", "\x1b[2J", "\u{202e}"] {
        let found = perfetto.windows(active.len()).any(|part| part == active.as_bytes());
        assert!(!found, "page.perfetto has {active:?}");
    }
    inert("ctf/metadata", &fs::read(at("ctf/metadata")).unwrap());
    for entry in fs::read_dir(at("h")).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_file() {
            inert(&path.display().to_string(), &fs::read(path).unwrap());
        }
    }
}

/// Names of a task set are anybody's: they come with the file.
#[test]
fn hostile_names_of_a_task_set_act_nowhere() {
    let place = tempfile::tempdir().unwrap();
    let mut tasks = serde_json::Map::new();
    let further = ["</script><b>", "../../etc/x", "=cmd|x!A1", "{\"a\":", "}\\\"", "\u{2028}x\t", "-->]]>"];
    for (at, name) in NAMES.iter().chain(&further).enumerate() {
        let due = if at == 0 { 1 } else { 5_000 }; // the worst one is named wherever there is room for one name
        let timer = serde_json::json!({"ref": "unique", "period": 20_000});
        tasks.insert((*name).to_owned(), serde_json::json!({"run": 100, "deadline": due, "timer": timer}));
    }
    fs::write(place.path().join("set.json"), serde_json::json!({ "tasks": tasks }).to_string()).unwrap();
    let mut named = 0;
    for arguments in [
        &["tasks", "run", "set.json", "-s", "other", "-D", "300ms", "-o", "o", "--log", "logs"][..],
        &["tasks", "run", "set.json", "-s", "fiber-fp", "-D", "300ms", "-o", "f", "--trace", "fibers.txt"],
        &["tasks", "analyse", "set.json"],
        &["tasks", "compare", "set.json", "-D", "100ms", "-o", "c"],
        &["report", "o", "--text", "--annotations", "--junit", "tests.xml"],
        &["report", "f", "-o", "page.html"],
        &["plot", "o", "-o", "plot.svg"],
        &["plot", "o", "f", "-o", "plot.html"],
        &["compare", "o", "f"],
        &["bound", "o", "-o", "bound"],
        &["explain", "fibers.txt", "--wakeups", "--html", "fibers.html", "--perfetto", "fibers.perfetto"],
    ] {
        let output = lathunt(arguments, place.path());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(matches!(output.status.code(), Some(0..=3)) && !said.contains("panicked"), "{said}");
        named += usize::from(inert(&format!("{arguments:?}"), &output.stdout));
        inert(&format!("{arguments:?}: stderr"), &output.stderr);
    }
    assert!(named > 4, "the names are shown, as text: {named}");
    let mut pages = 0;
    for directory in ["", "o", "f", "c", "bound", "logs"] {
        for entry in fs::read_dir(place.path().join(directory)).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_page =
                path.extension().is_some_and(|it| ["html", "svg", "xml"].iter().any(|one| it == *one));
            if is_page {
                // As of a page: neither may have markup of a name.
                inert(&format!("{}.html", path.display()), &fs::read(&path).unwrap());
                pages += 1;
            }
        }
    }
    assert!(pages >= 7, "{pages}");
    assert!(!place.path().join("../../etc/x").exists());
}

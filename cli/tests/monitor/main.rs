//! The monitor from outside: a daemon that records, survives, refuses, and tells Prometheus and Munin the same.

mod daemon;
mod fleet;
mod http;
mod jobs;
mod munin;
mod prometheus;
mod refusals;

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{channel, Receiver};
use std::time::{Duration, Instant};

fn lathunt() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.stdin(Stdio::null());
    command
}

/// What `scripts/fetch-peers` unpacked; `None` where it has not.
fn peers() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/peers");
    place.join("complete").exists().then(|| place.canonicalize().unwrap())
}

const NO_PEERS: &str = "Prometheus and munin-node are not there; scripts/fetch-peers unpacks them";

/// A running monitor; killed when dropped.
struct Monitor {
    child: Child,
    database: PathBuf,
    port: u16,
    said: Receiver<String>,
}

impl Monitor {
    /// Starts one in `place` with windows of `window` and waits until it records.
    fn start(place: &Path, window: &str) -> Monitor {
        Monitor::started_by(lathunt(), place, window)
    }

    /// The same with more arguments.
    fn with(place: &Path, window: &str, arguments: &[&str]) -> Monitor {
        Monitor::started_with(lathunt(), place, window, arguments)
    }

    /// The same by another command that ends in `lathunt`.
    fn started_by(command: Command, place: &Path, window: &str) -> Monitor {
        Monitor::started_with(command, place, window, &[])
    }

    fn started_with(mut command: Command, place: &Path, window: &str, arguments: &[&str]) -> Monitor {
        let database = place.join("monitor.sqlite");
        command.args(["monitor", "--listen", "127.0.0.1:0", "--window", window, "--database"]).arg(&database);
        command.args(arguments);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, said) = channel();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).all(|line| sender.send(line).is_ok()));
        let mut monitor = Monitor { child, database, port: 0, said };
        let metrics = monitor.line("metrics: http://127.0.0.1:");
        let digits: String = metrics.chars().take_while(char::is_ascii_digit).collect();
        monitor.port = digits.parse().unwrap_or_else(|error| panic!("{error}: {metrics}"));
        monitor.line("recording: ");
        monitor
    }

    /// Waits for a line on stderr that holds `what`; gives what follows.
    fn line(&self, what: &str) -> String {
        let mut before = Vec::new();
        loop {
            let Ok(line) = self.said.recv_timeout(Duration::from_secs(30)) else {
                panic!("no '{what}'; it said {before:?}")
            };
            if let Some((_, after)) = line.split_once(what) {
                return after.to_owned();
            }
            before.push(line);
        }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child was not waited for, so its pid is its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Any other program; killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn history(database: &Path, arguments: &[&str]) -> Output {
    lathunt().args(["history", "--database"]).arg(database).args(arguments).output().unwrap()
}

fn history_json(database: &Path) -> serde_json::Value {
    let output = history(database, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn events(history: &serde_json::Value, kind: &str) -> usize {
    history["events"].as_array().unwrap().iter().filter(|event| event["kind"] == kind).count()
}

fn wait_for(what: &str, longest: Duration, mut is_there: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_there() {
        assert!(begun.elapsed() < longest, "waited {longest:?} for {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// The CPU that is disturbed: the last one, so that the first stays free.
fn last_cpu() -> String {
    let online = fs::read_to_string("/sys/devices/system/cpu/online").unwrap();
    online.trim().rsplit(['-', ',']).next().unwrap().to_owned()
}

/// Whether what `told` looks for comes. A window tells its worst case, which may be the host's, so it disturbs again.
fn disturbed_until(told: impl Fn() -> bool) -> bool {
    let again = || {
        disturb();
        (0..50).any(|_| {
            std::thread::sleep(Duration::from_millis(100));
            told()
        })
    };
    told() || (0..8).any(|_| again())
}

/// How long each injected disturbance lasts.
const INJECTED: Duration = Duration::from_millis(25);

/// A real-time victim on the last CPU, and a FIFO hog above it that takes the CPU for 25 ms several times.
fn disturb() {
    let cpu = last_cpu();
    let mut victim = lathunt();
    victim.args(["cyclic", "-q", "-c", &cpu, "-p", "80", "-i", "1000", "-D", "5s"]);
    let victim = Running(victim.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(700));
    let injected = lathunt()
        .args(["inject", "thread", "-c", &cpu, "--length", "25ms", "--every", "400ms", "-n", "8", "-p", "98"])
        .output()
        .unwrap();
    assert!(injected.status.success(), "{}", String::from_utf8_lossy(&injected.stderr));
    drop(victim);
}

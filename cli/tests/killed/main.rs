//! `kill -9` at any moment leaves nothing: no process, no file in shared places, no trace buffer, no BPF program, no cgroup, no
//! semaphore set, no request of latency, no changed setting, and no thread of the machine on other CPUs than before.
//!
//! Every command that runs for long is killed, most often in its first 50 ms, where it is about to change something; every
//! second time together with all its other processes, so that none is left to clean up. `make test`
//! kills for three quarters of a minute, whoever's turn it is; `make kills` kills each command 400 times (LATHUNT_KILLS). The seed of
//! the moments is printed, and LATHUNT_SEED repeats them; LATHUNT_KILLED=NAME kills one command alone.

mod everything;
#[path = "../isolate/snapshot.rs"]
#[allow(dead_code)]
mod snapshot;
mod state;
mod together;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use lathunt_core::run::Run;
use lathunt_core::verdict::Outcome;
use snapshot::{Sleepers, Snapshot};
use state::{names, processes, programs, state};
use together::Together;

const COMMANDS: [(&str, &[&str]); 20] = [
    ("trace-user", &["trace", "--user", "-D", "30", "-o", "out"]),
    ("trace-kernel", &["trace", "--events", "min", "-D", "30", "-o", "out"]),
    ("trace-command", &["trace", "-o", "out", "--", "sleep", "30"]),
    ("hunt", &["hunt", "-D", "30", "--load", "builtin", "-o", "out"]),
    ("hunt-load", &["hunt", "-D", "30", "-o", "out"]),
    ("record", &["record", "-D", "30", "-o", "out"]),
    ("record-command", &["record", "-o", "out", "--", "sleep", "30"]),
    ("cyclic", &["cyclic", "-D", "30", "-q", "--pm-qos", "0", "-o", "out.json"]),
    ("npt", &["npt", "-n", "100000000000", "--trace-kernel"]),
    ("npt-uprobe", &["npt", "--probe", "uprobe", "-n", "100000000"]),
    ("npt-lathunt", &["npt", "--probe", "lathunt", "-n", "100000000"]),
    ("hwlat", &["hwlat", "-D", "30"]),
    ("monitor", &["monitor", "--database", "monitor.db", "--listen", "127.0.0.1:0"]),
    ("isolate", &["isolate", "run", "-c", "1", "--", "sleep", "30"]),
    ("tasks", &["tasks", "run", "set.json", "-s", "fifo", "-D", "30", "-o", "out"]),
    ("tasks-compare", &["tasks", "compare", "set.json", "-D", "30", "-o", "out"]),
    ("box", &["box", "--pair", "semaphore:sysv", "--pair", "mqueue", "--pair", "futex-pi", "-D", "30"]),
    ("respond", &["respond", "semaphore:sysv", "unix:socket", "udp:127.0.0.1:0"]),
    ("respond-command", &["respond", "pipe", "--", "sleep", "30"]),
    ("bound", &["bound", "run.json"]),
];
const SET: &str = r#"{"tasks": {"a": {"policy": "SCHED_FIFO", "priority": 30, "cputime": 300, "timer": {"ref": "unique", "period": 2000}},
    "b": {"policy": "SCHED_FIFO", "priority": 20, "mem": 2000, "cputime": 500, "timer": {"ref": "unique", "period": 5000}}},
    "global": {"lock_pages": true}}"#;
/// The state without a latency request.
const NO_REQUEST: &str = "PM QoS Some(2000000000)";
/// How long `make test` kills.
const SHARE: Duration = Duration::from_secs(45);

/// xorshift64*: the same numbers for a seed.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }

    /// After how many µs: six in ten within the first 50 ms, three within 300 ms, one within 1.5 s.
    fn moment(&mut self) -> u64 {
        let most = match self.next(10) {
            0..6 => 50_000,
            6..9 => 300_000,
            _ => 1_500_000,
        };
        self.next(most)
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// What must be as before.
struct Before {
    mark: String,
    state: BTreeSet<String>,
    snapshot: Snapshot,
    sleepers: Sleepers,
    programs: BTreeSet<String>,
}

impl Before {
    fn now() -> Before {
        let sleepers = Sleepers::start();
        Before {
            mark: format!("LATHUNT_KILLED_BY={}", std::process::id()),
            state: state(),
            snapshot: Snapshot::take(),
            sleepers,
            programs: programs(),
        }
    }

    /// What a kill left, once the kernel has had time to end what it ends by itself, and `restore` has undone the rest.
    fn left(&self) -> Vec<String> {
        let patience = Instant::now() + Duration::from_secs(20);
        while !processes(&self.mark).is_empty() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut left: Vec<String> = processes(&self.mark).into_iter().collect();
        // What the kernel does not undo is undone by the next start, or by this.
        // It is refused while another lathunt on this machine holds the settings.
        let restore = || Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("restore").output().unwrap();
        let patience = Instant::now() + Duration::from_secs(60);
        let mut restored = restore();
        while !restored.status.success() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(200));
            restored = restore();
        }
        if !restored.status.success() {
            left.push(format!("restore: {restored:?}"));
        }
        left.extend(persistent(|| {
            let mut now: BTreeSet<String> = state().difference(&self.state).cloned().collect();
            now.remove(NO_REQUEST);
            now.extend(self.snapshot.differences(&Snapshot::take(), &self.sleepers, false));
            now
        }));
        left
    }

    /// The kernel frees programs a moment later.
    fn programs_left(&self) -> Vec<String> {
        persistent(|| programs().difference(&self.programs).cloned().collect())
    }
}

/// Of what `look` finds, what it finds again and again for half a minute: other programs on this machine may use lathunt, too.
fn persistent(look: impl Fn() -> BTreeSet<String>) -> Vec<String> {
    let patience = Instant::now() + Duration::from_secs(30);
    let mut left = look();
    while !left.is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100));
        let now = look();
        left.retain(|one| now.contains(one));
    }
    left.into_iter().collect()
}

fn started(arguments: &[&str], directory: &Path, mark: &str, together: Option<&Together>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    let (name, value) = mark.split_once('=').unwrap();
    command.args(arguments).current_dir(directory).env(name, value).env("TMPDIR", directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    together.into_iter().for_each(|together| together.holds(&mut command));
    command.spawn().unwrap()
}

/// A directory with the files that the commands read.
fn place(run: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("set.json"), SET).unwrap();
    fs::write(place.path().join("run.json"), run).unwrap();
    place
}

/// Files that the command wrote: whole, and no PASS.
fn claims(place: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for directory in [place.to_owned(), place.join("out")] {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            if name.ends_with(".lathunt.json") || name == "out.json" {
                match Run::from_json(&fs::read_to_string(&path).unwrap_or_default()) {
                    Ok(run) if run.verdict.as_ref().is_some_and(|one| one.outcome == Some(Outcome::Pass)) => {
                        found.push(format!("{name}: PASS"));
                    }
                    Ok(_) => {}
                    Err(error) => found.push(format!("{name}: {error}")),
                }
            } else if name.starts_with('.') || name.ends_with(".part") {
                found.push(format!("{name} beside the result"));
            }
        }
    }
    found
}

#[test]
#[ignore = "needs root"]
fn kills_at_random_moments_leave_nothing() {
    const NAME: &str = "kills_at_random_moments_leave_nothing";
    if !lathunt_host::testing::may_run(NAME, lathunt_host::testing::lacks_root()) {
        return;
    }
    let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let seed = number("LATHUNT_SEED").unwrap_or(clock % 1_000_000);
    eprintln!("LATHUNT_SEED={seed}");
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let wanted = std::env::var("LATHUNT_KILLED").ok();
    let one_cpu = fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default().trim() == "0";
    let mut commands: Vec<_> = COMMANDS.to_vec();
    commands.retain(|(name, _)| wanted.as_deref().is_none_or(|wanted| wanted == *name));
    commands.retain(|(name, _)| !(one_cpu && *name == "isolate"));
    assert!(!commands.is_empty(), "no command has this name");
    let turn = seed as usize % commands.len();
    commands.rotate_left(turn);
    let source = tempfile::tempdir().unwrap();
    let measured =
        started(&["cyclic", "-D1", "-q", "-o", "run.json"], source.path(), "NONE=1", None).wait().unwrap();
    assert!(measured.success());
    let run = fs::read_to_string(source.path().join("run.json")).unwrap();
    let before = Before::now();
    let together = Together::new();
    let kill = |name: &str, arguments: &[&str], after_us: u64| {
        let place = place(&run);
        let together = together.as_ref().filter(|_| after_us.is_multiple_of(2)); // every second time
        let mut child = started(arguments, place.path(), &before.mark, together);
        std::thread::sleep(Duration::from_micros(after_us));
        let ended = child.try_wait().unwrap();
        assert!(ended.is_none() || name == "bound", "{name} ended by itself: {ended:?}");
        match together {
            Some(together) => together.kill(&mut child),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
        }
        let mut left = before.left();
        left.extend(claims(place.path()));
        assert!(left.is_empty(), "LATHUNT_SEED={seed}: {name} killed after {after_us} µs: {left:#?}");
    };
    match number("LATHUNT_KILLS") {
        Some(kills) => {
            for (name, arguments) in &commands {
                let moments: Vec<u64> = (0..kills).map(|_| numbers.moment()).collect();
                moments.iter().for_each(|after_us| kill(name, arguments, *after_us));
                let early = moments.iter().filter(|after_us| **after_us < 50_000).count();
                assert_eq!(before.programs_left(), Vec::<String>::new(), "{name}");
                eprintln!("{name}: {kills} kills, {early} of them in the first 50 ms: nothing is left");
            }
        }
        None => {
            let (begun, mut kills) = (Instant::now(), 0);
            for (name, arguments) in commands.iter().cycle() {
                if begun.elapsed() > SHARE {
                    break;
                }
                kill(name, arguments, numbers.moment());
                kills += 1;
            }
            assert_eq!(before.programs_left(), Vec::<String>::new());
            eprintln!("{kills} kills of {} commands: nothing is left", commands.len());
        }
    }
}

/// The kills would show nothing if what they look at could not be seen while a command runs.
#[test]
#[ignore = "needs root"]
fn what_a_kill_could_leave_is_seen_while_a_command_runs() {
    const NAME: &str = "what_a_kill_could_leave_is_seen_while_a_command_runs";
    if !lathunt_host::testing::may_run(NAME, lathunt_host::testing::lacks_root()) {
        return;
    }
    let before = Before::now();
    for (name, seen) in [
        ("record", "BPF program"),
        ("trace-kernel", "/sys/kernel/tracing/instances/"),
        ("cyclic", "PM QoS"),
        ("box", "semaphore set"),
        ("hunt", "/var/tmp/lathunt-load"),
        ("isolate", "thread "),
        ("isolate", "/run/lathunt/"),
    ] {
        let Some((_, arguments)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
            panic!("{name}")
        };
        let place = place("");
        let mut child = started(arguments, place.path(), &before.mark, None);
        let patience = Instant::now() + Duration::from_secs(20);
        loop {
            let mut found: Vec<String> = programs().difference(&before.programs).cloned().collect();
            found.extend(state().symmetric_difference(&before.state).cloned());
            found.extend(before.snapshot.differences(&Snapshot::take(), &before.sleepers, false));
            if found.iter().any(|one| one.starts_with(seen)) {
                break;
            }
            let over = Instant::now() > patience || child.try_wait().unwrap().is_some();
            assert!(!over, "{name} shows no {seen}: {found:#?}");
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(before.left(), Vec::<String>::new(), "{name}");
    }
}

/// The keeper of a load is killed together with its measurement: no process is left to remove its files.
#[test]
#[ignore = "needs root"]
fn restore_removes_the_files_of_a_load_whose_keeper_was_killed() {
    const NAME: &str = "restore_removes_the_files_of_a_load_whose_keeper_was_killed";
    if !lathunt_host::testing::may_run(NAME, lathunt_host::testing::lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let before = names("/var/tmp", "lathunt-load.");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["hunt", "-D", "20", "--load", "builtin", "-o", "hunt"]).current_dir(place.path());
    let mut hunt = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let keeper = || {
        let children =
            fs::read_to_string(format!("/proc/{0}/task/{0}/children", hunt.id())).unwrap_or_default();
        children.split_whitespace().map(str::to_owned).find(|pid| {
            fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == "load/keeper")
        })
    };
    let patience = Instant::now() + Duration::from_secs(30);
    let found = loop {
        match keeper() {
            Some(pid) => break pid,
            None if Instant::now() > patience => panic!("no keeper"),
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let restore = || Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("restore").output().unwrap();
    let of_load = || -> Vec<_> { names("/var/tmp", "lathunt-load.").difference(&before).cloned().collect() };
    while of_load().is_empty() && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::sleep(Duration::from_millis(300));
    let made = of_load();
    assert_eq!(made.len(), 1, "{made:?}");
    let _ = restore(); // refused while hunt holds the settings, and in any case:
    assert!(Path::new(&made[0]).exists(), "the load still runs");
    // SAFETY: plain values; both are our own processes.
    unsafe { libc::kill(found.parse().unwrap(), libc::SIGKILL) };
    hunt.kill().unwrap();
    hunt.wait().unwrap();
    assert!(Path::new(&made[0]).exists());
    let patience = Instant::now() + Duration::from_secs(10);
    while Path::new(&made[0]).exists() && Instant::now() < patience {
        let output = restore();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::thread::sleep(Duration::from_millis(100)); // workers end a moment after their keeper
    }
    assert!(!Path::new(&made[0]).exists());
}

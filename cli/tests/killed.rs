//! `kill -9` at any moment leaves nothing: no process, no file in shared places, no trace buffer, no BPF program, no changed setting.
//! `LATHUNT_KILLS` says how many kills (40 without it), half of them in the first 50 ms.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// xorshift64*: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % below
    }
}

fn names(directory: &str, prefix: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).map(|name| format!("{directory}/{name}")).collect()
}

/// Processes of the killed command: they carry its mark in their environment.
fn processes(mark: &str) -> BTreeSet<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_dead = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        !is_dead && environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let pids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(ours)
        .map(|pid| format!("process {pid}"))
        .collect()
}

/// What a measurement changes on the machine: everything that `kill -9` could leave.
fn state(mark: &str) -> BTreeSet<String> {
    let mut state = processes(mark);
    for (directory, prefix) in [
        ("/var/tmp", "lathunt"),
        ("/tmp", "lathunt-"),
        ("/sys/kernel/tracing/instances", ""),
        ("/sys/fs/cgroup", "lathunt"),
        ("/dev/shm/lathunt-0", ""), // the directory itself stays: programs put their rings there
    ] {
        state.extend(names(directory, prefix));
    }
    for setting in [
        "/sys/kernel/tracing/tracing_on",
        "/sys/kernel/tracing/current_tracer",
        "/sys/kernel/tracing/set_event",
        "/proc/sys/kernel/sched_rt_runtime_us",
        "/sys/devices/virtual/workqueue/cpumask",
        "/proc/irq/default_smp_affinity",
    ] {
        state.insert(format!("{setting} {}", fs::read_to_string(setting).unwrap_or_default().trim()));
    }
    state
}

/// The same without the processes of others that come and go: BPF programs by their number.
fn programs() -> usize {
    let shown = Command::new("bpftool").args(["prog", "list"]).output();
    shown.map_or(0, |output| {
        String::from_utf8_lossy(&output.stdout)
            .lines()
            .filter(|line| line.contains(" name lh_") || line.contains(" name on_"))
            .count()
    })
}

#[test]
#[ignore = "needs root"]
fn kills_at_random_moments_leave_nothing() {
    if !lathunt_host::testing::may_run(
        "kills_at_random_moments_leave_nothing",
        lathunt_host::testing::lacks_root(),
    ) {
        return;
    }
    let kills: u64 = std::env::var("LATHUNT_KILLS").ok().and_then(|kills| kills.parse().ok()).unwrap_or(40);
    let commands: [&[&str]; 8] = [
        &["trace", "--user", "-D", "30", "-o", "user"],
        &["trace", "--events", "min", "-D", "30", "-o", "kernel"],
        &["hunt", "-D", "30", "-o", "hunt"],
        &["record", "-D", "30", "-o", "record"],
        &["cyclic", "-D", "30", "-q"],
        &["hwlat", "-D", "30"],
        &["npt", "-D", "30"],
        &["monitor", "--database", "monitor.db", "--listen", "127.0.0.1:0"],
    ];
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ kills);
    let mark = format!("LATHUNT_KILLED={}", std::process::id());
    let (name, value) = mark.split_once('=').unwrap();
    let (before, before_programs) = (state(&mark), programs());
    for kill in 0..kills {
        let place = tempfile::tempdir().unwrap();
        let arguments = commands[(kill % commands.len() as u64) as usize];
        // Half of them early, where a command is about to change something.
        let after_us = if numbers.next(2) == 0 { numbers.next(50_000) } else { numbers.next(1_500_000) };
        killed(arguments, place.path(), (name, value), Duration::from_micros(after_us));
        let patience = Instant::now() + Duration::from_secs(20);
        while !processes(&mark).is_empty() && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(processes(&mark), BTreeSet::new(), "{arguments:?} killed after {after_us} µs");
        // What the kernel does not undo is undone by the next start, or by this.
        let restored = Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("restore").output().unwrap();
        assert!(restored.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&restored.stdout));
        let after = state(&mark);
        let left: Vec<_> = after.symmetric_difference(&before).collect();
        assert!(left.is_empty(), "{arguments:?} killed after {after_us} µs: {left:?}");
    }
    let patience = Instant::now() + Duration::from_secs(5);
    while programs() > before_programs && Instant::now() < patience {
        std::thread::sleep(Duration::from_millis(100)); // the kernel frees them later
    }
    assert!(programs() <= before_programs);
}

fn killed(arguments: &[&str], directory: &Path, (name, value): (&str, &str), after: Duration) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(arguments).current_dir(directory).env(name, value).env("TMPDIR", directory);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut child = command.spawn().unwrap();
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The keeper of a load is killed together with its measurement: nobody is left who could remove its files.
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
    std::thread::sleep(Duration::from_millis(300));
    let restore = || Command::new(env!("CARGO_BIN_EXE_lathunt")).arg("restore").output().unwrap();
    let made: Vec<_> = names("/var/tmp", "lathunt-load.").difference(&before).cloned().collect();
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

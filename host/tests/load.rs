//! A load runs what it says, says how it ended, and leaves nothing behind, however its owner ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::time::Ns;
use lathunt_host::clock;
use lathunt_host::load::{Ended, Load, LoadSpec};

/// Set for the copy of this test program that plays the measuring process.
const ROLE: &str = "LATHUNT_TEST_LOAD";
/// In the environment of all that a test's load starts, so that it can be found whatever became of its parents.
const MARK: &str = "LATHUNT_TEST_MARK";

/// All processes, as pid, parent and name.
fn processes() -> Vec<(u32, u32, String)> {
    let pids =
        fs::read_dir("/proc").unwrap().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let details = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        Some((pid, rest.split_whitespace().nth(1)?.parse().ok()?, name.to_owned()))
    };
    pids.filter_map(details).collect()
}

/// Descendants of `ancestor`, as pid and name.
fn descendants(ancestor: u32) -> Vec<(u32, String)> {
    let all = processes();
    let mut family = vec![ancestor];
    let mut found = Vec::new();
    while let Some(parent) = family.pop() {
        for (pid, _, name) in all.iter().filter(|(_, of, _)| *of == parent) {
            family.push(*pid);
            found.push((*pid, name.clone()));
        }
    }
    found
}

/// What is left of a load: by the mark in the environment (stress-ng overwrites its own), or by where it stands.
fn left_over(mark: &str, directory: &Path) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let belongs = |pid: u32| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let stands = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
            || stands.to_string_lossy().starts_with(&*directory.to_string_lossy())
        // "… (deleted)" too
    };
    let all = processes().into_iter().filter(|(pid, ..)| belongs(*pid));
    all.map(|(pid, _, name)| (pid, name)).collect()
}

fn wait_for(what: &str, seconds: u64, condition: impl FnMut() -> bool) {
    wait_for_or(what, seconds, condition, String::new);
}

/// The same; when it is in vain, `seen` says what there was instead.
fn wait_for_or(what: &str, seconds: u64, mut condition: impl FnMut() -> bool, seen: impl FnOnce() -> String) {
    let deadline = Instant::now() + Duration::from_secs(seconds);
    while !condition() {
        if Instant::now() > deadline {
            panic!("waited {seconds} s in vain: {what} {}", seen());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Directories of loads whose keeper is among `pids`, found by the files that its workers hold or stand in.
fn directories(pids: &[(u32, String)]) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = Vec::new();
    for (pid, _) in pids {
        let links = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten().map(|e| e.path());
        let all = links.chain([PathBuf::from(format!("/proc/{pid}/cwd"))]);
        for target in all.filter_map(|link| fs::read_link(link).ok()) {
            let of_a_load = |part: &Path| {
                part.file_name().is_some_and(|name| name.to_string_lossy().starts_with("lathunt-load."))
            };
            found.extend(target.ancestors().find(|part| of_a_load(part)).map(PathBuf::from));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// Not a test of its own: the measuring process of the tests below, which start it again with `ROLE` set.
#[test]
fn the_measuring_process_of_the_other_tests() {
    let Some(spec) = std::env::var(ROLE).ok().filter(|role| role != "watched") else { return };
    let load = Load::start(&spec.parse::<LoadSpec>().unwrap(), Duration::from_secs(60)).unwrap();
    println!("the load runs: {}", load.describe());
    std::thread::sleep(Duration::from_secs(60));
}

/// Starts such a process with `spec`, lets it work until `ready`, kills it, and demands that nothing is left.
fn nothing_is_left_after_kill_9(spec: &str, ready: impl Fn(&[(u32, String)]) -> bool) {
    let mark = format!("{}-{:?}", std::process::id(), std::thread::current().id());
    let mut owner = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "the_measuring_process_of_the_other_tests", "--nocapture"])
        .env(ROLE, spec)
        .env(MARK, &mark)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut output = BufReader::new(owner.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(output.any(|line| line.contains("the load runs:")), "the load did not start");
    wait_for_or(
        "the load works",
        90,
        || ready(&descendants(owner.id())),
        || format!("{:?}", descendants(owner.id())),
    );
    let held = directories(&descendants(owner.id()));
    assert_eq!(held.len(), 1, "{:?}", descendants(owner.id()));
    assert!(!left_over(&mark, &held[0]).is_empty(), "the search for what is left must find what is there");
    owner.kill().unwrap(); // SIGKILL
    assert!(owner.wait().unwrap().code().is_none(), "it must have been killed, not ended");
    wait_for("all processes of the load are gone", 60, || left_over(&mark, &held[0]).is_empty());
    wait_for("its directory is gone", 30, || !held[0].exists());
}

fn has(processes: &[(u32, String)], name: &str) -> bool {
    processes.iter().any(|(_, comm)| comm.starts_with(name))
}

#[test]
fn the_builtin_load_leaves_nothing_when_its_owner_is_killed() {
    nothing_is_left_after_kill_9("builtin", |all| {
        let kinds = ["cpu", "memory", "fork", "fsync", "timer", "net"];
        kinds.iter().all(|kind| has(all, &format!("load/{kind}"))) && !directories(all).is_empty()
    });
}

#[test]
fn stress_ng_leaves_nothing_when_the_owner_is_killed() {
    let installed = lathunt_host::programs::find("stress-ng").is_some();
    if !lathunt_host::testing::may_run(
        "stress_ng_leaves_nothing",
        (!installed).then_some("stress-ng is not installed"),
    ) {
        return;
    }
    nothing_is_left_after_kill_9("auto", |all| {
        ["cpu", "vm", "fork", "hdd", "timer", "udp", "sock"]
            .iter()
            .all(|kind| has(all, &format!("stress-ng-{kind}")))
    });
}

#[test]
fn even_daemons_that_a_command_leaves_in_a_session_of_their_own_are_ended() {
    let command = "setsid sh -c 'sh -c \"sleep 61 & sleep 61\" & sleep 61' & sleep 61";
    nothing_is_left_after_kill_9(command, |all| all.iter().filter(|(_, comm)| comm == "sleep").count() >= 4);
}

#[test]
fn a_stopped_load_is_gone_and_did_not_end_early() {
    let [sleeping, working] = [LoadSpec::Command("sleep 61".into()), LoadSpec::Builtin].map(|spec| {
        let mut load = Load::start(&spec, Duration::from_secs(30)).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        let ended = load.stop().unwrap();
        assert_eq!(ended.early, None, "{spec:?}");
        ended.cpu.unwrap()
    });
    // Both pay for the start of their processes, which depends on the machine; only the builtin load works.
    assert!(working > sleeping && sleeping > Ns(0), "{working} of the builtin load, {sleeping} of a sleep");
}

#[test]
fn a_command_that_fails_or_ends_early_is_said_with_its_last_words() {
    let cases = [
        ("echo too little memory >&2; exit 3", "exit status 3 after", ": too little memory"),
        ("exec /nonexistent/program", "exit status 127 after", "/nonexistent/program"),
        ("kill -11 $$", "killed by signal 11 after", " s"),
        ("true", "exit status 0 after", " s"),
    ];
    for (command, begin, end) in cases {
        let mut load = Load::start(&LoadSpec::Command(command.into()), Duration::from_secs(30)).unwrap();
        wait_for("the end is noticed", 10, || load.ended_early().is_some());
        let said = load.stop().unwrap().early.unwrap();
        assert!(said.starts_with(begin) && said.contains(end), "{command}: {said}");
    }
}

/// Sends `signal` to everything below this test's only keeper of `load/cpu` workers, and to the keeper if `all`.
fn signal_builtin(signal: libc::c_int, all: bool) {
    let of_keeper = |pid: u32| descendants(pid).iter().any(|(_, name)| name == "load/cpu");
    let keepers: Vec<u32> = descendants(std::process::id())
        .iter()
        .filter(|(pid, name)| name == "load/keeper" && of_keeper(*pid))
        .map(|(pid, _)| *pid)
        .collect();
    let own = keepers.iter().copied().filter(|_| all);
    let below = keepers.iter().flat_map(|keeper| descendants(*keeper)).map(|(pid, _)| pid);
    for pid in own.chain(below.collect::<Vec<_>>()) {
        // SAFETY: kill takes plain values; these are descendants of this test.
        unsafe { libc::kill(pid as libc::pid_t, signal) };
    }
}

#[test]
fn a_load_is_watched_over_the_time_and_not_only_in_sum() {
    // In a process of its own, because it stops every builtin load of its process.
    if std::env::var(ROLE).as_deref() != Ok("watched") {
        let alone = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "a_load_is_watched_over_the_time_and_not_only_in_sum", "--nocapture"])
            .env(ROLE, "watched")
            .output()
            .unwrap();
        assert!(alone.status.success(), "{}", String::from_utf8_lossy(&alone.stderr));
        return;
    }
    let seconds = |seconds| std::thread::sleep(Duration::from_secs(seconds));
    for keeper_too in [false, true] {
        let mut load = Load::start(&LoadSpec::Builtin, Duration::from_secs(60)).unwrap();
        let begin = clock::mono();
        seconds(4);
        signal_builtin(libc::SIGSTOP, keeper_too);
        let middle = clock::mono();
        seconds(4);
        let end = clock::mono();
        let ended = load.stop().unwrap();
        assert!(ended.early.is_none() && ended.cpu.unwrap() > Ns::from_ms(50), "{ended:?}");
        let running = load.over_time(begin, middle).unwrap();
        let all = load.over_time(begin, end).unwrap();
        let says = format!("{running:?}, with the pause {all:?}");
        // A window of a second may be cut by the stop. A stopped keeper reports one long window, of which a part counts.
        assert!(running.ran_ns >= Ns::from_ms(2_700) && !running.may_pause, "{says}");
        assert!(all.ran_ns <= Ns::from_ms(6_200) && all.longest_pause_ns >= Ns::from_ms(1_800), "{says}");
        assert!(keeper_too || all.longest_pause_ns >= Ns::from_ms(2_900), "{says}");
    }
    for (command, least) in [("sleep 61", 3_900), ("while :; do :; done", 0)] {
        let mut load = Load::start(&LoadSpec::Command(command.into()), Duration::from_secs(60)).unwrap();
        seconds(1);
        let begin = clock::mono();
        seconds(4);
        let end = clock::mono();
        load.stop().unwrap();
        let over_time = load.over_time(begin, end).unwrap();
        let pause = over_time.longest_pause_ns;
        assert!(
            over_time.may_pause && (pause >= Ns::from_ms(least)) == (least > 0 || pause == Ns::ZERO),
            "{over_time:?}"
        );
    }
}

#[test]
fn a_load_that_outlives_its_owners_plan_ends_and_says_so() {
    let mut load = Load::start(&LoadSpec::Command("exec sleep 61".into()), Duration::ZERO).unwrap();
    wait_for("the end of its time", 30, || load.ended_early().is_some());
    assert_eq!(load.stop().unwrap().early.as_deref(), Some("its time of 10 s was over"));
}

#[test]
fn no_load_is_no_process_and_says_so() {
    let mut load = Load::start(&LoadSpec::None, Duration::from_secs(1)).unwrap();
    assert_eq!((load.describe().as_str(), load.ended_early()), ("none", None));
    assert_eq!(load.stop().unwrap(), Ended { early: None, cpu: None });
}

#[test]
fn a_load_whose_keeper_is_killed_is_noticed_and_gone() {
    let children = || {
        let own = std::process::id().to_string();
        let output = Command::new("ps").args(["-o", "pid=,comm=", "--ppid", &own]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let mut load = Load::start(&LoadSpec::Command("exec sleep 61".into()), Duration::from_secs(30)).unwrap();
    let before = children();
    let keepers: Vec<&str> = before.lines().filter(|line| line.contains("load/keeper")).collect();
    // Other tests of this program may run a keeper at the same time; the one above "sleep 61" alone is ours.
    let ours = keepers.iter().find_map(|line| {
        let pid = line.split_whitespace().next()?;
        let output = Command::new("ps").args(["-o", "args=", "--ppid", pid]).output().ok()?;
        (output.stdout.starts_with(b"sleep 61") && output.stdout.split(|&b| b == b'\n').count() == 2)
            .then_some(pid)
    });
    let Some(pid) = ours else { panic!("no keeper among {before}") };
    assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
    wait_for("the death of the keeper is noticed", 10, || load.ended_early().is_some());
    assert_eq!(load.ended_early().as_deref(), Some("its keeper was killed"));
}

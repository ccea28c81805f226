//! Which rights each command needs, and which it keeps once its work has begun.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

fn may_run(name: &str) -> bool {
    lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root())
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// As nobody with `capabilities` and no others.
fn with_capabilities(capabilities: &str, arguments: &[&str], directory: &Path) -> Output {
    let set = if capabilities.is_empty() { "-all".to_owned() } else { format!("-all,{capabilities}") };
    let mut command = Command::new("timeout");
    command.args(["60", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.args([
        format!("--inh-caps={set}"),
        format!("--ambient-caps={set}"),
        format!("--bounding-set={set}"),
    ]);
    command.arg(directory.join("lathunt")).args(arguments).current_dir(directory).env("TMPDIR", directory);
    command.env_remove("XDG_RUNTIME_DIR").output().unwrap()
}

#[test]
#[ignore = "needs root"]
fn commands_run_with_the_capabilities_of_the_table_and_no_others() {
    if !may_run("commands_run_with_the_capabilities_of_the_table_and_no_others") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), place.path().join("lathunt")).unwrap();
    let code = |capabilities: &str, arguments: &[&str]| {
        let output = with_capabilities(capabilities, arguments, place.path());
        (output.status.code(), said(&output) + &String::from_utf8_lossy(&output.stdout))
    };
    let (refused, text) = code("", &["record", "-D", "1", "-o", "none"]);
    assert!(refused == Some(1) && text.contains("CAP_BPF and CAP_PERFMON"), "{text}");
    let (recorded, text) = code("+bpf,+perfmon", &["record", "-D", "1", "-o", "record"]);
    assert!(matches!(recorded, Some(0 | 3)), "{text}");
    let (measured, text) = code("+sys_nice,+ipc_lock", &["cyclic", "-D", "1", "-q"]);
    assert!(measured == Some(0) && !text.contains("SCHED_OTHER"), "{text}");
    let all = "+bpf,+perfmon,+syslog,+sys_nice,+ipc_lock";
    let (hunted, text) = code(all, &["hunt", "-D", "1", "--load", "none", "-o", "hunt"]);
    assert!(matches!(hunted, Some(0 | 2 | 3)) && !text.contains("no kernel recorder"), "{text}");
    if place.path().join("hunt/flight.bin").exists() {
        let (explained, text) = code("", &["explain", "hunt", "--summary"]);
        assert!(matches!(explained, Some(0 | 3)), "{text}");
    }
    assert_eq!(code("", &["report", "hunt"]).0, Some(0));
}

/// Capabilities by their numbers, of every thread of a process, and whether it can gain some.
fn rights(process: u32) -> Vec<(Vec<u32>, bool)> {
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |thread: fs::DirEntry| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        let line =
            |name: &str| Some(status.lines().find_map(|line| line.strip_prefix(name))?.trim().to_owned());
        let bits = u64::from_str_radix(&line("CapPrm:")?, 16).ok()?;
        let all = (0..64).filter(|bit| bits >> bit & 1 == 1).collect();
        Some((all, line("NoNewPrivs:")? == "0"))
    };
    threads.filter_map(of).collect()
}

struct Running(Child);

impl Running {
    fn start(arguments: &[&str], directory: &Path) -> Running {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        command.args(arguments).current_dir(directory).stdin(Stdio::piped());
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Waits until all threads have these capabilities and can gain no others.
    fn keeps(&mut self, wanted: &[u32]) -> Result<(), String> {
        let patience = Instant::now() + Duration::from_secs(30);
        loop {
            let rights = rights(self.0.id());
            if !rights.is_empty() && rights.iter().all(|(all, gains)| all == wanted && !gains) {
                return Ok(());
            }
            if Instant::now() > patience || self.0.try_wait().unwrap().is_some() {
                return Err(format!("{wanted:?} wanted, but {rights:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// As in include/uapi/linux/capability.h.
const DAC_OVERRIDE: u32 = 1;
const DAC_READ_SEARCH: u32 = 2;
const KILL: u32 = 5;
const IPC_LOCK: u32 = 14;
const SYS_PTRACE: u32 = 19;
const SYS_NICE: u32 = 23;
const SYSLOG: u32 = 34;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

#[test]
#[ignore = "needs root"]
fn root_gives_up_what_the_rest_of_the_work_does_not_need() {
    if !may_run("root_gives_up_what_the_rest_of_the_work_does_not_need") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let foreign = place.path().join("foreign");
    fs::create_dir(&foreign).unwrap();
    std::os::unix::fs::chown(&foreign, Some(65534), Some(65534)).unwrap();
    let recorder = [SYSLOG, PERFMON, BPF];
    let recording = [DAC_READ_SEARCH, SYS_PTRACE, SYSLOG, PERFMON, BPF];
    for (arguments, kept) in [
        (&["record", "-D", "60", "-o", "r"][..], recording.to_vec()),
        (
            &["record", "-o", "c", "--", "sleep", "60"],
            [&[DAC_READ_SEARCH, KILL][..], &recording[1..]].concat(),
        ),
        (
            &["record", "-D", "60", "-o", "foreign", "--allow-foreign-directory"],
            [&[DAC_OVERRIDE][..], &recording].concat(),
        ),
        (
            &["hunt", "-D", "60", "--load", "builtin", "-o", "h"],
            [&[IPC_LOCK, SYS_NICE][..], &recorder].concat(),
        ),
        (&["monitor", "--database", "m.db", "--listen", "127.0.0.1:0"], vec![PERFMON, BPF]),
    ] {
        let kept = Running::start(arguments, place.path()).keeps(&kept);
        assert!(kept.is_ok(), "{arguments:?}: {kept:?}");
    }
}

#[test]
#[ignore = "needs root"]
fn the_program_that_record_starts_keeps_the_rights_of_the_caller() {
    if !may_run("the_program_that_record_starts_keeps_the_rights_of_the_caller") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let script = "grep -E 'CapPrm|NoNewPrivs' /proc/self/status >rights; sleep 0.3";
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["record", "-q", "-o", "r", "--", "sh", "-c", script]).current_dir(place.path());
    let output = command.output().unwrap();
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", said(&output));
    let of_the_program = fs::read_to_string(place.path().join("rights")).unwrap();
    let of_the_caller = fs::read_to_string("/proc/self/status").unwrap();
    let lines = of_the_program.lines().collect::<Vec<_>>();
    assert!(lines.len() == 2 && lines.iter().all(|line| of_the_caller.contains(line)), "{of_the_program}");
}

/// A file that never ends holds the parser: what has it given up by then?
#[test]
#[ignore = "needs root"]
fn root_reads_strangers_files_with_no_right_but_to_read_and_write_files() {
    if !may_run("root_reads_strangers_files_with_no_right_but_to_read_and_write_files") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for arguments in [
        &["explain", "/dev/stdin", "--summary"][..],
        &["import", "-", "-o", "run.json"],
        &["report", "/dev/stdin", "-o", "x.html"],
        &["plot", "/dev/stdin", "-o", "x.svg"],
        &["merge", "/dev/stdin", "/dev/stdin", "-o", "x.json"],
        &["compare", "/dev/stdin", "/dev/stdin"],
        &["bound", "/dev/stdin"],
        &["tasks", "analyse", "-"],
        &["tasks", "convert", "-", "-o", "x.set"],
    ] {
        let mut reading = Running::start(arguments, place.path());
        let kept = reading.keeps(&[DAC_OVERRIDE, DAC_READ_SEARCH]);
        assert!(kept.is_ok(), "{arguments:?}: {kept:?}");
        let status = fs::read_to_string(format!("/proc/{}/status", reading.0.id())).unwrap();
        assert!(status.contains("Seccomp:\t2"), "{arguments:?}: {status}");
    }
}

#[test]
#[ignore = "needs root"]
fn a_program_with_capabilities_reads_no_input_that_its_user_may_not_read() {
    if !may_run("a_program_with_capabilities_reads_no_input_that_its_user_may_not_read") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let secret = place.path().join("secret");
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), place.path().join("lathunt")).unwrap();
    fs::write(&secret, "root:hash-of-a-password\n").unwrap();
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
    for words in [
        "record -D 1 --deadlines secret",
        "monitor --listen off --deadlines secret",
        "import secret -o /dev/null",
        "bound --values secret",
        "report secret --text",
        "check --root secret",
        "tasks run secret",
        "explain secret",
        "history --database secret",
        "munin --database secret",
        "munin config --database secret",
        "check --kconfig secret",
        "plot secret -o -",
        "merge secret secret -o x.json",
        "compare secret secret",
        "tasks analyse secret",
        "bound secret",
    ] {
        let arguments: Vec<&str> = words.split(' ').collect();
        let output = with_capabilities("+dac_read_search,+sys_ptrace", &arguments, place.path());
        let text = said(&output) + &String::from_utf8_lossy(&output.stdout);
        assert!(output.status.code() == Some(1) && text.contains("ermission denied"), "{words}: {text}");
        assert!(!text.contains("hash"), "{words}: {text}");
    }
}

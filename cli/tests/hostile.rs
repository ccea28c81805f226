//! Files that another user creates where root works have no effect. As root, with `nobody` as that other user.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const NOBODY: u32 = 65534;

fn may_run(name: &str) -> bool {
    lathunt_host::testing::may_run(name, lathunt_host::testing::lacks_root())
}

/// A directory that everybody can enter.
fn open_place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    place
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// As the other user; it must succeed.
fn nobody(script: &str, directory: &Path) {
    let done =
        Command::new("sh").args(["-ec", script]).current_dir(directory).uid(NOBODY).gid(NOBODY).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{script}: {}", String::from_utf8_lossy(&done.stderr));
}

/// Runs lathunt for a minute at most.
fn lathunt(arguments: &[&str], directory: &Path, memory: Option<&Path>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(arguments).current_dir(directory).stdout(Stdio::piped()).stderr(Stdio::piped());
    if let Some(memory) = memory {
        command.env("LATHUNT_TRACE_DIR", memory);
    }
    let mut child = command.spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > patience {
            let _ = child.kill();
            panic!("lathunt {arguments:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Victim(Child);

impl Drop for Victim {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "needs root"]
fn a_session_that_another_user_placed_ends_no_process_and_writes_no_file() {
    if !may_run("a_session_that_another_user_placed_ends_no_process_and_writes_no_file") {
        return;
    }
    let place = open_place();
    let (memory, secret) = (place.path().join("shm"), place.path().join("secret"));
    fs::create_dir(&memory).unwrap();
    set_mode(&memory, 0o1777);
    fs::write(&secret, "dear to root").unwrap();
    set_mode(&secret, 0o600);
    let mut victim = Victim(Command::new("sleep").arg("60").spawn().unwrap());
    let pid = victim.0.id();
    let placed = [
        format!("printf 'lathunt-session 1\\nmode discard\\nenable *\\ndir {}/made\\nclock_offset_ns 0\\ncreated 1\\nconsumer {pid}\\n' >lathunt-0.session; : >lathunt-0.lock; flock lathunt-0.lock sleep 5 >/dev/null 2>&1 & sleep 0.1", place.path().display()),
        "rm -f lathunt-0.*; mkfifo lathunt-0.session lathunt-0.lock lathunt-0.status".to_owned(),
        "rm -f lathunt-0.*; for f in session lock status; do ln -s /dev/zero lathunt-0.$f; done".to_owned(),
        format!("rm -f lathunt-0.*; ln -s {0}/secret lathunt-0.session; ln -s {0}/secret lathunt-0.lock", place.path().display()),
    ];
    for script in &placed {
        nobody(script, &memory);
        for verb in ["status", "stop", "snapshot", "recover"] {
            let output = lathunt(&["trace", verb], place.path(), Some(&memory));
            assert_eq!(output.status.code(), Some(i32::from(verb != "status")), "{verb}: {}", said(&output));
        }
        assert!(victim.0.try_wait().unwrap().is_none(), "the process named in the file was ended");
        assert!(!place.path().join("made").exists());
        assert_eq!(fs::read_to_string(&secret).unwrap(), "dear to root");
    }
}

#[test]
#[ignore = "needs root"]
fn results_go_neither_through_links_nor_into_directories_of_another_user() {
    if !may_run("results_go_neither_through_links_nor_into_directories_of_another_user") {
        return;
    }
    let place = open_place();
    let at = |name: &str| place.path().join(name);
    fs::write(at("secret"), "dear to root").unwrap();
    for (name, mode) in [("foreign", 0o755), ("shared", 0o1777)] {
        fs::create_dir(at(name)).unwrap();
        set_mode(&at(name), mode);
    }
    std::os::unix::fs::chown(at("foreign"), Some(NOBODY), Some(NOBODY)).unwrap();
    nobody("ln -s ../secret foreign/link; ln -s ../secret shared/link; mkdir -p shared/theirs", place.path());
    symlink(at("shared"), at("own_link")).unwrap();
    assert_eq!(
        lathunt(&["cyclic", "-D1", "-q", "-o", "run.json"], place.path(), None).status.code(),
        Some(0)
    );
    for target in ["foreign/link", "foreign/new.html", "shared/link", "own_link/link", "shared/theirs/x.html"]
    {
        let output = lathunt(&["report", "run.json", "-o", target], place.path(), None);
        assert_eq!(output.status.code(), Some(1), "{target}: {}", said(&output));
        assert_eq!(fs::read_to_string(at("secret")).unwrap(), "dear to root", "{target}");
    }
    // Nor to a device or a pipe to which another user's link leads: the disk, root's terminal, a service.
    let pipe = at("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    nobody("ln -s /dev/full device; ln -s ../pipe pipe; ln -s /dev dev", &at("shared"));
    for target in ["shared/device", "shared/pipe", "shared/dev/full", "shared/theirs/../device"] {
        let output = lathunt(&["report", "run.json", "-o", target], place.path(), None);
        assert_eq!(output.status.code(), Some(1), "{target}: {}", said(&output));
        assert!(
            said(&output).contains("symbolic link of user 65534, which is not followed"),
            "{}",
            said(&output)
        );
    }
    let trace = lathunt(&["trace", "--user", "-D", "1", "-o", "shared/theirs"], place.path(), None);
    assert_eq!(trace.status.code(), Some(1), "{}", said(&trace));
    // Nor is a directory made there, which its owner could put another one in the place of.
    let trace = lathunt(&["trace", "--user", "-D", "1", "-o", "foreign/new"], place.path(), None);
    assert!(trace.status.code() == Some(1) && !at("foreign/new").exists(), "{}", said(&trace));
    for (target, more) in
        [("own_link/ok.html", None), ("foreign/new.html", Some("--allow-foreign-directory"))]
    {
        let arguments: Vec<&str> = ["report", "run.json", "-o", target].into_iter().chain(more).collect();
        let output = lathunt(&arguments, place.path(), None);
        assert_eq!(output.status.code(), Some(0), "{target}: {}", said(&output));
    }
}

#[test]
#[ignore = "needs root"]
fn files_with_kernel_addresses_are_for_root_alone_and_nothing_of_others_is_overwritten() {
    if !may_run("files_with_kernel_addresses_are_for_root_alone_and_nothing_of_others_is_overwritten") {
        return;
    }
    let place = open_place();
    let at = |name: &str| place.path().join(name);
    let traced = lathunt(&["trace", "--events", "min", "-D", "1", "-o", "t"], place.path(), None);
    assert!(matches!(traced.status.code(), Some(0 | 3)), "{}", said(&traced));
    assert_eq!(mode(&at("t")), 0o700);
    for file in fs::read_dir(at("t")).unwrap() {
        let file = file.unwrap().path();
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
    fs::write(at("my.cpp"), "int main(){}\n").unwrap();
    let refused = lathunt(&["cyclic", "-D1", "-q", "-o", "my.cpp"], place.path(), None);
    assert!(refused.status.code() == Some(1) && said(&refused).contains("--force"), "{}", said(&refused));
    assert_eq!(fs::read_to_string(at("my.cpp")).unwrap(), "int main(){}\n");
    for _ in 0..2 {
        let run = lathunt(&["cyclic", "-D1", "-q", "-o", "run.json"], place.path(), None);
        assert_eq!(run.status.code(), Some(0), "{}", said(&run));
    }
    assert!(at("run.json").exists() && at("run.json.old").exists());
}

#[test]
fn pipes_beside_a_trace_are_not_waited_for() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    for directory in ["flight", "ctf", "ctf/index", "ctf/lathunt"] {
        fs::create_dir(at(directory)).unwrap();
    }
    let data = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../core/tests/data"));
    fs::copy(data.join("flight/small.bin"), at("flight/flight.bin")).unwrap();
    for file in ["metadata", "channel_0"] {
        fs::copy(data.join("ctf/little").join(file), at("ctf").join(file)).unwrap();
    }
    for name in ["kallsyms", "maps", "interrupts", "conditions.json"] {
        fifo(&at("flight").join(name));
        fifo(&at("ctf/lathunt").join(name));
    }
    fifo(&at("ctf/index/channel_0.idx"));
    fifo(&at("ctf/channel_1"));
    for arguments in [
        &["explain", "flight", "--wakeups"][..],
        &["explain", "flight/flight.bin", "--summary"],
        &["explain", "ctf", "--summary"],
        &["explain", "ctf", "--wakeups"],
    ] {
        let output = lathunt(arguments, place.path(), None);
        assert!(matches!(output.status.code(), Some(0 | 3)), "{arguments:?}: {}", said(&output));
    }
}

#[test]
fn a_file_that_becomes_shorter_while_it_is_read_ends_the_command_with_a_line() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("text");
    let line = "  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    fs::write(&path, line.repeat(1_500_000)).unwrap(); // it takes a second to read
    let file = fs::File::options().write(true).open(&path).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["explain", "text", "--summary"]).current_dir(place.path());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let patience = Instant::now() + Duration::from_secs(10);
    let maps = format!("/proc/{}/maps", child.id());
    while !fs::read_to_string(&maps).unwrap_or_default().contains("/text\n") {
        assert!(Instant::now() < patience, "the file is not mapped");
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    file.set_len(100).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{:?}", output.status);
    assert!(said(&output).contains("was truncated while it was read"), "{}", said(&output));
}

/// Runs lathunt with files of at most `blocks` of 512 bytes (RLIMIT_FSIZE): a full disk that leaves room for small ones.
fn limited_files(blocks: u32, arguments: &[&str], directory: &Path) -> Output {
    let script = format!("ulimit -f {blocks}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_lathunt")]).args(arguments).current_dir(directory);
    command.output().unwrap()
}

#[test]
fn a_limit_of_file_sizes_is_an_error_and_no_death() {
    let place = tempfile::tempdir().unwrap();
    let line = "T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      10\n";
    fs::write(place.path().join("text"), line).unwrap();
    let output = limited_files(0, &["import", "text", "-o", "run.json"], place.path());
    assert_eq!(output.status.code(), Some(1), "{:?}", output.status);
    assert!(
        said(&output).contains("cannot write") && said(&output).lines().count() == 1,
        "{}",
        said(&output)
    );
    assert!(!place.path().join("run.json").exists());
}

#[test]
#[ignore = "needs root"]
fn a_report_is_kept_where_its_evidence_has_no_room_and_named_only_where_it_is() {
    if !may_run("a_report_is_kept_where_its_evidence_has_no_room_and_named_only_where_it_is") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let recorded = |name: &str, blocks: u32| {
        let output = limited_files(blocks, &["hunt", "-D", "2", "--load", "none", "-o", name], place.path());
        assert_eq!(output.status.code(), Some(1), "{}", said(&output));
        (
            place.path().join(name).join("report.html").exists(),
            said(&output) + &String::from_utf8_lossy(&output.stdout),
        )
    };
    let whole = limited_files(1 << 30, &["hunt", "-D", "2", "--load", "none", "-o", "whole"], place.path());
    assert!(matches!(whole.status.code(), Some(0 | 2 | 3)), "{}", said(&whole));
    let size = |name: &str| fs::metadata(place.path().join("whole").join(name)).unwrap().len();
    let (report, flight) = (size("report.html").max(size("run.lathunt.json")), size("flight.bin"));
    // Report and evidence of each recording have other sizes: the limit lies well between, where there is a between.
    if flight > 4 * report {
        let between = ((report * flight) as f64).sqrt();
        let (kept, text) = recorded("kept", (between / 512.0) as u32);
        assert!(kept && text.contains("report.html"), "{text}");
    }
    let (kept, text) = recorded("none", 1);
    assert!(!kept && !text.contains("report.html"), "{text}");
}

#[test]
#[ignore = "needs root"]
fn refused_threads_are_an_error_and_no_panic() {
    if !may_run("refused_threads_are_an_error_and_no_panic") {
        return;
    }
    let place = open_place();
    let program = place.path().join("lathunt");
    fs::copy(env!("CARGO_BIN_EXE_lathunt"), &program).unwrap();
    for arguments in [
        &["hwlat", "--detector", "spin", "-D", "1s"][..],
        &["npt", "-D", "1s"],
        &["clock"],
        &["cyclic", "-D1"],
    ] {
        let mut command = Command::new(&program);
        command.args(arguments).current_dir("/").gid(NOBODY).uid(NOBODY);
        // SAFETY: plain system calls between fork and exec.
        let output = unsafe {
            command.pre_exec(|| {
                let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
                libc::setrlimit(libc::RLIMIT_NPROC, &none);
                Ok(())
            })
        }
        .output()
        .unwrap();
        let text = said(&output);
        assert!(output.status.code() == Some(1) && !text.contains("panicked"), "{arguments:?}: {text}");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_caller_who_closes_descriptors_or_sets_a_strange_environment_gets_the_same_run() {
    if !may_run("a_caller_who_closes_descriptors") {
        return;
    }
    let place = open_place();
    let stranger = place.path().join("stranger");
    fs::create_dir(&stranger).unwrap();
    set_mode(&stranger, 0o777);
    let journals = || fs::read_dir(&stranger).unwrap().count();
    // A closed stdout loses what the command prints, which is an error; the run is in its file all the same.
    for (closed, code) in [("", 0), ("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- >&- 2>&-", 1)] {
        let run = place.path().join("run.lathunt.json");
        let binary = env!("CARGO_BIN_EXE_lathunt");
        let script =
            format!("exec {binary} cyclic -c 0 -D 200ms -q -o {} --pm-qos 0 {closed}", run.display());
        let mut command = Command::new("/bin/sh");
        command.args(["-c", &script]).env_clear();
        for name in ["PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR", "LD_LIBRARY_PATH"] {
            command.env(name, &stranger);
        }
        command.env("SUDO_UID", "x").env("SUDO_GID", "-1").env("COLUMNS", "0").env("TERM", "\x1b[2J");
        let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(code), "{closed}: {status}");
        let read = lathunt_core::run::Run::from_json(&fs::read_to_string(&run).unwrap()).unwrap();
        assert!(read.complete && read.series[0].histogram.count() > 0, "{closed}");
        assert_eq!(journals(), 0, "{closed}: root left something where the environment says");
    }
    let script =
        format!("umask 0; exec {} record -D 200ms -o made -- /bin/true", env!("CARGO_BIN_EXE_lathunt"));
    let made = Command::new("/bin/sh").args(["-c", &script]).current_dir(place.path()).output().unwrap();
    let told = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.code() == Some(1) && told.contains("everybody can replace files"), "{told}");
    // As /usr/local on Debian: root:staff 2775.
    let shared = place.path().join("made");
    fs::create_dir_all(&shared).unwrap();
    std::os::unix::fs::chown(&shared, Some(0), Some(50)).unwrap();
    set_mode(&shared, 0o2775);
    for words in ["cyclic -D 200ms -p 0 -q -o made/x", "monitor --listen off --database made/x.sqlite"] {
        let output = lathunt(&words.split(' ').collect::<Vec<_>>(), place.path(), None);
        assert_eq!(output.status.code(), Some(1), "{words}: {}", said(&output));
        assert!(
            said(&output).contains("group 50 can replace files in the directory made"),
            "{}",
            said(&output)
        );
    }
    assert_eq!(fs::read_dir(&shared).unwrap().count(), 0);
}

#[test]
#[ignore = "needs root"]
fn a_monitor_touches_no_file_of_another_user_beside_its_database() {
    if !may_run("a_monitor_touches_no_file_of_another_user_beside_its_database") {
        return;
    }
    let place = open_place();
    let (shared, secret) = (place.path().join("shared"), place.path().join("secret"));
    fs::create_dir(&shared).unwrap();
    set_mode(&shared, 0o1777);
    fs::write(&secret, "dear to root").unwrap();
    set_mode(&secret, 0o600);
    let placed = "ln -s ../secret a.sqlite.lock; ln -s ../secret b.sqlite-wal; ln -s ../secret c.sqlite; mkfifo d.sqlite.lock; \
                  mkfifo e.sqlite; : >f.sqlite; : >g.sqlite-journal; ln -s /etc/lathunt-none h.sqlite; mkdir theirs";
    nobody(placed, &shared);
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "theirs/i"] {
        let database = format!("shared/{name}.sqlite");
        let arguments = ["monitor", "--listen", "off", "--database", &database];
        let output = lathunt(&arguments, place.path(), None);
        assert_eq!(output.status.code(), Some(1), "{name}: {}", said(&output));
        assert_eq!(said(&output).lines().count(), 1, "{name}: {}", said(&output));
        assert_eq!(fs::read_to_string(&secret).unwrap(), "dear to root", "{name}");
        assert!(!Path::new("/etc/lathunt-none").exists());
    }
}

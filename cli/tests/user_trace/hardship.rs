//! Full disks, no memory, many threads, forks, plug-ins, events that are too large: counted or refused, never corrupt.

use std::path::Path;
use std::process::{Command, Stdio};

use lathunt_host::testing;

use crate::lab::{babeltrace, build, Lab};
use crate::stream::{self, Content};

/// Records `hard ARGUMENTS` in the foreground; all its traces, and what the command said.
fn record(lab: &Lab, arguments: &[&str]) -> (Vec<Content>, String) {
    let program = lab.program("hard");
    let out = lab.path("out");
    let mut all = vec!["--user", "-o", out.to_str().unwrap(), "-e", "test:count", "-e", "test:large", "--"];
    all.push(program.to_str().unwrap());
    all.extend(arguments);
    let output = lab.trace(&all);
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    (lab.traces("out").iter().map(|dir| stream::read(dir)).collect(), text)
}

/// The number before `what` in the command's summary; 0 where it is not mentioned.
fn said(text: &str, what: &str) -> u64 {
    text.split(['\n', ',', ':'])
        .find_map(|part| part.trim().strip_suffix(what)?.trim().parse().ok())
        .unwrap_or(0)
}

#[test]
fn a_thousand_threads_at_once_are_recorded_or_counted() {
    let lab = Lab::new();
    let (traces, text) = record(&lab, &["threads", "1000"]);
    let events: u64 = traces.iter().map(Content::events).sum();
    assert_eq!(events + said(&text, "discarded (no room)"), 10_000, "{text}");
    assert!(events > 3_000, "hundreds of threads have a ring: {text}");
}

#[test]
fn threads_that_come_and_go_share_few_rings_and_lose_nothing() {
    let lab = Lab::new();
    let (traces, text) = record(&lab, &["churn", "500"]);
    assert_eq!((traces.len(), traces[0].events()), (1, 5_000), "{text}");
    assert!(traces[0].numbers.values().all(|numbers| *numbers == (0..10).collect::<Vec<_>>()));
    let rings = std::fs::read_dir(&lab.traces("out")[0]).unwrap().count();
    assert!(rings < 6, "{rings} files");
    babeltrace(&lab.path("out"));
}

#[test]
fn a_storm_of_forks_keeps_parent_and_children_apart() {
    let lab = Lab::new();
    let (traces, text) = record(&lab, &["forks", "100"]);
    assert_eq!(traces.len(), 51, "the parent and every child that emits: {text}");
    for content in &traces {
        let (&thread, numbers) = content.numbers.first_key_value().unwrap();
        assert_eq!(content.numbers.len(), 1);
        let expected = if thread == 0 { 101 } else { 10 };
        assert_eq!(*numbers, (0..expected).collect::<Vec<_>>(), "thread {thread}");
    }
    babeltrace(&lab.path("out"));
}

#[test]
fn an_event_larger_than_a_packet_is_counted_and_harms_no_other() {
    let lab = Lab::new();
    let (traces, text) = record(&lab, &["large", "100"]);
    assert_eq!(traces[0].numbers[&0], (0..100).collect::<Vec<_>>());
    assert_eq!((traces[0].discarded, said(&text, "discarded (no room)")), (100, 100), "{text}");
}

#[test]
fn plug_ins_may_be_loaded_and_unloaded_and_share_ids_with_the_program() {
    let lab = Lab::new();
    let library = lab.path("plugin.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/user_trace/plugin.c");
    build("cc", &["-std=c11", "-shared", "-fPIC"], &source, &library);
    let (traces, text) = record(&lab, &["dlopen", library.to_str().unwrap()]);
    assert_eq!(traces[0].numbers[&0], (0..20).collect::<Vec<_>>(), "{text}");
    assert_eq!(traces[0].numbers[&7], (0..20).collect::<Vec<_>>(), "{text}");
    let metadata = std::fs::read_to_string(lab.traces("out")[0].join("metadata")).unwrap();
    assert_eq!(metadata.matches("\"test:count\"").count(), 1);
}

#[test]
fn a_program_without_memory_or_permission_runs_on_untraced() {
    let lab = Lab::new();
    let program = lab.program("hard");
    for place in ["/proc/nowhere", "/sys"] {
        let run = Command::new(&program).arg("nospace").env("LATHUNT_TRACE_DIR", place).output().unwrap();
        assert!(run.status.success() && run.stdout == b"-1\n", "{place}: {run:?}");
    }
    let run = lab.command(&program).arg("nospace").env("LATHUNT_TRACE_MEMORY", "300K").output().unwrap();
    assert!(run.status.success() && run.stdout == b"-1\n", "the limit leaves no room for a ring: {run:?}");
}

#[test]
fn a_directory_that_cannot_be_written_is_refused_at_once() {
    let lab = Lab::new();
    for dir in ["/proc/trace", "/sys/trace"] {
        let output = lab.trace(&["start", "-o", dir]);
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1));
        assert!(talk.contains(dir) && talk.lines().count() == 1, "{talk}");
    }
    assert!(lab.trace_ok(&["status"]).contains("no session"));
}

#[test]
fn a_limit_of_bytes_holds_and_what_is_written_stays_whole() {
    let lab = Lab::new();
    let program = lab.program("emitter");
    let (out, counter) = (lab.path("out"), lab.path("counters"));
    let output = lab.trace(&[
        "--user",
        "-o",
        out.to_str().unwrap(),
        "--limit",
        "200K",
        "--ring",
        "64K",
        "--",
        program.to_str().unwrap(),
        counter.to_str().unwrap(),
        "1",
        "20000",
        "20",
    ]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("limit"), "{output:?}");
    let content = stream::read(&lab.traces("out")[0]);
    assert!(
        content.events() > 500 && content.numbers[&0].windows(2).all(|pair| pair[0] < pair[1]),
        "{content:?}"
    );
    let written: u64 = std::fs::read_dir(&lab.traces("out")[0])
        .unwrap()
        .flatten()
        .map(|entry| entry.metadata().unwrap().len())
        .sum();
    assert!(written < 210 << 10, "{written}");
}

/// A tmpfs of so many kilobytes; unmounted when dropped.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    fn new(path: std::path::PathBuf, kilobytes: u32) -> SmallDisk {
        std::fs::create_dir_all(&path).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={kilobytes}k"), "lathunt-test"])
            .arg(&path)
            .status();
        assert!(mounted.is_ok_and(|status| status.success()));
        SmallDisk(path)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).stderr(Stdio::null()).status();
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_full_disk_leaves_whole_packets_and_recording_goes_on_when_there_is_room_again() {
    if !testing::may_run("a full disk leaves whole packets", testing::lacks_root()) {
        return;
    }
    let lab = Lab::new();
    let disk = SmallDisk::new(lab.path("out"), 300);
    let ballast = disk.0.join("ballast");
    std::fs::write(&ballast, vec![0; 270 << 10]).unwrap();
    let program = lab.program("emitter");
    lab.trace_ok(&["start", "-o", disk.0.to_str().unwrap(), "--ring", "16K"]);
    let mut child = lab.spawn(&program, &[lab.path("counters").to_str().unwrap(), "1", "3000", "10"]);
    assert!(child.wait().unwrap().success());
    std::thread::sleep(std::time::Duration::from_millis(700));
    // It says that it cannot write, or, when a small packet fitted in again since, what was discarded for lack of room.
    let status = lab.trace_ok(&["status"]);
    assert!(status.contains("cannot write") || status.contains("discarded (no room)"), "{status}");
    std::fs::remove_file(ballast).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1200));
    lab.trace(&["stop"]);
    let content = stream::read(&lab.traces("out")[0]);
    assert_eq!(content.events() + content.discarded, 3000, "{content:?}");
    assert!(content.discarded > 0 && content.events() > 300, "{content:?}");
}

#[test]
#[ignore = "root: run by make test"]
fn a_shared_memory_that_is_full_refuses_rings_and_never_kills_the_program() {
    if !testing::may_run("a full shared memory refuses rings", testing::lacks_root()) {
        return;
    }
    let lab = Lab::new();
    let disk = SmallDisk::new(lab.path("memory"), 700);
    let program = lab.program("hard");
    let run =
        Command::new(&program).args(["threads", "50"]).env("LATHUNT_TRACE_DIR", &disk.0).status().unwrap();
    assert!(run.success(), "{run}");
    let run = Command::new(&program).arg("nospace").env("LATHUNT_TRACE_DIR", &disk.0).output().unwrap();
    assert_eq!(run.stdout, b"-1\n", "a ring of some MiB does not fit into 700 KiB");
}

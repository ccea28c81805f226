//! Texts with more CPUs, threads and losses than any machine has, and files of holes: the time grows with the bytes that are there.

use std::fmt::Write;
use std::fs::{self, File};
use std::io::Write as _;

use super::limited;

/// `explain` reads a text with these lines within the limits, whatever is asked.
fn is_read(line: impl Fn(usize) -> String) {
    const LINES: usize = 16_000;
    let place = tempfile::tempdir().unwrap();
    let text = (0..LINES).fold(String::new(), |mut text, at| {
        let _ = writeln!(text, "{}", line(at));
        text
    });
    fs::write(place.path().join("text"), text).unwrap();
    for question in ["--summary", "--wakeups", "--periods"] {
        let output = limited(&["explain", "text", question], place.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            matches!(output.status.code(), Some(0 | 3)) || said.contains("no events"),
            "{question}: {said}"
        );
    }
}

fn at(place: usize) -> String {
    format!("1.{place:06}")
}

#[test]
fn thousands_of_cpus_are_read_in_a_time_that_grows_with_the_lines() {
    is_read(|n| {
        let (prev, next) = (n % 8_000 * 2 + 10, n % 8_000 * 2 + 11);
        format!(
            "  a-{prev}  [{:05}]  {}: sched_switch: prev_comm=a prev_pid={prev} prev_prio=120 prev_state=R ==> next_comm=b next_pid={next} next_prio=9",
            n % 8_000,
            at(n)
        )
    });
}

#[test]
fn migrations_to_thousands_of_cpus_are_read_in_a_time_that_grows_with_the_lines() {
    is_read(|n| {
        format!(
            "  a-1  [000]  {}: sched_migrate_task: comm=a pid={} prio=120 orig_cpu=0 dest_cpu={}",
            at(n),
            n + 2,
            n + 5
        )
    });
}

#[test]
fn losses_of_thousands_of_threads_are_read_in_a_time_that_grows_with_the_lines() {
    is_read(|n| match n % 3 {
        0 => format!("CPU:{} [LOST 7 EVENTS]", n % 8_000),
        1 => format!(
            "  a-1  [000]  {}: hrtimer_expire_entry: hrtimer=0xff function=hrtimer_wakeup now=1000000000",
            at(n)
        ),
        _ => format!("  a-1  [000]  {}: sched_waking: comm=n pid={n} prio=9 target_cpu=000", at(n)),
    });
}

#[test]
fn a_file_of_holes_is_refused_at_once_whatever_its_format() {
    let place = tempfile::tempdir().unwrap();
    let text = b"  a-1  [000]  1.000001: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n";
    let heads: [(&str, &[u8]); 5] = [
        ("text", text),
        ("trace.dat", b"\x17\x08\x44tracing6\0\0\x08\0\x10\0\0"),
        ("perf.data", b"PERFILE2"),
        ("flight.bin", b"LHFLIGHT"),
        ("ctf/stream", b"\xc1\x1f\xfc\xc1"),
    ];
    fs::create_dir(place.path().join("ctf")).unwrap();
    fs::write(place.path().join("ctf/metadata"), "/* CTF 1.8 */\n").unwrap();
    for (name, head) in heads {
        let mut file = File::create(place.path().join(name)).unwrap();
        file.write_all(head).unwrap();
        file.set_len(1 << 40).unwrap();
        let output = limited(&["explain", name.trim_end_matches("/stream"), "--summary"], place.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1) && said.contains("are holes") && said.lines().count() == 1,
            "{name}: {said}"
        );
        fs::remove_file(place.path().join(name)).unwrap();
    }
}

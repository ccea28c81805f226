//! Event headers hold 48 bits of the time, which wrap after 78 hours: with a simulated clock, babeltrace2 still reads
//! the times that were written, across a wrap, across several, and from an idle program.

use std::process::Command;

use lathunt_core::export::ctf::{metadata, StreamWriter, Trace, Writer};
use lathunt_core::time::Mono;
use lathunt_core::trace::user_event::parse_declarations;
use lathunt_host::testing;

#[test]
fn times_survive_the_wrap_of_their_48_bits() {
    let missing =
        Command::new("babeltrace2").arg("--version").output().err().map(|_| "babeltrace2 is not installed");
    if !testing::may_run("times survive the wrap of their 48 bits", missing) {
        return;
    }
    let wrap = 1u64 << 48;
    let times = [
        1_000,
        wrap / 2 - 1,
        wrap / 2 + 5,
        wrap - 2,
        wrap - 1,
        wrap,
        wrap + 1,
        2 * wrap - 1,
        2 * wrap,
        5 * wrap + 7,
        9 * wrap + 6,
        9 * wrap + 6 + wrap / 2,
    ];
    let trace = Trace {
        uuid: [3; 16],
        boot_id: "11111111-2222-3333-4444-555555555555".into(),
        clock_offset_ns: 0,
        hostname: "host".into(),
        comm: "simulated".into(),
        pid: 1,
        created: "2026-01-01T00:00:00+0000".into(),
    };
    let mut stream = StreamWriter::new(trace.uuid, 0, 0, Mono(0));
    let writer = Writer { vpid: 1, vtid: 1, procname: b"t", cpu: 0, discarded: 0 };
    for at in times {
        stream.open_for(&writer, 0);
        if !stream.event(0, Mono(at), &[]) {
            stream.close(0);
            stream.open_for(&writer, 0);
            assert!(stream.event(0, Mono(at), &[]), "a new packet takes any time");
        }
    }
    stream.close(0);
    let dir = tempfile::tempdir().unwrap();
    let events = parse_declarations(b"event 0 a:b\nend\n").0;
    std::fs::write(dir.path().join("metadata"), metadata(&trace, &events)).unwrap();
    std::fs::write(dir.path().join("stream"), stream.bytes()).unwrap();
    let printed = Command::new("babeltrace2").arg("--clock-cycles").arg(dir.path()).output().unwrap();
    assert!(
        printed.status.success() && printed.stderr.is_empty(),
        "{}",
        String::from_utf8_lossy(&printed.stderr)
    );
    let text = String::from_utf8(printed.stdout).unwrap();
    let read: Vec<u64> = text.lines().map(|line| line[1..line.find(']').unwrap()].parse().unwrap()).collect();
    assert_eq!(read, times);
}

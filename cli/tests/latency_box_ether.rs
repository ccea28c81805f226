//! Channel `ether:` between the two ends of a veth, in a network namespace of the test's own.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_host::testing;

/// Enters a namespace of this thread's own with a veth; why not.
fn namespace() -> Option<String> {
    // SAFETY: no pointers; only this thread changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Some("no network namespace".to_owned());
    }
    for words in ["link add va type veth peer name vb", "link set lo up", "link set va up", "link set vb up"]
    {
        match Command::new("ip").args(words.split(' ')).output() {
            Ok(output) if output.status.success() => {}
            Ok(output) => return Some(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
            Err(error) => return Some(format!("ip: {error}")),
        }
    }
    None
}

#[test]
fn frames_on_a_veth_are_answered() {
    let name = "frames_on_a_veth_are_answered";
    if !testing::may_run(name, testing::lacks_root()) || !testing::may_run(name, namespace().as_deref()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let lathunt = || Command::new(env!("CARGO_BIN_EXE_lathunt"));
    for method in ["blocking", "epoll"] {
        let mut responder = lathunt()
            .args(["respond", "ether:va", "-p", "0", "-q", "--delay", "1ms", "--receive", method])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        let output = lathunt()
            .args(["box", "ether:vb", "-p", "0", "-q", "-D", "500ms", "-i", "5ms", "-o", &shown])
            .output()
            .unwrap();
        let _ = responder.kill();
        let _ = responder.wait();
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(begun.elapsed() < Duration::from_secs(20));
        let run =
            Run::from_json(&std::fs::read_to_string(place.path().join("run.lathunt.json")).unwrap()).unwrap();
        let series = run.of(Quantity::Roundtrip).next().unwrap();
        let counts = series.counts.unwrap();
        assert!(
            counts.answered > 20 && (counts.lost, counts.foreign, counts.damaged) == (0, 0, 0),
            "{counts:?}"
        );
        assert!(series.histogram.min().unwrap().0 >= 1_000_000, "the delay of the responder");
        assert!(run.conditions.notes.iter().any(|note| note.contains("EtherType 0x88b5")));
    }
    let output = lathunt().args(["box", "ether:lo", "-p", "0", "-D", "1s"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("not an Ethernet interface"), "{stderr}");
}

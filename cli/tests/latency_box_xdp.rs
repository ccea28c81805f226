//! `--receive xdp` over loopback, in a network namespace of the test's own.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_host::testing;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Enters a namespace of this thread's own; why not.
fn namespace() -> Option<String> {
    // SAFETY: no pointers; only this thread changes.
    if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
        return Some("no network namespace".to_owned());
    }
    match Command::new("ip").args(["link", "set", "lo", "up"]).status() {
        Ok(status) if status.success() => {}
        other => return Some(format!("ip link set lo up: {other:?}")),
    }
    // SAFETY: no pointers.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    // SAFETY: ours.
    unsafe { libc::close(socket) };
    (socket < 0).then(|| "the kernel has no AF_XDP".to_owned())
}

/// Datagrams that the kernel's UDP has passed to sockets of this namespace.
fn datagrams(version: u8) -> u64 {
    let name = if version == 4 { "snmp" } else { "snmp6" };
    let text = std::fs::read_to_string(format!("/proc/thread-self/net/{name}")).unwrap();
    let line = if version == 4 {
        text.lines().filter(|line| line.starts_with("Udp:")).nth(1)
    } else {
        text.lines().find(|line| line.starts_with("Udp6InDatagrams"))
    };
    line.unwrap().split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn is_attached() -> bool {
    let output = Command::new("ip").args(["link", "show", "lo"]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("xdp")
}

#[test]
fn datagrams_arrive_before_the_stack_sees_them_and_nothing_stays_attached() {
    let name = "datagrams_arrive_before_the_stack_sees_them";
    if !testing::may_run(name, testing::lacks_root()) || !testing::may_run(name, namespace().as_deref()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let lathunt = || Command::new(env!("CARGO_BIN_EXE_lathunt"));
    for (version, channel) in [(4, "udp:127.0.0.1:7901"), (6, "udp:[::1]:7902"), (4, "udp:0.0.0.0:7903")] {
        let responder = lathunt()
            .args(["respond", channel, "-p", "0", "--delay", "1ms", "--receive", "xdp"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let mut responder = Running(responder.unwrap());
        // Two boxes, one after the other.
        for _ in 0..2 {
            let before = datagrams(version);
            let mut running = lathunt()
                .args([
                    "box",
                    &channel.replace("0.0.0.0", "127.0.0.1"),
                    "-p",
                    "0",
                    "-q",
                    "-D",
                    "500ms",
                    "-i",
                    "2ms",
                ])
                .args(["-o", &shown])
                .spawn()
                .unwrap();
            let begun = Instant::now();
            let mut attached = false;
            let status = loop {
                attached |= is_attached();
                if let Some(status) = running.try_wait().unwrap() {
                    break status;
                }
                assert!(begun.elapsed() < Duration::from_secs(20));
                std::thread::sleep(Duration::from_millis(20));
            };
            assert_eq!(status.code(), Some(0), "{channel}");
            assert!(attached, "{channel}");
            let text = std::fs::read_to_string(place.path().join("run.lathunt.json")).unwrap();
            let run = Run::from_json(&text).unwrap();
            let series = run.of(Quantity::Roundtrip).next().unwrap();
            let counts = series.counts.unwrap();
            assert!(
                counts.answered > 50 && (counts.lost, counts.foreign, counts.damaged) == (0, 0, 0),
                "{counts:?}"
            );
            assert!(series.histogram.min().unwrap().0 >= 1_000_000, "the delay of the responder");
            // The answers, and what was on its way before the program was attached.
            let through_the_stack = datagrams(version) - before;
            assert!(through_the_stack < counts.answered + 20, "{through_the_stack} {counts:?}");
        }
        // kill -9 while a box measures.
        let mut last = lathunt();
        last.args(["box", &channel.replace("0.0.0.0", "127.0.0.1"), "-p", "0", "-q", "-D", "5s"]);
        let last = Running(last.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let begun = Instant::now();
        while !is_attached() && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(is_attached(), "{channel}: {:?}", responder.0.try_wait());
        responder.0.kill().unwrap();
        responder.0.wait().unwrap();
        drop(last);
        // The kernel closes the files of a killed process in a kworker.
        let begun = Instant::now();
        while is_attached() && begun.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!is_attached(), "{channel}");
    }
}

//! What a box and a responder make of bad peers: one clear line or a counted loss, never a hang, never a wrong pairing.

mod responder;

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lathunt_core::latency_box::message::{crc32, Kind, Message, SIZE};
use lathunt_core::latency_box::Counts;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;

use responder::Responder;

fn lathunt(arguments: &[&str]) -> Output {
    let begun = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap();
    assert!(begun.elapsed() < Duration::from_secs(30), "{arguments:?} took {:?}", begun.elapsed());
    output
}

fn read(directory: &Path) -> Run {
    Run::from_json(&std::fs::read_to_string(directory.join("run.lathunt.json")).unwrap()).unwrap()
}

/// What a peer sends back for a stimulus.
type Behaviour = fn(&Message) -> Vec<Vec<u8>>;

fn answer(stimulus: &Message, sequence: u64, times: (u64, u64)) -> Vec<u8> {
    let (first, second) = times;
    Message { kind: Kind::Answer, sequence, first, second, ..*stimulus }.encode().to_vec()
}

fn of_version(message: &Message, version: u8) -> Vec<u8> {
    let mut bytes = message.encode();
    bytes[2] = version;
    let sum = crc32(&bytes[..SIZE - 4]).to_be_bytes();
    bytes[SIZE - 4..].copy_from_slice(&sum);
    bytes.to_vec()
}

/// A responder that welcomes each box and behaves as it likes, until its box says goodbye.
fn peer(socket: &UdpSocket, behave: Behaviour) {
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut bytes = [0; 100];
    while let Ok((n, from)) = socket.recv_from(&mut bytes) {
        let Ok(message) = Message::decode(&bytes[..n]) else { continue };
        let replies = match message.kind {
            Kind::Hello => {
                vec![Message { kind: Kind::Welcome, first: u64::MAX, ..message }.encode().to_vec()]
            }
            Kind::Stimulus => behave(&message),
            _ => return,
        };
        replies.iter().for_each(|reply| drop(socket.send_to(reply, from)));
    }
}

#[test]
fn answers_twice_too_early_damaged_of_another_version_in_floods_or_with_impossible_times_are_counted() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    // What comes back, and what must be counted of `sent`.
    type Expected = fn(&Counts) -> bool;
    let cases: [(Behaviour, Expected); 6] = [
        (|s| vec![answer(s, s.sequence, (1, 2)); 2], |c| c.answered == c.sent && c.duplicated == c.sent),
        (|s| vec![answer(s, s.sequence + 9, (1, 2))], |c| c.answered == 0 && c.foreign == c.sent),
        (
            |s| vec![vec![7; SIZE], vec![7; 900], Vec::new(), answer(s, s.sequence, (1, 2))],
            |c| c.answered == c.sent && c.damaged == 3 * c.sent,
        ),
        (|s| vec![of_version(s, 9)], |c| c.answered == 0 && c.damaged == c.sent),
        (|s| vec![answer(s, s.sequence, (1, 2)); 40], |c| c.answered == c.sent && c.duplicated > c.sent),
        (|s| vec![answer(s, s.sequence, (0, u64::MAX))], |c| c.answered == c.sent),
    ];
    for (at, (behave, expected)) in cases.into_iter().enumerate() {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let channel = format!("udp:{}", socket.local_addr().unwrap());
        let peer = std::thread::spawn(move || peer(&socket, behave));
        let output = lathunt(&[
            "box",
            &channel,
            "-p",
            "0",
            "-q",
            "-D",
            "150ms",
            "-i",
            "5ms",
            "--timeout",
            "200ms",
            "-o",
            &shown,
        ]);
        peer.join().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        let run = read(place.path());
        let series = run.of(Quantity::Roundtrip).next().unwrap();
        let counts = series.counts.unwrap();
        assert!(counts.sent > 5 && expected(&counts), "case {at}: {counts:?} {stderr}");
        assert_eq!(output.status.code(), Some(if counts.lost > 0 { 3 } else { 0 }), "case {at}: {stderr}");
        assert_eq!(series.histogram.count(), counts.answered);
        // Times that contradict the round trip are not counted as its parts.
        let impossible = at == 5;
        assert_eq!(
            run.max_of(Quantity::Turnaround).is_none(),
            impossible || counts.answered == 0,
            "case {at}"
        );
    }
}

#[test]
fn a_third_party_neither_answers_for_a_box_nor_keeps_it_from_its_responder() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let channel = "udp:127.0.0.1:47451";
    let _responder = Responder::start(&["-p", "0", channel]);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let stranger = |kind| Message::new(kind, 5, 1).encode().to_vec();
            let noise = [
                stranger(Kind::Stimulus),
                stranger(Kind::Answer),
                stranger(Kind::Bye),
                of_version(&Message::new(Kind::Hello, 7, 0), 9),
                vec![9; SIZE],
                vec![9; 3_000],
                Vec::new(),
            ];
            while !over.load(Ordering::Relaxed) {
                noise.iter().for_each(|bytes| drop(socket.send_to(bytes, "127.0.0.1:47451")));
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let output = lathunt(&["box", channel, "-p", "0", "-q", "-D", "300ms", "-i", "5ms", "-o", &shown]);
        over.store(true, Ordering::Relaxed);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    });
    let counts = read(place.path()).series[0].counts.unwrap();
    assert_eq!((counts.lost, counts.duplicated, counts.damaged), (0, 0, 0), "{counts:?}");
}

#[test]
fn either_end_survives_that_the_other_one_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let socket = format!("unix:{}", place.path().join("socket").display());
    for channel in ["udp:127.0.0.1:47452", &socket, "pty", "futex-pi", "semaphore"] {
        let mut responder = Responder::start(&["-p", "0", channel]);
        let dying = |delay| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
            command.args(["box", channel, "-p", "0", "-q", "-D", "20s"]).stdout(Stdio::null());
            let mut running = command.stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            running.kill().unwrap();
            running.wait().unwrap();
        };
        dying(300);
        let measure = |length: &str| {
            let all = ["box", channel, "-p", "0", "-q", "-i", "5ms", "--wait", "10s", "--timeout", "200ms"];
            lathunt(&[&all[..], &["-D", length, "-o", &shown]].concat())
        };
        let output = measure("200ms");
        assert_eq!(output.status.code(), Some(0), "{channel}: {}", String::from_utf8_lossy(&output.stderr));
        let counts = read(place.path()).series[0].counts.unwrap();
        assert_eq!((counts.lost, counts.duplicated), (0, 0), "{channel}: the answers are its own");
        // Now the responder, once the box has measured for a while.
        std::thread::scope(|scope| {
            let box_of_it = scope.spawn(|| measure("1s"));
            std::thread::sleep(Duration::from_millis(600));
            responder.0.kill().unwrap();
            let output = box_of_it.join().unwrap();
            assert_eq!(output.status.code(), Some(3), "{channel}");
        });
        // Between two stimuli none is lost: then the measurement was cut off.
        let run = read(place.path());
        assert!(run.series[0].lost > 0 || !run.complete, "{channel}");
    }
}

#[test]
fn a_file_that_is_no_port_is_not_written_to() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("precious");
    std::fs::write(&file, "precious").unwrap();
    for channel in [format!("virtio:{}", file.display()), "virtio:/dev/null".to_owned()] {
        for command in ["box", "respond"] {
            let output = lathunt(&[command, &channel, "-p", "0", "-D", "200ms"]);
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{channel}: {stderr}");
            assert!(stderr.contains("not a port of virtio-serial"), "{channel}: {stderr}");
        }
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
}

#[test]
fn a_socket_that_somebody_uses_is_not_taken_away() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("log");
    let socket = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    let channel = format!("unix:{}", path.display());
    let output = lathunt(&["respond", &channel, "-p", "0", "-D", "200ms"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("the path exists"), "{stderr}");
    assert!(path.exists());
    drop(socket); // what a killed one left is removed
    assert_eq!(lathunt(&["respond", &channel, "-p", "0", "-D", "200ms"]).status.code(), Some(0));
}

#[test]
fn silent_clients_and_other_versions_do_not_keep_a_box_from_its_responder() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let address = "127.0.0.1:47453";
    let channel = format!("tcp:{address}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["respond", "-q", "-p", "0", &channel]).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut responder = Responder(command.spawn().unwrap());
    let connect = || {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            match TcpStream::connect(address) {
                Ok(stream) => return stream,
                Err(error) => assert!(Instant::now() < until, "{error}"),
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let mut silent = [connect(), connect()];
    silent[0].write_all(&of_version(&Message::new(Kind::Hello, 7, 0), 9)).unwrap();
    silent[1].write_all(b"LH").unwrap();
    let output = lathunt(&[
        "box", &channel, "-p", "0", "-q", "-D", "200ms", "-i", "5ms", "--wait", "20s", "-o", &shown,
    ]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let counts = read(place.path()).series[0].counts.unwrap();
    assert_eq!((counts.lost, counts.damaged, counts.foreign), (0, 0, 0), "{counts:?}");
    responder.0.kill().unwrap();
    let mut said = String::new();
    responder.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("a message of version 9"), "{said}");
}

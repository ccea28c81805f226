//! `lathunt box` and `lathunt respond`: the contract for scripts, exit codes, one-line errors, the pages.

mod responder;

use std::io::{Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::run::Run;
use lathunt_core::series::{Quantity, Series};
use lathunt_core::verdict::Outcome;

use responder::Responder;

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

fn measured(directory: &Path) -> (Run, Series) {
    let text = std::fs::read_to_string(directory.join("run.lathunt.json")).unwrap();
    let run = Run::from_json(&text).unwrap();
    let series = run.of(Quantity::Roundtrip).next().unwrap().clone();
    (run, series)
}

#[test]
fn a_script_gets_a_run_with_counts_over_any_channel() {
    let place = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", place.path().join("socket").display());
    for channel in
        [socket.as_str(), "udp:127.0.0.1:47411", "tcp:127.0.0.1:47411", "pty", "mqueue", "futex-pi", "signal"]
    {
        let _responder = Responder::start(&["-p", "0", channel]);
        let directory = place.path().join(channel.replace(['/', ':'], "-"));
        let shown = directory.display().to_string();
        let output = lathunt(&["box", channel, "-p", "0", "-D", "500ms", "-i", "2ms", "-o", &shown]);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{channel}: {stderr}");
        let (run, series) = measured(&directory);
        let counts = series.counts.unwrap();
        assert!(counts.sent > 20 && counts.sent + series.missed.unwrap() <= 251, "{channel}: {counts:?}");
        assert_eq!((counts.answered, counts.lost, counts.duplicated), (counts.sent, 0, 0), "{channel}");
        assert_eq!(series.histogram.count(), counts.answered);
        assert_eq!(series.channel.as_deref(), Some(channel));
        assert!(run.complete && run.verdict.as_ref().is_none_or(|verdict| verdict.outcome.is_none()));
    }
}

#[test]
fn a_program_of_the_user_answers_and_its_death_is_told() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    {
        let _responder = Responder::start(&["-p", "0", "udp:127.0.0.1:47412", "--", "cat"]);
        let arguments = ["box", "udp:127.0.0.1:47412", "-p", "0", "-D", "300ms", "-i", "3ms", "-o", &shown];
        assert_eq!(lathunt(&arguments).status.code(), Some(0));
        assert_eq!(measured(place.path()).1.counts.unwrap().lost, 0);
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["respond", "udp:127.0.0.1:47412", "-p", "0", "--", "true"]).stderr(Stdio::piped());
    let responder = command.stdout(Stdio::null()).spawn().unwrap();
    lathunt(&["box", "udp:127.0.0.1:47412", "-p", "0", "-D", "200ms", "-q", "--timeout", "100ms"]);
    let output = responder.wait_with_output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && stderr.contains("program that answers has ended"), "{stderr}");
}

#[test]
fn lost_answers_are_never_a_pass_and_a_known_delay_is_exceeded() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    // It welcomes each box and answers nothing else.
    let socket = UdpSocket::bind("127.0.0.1:47413").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let silent = std::thread::spawn(move || {
        use lathunt_core::latency_box::message::{Kind, Message};
        let mut bytes = [0; 100];
        while let Ok((n, from)) = socket.recv_from(&mut bytes) {
            let Ok(message) = Message::decode(&bytes[..n]) else { continue };
            match message.kind {
                Kind::Hello => {
                    drop(socket.send_to(&Message { kind: Kind::Welcome, ..message }.encode(), from))
                }
                Kind::Bye => return,
                _ => {}
            }
        }
    });
    let box_of = |channel: &str, more: &[&str]| {
        let all = ["box", channel, "-p", "0", "-D", "200ms", "-q", "--deadline", "500us", "-o", &shown];
        lathunt(&[&all[..], more].concat())
    };
    let output = box_of("udp:127.0.0.1:47413", &["--timeout", "100ms"]);
    assert_eq!(output.status.code(), Some(3), "{}", String::from_utf8_lossy(&output.stderr));
    let (run, series) = measured(place.path());
    assert_eq!(run.verdict.unwrap().outcome, Some(Outcome::Inconclusive));
    assert!(series.lost > 100 && series.histogram.count() == 0);
    silent.join().unwrap();
    let _responder = Responder::start(&["-p", "0", "eventfd", "--delay", "2ms"]);
    let output = box_of("eventfd", &["-i", "5ms"]);
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    let (run, series) = measured(place.path());
    assert_eq!(run.verdict.unwrap().outcome, Some(Outcome::Fail));
    assert!(series.histogram.min().unwrap().0 >= 2_000_000);
    assert_eq!(series.counts.unwrap().late, series.counts.unwrap().answered);
}

#[test]
fn bad_input_is_one_clear_line() {
    for (arguments, says) in [
        (vec!["box"], "CHANNEL"),
        (vec!["box", "tape"], "there are udp:HOST:PORT"),
        (vec!["box", "eventfd", "eventfd"], "named twice"),
        (vec!["box", "udp:127.0.0.1:1", "--wait", "200ms"], "lathunt respond udp:127.0.0.1:1"),
        (vec!["box", "tcp:127.0.0.1:1", "--wait", "200ms"], "lathunt respond tcp:127.0.0.1:1"),
        (vec!["box", "condvar", "--wait", "200ms"], "lathunt respond condvar"),
        (vec!["box", "tty:/dev/absent@9600"], "there is no such device"),
        (vec!["box", "tty:/dev/null@9600"], "not a serial line"),
        (vec!["box", "--pair", "udp:127.0.0.1:1"], "for example eventfd"),
        (vec!["box", "-S", "signal"], "--pair"),
        (vec!["box", "--pair", "preempt", "-p", "0"], "needs real-time priorities"),
        (vec!["box", "--pair", "preempt:1"], "from 2 to 32"),
        (vec!["box", "--pair", "preempt", "--matrix"], "drop --matrix"),
        (vec!["box", "--pair", "nothing"], "'nothing' is not a pair: pipe, pty"),
        (vec!["box", "--pair", "pipe", "--pair", "pipe"], "--pair pipe is given twice"),
        (vec!["box", "--pair", "pipe", "--pair", "pipe", "--matrix"], "--pair pipe is given twice"),
        (vec!["box", "--pair", "pipe", "--matrix", "--calibrate"], "cannot be used with '--calibrate'"),
        (vec!["box", "--pair", "pipe", "--matrix", "--lines", "x"], "cannot be used with '--lines"),
        (vec!["box", "--pair", "pipe", "--matrix", "--listen", "0"], "cannot be used with '--listen"),
        (
            vec!["box", "--pair", "pipe", "--compare", "receive", "--lines", "x"],
            "cannot be used with '--lines",
        ),
        (vec!["box", "--latmon", "pipe", "-i", "1ms"], "cannot be used with '--interval"),
        (vec!["box", "--latmon", "pipe", "--pattern", "burst:2"], "cannot be used with '--pattern"),
        (vec!["box", "--pair", "pipe", "-i", "-5"], "unexpected argument '-5' found; see --help"),
        (vec!["box", "tty:/dev/absent@9600", "--calibrate"], "calibrate at 115200 baud"),
        (vec!["box", "--compare", "receive", "--pair", "futex"], "nothing to compare"),
        (vec!["box", "--compare", "receive", "udp:203.0.113.9:1"], "address of its own machine"),
        (vec!["respond", "pipe", "--receive", "poll"], "busy-poll, io-uring or xdp"),
        (vec!["box", "eventfd", "--pattern", "often"], "burst:N"),
        (vec!["box", "--pair", "pipe", "--listen", "nowhere", "-D", "100ms"], "127.0.0.1:9746"),
        (vec!["respond", "udp:203.0.113.9:1"], "address of its own machine"),
        (vec!["respond", "tty:/dev/absent"], "there is no such device"),
        (vec!["respond", "pipe", "--delay", "x"], "uniform:0us,500us"),
        (vec!["respond", "pipe", "--cpu", "1999"], "cannot use CPU 1999; online are"),
        (vec!["respond", "pipe", "pty", "--", "cat"], "one channel"),
        (vec!["respond", "pipe", "--", "/absent/program"], "/absent/program"),
    ] {
        let output = lathunt(&arguments);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().filter(|line| line.starts_with("lathunt: ")).count(), 1, "{stderr}");
    }
}

#[test]
fn pairs_are_measured_calibrated_and_shown_as_a_matrix() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    let all = ["box", "--pair", "futex", "--pair", "semaphore", "-p", "0", "-D", "300ms", "-o", &shown];
    let output = lathunt(&all);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("outward") && text.contains("0 lost"), "{text}");
    assert_eq!(measured(place.path()).0.of(Quantity::Outward).count(), 2);
    let text = lathunt(&["box", "--pair", "eventfd", "--matrix", "-p", "0", "-D", "100ms"]).stdout;
    assert!(String::from_utf8_lossy(&text).contains("eventfd, round trip, median"));
    lathunt(&["box", "--pair", "eventfd", "--calibrate", "-p", "0", "-D", "100ms", "-o", &shown]);
    // Whether the machine was quiet enough to pass is not ours to say; that it was tried is.
    let calibration = measured(place.path()).0.calibration;
    assert_eq!(calibration.len(), 3);
    assert!(calibration.iter().all(|one| one.passed || !one.note.is_empty()));
}

#[test]
fn the_lines_of_a_box_are_imported_and_plotted() {
    let place = tempfile::tempdir().unwrap();
    let file = |name: &str| place.path().join(name).display().to_string();
    let (lines, run, plot) = (file("lines.txt"), file("run.lathunt.json"), file("lines.svg"));
    lathunt(&["box", "--pair", "pipe", "-p", "0", "-D", "300ms", "-q", "--lines", &lines, "-o", &run]);
    let measured = read_samples(&run);
    for command in [vec!["import", &lines, "-o", &run, "--force"], vec!["plot", &lines, "-o", &plot]] {
        let output = lathunt(&command);
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    }
    assert_eq!(read_samples(&run), measured);
    assert!(std::fs::read_to_string(&plot).unwrap().starts_with("<svg"));
}

/// Samples, also those of unknown size.
fn read_samples(file: &str) -> u64 {
    let run = Run::from_json(&std::fs::read_to_string(file).unwrap()).unwrap();
    let series = run.of(Quantity::Roundtrip).next().unwrap();
    series.histogram.count() + series.lost
}

#[test]
fn every_measurement_ends_at_a_round_trip_above_the_limit_and_its_table_fits_a_terminal() {
    let pair = ["box", "--pair", "pipe", "-p", "0", "-D", "200ms"];
    for how in [&[][..], &["--matrix"], &["--compare", "receive"]] {
        let output = lathunt(&[&pair[..], how, &["-b", "1us"]].concat());
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{how:?}: {stderr}");
        assert!(stderr.contains("stopped: ") && stderr.contains(", above 1.0 µs"), "{how:?}: {stderr}");
        let text =
            String::from_utf8(lathunt(&[&pair[..], how, &["--deadline", "1h"]].concat()).stdout).unwrap();
        // Each series lasts a part of the measurement.
        assert!(text.contains("INCONCLUSIVE") && !text.contains("expected activation"), "{how:?}: {text}");
        let text = String::from_utf8(lathunt(&[&pair[..], how].concat()).stdout).unwrap();
        let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 80, "{how:?}: {widest} columns\n{text}");
    }
}

#[test]
fn the_pages_of_a_running_measurement_have_its_figures() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
    command.args(["box", "--pair", "pipe", "-p", "0", "-q", "--listen", "47414"]);
    let mut running = Responder(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let get = |path: &str| {
        let begun = Instant::now();
        loop {
            if let Ok(mut stream) = TcpStream::connect("127.0.0.1:47414") {
                write!(stream, "GET {path} HTTP/1.1\r\n\r\n").unwrap();
                let mut text = String::new();
                stream.read_to_string(&mut text).unwrap();
                break text;
            }
            assert!(begun.elapsed() < Duration::from_secs(20), "nobody serves");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    get("/");
    std::thread::sleep(Duration::from_millis(500));
    let page = get("/histogram");
    let lines: Vec<u64> =
        page.split_once("\r\n\r\n").unwrap().1.lines().map(|line| line.parse().unwrap()).collect();
    assert!(lines.len() == 1_000 && lines.iter().sum::<u64>() > 50, "{lines:?}");
    assert!(get("/metrics").contains("lathunt_box_stimuli_total{channel=\"pipe\",kind=\"sent\"}"));
    assert!(get("/run").contains("\"roundtrip\"") && get("/x").starts_with("HTTP/1.1 404"));
    // Many at once share a copy of the figures: none waits until its time is over.
    std::thread::scope(|scope| {
        let asking: Vec<_> = (0..40).map(|_| scope.spawn(|| get("/metrics"))).collect();
        assert!(asking.into_iter().all(|page| page.join().unwrap().starts_with("HTTP/1.1 200")));
    });
    // SAFETY: our own child, which was not waited for.
    unsafe { libc::kill(running.0.id() as i32, libc::SIGINT) };
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

#[test]
fn each_way_to_receive_answers_all_and_is_compared_in_turn() {
    let place = tempfile::tempdir().unwrap();
    let shown = place.path().display().to_string();
    for (at, method) in ["sigio", "epoll", "busy-poll", "io-uring"].into_iter().enumerate() {
        // Two boxes after one another: the second session gets another thread.
        let channel = format!("udp:127.0.0.1:{}", 47_420 + at);
        let mut responder = Responder::start(&["-p", "0", &channel, "--receive", method]);
        for _ in 0..2 {
            let output =
                lathunt(&["box", &channel, "-p", "0", "-D", "300ms", "-i", "2ms", "-q", "-o", &shown]);
            if let Ok(Some(ended)) = responder.0.try_wait() {
                // A kernel without io_uring, or one that forbids it.
                assert!(method == "io-uring" && ended.code() == Some(1), "{method}: {ended}");
                break;
            }
            assert_eq!(
                output.status.code(),
                Some(0),
                "{method}: {}",
                String::from_utf8_lossy(&output.stderr)
            );
            let counts = measured(place.path()).1.counts.unwrap();
            assert!(counts.answered > 20 && counts.lost == 0, "{method}: {counts:?}");
        }
    }
    let socket = format!("unix:{}", place.path().join("compared").display());
    for what in [["--pair", "mqueue"], [&socket, "-q"]] {
        let all = ["box", "--compare", "receive", "-p", "0", "-D", "250ms", "-i", "2ms", "-o", &shown];
        let output = lathunt(&[&all[..], &what].concat());
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_eq!(output.status.code(), Some(0), "{text}{}", String::from_utf8_lossy(&output.stderr));
        let ways = ["blocking", "epoll", "busy-poll"];
        assert!(ways.iter().all(|way| text.contains(way)) && text.contains("CPU each"), "{text}");
        let run = measured(place.path()).0;
        let found: Vec<&Series> = run.of(Quantity::Roundtrip).collect();
        for way in ways {
            let series = found.iter().find(|one| one.label().ends_with(way)).unwrap();
            let counts = series.counts.unwrap();
            assert_eq!((series.histogram.count(), counts.lost), (counts.answered, 0), "{way}");
            assert!(counts.answered > 20, "{way}: {counts:?}");
            assert!(run.conditions.notes.iter().any(|note| note.contains(way) && note.contains("CPU time")));
        }
    }
}

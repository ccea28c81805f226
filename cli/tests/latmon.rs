//! `lathunt respond --latmon` and `lathunt box --latmon` against peers that are written from the protocol alone, with what real
//! firmware does wrong as an option.

#[path = "latmon/peer.rs"]
mod peer;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpStream, UdpSocket};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use lathunt_core::latency_box::latmon::listener::Listener;
use lathunt_core::latency_box::latmon::monitor::{Monitor, Order};
use lathunt_core::latency_box::latmon::wire::Request;
use lathunt_core::run::Run;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use peer::{Defect, Latmon};

fn lathunt(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lathunt")).args(arguments).output().unwrap()
}

/// A process that does not outlive its test.
struct Background(Child);

impl Background {
    fn start(arguments: &[&str], stderr: Stdio) -> Background {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lathunt"));
        Background(command.args(arguments).stdout(Stdio::null()).stderr(stderr).spawn().unwrap())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `lathunt respond --latmon` on a socket in `place` that nobody uses: the figures are those of the peer.
fn respond(latmon: &str, place: &Path, more: &[&str]) -> Output {
    let channel = format!("unix:{}", place.join("pulses").display());
    let output = place.display().to_string();
    let all = ["respond", "--latmon", latmon, &channel, "-p", "0", "-o", &output];
    lathunt(&[&all[..], more].concat())
}

fn run_of(place: &Path) -> Run {
    Run::from_json(&std::fs::read_to_string(place.join("run.lathunt.json")).unwrap()).unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn latmus_asks_as_the_protocol_says_and_takes_every_figure() {
    let place = tempfile::tempdir().unwrap();
    // 20 ms: 50 samples a record. Latencies of 10, 11, … 59 µs.
    let latmon = Latmon::start(Defect::None);
    let plot = place.path().join("plot").display().to_string();
    let more = ["-i", "20ms", "--cells", "200", "-D", "600ms", "--format", "latmus", "--plot", &plot];
    let output = respond(&latmon.address, place.path(), &more);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    let heard = latmon.heard();
    assert_eq!(heard[..8], [0, 0, 0x4e, 0x20, 0, 0, 0, 0xc8], "20000 us, 200 cells");
    assert_eq!(heard[8..], [0; 8], "a stop and no more");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(
        lines[0].starts_with("RTT|  00:00:00  (unix:") && lines[0].contains("20000 us period, priority 0"),
        "{stdout}"
    );
    assert_eq!(lines[1], "RTH|----lat min|----lat avg|----lat max|-overrun|---msw|---lat best|--lat worst");
    assert_eq!(lines[2], "RTD|     10.500|     35.000|     59.500|       0|     0|     10.500|     59.500");
    assert!(lines.last().unwrap().starts_with("RTS|     10.500|     35."), "{stdout}");
    let run = run_of(place.path());
    let series = run.of(Quantity::Roundtrip).next().unwrap();
    assert!(run.complete && series.lost == 0);
    assert_eq!((series.histogram.min(), series.histogram.max()), (Some(Ns(10_500)), Some(Ns(59_500))));
    assert_eq!(series.histogram.count(), latmon.samples());
    let rows = std::fs::read_to_string(&plot).unwrap();
    assert!(rows.lines().any(|line| line == "# sampling period: 20000 microseconds"), "{rows}");
    let counted: u64 = rows
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap().1.parse::<u64>().unwrap())
        .sum();
    assert_eq!(counted, latmon.samples());
    let again = respond(&latmon.address, place.path(), &["--plot", &plot]);
    assert!(again.status.code() == Some(1) && text(&again.stderr).contains("does not overwrite"));
}

#[test]
fn each_defect_of_the_firmware_is_survived_named_and_never_a_pass() {
    // defect, exit code, what stderr says, longest latency in the run
    let cases = [
        (Defect::FoldsAbovePeriod, 3, "folds latencies above the period", Some(900_000)),
        (Defect::StopsAfterLateReply, 3, "stopped after a late reply", Some(59_500)),
        (Defect::OldRecordFirst, 0, "1 records do not have 50 latencies", Some(77_000)),
        (Defect::CutRecord, 3, "are part of no record", Some(59_500)),
        (Defect::MemoryFirst, 3, "are part of no record", Some(59_500)),
        (Defect::DiesInARecord, 3, "disconnected before it was asked to stop", Some(59_500)),
        (Defect::DiesAtOnce, 1, "gave no latency: it closed the connection; no pulse arrived", None),
        (Defect::Silent, 1, "gave no latency: it is unresponsive; no pulse arrived", None),
        (Defect::Floods, 3, "unresponsive: no answer to stop within 5 s", Some(59_500)),
        (Defect::NoAnswerToStop, 3, "unresponsive: no answer to stop within 5 s", Some(59_500)),
        (Defect::EndsItself, 3, "ended the measurement by itself", Some(59_500)),
    ];
    std::thread::scope(|scope| {
        for (defect, code, says, longest) in cases {
            scope.spawn(move || {
                let place = tempfile::tempdir().unwrap();
                let latmon = Latmon::start(defect);
                // The one that stops must be let run longer than the silence that shows it.
                let length = if defect == Defect::StopsAfterLateReply { "20s" } else { "400ms" };
                let begun = Instant::now();
                let output =
                    respond(&latmon.address, place.path(), &["-i", "20ms", "--cells", "200", "-D", length]);
                let stderr = text(&output.stderr);
                assert_eq!(output.status.code(), Some(code), "{defect:?}: {stderr}");
                assert!(stderr.contains(says), "{defect:?}: {stderr}");
                assert!(begun.elapsed() < Duration::from_secs(15), "{defect:?}");
                if let Some(longest) = longest {
                    let run = run_of(place.path());
                    let series = run.of(Quantity::Roundtrip).next().unwrap();
                    assert_eq!(series.histogram.max(), Some(Ns(longest)), "{defect:?}");
                    assert!(
                        run.conditions.notes.iter().any(|note| note.contains(says)),
                        "{defect:?}: {stderr}"
                    );
                }
            });
        }
    });
}

/// A `box --latmon` on a port of its own, and that port.
fn monitor(channel: &str, more: &[&str]) -> (Background, u16, BufReader<std::process::ChildStderr>) {
    let all = ["box", "--latmon", "--listen", "127.0.0.1:0", channel, "-p", "0"];
    let mut latmon = Background::start(&[&all[..], more].concat(), Stdio::piped());
    let mut stderr = BufReader::new(latmon.0.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("waiting for latmus") {
        line.clear();
        assert!(stderr.read_line(&mut line).unwrap() > 0, "it ended before it listened");
    }
    let port = line.split(':').nth(1).unwrap().parse().unwrap();
    (latmon, port, stderr)
}

#[test]
fn latmon_measures_a_known_delay_for_latmus_byte_for_byte() {
    let place = tempfile::tempdir().unwrap();
    let channel = format!("unix:{}", place.path().join("pulses").display());
    let shown = place.path().display().to_string();
    let _responder =
        Background::start(&["respond", &channel, "-p", "0", "-q", "--delay", "2ms"], Stdio::null());
    let (mut latmon, port, _stderr) = monitor(&channel, &["-o", &shown]);
    let mut latmus = TcpStream::connect(("127.0.0.1", port)).unwrap();
    latmus.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    // Refused requests are answered as a stop: a record without samples, and no cells before a start.
    for refused in
        [[0, 0x0f, 0x42, 0x41, 0, 0, 0, 0], [0, 0, 3, 0xe8, 0, 0, 3, 0xe9], [0, 0, 0, 1, 0, 0, 0, 1]]
    {
        latmus.write_all(&refused).unwrap();
        assert_eq!(peer::bytes(&mut latmus, 24), peer::EMPTY);
    }
    // A flood of them fills no pipe with complaints.
    for _ in 0..30 {
        latmus.write_all(&[0xee; 800]).unwrap();
        assert_eq!(peer::bytes(&mut latmus, 2_400), peer::EMPTY.repeat(100));
    }
    // 10 ms, 100 samples a record, in two pieces.
    latmus.write_all(&[0, 0, 0x27]).unwrap();
    std::thread::sleep(Duration::from_millis(30));
    latmus.write_all(&[0x10, 0, 0, 0, 50]).unwrap();
    let first = peer::bytes(&mut latmus, 24);
    let (sum, min, max, overruns, samples) = peer::record(&first);
    // A pulse that is answered after the next is due, as where a host takes the CPU, is an overrun.
    assert!(samples == 100 && (overruns == 0 || max >= 8_000_000), "{first:?}");
    assert!(
        min >= 2_000_000 && min <= max && sum >= 100 * i64::from(min) && sum <= 100 * i64::from(max),
        "{first:?}"
    );
    std::thread::sleep(Duration::from_millis(100));
    latmus.write_all(&[0; 8]).unwrap();
    let mut total = u64::from(samples);
    loop {
        let bytes = peer::bytes(&mut latmus, 24);
        match peer::record(&bytes).4 {
            0 => {
                assert_eq!(bytes[..16], peer::EMPTY[..16]);
                break;
            }
            samples => total += u64::from(samples),
        }
    }
    let cells = peer::bytes(&mut latmus, 200);
    let counts: Vec<u32> = cells.chunks(4).map(|cell| u32::from_be_bytes(cell.try_into().unwrap())).collect();
    assert_eq!(u64::from(counts[49]), total, "2 ms are above the last cell: {counts:?}");
    // One that stops what does not run gets no cells; one that dies in a measurement frees the place for the next.
    latmus.write_all(&[0; 8]).unwrap();
    assert_eq!(peer::bytes(&mut latmus, 24), peer::EMPTY);
    latmus.write_all(&[0, 0, 0x27, 0x10, 0, 0, 0, 0]).unwrap();
    std::thread::sleep(Duration::from_millis(300));
    drop(latmus);
    let mut next = TcpStream::connect(("127.0.0.1", port)).unwrap();
    next.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    next.write_all(&[1, 2, 3]).unwrap();
    next.write_all(&[0; 8]).unwrap();
    assert_eq!(peer::bytes(&mut next, 24), peer::EMPTY);
    drop(next);
    // SAFETY: our own child, which was not waited for.
    unsafe { libc::kill(latmon.0.id() as i32, libc::SIGINT) };
    assert_eq!(latmon.0.wait().unwrap().code(), Some(0));
    let run = run_of(place.path());
    let all: Vec<_> = run.of(Quantity::Roundtrip).collect();
    assert_eq!(all.len(), 2, "two measurements were started");
    assert_eq!(all[0].histogram.count(), total);
    assert!(all[0].histogram.min().unwrap().0 >= 2_000_000);
}

#[test]
fn both_ends_find_each_other_and_agree() {
    let place = tempfile::tempdir().unwrap();
    let channel = format!("unix:{}", place.path().join("pulses").display());
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let listen = format!("127.0.0.1:{port}");
    let (there, here) = (place.path().join("there"), place.path().join("here"));
    let all =
        ["box", "--latmon", "--listen", &listen, &channel, "-p", "0", "-q", "-o", there.to_str().unwrap()];
    let mut latmon = Background::start(&all, Stdio::null());
    // Its address is announced on loopback after five seconds.
    let latmon_address = format!("broadcast:{port}");
    let all =
        ["respond", "--latmon", &latmon_address, &channel, "-p", "0", "-i", "5ms", "-D", "1200ms", "-o"];
    let output = lathunt(&[&all[..], &[here.to_str().unwrap()]].concat());
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{stderr}");
    // SAFETY: our own child, which was not waited for.
    unsafe { libc::kill(latmon.0.id() as i32, libc::SIGINT) };
    assert_eq!(latmon.0.wait().unwrap().code(), Some(0));
    let (there, here) = (run_of(&there), run_of(&here));
    let histograms = [&there, &here].map(|run| run.of(Quantity::Roundtrip).next().unwrap().histogram.clone());
    assert!(histograms[0].count() > 50, "{stderr}");
    let figures =
        |one: &lathunt_core::histogram::Histogram| (one.count(), one.min(), one.max(), one.sum_ns());
    assert_eq!(figures(&histograms[0]), figures(&histograms[1]));
}

#[test]
fn a_datagram_of_latmon_is_enough_and_its_sender_counts() {
    let place = tempfile::tempdir().unwrap();
    let latmon = Latmon::start(Defect::None);
    let port = latmon.address.rsplit_once(':').unwrap().1.to_owned();
    let teller = std::thread::spawn({
        let port: u16 = port.parse().unwrap();
        move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            for _ in 0..100 {
                let _ = socket.send_to(b"198.51.100.7", ("127.0.0.1", port));
                std::thread::sleep(Duration::from_millis(50));
            }
        }
    });
    let output = respond(&format!("broadcast:{port}"), place.path(), &["-i", "20ms", "-D", "300ms"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("from 127.0.0.1 says '198.51.100.7'"), "{}", text(&output.stderr));
    teller.join().unwrap();
}

#[test]
fn bad_input_is_one_clear_line() {
    let place = tempfile::tempdir().unwrap();
    let channel = format!("unix:{}", place.path().join("x").display());
    for (arguments, says) in [
        (vec!["respond", "--latmon", "127.0.0.1:1", &channel, "-D", "300ms"], "is the box on"),
        (vec!["respond", "--latmon", "127.0.0.1:x", &channel], "not the address of a latmon"),
        (vec!["respond", "--latmon", "[::1]:5", &channel], "IPv4 only"),
        (vec!["respond", "--latmon", "127.0.0.1", &channel, "pipe"], "name one"),
        (vec!["respond", "--latmon", "127.0.0.1", &channel, "-i", "2s"], "1us to 1s"),
        (vec!["respond", &channel, "-i", "1ms"], "--latmon"),
        (vec!["box", "--latmon", &channel, "pipe"], "name one"),
        (vec!["box", "--latmon", "--listen", "nowhere", &channel], "IPv4 ADDR:PORT"),
        (vec!["box", "--latmon", "--listen", "127.0.0.1:0", &channel, "-D", "200ms"], "no latmus connected"),
        (vec!["box", "--latmon", "--timeout", "9s", &channel], "gives up after 5 s"),
    ] {
        let output = lathunt(&arguments);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {stderr}");
        assert!(stderr.contains(says) && output.stdout.is_empty(), "{arguments:?}: {stderr}");
        assert_eq!(stderr.lines().filter(|line| line.starts_with("lathunt: ")).count(), 1, "{stderr}");
    }
}

/// LATHUNT_FUZZ streams each way; 500 without it.
#[test]
fn mutated_streams_are_survived_in_both_roles() {
    let streams = std::env::var("LATHUNT_FUZZ").ok().and_then(|n| n.parse().ok()).unwrap_or(500u64);
    let mut random = lathunt_core::random::Random::new(streams);
    let request = Request { period_us: 20_000, cells: 40 };
    let whole = peer::session(20_000, 40, 3);
    for stream in 0..streams {
        let mut bytes = whole.clone();
        peer::mutate(&mut bytes, &mut |n| random.below(n));
        let mut listener = Listener::new(request);
        let (mut events, stop) = (0, random.below(bytes.len() as u64 + 1) as usize);
        for (at, piece) in bytes.chunks(1 + random.below(90) as usize).enumerate() {
            if at * 10 > stop {
                listener.stop();
            }
            listener.feed(piece);
            while listener.next().is_some() {
                events += 1;
            }
        }
        assert!(events <= bytes.len() / 24 + 1, "stream {stream}");
        // The same bytes as requests.
        let mut monitor = Monitor::default();
        for order in monitor.hear(&bytes) {
            match order {
                Order::Start(request) => {
                    monitor.start(request);
                    assert!((0..50).filter_map(|n| monitor.sample(Ns(n * 7_000))).count() <= 50);
                    monitor.overruns(random.below(u64::MAX));
                }
                Order::Stop | Order::Refused(_) => {
                    let answer = monitor.stop();
                    assert!(answer.len() >= 24 && answer.len() <= 48 + 4_000, "stream {stream}");
                }
            }
        }
        assert!(monitor.rest() < 8);
    }
}

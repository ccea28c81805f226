//! Stimuli and answers over each channel of one machine and of loopback: each answer pairs with its own stimulus, what is lost
//! is counted, and a known delay is seen at its size.

use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathunt_core::latency_box::channel::{Channel, Local};
use lathunt_core::latency_box::message::{Kind, Message, SIZE};
use lathunt_core::latency_box::schedule::Pattern;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;
use lathunt_host::latency_box::responder::{Served, Service, Serving};
use lathunt_host::latency_box::{preempt, Finished, Options, Place, Session};
use lathunt_host::link::{self, local, Link, Listener};
use lathunt_host::sched::{self, Policy};
use lathunt_host::testing::{lacks_root, may_run};

const ORDINARY: Place = Place { cpu: None, priority: 0 };

fn options(stimuli: u64, interval: Ns) -> Options {
    Options {
        name: "test".to_owned(),
        pattern: Pattern::Periodic,
        interval,
        duration: None,
        stimuli: Some(stimuli),
        timeout: Ns::from_ms(1_000),
        patience: Ns::from_ms(5_000),
        late_above: Ns::from_ms(100),
        break_at: None,
        ask: Ns::ZERO,
        warm: false,
        place: ORDINARY,
        worst: 4,
    }
}

fn service() -> Service {
    Service { place: ORDINARY, delay: None, seed: 1, relay: None }
}

fn measure(link: Link, options: Options) -> Finished {
    let session = Session::start(link, options).unwrap();
    let begun = Instant::now();
    while session.is_running() {
        assert!(begun.elapsed() < Duration::from_secs(60), "a measurement hangs");
        std::thread::sleep(Duration::from_millis(5));
    }
    session.finish()
}

fn over(pair: (Link, Link), options: Options) -> Finished {
    let served = Arc::new(Served::default());
    let serving = Serving::start(pair.1, service(), &served).unwrap();
    let finished = measure(pair.0, options);
    drop(serving.end());
    finished
}

#[test]
fn every_way_to_wake_a_thread_carries_each_stimulus_and_its_answer() {
    for local in Local::ALL {
        let finished = over(local::pair(local).unwrap(), options(300, Ns::from_us(500)));
        let counts = finished.counts;
        assert!(finished.welcomed, "{local}: {counts:?}");
        assert_eq!((counts.sent, counts.answered, counts.lost), (300, 300, 0), "{local}: {counts:?}");
        assert_eq!(
            (counts.duplicated, counts.damaged, counts.foreign, counts.out_of_order),
            (0, 0, 0, 0),
            "{local}"
        );
        let of = |quantity| finished.series.iter().find(move |series| series.quantity == quantity);
        let roundtrip = of(Quantity::Roundtrip).unwrap();
        assert_eq!(roundtrip.histogram.count(), 300, "{local}");
        assert_eq!(
            roundtrip.replayed.as_ref().map(|all| all.count()),
            roundtrip.missed.map(|missed| 300 + missed),
            "{local}"
        );
        // Both ends have one clock: the parts of a round trip are known.
        for part in [Quantity::Outward, Quantity::Turnaround, Quantity::Return] {
            assert_eq!(of(part).map(|series| series.histogram.count()), Some(300), "{local} {part:?}");
        }
        let worst = finished.worst[0];
        let (outward, inward) = worst.outward_and_return.unwrap();
        let turnaround = worst.sample.there.1 - worst.sample.there.0;
        assert_eq!(outward.0 + turnaround + inward.0, worst.sample.latency.0, "{local}: the parts add up");
    }
}

/// A responder on `channel` that a box reaches.
fn serve(channel: &str) -> (Arc<AtomicBool>, std::thread::JoinHandle<()>) {
    let mut listener = Listener::open(&channel.parse().unwrap()).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let served = Arc::new(Served::default());
    let handle = std::thread::spawn(move || {
        while !stopped.load(Ordering::Relaxed) {
            let Some(link) = listener.wait().unwrap() else { continue };
            let serving = Serving::start(link, service(), &served).unwrap();
            while serving.is_running() && !stopped.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let Some((link, _, _)) = serving.end() else { continue };
            listener.back(link);
        }
    });
    (stop, handle)
}

#[test]
fn a_responder_serves_one_box_after_the_other() {
    let place = tempfile::tempdir().unwrap();
    let socket = format!("unix:{}", place.path().join("box").display());
    for channel in [socket.as_str(), "udp:127.0.0.1:47311", "tcp:127.0.0.1:47312", "eventfd", "pipe"] {
        let (stop, handle) = serve(channel);
        for _ in 0..2 {
            let link = link::connect(&channel.parse().unwrap()).unwrap();
            let finished = measure(link, options(50, Ns::from_ms(1)));
            assert_eq!(
                (finished.counts.answered, finished.counts.lost),
                (50, 0),
                "{channel}: {:?}",
                finished.counts
            );
        }
        stop.store(true, Ordering::Relaxed);
        handle.join().unwrap();
    }
}

/// A relay that treats stimulus `n` of the answers as `fate` says. It knows nothing of messages but their length.
fn relay(to: &str, fate: impl Fn(u64) -> Vec<(u64, bool)> + Send + 'static) -> String {
    let front = UdpSocket::bind("127.0.0.1:0").unwrap();
    let back = UdpSocket::bind("127.0.0.1:0").unwrap();
    back.connect(to).unwrap();
    let address = front.local_addr().unwrap().to_string();
    let (inner, outer) = (back.try_clone().unwrap(), front.try_clone().unwrap());
    let peer = Arc::new(std::sync::Mutex::new(None));
    let known = Arc::clone(&peer);
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        while let Ok((n, from)) = front.recv_from(&mut buffer) {
            *known.lock().unwrap() = Some(from);
            let _ = back.send(&buffer[..n]);
        }
    });
    std::thread::spawn(move || {
        let mut buffer = [0; 2_048];
        let mut held: Option<Vec<u8>> = None;
        while let Ok(n) = inner.recv(&mut buffer) {
            let to = peer.lock().unwrap().unwrap();
            let message = Message::decode(&buffer[..n]).unwrap();
            if message.kind != Kind::Answer {
                outer.send_to(&buffer[..n], to).unwrap();
                continue;
            }
            for (kind, spoil) in fate(message.sequence) {
                let mut bytes = buffer[..n].to_vec();
                if spoil {
                    bytes[17] ^= 4;
                }
                match kind {
                    1 => held = Some(bytes),
                    delay => {
                        std::thread::sleep(Duration::from_millis(delay));
                        outer.send_to(&bytes, to).unwrap();
                        if let Some(held) = held.take() {
                            outer.send_to(&held, to).unwrap();
                        }
                    }
                }
            }
        }
    });
    address
}

#[test]
fn losses_duplicates_disorder_damage_and_delays_are_counted_exactly() {
    let (stop, handle) = serve("udp:127.0.0.1:47313");
    let address = relay("127.0.0.1:47313", |n| match n {
        10 | 20 | 21 => vec![],             // lost
        30 => vec![(0, false), (0, false)], // twice
        40 | 50 => vec![(1, false)],        // after the next one
        60 => vec![(0, true)],              // damaged
        70 => vec![(0, true), (0, false)],  // damaged, and once more, sound
        80 => vec![(300, false)],           // late, and with it all that follow it closely
        _ => vec![(0, false)],
    });
    let link = link::connect(&format!("udp:{address}").parse().unwrap()).unwrap();
    let counts = measure(link, options(90, Ns::from_ms(10))).counts;
    assert_eq!((counts.sent, counts.answered, counts.lost), (90, 86, 4), "{counts:?}");
    assert_eq!(
        (counts.duplicated, counts.out_of_order, counts.damaged, counts.foreign),
        (1, 2, 2, 0),
        "{counts:?}"
    );
    assert!((1..=11).contains(&counts.late), "{counts:?}");
    stop.store(true, Ordering::Relaxed);
    handle.join().unwrap();
}

#[test]
fn a_third_party_gets_no_answer_and_changes_no_count() {
    let (stop, handle) = serve("udp:127.0.0.1:47314");
    let quiet = Arc::new(AtomicBool::new(false));
    let flood = Arc::clone(&quiet);
    let intruder = std::thread::spawn(move || {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(Duration::from_micros(100))).unwrap();
        let (mut answered, mut buffer) = (0, [0; 100]);
        // Let the session begin: who comes first is served.
        std::thread::sleep(Duration::from_millis(150));
        while !flood.load(Ordering::Relaxed) {
            for bytes in
                [Message::new(Kind::Hello, 5, 0).encode().to_vec(), vec![7; SIZE], vec![], vec![1; 1_000]]
            {
                let _ = socket.send_to(&bytes, "127.0.0.1:47314");
            }
            answered += u64::from(socket.recv(&mut buffer).is_ok());
        }
        answered
    });
    let link = link::connect(&Channel::Udp("127.0.0.1:47314".to_owned())).unwrap();
    let session = Session::start(link, options(400, Ns::from_ms(2))).unwrap();
    while session.tally().counts().answered < 350 && session.is_running() {
        std::thread::sleep(Duration::from_millis(2));
    }
    quiet.store(true, Ordering::Relaxed);
    assert_eq!(intruder.join().unwrap(), 0, "somebody else got an answer");
    while session.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let counts = session.finish().counts;
    stop.store(true, Ordering::Relaxed);
    handle.join().unwrap();
    assert_eq!((counts.answered, counts.lost, counts.foreign), (400, 0, 0), "{counts:?}");
}

#[test]
fn a_responder_that_is_silent_or_dies_ends_nothing_in_a_hang() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let patience = Ns::from_ms(300);
    let link = link::connect(&Channel::Udp(address)).unwrap();
    let finished = measure(link, Options { patience, ..options(10, Ns::from_ms(1)) });
    assert_eq!((finished.welcomed, finished.counts.sent), (false, 0));
    for local in Local::ALL {
        let (mine, theirs) = local::pair(local).unwrap();
        let served = Arc::new(Served::default());
        let serving = Serving::start(theirs, service(), &served).unwrap();
        let (timeout, duration) = (Ns::from_ms(200), Some(Ns::from_ms(400)));
        let session =
            Session::start(mine, Options { timeout, duration, stimuli: None, ..options(0, Ns::from_ms(2)) })
                .unwrap();
        while session.tally().counts().answered < 20 {
            assert!(session.is_running(), "{local}");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(serving.end());
        let begun = Instant::now();
        while session.is_running() {
            assert!(begun.elapsed() < Duration::from_secs(60), "{local} hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
        let counts = session.finish().counts;
        assert!(counts.answered >= 20 && counts.sent == counts.answered + counts.lost, "{local}: {counts:?}");
    }
}

#[test]
fn a_greeting_before_each_stimulus_is_not_counted_loses_nothing_and_is_named() {
    for local in Local::ALL {
        let Ok(pair) = local::pair(local) else { continue };
        let finished = over(pair, Options { warm: true, ..options(200, Ns::from_us(700)) });
        let counts = finished.counts;
        assert_eq!((counts.sent, counts.answered, counts.lost), (200, 200, 0), "{local}: {counts:?}");
        assert_eq!((counts.duplicated, counts.damaged), (0, 0), "{local}: {counts:?}");
        assert!(finished.facts.iter().any(|fact| fact.contains("--warm")), "{local}: {:?}", finished.facts);
        assert!(finished.series.iter().all(|series| series.channel.as_deref() == Some("test (warm)")));
    }
}

#[test]
fn a_known_delay_shifts_the_median_by_itself() {
    let median = |ask: Ns| {
        let asked = Options { ask, ..options(150, Ns::from_ms(3)) };
        over(local::pair(Local::Eventfd).unwrap(), asked).series[0].histogram.quantile(0.5).unwrap().0 as f64
    };
    let without = median(Ns::ZERO);
    for delay in [200.0, 900.0, 1_500.0] {
        let shift = (median(Ns((delay * 1e3) as u64)) - without) / 1e3;
        assert!((shift - delay).abs() <= 60.0 + delay * 0.1, "{delay} µs shifts by {shift} µs");
    }
}

#[test]
#[ignore = "root: run by make test"]
fn a_chain_that_waits_for_its_cpu_when_the_measurement_ends_is_late() {
    if !may_run("a_chain_that_waits_for_its_cpu_when_the_measurement_ends_is_late", lacks_root()) {
        return;
    }
    let cpu = sched::affinity().unwrap().iter().last().unwrap();
    let options = preempt::Options {
        cpu,
        priority: 60,
        levels: 2,
        interval: Ns::from_ms(2),
        duration: None,
        timeout: Ns::from_ms(1_000),
        break_at: None,
        worst: 4,
    };
    let chain = preempt::Chain::start(options, &[]).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let busy = Arc::new(AtomicBool::new(false));
    let started = Arc::clone(&busy);
    let hog = std::thread::spawn(move || {
        sched::pin(cpu).unwrap();
        sched::set_policy(Policy::Fifo, 70).unwrap();
        started.store(true, Ordering::Release);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(100) {}
    });
    while !busy.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(1));
    }
    std::thread::sleep(Duration::from_millis(40));
    chain.end();
    hog.join().unwrap();
    while chain.is_running() {
        std::thread::sleep(Duration::from_millis(5));
    }
    let longest = chain.series().iter().filter_map(|level| level.histogram.max()).max();
    assert!(longest > Some(Ns::from_ms(80)), "{longest:?} of 100 ms");
}

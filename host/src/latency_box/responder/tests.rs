//! A responder beside strangers: whose session it keeps.

use std::net::UdpSocket;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use super::*;
use crate::link::udp;

struct Peer(UdpSocket, u64);

impl Peer {
    fn new(key: u64, responder: &UdpSocket) -> Peer {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.connect(responder.local_addr().unwrap()).unwrap();
        socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        Peer(socket, key)
    }

    fn say(&self, kind: Kind, sequence: u64, first: u64) {
        let message = Message { first, ..Message::new(kind, self.1, sequence) };
        self.send(&message.encode());
    }

    /// Also if the previous one was refused: that is reported instead of sending.
    fn send(&self, bytes: &[u8]) {
        self.0.send(bytes).or_else(|_| self.0.send(bytes)).unwrap();
    }

    /// The answer to a stimulus of this number.
    fn asks(&self, sequence: u64) -> bool {
        self.say(Kind::Stimulus, sequence, 0);
        let mut bytes = [0; SIZE];
        while let Ok(n) = self.0.recv(&mut bytes) {
            let message = Message::decode(&bytes[..n]).unwrap();
            if (message.kind, message.key, message.sequence) == (Kind::Answer, self.1, sequence) {
                return true;
            }
        }
        false
    }
}

/// A responder that starts once `before` has sent something to its socket.
fn start(before: impl FnOnce(&UdpSocket)) -> (Serving, UdpSocket) {
    let link = udp::bind("127.0.0.1:0").unwrap();
    // SAFETY: the link keeps it open.
    let socket = unsafe { BorrowedFd::borrow_raw(link.inlet.descriptor().unwrap()) };
    let socket = UdpSocket::from(socket.try_clone_to_owned().unwrap());
    before(&socket);
    let place = Place { cpu: None, priority: 0 };
    let service = Service { place, delay: None, seed: 1, relay: None };
    (Serving::start(link, service, &Arc::new(Served::default())).unwrap(), socket)
}

fn pass(serving: &Serving, ms: u64) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(ms) {
        assert!(serving.is_running());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_hello_that_was_queued_behind_that_of_a_box_does_not_replace_its_session() {
    let mut peers = None;
    let (serving, _socket) = start(|socket| {
        let (mine, stranger) = (Peer::new(7, socket), Peer::new(8, socket));
        mine.say(Kind::Hello, 0, 1_000_000);
        stranger.say(Kind::Hello, 0, 1_000_000);
        peers = Some((mine, stranger));
    });
    let (mine, _stranger) = peers.unwrap();
    assert!((1..=3).all(|sequence| mine.asks(sequence)));
    assert_eq!(serving.served().foreign.load(Ordering::Relaxed), 1);
    drop(serving.end());
}

#[test]
fn a_box_with_a_long_interval_is_not_silent_between_two_stimuli() {
    for (interval, keeps) in [(1_000_000_000, true), (1_000_000, false)] {
        let (serving, socket) = start(|_| {});
        let (mine, stranger) = (Peer::new(7, &socket), Peer::new(8, &socket));
        mine.say(Kind::Hello, 0, interval);
        assert!(mine.asks(1));
        pass(&serving, 1_300);
        stranger.send(&[]); // an empty datagram does not end anything
        pass(&serving, 60);
        stranger.say(Kind::Hello, 0, 1_000_000);
        pass(&serving, 60);
        assert_eq!(mine.asks(2), keeps, "{interval}");
        drop(serving.end());
    }
}

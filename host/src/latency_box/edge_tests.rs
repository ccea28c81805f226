//! Box and responder over edges. A pipe each way carries the events as a kernel writes them; whoever sends is the interrupt.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lathunt_core::latency_box::delay::Distribution;
use lathunt_core::latency_box::edge;
use lathunt_core::latency_box::message::SIZE;
use lathunt_core::latency_box::reception::Reception;
use lathunt_core::latency_box::schedule::Pattern;
use lathunt_core::series::Quantity;
use lathunt_core::time::Ns;

use super::responder::{Served, Service, Serving};
use super::{Finished, Options, Place, Session};
use crate::clock;
use crate::link::descriptor::Descriptor;
use crate::link::{Framing, Link, Outlet};

/// What happens on the way of one edge.
#[derive(Clone, Copy)]
enum Way {
    Sound,
    /// The kernel dropped it: its number is missing.
    Dropped,
    Twice,
    /// A spike, stamped before anything was sent.
    SpikeBefore,
}

struct Wire {
    to: Descriptor,
    number: u32,
    sent: usize,
    ways: Vec<Way>,
}

impl Wire {
    fn event(&mut self, at: u64) -> io::Result<()> {
        self.number += 1;
        let mut bytes = [0; edge::SIZE];
        bytes[..8].copy_from_slice(&at.to_ne_bytes());
        for (at, word) in [(8, 2), (12, 27), (16, self.number), (20, self.number)] {
            bytes[at..at + 4].copy_from_slice(&word.to_ne_bytes());
        }
        // SAFETY: `bytes` is valid to read for its length.
        let written = unsafe { libc::write(self.to.raw(), bytes.as_ptr().cast(), bytes.len()) };
        assert_eq!(written, bytes.len() as isize);
        Ok(())
    }
}

impl Outlet for Wire {
    fn send(&mut self, _message: &[u8; SIZE]) -> io::Result<()> {
        let now = clock::mono().0;
        self.sent += 1;
        match self.ways[self.sent % self.ways.len()] {
            Way::Sound => self.event(now),
            Way::Dropped => {
                self.number += 1;
                Ok(())
            }
            Way::Twice => self.event(now).and_then(|()| self.event(now)),
            Way::SpikeBefore => self.event(now - 1_000_000_000).and_then(|()| self.event(now)),
        }
    }
}

fn ends(answers: Vec<Way>) -> (Link, Link) {
    let pipe = || {
        let (from, to) = io::pipe().unwrap();
        (Descriptor::file(OwnedFd::from(from)), Descriptor::file(OwnedFd::from(to)))
    };
    let link = |inlet: Descriptor, to: Descriptor, ways: Vec<Way>| Link {
        outlet: Box::new(Wire { to, number: 0, sent: 0, ways }),
        inlet: Box::new(inlet),
        framing: Framing::Edges,
        queues: false,
        reception: Reception::Blocking,
        lifeline: None,
        facts: Vec::new(),
    };
    let ((stimulus_in, stimulus_out), (answer_in, answer_out)) = (pipe(), pipe());
    (link(answer_in, stimulus_out, vec![Way::Sound]), link(stimulus_in, answer_out, answers))
}

fn measure(answers: Vec<Way>, stimuli: u64) -> (Finished, u64) {
    let (mine, theirs) = ends(answers);
    let place = Place { cpu: None, priority: 0 };
    let served = Arc::new(Served::default());
    let delay = Some(Distribution::Fixed(Ns::from_ms(1)));
    let serving = Serving::start(theirs, Service { place, delay, seed: 0, relay: None }, &served).unwrap();
    let options = Options {
        name: "edges".to_owned(),
        pattern: Pattern::Periodic,
        interval: Ns::from_ms(2),
        duration: None,
        stimuli: Some(stimuli),
        timeout: Ns::from_ms(300),
        patience: Ns::from_ms(1_000),
        late_above: Ns::from_ms(100),
        break_at: None,
        ask: Ns::ZERO,
        warm: false,
        place,
        worst: 1,
    };
    let session = Session::start(mine, options).unwrap();
    let begun = Instant::now();
    while session.is_running() && begun.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let finished = session.finish();
    serving.end().expect("it ends");
    (finished, served.stimuli.load(Ordering::Acquire))
}

#[test]
fn each_edge_answers_its_stimulus_and_the_delay_is_seen() {
    let (finished, stimuli) = measure(vec![Way::Sound], 40);
    let counts = finished.counts;
    assert_eq!((counts.sent, counts.answered, counts.lost, stimuli), (40, 40, 0, 40));
    assert_eq!((counts.duplicated, counts.foreign, counts.damaged), (0, 0, 0));
    let series = finished.series.iter().find(|one| one.quantity == Quantity::Roundtrip).unwrap();
    assert!(series.histogram.min().unwrap() >= Ns::from_ms(1));
}

#[test]
fn lost_doubled_and_stray_edges_are_counted_as_what_they_are() {
    use Way::{Dropped, Sound, SpikeBefore, Twice};
    // Of each four answers one is dropped, one comes twice, one has a spike before it.
    let (finished, _) = measure(vec![Sound, Twice, Dropped, SpikeBefore], 12);
    let counts = finished.counts;
    assert_eq!((counts.sent, counts.answered, counts.lost), (12, 9, 3));
    // On a busy machine the next stimulus may be under way when the second edge is read: it is before that one, then.
    assert_eq!((counts.duplicated + counts.foreign, counts.damaged), (6, 3));
    assert!(counts.foreign >= 3);
    assert!(finished.series[0].missed.unwrap() > 0, "what was due while one was waited for");
}

//! Recordings that are damaged in one way each.

use super::*;
use crate::trace::event::{Event, Kind};
use crate::trace::flight::tests::{all_kinds, left_out, not_seen_to_come, one_switch};
use crate::trace::normalize::Normalizer;

fn events(flight: &Flight) -> Vec<Event> {
    let mut normalizer = Normalizer::new(flight);
    let (mut walk, mut events) = (flight.events(Span::ALL), Vec::new());
    while let Some(item) = walk.next() {
        events.extend(normalizer.item(&item));
    }
    events
}

#[test]
fn the_source_tells_what_the_decoder_tells() {
    agree(&all_kinds());
    // A lean recorder's, and a thread that leaves but never came.
    for bytes in [left_out(), not_seen_to_come()] {
        let losses = |event: &&Event| matches!(event.kind, Kind::Lost { .. });
        let read = events(&Flight::open(&bytes, Symbols::default()).unwrap());
        assert_eq!(read.iter().filter(losses).count(), 1, "{read:?}");
        agree(&bytes);
    }
}

/// Names are numbered in the order in which each reader comes to them; the time since when events are lost is the walk's.
fn without_names(mut kind: Kind) -> Kind {
    match &mut kind {
        Kind::Switch { prev, next, .. } => (prev.comm, next.comm) = (None, None),
        Kind::Waking { task, .. }
        | Kind::Migrate { task, .. }
        | Kind::PiSetprio { task, .. }
        | Kind::SignalGenerate { task, .. } => task.comm = None,
        Kind::TimerExpireEntry { function, .. }
        | Kind::CsdEntry { function, .. }
        | Kind::CsdQueue { function, .. } => *function = None,
        Kind::IrqEntry { name, .. } => *name = None,
        Kind::Rename { comm, .. } => *comm = None,
        // Zero is as unknown as none.
        Kind::Lost { after, count } => (*after, *count) = (None, count.filter(|&count| count > 0)),
        _ => {}
    }
    kind
}

fn agree(bytes: &[u8]) {
    let flight = Flight::open(bytes, Symbols::default()).unwrap();
    let decoded = decode(bytes, |_| None).unwrap();
    let read = events(&flight);
    assert_eq!(read.len(), decoded.events.len());
    for (ours, other) in read.iter().zip(&decoded.events) {
        assert_eq!((ours.at, ours.cpu, ours.current), (other.at, other.cpu, other.current));
        assert_eq!(without_names(ours.kind), without_names(other.kind));
    }
    assert!(read.iter().any(|event| event.current.is_some_and(|tid| tid != Tid::IDLE)));
}

#[test]
fn chunks_are_in_the_order_of_time_wherever_they_stand() {
    let of = |cpu, id, begin| one_switch(cpu, id, begin, 10, 20);
    let told = |chunks: &[Vec<u8>]| {
        let bytes = chunks.concat();
        let flight = Flight::open(&bytes, Symbols::default()).unwrap();
        let mut window = Window::default();
        flight.enrich(&mut window);
        let losses: Vec<u64> = events(&flight)
            .iter()
            .filter(|event| matches!(event.kind, Kind::Lost { .. }))
            .map(|event| event.at.0)
            .collect();
        (flight.complete_from(), window.complete_from[&Cpu(0)], losses)
    };
    let in_order = told(&[of(0, 1, 100), of(0, 5, 9_000)]);
    assert_eq!(in_order, (Some(Mono(100)), Mono(100), vec![9_000]));
    assert_eq!(told(&[of(0, 5, 9_000), of(0, 1, 100)]), in_order);
    // Another CPU at the same time, and one of which nothing was kept but much later.
    assert_eq!(told(&[of(1, 1, 150), of(0, 1, 100)]), (Some(Mono(150)), Mono(100), vec![]));
    let much_later = told(&[of(1, 3, 9_000), of(0, 1, 100)]);
    assert_eq!(much_later, (Some(Mono(100)), Mono(100), vec![9_000]));
}

#[test]
fn a_chunk_that_two_peaks_share_is_read_once() {
    let once = all_kinds();
    let twice = [once.as_slice(), once.as_slice()].concat();
    let count = |bytes: &[u8]| events(&Flight::open(bytes, Symbols::default()).unwrap()).len();
    assert_eq!(count(&twice), count(&once));
}

#[test]
fn a_record_that_is_torn_is_lost_also_where_none_follows() {
    let mut bytes = one_switch(0, 1, 100, 10, 20);
    bytes[HEADER_BYTES + 8] ^= 1;
    let read = events(&Flight::open(&bytes, Symbols::default()).unwrap());
    assert!(matches!(read[..], [Event { kind: Kind::Lost { count: Some(1), .. }, .. }]), "{read:?}");
}

#[test]
fn every_truncation_is_survived() {
    let bytes = all_kinds();
    for end in 0..bytes.len() {
        match Flight::open(&bytes[..end], Symbols::default()) {
            Ok(flight) => assert!(events(&flight).len() <= bytes.len() / RECORD_BYTES + 1),
            Err(error) => assert!(end < HEADER_BYTES, "{error}"),
        }
    }
}

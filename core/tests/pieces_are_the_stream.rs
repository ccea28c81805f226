//! The pieces of a stream, one after the other, are the stream.

#![allow(clippy::disallowed_methods)] // the test reads a recording; the crate itself reads no file

use std::path::Path;

use lathunt_core::time::Cpu;
use lathunt_core::trace::item::{Item, Span};
use lathunt_core::trace::merge::Stream;
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;

/// What stands in `stream`, without what is said once for the whole trace.
fn told(mut stream: Box<dyn Stream + '_>, into: &mut Vec<String>) {
    while stream.time().is_some() {
        match stream.item() {
            Item::Damage(damage) if damage.is_general => {}
            item => into.push(format!("{:?} {item:?}", stream.time())),
        }
        stream.advance();
    }
}

/// In how many pieces the only stream of a trace with these pages is; what is in them is compared.
fn compare(head: &[u8], pages: &[u8], what: &str) -> usize {
    let trace = TraceDat::open_unfinished(head, &[(Cpu(0), pages)]).unwrap();
    let (mut whole, mut parts, mut count) = (Vec::new(), Vec::new(), 0);
    trace.streams(Span::ALL).into_iter().for_each(|stream| told(stream, &mut whole));
    for piece in trace.pieces().into_iter().flatten() {
        told(piece, &mut parts);
        count += 1;
    }
    // The whole tells only once that time goes back, a piece for itself.
    let is_event = |line: &&String| !line.contains("time goes back");
    assert!(whole.iter().filter(is_event).eq(parts.iter().filter(is_event)), "{what}");
    assert!(whole.len() > 1000, "{} items", whole.len());
    count
}

#[test]
fn the_pieces_of_a_stream_are_the_stream_also_where_pages_are_damaged() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace_dat/v6_two_buffers.dat");
    let file = std::fs::read(path).unwrap();
    // A longer recording, made of all pages that hold events.
    let is_full = |page: &&[u8]| {
        let trace = TraceDat::open_unfinished(&file, &[(Cpu(0), page)]).unwrap();
        let mut items = Vec::new();
        trace.streams(Span::ALL).into_iter().for_each(|stream| told(stream, &mut items));
        items.len() > 10
    };
    let full: Vec<&[u8]> = file.chunks_exact(4096).filter(is_full).collect();
    assert!(!full.is_empty());
    let mut pages = full.concat().repeat(400 / full.len() + 1);
    assert!(compare(&file, &pages, "whole") > 4);
    for (page, bytes) in pages.chunks_mut(4096).enumerate().step_by(3) {
        // Another length, loss, or time.
        bytes[5 + page % 8] ^= 1 << (page % 8);
    }
    compare(&file, &pages, "damaged");
}

//! The pieces of a stream, one after the other, are the stream.

use std::path::Path;

use lathunt_core::trace::merge::Stream;
use lathunt_core::trace::source::{Item, Source, Span};
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

/// How many streams were in more than one piece.
fn compare(bytes: &[u8], what: &str) -> usize {
    let Ok(trace) = TraceDat::open(bytes) else { return 0 };
    let mut several = 0;
    for (stream, pieces) in trace.streams(Span::ALL).into_iter().zip(trace.pieces()) {
        let (mut whole, mut parts, mut count) = (Vec::new(), Vec::new(), 0);
        told(stream, &mut whole);
        for piece in pieces {
            told(piece, &mut parts);
            count += 1;
        }
        // A second time that goes back is told by its own piece too.
        let is_event = |line: &&String| !line.contains("time goes back");
        assert!(whole.iter().filter(is_event).eq(parts.iter().filter(is_event)), "{what}");
        several += usize::from(count > 1);
    }
    several
}

#[test]
fn the_pieces_of_a_stream_are_the_stream_also_where_pages_are_damaged() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let mut several = 0;
    for directory in ["cases", "trace_dat"] {
        for entry in std::fs::read_dir(data.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            let Ok(mut bytes) = std::fs::read(&path) else { continue };
            several += compare(&bytes, &path.display().to_string());
            // Every third page from the end: another length, losses, another time.
            let pages = bytes.len() / 4096 / 2;
            for page in (0..pages).step_by(3) {
                let at = bytes.len() - (page + 1) * 4096;
                bytes[at + 5 + page % 8] ^= 1 << (page % 8);
            }
            compare(&bytes, &format!("damaged {}", path.display()));
        }
    }
    assert!(several > 4, "{several} streams in more than one piece");
}

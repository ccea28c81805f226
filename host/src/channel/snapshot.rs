//! The current content of a program's rings, without consuming it: the flight recorder's content.
//!
//! The program keeps writing. A packet that it reuses during the copy shows another number afterwards and is
//! left out; its events count as overwritten.

use std::io;
use std::sync::atomic::{fence, Ordering};

use lathunt_core::export::user_stream::{Piece, UserStream};
use lathunt_core::trace::user_ring::{control, ring, Packet, Position};

use super::drain::{Tally, LOOK_BYTES};
use super::output::{Quota, TraceDir};
use super::program::Program;

/// Writes all rings of `program` into `dir`.
///
/// # Errors
/// The directory cannot be written.
pub fn write(program: &Program, dir: &mut TraceDir, quota: &mut Quota) -> io::Result<Tally> {
    let mut total = Tally::default();
    let mut left = program.held_bytes();
    let mut left_of_unfinished = (!program.alive()).then_some(left);
    for ring in 0..program.rings.len() {
        let (stream, mut tally) = read_ring(program, ring, dir.trace.uuid, &mut left);
        tally.unfinished = left_of_unfinished.as_mut().map_or(0, |left| program.rings[ring].unfinished(left));
        if !stream.bytes().is_empty() {
            dir.describe(&program.events)?;
            let (mut file, _) = dir.stream(ring)?;
            file.append(stream.bytes(), dir.trace.uuid, quota)?;
            file.correct_discarded(tally.discarded)?;
        }
        total += tally;
    }
    Ok(total)
}

/// Reads at most `left` bytes, which it reduces by what was read: a program may name a part of its memory several times.
fn read_ring(program: &Program, ring: usize, uuid: [u8; 16], left: &mut usize) -> (UserStream, Tally) {
    let memory = &program.rings[ring];
    let committed = memory.committed();
    let now = program.now();
    let oldest = committed.seq.wrapping_sub(memory.packets() as u32 - 1);
    let mut stream = UserStream::new(uuid, ring as u64, program.pid, Position::start_of(oldest));
    let mut bytes = Vec::new();
    for back in (0..memory.packets() as u32).rev() {
        if *left == 0 {
            break;
        }
        let seq = committed.seq.wrapping_sub(back);
        let open = back == 0 && committed.words != Position::CLOSED;
        let words = if open { committed.words.into() } else { memory.closed_words(seq) };
        memory.copy_packet(seq, words, &mut bytes);
        *left = left.saturating_sub(LOOK_BYTES + bytes.len());
        fence(Ordering::Acquire);
        let mut header = Vec::new();
        memory.copy_packet(seq, 1, &mut header);
        let numbers =
            [&bytes, &header].map(|words| words.first_chunk().map(|&first| u64::from_le_bytes(first) as u32));
        if numbers != [Some(seq), Some(seq)] || Packet::parse(&bytes).is_none() {
            continue; // never used, or reused during the copy
        }
        let to = if open { committed } else { Position { seq, events: 0, words: Position::CLOSED } };
        let tick_q32 = program.value(control::TICK_Q32);
        stream.take(&Piece { bytes: &bytes, to, now, tick_q32 }, &program.events);
    }
    stream.flush();
    let progress = stream.progress();
    let open_events = if committed.words == Position::CLOSED { 0 } else { u64::from(committed.events) };
    let total = memory.value(ring::EVENTS_BEFORE).saturating_add(open_events);
    let tally = Tally {
        recorded: progress.recovered,
        discarded: memory.value(ring::DISCARDED),
        unfinished: 0,
        overwritten: total.saturating_sub(progress.recovered.saturating_add(progress.damaged)),
        damaged: progress.damaged,
    };
    (stream, tally)
}

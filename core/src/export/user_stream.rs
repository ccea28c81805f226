//! From the packets of a program's ring to the packets of a CTF stream: times, threads, counts.
//!
//! Takes copies of packets, in order. Each call continues after the last one, also within a packet, so that an open
//! packet is drained while it grows. Not here: reading shared memory, writing files.

use crate::export::ctf::{PacketHead, StreamWriter, Writer};
use crate::time::Mono;
use crate::trace::user_event::Declaration;
use crate::trace::user_ring::{Anchor, ClockMap, Packet, Position, Records, PACKET_HEADER_WORDS};

/// A CTF packet is closed beyond this size.
const PACKET_BYTES_MAX: usize = 256 * 1024;

/// Declarations by event id.
#[derive(Clone, Debug, Default)]
pub struct Events(Vec<Option<Declaration>>);

impl Events {
    /// Adds new declarations.
    pub fn extend(&mut self, declarations: Vec<Declaration>) {
        for declaration in declarations {
            let id = usize::from(declaration.id);
            if self.0.len() <= id {
                self.0.resize(id + 1, None);
            }
            self.0[id] = Some(declaration);
        }
    }

    /// The event with this id.
    #[must_use]
    #[inline]
    pub fn get(&self, id: u16) -> Option<&Declaration> {
        self.0.get(usize::from(id))?.as_ref()
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Declaration> {
        self.0.iter().flatten()
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.iter().count()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Progress of a stream; a failed write restores it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Position of the next read.
    pub position: Position,
    /// Events converted.
    pub recovered: u64,
    /// Events that could not be read.
    pub damaged: u64,
    anchor: Option<(u32, Anchor)>,
    sequence: u64,
    last: Mono,
}

/// A copy of a packet, and how much of it is new.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// The packet from its header on.
    pub bytes: &'a [u8],
    /// End of the new part; `words` may be [`Position::CLOSED`]: all of it.
    pub to: Position,
    /// Current counter and time, if the packet is still open.
    pub now: Anchor,
    /// ns per counter tick, 32.32 fixed point: used only without `now`.
    pub tick_q32: u64,
}

/// Converts one ring into one CTF stream.
#[derive(Debug)]
pub struct UserStream {
    uuid: [u8; 16],
    instance: u64,
    vpid: u32,
    discarded_before: u64,
    progress: Progress,
    writer: StreamWriter,
}

impl UserStream {
    /// Ring `instance` of process `vpid` from `start` on.
    #[must_use]
    pub fn new(uuid: [u8; 16], instance: u64, vpid: u32, start: Position) -> UserStream {
        let progress =
            Progress { position: start, recovered: 0, damaged: 0, anchor: None, sequence: 0, last: Mono(0) };
        UserStream {
            uuid,
            instance,
            vpid,
            discarded_before: 0,
            progress,
            writer: StreamWriter::new(uuid, instance, 0, Mono(0)),
        }
    }

    /// The same, continuing a file whose last packet is `last`.
    #[must_use]
    pub fn resume(uuid: [u8; 16], instance: u64, vpid: u32, last: &PacketHead) -> UserStream {
        let mut stream = UserStream::new(uuid, instance, vpid, Position::from_word(last.position));
        stream.go_back(Progress { sequence: last.sequence + 1, last: last.end, ..stream.progress });
        stream
    }

    /// Ignores the first `events` discarded by the ring: an earlier session counted them.
    #[must_use]
    pub fn without_discarded(mut self, events: u64) -> UserStream {
        self.discarded_before = events;
        self
    }

    /// Current progress.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress { sequence: self.writer.next_sequence(), last: self.writer.last_time(), ..self.progress }
    }

    /// Restores the state at `before`.
    pub fn go_back(&mut self, before: Progress) {
        self.progress = before;
        self.writer = StreamWriter::new(self.uuid, self.instance, before.sequence, before.last);
    }

    /// Whole CTF packets, to be written.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.writer.bytes()
    }

    /// Clears them after writing.
    pub fn clear(&mut self) {
        self.writer.clear();
    }

    /// Closes the CTF packet, so that [`UserStream::bytes`] has all events so far.
    pub fn flush(&mut self) {
        self.writer.close(self.progress.position.word());
    }

    /// Skips an unreadable part up to `position`.
    pub fn skip_to(&mut self, position: Position) {
        self.progress.position = position;
        self.progress.anchor = None;
    }

    /// Converts the new part of a packet.
    pub fn take(&mut self, piece: &Piece, events: &Events) {
        let Some(packet) = Packet::parse(piece.bytes) else { return };
        if packet.seq != self.progress.position.seq {
            self.progress.position = Position::start_of(packet.seq); // packets in between have been overwritten
        }
        let closed = piece.to.seq != packet.seq || piece.to.words == Position::CLOSED;
        let (words, count) = if closed {
            (packet.words as usize, packet.events as u16)
        } else {
            (usize::from(piece.to.words), piece.to.events)
        };
        let map = self.clock(&packet, closed, piece);
        self.convert(&packet, &map, piece.bytes, words, count, events);
        let seq = packet.seq;
        self.progress.position = if closed {
            Position::start_of(seq.wrapping_add(1))
        } else {
            Position { seq, events: count, words: words as u16 }
        };
    }

    fn clock(&mut self, packet: &Packet, closed: bool, piece: &Piece) -> ClockMap {
        let from = match self.progress.anchor {
            Some((seq, anchor)) if seq == packet.seq => anchor,
            _ => packet.begin,
        };
        let to = if closed { packet.end } else { piece.now };
        let usable = to.counter > from.counter && to.ns >= from.ns;
        self.progress.anchor = Some((packet.seq, if usable { to } else { from }));
        ClockMap::between(from, to, piece.tick_q32)
    }

    fn convert(
        &mut self,
        packet: &Packet,
        map: &ClockMap,
        bytes: &[u8],
        words: usize,
        count: u16,
        events: &Events,
    ) {
        let writer = Writer {
            vpid: self.vpid,
            vtid: packet.tid,
            procname: &packet.name,
            cpu: packet.cpu,
            discarded: packet.discarded.saturating_sub(self.discarded_before),
        };
        let mut here = self.progress.position;
        let from = usize::from(here.words).max(PACKET_HEADER_WORDS);
        let records = Records::new(bytes, from, words);
        self.writer.open_for(&writer, here.word());
        let (mut recovered, mut damaged) = (0, 0);
        for record in records {
            let fits = events.get(record.id).is_some_and(|event| event.fits(record.payload));
            let at = map.time(packet.begin.counter.saturating_add(u64::from(record.ticks)));
            if fits {
                if self.writer.packet_bytes() > PACKET_BYTES_MAX
                    || !self.writer.event(record.id, at, record.payload)
                {
                    self.writer.close(here.word());
                    self.writer.open_for(&writer, here.word());
                    let _fits_in_an_empty_packet = self.writer.event(record.id, at, record.payload);
                }
                recovered += 1;
            } else {
                damaged += 1;
            }
            here.events = here.events.wrapping_add(1);
            here.words += (record.payload.len() as u16 + 8).div_ceil(8);
        }
        self.progress.recovered += recovered;
        self.progress.damaged += damaged + u64::from(count.saturating_sub(here.events));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trace::user_event::parse_declarations;

    /// Packet `seq` with one 16-byte record of event 0 per entry of `ticks`; counter = ns.
    fn packet(seq: u64, begin_ns: u64, end_ns: u64, ticks: &[u32]) -> Vec<u8> {
        let used = PACKET_HEADER_WORDS + 2 * ticks.len();
        let mut words = vec![seq, begin_ns, begin_ns, end_ns, end_ns, 0];
        words.extend([used as u64 | (ticks.len() as u64) << 32, 42, u64::from(b'a'), 0, 0, 0]);
        for (index, &tick) in ticks.iter().enumerate() {
            words.extend([u64::from(tick) << 32 | 16 << 16, index as u64]);
        }
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn events() -> Events {
        let mut events = Events::default();
        events.extend(parse_declarations(b"event 0 a:b\nfield u64 n\nend\n").0);
        events
    }

    fn piece(bytes: &[u8], to: Position) -> Piece<'_> {
        Piece { bytes, to, now: Anchor { counter: 1 << 60, ns: 1 << 60 }, tick_q32: 1 << 32 }
    }

    #[test]
    fn a_packet_taken_in_two_parts_gives_every_event_once() {
        let bytes = packet(5, 1000, 2000, &[1, 2, 3]);
        let mut stream = UserStream::new([1; 16], 1, 7, Position::start_of(5));
        stream.take(&piece(&bytes, Position { seq: 5, events: 2, words: 16 }), &events());
        assert_eq!(stream.progress().recovered, 2);
        stream.take(&piece(&bytes, Position { seq: 5, events: 3, words: Position::CLOSED }), &events());
        assert_eq!(stream.progress().recovered, 3);
        assert_eq!(stream.progress().position, Position::start_of(6));
        assert_eq!(stream.progress().damaged, 0);
    }

    #[test]
    fn after_a_failed_write_the_same_bytes_come_again() {
        let bytes = packet(5, 1000, 2000, &[1, 2, 3]);
        let to = Position::start_of(6);
        let mut stream = UserStream::new([1; 16], 1, 7, Position::start_of(5));
        let before = stream.progress();
        stream.take(&piece(&bytes, to), &events());
        stream.flush();
        let first = stream.bytes().to_vec();
        stream.go_back(before);
        stream.take(&piece(&bytes, to), &events());
        stream.flush();
        assert_eq!(stream.bytes(), first);
    }

    #[test]
    fn unknown_events_and_scribbled_lengths_are_counted_and_nothing_else_is_lost() {
        let mut bytes = packet(5, 1000, 2000, &[1, 2, 3, 4]);
        bytes[96] = 9; // the first record's id
        bytes[96 + 32 + 2] = 3; // the third record's length
        let mut stream = UserStream::new([1; 16], 1, 7, Position::start_of(5));
        stream.take(&piece(&bytes, Position::start_of(6)), &events());
        assert_eq!((stream.progress().recovered, stream.progress().damaged), (1, 3));
    }

    #[test]
    fn a_gap_in_the_packet_numbers_goes_on_with_the_next_packet() {
        let mut stream = UserStream::new([1; 16], 1, 7, Position::start_of(5));
        stream.take(&piece(&packet(9, 1000, 2000, &[1]), Position::start_of(10)), &events());
        assert_eq!((stream.progress().recovered, stream.progress().position), (1, Position::start_of(10)));
    }
}

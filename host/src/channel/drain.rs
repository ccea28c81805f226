//! Copies a ring's committed records into its stream's file, and only then returns the memory to the program.

use std::io;

use lathunt_core::export::user_stream::{Piece, UserStream};
use lathunt_core::trace::user_ring::{control, ring, Position};

use super::output::{Quota, StreamFile, TraceDir};
use super::program::Program;

/// Written at once, or little more: it stays in the processor's cache between conversion and write, and the program gets
/// its memory back early.
const BATCH_BYTES: usize = 512 << 10;

/// Cost of looking at a ring or a packet, in bytes copied in the same time.
pub const LOOK_BYTES: usize = 256;

/// Counts of the events of a ring, a program or a session: a program may claim any number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tally {
    /// In the trace.
    pub recorded: u64,
    /// Discarded by the program because there was no room (or no ring, or a record too large).
    pub discarded: u64,
    /// Begun but not committed when the program died.
    pub unfinished: u64,
    /// Overwritten by newer ones (flight recorder).
    pub overwritten: u64,
    /// Unreadable.
    pub damaged: u64,
}

impl std::ops::AddAssign for Tally {
    fn add_assign(&mut self, more: Tally) {
        self.recorded = self.recorded.saturating_add(more.recorded);
        self.discarded = self.discarded.saturating_add(more.discarded);
        self.unfinished = self.unfinished.saturating_add(more.unfinished);
        self.overwritten = self.overwritten.saturating_add(more.overwritten);
        self.damaged = self.damaged.saturating_add(more.damaged);
    }
}

impl Tally {
    /// Events that are not in the trace, or not readable in it.
    #[must_use]
    pub fn missing(&self) -> u64 {
        self.discarded.saturating_add(self.unfinished).saturating_add(self.damaged)
    }
}

/// One ring being written to one file.
#[derive(Debug)]
pub struct Drain {
    ring: usize,
    stream: UserStream,
    file: Option<StreamFile>,
    packet: Vec<u8>,
}

impl Drain {
    /// Continues where the file in `dir` ends, or starts where the program's memory does.
    ///
    /// # Errors
    /// The file exists and cannot be opened.
    pub fn open(program: &Program, ring: usize, dir: &mut TraceDir) -> io::Result<Drain> {
        let (uuid, instance) = (dir.trace.uuid, ring as u64);
        let memory = &program.rings[ring];
        let consumed = Position::start_of(memory.value(ring::CONSUMED) as u32);
        let drained = Position::from_word(memory.value(ring::DRAINED));
        let start = if ring > 0 && drained.seq == consumed.seq { drained } else { consumed };
        let fresh = UserStream::new(uuid, instance, program.pid, start);
        let (stream, file) = match dir.earlier_stream(ring)? {
            Some((file, last)) => {
                let stream =
                    last.map_or(fresh, |last| UserStream::resume(uuid, instance, program.pid, &last));
                (stream, Some(file))
            }
            None => (fresh, None),
        };
        let stream = stream.without_discarded(memory.value(ring::DISCARDED_BEFORE));
        Ok(Drain { ring, stream, file, packet: Vec::new() })
    }

    /// Drains what is committed now, at most `left` bytes, which it reduces by what was read; returns the fill level of the
    /// ring, in percent.
    ///
    /// # Errors
    /// Nothing could be written: the program keeps its memory, and the next call tries again.
    pub fn run(
        &mut self,
        program: &Program,
        dir: &mut TraceDir,
        quota: &mut Quota,
        left: &mut usize,
    ) -> io::Result<u32> {
        let memory = &program.rings[self.ring];
        let before = self.stream.progress().position;
        // What is committed from now on waits for the next call: a program may write faster than it is read.
        let committed = memory.committed();
        let packets = before.packets_to(committed).max(0) as usize;
        *left = left.saturating_sub(LOOK_BYTES);
        if packets > memory.packets() {
            // Only in a ring that its program has damaged: the ring holds no packet before these.
            let oldest = committed.seq.wrapping_sub(memory.packets() as u32);
            self.stream.skip_to(Position::start_of(oldest));
        }
        while self.batch(program, dir, quota, committed, left)? {}
        Ok((packets.min(memory.packets()) * 100 / memory.packets()) as u32)
    }

    /// One batch up to `committed`; returns whether there is more.
    fn batch(
        &mut self,
        program: &Program,
        dir: &mut TraceDir,
        quota: &mut Quota,
        committed: Position,
        left: &mut usize,
    ) -> io::Result<bool> {
        let memory = &program.rings[self.ring];
        let now = program.now();
        let before = self.stream.progress();
        let mut more = false;
        while let Some((seq, to)) = next_piece(self.stream.progress().position, committed) {
            if *left == 0 {
                break;
            }
            if self.stream.bytes().len() > BATCH_BYTES {
                more = true;
                break;
            }
            let words = if to.words == Position::CLOSED { memory.closed_words(seq) } else { to.words.into() };
            memory.copy_packet(seq, words, &mut self.packet);
            *left = left.saturating_sub(LOOK_BYTES + self.packet.len());
            let intact =
                self.packet.first_chunk().is_some_and(|&first| u64::from_le_bytes(first) as u32 == seq);
            if intact {
                let tick_q32 = program.value(control::TICK_Q32);
                self.stream.take(&Piece { bytes: &self.packet, to, now, tick_q32 }, &program.events);
            } else {
                self.stream.skip_to(Position::start_of(seq.wrapping_add(1)));
            }
        }
        self.stream.flush();
        if let Err(error) = self.write(program, dir, quota) {
            self.stream.go_back(before);
            return Err(error);
        }
        if self.ring != 0 {
            memory.release(self.stream.progress().position); // the init ring keeps everything
        }
        Ok(more)
    }

    fn write(&mut self, program: &Program, dir: &mut TraceDir, quota: &mut Quota) -> io::Result<()> {
        if self.stream.bytes().is_empty() {
            return Ok(());
        }
        dir.describe(&program.events)?;
        if self.file.is_none() {
            self.file = Some(dir.stream(self.ring)?.0);
        }
        if let Some(file) = &mut self.file {
            file.append(self.stream.bytes(), dir.trace.uuid, quota)?;
        }
        self.stream.clear();
        Ok(())
    }

    /// Counts of the ring's events at the end, also written into the file. Unfinished ones are looked for in at most `left` bytes,
    /// which it reduces.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish(&mut self, program: &Program, left: &mut usize) -> io::Result<Tally> {
        let unfinished = program.rings[self.ring].unfinished(left);
        let tally = Tally { unfinished, ..self.tally(program) };
        if let Some(file) = &self.file {
            file.correct_discarded(tally.discarded)?;
        }
        program.rings[self.ring].end_session(tally.discarded);
        Ok(tally)
    }

    /// The counts so far; a record that is being written is not unfinished.
    #[must_use]
    pub fn tally(&self, program: &Program) -> Tally {
        let (memory, progress) = (&program.rings[self.ring], self.stream.progress());
        Tally {
            recorded: progress.recovered,
            discarded: memory.value(ring::DISCARDED).saturating_sub(memory.value(ring::DISCARDED_BEFORE)),
            unfinished: 0,
            overwritten: 0,
            damaged: progress.damaged,
        }
    }
}

/// The packet to read next and up to where, if there are new records.
fn next_piece(position: Position, committed: Position) -> Option<(u32, Position)> {
    let closed = Position { words: Position::CLOSED, ..position };
    match position.packets_to(committed) {
        0 if committed.words == Position::CLOSED => Some((position.seq, closed)),
        0 => (committed.words > position.words).then_some((position.seq, committed)),
        packets if packets > 0 => Some((position.seq, closed)),
        _ => None,
    }
}

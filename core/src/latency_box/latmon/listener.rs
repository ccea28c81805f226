//! latmus's side: parses records, the end and the histogram from a box.
//!
//! The protocol has no magic. Stopped firmware kills its sender, so that a record may be truncated, or one of an
//! earlier session may come first; a stop before any start sends uninitialised memory. Impossible figures therefore
//! count as damage; the following bytes are searched for the next record with the right number of samples, or the end.

use super::wire::{word, Record, Request, RECORD};

/// A received item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Latencies.
    Record(Record),
    /// End of records; only its overruns are valid.
    End(Record),
    /// Cell i: latencies of i to i + 1 µs; the last cell also those above.
    Cells(Vec<u32>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Records,
    Searching,
    Cells,
    Over,
}

/// One measurement, from the request to the histogram.
#[derive(Debug)]
pub struct Listener {
    request: Request,
    bytes: Vec<u8>,
    at: usize,
    phase: Phase,
    stopping: bool,
    damaged: u64,
}

impl Listener {
    /// Starts a measurement for `request`.
    #[must_use]
    pub fn new(request: Request) -> Listener {
        Listener { request, bytes: Vec::new(), at: 0, phase: Phase::Records, stopping: false, damaged: 0 }
    }

    /// The box was asked to stop: the end is expected.
    pub fn stop(&mut self) {
        self.stopping = true;
    }

    /// Adds bytes. Then call [`Listener::next`] until `None`: less than a record or the cells remain buffered.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next complete item.
    #[allow(clippy::should_implement_trait)] // more bytes come after `None`
    pub fn next(&mut self) -> Option<Received> {
        loop {
            match self.phase {
                Phase::Records | Phase::Searching => {
                    let bytes: &[u8; RECORD] = self.bytes.get(self.at..self.at + RECORD)?.try_into().ok()?;
                    let record = Record::decode(bytes);
                    match self.judge(&record) {
                        Some(heard) => {
                            self.at += RECORD;
                            return Some(heard);
                        }
                        None => {
                            self.phase = Phase::Searching;
                            self.at += 1;
                            self.damaged += 1;
                        }
                    }
                }
                Phase::Cells => {
                    let length = 4 * self.request.cells as usize;
                    let bytes = self.bytes.get(self.at..self.at + length)?;
                    let cells = (0..length / 4).map(|cell| word(bytes, 4 * cell)).collect();
                    self.at += length;
                    self.phase = Phase::Over;
                    return Some(Received::Cells(cells));
                }
                Phase::Over => {
                    self.damaged += (self.bytes.len() - self.at) as u64;
                    self.at = self.bytes.len();
                    return None;
                }
            }
        }
    }

    fn judge(&mut self, record: &Record) -> Option<Received> {
        let searching = self.phase == Phase::Searching;
        // latmus checks only the number of samples. Unless the end is expected, and during a search, part of a record
        // must not be mistaken for the end.
        let is_due = self.stopping && !searching;
        let is_end = record.samples == 0
            && (is_due || (record.sum_ns, record.max_ns) == (0, 0))
            && (!searching || record.min_ns == Record::EMPTY.min_ns);
        if is_end {
            self.phase = if self.request.cells > 0 { Phase::Cells } else { Phase::Over };
            return Some(Received::End(*record));
        }
        let is_record = record.is_possible() && (!searching || record.samples == self.request.bulk());
        is_record.then(|| {
            self.phase = Phase::Records;
            Received::Record(*record)
        })
    }

    /// Whether the end and all cells were received.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Whether the record without samples was received.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        matches!(self.phase, Phase::Cells | Phase::Over)
    }

    /// Bytes outside any item.
    #[must_use]
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged
    }

    /// Buffered bytes of an incomplete item.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.bytes.len() - self.at
    }
}

#[cfg(test)]
mod tests {
    use super::super::monitor::Monitor;
    use super::*;
    use crate::random::Random;
    use crate::time::Ns;

    const REQUEST: Request = Request { period_us: 100_000, cells: 50 };

    /// A sound session of `bulks` records and 3 samples more.
    fn session(bulks: u64) -> Vec<u8> {
        let mut monitor = Monitor::default();
        monitor.start(REQUEST);
        let mut bytes = Vec::new();
        for n in 0..bulks * 10 + 3 {
            bytes.extend(monitor.sample(Ns(3_000 + 700 * (n % 30))).into_iter().flatten());
        }
        bytes.extend(monitor.stop());
        bytes
    }

    fn heard(listener: &mut Listener, bytes: &[u8], chunk: usize) -> Vec<Received> {
        let mut all = Vec::new();
        for piece in bytes.chunks(chunk) {
            listener.feed(piece);
            while let Some(heard) = listener.next() {
                all.push(heard);
            }
        }
        all
    }

    #[test]
    fn a_session_is_heard_in_any_pieces() {
        let bytes = session(4);
        for chunk in 1..60 {
            let mut listener = Listener::new(REQUEST);
            let all = heard(&mut listener, &bytes, chunk);
            assert!(
                matches!(all[..], [Received::Record(_), .., Received::Record(last), Received::End(_), Received::Cells(_)]
                if last.samples == 3),
                "{all:?}"
            );
            assert!(all.len() == 7 && listener.is_over() && listener.damaged_bytes() == 0);
            let Some(Received::Cells(cells)) = all.last() else { unreachable!() };
            assert_eq!((cells.len(), cells.iter().sum::<u32>()), (50, 43));
        }
    }

    #[test]
    fn a_cut_record_costs_itself_and_no_other() {
        let whole = session(4);
        for cut in 1..RECORD {
            let bytes = [&whole[..RECORD + cut], &whole[2 * RECORD..]].concat();
            let mut listener = Listener::new(REQUEST);
            let all = heard(&mut listener, &bytes, 7);
            let records = all.iter().filter(|heard| matches!(heard, Received::Record(_))).count();
            assert!(listener.is_over(), "cut after {cut}: {all:?}");
            // During a search the unfinished bulk cannot be distinguished from damage; everything else is found.
            assert!((3..=4).contains(&records), "cut after {cut}: {records}");
            assert!(listener.damaged_bytes() >= cut as u64);
        }
    }

    #[test]
    fn memory_that_nobody_wrote_is_no_record() {
        let mut random = Random::new(9);
        let garbage: Vec<u8> = (0..RECORD).map(|_| random.between(1, 255) as u8).collect();
        let mut listener = Listener::new(REQUEST);
        let all = heard(&mut listener, &[garbage, session(2)].concat(), 1_000);
        assert_eq!((all.len(), listener.damaged_bytes(), listener.is_over()), (5, RECORD as u64, true));
    }

    #[test]
    fn mutated_streams_never_give_impossible_figures_nor_grow() {
        let whole = session(3);
        let mut random = Random::new(1);
        let mut below = |n: usize| random.between(0, n as u64 - 1) as usize;
        for stream in 0..2_000 {
            let mut bytes = whole.clone();
            for _ in 0..=below(4) {
                let at = below(bytes.len());
                let end = (at + 1 + below(30)).min(bytes.len());
                match below(4) {
                    0 => bytes[at] = below(256) as u8,
                    1 => drop(bytes.drain(at..end)),
                    2 => drop(
                        bytes.splice(at..at, (0..end - at).map(|_| below(256) as u8).collect::<Vec<_>>()),
                    ),
                    _ => drop(bytes.splice(at..at, bytes[at..end].to_vec())),
                }
                if bytes.is_empty() {
                    break;
                }
            }
            let mut listener = Listener::new(REQUEST);
            let all = heard(&mut listener, &bytes, 1 + below(100));
            let taken: usize = all
                .iter()
                .map(|heard| match heard {
                    Received::Record(record) => {
                        assert!(record.is_possible(), "stream {stream}");
                        RECORD
                    }
                    Received::End(_) => RECORD,
                    Received::Cells(cells) => 4 * cells.len(),
                })
                .sum();
            let accounted = taken + listener.damaged_bytes() as usize + listener.pending();
            assert_eq!(accounted, bytes.len(), "stream {stream}: each byte is part of something or counted");
            assert!(listener.pending() < RECORD.max(4 * REQUEST.cells as usize), "stream {stream}");
        }
    }
}

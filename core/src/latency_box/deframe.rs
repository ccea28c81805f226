//! Finds messages in a byte stream: lost or spurious bytes of a serial line must not pair an answer with the wrong
//! stimulus.
//!
//! A message is identified by its first two bytes and its checksum. Bytes skipped between two messages count as
//! damaged: as many messages as fit, at least one.

use super::message::{Message, NotAMessage, MAGIC, SIZE};

/// Maximum bytes of incomplete messages.
const ROOM: usize = 64 * SIZE;

/// Finds messages in a stream. Allocates once.
#[derive(Debug)]
pub struct Deframer {
    bytes: Box<[u8; ROOM]>,
    begin: usize,
    end: usize,
    skipped: usize,
    damaged: u64,
    version: Option<u8>,
}

impl Default for Deframer {
    fn default() -> Deframer {
        Deframer { bytes: Box::new([0; ROOM]), begin: 0, end: 0, skipped: 0, damaged: 0, version: None }
    }
}

impl Deframer {
    /// Buffer space for the next bytes of the stream; never empty.
    pub fn space(&mut self) -> &mut [u8] {
        if self.begin > 0 {
            self.bytes.copy_within(self.begin..self.end, 0);
            self.end -= self.begin;
            self.begin = 0;
        }
        // A whole message is always found or skipped before this is full: see `next`.
        &mut self.bytes[self.end..]
    }

    /// Reports that `bytes` bytes were written to [`Deframer::space`].
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(ROOM);
    }

    /// The next complete message. Call it until it returns `None`.
    #[allow(clippy::should_implement_trait)] // an iterator would borrow the space
    pub fn next(&mut self) -> Option<Message> {
        while self.end - self.begin >= SIZE {
            let here = &self.bytes[self.begin..self.begin + SIZE];
            if here[..2] == MAGIC {
                match Message::decode(here) {
                    Ok(message) => {
                        self.begin += SIZE;
                        self.settle();
                        return Some(message);
                    }
                    Err(NotAMessage::Version(version)) => self.version = Some(version),
                    Err(NotAMessage::Damaged) => {}
                }
            }
            self.begin += 1;
            self.skipped += 1;
        }
        None
    }

    fn settle(&mut self) {
        if self.skipped > 0 {
            self.damaged += (self.skipped.div_ceil(SIZE)) as u64;
            self.skipped = 0;
        }
    }

    /// Damaged messages so far, without bytes that may start a valid one.
    #[must_use]
    pub fn damaged(&self) -> u64 {
        self.damaged + self.skipped.div_ceil(SIZE) as u64
    }

    /// The same at the end of the stream: a message that was cut off is damaged too.
    #[must_use]
    pub fn damaged_at_end(&self) -> u64 {
        self.damaged + (self.skipped + self.end - self.begin).div_ceil(SIZE) as u64
    }

    /// The version of a message with another version, if any was received.
    #[must_use]
    pub fn version(&self) -> Option<u8> {
        self.version
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::message::Kind;
    use super::*;

    fn feed(deframer: &mut Deframer, mut bytes: &[u8], chunk: usize) -> Vec<u64> {
        let mut found = Vec::new();
        while !bytes.is_empty() {
            let space = deframer.space();
            let n = bytes.len().min(chunk).min(space.len());
            space[..n].copy_from_slice(&bytes[..n]);
            deframer.filled(n);
            bytes = &bytes[n..];
            while let Some(message) = deframer.next() {
                found.push(message.sequence);
            }
        }
        found
    }

    fn stream(count: u64) -> Vec<u8> {
        (1..=count).flat_map(|n| Message::new(Kind::Stimulus, 7, n).encode()).collect()
    }

    #[test]
    fn a_byte_that_is_lost_costs_one_message() {
        let mut bytes = stream(5);
        bytes.remove(2 * SIZE + 20);
        let mut deframer = Deframer::default();
        assert_eq!(feed(&mut deframer, &bytes, 7), [1, 2, 4, 5]);
        assert_eq!(deframer.damaged(), 1);
    }

    #[test]
    fn a_message_that_the_end_cuts_off_is_damaged() {
        let mut deframer = Deframer::default();
        assert_eq!(feed(&mut deframer, &stream(3)[..2 * SIZE + 10], 30), [1, 2]);
        assert_eq!((deframer.damaged(), deframer.damaged_at_end()), (0, 1));
        assert_eq!(feed(&mut deframer, &stream(1), 30), [1]);
        assert_eq!((deframer.damaged(), deframer.damaged_at_end()), (1, 1), "its end did not come");
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter_and_damage_costs_only_the_damaged(
            wrong in proptest::collection::btree_set(1u64..40, 0..10), chunk in 1usize..200,
        ) {
            let mut bytes = stream(40);
            for n in &wrong {
                bytes[(*n as usize - 1) * SIZE + 15] ^= 0x40;
            }
            let mut deframer = Deframer::default();
            let found = feed(&mut deframer, &bytes, chunk);
            let sound: Vec<u64> = (1..=40).filter(|n| !wrong.contains(n)).collect();
            prop_assert_eq!(found, sound);
            prop_assert_eq!(deframer.damaged(), wrong.len() as u64);
        }

        #[test]
        fn garbage_never_becomes_a_message(
            garbage in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'L'), Just(b'H')], 0..1_000), chunk in 1usize..300,
        ) {
            let mut deframer = Deframer::default();
            prop_assert_eq!(feed(&mut deframer, &garbage, chunk), Vec::<u64>::new());
            // The beginning of a message may be at its end: the first of two is skipped with the garbage at most.
            let found = feed(&mut deframer, &stream(3), chunk);
            prop_assert!(found.ends_with(&[2, 3]), "{found:?}");
        }
    }
}

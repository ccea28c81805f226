//! Messages on a channel: 40 bytes, the same on every channel.
//!
//! | bytes | content (network byte order) |
//! |---|---|
//! | 0–1 | `LH` |
//! | 2 | version, 1 |
//! | 3 | kind |
//! | 4–11 | random key of the session: messages of other sessions or third parties are not accepted as answers |
//! | 12–19 | sequence number, from 1 |
//! | 20–27, 28–35 | two times, see [`Kind`] |
//! | 36–39 | CRC-32 (IEEE 802.3) of bytes 0–35 |
//!
//! A single byte cannot distinguish a late answer from the answer to the next stimulus.

/// Bytes of a message.
pub const SIZE: usize = 40;
/// First two bytes of each message.
pub const MAGIC: [u8; 2] = *b"LH";
/// The version written and read.
pub const VERSION: u8 = 1;

/// Kind of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Box: a session of this key begins. `first`: interval of the stimuli in ns; `second`: identity of the boot.
    Hello,
    /// Responder: ready for that session. `first`: id of the answering thread in the initial PID namespace; 0 if
    /// unknown (in another one). `second`: identity of its boot.
    Welcome,
    /// Box: a stimulus.
    Stimulus,
    /// Responder: the answer. `first`: when it received the stimulus, `second`: when it sent this, both in ns of its
    /// `CLOCK_MONOTONIC`.
    Answer,
    /// Box: the session is over.
    Bye,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Hello, Kind::Welcome, Kind::Stimulus, Kind::Answer, Kind::Bye];

    fn number(self) -> u8 {
        match self {
            Kind::Hello => 1,
            Kind::Welcome => 2,
            Kind::Stimulus => 3,
            Kind::Answer => 4,
            Kind::Bye => 5,
        }
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its kind.
    pub kind: Kind,
    /// Key of the session.
    pub key: u64,
    /// Number of the stimulus; 0 where there is none.
    pub sequence: u64,
    /// See [`Kind`].
    pub first: u64,
    /// See [`Kind`].
    pub second: u64,
}

/// Why bytes are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotAMessage {
    /// Wrong length, magic or checksum.
    #[error("not a message of lathunt, or a damaged one")]
    Damaged,
    /// Valid, but of another version.
    #[error(
        "a message of version {0}; this lathunt knows version {VERSION}: use the same version at both ends"
    )]
    Version(u8),
}

impl Message {
    /// A message without times.
    #[must_use]
    pub fn new(kind: Kind, key: u64, sequence: u64) -> Message {
        Message { kind, key, sequence, first: 0, second: 0 }
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..2].copy_from_slice(&MAGIC);
        (bytes[2], bytes[3]) = (VERSION, self.kind.number());
        for (at, value) in [(4, self.key), (12, self.sequence), (20, self.first), (28, self.second)] {
            bytes[at..at + 8].copy_from_slice(&value.to_be_bytes());
        }
        let sum = crc32(&bytes[..SIZE - 4]).to_be_bytes();
        bytes[SIZE - 4..].copy_from_slice(&sum);
        bytes
    }

    /// Decodes exactly these bytes.
    ///
    /// # Errors
    /// When they are not a message, or of an unknown version.
    pub fn decode(bytes: &[u8]) -> Result<Message, NotAMessage> {
        let bytes: &[u8; SIZE] = bytes.try_into().map_err(|_| NotAMessage::Damaged)?;
        let word = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_be_bytes(word)
        };
        let sum = u32::from_be_bytes([bytes[36], bytes[37], bytes[38], bytes[39]]);
        if bytes[..2] != MAGIC || crc32(&bytes[..SIZE - 4]) != sum {
            return Err(NotAMessage::Damaged);
        }
        if bytes[2] != VERSION {
            return Err(NotAMessage::Version(bytes[2]));
        }
        let kind = Kind::ALL.into_iter().find(|kind| kind.number() == bytes[3]);
        let kind = kind.ok_or(NotAMessage::Damaged)?;
        Ok(Message { kind, key: word(4), sequence: word(12), first: word(20), second: word(28) })
    }
}

/// CRC-32 (polynomial 0xEDB88320, reflected): entry `[k][n]` is the remainder of the four bits `n` followed by `4 * k` zero
/// bits. The usual tables of 1 to 16 KB are faster in a loop, but are evicted from the cache between stimuli, so that each byte
/// waits for memory. These are eight cache lines, which are read at the same time.
#[repr(align(64))]
struct Tables([[u32; 16]; 8]);

static TABLES: Tables = Tables(tables());

const fn tables() -> [[u32; 16]; 8] {
    let mut tables = [[0u32; 16]; 8];
    let mut nibble = 0;
    while nibble < 16 {
        let mut value = nibble as u32;
        let mut bit = 0;
        while bit < 32 {
            value = if value & 1 == 1 { (value >> 1) ^ 0xEDB8_8320 } else { value >> 1 };
            bit += 1;
            if bit % 4 == 0 {
                tables[bit / 4 - 1][nibble] = value;
            }
        }
        nibble += 1;
    }
    tables
}

/// CRC-32 as in IEEE 802.3. About 0.03 µs per message.
#[must_use]
pub fn crc32(bytes: &[u8]) -> u32 {
    let tables = &TABLES.0;
    let (words, rest) = bytes.as_chunks();
    let mut sum = !0u32;
    for word in words {
        sum ^= u32::from_le_bytes(*word);
        sum = (0..8).fold(0, |next, k| next ^ tables[k][(sum >> (28 - 4 * k) & 0xf) as usize]);
    }
    for byte in rest {
        sum ^= u32::from(*byte);
        sum = (sum >> 8) ^ tables[1][(sum & 0xf) as usize] ^ tables[0][(sum >> 4 & 0xf) as usize];
    }
    !sum
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_is_the_published_one() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926); // the check value of CRC-32/ISO-HDLC
        assert_eq!(crc32(b""), 0);
    }

    fn any_message() -> impl Strategy<Value = Message> {
        (0..Kind::ALL.len(), any::<[u64; 4]>()).prop_map(|(kind, [key, sequence, first, second])| Message {
            kind: Kind::ALL[kind],
            key,
            sequence,
            first,
            second,
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_message()) {
            prop_assert_eq!(Message::decode(&message.encode()), Ok(message));
        }

        #[test]
        fn the_checksum_is_that_of_the_definition(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let bit = |sum: u32| if sum & 1 == 1 { (sum >> 1) ^ 0xEDB8_8320 } else { sum >> 1 };
            let sum = bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), |sum, _| bit(sum)));
            prop_assert_eq!(crc32(&bytes), !sum);
        }

        #[test]
        fn a_burst_of_wrong_bits_is_always_noticed(message in any_message(), at in 0..SIZE - 3, flips in 1u32..) {
            let mut bytes = message.encode();
            for (byte, flip) in bytes[at..].iter_mut().zip(flips.to_be_bytes()) {
                *byte ^= flip;
            }
            prop_assert_eq!(Message::decode(&bytes), Err(NotAMessage::Damaged));
        }

        #[test]
        fn bytes_of_anybody_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..90)) {
            let _ = Message::decode(&bytes);
        }
    }

    #[test]
    fn another_version_is_named() {
        let mut bytes = Message::new(Kind::Hello, 1, 0).encode();
        bytes[2] = 9;
        let sum = crc32(&bytes[..36]).to_be_bytes();
        bytes[36..].copy_from_slice(&sum);
        assert_eq!(Message::decode(&bytes), Err(NotAMessage::Version(9)));
    }
}

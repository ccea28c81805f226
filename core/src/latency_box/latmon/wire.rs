//! Requests and records as bytes.

use super::{LONGEST_PERIOD_US, MOST_CELLS};

/// Bytes of a request.
pub const REQUEST: usize = 8;
/// Bytes of a record.
pub const RECORD: usize = 24;

/// A request from latmus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Period of the pulses, µs; 0: stop.
    pub period_us: u32,
    /// Cells of 1 µs of the histogram; 0: none.
    pub cells: u32,
}

impl Request {
    /// Ends a measurement.
    pub const STOP: Request = Request { period_us: 0, cells: 0 };

    /// Whether it is a valid start of a measurement: 1 µs to 1 s, at most 1000 cells.
    #[must_use]
    pub fn is_start(self) -> bool {
        (1..=LONGEST_PERIOD_US).contains(&self.period_us) && self.cells <= MOST_CELLS
    }

    /// Samples of one record at this period; 1 000 000 where it is 0.
    #[must_use]
    pub fn bulk(self) -> u32 {
        1_000_000 / self.period_us.max(1)
    }

    /// Its bytes.
    #[must_use]
    pub fn encode(self) -> [u8; REQUEST] {
        let mut bytes = [0; REQUEST];
        bytes[..4].copy_from_slice(&self.period_us.to_be_bytes());
        bytes[4..].copy_from_slice(&self.cells.to_be_bytes());
        bytes
    }

    /// Decodes a request; never fails.
    #[must_use]
    pub fn decode(bytes: &[u8; REQUEST]) -> Request {
        Request { period_us: word(bytes, 0), cells: word(bytes, 4) }
    }
}

/// Measurements since the last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sum of the latencies, ns.
    pub sum_ns: i64,
    /// Shortest, ns; −1 (0xffff_ffff) where there is none.
    pub min_ns: i32,
    /// Longest, ns.
    pub max_ns: i32,
    /// Pulses without an answer in time.
    pub overruns: u32,
    /// Number of latencies; 0: the measurement is over.
    pub samples: u32,
}

impl Record {
    /// No samples. Sent at the end, with the overruns since the last record.
    pub const EMPTY: Record = Record { sum_ns: 0, min_ns: -1, max_ns: 0, overruns: 0, samples: 0 };

    /// Its bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..8].copy_from_slice(&self.sum_ns.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.min_ns.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.max_ns.to_be_bytes());
        bytes[16..20].copy_from_slice(&self.overruns.to_be_bytes());
        bytes[20..].copy_from_slice(&self.samples.to_be_bytes());
        bytes
    }

    /// Decodes a record; never fails, see [`Record::is_possible`].
    #[must_use]
    pub fn decode(bytes: &[u8; RECORD]) -> Record {
        let signed = |at| i32::from_be_bytes(word(bytes, at).to_be_bytes());
        Record {
            sum_ns: i64::from(signed(0)) << 32 | i64::from(word(bytes, 4)),
            min_ns: signed(8),
            max_ns: signed(12),
            overruns: word(bytes, 16),
            samples: word(bytes, 20),
        }
    }

    /// Whether these figures can be those of latencies: 0 ≤ min ≤ mean ≤ max, and at most the samples of one second at
    /// the shortest period.
    #[must_use]
    pub fn is_possible(&self) -> bool {
        let samples = i64::from(self.samples);
        (1..=1_000_000).contains(&samples)
            && (0..=self.max_ns).contains(&self.min_ns)
            && (i64::from(self.min_ns) * samples..=i64::from(self.max_ns) * samples).contains(&self.sum_ns)
    }
}

/// The big-endian word at `at`; 0 beyond the end.
pub(super) fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
}

/// The address that latmon broadcasts without a client: a dotted quad without NUL and newline, 7 to 15 bytes.
#[must_use]
pub fn announcement(address: [u8; 4]) -> String {
    address.map(|part| part.to_string()).join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_those_of_the_protocol() {
        // 1000 µs, 200 cells
        let request = Request { period_us: 1_000, cells: 200 };
        assert_eq!(request.encode(), [0, 0, 0x03, 0xe8, 0, 0, 0, 0xc8]);
        assert_eq!(Request::decode(&request.encode()), request);
        assert_eq!(Request::STOP.encode(), [0; 8]);
        let record = Record {
            sum_ns: 0x1_2345_6789,
            min_ns: 3_200,
            max_ns: 2_000_000_000,
            overruns: 2,
            samples: 1_000,
        };
        let bytes = [
            0, 0, 0, 1, 0x23, 0x45, 0x67, 0x89, 0, 0, 0x0c, 0x80, 0x77, 0x35, 0x94, 0, 0, 0, 0, 2, 0, 0, 3,
            0xe8,
        ];
        assert_eq!((record.encode(), Record::decode(&bytes)), (bytes, record));
        let end = Record::EMPTY.encode();
        assert_eq!(end[8..12], [0xff; 4]);
        assert_eq!(Record::decode(&[0xff; 24]).sum_ns, -1, "the sum is signed over both words");
        assert_eq!(announcement([192, 168, 1, 7]), "192.168.1.7");
    }

    #[test]
    fn requests_of_latmon_are_within_its_limits() {
        for (period_us, cells, starts) in [
            (0, 0, false),
            (1, 0, true),
            (1_000_000, 1_000, true),
            (1_000_001, 0, false),
            (1_000, 1_001, false),
            (u32::MAX, u32::MAX, false),
        ] {
            assert_eq!(Request { period_us, cells }.is_start(), starts, "{period_us} {cells}");
        }
        let bulk = |period_us| Request { period_us, cells: 0 }.bulk();
        assert_eq!((bulk(1_000), bulk(300), bulk(1_000_000), bulk(600_000)), (1_000, 3_333, 1, 1));
    }

    #[test]
    fn figures_that_no_latencies_have_are_noticed() {
        let good = Record { sum_ns: 30, min_ns: 5, max_ns: 20, overruns: 0, samples: 3 };
        assert!(good.is_possible());
        for bad in [
            Record { sum_ns: 61, ..good },
            Record { sum_ns: 14, ..good },
            Record { min_ns: 21, ..good },
            Record { min_ns: -1, ..good },
            Record { samples: 0, ..good },
            Record { samples: u32::MAX, ..good },
        ] {
            assert!(!bad.is_possible(), "{bad:?}");
        }
    }
}

//! Reads the streams of the test programs, which emit one event, `test:count {u32 thread; u64 number; str label}`: with
//! no code of the product, and strictly.

use std::collections::BTreeMap;
use std::path::Path;

/// What a trace directory holds.
#[derive(Debug, Default)]
pub struct Content {
    /// Numbers in the order of the stream, per thread.
    pub numbers: BTreeMap<u32, Vec<u64>>,
    /// Last `events_discarded` of each stream, summed.
    pub discarded: u64,
}

impl Content {
    /// All events.
    pub fn events(&self) -> u64 {
        self.numbers.values().map(|numbers| numbers.len() as u64).sum()
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(count);
        self.0 = rest;
        head
    }
    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take(8).try_into().unwrap())
    }
    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take(4).try_into().unwrap())
    }
    fn text(&mut self) -> &'a str {
        let length = self.0.iter().position(|&byte| byte == 0).unwrap();

        (std::str::from_utf8(&self.take(length + 1)[..length]).unwrap()) as _
    }
}

/// Reads all streams of a trace directory; panics at anything that CTF or Trace Compass would not like.
pub fn read(dir: &Path) -> Content {
    let mut content = Content::default();
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        if entry.file_name() != "metadata" {
            let bytes = std::fs::read(entry.path()).unwrap();
            content.discarded += read_stream(&mut Bytes(&bytes), &mut content.numbers);
        }
    }
    content
}

fn read_stream(file: &mut Bytes, numbers: &mut BTreeMap<u32, Vec<u64>>) -> u64 {
    let (mut last_end, mut last_discarded, mut next_packet) = (0, 0, 0);
    while !file.0.is_empty() {
        let size = u64::from_le_bytes(file.0[56..64].try_into().unwrap());
        assert!(size.is_multiple_of(8));
        let mut packet = Bytes(file.take(size as usize / 8));
        assert_eq!(packet.u32(), 0xC1FC_1FC1, "magic");
        packet.take(16 + 4 + 8);
        let (begin, end) = (packet.u64(), packet.u64());
        assert!(begin >= last_end && end >= begin, "packets do not go backwards");
        assert_eq!((packet.u64(), packet.u64()), (size, size), "content and packet size");
        assert_eq!(packet.u64(), next_packet, "packets are numbered");
        let discarded = packet.u64();
        assert!(discarded >= last_discarded, "discarded events only grow");
        packet.take(8 + 4);
        assert!(!packet.0.is_empty(), "a packet has events");
        let mut last = begin & 0xffff_ffff_ffff;
        while !packet.0.is_empty() {
            let at = packet.u64() >> 16;
            assert!(at >= last || last - at > 1 << 47, "times go forward");
            last = at;
            packet.take(8);
            packet.text();
            let (thread, number) = (packet.u32(), packet.u64());
            assert_eq!(
                packet.text(),
                &"abcdefghijklmnop"[..(number % 16) as usize],
                "the label of its number"
            );
            numbers.entry(thread).or_default().push(number);
        }
        (last_end, last_discarded, next_packet) = (end, discarded, next_packet + 1);
    }
    last_discarded
}

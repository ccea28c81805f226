//! Trace directories: the metadata, and one file per stream with whole packets only, within a limit of bytes.
//!
//! A file states how far its ring has been drained (its last packet holds the position), so that a new consumer continues
//! exactly where a dead one stopped: the packets are authoritative, not the memory.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use lathunt_core::export::ctf::{metadata, PacketHead, Trace};
use lathunt_core::export::user_stream::Events;
use rustix::fs::{fallocate, FallocateFlags};

use crate::beneath::{Directory, Readers};
use crate::trusted::Owner;

/// Blocks are preallocated for as many bytes as a stream has, and for this many at most: writing into allocated blocks
/// takes two thirds of the CPU time (ext4).
const AHEAD: u64 = 16 << 20;

/// How much may still be written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Quota {
    /// Most bytes; `None`: until the disk is full.
    pub limit: Option<u64>,
    /// Bytes written.
    pub written: u64,
}

/// One program's trace.
#[derive(Debug)]
pub struct TraceDir {
    parent: Rc<Directory>,
    name: OsString,
    directory: Option<Directory>,
    /// What its metadata says.
    pub trace: Trace,
    described: usize,
}

impl TraceDir {
    /// A trace `name` below `parent`, which need not exist: nothing is created before there is something to write.
    #[must_use]
    pub fn new(parent: Rc<Directory>, name: OsString, trace: Trace) -> TraceDir {
        TraceDir { parent, name, directory: None, trace, described: 0 }
    }

    fn directory(&mut self) -> io::Result<&Directory> {
        if self.directory.is_none() {
            self.directory = Some(self.parent.below(&self.name, Readers::Owner)?);
        }
        self.directory.as_ref().ok_or_else(|| io::Error::other("the directory is gone"))
    }

    /// Makes sure that the metadata on disk has all of `events`.
    ///
    /// # Errors
    /// The directory cannot be written.
    pub fn describe(&mut self, events: &Events) -> io::Result<()> {
        if self.described > 0 && self.described == events.len() {
            return Ok(());
        }
        let declarations: Vec<_> = events.iter().cloned().collect();
        let text = metadata(&self.trace, &declarations);
        self.directory()?.replace(OsStr::new("metadata"), text.as_bytes(), Readers::Owner, false)?;
        self.described = events.len();
        Ok(())
    }

    /// The file of a ring, as [`StreamFile::open`]; created if missing.
    ///
    /// # Errors
    /// As [`StreamFile::open`].
    pub fn stream(&mut self, ring: usize) -> io::Result<(StreamFile, Option<PacketHead>)> {
        let uuid = self.trace.uuid;
        StreamFile::open(self.directory()?, &stream_name(ring), uuid)
    }

    /// The same, if an earlier consumer made it.
    ///
    /// # Errors
    /// As [`StreamFile::open`].
    pub fn earlier_stream(&mut self, ring: usize) -> io::Result<Option<(StreamFile, Option<PacketHead>)>> {
        if self.directory.is_none() && self.parent.find(&self.name)?.is_none() {
            return Ok(None);
        }
        match self.directory()?.find(&stream_name(ring))? {
            Some(_) => self.stream(ring).map(Some),
            None => Ok(None),
        }
    }
}

fn stream_name(ring: usize) -> OsString {
    if ring == 0 {
        "init".into()
    } else {
        format!("ring-{ring}").into()
    }
}

/// A stream's file.
#[derive(Debug)]
pub struct StreamFile {
    file: File,
    length: u64,
    taken: u64,
    last_packet_at: Option<u64>,
}

impl Drop for StreamFile {
    /// Releases preallocated blocks.
    fn drop(&mut self) {
        if self.taken > self.length {
            let _ = self.file.set_len(self.length);
        }
    }
}

impl StreamFile {
    /// Opens or creates it; an incomplete packet at its end is cut off. Also returns the head of its last packet.
    ///
    /// # Errors
    /// The file cannot be opened, read or truncated.
    pub fn open(
        directory: &Directory,
        name: &OsStr,
        uuid: [u8; 16],
    ) -> io::Result<(StreamFile, Option<PacketHead>)> {
        let file = directory.open_or_create(name, Readers::Owner, Owner::Me)?;
        let size = file.metadata()?.len();
        let (mut at, mut last) = (0, None);
        let mut head = [0; PacketHead::BYTES];
        while file.read_exact_at(&mut head, at).is_ok() {
            match PacketHead::parse(&head, uuid) {
                Some(packet) if at + packet.bytes <= size => {
                    last = Some((at, packet));
                    at += packet.bytes;
                }
                _ => break,
            }
        }
        file.set_len(at)?; // also blocks that a killed consumer had preallocated
        let last_packet_at = last.map(|(at, _)| at);
        Ok((StreamFile { file, length: at, taken: at, last_packet_at }, last.map(|(_, head)| head)))
    }

    /// Appends whole packets, all of them or none.
    ///
    /// # Errors
    /// The disk is full or the quota is used up; the file is unchanged.
    pub fn append(&mut self, packets: &[u8], uuid: [u8; 16], quota: &mut Quota) -> io::Result<()> {
        let length = packets.len() as u64;
        if quota.limit.is_some_and(|limit| quota.written + length > limit) {
            return Err(io::Error::other("the limit of bytes for this session is reached"));
        }
        self.take_ahead(length);
        if let Err(error) = self.file.write_all_at(packets, self.length) {
            self.file.set_len(self.length)?;
            return Err(error);
        }
        let mut at = 0;
        while let Some(packet) = packets.get(at..).and_then(|rest| PacketHead::parse(rest, uuid)) {
            self.last_packet_at = Some(self.length + at as u64);
            at += packet.bytes as usize;
        }
        self.length += length;
        quota.written += length;
        Ok(())
    }

    /// Preallocates blocks for the next `length` bytes and more. If that fails, the write itself allocates.
    fn take_ahead(&mut self, length: u64) {
        let end = self.length + length;
        if end > self.taken {
            self.taken = end + end.min(AHEAD);
            let _ = fallocate(&self.file, FallocateFlags::KEEP_SIZE, self.length, self.taken - self.length);
        }
    }

    /// Corrects the number of discarded events in the last packet: adds those after the last event.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn correct_discarded(&self, discarded: u64) -> io::Result<bool> {
        match self.last_packet_at {
            Some(at) => {
                self.file.write_all_at(&discarded.to_le_bytes(), at + PacketHead::DISCARDED_AT).map(|()| true)
            }
            None => Ok(false),
        }
    }
}

/// A uuid derived from `parts` alone (FNV-1a, 128 bits; version 8 of RFC 9562): the same trace always gets the same.
#[must_use]
pub fn uuid_of(parts: &[&str]) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in parts.iter().flat_map(|part| part.bytes().chain([0])) {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut uuid = hash.to_be_bytes();
    uuid[6] = uuid[6] & 0x0f | 0x80;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use lathunt_core::export::ctf::{StreamWriter, Writer};
    use lathunt_core::time::Mono;

    use super::*;

    #[test]
    fn a_file_is_as_long_as_its_packets_and_the_next_consumer_gives_back_what_a_killed_one_had_taken_ahead() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ring-1");
        let directory = Directory::open(directory.path(), crate::beneath::Foreign::Refused).unwrap();
        let name = OsStr::new("ring-1");
        let mut packets = StreamWriter::new([1; 16], 1, 0, Mono(0));
        packets.open_for(&Writer { vpid: 7, vtid: 8, procname: b"axis", cpu: 1, discarded: 0 }, 0);
        (0..100_000).for_each(|at| assert!(packets.event(0, Mono(at), b"payload")));
        packets.close(1);
        let mut killed = StreamFile::open(&directory, name, [1; 16]).unwrap().0;
        killed.append(packets.bytes(), [1; 16], &mut Quota::default()).unwrap();
        std::mem::forget(killed);
        let length = packets.bytes().len() as u64;
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length);
        drop(StreamFile::open(&directory, name, [1; 16]).unwrap());
        let after = std::fs::metadata(&path).unwrap();
        assert_eq!(after.len(), length);
        assert!(after.blocks() * 512 < length + length / 2, "{} blocks for {length} bytes", after.blocks());
    }
}

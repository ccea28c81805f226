//! The pages of one CPU, from a plain or a compressed region of the file.
//!
//! A page is found by its number: plain data are sliced in place, compressed data are decompressed chunk by chunk into
//! a buffer of the walk, so that memory does not grow with the trace.

use super::super::bytes::Reader;
use super::super::compression::{most_events, Compression, Decompressor};
use super::super::item::Damage;
use super::super::ring_page::PageLayout;
use super::metadata::{Buffer, CpuData, Metadata};

/// Maximum bytes of a decompressed chunk. trace-cmd writes ten pages; the largest sub-buffer is 128 MiB in theory and
/// much smaller in practice.
const LARGEST_CHUNK: u32 = 64 << 20;

/// The pages of one CPU.
#[derive(Debug)]
pub(super) struct CpuPages<'a> {
    pub cpu: u32,
    pub origin: u16,
    pub layout: PageLayout,
    page_size: usize,
    how: Compression,
    /// The part of the file for this CPU, which starts at `offset`.
    data: &'a [u8],
    offset: u64,
    chunks: Vec<Chunk>,
    pages: usize,
    pub damage: Vec<Damage>,
}

/// A compressed run of pages.
#[derive(Clone, Copy, Debug)]
struct Chunk {
    /// Offset of its compressed bytes in `data`, and their number.
    begin: usize,
    packed: u32,
    unpacked: u32,
    first_page: usize,
}

/// The last decompressed chunk of a walk.
#[derive(Debug, Default)]
pub(super) struct Unpacked {
    chunk: Option<usize>,
    bytes: Vec<u8>,
    decompressor: Decompressor,
}

/// Location of the bytes of one page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PagePlace {
    begin: usize,
    end: usize,
    /// In the unpacked chunk rather than in the file.
    unpacked: bool,
}

/// Remaining limits of the CPUs of a file: bytes of the file, and decompressed bytes. Regions of CPUs do not overlap,
/// so the time to read all of them is proportional to the size of the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Left {
    bytes: u64,
    unpacked: u64,
}

impl Left {
    pub fn of(file: &[u8]) -> Self {
        let bytes = file.len() as u64;
        Left { bytes, unpacked: most_events(bytes) }
    }
}

impl<'a> CpuPages<'a> {
    pub fn open(
        file: &'a [u8],
        metadata: &Metadata,
        buffer: &Buffer,
        data: CpuData,
        origin: u16,
        left: &mut Left,
    ) -> Self {
        // The size of compressed data does not include the word before them, the number of chunks.
        let size = data.size.saturating_add(if buffer.compressed { 4 } else { 0 });
        let begin = (data.offset.min(file.len() as u64)) as usize;
        let end = data.offset.saturating_add(size).min(file.len() as u64) as usize;
        let mut pages = CpuPages {
            cpu: data.cpu,
            origin,
            layout: metadata.layout,
            page_size: (buffer.page_size as usize).max(metadata.layout.data_offset + 4),
            how: if buffer.compressed { metadata.compression } else { Compression::None },
            data: &file[begin..end.max(begin)],
            offset: data.offset,
            chunks: Vec::new(),
            pages: 0,
            damage: Vec::new(),
        };
        if (pages.data.len() as u64) < size {
            let cpu = data.cpu;
            let what =
                format!("CPU {cpu}: {size} bytes announced, the file has {} of them", pages.data.len());
            pages.damage.push(Damage::new(file.len() as u64, what));
        }
        let own = pages.data.len() as u64;
        let Some(bytes) = left.bytes.checked_sub(own) else {
            let what = format!("CPU {}: its data overlap those of other CPUs and are not read", data.cpu);
            pages.damage.push(Damage::new(data.offset, what));
            return pages;
        };
        left.bytes = bytes;
        if pages.how == Compression::None {
            // The last page may be truncated: the rest of it can still be read.
            pages.pages = pages.data.len().div_ceil(pages.page_size);
        } else if let Err(damage) = pages.index_chunks(metadata, left) {
            pages.damage.push(damage);
        }
        pages
    }

    fn index_chunks(&mut self, metadata: &Metadata, left: &mut Left) -> Result<(), Damage> {
        let mut reader = Reader::new(self.data, self.offset, metadata.order);
        let count = reader.u32("number of compressed chunks")?;
        for _ in 0..count {
            let packed = reader.u32("size of a compressed chunk")?;
            let unpacked = reader.u32("size of a chunk")?;
            let begin = (reader.offset() - self.offset) as usize;
            reader.take(packed.into(), "compressed chunk")?;
            if unpacked > LARGEST_CHUNK {
                return Err(Damage::new(reader.offset(), format!("a chunk of {unpacked} bytes")));
            }
            left.unpacked = left.unpacked.checked_sub(unpacked.into()).ok_or_else(|| {
                let cpu = self.cpu;
                let what = "the events decompress to more than 256 times the file, as no recorded ones do; the rest is not read";
                Damage::new(reader.offset(), format!("CPU {cpu}: {what}"))
            })?;
            self.chunks.push(Chunk { begin, packed, unpacked, first_page: self.pages });
            self.pages += (unpacked as usize).div_ceil(self.page_size);
        }
        match (self.offset + self.data.len() as u64).saturating_sub(reader.offset()) {
            0 => Ok(()),
            rest => {
                let what = format!("CPU {}: {rest} bytes after the last of {count} chunks", self.cpu);
                Err(Damage::new(reader.offset(), what))
            }
        }
    }

    /// Whether its end is missing.
    pub fn is_cut(&self) -> bool {
        !self.damage.is_empty()
    }

    /// Number of pages, including damaged ones.
    pub fn len(&self) -> usize {
        self.pages
    }

    /// First page of the next piece after the one that starts at `page`: 256 KiB later, or 1 MiB of whole chunks,
    /// because each piece decompresses the chunks of its pages, and once more for the page before the next piece.
    pub fn next_piece(&self, page: usize) -> usize {
        let bytes = if self.how == Compression::None { 1 << 18 } else { 1 << 20 };
        let next = page.saturating_add((bytes / self.page_size).max(1));
        match self.chunk_of(next) {
            Some(chunk) if self.chunks[chunk].first_page < next => self.next_chunk(next),
            _ => next.min(self.pages),
        }
    }

    /// Offset of page `index` in the file; in compressed data, that of its chunk.
    pub fn file_offset(&self, index: usize) -> u64 {
        match self.chunk_of(index) {
            Some(chunk) => self.offset + self.chunks[chunk].begin as u64,
            None => self.offset + (index * self.page_size) as u64,
        }
    }

    fn chunk_of(&self, page: usize) -> Option<usize> {
        self.chunks.partition_point(|chunk| chunk.first_page <= page).checked_sub(1)
    }

    /// Makes page `index` readable and returns its location.
    pub fn load(&self, index: usize, unpacked: &mut Unpacked) -> Result<PagePlace, Damage> {
        let Some(number) = self.chunk_of(index) else {
            return Ok(self.place(index, self.data.len(), false));
        };
        let chunk = self.chunks[number];
        if unpacked.chunk != Some(number) {
            let packed = &self.data[chunk.begin..chunk.begin + chunk.packed as usize];
            unpacked.chunk = None;
            unpacked
                .decompressor
                .unpack(self.how, packed, chunk.unpacked.into(), &mut unpacked.bytes)
                .map_err(|what| Damage::new(self.file_offset(index), format!("CPU {}: {what}", self.cpu)))?;
            unpacked.chunk = Some(number);
        }
        Ok(self.place(index - chunk.first_page, unpacked.bytes.len(), true))
    }

    fn place(&self, index: usize, len: usize, unpacked: bool) -> PagePlace {
        let begin = (index * self.page_size).min(len);
        PagePlace { begin, end: (begin + self.page_size).min(len), unpacked }
    }

    /// The bytes of a loaded page; shorter than a page if the file ends in it.
    #[inline]
    pub fn bytes<'s>(&'s self, place: &PagePlace, unpacked: &'s Unpacked) -> &'s [u8] {
        let all = if place.unpacked { unpacked.bytes.as_slice() } else { self.data };
        all.get(place.begin..place.end).unwrap_or(&[])
    }

    /// First page after the chunk that holds `index`: where reading can continue after damage.
    pub fn next_chunk(&self, index: usize) -> usize {
        match self.chunk_of(index) {
            Some(number) => self.chunks.get(number + 1).map_or(self.pages, |chunk| chunk.first_page),
            None => index + 1,
        }
    }
}

//! Decompression of parts of traces, with memory limited by the size of the input.
//!
//! The `zstd` crate (C library built in) instead of the pure-Rust `ruzstd`: measured side by side on the 40-KiB
//! chunks of a trace.dat, 1.2 against 0.39 GB/s, and decompression is most of the work of reading such a trace.

use std::borrow::Cow;

/// Densest possible zstd: a block of 128 KiB from 4 bytes. A larger announced size is damage.
const MOST_EXPANSION: u64 = 32 * 1024;

/// Maximum bytes of descriptions in one file (event formats, symbols, names) after decompression. A distribution kernel
/// with all modules has about 20 MiB.
pub const MOST_METADATA: u64 = 64 << 20;

/// Any trace may decompress to this many bytes, plus [`MOST_TIMES`] its size: event records with ascending times do not
/// compress by a factor of 100.
const MOST_FREE: u64 = 32 << 20;
const MOST_TIMES: u64 = 256;

/// Maximum bytes of events that a file of `packed` bytes may decompress to.
#[must_use]
pub fn most_events(packed: u64) -> u64 {
    MOST_FREE.saturating_add(packed.saturating_mul(MOST_TIMES))
}

/// Compression of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not compressed.
    None,
    /// RFC 8878.
    Zstd,
    /// RFC 1950.
    Zlib,
}

impl Compression {
    /// From the name in a file header.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Compression::None),
            "zstd" => Some(Compression::Zstd),
            "zlib" => Some(Compression::Zlib),
            _ => None,
        }
    }
}

/// Decompresses pieces one by one, and reuses its tables.
#[derive(Default)]
pub struct Decompressor {
    zstd: Option<zstd::bulk::Decompressor<'static>>,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Decompressor")
    }
}

impl Decompressor {
    /// `packed` into `out`, which is cleared first; `announced` bytes are expected.
    ///
    /// # Errors
    /// The reason, as text; `out` is empty then.
    pub fn unpack(
        &mut self,
        how: Compression,
        packed: &[u8],
        announced: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        out.clear();
        let most = (packed.len() as u64).saturating_mul(MOST_EXPANSION);
        if announced > most {
            return Err(format!("{announced} bytes announced from {} compressed ones", packed.len()));
        }
        match how {
            Compression::None => out.extend_from_slice(packed),
            Compression::Zlib => {
                *out = miniz_oxide::inflate::decompress_to_vec_zlib_with_limit(packed, announced as usize)
                    .map_err(|error| format!("zlib: {error}"))?;
            }
            Compression::Zstd => {
                out.try_reserve_exact(announced as usize).map_err(|error| error.to_string())?;
                let zstd = match &mut self.zstd {
                    Some(zstd) => zstd,
                    none => none.insert(zstd::bulk::Decompressor::new().map_err(|e| e.to_string())?),
                };
                if let Err(error) = zstd.decompress_to_buffer(packed, out) {
                    out.clear();
                    return Err(format!("zstd: {error}"));
                }
            }
        }
        if out.len() as u64 == announced {
            return Ok(());
        }
        let unpacked = out.len();
        out.clear();
        Err(format!("{announced} bytes announced, {unpacked} came out"))
    }
}

/// A zstd stream in pieces, decompressed as far as they reach.
#[derive(Default)]
pub struct Inflater {
    zstd: Option<zstd::stream::raw::Decoder<'static>>,
}

impl Inflater {
    /// Decompresses the next piece and appends it, until `out` has `most` bytes.
    ///
    /// # Errors
    /// The piece does not continue the stream, or the result is too large.
    pub fn unpack(&mut self, packed: &[u8], most: usize, out: &mut Vec<u8>) -> Result<(), String> {
        use zstd::stream::raw::Operation;
        let error = |error: std::io::Error| format!("zstd: {error}");
        let zstd = match &mut self.zstd {
            Some(zstd) => zstd,
            none => none.insert(zstd::stream::raw::Decoder::new().map_err(error)?),
        };
        let mut rest = packed;
        let mut chunk = [0; 1 << 16];
        loop {
            let done = zstd.run_on_buffers(rest, &mut chunk).map_err(error)?;
            rest = &rest[done.bytes_read..];
            out.extend_from_slice(&chunk[..done.bytes_written]);
            if out.len() > most {
                return Err(format!("zstd: unfolds to more than {most} bytes"));
            }
            // A full chunk: the decoder may have more.
            if rest.is_empty() && done.bytes_written < chunk.len() {
                return Ok(());
            }
            if done.bytes_read == 0 && done.bytes_written == 0 {
                return Err("zstd: the stream does not go on".to_owned());
            }
        }
    }
}

/// One piece of metadata, decompressed if it is compressed.
///
/// # Errors
/// As [`Decompressor::unpack`].
pub fn unpack_once(how: Compression, packed: &[u8], announced: u64) -> Result<Cow<'_, [u8]>, String> {
    if how == Compression::None {
        return Ok(Cow::Borrowed(packed));
    }
    let mut out = Vec::new();
    Decompressor::default().unpack(how, packed, announced, &mut out)?;
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_that_cannot_be_true_allocates_nothing() {
        let mut out = Vec::new();
        let result = Decompressor::default().unpack(Compression::Zstd, &[0; 12], u64::MAX, &mut out);
        assert!(result.is_err());
        assert_eq!(out.capacity(), 0);
    }

    #[test]
    fn both_kinds_come_back_as_they_were_and_wrong_sizes_are_errors() {
        let text = b"sched_switch sched_switch sched_switch".repeat(20);
        let zlib = miniz_oxide::deflate::compress_to_vec_zlib(&text, 6);
        let zstd = zstd::bulk::compress(&text, 3).unwrap();
        for (how, packed) in [(Compression::Zlib, zlib), (Compression::Zstd, zstd)] {
            assert_eq!(&*unpack_once(how, &packed, text.len() as u64).unwrap(), &text[..], "{how:?}");
            assert!(unpack_once(how, &packed, text.len() as u64 + 1).is_err(), "{how:?}");
            assert!(unpack_once(how, &packed, text.len() as u64 - 1).is_err(), "{how:?}");
        }
    }
}

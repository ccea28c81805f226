//! Reads a file that may be compressed, as `/proc/config.gz` is.

use std::io::{Error, Read, Result};

/// The bytes of `file`, decompressed if gzip.
///
/// # Errors
/// Reading fails; damaged gzip; more than `limit` bytes.
pub fn read(file: impl Read, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.starts_with(&[0x1f, 0x8b]) {
        let packed = std::mem::take(&mut bytes);
        flate2::read::GzDecoder::new(packed.as_slice()).take(limit + 1).read_to_end(&mut bytes)?;
    }
    match bytes.len() as u64 > limit {
        true => Err(Error::other(format!("it is larger than {} MiB", limit >> 20))),
        false => Ok(bytes),
    }
}

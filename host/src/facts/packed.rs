//! Reads a file that may be compressed, as `/proc/config.gz` is.

use std::io::{BufRead, BufReader, Cursor, Error, Read, Result};

/// The most that gzip may unfold to: it packs a thousand bytes into one.
pub const MOST_UNFOLDED: u64 = 64 << 20;

/// The bytes of `file`, decompressed if gzip.
///
/// # Errors
/// Reading fails; damaged gzip; more than `limit` bytes, or more than [`MOST_UNFOLDED`] of gzip.
pub fn read(file: impl Read, limit: u64) -> Result<Vec<u8>> {
    let (file, limit) = unfolded(file, limit)?;
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > limit {
        true => Err(too_large(limit)),
        false => Ok(bytes),
    }
}

/// Calls `each` with the lines of the text `file`, which is decompressed if gzip; holds one line at a time.
///
/// # Errors
/// As [`read`]; a line is not UTF-8, or has more than `longest` bytes.
pub fn lines(file: impl Read, limit: u64, longest: usize, mut each: impl FnMut(&str)) -> Result<()> {
    let (file, limit) = unfolded(file, limit)?;
    let mut file = BufReader::new(file);
    let (mut line, mut number, mut bytes) = (Vec::new(), 0u64, 0u64);
    loop {
        line.clear();
        let read = file.by_ref().take(longest as u64 + 1).read_until(b'\n', &mut line)?;
        (number, bytes) = (number + 1, bytes + read as u64);
        if read == 0 {
            return Ok(());
        }
        if bytes > limit {
            return Err(too_large(limit));
        }
        if read > longest {
            return Err(Error::other(format!("line {number} has more than {} KiB", longest >> 10)));
        }
        let text = std::str::from_utf8(&line).map_err(|_| Error::other("it is not text"))?;
        each(text.trim_end_matches(['\n', '\r']));
    }
}

/// The file, decompressed if gzip, and the limit of its size.
fn unfolded<'f>(mut file: impl Read + 'f, limit: u64) -> Result<(Box<dyn Read + 'f>, u64)> {
    let mut head = Vec::new();
    file.by_ref().take(2).read_to_end(&mut head)?;
    let is_packed = head == [0x1f, 0x8b];
    let whole = Cursor::new(head).chain(file);
    Ok(match is_packed {
        true => (Box::new(flate2::read::GzDecoder::new(whole)), limit.min(MOST_UNFOLDED)),
        false => (Box::new(whole), limit),
    })
}

fn too_large(limit: u64) -> Error {
    Error::other(format!("it is larger than {} MiB", limit >> 20))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(6));
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn lines_are_the_same_packed_or_not_and_a_long_one_is_an_error() {
        let text = "one\r\n\n three \nfour";
        for bytes in [text.as_bytes().to_vec(), gzip(text.as_bytes())] {
            let mut found = Vec::new();
            lines(&bytes[..], 100, 8, |line| found.push(line.to_owned())).unwrap();
            assert_eq!(found, ["one", "", " three ", "four"]);
            assert_eq!(read(&bytes[..], 100).unwrap(), text.as_bytes());
            let why = |limit, longest| lines(&bytes[..], limit, longest, |_| {}).unwrap_err().to_string();
            assert_eq!(why(100, 7), "line 3 has more than 0 KiB");
            assert_eq!(why(17, 8), "it is larger than 0 MiB");
            assert!(read(&bytes[..], text.len() as u64 - 1).is_err());
        }
        assert_eq!(lines(&b"a\xff"[..], 9, 9, |_| {}).unwrap_err().to_string(), "it is not text");
        let bomb = gzip(&vec![b' '; MOST_UNFOLDED as usize + 1]);
        assert!(read(&bomb[..], u64::MAX - 1).unwrap_err().to_string().contains("64 MiB"));
    }
}

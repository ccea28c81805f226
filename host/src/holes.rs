//! Sparse files: a file of some kilobytes may have a length of terabytes, all of it holes, which read as zeros. Nothing is
//! recorded in them, and reading them takes a time that grows with their length.

use std::fs::File;
use std::io;

use rustix::fs::{seek, SeekFrom};
use rustix::io::Errno;

/// Most bytes of holes of a file that has fewer bytes of data than that: reading them takes less than a second.
const MOST: u64 = 256 << 20;

/// Refuses a file of which most is holes. The offset of `file` is kept; file systems without holes refuse none.
///
/// # Errors
/// It has more than 256 MiB of holes, and fewer bytes of data.
pub(crate) fn refuse(file: &File, length: u64) -> io::Result<()> {
    if length <= MOST {
        return Ok(());
    }
    let Ok(before) = seek(file, SeekFrom::Current(0)) else { return Ok(()) };
    let data = data(file, length);
    seek(file, SeekFrom::Start(before))?;
    let holes = data.map_or(0, |data| length.saturating_sub(data));
    match holes > MOST && holes > length / 2 {
        true => Err(io::Error::other(format!(
            "{} of its {} MiB are holes, in which nothing was written (a sparse file): the recording or the copy is incomplete",
            holes >> 20,
            length >> 20
        ))),
        false => Ok(()),
    }
}

/// Bytes of data among the first `length`, counted up to half of them; `None`: the file system has no holes.
fn data(file: &File, length: u64) -> Option<u64> {
    let (mut at, mut data) = (0, 0);
    while at < length && data <= length / 2 {
        let begin = match seek(file, SeekFrom::Data(at)) {
            Ok(begin) => begin,
            Err(Errno::NXIO) => break, // only a hole follows
            Err(_) => return None,
        };
        at = seek(file, SeekFrom::Hole(begin)).ok().filter(|end| *end > begin)?;
        data += at - begin;
    }
    Some(data)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, Write};

    use super::*;

    #[test]
    fn a_file_of_holes_is_refused_and_one_of_data_is_not() {
        let mut file = tempfile::tempfile().unwrap();
        let told =
            |file: &File| refuse(file, file.metadata().unwrap().len()).err().map(|error| error.to_string());
        file.write_all(&[1; 8192]).unwrap();
        file.set_len(MOST).unwrap();
        assert_eq!(told(&file), None, "short enough");
        file.set_len(1 << 40).unwrap();
        assert!(
            told(&file).unwrap().starts_with("1048575 of its 1048576 MiB are holes"),
            "{:?}",
            told(&file)
        );
        assert_eq!(file.stream_position().unwrap(), 8192);
        // Data between the holes, and at the end.
        for place in (0..1_u64 << 40).step_by(1 << 36) {
            file.seek(io::SeekFrom::Start(place)).unwrap();
            file.write_all(&[1; 4096]).unwrap();
        }
        assert!(told(&file).is_some());
    }
}

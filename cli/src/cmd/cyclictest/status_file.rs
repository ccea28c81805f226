//! `/dev/shm/cyclictestPID`: where `get_cyclictest_snapshot` looks after it has sent SIGUSR2.

use std::fs::{File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;

/// The file; removed when dropped.
pub struct StatusFile {
    file: File,
    path: PathBuf,
}

impl StatusFile {
    /// `None`: no shared memory, hence no reader.
    pub fn create() -> Option<StatusFile> {
        let path = PathBuf::from(format!("/dev/shm/cyclictest{}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).ok()?;
        Some(StatusFile { file, path })
    }

    /// Replaces the contents.
    pub fn write(&mut self, text: &str) {
        let replaced = self.file.set_len(0).and_then(|()| self.file.seek(SeekFrom::Start(0)).map(|_| ()));
        if let Err(error) = replaced.and_then(|()| self.file.write_all(text.as_bytes())) {
            eprintln!("ERROR: {}: {error}", self.path.display());
        }
    }
}

impl Drop for StatusFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path); // gone already
    }
}

//! Events that access memory or write to a device.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};

use lathunt_core::random::Random;
use lathunt_core::tasks::program::{MemoryKind, MemoryWalk};

use crate::error::{Error, Result};

/// Bytes between two checks of the flag.
const AT_ONCE: usize = 64 << 10;

/// The device of `iorun`. Opened before the run: an existing file or character device; nothing is created or truncated.
///
/// # Errors
/// If it is not writable, or is a disk.
pub fn open(device: &str) -> Result<File> {
    let file = OpenOptions::new().append(true).custom_flags(libc::O_NONBLOCK).open(device);
    let file = file.map_err(|error| Error::new("open", format!("{device}, the \"io_device\""), error))?;
    let kind = file.metadata().map(|found| found.file_type());
    if kind.is_ok_and(|kind| kind.is_block_device()) {
        let hint = "iorun would overwrite it; name a file or /dev/null";
        return Err(Error::refused("write to", format!("{device}, a block device"), hint));
    }
    Ok(file)
}

/// Writes `bytes` of the buffer cyclically; false: it was stopped.
pub fn fill(buffer: &mut [u8], bytes: u64, stop: &AtomicBool) -> bool {
    let mut left = bytes;
    while left > 0 && !buffer.is_empty() {
        for part in buffer.chunks_mut(AT_ONCE) {
            if left == 0 {
                break;
            }
            if stop.load(Ordering::Relaxed) {
                return false;
            }
            let now = part.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            part[..now].fill(left as u8);
            left -= now as u64;
        }
    }
    std::hint::black_box(buffer);
    true
}

/// Writes `bytes` to the device; `Ok(false)`: it was stopped.
pub fn write(device: &File, buffer: &[u8], bytes: u64, stop: &AtomicBool) -> std::io::Result<bool> {
    let mut device = device;
    let mut left = bytes;
    while left > 0 && !buffer.is_empty() {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let now = buffer.len().min(AT_ONCE).min(usize::try_from(left).unwrap_or(usize::MAX));
        match device.write(&buffer[..now]) {
            Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
            Ok(written) => left -= written as u64,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Memory of a `memrun`: a ring of locations, in order or at random.
pub struct Walk {
    what: MemoryWalk,
    /// Index of the next location at each stride.
    next: Vec<u64>,
    step: usize,
}

impl Walk {
    /// Creates the ring, so that its pages exist before the run.
    pub fn new(what: MemoryWalk) -> Walk {
        let step = (what.stride as usize / 8).max(1);
        let words = (what.size as usize / 8).max(step);
        let places = words / step;
        let mut order: Vec<u64> = (0..places as u64).collect();
        if what.random {
            let mut random = Random::new(1);
            for at in (1..places).rev() {
                order.swap(at, random.below(at as u64 + 1) as usize);
            }
        }
        let mut next = vec![0; words];
        for (at, place) in order.iter().enumerate() {
            next[*place as usize * step] = order[(at + 1) % places] * step as u64;
        }
        Walk { what, next, step }
    }

    /// Walks through it; false: it was stopped.
    pub fn go(&mut self, stop: &AtomicBool) -> bool {
        let mut at = 0;
        let mut sum = 0u64;
        let passes = if self.what.kind == MemoryKind::Chase { 1 } else { self.what.count };
        for pass in 0..passes {
            let steps = match self.what.kind {
                MemoryKind::Chase => self.what.count,
                _ => (self.next.len() / self.step) as u64,
            };
            for step in 0..steps {
                if step % 1_024 == 0 && stop.load(Ordering::Relaxed) {
                    return false;
                }
                let Some(place) = self.next.get_mut(at as usize) else { return true };
                let following = *place;
                match self.what.kind {
                    MemoryKind::Write => *place = std::hint::black_box(following),
                    MemoryKind::Read | MemoryKind::Chase => sum = sum.wrapping_add(following),
                }
                at = following;
            }
            std::hint::black_box(pass);
        }
        std::hint::black_box(sum);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_in_any_order_comes_to_every_place_once() {
        for random in [false, true] {
            let what = MemoryWalk { kind: MemoryKind::Chase, size: 6_400, count: 100, stride: 64, random };
            let walk = Walk::new(what);
            let (mut at, mut seen) = (0, std::collections::BTreeSet::new());
            while seen.insert(at) {
                at = walk.next[at as usize];
            }
            assert_eq!((seen.len(), at), (100, 0));
        }
    }

    #[test]
    fn a_disk_and_a_missing_file_are_refused_and_null_takes_all() {
        let error = open("/nonexistent/file").unwrap_err().to_string();
        assert!(error.contains("io_device"), "{error}");
        let stop = AtomicBool::new(false);
        assert!(write(&open("/dev/null").unwrap(), &[0; 100], 1_000, &stop).unwrap());
        let mut buffer = vec![0; 100];
        assert!(fill(&mut buffer, 250, &stop) && buffer[0] != 0);
    }
}

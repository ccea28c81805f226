//! The marker that cyclictest writes into the kernel's trace when a latency exceeds its limit.
//!
//! It goes to the top-level buffer, where users of `--tracemark` have set up their own trace; nothing else in
//! tracefs is touched.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

use lathunt_core::time::Ns;

use super::OnPeak;
use crate::error::{Error, Result};

/// `trace_marker` of the top-level buffer, open for writing.
#[derive(Debug)]
pub struct TraceMarker(File);

impl TraceMarker {
    /// Finds the mounted tracefs and opens its marker.
    ///
    /// # Errors
    /// If tracefs is not mounted (lathunt does not mount it: that changes the machine), or is not writable.
    pub fn open() -> Result<TraceMarker> {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let Some(path) = tracefs(&mounts) else {
            return Err(Error::refused(
                "write",
                "trace_marker",
                "tracefs is not mounted: `mount -t tracefs nodev \
                 /sys/kernel/tracing`",
            ));
        };
        Self::open_at(&path.join("trace_marker"))
    }

    fn open_at(path: &Path) -> Result<TraceMarker> {
        let file = OpenOptions::new().write(true).open(path);
        file.map(TraceMarker).map_err(|error| Error::new("open", path.display().to_string(), error))
    }

    /// Writes the marker for `value` (in the unit of the limit), in cyclictest's format.
    pub fn hit(&mut self, value: u64, limit: i64) {
        let mut line = [0u8; 64];
        let mut rest = &mut line[..];
        let room = rest.len();
        let _ = writeln!(rest, "hit latency threshold ({value} > {limit})"); // fits: two 64-bit numbers
        let used = room - rest.len();
        let _ = self.0.write_all(&line[..used]); // the buffer may be off: then there is no marker
    }
}

/// Mount point of tracefs, or its directory in debugfs.
fn tracefs(mounts: &str) -> Option<PathBuf> {
    let mount = |kind: &str| {
        mounts.lines().find_map(|line| {
            let mut fields = line.split(' ').skip(1);
            let (path, found) = (fields.next()?, fields.next()?);
            (found == kind).then(|| PathBuf::from(path))
        })
    };
    mount("tracefs").or_else(|| mount("debugfs").map(|path| path.join("tracing")))
}

/// Writes the marker when a thread hits the break limit, and calls the next hook.
pub struct MarkOnBreak {
    /// Where to write.
    pub marker: TraceMarker,
    /// The limit as the user gave it.
    pub limit: i64,
    /// Nanoseconds per unit of the limit.
    pub unit: Ns,
    /// The next hook.
    pub next: Option<Box<dyn OnPeak>>,
}

impl OnPeak for MarkOnBreak {
    fn peak(
        &mut self,
        expected: lathunt_core::time::Mono,
        woken: lathunt_core::time::Mono,
        latency: Ns,
    ) -> Option<u64> {
        self.next.as_mut().and_then(|next| next.peak(expected, woken, latency))
    }

    fn broke(&mut self, latency: Ns) {
        self.marker.hit(latency.0 / self.unit.0.max(1), self.limit);
        if let Some(next) = &mut self.next {
            next.broke(latency);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_reads_as_cyclictest_writes_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("trace_marker");
        fs::write(&path, "").unwrap();
        let marker = TraceMarker::open_at(&path).unwrap();
        let mut hook = MarkOnBreak { marker, limit: 20, unit: Ns(1_000), next: None };
        hook.broke(Ns(28_999));
        assert_eq!(fs::read_to_string(&path).unwrap(), "hit latency threshold (28 > 20)\n");
    }

    #[test]
    fn tracefs_is_found_where_it_is_mounted() {
        assert_eq!(tracefs("proc /proc proc rw 0 0\n"), None);
        let both = "debugfs /sys/kernel/debug debugfs rw 0 0\ntracefs /sys/kernel/tracing tracefs rw 0 0\n";
        assert_eq!(tracefs(both), Some("/sys/kernel/tracing".into()));
        assert_eq!(tracefs("d /sys/kernel/debug debugfs rw 0 0\n"), Some("/sys/kernel/debug/tracing".into()));
    }
}

//! `/dev/cpu_dma_latency`: the maximum exit latency of idle states.
//!
//! Holding it at 0 keeps CPUs out of idle states: a tool that does so improves the machine it measures. So it is held
//! only on request, and other holders belong to the conditions of a run. Format: the kernel reads and writes a signed
//! 32-bit number of microseconds (kernel/power/qos.c); the request lasts as long as the file is open.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use crate::error::{Error, Result};

const DEVICE: &str = "/dev/cpu_dma_latency";

/// The latency that is allowed now, in µs.
///
/// # Errors
/// If the device is absent or not readable (it belongs to root).
pub fn read() -> Result<i32> {
    let mut value = [0; 4];
    let mut file = File::open(DEVICE).map_err(|error| explain("read", error))?;
    file.read_exact(&mut value).map_err(|error| explain("read", error))?;
    Ok(i32::from_ne_bytes(value))
}

/// A request that lasts until it is dropped, or until the process ends in any way.
#[derive(Debug)]
pub struct Held {
    file: File,
    /// The request, µs.
    pub us: i32,
}

/// Allows at most `us` microseconds until the result is dropped.
///
/// # Errors
/// If the device is absent or not writable.
pub fn hold(us: i32) -> Result<Held> {
    let mut file =
        OpenOptions::new().read(true).write(true).open(DEVICE).map_err(|error| explain("hold", error))?;
    file.write_all(&us.to_ne_bytes()).map_err(|error| explain("hold", error))?;
    Ok(Held { file, us })
}

/// The kernel's value for "no request" (include/linux/pm_qos.h).
const PM_QOS_DEFAULT_VALUE: i32 = -1;

impl Held {
    /// Allows at most `us` from now on; `None`: no limit of ours.
    ///
    /// # Errors
    /// The kernel refuses it; then the request is unchanged.
    pub fn change(&mut self, us: Option<i32>) -> Result<()> {
        let value = us.unwrap_or(PM_QOS_DEFAULT_VALUE);
        self.file.write_all(&value.to_ne_bytes()).map_err(|error| explain("change", error))?;
        self.us = us.unwrap_or(self.us);
        Ok(())
    }
}

/// Other processes that have the device open, as `comm/pid`. Those of other users are visible to root only.
#[must_use]
pub fn holders() -> Vec<String> {
    holders_below(Path::new("/proc"), std::process::id())
}

fn holders_below(proc: &Path, own: u32) -> Vec<String> {
    let Ok(processes) = fs::read_dir(proc) else { return Vec::new() };
    let mut pids: Vec<u32> =
        processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    pids.into_iter()
        .filter(|&pid| pid != own)
        .filter(|pid| {
            let Ok(files) = fs::read_dir(proc.join(format!("{pid}/fd"))) else { return false };
            files.flatten().any(|file| fs::read_link(file.path()).is_ok_and(|to| to == Path::new(DEVICE)))
        })
        .map(|pid| {
            let comm = fs::read_to_string(proc.join(format!("{pid}/comm"))).unwrap_or_default();
            format!("{}/{pid}", comm.trim_end())
        })
        .collect()
}

fn explain(doing: &'static str, error: std::io::Error) -> Error {
    let hint = match error.kind() {
        std::io::ErrorKind::PermissionDenied => "it belongs to root",
        std::io::ErrorKind::NotFound => "this kernel or container has none",
        _ => "",
    };
    Error::new(doing, DEVICE, error).hint(hint)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn others_who_hold_it_are_named_and_we_are_not() {
        let proc = tempfile::tempdir().unwrap();
        for (pid, comm, target) in
            [(7, "tuned\n", DEVICE), (8, "bash\n", "/dev/null"), (9, "lathunt\n", DEVICE)]
        {
            fs::create_dir_all(proc.path().join(format!("{pid}/fd"))).unwrap();
            fs::write(proc.path().join(format!("{pid}/comm")), comm).unwrap();
            symlink(target, proc.path().join(format!("{pid}/fd/3"))).unwrap();
        }
        assert_eq!(holders_below(proc.path(), 9), ["tuned/7"]);
    }
}

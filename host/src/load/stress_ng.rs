//! The default load through `stress-ng`: six kinds of work, bounded in time, memory, disk and network.
//!
//! Left out on purpose: whole classes (they contain stressors that fill disks, exhaust pids or touch devices),
//! anything that needs root, and every real-time option.

use std::path::Path;
use std::time::Duration;

use super::Job;

/// One bounded invocation for `cpus` CPUs.
pub(super) fn job(program: &Path, cpus: usize, limit: Duration) -> Job {
    let cpus = cpus.max(1);
    let some = cpus.div_ceil(4); // per kind beside the CPU itself
    let seconds = limit.as_secs().max(1);
    let options = format!(
        "--quiet --oomable --timeout {seconds}s --temp-path {{directory}} \
         --cpu {cpus} --vm {some} --vm-bytes 64M --get {some} --fork {some} --fork-max 4 --switch {some} \
         --hdd {some} --hdd-bytes 16M --hdd-write-size 64K --hdd-opts fsync --timer {some} --timer-freq 1000 \
         --udp {some} --udp-if lo --sock {some} --sock-if lo"
    );
    let arguments: Vec<String> = std::iter::once(program.to_string_lossy().into_owned())
        .chain(options.split_ascii_whitespace().map(str::to_owned))
        .collect();
    let description = arguments.join(" ").replace("{directory}", "DIR");
    Job::Program { arguments, description }
}

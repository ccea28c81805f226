//! How deep may the CPU sleep, and what limits that? Idle states, and `/dev/cpu_dma_latency` with its
//! holders.

use std::fs;
use std::path::Path;

use lathunt_core::conditions::IdleState;
use lathunt_core::time::Cpu;

use crate::tree::Tree;

const DEVICE: &str = "dev/cpu_dma_latency";

/// Idle states of `cpu`, shallow first; empty if the kernel shows none.
#[must_use]
pub fn states(tree: &Tree, cpu: Cpu) -> Vec<IdleState> {
    let base = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle");
    let mut numbers: Vec<u32> =
        tree.names(&base).iter().filter_map(|name| name.strip_prefix("state")?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
        .into_iter()
        .map(|state| {
            let of = |file: &str| format!("{base}/state{state}/{file}");
            IdleState {
                state,
                name: tree.text(&of("name")).unwrap_or_default(),
                exit_latency_us: tree.number(&of("latency")),
                disabled: tree.number::<u64>(&of("disable")).map(|bits| bits & 1 == 1), // bit 0: by the user
            }
        })
        .collect()
}

/// The exit latency now allowed, µs: the lowest request; 2 000 000 000 means no limit.
///
/// Reading needs the right to open the device; it makes no request itself (`PM_QOS_DEFAULT_VALUE`).
#[must_use]
pub fn allowed_latency_us(tree: &Tree) -> Option<i32> {
    use std::io::Read;
    let mut value = [0; 4]; // an s32 in the byte order of the machine (kernel/power/qos.c)
    match fs::File::open(tree.path(DEVICE)).and_then(|mut device| device.read_exact(&mut value)) {
        Ok(()) => Some(i32::from_ne_bytes(value)),
        Err(error) => {
            tree.note(format!("/{DEVICE}: cannot be read ({error})"));
            None
        }
    }
}

/// Processes other than this one that hold the device open, as `comm/pid`.
///
/// Processes of other users are invisible without root; that is noted, since the list is then incomplete.
#[must_use]
pub fn holders(tree: &Tree) -> Vec<String> {
    let device = tree.path(DEVICE);
    let own = std::process::id().to_string();
    let mut hidden = 0;
    let processes = tree.names("proc").into_iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()));
    let holding = |pid: &String| match fs::read_dir(tree.path(&format!("proc/{pid}/fd"))) {
        Ok(entries) => entries.flatten().any(|entry| is_link_to(&entry.path(), &device)),
        Err(error) => {
            hidden += i32::from(error.kind() == std::io::ErrorKind::PermissionDenied);
            false
        }
    };
    let pids: Vec<String> = processes.filter(|pid| *pid != own).filter(holding).collect();
    if hidden > 0 {
        tree.note(format!("/{DEVICE}: {hidden} processes of other users may hold it, too"));
    }
    let comm = |pid: &String| tree.text(&format!("proc/{pid}/comm")).unwrap_or_else(|| "?".to_owned());
    pids.iter().map(|pid| format!("{}/{pid}", comm(pid))).collect()
}

fn is_link_to(link: &Path, target: &Path) -> bool {
    fs::read_link(link)
        .is_ok_and(|points_to| points_to == target || points_to == Path::new("/dev/cpu_dma_latency"))
}

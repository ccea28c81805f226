//! Facts of the running system that are in no text file.

use std::fs;
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use lathunt_core::cpuset::CpuSet;

use super::network;
use crate::facts::counters;
use crate::tree::{Tree, LIVE};
use crate::{arch, pm_qos};

/// One fact by name; `NotFound` if this machine does not have it.
pub(super) fn read(name: &str) -> Result<String> {
    match name {
        "@clock_resolution_ns" => clock_resolution().map(|ns| ns.to_string()),
        "@kernel_log" => kernel_log(),
        "@pm_qos_us" => {
            pm_qos::read().map(|us| us.to_string()).map_err(|error| Error::other(error.to_string()))
        }
        "@pm_qos_holders" => Ok(pm_qos::holders().join("\n")),
        "@hypervisor" => arch::hypervisor().ok_or_else(|| ErrorKind::NotFound.into()),
        "@smi_count" => smi_count(),
        "@bpf_links" => bpf_links(),
        "@perf_users" => Ok(perf_users().join("\n")),
        "@core_cookies" => core_cookies(),
        "@nic_coalescing" => network::coalescing(),
        _ => Err(ErrorKind::NotFound.into()),
    }
}

fn clock_resolution() -> Result<i64> {
    let mut resolution = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid pointer; this clock always exists.
    match unsafe { libc::clock_getres(libc::CLOCK_MONOTONIC, &mut resolution) } {
        0 => Ok(resolution.tv_sec * 1_000_000_000 + resolution.tv_nsec),
        _ => Err(Error::last_os_error()),
    }
}

/// Lines of the kernel's log that rules ask for, without the log's own prefix (`6,339,5140900,-;`).
fn kernel_log() -> Result<String> {
    const WANTED: [&str; 4] = ["Unknown kernel command line", "tsc", "TSC", "clocksource"];
    let mut log = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg")?;
    let (mut record, mut kept) = (vec![0; 8192], Vec::new());
    loop {
        match log.read(&mut record) {
            Ok(0) => break,
            Ok(length) => {
                let text = String::from_utf8_lossy(&record[..length]);
                let line =
                    text.lines().next().and_then(|line| line.split_once(';')).map_or("", |(_, line)| line);
                if WANTED.iter().any(|word| line.contains(word)) {
                    kept.push(line.to_owned());
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            // Overwritten since the last read (EPIPE): the next read continues with the oldest that is left.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EPIPE | libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(kept.join("\n"))
}

/// Sum over all online CPUs.
fn smi_count() -> Result<String> {
    let tree = Tree::new(Path::new(LIVE));
    let online: CpuSet = tree
        .text("sys/devices/system/cpu/online")
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| Error::other("the list of online CPUs is not readable"))?;
    let counts: Option<Vec<u64>> = online.iter().map(|cpu| counters::smi_count(&tree, cpu)).collect();
    match counts {
        Some(counts) => Ok(counts.iter().sum::<u64>().to_string()),
        None => Err(Error::other("MSR 0x34 cannot be read (module msr, root, no kernel lockdown)")),
    }
}

/// All BPF links of the machine: program and type.
fn bpf_links() -> Result<String> {
    // SAFETY: geteuid has no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return Err(Error::other("listing BPF links needs root"));
    }
    let programs: Vec<(u32, String)> = libbpf_rs::query::ProgInfoIter::default()
        .map(|program| (program.id, program.name.to_string_lossy().into_owned()))
        .collect();
    let name =
        |id: u32| programs.iter().find(|(of, _)| *of == id).map_or("a program", |(_, name)| name.as_str());
    let mut links: Vec<String> =
        libbpf_rs::query::LinkInfoIter::default().map(|link| name(link.prog_id).to_owned()).collect();
    links.sort();
    links.dedup();
    Ok(links.join("\n"))
}

/// Processes with open perf events, as `comm/pid`. Those of other users are visible to root only.
fn perf_users() -> Vec<String> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = processes.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let mut users: Vec<String> = pids
        .filter(|pid| {
            let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
            files.flatten().any(|file| {
                fs::read_link(file.path()).is_ok_and(|to| to == Path::new("anon_inode:[perf_event]"))
            })
        })
        .map(|pid| {
            format!(
                "{}/{pid}",
                fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end()
            )
        })
        .collect();
    users.sort();
    users
}

/// Names of programs with a thread that has a core-scheduling cookie; those of other users are visible to root.
fn core_cookies() -> Result<String> {
    let cookie = |tid: libc::c_ulong| -> Result<u64> {
        const PR_SCHED_CORE: libc::c_int = 62; // include/uapi/linux/prctl.h, since 5.14
        const GET: libc::c_ulong = 0;
        const THIS_THREAD_ONLY: libc::c_ulong = 0; // PIDTYPE_PID
        let mut cookie = 0u64;
        // SAFETY: a valid pointer to 8 bytes, which is all this operation writes.
        match unsafe { libc::prctl(PR_SCHED_CORE, GET, tid, THIS_THREAD_ONLY, &raw mut cookie) } {
            0 => Ok(cookie),
            _ => Err(Error::last_os_error()),
        }
    };
    match cookie(0) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENODEV)) => {
            return Err(ErrorKind::NotFound.into()); // not built in, or no hyperthreads
        }
        other => other?,
    };
    let numbers = |path: &str| -> Vec<libc::c_ulong> {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
    };
    let mut names: Vec<String> = numbers("/proc")
        .into_iter()
        .filter(|pid| {
            numbers(&format!("/proc/{pid}/task"))
                .into_iter()
                .any(|tid| cookie(tid).is_ok_and(|cookie| cookie > 0))
        })
        .map(|pid| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim_end().to_owned())
        .collect();
    names.sort();
    names.dedup();
    Ok(names.join("\n"))
}

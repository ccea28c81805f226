//! Everything that `kill -9` of a command could leave on the machine.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub fn names(directory: &str, prefix: &str) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with(prefix)).map(|name| format!("{directory}/{name}")).collect()
}

/// Processes of the killed command: they carry its mark in their environment.
pub fn processes(mark: &str) -> BTreeSet<String> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ours = |pid: &String| {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let is_dead = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        !is_dead && environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    let pids = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
    pids.filter(|pid| pid.bytes().all(|byte| byte.is_ascii_digit()))
        .filter(ours)
        .map(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
        })
        .collect()
}

/// Of a session in memory of its own (LATHUNT_TRACE_DIR), as tests have them: none of the commands here.
fn is_apart(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("trace-"))
}

/// Regular files below `directory`, but for locks, which stay.
fn files(directory: &Path, all: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            files(&path, all);
        } else if path.extension().is_none_or(|extension| extension != "lock") && !is_apart(&path) {
            all.insert(path.display().to_string());
        }
    }
}

/// Files, trace buffers, cgroups, settings, requests of latency.
pub fn state() -> BTreeSet<String> {
    let mut state = BTreeSet::new();
    for (directory, prefix) in [
        ("/var/tmp", "lathunt"),
        ("/tmp", "lathunt-"),
        ("/sys/kernel/tracing/instances", ""),
        ("/sys/fs/cgroup", "lathunt"),
        ("/dev/shm/lathunt-0", ""), // the directory itself stays: programs put their rings there
        ("/dev/mqueue", "lathunt"),
        ("/dev/shm", "lathunt-npt"),
        ("/dev/shm", "lathunt-0.session"),
    ] {
        state.extend(names(directory, prefix));
    }
    files(Path::new("/run/lathunt"), &mut state);
    for setting in [
        "/sys/kernel/tracing/tracing_on",
        "/sys/kernel/tracing/current_tracer",
        "/sys/kernel/tracing/set_event",
        "/sys/kernel/tracing/uprobe_events",
        "/sys/kernel/tracing/kprobe_events",
        "/proc/sys/kernel/sched_rt_runtime_us",
        "/proc/sys/kernel/timer_migration",
        "/proc/sys/vm/stat_interval",
    ] {
        state.insert(format!("{setting} {}", fs::read_to_string(setting).unwrap_or_default().trim()));
    }
    // The latency that all requests together allow, in µs.
    let mut allowed = [0; 4];
    let read = fs::File::open("/dev/cpu_dma_latency")
        .and_then(|mut device| std::io::Read::read_exact(&mut device, &mut allowed));
    state.insert(format!("PM QoS {:?}", read.map(|()| i32::from_ne_bytes(allowed)).ok()));
    let sets = fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    state.extend(
        sets.lines()
            .skip(1)
            .map(|line| format!("semaphore set {:?}", line.split_whitespace().take(4).collect::<Vec<_>>())),
    );
    state
}

/// BPF programs of ours that the kernel has loaded, by name and number.
pub fn programs() -> BTreeSet<String> {
    const NEXT_ID: libc::c_long = 11;
    const BY_ID: libc::c_long = 13;
    const INFO: libc::c_long = 15;
    let bpf = |command: libc::c_long, attribute: &mut [u64; 16]| {
        // SAFETY: an attribute union is at most this long, and all else in it is 0.
        unsafe { libc::syscall(libc::SYS_bpf, command, attribute.as_mut_ptr(), size_of_val(attribute)) }
    };
    let (mut found, mut last) = (BTreeSet::new(), 0);
    loop {
        let mut next = [0; 16];
        next[0] = last;
        if bpf(NEXT_ID, &mut next) != 0 {
            return found;
        }
        last = next[0] >> 32; // u32 start_id, u32 next_id
        let mut by_id = [0; 16];
        by_id[0] = last;
        let Ok(fd) = i32::try_from(bpf(BY_ID, &mut by_id)) else { continue };
        let mut info = [0u8; 256];
        let mut asked = [0; 16];
        asked[0] = fd as u64 | (info.len() as u64) << 32; // u32 bpf_fd, u32 info_len
        asked[1] = info.as_mut_ptr() as u64;
        let told = fd >= 0 && bpf(INFO, &mut asked) == 0;
        // SAFETY: ours, or -1.
        unsafe { libc::close(fd) };
        let name = info[64..80].split(|byte| *byte == 0).next().unwrap_or_default(); // bpf_prog_info.name
        let name = String::from_utf8_lossy(name).into_owned();
        let ours = ["on_", "floor_", "hold_", "read_code"];
        if told && ours.iter().any(|begin| name.starts_with(begin)) {
            found.insert(format!("BPF program {last} {name}"));
        }
    }
}

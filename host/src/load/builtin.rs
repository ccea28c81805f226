//! The load for machines without `stress-ng`: one process per kind of work, and one more of the CPU kind per further
//! CPU. Each is bounded in time and size, named `load/KIND` so that it shows in an explanation, and dies with its
//! keeper.

use std::fs::File;
use std::hint::black_box;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::path::Path;
use std::time::{Duration, Instant};

use super::keeper::become_worker;

/// Bytes walked by the memory worker.
const MEMORY_BYTES: usize = 64 << 20;
/// Largest size of the file worker's file.
const FILE_BYTES: u64 = 16 << 20;

/// One step of work, some milliseconds at most; an error ends the worker.
type Step = Box<dyn FnMut() -> std::io::Result<()>>;
type Prepare = fn(&Path) -> std::io::Result<Step>;

const KINDS: [(&str, Prepare); 6] = [
    ("load/cpu", cpu),
    ("load/memory", memory),
    ("load/fork", system_calls),
    ("load/fsync", files),
    ("load/timer", timers),
    ("load/net", network),
];

/// Description for the conditions of a run.
pub(super) fn describe(cpus: usize) -> String {
    format!(
        "built-in: {} × CPU, memory 64 MiB, system calls and forks, fsync of 16 MiB, timers of 1 kHz, loopback UDP and TCP",
        cpus.max(1)
    )
}

/// Forks the workers; returns their pids, or why one cannot start (the caller then kills the others).
pub(super) fn start(cpus: usize, directory: &Path, end: Instant) -> Result<Vec<libc::pid_t>, String> {
    let more = std::iter::repeat_n(KINDS[0], cpus.saturating_sub(1));
    KINDS.into_iter().chain(more).map(|(name, prepare)| fork(name, prepare, directory, end)).collect()
}

fn fork(name: &str, prepare: Prepare, directory: &Path, end: Instant) -> Result<libc::pid_t, String> {
    let keeper = std::process::id() as libc::pid_t;
    // SAFETY: the keeper has one thread; the child ends with _exit and runs nothing of its parents' afterwards.
    match unsafe { libc::fork() } {
        -1 => Err(format!("cannot fork {name}: {}", std::io::Error::last_os_error())),
        0 => {
            become_worker(name, keeper);
            let done = work(prepare, directory, end);
            // SAFETY: see above.
            unsafe { libc::_exit(done.map_or_else(|error| error.raw_os_error().unwrap_or(255), |()| 0)) }
        }
        pid => Ok(pid),
    }
}

/// Works until `end`; an error's number becomes the exit status.
fn work(prepare: Prepare, directory: &Path, end: Instant) -> std::io::Result<()> {
    let mut step = prepare(directory)?;
    while Instant::now() < end {
        step()?;
    }
    Ok(())
}

fn cpu(_: &Path) -> std::io::Result<Step> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    Ok(Box::new(move || {
        for _ in 0..100_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            black_box((state as f64).sqrt());
        }
        Ok(())
    }))
}

/// Writes every cache line of a fresh mapping, reads it, and unmaps it: page faults, TLB and cache misses.
fn memory(_: &Path) -> std::io::Result<Step> {
    let bytes = MEMORY_BYTES;
    Ok(Box::new(move || {
        let mut block = vec![0u8; bytes];
        block.iter_mut().step_by(64).for_each(|byte| *byte = 1);
        black_box(block.iter().step_by(4096).map(|&byte| u64::from(byte)).sum::<u64>());
        Ok(())
    }))
}

/// A thousand small system calls, then a child that ends at once.
fn system_calls(_: &Path) -> std::io::Result<Step> {
    let (mut source, mut sink) = (File::open("/dev/zero")?, File::options().write(true).open("/dev/null")?);
    let mut buffer = [0; 256];
    Ok(Box::new(move || {
        for _ in 0..500 {
            source.read_exact(&mut buffer)?;
            sink.write_all(&buffer)?;
        }
        // SAFETY: this process has one thread; the child does nothing but end.
        match unsafe { libc::fork() } {
            -1 => std::thread::sleep(Duration::from_millis(10)), // pid limit reached: no reason to stop
            // SAFETY: _exit runs nothing of the parent's.
            0 => unsafe { libc::_exit(0) },
            // SAFETY: waits for the child just made, no status wanted.
            child => _ = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) },
        }
        Ok(())
    }))
}

/// Appends 64 KiB and syncs; starts over at 16 MiB or when the disk is full.
fn files(directory: &Path) -> std::io::Result<Step> {
    let mut file = File::options().create(true).write(true).truncate(true).open(directory.join("fsync"))?;
    let block = vec![0x5a; 64 << 10];
    Ok(Box::new(move || {
        let full = file.write_all(&block).and_then(|()| file.sync_all()).is_err();
        if full || file.stream_position()? >= FILE_BYTES {
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            std::thread::sleep(Duration::from_millis(if full { 100 } else { 0 }));
        }
        Ok(())
    }))
}

/// A periodic timer of 1 kHz, read through a timerfd.
fn timers(_: &Path) -> std::io::Result<Step> {
    use std::os::fd::FromRawFd;
    let millisecond = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
    let period = libc::itimerspec { it_interval: millisecond, it_value: millisecond };
    // SAFETY: plain values; the descriptor is ours when it is not negative; the setting lives through the call.
    let mut timer = unsafe {
        let fd = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
        if fd < 0 || libc::timerfd_settime(fd, 0, &period, std::ptr::null_mut()) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        File::from_raw_fd(fd)
    };
    let mut expirations = [0; 8];
    Ok(Box::new(move || timer.read_exact(&mut expirations)))
}

/// Datagrams and a stream to ourselves over the loopback interface, on ports that the kernel chooses.
fn network(_: &Path) -> std::io::Result<Step> {
    let udp = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    udp.connect(udp.local_addr()?)?;
    udp.set_read_timeout(Some(Duration::from_millis(100)))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut near = TcpStream::connect(listener.local_addr()?)?;
    let (mut far, _) = listener.accept()?;
    let mut buffer = vec![0x5a; 1400];
    Ok(Box::new(move || {
        for _ in 0..100 {
            if udp.send(&buffer).is_ok() {
                let _ = udp.recv(&mut buffer); // a lost datagram is no reason to stop
            }
            near.write_all(&buffer)?;
            far.read_exact(&mut buffer)?;
        }
        Ok(())
    }))
}

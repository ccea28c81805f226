//! Changes that know the formats: numbers, counts and offsets become extreme, lines and tokens are repeated, dropped and swapped, and what
//! is compressed is changed inside and compressed again, so that it passes the first checks. Each format has a process of its own, whose
//! memory the kernel limits (RLIMIT_DATA), and each file five seconds of CPU time, which does not depend on the load of the machine.
//!
//! `LATHUNT_MUTATIONS` says how many files of each format (2,000 without it, 6,000 in `make test`), `LATHUNT_MUTATION_SEED` which: each run has others, and
//! prints its seed. A failure names one file, which `LATHUNT_MUTATED_FORMAT` and `LATHUNT_MUTATION` make again. With `--nocapture`, the
//! most CPU time and memory of each format are printed.

#![allow(clippy::disallowed_types)] // the test starts processes, which the kernel limits; the crate itself starts none

use std::os::unix::fs::FileExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use lathunt_core::import::{read, Unit};
use lathunt_core::run::Run;

use super::{cases, ctf, flight, perf_data, text, trace_dat, Case, Numbers, KALLSYMS};

const MOST_KIB: u32 = 300_000;
/// Of the CPU time of one file.
const MOST_CPU: Duration = Duration::from_secs(5);
/// Against a file that waits instead of computing; a loaded machine must not reach it.
const MOST_WALL: Duration = Duration::from_secs(300);
const FORMAT: &str = "LATHUNT_MUTATED_FORMAT";
/// File in which the process notes what it reads: a process that the kernel ends says no more.
const LAST: &str = "LATHUNT_MUTATED_LAST";
const COUNT: &str = "LATHUNT_MUTATIONS";
const SEED: &str = "LATHUNT_MUTATION_SEED";
/// Seeds before they come again: 20 million files of each format.
const SEEDS: u64 = 10_000;
/// Those that take longest first.
const FORMATS: [&str; 8] =
    ["perf.data", "trace.dat", "text", "flight", "ctf", "run", "cyclictest", "rt-json"];

/// Numbers that overflow something.
const EXTREME: [&str; 12] = [
    "0",
    "-1",
    "1",
    "65535",
    "2147483647",
    "4294967295",
    "9223372036854775807",
    "18446744073709551615",
    "99999999999999999999999",
    "1e308",
    "nan",
    "0x7fffffff",
];

const CYCLICTEST: &str = "# /dev/cpu_dma_latency set to 0us\n# Histogram\n000000 000000\t000000\n000001 000171\t000005\n\
    000002 000004\t000001\n# Total: 000000175 000000006\n# Min Latencies: 00001 00001\n# Avg Latencies: 00001 00001\n\
    # Max Latencies: 00002 00002\n# Histogram Overflows: 00000 00000\nT: 0 (  100) P:80 I:1000 C:    175 Min:      1 Act:    1 Avg:    1 Max:       2\n\
    T: 1 (  101) P:80 I:1500 C:      6 Min:      1 Act:    1 Avg:    1 Max:       2\n       0:       0:      33\n";
const RT_JSON: &str = "{\"file_version\": 1, \"cmdline\": \"cyclictest -q\", \"resolution_in_ns\": 0, \"num_threads\": 2, \"thread\": {\
    \"0\": {\"histogram\": {\"1\": 5, \"7\": 1}, \"cycles\": 6, \"min\": 1, \"max\": 7, \"avg\": 2.0, \"cpu\": 0},\
    \"1\": {\"histogram\": {\"2\": 5}, \"cycles\": 5, \"min\": 2, \"max\": 2, \"avg\": 2.0, \"cpu\": 1}}}";

/// A file, changed; whether anything is read of it does not matter.
fn one(format: &str, all: &[Case], numbers: &mut Numbers) {
    let pick = |open: fn(&[Vec<u8>]) -> Option<super::Met>, numbers: &mut Numbers| {
        let of: Vec<&Case> = all.iter().filter(|case| std::ptr::fn_addr_eq(case.open, open)).collect();
        of[numbers.next(of.len())].parts.clone()
    };
    let text_of = |text: &str, numbers: &mut Numbers| {
        let mut bytes = text.as_bytes().to_vec();
        (0..1 + numbers.next(4)).for_each(|_| tokens(&mut bytes, numbers));
        String::from_utf8_lossy(&bytes).into_owned()
    };
    match format {
        "trace.dat" => {
            let mut parts = pick(trace_dat, numbers);
            match numbers.next(3) {
                0 => repack(&mut parts[0], numbers),
                _ => words(&mut parts[0], numbers),
            }
            let _ = trace_dat(&parts);
        }
        "perf.data" => {
            let mut parts = pick(perf_data, numbers);
            match numbers.next(3) {
                0 => parts[0] = compressed(numbers),
                _ => words(&mut parts[0], numbers),
            }
            let _ = perf_data(&parts);
        }
        "ctf" => {
            let mut parts = pick(ctf, numbers);
            match numbers.next(2) {
                0 => tokens(&mut parts[0], numbers),
                _ => {
                    let stream = 1 + numbers.next(parts.len() - 1);
                    words(&mut parts[stream], numbers);
                }
            }
            let _ = ctf(&parts);
        }
        "flight" => {
            let mut bytes = pick(flight, numbers).swap_remove(0);
            words(&mut bytes, numbers);
            let _ = flight(&[bytes, KALLSYMS.to_vec()]);
        }
        "text" => {
            let mut parts = pick(text, numbers);
            (0..1 + numbers.next(4)).for_each(|_| tokens(&mut parts[0], numbers));
            let _ = text(&parts);
        }
        "cyclictest" => drop(read(&text_of(CYCLICTEST, numbers), Unit::Guess)),
        "rt-json" => drop(read(&text_of(RT_JSON, numbers), Unit::Guess)),
        _ => {
            let whole = read(CYCLICTEST, Unit::Guess).expect("it is whole").to_json();
            if let Ok(run) = Run::from_json(&text_of(&whole, numbers)) {
                assert!(Run::from_json(&run.to_json()).is_ok());
            }
        }
    }
}

/// Changes tokens and lines of a text.
fn tokens(bytes: &mut Vec<u8>, numbers: &mut Numbers) {
    let at = numbers.next(bytes.len());
    let is_end = |&byte: &u8| matches!(byte, b' ' | b'\n' | b':' | b',' | b';' | b'=' | b'"' | b'(' | b')');
    let begin = bytes[..at].iter().rposition(is_end).map_or(0, |end| end + 1);
    let end = at + bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at);
    let begin_of_line = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let end_of_line =
        at + bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len() - at, |end| end + 1);
    match numbers.next(6) {
        0 | 1 if begin <= end => drop(bytes.splice(begin..end, EXTREME[numbers.next(EXTREME.len())].bytes())),
        2 if begin <= end => {
            let from = numbers.next(bytes.len());
            let token = bytes[from..(from + numbers.next(24)).min(bytes.len())].to_vec();
            bytes.splice(begin..end, token);
        }
        3 => {
            let times = (1 + numbers.next(200)).min((64 << 10) / (end_of_line - begin_of_line).max(1));
            let line = bytes[begin_of_line..end_of_line].repeat(times);
            bytes.splice(begin_of_line..begin_of_line, line);
        }
        4 => drop(bytes.drain(begin_of_line..end_of_line)),
        _ => {
            let hostile = ["\x1b[2J", "\u{202e}", "\0", "{", "}", "[", "/*", "\"", "\\", "\r"];
            bytes.splice(at..at, hostile[numbers.next(hostile.len())].bytes());
        }
    }
    if bytes.is_empty() {
        bytes.push(b'\n');
    }
}

/// Changes words that look like sizes, counts or offsets.
fn words(bytes: &mut [u8], numbers: &mut Numbers) {
    let word = |bytes: &[u8], at: usize| {
        u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
    };
    for _ in 0..1 + numbers.next(3) {
        let start = numbers.next(bytes.len().saturating_sub(8));
        let looks = |at: &usize| (1..2 * bytes.len() as u32).contains(&word(bytes, *at));
        let Some(at) = (start..(start + 512).min(bytes.len().saturating_sub(8))).find(looks) else {
            continue;
        };
        let old = word(bytes, at);
        let other = word(bytes, numbers.next(bytes.len() - 4));
        let new = [
            0,
            1,
            old.wrapping_add(1),
            old.wrapping_sub(1),
            old << 8,
            0x7fff_ffff,
            u32::MAX,
            bytes.len() as u32,
            other,
        ];
        bytes[at..at + 4].copy_from_slice(&new[numbers.next(new.len())].to_le_bytes());
        if numbers.next(4) == 0 {
            bytes[at + 4..at + 8].fill(0xff); // of a number of eight bytes
        }
    }
}

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// Changes what one zstd frame holds, in the place that the frame had.
fn repack(bytes: &mut [u8], numbers: &mut Numbers) {
    let frames: Vec<usize> =
        bytes.windows(4).enumerate().filter(|(_, four)| *four == ZSTD).map(|(at, _)| at).collect();
    let Some(&at) = frames.get(numbers.next(frames.len())).filter(|at| **at >= 8) else {
        return words(bytes, numbers);
    };
    let size =
        |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let (packed, unpacked) = (size(at - 8), size(at - 4));
    let Some(frame) = bytes.get(at..at + packed).filter(|_| unpacked < 1 << 22) else { return };
    let Ok(mut inside) = zstd::bulk::decompress(frame, unpacked) else { return };
    match numbers.next(3) {
        0 => {
            // All pages alike: as dense as it gets, and a bomb where the size says so.
            let page = inside[..inside.len().min(4096)].to_vec();
            inside = page.repeat(unpacked.div_ceil(page.len().max(1)) << numbers.next(12));
        }
        _ => words(&mut inside, numbers),
    }
    let Ok(again) = zstd::bulk::compress(&inside, 19) else { return };
    let Some(rest) = packed.checked_sub(again.len() + 8) else { return };
    bytes[at - 4..at].copy_from_slice(&(inside.len() as u32).to_le_bytes());
    bytes[at..at + again.len()].copy_from_slice(&again);
    // A frame that is skipped fills the place.
    let fill = [&0x184d_2a50u32.to_le_bytes()[..], &(rest as u32).to_le_bytes()].concat();
    bytes[at + again.len()..at + again.len() + 8].copy_from_slice(&fill);
}

/// A perf.data as `perf record -z` makes it, of changed records, some of them a thousand times.
fn compressed(numbers: &mut Numbers) -> Vec<u8> {
    let plain = include_bytes!("../data/perf_data/small.data");
    let word = |at: usize| u64::from_le_bytes(plain[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (offset, size) = (word(40), word(48));
    let mut records = plain[offset..offset + size].to_vec();
    words(&mut records, numbers);
    if numbers.next(4) == 0 {
        records = records.repeat((1 << numbers.next(12)).min((64 << 20) / records.len().max(1)));
    }
    let mut packed = Vec::new();
    for piece in zstd::bulk::compress(&records, 1).unwrap_or_default().chunks(60_000) {
        packed.extend(81u32.to_le_bytes());
        packed.extend([0, 0]);
        packed.extend((piece.len() as u16 + 8).to_le_bytes());
        packed.extend(piece);
    }
    let mut bytes = [&plain[..offset], &packed, &plain[offset + size..]].concat();
    bytes[48..56].copy_from_slice(&(packed.len() as u64).to_le_bytes());
    let features: u32 = plain[72..104].iter().map(|byte| byte.count_ones()).sum();
    for section in 0..features as usize {
        let place = offset + packed.len() + 16 * section;
        let old = u64::from_le_bytes(bytes[place..place + 8].try_into().expect("eight bytes"));
        let moved = old.wrapping_add(packed.len() as u64).wrapping_sub(size as u64);
        bytes[place..place + 8].copy_from_slice(&moved.to_le_bytes());
    }
    bytes
}

/// Not a test of its own: the process of one format.
#[test]
fn the_process_of_one_format() {
    let Ok(format) = std::env::var(FORMAT) else { return };
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let count: u64 = number(COUNT).unwrap_or(2_000);
    let first = 1 + number(SEED).unwrap_or(0) * count;
    let files = match number("LATHUNT_MUTATION") {
        Some(only) => only..only + 1,
        None => first..first + count,
    };
    let seed = Arc::new(AtomicU64::new(0));
    watch(Arc::clone(&seed));
    let all = cases();
    let last_file =
        std::env::var_os(LAST).and_then(|path| std::fs::File::options().write(true).open(path).ok());
    let (mut slowest, mut largest) = ((Duration::ZERO, 0), (peak_kib(), 0));
    for number in files {
        let begun = cpu_time();
        seed.store(number, Ordering::Relaxed);
        // In place: a file that is cut off and written anew is flushed by ext4 each time.
        let _ = last_file.as_ref().map(|file| file.write_all_at(format!("{number:<20}").as_bytes(), 0));
        let mut numbers = Numbers(number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let done =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| one(&format, &all, &mut numbers)));
        assert!(
            done.is_ok(),
            "file {number} of {format}: LATHUNT_MUTATED_FORMAT={format} LATHUNT_MUTATION={number}"
        );
        slowest = slowest.max((cpu_time() - begun, number));
        largest = (peak_kib(), if peak_kib() > largest.0 { number } else { largest.1 });
    }
    let (time, slow, mib, large) = (slowest.0.as_secs_f64(), slowest.1, largest.0 >> 10, largest.1);
    println!(
        "{count} files of {format}: at most {time:.2} s of CPU ({slow}) and {mib} MiB of memory ({large})"
    );
}

/// Ends this process if the file whose number is in `current` takes too long.
fn watch(current: Arc<AtomicU64>) {
    std::thread::spawn(move || {
        let (mut last, mut cpu, mut wall) = (0, cpu_time(), Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = current.load(Ordering::Relaxed);
            if now != last {
                (last, cpu, wall) = (now, cpu_time(), Instant::now());
            }
            let took = cpu_time().saturating_sub(cpu);
            if took > MOST_CPU {
                eprintln!("file {now} takes more than {MOST_CPU:?} of CPU time");
                std::process::abort();
            }
            if wall.elapsed() > MOST_WALL {
                eprintln!("file {now} is not done after {MOST_WALL:?}, with {took:?} of CPU time: it waits, or this machine is overloaded");
                std::process::abort();
            }
        }
    });
}

/// CPU time of this process, in the kernel's ticks of 10 ms (proc_pid_stat(5): utime and stime).
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("procfs");
    let after_name = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let ticks: u64 = after_name.skip(11).take(2).map(|ticks| ticks.parse::<u64>().expect("a number")).sum();
    Duration::from_millis(10 * ticks)
}

/// Most memory of this process so far, in KiB (proc_pid_status(5): VmHWM).
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix("kB"));
    peak.and_then(|kib| kib.trim().parse().ok()).expect("a number")
}

#[test]
fn changed_files_of_each_format_stay_within_memory_and_time() {
    let own = std::env::current_exe().expect("this program");
    let script = format!("ulimit -d {MOST_KIB}; exec \"$@\"");
    let clock = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    let seed = std::env::var(SEED).unwrap_or_else(|_| (clock.as_secs() % SEEDS).to_string());
    println!("{SEED}={seed}");
    let fails = |format: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).arg(&own);
        command
            .args(["--exact", "structure::the_process_of_one_format", "--nocapture"])
            .env(FORMAT, format)
            .env(SEED, &seed);
        let last = tempfile::NamedTempFile::new().expect("a temporary file");
        command.env(LAST, last.path());
        let begun = Instant::now();
        let output = command.stdin(Stdio::null()).output().expect("sh");
        let said = String::from_utf8_lossy(&output.stdout);
        let figures = said.lines().find(|line| line.contains(" files of ")).unwrap_or(format);
        println!("{figures}, {:.1} s in all", begun.elapsed().as_secs_f64());
        let error = String::from_utf8_lossy(&output.stderr);
        let tail: String = error.lines().rev().take(12).map(|line| format!("{line}\n")).collect();
        let whole = output.status.success() && said.contains(&format!("files of {format}"));
        let last = std::fs::read_to_string(last.path()).unwrap_or_default();
        let last = last.trim();
        (!whole).then(|| format!("{format}: {} at LATHUNT_MUTATION={last}: {tail}", output.status))
    };
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(format) = FORMATS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = fails(format);
                    failed.lock().expect("no thread panics with it").extend(found);
                }
            });
        }
    });
    let failed = failed.into_inner().expect("no thread panicked");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

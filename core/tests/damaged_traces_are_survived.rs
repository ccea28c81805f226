//! Every decoder against every kind of damage: cut off at any byte, and bits changed at random (but the same ones in
//! each run). A decoder may refuse a file or report damage; it may not panic, hang, or take memory without measure.

#[path = "damaged/open.rs"]
mod open;
#[path = "damaged/structure.rs"]
mod structure;

use std::sync::atomic::{AtomicUsize, Ordering};

use lathunt_core::trace::ctf::{Ctf, TraceFiles};
use lathunt_core::trace::perf_data::{plain, PerfData};
use lathunt_core::trace::trace_dat::TraceDat;

use open::{ctf, flight, perf_data, text, trace_dat, walk, Met, WALKED};

/// A fixture: how it is opened from its parts, and the parts.
struct Case {
    name: &'static str,
    open: fn(&[Vec<u8>]) -> Option<Met>,
    parts: Vec<Vec<u8>>,
}

macro_rules! case {
    ($name:literal, $open:expr, $($file:literal),*) => {
        Case { name: $name, open: $open, parts: vec![$(include_bytes!(concat!("data/", $file)).to_vec()),*] }
    };
}

const KALLSYMS: &[u8] =
    b"ffffffff81000000 T _stext\nffffffff81001000 T hrtimer_wakeup\nffffffff81002000 t tick [virtio]\n";

fn cases() -> Vec<Case> {
    vec![
        case!("v7_zstd", trace_dat, "trace_dat/v7_zstd.dat"),
        case!("v7_offset", trace_dat, "trace_dat/v7_offset.dat"),
        case!("v7_lost", trace_dat, "trace_dat/v7_lost.dat"),
        case!("v6_two_buffers", trace_dat, "trace_dat/v6_two_buffers.dat"),
        case!("v6_big_pages", trace_dat, "trace_dat/v6_big_pages.dat"),
        case!("little", ctf, "ctf/little/metadata", "ctf/little/channel_0", "ctf/little/channel_1"),
        case!("big", ctf, "ctf/big/metadata", "ctf/big/stream"),
        case!("perf", perf_data, "perf_data/small.data"),
        case!("packed", perf_data, "perf_data/packed.data"),
        case!("piped", perf_data, "perf_data/piped.data"),
        Case {
            name: "flight",
            open: flight,
            parts: vec![include_bytes!("data/flight/small.bin").to_vec(), KALLSYMS.to_vec()],
        },
        case!("report", text, "trace_dat/v7_zstd.text"),
        case!("tracefs", text, "ftrace_text/tracefs.txt"),
    ]
}

/// xorshift64*: the same numbers in each run.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % below.max(1)
    }
}

/// Changes a few bytes: flips, extreme numbers, pieces copied elsewhere.
fn mutate(bytes: &mut [u8], numbers: &mut Numbers) {
    for _ in 0..1 + numbers.next(4) {
        // Half of the changes go where sizes and offsets are: to the beginning.
        let within = if numbers.next(2) == 0 { bytes.len().min(512) } else { bytes.len() };
        let at = numbers.next(within);
        match numbers.next(4) {
            0 => bytes[at] ^= 1 << numbers.next(8),
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][numbers.next(5)],
            2 => bytes[at..].iter_mut().take(4).for_each(|byte| *byte = 0xff),
            _ => {
                let from = numbers.next(bytes.len());
                let len = numbers.next(16).min(bytes.len() - from.max(at));
                bytes.copy_within(from..from + len, at);
            }
        }
    }
}

/// `total` changes or more: the smaller a fixture, and so the faster, the more of them.
fn mutations(total: usize) {
    let size = |case: &Case| case.parts.iter().map(Vec::len).sum::<usize>();
    let weights: f64 = cases().iter().map(|case| 1.0 / size(case) as f64).sum();
    let done: usize = on_all_cores(|case| {
        let count = (total as f64 / weights / size(case) as f64).ceil() as usize;
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
        for _ in 0..count {
            let mut parts = case.parts.clone();
            let part = numbers.next(parts.len());
            mutate(&mut parts[part], &mut numbers);
            let _ = (case.open)(&parts);
        }
        count
    });
    assert!(done >= total, "{done}");
}

/// The sum of `work` over all cases; each core takes the next pending one.
fn on_all_cores(work: impl Fn(&Case) -> usize + Sync) -> usize {
    let cases = cases();
    let next = AtomicUsize::new(0);
    let take = || {
        let mine = std::iter::from_fn(|| cases.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.inspect(|_| WALKED.set(0)).map(&work).sum::<usize>()
    };
    std::thread::scope(|threads| {
        let others: Vec<_> = (1..4).map(|_| threads.spawn(take)).collect();
        take() + others.into_iter().map(|other| other.join().expect("no panic")).sum::<usize>()
    })
}

/// Cuts every `step`th byte; a file cut anywhere but between two packets says so, or has all its events.
fn truncations(step: usize) {
    on_all_cores(|case| truncated(case, step));
}

fn truncated(case: &Case, step: usize) -> usize {
    let whole = (case.open)(&case.parts).expect("a fixture opens");
    assert!(whole.events > 0 && whole.damage == 0, "{}: {whole:?}", case.name);
    // A text that ends early is a text, and so is a stream that ends between two records
    // (perf_data_equals_perf_script cuts it, too).
    let may_be_silent = matches!(case.name, "report" | "tracefs" | "piped");
    let mut cuts = 0;
    for part in 0..case.parts.len() {
        if (case.name, part) == ("flight", 1) {
            continue; // fewer symbols are no damage
        }
        // Unpacking takes its time, and so does reading a large file as often as it has bytes.
        let step = if case.parts[part].len() > 40_000 { 16 * step } else { step };
        let mut silent = Vec::new();
        for len in (0..case.parts[part].len()).step_by(step) {
            let mut parts = case.parts.clone();
            parts[part].truncate(len);
            cuts += 1;
            // The last packet or page may end with padding, and an empty stream file is no damage.
            if let Some(met) = (case.open)(&parts)
                && met.damage == 0
                && met.events < whole.events
                && len > 0
            {
                silent.push((len, met));
            }
        }
        // Nothing tells of whole packets that are missing at the end; none is smaller than a page.
        let packets = case.parts[part].len() / 4096;
        assert!(silent.len() <= packets || may_be_silent, "{} cut: {silent:?} of {whole:?}", case.name);
    }
    cuts
}

#[test]
fn files_cut_off_every_few_bytes_are_refused_or_reported() {
    truncations(13);
}

#[test]
fn a_hundred_thousand_changes_never_panic_hang_or_fill_the_memory() {
    mutations(100_000);
}

#[test]
#[ignore = "every byte: run with --include-ignored"]
fn files_cut_off_at_every_byte_are_refused_or_reported() {
    truncations(1);
}

#[test]
fn empty_and_foreign_files_are_refused_in_one_line() {
    for bytes in [&b""[..], b"\x7fELF", b"\x17\x08\x44tracing", b"PERFILE2", b"/* CTF 1.8 */", &[0; 4096]] {
        let errors = [
            TraceDat::open(bytes).err().map(|error| error.to_string()),
            PerfData::open(bytes).err().map(|error| error.to_string()),
            Ctf::open(&[TraceFiles { metadata: bytes, ..TraceFiles::default() }])
                .err()
                .map(|e| e.to_string()),
        ];
        for error in errors {
            let error = error.expect("not a trace");
            assert!(!error.is_empty() && !error.contains('\n'), "{error}");
        }
    }
}

/// A perf.data with its attributes and data where `sections` (offset and size of each) say.
fn perf_header(size: u64, attribute: u64, sections: [u64; 4]) -> Vec<u8> {
    let mut file = b"PERFILE2".to_vec();
    for word in [size, attribute].into_iter().chain(sections).chain([0; 6]) {
        file.extend_from_slice(&word.to_le_bytes());
    }
    assert_eq!(file.len(), 104);
    file
}

#[test]
fn a_compressed_record_inside_the_header_is_refused() {
    let mut file = perf_header(104, 80, [104, 80, 8, 300]);
    file[8..16].copy_from_slice(&(u64::from(81u32) | 16 << 48).to_le_bytes());
    file.resize(400, 0);
    let error = plain(&file).unwrap_err().to_string();
    assert!(error.contains("inside the header"), "{error}");
}

#[test]
fn attributes_with_more_ids_than_the_file_has_bytes_are_refused() {
    let (attributes, size) = (1_000, 80u64);
    let mut file = perf_header(104, size, [104, attributes * size, 104, 0]);
    for _ in 0..attributes {
        file.extend_from_slice(&[0; 64]);
        file.extend_from_slice(&0u64.to_le_bytes());
        file.extend_from_slice(&(104 + attributes * size).to_le_bytes());
    }
    let error = PerfData::open(&file).unwrap_err().to_string();
    assert!(error.contains("ids"), "{error}");
}

#[test]
fn pages_whose_data_begin_beyond_any_page_are_damage() {
    let mut file = include_bytes!("data/trace_dat/v6_two_buffers.dat").to_vec();
    file[14..18].copy_from_slice(&[0; 4]); // the size of a page
    let header = file.windows(12).position(|part| part == b"header_page\0").unwrap();
    let size = u64::from_le_bytes(file[header + 12..header + 20].try_into().unwrap()) as usize;
    let text = String::from_utf8(file[header + 20..header + 20 + size].to_vec()).unwrap();
    let hostile = text.replace("char data;\toffset:16;", "char data;\toffset:4294967292;");
    assert_ne!(hostile, text);
    file[header + 12..header + 20].copy_from_slice(&(hostile.len() as u64).to_le_bytes());
    file.splice(header + 20..header + 20 + size, hostile.bytes());
    match TraceDat::open(&file) {
        Ok(trace) => assert!(walk(&trace, file.len()).damage > 0),
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
}

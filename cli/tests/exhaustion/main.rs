//! Small files that claim to hold much: each is read or refused with 300 MB of memory and five seconds of CPU, enforced by the
//! kernel (RLIMIT_DATA, RLIMIT_CPU). The files are made here, each against one limit of a decoder.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

mod checks;
mod ctf;
mod limits;
mod runs;
mod texts;

const MIB: usize = 1 << 20;
/// Of `ulimit -d`.
const MOST_KIB: u32 = 300_000;
const MOST_CPU_S: u32 = 5;

/// Runs lathunt within the limits. Ended by a signal: it took too much.
fn limited(arguments: &[&str], directory: &Path) -> Output {
    let script = format!("ulimit -d {MOST_KIB}; ulimit -t {MOST_CPU_S}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_lathunt")]);
    let output = command.args(arguments).current_dir(directory).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0..=3)), "{arguments:?}: {} {said}", output.status);
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    output
}

/// Directory in which the hostile files are kept, for other programs to read them, too.
const KEEP: &str = "LATHUNT_KEEP_HOSTILE";

fn keep(name: &str, bytes: &[u8]) {
    if let Some(directory) = std::env::var_os(KEEP) {
        let thread = std::thread::current();
        let file = format!("{}.{name}", thread.name().unwrap_or("test"));
        fs::write(Path::new(&directory).join(file), bytes).unwrap();
    }
}

/// What `explain` prints of a file with these bytes.
fn explained(bytes: &[u8]) -> String {
    keep(if bytes.starts_with(b"PERF") { "data" } else { "dat" }, bytes);
    let place = tempfile::tempdir().unwrap();
    fs::write(place.path().join("trace"), bytes).unwrap();
    let mut all = String::new();
    for question in ["--summary", "--wakeups"] {
        let output = limited(&["explain", "trace", question], place.path());
        all += &String::from_utf8_lossy(&output.stdout);
        all += &String::from_utf8_lossy(&output.stderr);
    }
    all
}

fn put(bytes: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
}

fn sized(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// zstd of `bytes`, as dense as it gets.
fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 19).unwrap()
}

const WAKING: &str = "name: sched_waking\nID: 300\nformat:\n\
    \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
    \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\
    \tfield:char comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
    \tfield:pid_t pid;\toffset:24;\tsize:4;\tsigned:1;\n\
    \tfield:int prio;\toffset:28;\tsize:4;\tsigned:1;\n\
    \tfield:int target_cpu;\toffset:32;\tsize:4;\tsigned:1;\n";

/// A page of the ring buffer, full of wake-ups at one moment.
fn page() -> Vec<u8> {
    let mut event = 9u32.to_le_bytes().to_vec(); // 36 bytes, no time after the one before
    put(&mut event, &[&300u16.to_le_bytes(), &[0; 2], &7i32.to_le_bytes(), b"hog\0\0\0\0\0\0\0\0\0\0\0\0\0"]);
    put(&mut event, &[&8i32.to_le_bytes(), &120i32.to_le_bytes(), &0i32.to_le_bytes()]);
    let events = (4096 - 16) / event.len();
    let mut page = 1_000_000_000u64.to_le_bytes().to_vec();
    page.extend(((events * event.len()) as u64).to_le_bytes());
    page.extend(event.repeat(events));
    page.resize(4096, 0);
    page
}

/// A trace.dat of version 7, section by section.
struct Dat {
    bytes: Vec<u8>,
    options: Vec<u8>,
}

impl Dat {
    fn new() -> Dat {
        let mut bytes = b"\x17\x08\x44tracing7\0\0\x08".to_vec();
        put(&mut bytes, &[&4096u32.to_le_bytes(), b"zstd\0", b"1.5\0", &[0; 8]]);
        let mut dat = Dat { bytes, options: Vec::new() };
        let mut formats = 1u32.to_le_bytes().to_vec();
        put(&mut formats, &[b"sched\0", &1u32.to_le_bytes(), &sized(WAKING)]);
        dat.pointed_at(18, &formats);
        dat
    }

    /// A section; where it is.
    fn section(&mut self, id: u16, flags: u16, body: &[u8]) -> u64 {
        let at = self.bytes.len() as u64;
        put(&mut self.bytes, &[&id.to_le_bytes(), &flags.to_le_bytes(), &[0; 4]]);
        put(&mut self.bytes, &[&(body.len() as u64).to_le_bytes(), body]);
        at
    }

    /// A compressed one of which an option says where it is.
    fn pointed_at(&mut self, id: u16, body: &[u8]) {
        let at = self.compressed(id, body);
        self.option(id, &at.to_le_bytes());
    }

    fn compressed(&mut self, id: u16, body: &[u8]) -> u64 {
        let packed = packed(body);
        let sizes = [(packed.len() as u32).to_le_bytes(), (body.len() as u32).to_le_bytes()].concat();
        self.section(id, 1, &[sizes, packed].concat())
    }

    fn option(&mut self, id: u16, body: &[u8]) {
        put(&mut self.options, &[&id.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body]);
    }

    /// A buffer of CPUs, each with its part of the file.
    fn buffer(&mut self, compressed: bool, cpus: &[(u64, u64)]) {
        let at = self.section(3, u16::from(compressed), &[]);
        let mut body = at.to_le_bytes().to_vec();
        put(&mut body, &[b"\0mono\0", &4096u32.to_le_bytes(), &(cpus.len() as u32).to_le_bytes()]);
        for (cpu, (offset, size)) in cpus.iter().enumerate() {
            put(&mut body, &[&(cpu as u32).to_le_bytes(), &offset.to_le_bytes(), &size.to_le_bytes()]);
        }
        self.option(3, &body);
    }

    /// Chunks of pages; where they are and how long.
    fn chunks(&mut self, chunks: &[(Vec<u8>, usize)]) -> (u64, u64) {
        let at = self.bytes.len() as u64;
        self.bytes.extend((chunks.len() as u32).to_le_bytes());
        for (packed, unpacked) in chunks {
            put(
                &mut self.bytes,
                &[&(packed.len() as u32).to_le_bytes(), &(*unpacked as u32).to_le_bytes(), packed],
            );
        }
        (at, self.bytes.len() as u64 - at - 4)
    }

    /// With the options at the end, followed by those at `next`.
    fn finish(mut self) -> Vec<u8> {
        self.option(0, &[0; 8]);
        let options = std::mem::take(&mut self.options);
        let at =
            if options.len() > 4096 { self.compressed(0, &options) } else { self.section(0, 0, &options) };
        self.bytes[27..35].copy_from_slice(&at.to_le_bytes());
        self.bytes
    }
}

#[test]
fn an_honest_trace_of_this_making_is_read() {
    let mut dat = Dat::new();
    let pages = page().repeat(16);
    let cpu = dat.chunks(&[(packed(&pages), pages.len())]);
    dat.buffer(true, &[cpu]);
    let said = explained(&dat.finish());
    assert!(said.contains(&format!("{} events", 16 * 102)) && !said.contains("damage"), "{said}");
}

#[test]
fn descriptions_that_decompress_to_gigabytes_are_refused_with_their_size() {
    // A frame of runs: 128 KiB from four bytes each.
    let blocks = 32 * 1024 - 1;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1000_0000, 0x38];
    frame.extend((blocks as u32 * (128 << 10)).to_le_bytes());
    for block in 0..blocks {
        let header = (128u32 << 10) << 3 | 1 << 1 | u32::from(block == blocks - 1);
        put(&mut frame, &[&header.to_le_bytes()[..3], b"\n"]);
    }
    let mut dat = Dat::new();
    let sizes = [(frame.len() as u32).to_le_bytes(), (blocks as u32 * (128 << 10)).to_le_bytes()].concat();
    let at = dat.section(19, 1, &[sizes, frame].concat());
    dat.option(19, &at.to_le_bytes());
    let pages = page();
    let cpu = dat.chunks(&[(packed(&pages), pages.len())]);
    dat.buffer(true, &[cpu]);
    let said = explained(&dat.finish());
    assert!(said.contains("102 events") && said.contains("no trace has over 64 MiB"), "{said}");
}

#[test]
fn a_chunk_of_many_pieces_is_not_decompressed_for_each_of_them() {
    let pages = page().repeat(48 * MIB / 4096);
    let chunk = packed(&pages);
    let mut dat = Dat::new();
    let cpu = dat.chunks(&[(chunk.clone(), pages.len())]);
    dat.buffer(true, &[cpu]);
    let small = dat.finish();
    assert!(small.len() < 28 * 1024, "{}", small.len());
    let _ = explained(&small);
    let mut dat = Dat::new();
    let cpu = dat.chunks(&vec![(chunk, pages.len()); 12]);
    dat.buffer(true, &[cpu]);
    let said = explained(&dat.finish());
    assert!(said.contains("decompress to more than 256 times the file"), "{said}");
}

#[test]
fn a_part_of_the_file_is_read_for_one_cpu_only() {
    let mut dat = Dat::new();
    let (at, pages) = (dat.bytes.len() as u64, page().repeat(8));
    dat.bytes.extend(&pages);
    dat.buffer(false, &vec![(at, pages.len() as u64); 50_000]);
    let said = explained(&dat.finish());
    assert!(said.contains("overlap those of other CPUs"), "{said}");
}

#[test]
fn options_that_follow_themselves_are_read_up_to_a_limit() {
    let mut dat = Dat::new();
    dat.option(10, &vec![b'x'; 8 * MIB]);
    let at = dat.bytes.len() as u64;
    dat.option(0, &at.to_le_bytes());
    let options = std::mem::take(&mut dat.options);
    dat.compressed(0, &options);
    dat.bytes[27..35].copy_from_slice(&at.to_le_bytes());
    let said = explained(&dat.bytes);
    assert!(said.contains("no trace has over 64 MiB") || said.contains("no buffer"), "{said}");
}

#[test]
fn as_many_streams_as_events_take_no_longer_than_one() {
    let mut metadata = String::from("/* CTF 1.8 */\ntypealias integer { size = 32; align = 8; signed = false; byte_order = le; } := u32;\n");
    metadata += "typealias integer { size = 64; align = 8; signed = false; byte_order = le; map = clock.mono.value; } := t64;\n";
    metadata += "trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u32 stream_instance_id; }; };\n";
    metadata += "clock { name = mono; freq = 1000000000; };\n";
    metadata += "stream { packet.context := struct { u32 packet_size; u32 content_size; u32 cpu_id; }; event.header := struct { t64 timestamp; }; };\n";
    metadata += "event { name = \"a\"; fields := struct { u32 x; }; };\n";
    let streams = 40_000u32;
    let mut bytes = Vec::new();
    for instance in 0..streams {
        put(&mut bytes, &[&0xc1fc_1fc1u32.to_le_bytes(), &instance.to_le_bytes()]);
        let bits = (20 + 3 * 12) * 8u32;
        put(&mut bytes, &[&bits.to_le_bytes(), &bits.to_le_bytes(), &0u32.to_le_bytes()]);
        for event in 0..3u64 {
            let at = 1_000_000_000 + event * 1_000_000 + u64::from(instance);
            put(&mut bytes, &[&at.to_le_bytes(), &event.to_le_bytes()[..4]]);
        }
    }
    let place = tempfile::tempdir().unwrap();
    keep("metadata", metadata.as_bytes());
    keep("stream", &bytes);
    fs::write(place.path().join("metadata"), metadata).unwrap();
    fs::write(place.path().join("stream"), bytes).unwrap();
    let output = limited(&["explain", ".", "--summary"], place.path());
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("120000 events"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

/// A perf.data as `perf record -z` writes it, with one record many times over.
#[test]
fn compressed_records_of_a_perf_data_unfold_up_to_a_limit() {
    let plain = include_bytes!("../../../core/tests/data/perf_data/small.data");
    let word = |at: usize| u64::from_le_bytes(plain[at..at + 8].try_into().unwrap()) as usize;
    let (offset, size) = (word(40), word(48));
    let mut record = Vec::new();
    let mut at = offset;
    while at < offset + size {
        let length = u16::from_le_bytes([plain[at + 6], plain[at + 7]]) as usize;
        if plain[at] == 9 {
            record = plain[at..at + length].to_vec();
        }
        at += length;
    }
    assert_eq!(record.first(), Some(&9), "a sample");
    let stream = packed(&record.repeat(256 * MIB / record.len()));
    let mut records = Vec::new();
    for piece in stream.chunks(60_000) {
        put(&mut records, &[&81u32.to_le_bytes(), &[0; 2], &(piece.len() as u16 + 8).to_le_bytes(), piece]);
    }
    let behind = &plain[offset + size..];
    let moved = |at: usize| (at + records.len()).wrapping_sub(size);
    let mut bytes = [&plain[..offset], &records, behind].concat();
    bytes[48..56].copy_from_slice(&(records.len() as u64).to_le_bytes());
    let features: u32 = plain[72..104].iter().map(|byte| byte.count_ones()).sum();
    for section in 0..features as usize {
        let place = offset + records.len() + 16 * section;
        let old = u64::from_le_bytes(bytes[place..place + 8].try_into().unwrap()) as usize;
        bytes[place..place + 8].copy_from_slice(&(moved(old) as u64).to_le_bytes());
    }
    let said = explained(&bytes);
    assert!(said.contains("unfolds to more than"), "{} bytes: {said}", bytes.len());
}

fn imported(text: &str, directory: &Path) -> Output {
    fs::write(directory.join("text"), text).unwrap();
    limited(&["import", "text", "-o", "run.json", "--force"], directory)
}

#[test]
fn a_thread_that_no_machine_has_takes_no_memory_for_those_before_it() {
    let place = tempfile::tempdir().unwrap();
    let line = |thread: u32| {
        format!(
            "T:{thread} (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      {}\n",
            10 + thread % 80
        )
    };
    let output = imported(&line(65_535), place.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no cyclictest has more than 8192 threads"));
    assert_eq!(imported(&line(8_191), place.path()).status.code(), Some(0));
    // Rows far apart in many threads: classes for each of them would fill the memory.
    let threads: Vec<String> = (0..300)
        .map(|n| format!("\"{n}\": {{\"histogram\": {{\"1\": 5, \"1000000\": 1}}, \"cycles\": 6, \"min\": 1, \"max\": 1000000, \"avg\": 2.0}}"))
        .collect();
    let json =
        format!("{{\"resolution_in_ns\": 0, \"num_threads\": 300, \"thread\": {{{}}}}}", threads.join(","));
    assert_eq!(imported(&json, place.path()).status.code(), Some(0));
    let run = fs::read_to_string(place.path().join("run.json")).unwrap();
    assert!(run.matches("1000000000").count() >= 300, "the largest value of each thread is kept");
    let report = limited(&["report", "run.json"], place.path());
    assert_eq!(report.status.code(), Some(0), "{}", String::from_utf8_lossy(&report.stderr));
}

/// Runs lathunt there with at most `kib` KiB of memory of its own; a file that is mapped does not count.
fn succeeds_within(kib: u32, arguments: &[&str], directory: &Path) {
    let script = format!("ulimit -d {kib}; exec \"$@\"");
    let mut command = Command::new("sh");
    command.args(["-c", &script, "sh", env!("CARGO_BIN_EXE_lathunt")]).args(arguments);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_large_text_is_not_held_in_memory_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let mut text = String::with_capacity(170 * MIB);
    while text.len() < 160 * MIB {
        text += "T: 0 (  100) P:80 I:1000 C:   1000 Min:      1 Act:    2 Avg:    2 Max:      10\n";
        text.extend(std::iter::repeat_n("# a line of a log that wraps the output of cyclictest\n", 100));
    }
    fs::write(place.path().join("text"), &text).unwrap();
    succeeds_within(60_000, &["import", "text", "-o", "run.json"], place.path());
}

#[test]
fn a_large_text_of_events_is_not_held_in_memory_as_a_whole() {
    let place = tempfile::tempdir().unwrap();
    let mut text = String::with_capacity(85 * MIB);
    for n in 0..250_000 {
        let (seconds, us) = (n / 10_000, n % 10_000 * 100);
        text += &format!(
            "  a-1  [000] d.h2. {seconds}.{us:06}: sched_waking: comm=b pid=2 prio=19 target_cpu=000\n"
        );
        text += &format!("  a-1  [000] d..2. {seconds}.{:06}: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=R ==> next_comm=b next_pid=2 next_prio=19\n", us + 20);
        text += &format!("  b-2  [000] d..2. {seconds}.{:06}: sched_switch: prev_comm=b prev_pid=2 prev_prio=19 prev_state=S ==> next_comm=a next_pid=1 next_prio=120\n", us + 50);
    }
    fs::write(place.path().join("text"), &text).unwrap();
    for question in ["--summary", "--wakeups"] {
        succeeds_within(60_000, &["explain", "text", question], place.path());
    }
}

/// The times of a trace that is otherwise whole: `explain` claims no span of centuries.
#[test]
fn a_time_that_no_clock_shows_is_damage_and_no_span() {
    let line = |at: &str| format!("  a-1  [000]  {at}: sched_waking: comm=b pid=2 prio=120 target_cpu=000\n");
    let text = [line("1.000001"), line("18446744073.709551"), line("1.000002")].concat();
    let mut dat = Dat::new();
    let (at, mut pages) = (dat.bytes.len() as u64, page().repeat(2));
    pages[4096..4104].fill(0xff);
    dat.bytes.extend(&pages);
    dat.buffer(false, &[(at, pages.len() as u64)]);
    let flight = {
        let mut bytes = include_bytes!("../../../core/tests/data/flight/small.bin").to_vec();
        bytes[128 + 48 * 4..][..8].fill(0xff);
        bytes
    };
    for (bytes, events) in [(text.into_bytes(), "2 events"), (dat.finish(), "102 events"), (flight, "events")]
    {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("trace"), bytes).unwrap();
        let output = limited(&["explain", "trace", "--summary"], place.path());
        let said = String::from_utf8_lossy(&output.stdout);
        let first = said.lines().next().unwrap_or_default();
        let seconds = first.split(" in ").nth(1).and_then(|span| span.split(' ').next()?.parse::<f64>().ok());
        assert!(first.contains(events) && seconds.is_none_or(|span| span < 1e6), "{said}");
        assert!(said.contains("damaged") || said.contains("lost"), "{said}");
    }
}

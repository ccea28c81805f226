//! Programs whose memory claims what it does not hold: the consumer reads no more than there is, and goes on with the others.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lathunt_core::trace::user_ring::{
    control, ring, CONTROL_BYTES, DECLARATIONS_AT, MAGIC, RINGS_MAX, RING_HEADER_BYTES, RING_TABLE_AT,
    VERSION,
};
use lathunt_host::channel::consumer::{snapshot_all, Consumer};
use lathunt_host::channel::place::Place;
use lathunt_host::channel::session::Session;
use lathunt_host::trusted::me;

const DECLARATION: &[u8] = b"event 0 a:b\nfield u64 n\nend\n";
/// Debug builds are slow, and other tests run at the same time; without the limits, minutes and hours.
const PATIENCE: Duration = Duration::from_secs(20);

struct Fake {
    file: File,
    packet_words: usize,
}

impl Fake {
    /// A program with `rings` rings that are all the same memory.
    fn new(base: &Path, name: &str, rings: usize, packets: usize, packet_words: usize) -> Fake {
        let directory = base.join(format!("lathunt-{}", me()));
        fs::create_dir_all(&directory).unwrap();
        let file =
            File::options().create(true).truncate(true).read(true).write(true).open(directory.join(name));
        let fake = Fake { file: file.unwrap(), packet_words };
        let bytes = RING_HEADER_BYTES + packets * packet_words * 8;
        fake.file.set_len((CONTROL_BYTES + bytes).next_multiple_of(4096) as u64).unwrap();
        fake.put(control::VERSION, VERSION);
        fake.put(control::PID, u64::from(std::process::id()));
        fake.put(control::TICK_Q32, 1 << 32);
        fake.file.write_all_at(DECLARATION, DECLARATIONS_AT as u64).unwrap();
        fake.put(control::DECLARED_BYTES, DECLARATION.len() as u64);
        (0..rings).for_each(|ring| fake.put(RING_TABLE_AT + ring * 8, CONTROL_BYTES as u64));
        fake.put(control::RINGS, rings as u64);
        fake.ring(ring::PACKET_WORDS, packet_words as u64);
        fake.ring(ring::PACKET_MASK, packets as u64 - 1);
        fake.ring(ring::BYTES, bytes as u64);
        fake.put(control::MAGIC, MAGIC);
        fake
    }

    fn put(&self, at: usize, value: u64) {
        self.file.write_all_at(&value.to_le_bytes(), at as u64).unwrap();
    }

    fn ring(&self, at: usize, value: u64) {
        self.put(CONTROL_BYTES + at, value);
    }

    /// Its first packet, closed, with one event.
    fn event(&self) {
        let packet = CONTROL_BYTES + RING_HEADER_BYTES;
        self.put(packet + 48, 1 << 32 | 14);
        self.put(packet + 96, 16 << 16);
        self.ring(ring::COMMITTED, 1 << 16 | 14);
        self.ring(ring::RESERVE, 1 << 16 | 14);
        assert!(self.packet_words >= 14);
    }

    /// As long as this lives, the program is alive.
    fn lives(self) -> Fake {
        // SAFETY: all-zero is a valid flock, and outlives the call.
        let locked = unsafe {
            let mut whole: libc::flock = std::mem::zeroed();
            whole.l_type = libc::F_WRLCK as libc::c_short;
            libc::fcntl(std::os::fd::AsRawFd::as_raw_fd(&self.file), libc::F_OFD_SETLK, &whole)
        };
        assert_eq!(locked, 0);
        self
    }
}

fn start(base: &Path) -> (Consumer, PathBuf) {
    let output = base.join("out");
    let consumer = Consumer::start(Place::new(base.to_owned()), Session::new(output.clone())).unwrap();
    (consumer, output)
}

/// Events of the honest program `2-1-0` that come into the trace next to the others, within the patience.
fn recorded(base: &Path) -> u64 {
    let honest = Fake::new(base, "2-1-0", 1, 2, 14).lives();
    honest.event();
    let begun = Instant::now();
    let (mut consumer, _) = start(base);
    (0..3).for_each(|_| consumer.poll());
    let recorded = consumer.status().tally.recorded;
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
    drop(consumer.finish());
    assert!(begun.elapsed() < PATIENCE, "the end took {:?}", begun.elapsed());
    recorded
}

#[test]
fn packets_that_a_program_claims_and_its_ring_cannot_hold_are_not_looked_for() {
    let place = tempfile::tempdir().unwrap();
    let fake = Fake::new(place.path(), "1-1-0", 1, 2, 65_000).lives();
    fake.ring(ring::COMMITTED, 0x7fff_ffff << 32 | 12);
    assert!(recorded(place.path()) >= 1);
}

#[test]
fn memory_that_a_program_names_thousands_of_times_is_not_read_as_often() {
    let place = tempfile::tempdir().unwrap();
    let fake = Fake::new(place.path(), "1-1-0", RINGS_MAX, 1 << 12, 512).lives(); // 16 MiB of holes, which it claims to be 64 GiB
    fake.ring(ring::COMMITTED, 0xfff << 32 | 12);
    assert!(recorded(place.path()) >= 1);
    let begun = Instant::now();
    let session = Session::new(place.path().join("snapshots"));
    snapshot_all(&Place::new(place.path().to_owned()), &session).unwrap();
    assert!(begun.elapsed() < PATIENCE, "{:?}", begun.elapsed());
}

#[test]
fn memory_that_vanishes_while_it_is_read_ends_no_consumer() {
    let place = tempfile::tempdir().unwrap();
    // Of each packet one page is looked at: the pages that are replaced are not next to each other.
    let fake = Fake::new(place.path(), "1-1-0", 1, 1 << 17, 1_024).lives();
    fake.ring(ring::COMMITTED, 0x1_ffff << 32 | 12);
    let honest = Fake::new(place.path(), "2-1-0", 1, 2, 14).lives();
    honest.event();
    let (mut consumer, _) = start(place.path());
    fake.file.set_len((CONTROL_BYTES + 4096) as u64).unwrap();
    (0..3).for_each(|_| consumer.poll());
    assert_eq!(consumer.status().tally.recorded, 1);
    drop(consumer.finish());
}

#[test]
fn records_that_a_program_claims_to_have_begun_are_not_looked_for_without_end() {
    let place = tempfile::tempdir().unwrap();
    let fake = Fake::new(place.path(), "1-1-0", RINGS_MAX, 1 << 20, 14).lives();
    fake.ring(ring::RESERVE, 0xf_ffff << 32 | 12);
    fake.ring(ring::COMMITTED, 12);
    assert!(recorded(place.path()) >= 1);
}

#[test]
fn a_program_whose_stream_cannot_be_written_keeps_no_other_from_being_recorded() {
    let place = tempfile::tempdir().unwrap();
    let first = Fake::new(place.path(), "1-1-0", 1, 2, 14).lives();
    first.event();
    let honest = Fake::new(place.path(), "2-1-0", 1, 2, 14).lives();
    let (mut consumer, output) = start(place.path());
    let directory = fs::read_dir(&output).unwrap().flatten().find(|entry| entry.path().is_dir());
    assert!(directory.is_none(), "nothing is written yet");
    fs::write(output.join("-1-1-0"), "in the way of the directory").unwrap();
    consumer.poll();
    assert!(consumer.status().problem.is_some());
    honest.event();
    consumer.poll();
    assert_eq!(consumer.status().tally.recorded, 1);
    assert!(consumer.status().problem.is_some(), "the success of one hides no failure of another");
    assert!(consumer.finish().is_err());
}

#[test]
fn programs_beyond_the_limit_of_a_user_are_not_read_and_named() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join(format!("lathunt-{}", me()));
    fs::create_dir_all(&directory).unwrap();
    (0..3_000).for_each(|n| drop(File::create(directory.join(format!("9-{n}-0"))).unwrap()));
    let (consumer, _) = start(place.path());
    let problem = consumer.status().problem.unwrap();
    assert!(problem.contains("more than 2048 programs"), "{problem}");
}

#[test]
fn losses_that_a_program_claims_do_not_add_up_to_none() {
    let place = tempfile::tempdir().unwrap();
    let first = Fake::new(place.path(), "1-1-0", 1, 2, 14).lives();
    let second = Fake::new(place.path(), "2-1-0", 1, 2, 14).lives();
    first.ring(ring::DISCARDED, u64::MAX);
    second.ring(ring::DISCARDED, 1);
    let (mut consumer, _) = start(place.path());
    consumer.poll();
    assert_eq!(consumer.status().tally.missing(), u64::MAX);
}

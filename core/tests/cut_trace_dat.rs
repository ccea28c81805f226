//! A trace.dat of version 7 with a missing end or unreadable pages: the rest is read, and missing time is not
//! attributed.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::fs;
use std::path::Path;

use lathunt_core::explain::cpu::Context;
use lathunt_core::explain::intervals::{find, Question, Whose};
use lathunt_core::explain::load::window;
use lathunt_core::explain::record::Record;
use lathunt_core::explain::summary::summarize;
use lathunt_core::time::{Cpu, Mono};
use lathunt_core::trace::item::{Item, Loss, Span};
use lathunt_core::trace::source::Source;
use lathunt_core::trace::trace_dat::TraceDat;

fn recording() -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/cases/munmap_ipi.dat")).unwrap()
}

/// The events of each CPU by their time and class.
type Cpus = [Vec<(Mono, u32)>; 2];

/// The events, the losses, and how often damage was met.
fn read(source: &dyn Source) -> (Cpus, Vec<Loss>, usize) {
    let (mut cpus, mut losses, mut damage) =
        ([Vec::new(), Vec::new()], Vec::new(), source.info().damage.len());
    let mut walk = source.events(Span::ALL);
    while let Some(item) = walk.next() {
        match item {
            Item::Event(record) => cpus[record.cpu.0 as usize].push((record.at, record.class)),
            Item::Lost(loss) => losses.push(loss),
            Item::Damage(_) => damage += 1,
        }
    }
    (cpus, losses, damage)
}

#[test]
fn a_file_cut_in_its_data_is_read_up_to_the_cut() {
    let file = recording();
    let (whole, losses, damage) = read(&TraceDat::open(&file).unwrap());
    assert!(losses.is_empty() && damage == 0 && whole.iter().all(|cpu| cpu.len() > 1000));
    let mut before = 0;
    for percent in [40, 60, 80, 95, 99] {
        let cut = &file[..file.len() * percent / 100];
        let (read, losses, damage) = read(&TraceDat::open(cut).unwrap());
        assert!(damage > 0, "{percent} %");
        let told = summarize(&TraceDat::open(cut).unwrap()).to_text();
        assert!(told.lines().all(|line| line.chars().count() <= 100) && told.contains("damaged"), "{told}");
        for (read, whole) in read.iter().zip(&whole) {
            assert_eq!(read[..], whole[..read.len()], "{percent} %: as much of the CPU's own events");
        }
        let events = read.iter().map(Vec::len).sum::<usize>();
        println!("cut at {percent} %: {events} of {} events", whole.iter().map(Vec::len).sum::<usize>());
        assert!(events >= before && events > 0, "{percent} %: {events}");
        before = events;
        // The CPU with a missing end reports it after its last readable event.
        let end = read.iter().flatten().map(|(at, _)| *at).max().unwrap();
        let shorter = (0..2).find(|&cpu| !read[cpu].is_empty() && read[cpu].len() < whole[cpu].len());
        if let Some(cpu) = shorter {
            let last = read[cpu].last().unwrap().0;
            let told = losses.iter().find(|loss| loss.cpu == Cpu(cpu as u32)).expect("a loss");
            assert_eq!((told.after, told.before), (Some(last), end), "{percent} %");
        }
    }
    assert!(before > 1000);
}

/// After a power failure, blocks that were not on disk read as zeros.
#[test]
fn blocks_of_zeros_are_damage_and_not_silence() {
    for name in ["v6_two_buffers", "v6_big_pages", "v7_offset", "v7_zstd"] {
        let path = format!("{}/tests/data/trace_dat/{name}.dat", env!("CARGO_MANIFEST_DIR"));
        let file = fs::read(path).unwrap();
        let events = |file: &[u8]| TraceDat::open(file).map(|trace| summarize(&trace));
        let whole = events(&file).unwrap();
        assert!(whole.damage.is_empty());
        let mut lost = 0;
        for block in (0..file.len()).step_by(4096) {
            let mut zeroed = file.clone();
            let end = file.len().min(block + 4096);
            zeroed[block..end].fill(0);
            let Ok(rest) = events(&zeroed) else { continue };
            if rest.events < whole.events {
                lost += 1;
                assert!(!rest.damage.is_empty(), "{name}, {block}: {} of {}", rest.events, whole.events);
            }
        }
        assert!(lost > 0, "{name}");
    }
}

/// The recording with a piece of CPU 0's compressed data overwritten, and the loss that this makes.
fn with_a_hole(file: &mut [u8]) -> Loss {
    let from = file.len() / 2;
    file[from..from + 64].fill(0x55);
    let (_, losses, damage) = read(&TraceDat::open(file).unwrap());
    assert!(damage == 1, "{losses:?}");
    let [loss] = losses[..] else { panic!("{losses:?}") };
    assert_eq!(loss.cpu, Cpu(0));
    loss
}

#[test]
fn the_time_of_pages_that_cannot_be_read_is_nobodys() {
    let mut file = recording();
    let whole = read(&TraceDat::open(&file).unwrap()).0;
    let Loss { after: Some(after), before, .. } = with_a_hole(&mut file) else {
        panic!("not known after what")
    };
    let missing = whole[0].iter().filter(|(at, _)| *at > after && *at < before).count();
    assert!(missing > 100 && whole[0].iter().any(|(at, _)| *at == before), "{missing}");
    let source = TraceDat::open(&file).unwrap();
    let found = find(&source, &Question::Wakeups, &Whose::default());
    let within = |part: u64| Mono(after.0 + (before.0 - after.0) * part / 10);
    // A window that holds all of it, and one that ends in it.
    for (begin, end) in [(Mono(after.0 - 1000), Mono(before.0 + 1000)), (Mono(after.0 - 1000), within(1))] {
        let window = window(&source, &found, begin, end);
        let record = Record::new(&window);
        let slices = record.slices(Cpu(0), Mono(after.0 + 1), end.min(before));
        assert!(slices.iter().all(|slice| slice.context == Context::Lost), "{slices:?}");
    }
    let over = found.intervals.iter().filter(|interval| interval.begin < before && interval.end > after);
    assert!(over.clone().all(|interval| interval.spans_loss), "{:?}", over.collect::<Vec<_>>());
}

#[test]
fn uncompressed_data_without_their_table_are_those_of_the_cpus_in_their_order() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace_dat/v7_offset.dat");
    let file = fs::read(path).unwrap();
    let (whole, ..) = read(&TraceDat::open(&file).unwrap());
    assert!(whole.iter().all(|cpu| cpu.len() > 10), "{whole:?}");
    // The options behind the data, the last page, and the last page but a part of it.
    for (len, all) in [(32_770, [true, true]), (28_672, [true, false]), (30_000, [true, false])] {
        let (read, losses, damage) = read(&TraceDat::open(&file[..len]).unwrap());
        for (cpu, all) in all.into_iter().enumerate() {
            assert_eq!(read[cpu][..], whole[cpu][..read[cpu].len()], "{len}");
            assert_eq!(read[cpu].len() == whole[cpu].len(), all, "{len}: CPU {cpu}");
        }
        assert!(damage > 0 && (losses.is_empty() == (all == [true, true])), "{len}: {losses:?}");
    }
}

#[test]
fn a_file_that_ends_before_its_events_says_where_and_what_to_do() {
    let file = recording();
    let told = TraceDat::open(&file[..file.len() / 10]).map(|_| ()).unwrap_err().to_string();
    let end = format!("damaged at offset {}: the file ends here, before", file.len() / 10);
    assert!(told.starts_with(&end) && told.contains("trace-cmd restore") && !told.contains('\n'), "{told}");
}

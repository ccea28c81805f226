//! A trace.dat declares the formats of events that it may not have recorded.
#![allow(clippy::disallowed_methods)] // tests read their recordings; the crate itself reads no file

use std::path::Path;

use lathunt_core::explain::intervals::{find, Found, Question, Whose};
use lathunt_core::trace::trace_dat::TraceDat;

fn recording(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/trace_dat").join(name)).unwrap()
}

fn wakeups(file: &[u8]) -> Found {
    find(&TraceDat::open(file).unwrap(), &Question::Wakeups, &Whose::default())
}

/// The file with another name for an event; both have the same length.
fn renamed(file: &[u8], from: &str, to: &str) -> Vec<u8> {
    let (from, to) = (format!("name: {from}\n"), format!("name: {to}\n"));
    let place = file.windows(from.len()).position(|bytes| bytes == from.as_bytes()).unwrap();
    [&file[..place], to.as_bytes(), &file[place + from.len()..]].concat()
}

#[test]
fn wake_ups_that_are_only_declared_are_not_recorded() {
    let whole = recording("v7_offset.dat");
    let recorded = wakeups(&whole);
    assert_eq!((recorded.count, recorded.unanswerable), (15, None));
    assert!(recorded.waited_before > 0, "{recorded:?}");
    let declared = renamed(&renamed(&whole, "sched_waking", "sched_waked_"), "mmiotrace_rw", "sched_waking");
    let declared = wakeups(&declared);
    assert!(declared.unanswerable.unwrap().contains("no wake-up is recorded"), "{declared:?}");
    assert_eq!((declared.waited_before, declared.unseen_wakings), (0, 0), "nothing shows that they waited");
}

#[test]
fn switches_that_are_only_declared_are_not_recorded() {
    let found = wakeups(&recording("v6_two_buffers.dat"));
    assert_eq!(found.count, 0);
    assert!(found.unanswerable.unwrap().contains("sched_switch is not recorded"), "{found:?}");
}

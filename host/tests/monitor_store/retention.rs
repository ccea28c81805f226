//! What goes when there is too much of it, and what stays.

use super::*;

const HOUR: Limits = Limits { keep: Ns(3_600_000_000_000), bytes: 1 << 30 };
const MIB: Limits = Limits { bytes: 1 << 20, ..PLENTY };

fn open_with(path: &Path, limits: Limits, now: i64) -> Store {
    Store::open(path, limits, end_of(now), Foreign::Refused).unwrap_or_else(|error| panic!("{error}")).0
}

#[test]
fn old_windows_go_by_age_and_by_size_and_the_worst_ever_stays() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut store = open_with(&path, HOUR, 0);
    for number in (1..=30).rev().chain(31..=60) {
        close(&mut store, number);
    }
    let kept = history(&path);
    assert!(kept.windows.iter().all(|window| window.1 >= end_of(48)), "{:?}", kept.windows);
    assert_eq!(kept.windows.len(), 13);
    assert_eq!(kept.alltime[0].max_ns, Ns::from_us(1_060));
    // A clock that is wrong by years for one window costs a few windows, not the history.
    drop(store);
    let (mut store, _) = open(&path, 60);
    (61..=150).for_each(|number| close(&mut store, number));
    let before = history(&path).windows.len();
    store.close(window(1_000_000), None);
    assert!(history(&path).windows.len() + 64 > before);
    drop(store);

    let mut store = open_with(&path, MIB, 301);
    (1_000_001..1_000_250).for_each(|number| close(&mut store, number));
    let bytes = fs::metadata(&path).unwrap().len();
    assert!(bytes <= 1 << 20, "{bytes} bytes on the disk");
    let windows = history(&path).windows;
    assert_eq!(windows.last().map(|window| window.1), Some(end_of(1_000_249)));
    assert!(windows.len() > 50 && windows.windows(2).all(|pair| pair[0].1 == pair[1].0));
}

/// With evidence of `bytes` that cannot be packed well.
fn large(number: i64, bytes: usize) -> Window {
    let mut window = window(number);
    window.series.truncate(1);
    let mut random = number as u64 * 2_654_435_761 + 1;
    let mut digit = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        char::from_digit((random >> 20) as u32 % 36, 36).unwrap()
    };
    let peak = window.series[0].peak.as_mut().unwrap();
    peak.no_evidence = Some((0..bytes).map(|_| digit()).collect());
    window
}

#[test]
fn few_large_windows_make_room_one_by_one_and_the_newest_never_does() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut store = open_with(&path, MIB, 0);
    for number in 1..=40 {
        assert!(matches!(store.close(large(number, 80_000), None), Saved::Yes));
        let windows = history(&path).windows;
        assert_eq!(windows.last().unwrap().1, end_of(number));
        assert!(windows.len() as i64 >= number.min(12), "{} of {number} are left", windows.len());
        assert!(fs::metadata(&path).unwrap().len() <= 1 << 20);
    }
    // Larger than all that is allowed.
    assert!(matches!(store.close(large(41, 2_000_000), None), Saved::Yes));
    assert_eq!(history(&path).windows, [(end_of(40), end_of(41))]);
}

/// As many as no monitor notes while a test waits.
fn insert_events(path: &Path, at: UnixMs) {
    let mut other = rusqlite::Connection::open(path).unwrap();
    let transaction = other.transaction().unwrap();
    for number in 0..10_000 {
        let detail = format!("{number} {}", "CPUs 1 went offline ".repeat(5));
        let insert = "INSERT INTO event (at_ms, kind, detail) VALUES (?1, 'cpus_changed', ?2)";
        transaction.execute(insert, rusqlite::params![at.0, detail]).unwrap();
    }
    transaction.commit().unwrap();
}

#[test]
fn events_older_than_all_windows_go_before_any_window_does() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut store = open_with(&path, MIB, 0);
    insert_events(&path, end_of(-2));
    store.event(Event::new(end_of(3), Kind::Started, "of these windows"));
    (1..=20).for_each(|number| close(&mut store, number));
    let kept = history(&path);
    assert_eq!(kept.windows.len(), 20);
    assert_eq!(kept.events.iter().map(|event| event.kind).collect::<Vec<_>>(), [Kind::Started]);
    assert!(fs::metadata(&path).unwrap().len() <= 1 << 20);
    // Those of the windows go with them.
    insert_events(&path, end_of(19));
    (21..=30).for_each(|number| close(&mut store, number));
    let kept = history(&path);
    assert_eq!((kept.windows.last().unwrap().1, kept.events.len()), (end_of(30), 0));
    assert!(fs::metadata(&path).unwrap().len() <= 1 << 20);
}

#[test]
fn events_go_by_age_a_few_at_a_time() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut store = open_with(&path, HOUR, 0);
    insert_events(&path, end_of(-2));
    store.event(Event::new(end_of(10), Kind::Started, "young enough"));
    (1..=12).for_each(|number| close(&mut store, number));
    let left = history(&path).events.len();
    assert!((9_000..10_001).contains(&left), "{left}");
    for number in 13..=200 {
        store.event(Event::new(end_of(number), Kind::Suspend, "again"));
        close(&mut store, number);
    }
    let left = history(&path).events;
    assert!(left.iter().all(|event| event.at >= end_of(187)), "{left:?}");
}

#[test]
fn windows_closed_while_the_clock_was_not_set_stay_as_long_as_their_neighbours() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut store = open_with(&path, HOUR, 0);
    let of_1970 = |number: i64| {
        let (begin, end) = (UnixMs(number * 300_000), UnixMs((number + 1) * 300_000));
        Window { begin, end, ..window(number) }
    };
    let early = |path: &Path| history(path).windows.iter().filter(|window| window.1 .0 < 1 << 40).count();
    (1..=5).for_each(|number| close(&mut store, number));
    for number in 0..3 {
        store.event(Event::new(UnixMs(number), Kind::Started, "1970"));
        assert!(matches!(store.close(of_1970(number), None), Saved::Yes));
    }
    (6..=10).for_each(|number| close(&mut store, number));
    assert_eq!((history(&path).windows.len(), early(&path)), (13, 3));
    (11..=17).for_each(|number| close(&mut store, number));
    assert_eq!(early(&path), 3, "window 5, which was closed before them, is young enough");
    (18..=30).for_each(|number| close(&mut store, number));
    assert_eq!((history(&path).windows.len(), early(&path)), (13, 0));
}

/// Breaks the page with the oldest samples, which nothing reads before they are deleted.
fn damage_oldest(path: &Path) {
    let other = rusqlite::Connection::open(path).unwrap();
    // What another one wrote is read anew.
    other.execute("DELETE FROM event", []).unwrap();
    let _: i64 = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    let number = |query| other.query_row(query, [], |row| row.get::<_, i64>(0)).unwrap() as usize;
    let size = number("PRAGMA page_size");
    let root = number("SELECT rootpage FROM sqlite_schema WHERE name = 'sample'");
    drop(other);
    let mut bytes = fs::read(path).unwrap();
    // sqlite.org/fileformat.html, 1.6: an interior page of an index; its first cell begins with its left child.
    let page = |number: usize| (number - 1) * size;
    assert_eq!(bytes[page(root)], 2);
    let cell = usize::from(u16::from_be_bytes([bytes[page(root) + 12], bytes[page(root) + 13]]));
    let child: [u8; 4] = bytes[page(root) + cell..][..4].try_into().unwrap();
    let child = page(u32::from_be_bytes(child) as usize);
    bytes[child..child + size].fill(0xa5);
    fs::write(path, &bytes).unwrap();
}

#[test]
fn a_window_after_which_damage_is_found_is_in_the_new_database() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    (1..=40).for_each(|number| close(&mut store, number));
    drop(store);
    let mut store = open_with(&path, Limits { bytes: 1 << 16, ..PLENTY }, 41);
    damage_oldest(&path);
    let saved = store.close(window(41), Some((end_of(41), LENGTH)));
    assert!(matches!(&saved, Saved::Anew(event) if event.kind == Kind::DatabaseDamaged), "{saved:?}");
    assert_eq!(history(&path).windows, [(end_of(40), end_of(41))]);
    close(&mut store, 42);
    assert_eq!(history(&path).windows.len(), 2, "each of them once");
}

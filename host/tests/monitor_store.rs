//! The database of a monitor under everything that happens to databases: kills, full disks, damage, strangers, limits.

#[path = "monitor_store/earlier.rs"]
mod earlier;
#[path = "monitor_store/ends.rs"]
mod ends;
#[path = "monitor_store/full.rs"]
mod full;
#[path = "monitor_store/retention.rs"]
mod retention;
#[path = "monitor_store/rights.rs"]
mod rights;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use lathunt_core::comm::Comm;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::monitor::event::{Event, Kind};
use lathunt_core::monitor::history::History;
use lathunt_core::monitor::packed::Allowance;
use lathunt_core::monitor::window::{Held, SeriesKey, UnixMs, Window, WindowSeries, QUANTITIES};
use lathunt_core::peak::Peak;
use lathunt_core::series::{Quantity, Thread};
use lathunt_core::time::{Cpu, Mono, Ns};
use lathunt_host::beneath::Foreign;
use lathunt_host::monitor::store::{Limits, Reader, Saved, Store};

const LENGTH: Ns = Ns(300_000_000_000);
const PLENTY: Limits = Limits { keep: Ns(400 * 86_400_000_000_000), bytes: 1 << 30 };
const CPUS: u32 = 2;
/// Series of CPUs in a window.
const OF_CPUS: usize = CPUS as usize * QUANTITIES.len();

fn end_of(number: i64) -> UnixMs {
    UnixMs(1_700_000_000_000 + number * 300_000)
}

/// Window `number`: its maximum is `number` µs more than a millisecond.
fn window(number: i64) -> Window {
    let of_cpus = (0..CPUS).flat_map(|cpu| QUANTITIES.map(|quantity| SeriesKey::of_cpu(quantity, Cpu(cpu))));
    let of_task = SeriesKey::of_task(QUANTITIES[0], Comm::cut("motion's"));
    let series = of_cpus.chain([of_task]).map(|key| {
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..200).for_each(|n| histogram.record(Ns(4_000 + n * n * 9)));
        let max = Ns::from_us(1_000 + number as u64);
        histogram.record(max);
        let peak = Peak {
            quantity: key.quantity,
            cpu: Cpu(0),
            begin: Mono(7),
            total_ns: max,
            victim: Thread { comm: format!("victim {number}"), ..Thread::default() },
            culprit: Some("irqs off: vnd/812".to_owned()),
            explanation: None,
            no_evidence: Some("made for a test ".repeat(20)),
            context: None,
            during_action: false,
            counted_as: None,
        };
        WindowSeries {
            key,
            histogram,
            lost: 0,
            peak: Some(peak),
            peak_at: Some(UnixMs(end_of(number).0 - 1)),
            held: (key.quantity == Quantity::Response)
                .then_some(Held { deadline: Ns::from_us(500), misses: number as u64 }),
        }
    });
    let series = series.collect();
    Window { begin: end_of(number - 1), end: end_of(number), measured: LENGTH, whole: true, series }
}

fn open(path: &Path, now: i64) -> (Store, Vec<Event>) {
    Store::open(path, PLENTY, end_of(now), Foreign::Refused).unwrap_or_else(|error| panic!("{error}"))
}

fn close(store: &mut Store, number: i64) {
    let saved = store.close(window(number), Some((end_of(number), LENGTH)));
    assert!(matches!(saved, Saved::Yes), "{saved:?}");
}

fn history(path: &Path) -> History {
    Reader::open(path).and_then(|reader| reader.history(UnixMs(0))).unwrap_or_else(|error| panic!("{error}"))
}

/// Breaks all but the head of a database that is open.
fn damage(path: &Path) {
    // What another one wrote is read anew: nothing that is cached hides the damage.
    let other = rusqlite::Connection::open(path).unwrap();
    other.execute("DELETE FROM window WHERE id = 1", []).unwrap();
    let _: i64 = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    drop(other);
    let mut bytes = fs::read(path).unwrap();
    bytes[100..].fill(0xa5);
    fs::write(path, &bytes).unwrap();
}

fn database(place: &tempfile::TempDir) -> PathBuf {
    place.path().join("monitor.sqlite")
}

#[test]
fn what_was_closed_is_read_back_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, found) = open(&path, 0);
    assert_eq!(found, []);
    (1..=3).for_each(|number| close(&mut store, number));
    // Beside the running writer.
    let history = history(&path);
    assert_eq!(history.windows, [(end_of(0), end_of(1)), (end_of(1), end_of(2)), (end_of(2), end_of(3))]);
    let expected = window(2);
    let rows: Vec<_> = history.rows.iter().filter(|row| row.end == end_of(2)).collect();
    assert_eq!(rows.len(), expected.series.len());
    for series in &expected.series {
        let row = rows.iter().find(|row| row.key == series.key).unwrap();
        assert_eq!(
            (row.histogram().unwrap(), row.peak(&mut Allowance::of(0)).unwrap()),
            (series.histogram.clone(), series.peak.clone())
        );
        assert_eq!((row.max_at, row.whole), (series.peak_at, true));
    }
    let worst = history.alltime.iter().map(|alltime| (alltime.max_ns, alltime.at)).collect::<Vec<_>>();
    assert_eq!(worst, vec![(Ns::from_us(1_003), UnixMs(end_of(3).0 - 1)); OF_CPUS + 1]);
}

/// Runs as a process of its own, started by the test below; alone it does nothing. Closes windows as fast as it can and says which are kept.
#[test]
fn closes_windows_until_it_is_killed() {
    let Some(path) = std::env::var_os("LATHUNT_TEST_STORE") else { return };
    let path = PathBuf::from(path);
    let first =
        fs::read_to_string(path.with_extension("next")).map_or(1, |text| text.trim().parse().unwrap());
    let (mut store, _) = open(&path, first);
    store.begin(end_of(first - 1), LENGTH);
    for number in first.. {
        close(&mut store, number);
        println!("\nclosed {number}");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn two_hundred_kills_while_windows_are_closed_lose_the_running_window_at_most() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let mut next = 1;
    let mut random = 88_172_645_463_325_252_u64;
    for kill in 0..200 {
        fs::write(path.with_extension("next"), next.to_string()).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "closes_windows_until_it_is_killed", "--nocapture", "--test-threads=1"])
            .env("LATHUNT_TEST_STORE", &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let closed = |line: &String| line.strip_prefix("closed ").and_then(|text| text.parse::<i64>().ok());
        let first = lines.by_ref().map_while(Result::ok).find_map(|line| closed(&line));
        // From now on it closes one after the other; xorshift chooses the moment.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        std::thread::sleep(Duration::from_micros(random % 8_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let last = lines.map_while(Result::ok).filter_map(|line| closed(&line)).last().or(first);
        let last = last.unwrap_or_else(|| panic!("child {kill} closed nothing"));

        let (store, found) = open(&path, last);
        assert_eq!(found.len(), 1, "kill {kill}: the running window is recorded as lost: {found:?}");
        assert_eq!(found[0].kind, Kind::WindowLost);
        drop(store);
        if kill % 20 == 19 {
            check_all(&path, last);
        }
        let newest = Reader::open(&path).unwrap().windows(UnixMs(0)).unwrap().last().map(|window| window.1);
        let newest = (newest.unwrap().0 - end_of(0).0) / 300_000;
        assert!(newest >= last && newest <= last + 1, "kill {kill}: {last} was kept, found {newest}");
        next = newest + 1;
    }
    check_all(&path, next - 1);
    let lost = history(&path).events.iter().filter(|event| event.kind == Kind::WindowLost).count();
    assert_eq!(lost, 200, "each of 200 kills is on record once");
    assert!(fs::read_dir(place.path())
        .unwrap()
        .flatten()
        .all(|entry| !entry.file_name().to_string_lossy().contains("damaged")));
}

/// No window twice, none missing, none half.
fn check_all(path: &Path, last: i64) {
    let history = history(path);
    let ends: Vec<UnixMs> = history.windows.iter().map(|window| window.1).collect();
    let expected: Vec<UnixMs> = (1..=ends.len() as i64).map(end_of).collect();
    assert_eq!(ends, expected);
    assert!(ends.len() as i64 >= last);
    assert_eq!(history.rows.len(), ends.len() * window(1).series.len());
}

#[test]
fn a_second_monitor_is_refused_and_told_who_the_first_is() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (store, _) = open(&path, 0);
    let refusal = Store::open(&path, PLENTY, end_of(0), Foreign::Refused).unwrap_err().to_string();
    assert!(refusal.contains(&std::process::id().to_string()) && !refusal.contains('\n'), "{refusal}");
    drop(store);
    open(&path, 0);
}

#[test]
fn a_second_monitor_is_refused_by_whatever_name_it_calls_the_database() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    store.begin(end_of(0), LENGTH);
    let [symbolic, hard] = ["symbolic", "hard"].map(|name| place.path().join(name));
    let refusal =
        |path: &Path| Store::open(path, PLENTY, end_of(0), Foreign::Refused).unwrap_err().to_string();
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    assert!(refusal(&symbolic).contains("another lathunt monitor"), "{}", refusal(&symbolic));
    close(&mut store, 1);
    assert_eq!(history(&symbolic).windows.len(), 1, "a reader finds the log by that name, too");
    fs::hard_link(&path, &hard).unwrap();
    assert!(refusal(&hard).contains("2 names"), "{}", refusal(&hard));
    close(&mut store, 2);
    assert_eq!(history(&path).events, [], "nothing was lost");
    fs::remove_file(&hard).unwrap();
    drop(store);
    open(&symbolic, 2);
    assert!(fs::read_dir(place.path()).unwrap().flatten().all(|entry| entry.file_name() != "symbolic.lock"));
    // A link to nothing is no place for a database, nor for its lock.
    let nowhere = place.path().join("nowhere");
    std::os::unix::fs::symlink(place.path().join("absent"), &nowhere).unwrap();
    assert!(refusal(&nowhere).contains("nowhere"), "{}", refusal(&nowhere));
}

#[test]
fn a_damaged_database_is_set_aside_and_a_new_one_begun() {
    // A copy of one comes without the lock beside it.
    for (damage, is_copy) in [("head", false), ("middle", false), ("middle", true), ("short", true)] {
        let place = tempfile::tempdir().unwrap();
        let path = database(&place);
        let (mut store, _) = open(&path, 0);
        (1..=30).for_each(|number| close(&mut store, number));
        drop(store);
        let mut bytes = fs::read(&path).unwrap();
        let (from, to) = if damage == "head" { (0, 100) } else { (8_192, bytes.len() / 2) };
        match damage {
            "short" => bytes.truncate(5_000),
            _ => bytes[from..to].fill(0xa5),
        }
        fs::write(&path, &bytes).unwrap();
        if is_copy {
            fs::remove_file(place.path().join("monitor.sqlite.lock")).unwrap();
        }
        let (mut store, found) = open(&path, 31);
        assert_eq!(
            found.iter().map(|event| event.kind).collect::<Vec<_>>(),
            [Kind::DatabaseDamaged],
            "{damage}"
        );
        let aside = fs::read_dir(place.path()).unwrap().flatten();
        let aside: Vec<_> =
            aside.filter(|entry| entry.file_name().to_string_lossy().contains(".damaged-")).collect();
        // SQLite may have touched the head before it saw the damage.
        let kept = |old: &[u8]| {
            old.len() == bytes.len() && old[from.min(old.len())..] == bytes[from.min(old.len())..]
        };
        assert!(
            aside.iter().any(|entry| kept(&fs::read(entry.path()).unwrap())),
            "the old file is kept: {damage}"
        );
        close(&mut store, 31);
        let history = history(&path);
        assert_eq!((history.windows.len(), history.events[0].kind), (1, Kind::DatabaseDamaged), "{damage}");
    }
}

#[test]
fn damage_while_it_runs_costs_no_window_that_is_closed_later() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    (1..=30).for_each(|number| close(&mut store, number));
    // The log is written back first, so that what is damaged is what is read.
    let other = rusqlite::Connection::open(&path).unwrap();
    let _: i64 = other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let half = bytes.len() / 2;
    bytes[4_096..half].fill(0xa5);
    fs::write(&path, &bytes).unwrap();
    let mut anew = 0;
    for number in 31..=40 {
        match store.close(window(number), Some((end_of(number), LENGTH))) {
            Saved::Anew(event) => {
                assert_eq!(event.kind, Kind::DatabaseDamaged);
                anew += 1;
            }
            Saved::Yes => {}
            Saved::Waits(error) => panic!("{error}"),
        }
    }
    drop(other);
    drop(store);
    // What is cached may hide the damage until the next start; then it is found.
    let (mut store, _) = open(&path, 41);
    close(&mut store, 41);
    let history = history(&path);
    assert!(history.windows.iter().any(|window| window.1 == end_of(41)));
    assert!(
        history.events.iter().any(|event| event.kind == Kind::DatabaseDamaged),
        "anew while running: {anew}"
    );
}

#[test]
fn files_of_others_are_refused_and_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let text = place.path().join("notes.txt");
    fs::write(&text, "not a database at all, but dear to somebody").unwrap();
    let other = place.path().join("other.sqlite");
    let connection = rusqlite::Connection::open(&other).unwrap();
    connection.execute_batch("CREATE TABLE dear (x); INSERT INTO dear VALUES (1);").unwrap();
    drop(connection);
    let newer = place.path().join("newer.sqlite");
    open(&newer, 0);
    rusqlite::Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
    for (path, told) in
        [(&text, "no monitor wrote it"), (&other, "another program"), (&newer, "newer lathunt")]
    {
        let before = fs::read(path).unwrap();
        let refusal = Store::open(path, PLENTY, end_of(0), Foreign::Refused).unwrap_err().to_string();
        assert!(refusal.contains(told) && !refusal.contains('\n'), "{refusal}");
        assert!(Reader::open(path).is_err());
        assert_eq!(fs::read(path).unwrap(), before);
    }
    assert!(!place.path().join("notes.txt.lock").exists());
    assert!(Reader::open(&place.path().join("absent")).unwrap_err().to_string().contains("no such file"));
}

#[test]
fn a_window_that_an_earlier_monitor_lost_is_told_once_and_not_at_each_start() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    close(&mut store, 1);
    drop(store);
    // The second one cannot record and ends before a window begins.
    assert_eq!(open(&path, 2).1.len(), 1);
    assert_eq!(open(&path, 3).1, []);
    // The same for a database that was set aside.
    fs::write(&path, "damaged").unwrap();
    assert_eq!(open(&path, 4).1.len(), 1);
    assert_eq!(open(&path, 5).1, []);
    assert_eq!(history(&path).events.len(), 1);
}

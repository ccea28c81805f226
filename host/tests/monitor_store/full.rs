//! A disk that is full: what waits, what is given up, and what is said of it.

use lathunt_host::monitor::store::MOST_WAITING;
use lathunt_host::testing::{lacks_root, may_run};

use super::*;

#[test]
#[ignore = "root: run by make test"]
fn a_full_disk_delays_windows_and_loses_none() {
    if !may_run("a_full_disk_delays_windows_and_loses_none", lacks_root()) {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let run =
        |command: &[&str]| Command::new(command[0]).args(&command[1..]).arg(place.path()).status().unwrap();
    assert!(run(&["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs"]).success());
    let outcome =
        std::panic::catch_unwind(|| fill_and_free(&database(&place), &place.path().join("ballast")));
    assert!(run(&["umount"]).success());
    outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
}

/// Takes all that is left of the disk.
fn fill(ballast: &Path) {
    let mut file = fs::File::create(ballast).unwrap();
    while file.write_all(&[0; 4_096]).is_ok() {}
}

fn fill_and_free(path: &Path, ballast: &Path) {
    let (mut store, _) = open(path, 0);
    (1..=5).for_each(|number| close(&mut store, number));
    fill(ballast);
    let mut waited = 0;
    for number in 6..=60 {
        match store.close(window(number), Some((end_of(number), LENGTH))) {
            Saved::Waits(error) => {
                waited += 1;
                let said = error.to_string();
                assert!(said.contains("free some space") && !said.contains('\n'), "{said}");
            }
            other => assert!(matches!(other, Saved::Yes), "{other:?}"),
        }
    }
    assert!(waited > 10 && store.waiting() > 10, "{waited}");
    store.event(Event::new(end_of(60), Kind::StoreFailed, "no room"));
    fs::remove_file(ballast).unwrap();
    close(&mut store, 61);
    assert_eq!(store.waiting(), 0);
    check_all(path, 61);
    assert!(history(path).events.iter().any(|event| event.kind == Kind::StoreFailed));
    windows_given_up_are_told(store, path, ballast);
}

/// With one series, so that hundreds are written in a moment.
fn small(number: i64) -> Window {
    let mut window = window(number);
    window.series.truncate(1);
    window
}

/// First those that waited too long; then the disk is full again, and the monitor ends while windows wait.
fn windows_given_up_are_told(mut store: Store, path: &Path, ballast: &Path) {
    fill(ballast);
    let mut number = 61;
    let mut close_until = |store: &mut Store, done: &dyn Fn(&Store) -> bool| {
        while !done(store) {
            number += 1;
            assert!(number < 2_000, "the disk is not full");
            store.close(small(number), Some((end_of(number), LENGTH)));
        }
        number
    };
    close_until(&mut store, &|store| store.given_up() == 7);
    fs::remove_file(ballast).unwrap();
    let last = close_until(&mut store, &|store| store.waiting() == 0);
    let (lost, until) = (store.given_up(), last - MOST_WAITING as i64);
    let found = history(path);
    assert_eq!(found.windows.len() as u64 + lost, last as u64);
    let told: Vec<_> = found.events.iter().filter(|event| event.kind == Kind::WindowLost).collect();
    let expected =
        format!("{lost} windows from {} to {} are lost", end_of(until - lost as i64), end_of(until));
    assert!(told.len() == 1 && told[0].detail.starts_with(&expected), "{told:?}, not {expected}");

    fill(ballast);
    close_until(&mut store, &|store| store.waiting() == 9);
    drop(store);
    fs::remove_file(ballast).unwrap();
    let last = history(path).windows.last().unwrap().1;
    let (store, found) = open(path, 2_000);
    let expected = format!("the recording from {last} until the monitor ended is lost");
    assert!(found.len() == 1 && found[0].detail.starts_with(&expected), "{found:?}, not {expected}");
    drop(store);
    damage_on_a_full_disk(path, ballast);
}

/// There is room to set it aside, and none to begin a new one.
fn damage_on_a_full_disk(path: &Path, ballast: &Path) {
    let (mut store, _) = open(path, 2_000);
    close(&mut store, 2_001);
    damage(path);
    fill(ballast);
    for number in 2_002..=2_010 {
        let saved = store.close(window(number), Some((end_of(number), LENGTH)));
        assert!(matches!(saved, Saved::Waits(_)), "{saved:?}");
    }
    fs::remove_file(ballast).unwrap();
    close(&mut store, 2_011);
    let found = history(path);
    assert_eq!((found.windows.len(), found.windows[0].1), (10, end_of(2_002)));
    let kinds: Vec<_> = found.events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [Kind::DatabaseDamaged]);
}

//! Directories that may not be written or searched.

use std::os::unix::fs::PermissionsExt;

use super::*;

/// If root, this thread is `nobody` until dropped, since permissions do not restrict root.
struct Nobody;

impl Nobody {
    fn in_place(place: &tempfile::TempDir) -> Nobody {
        let of_root = lathunt_host::testing::lacks_root().is_none();
        if of_root {
            std::os::unix::fs::chown(place.path(), Some(65_534), Some(65_534)).unwrap();
            become_effective(65_534);
        }
        Nobody
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        // SAFETY: asks for the real user ID, which stays what it was.
        become_effective(unsafe { libc::getuid() });
    }
}

/// Not by `seteuid`, which changes all threads of the process.
fn become_effective(user: libc::uid_t) {
    // SAFETY: changes the credentials of the calling thread; -1 keeps the real and the saved ID.
    let changed = unsafe { libc::syscall(libc::SYS_setresuid, -1, user, -1) };
    assert_eq!(changed, 0, "{}", std::io::Error::last_os_error());
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
}

#[test]
fn damage_where_nothing_may_be_renamed_delays_windows_and_loses_none() {
    let place = tempfile::tempdir().unwrap();
    let _nobody = Nobody::in_place(&place);
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    (1..=5).for_each(|number| close(&mut store, number));
    damage(&path);
    mode(place.path(), 0o555);
    for number in 6..=8 {
        match store.close(window(number), Some((end_of(number), LENGTH))) {
            Saved::Waits(error) => assert!(!error.to_string().contains("no such table"), "{error}"),
            other => panic!("{number}: {other:?}"),
        }
    }
    store.event(Event::new(end_of(8), Kind::StoreFailed, "waits, too"));
    mode(place.path(), 0o755);
    let saved = store.close(window(9), Some((end_of(9), LENGTH)));
    assert!(matches!(&saved, Saved::Anew(event) if event.kind == Kind::DatabaseDamaged), "{saved:?}");
    close(&mut store, 10);
    let found = history(&path);
    assert_eq!(found.windows.iter().map(|window| window.1).collect::<Vec<_>>(), [6, 7, 8, 9, 10].map(end_of));
    let mut kinds: Vec<_> = found.events.iter().map(|event| event.kind.name()).collect();
    kinds.sort_unstable();
    assert_eq!(kinds, ["database_damaged", "store_failed"]);
    drop(store);
    assert_eq!(open(&path, 11).1.len(), 1, "the window that ran, and nothing else");
}

#[test]
fn who_may_not_read_the_database_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let (within, path) = (place.path().join("state"), place.path().join("state/monitor.sqlite"));
    let (mut store, _) = open(&path, 0);
    close(&mut store, 1);
    drop(store);
    let of_root = lathunt_host::testing::lacks_root().is_none();
    let _nobody = Nobody::in_place(&place);
    let said = |path: &Path| Reader::open(path).unwrap_err().to_string();
    if of_root {
        let by_root = |of: &dyn Fn()| {
            become_effective(0);
            of();
            become_effective(65_534);
        };
        by_root(&|| mode(&within, 0o700));
        assert!(
            said(&path).contains("permission denied") && said(&path).contains("as root"),
            "{}",
            said(&path)
        );
        by_root(&|| mode(&within, 0o755));
        by_root(&|| mode(&path, 0o600));
    } else {
        mode(&path, 0o000);
    }
    assert!(said(&path).contains("permission denied"), "{}", said(&path));
    assert!(said(&place.path().join("absent")).contains("no such file"));
}

/// A view that never ends, under the name of a table of ours.
#[test]
fn a_database_with_a_view_in_place_of_a_table_is_not_read() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("monitor.db");
    drop(Store::open(&path, PLENTY, end_of(0), Foreign::Refused).unwrap());
    assert!(Reader::open(&path).is_ok());
    let connection = rusqlite::Connection::open(&path).unwrap();
    let endless = "DROP TABLE event; CREATE VIEW event AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
                   SELECT x AS id, x AS at_ms, 'start' AS kind, '' AS detail FROM n;";
    connection.execute_batch(endless).unwrap();
    drop(connection);
    let refused = Reader::open(&path).unwrap_err().to_string();
    assert!(refused.contains("not a database of lathunt monitor"), "{refused}");
}

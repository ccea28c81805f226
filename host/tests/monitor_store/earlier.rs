//! Databases of earlier versions: read as they are, and brought up to date.

use super::*;

/// As version 1 left it: series of CPUs alone.
fn made_old(path: &Path) {
    let connection = rusqlite::Connection::open(path).unwrap();
    let downgrade = "PRAGMA foreign_keys = off; BEGIN;
        DELETE FROM sample WHERE series_id IN (SELECT id FROM series WHERE cpu < 0);
        DELETE FROM alltime WHERE series_id IN (SELECT id FROM series WHERE cpu < 0);
        CREATE TABLE old (id INTEGER PRIMARY KEY, quantity TEXT NOT NULL, cpu INTEGER NOT NULL, UNIQUE (quantity, cpu)) STRICT;
        INSERT INTO old SELECT id, quantity, cpu FROM series WHERE cpu >= 0;
        DROP TABLE series; ALTER TABLE old RENAME TO series; ALTER TABLE sample DROP COLUMN deadline_ns;
        ALTER TABLE sample DROP COLUMN misses; PRAGMA user_version = 1; COMMIT;";
    connection.execute_batch(downgrade).unwrap();
}

#[test]
fn a_database_without_series_of_tasks_is_read_as_it_is_and_brought_up_to_date_without_loss() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    (1..=2).for_each(|number| close(&mut store, number));
    drop(store);
    made_old(&path);
    let before = history(&path);
    assert_eq!((before.rows.len(), before.alltime.len()), (2 * OF_CPUS, OF_CPUS));
    let (mut store, _) = open(&path, 2);
    let upgraded = history(&path);
    assert_eq!((upgraded.windows, upgraded.rows), (before.windows, before.rows.clone()));
    assert_eq!(upgraded.alltime, before.alltime, "the same, by the new tables");
    close(&mut store, 3);
    let after = history(&path);
    assert_eq!((after.rows.len(), after.alltime.len()), (2 * OF_CPUS + OF_CPUS + 1, OF_CPUS + 1));
    assert_eq!(after.rows[..2 * OF_CPUS], before.rows);
    let tasks: Vec<_> = after.rows[2 * OF_CPUS..].iter().filter_map(|row| row.key.whose.task()).collect();
    assert_eq!(tasks, [Comm::cut("motion's")]);
}

#[test]
fn a_database_without_deadlines_is_read_as_it_is_and_gets_them() {
    let place = tempfile::tempdir().unwrap();
    let path = database(&place);
    let (mut store, _) = open(&path, 0);
    close(&mut store, 1);
    drop(store);
    let connection = rusqlite::Connection::open(&path).unwrap();
    let downgrade = "ALTER TABLE sample DROP COLUMN deadline_ns; ALTER TABLE sample DROP COLUMN misses; PRAGMA user_version = 2;";
    connection.execute_batch(downgrade).unwrap();
    drop(connection);
    let held = |history: &History| history.rows.iter().filter_map(|row| row.held).collect::<Vec<_>>();
    assert!(held(&history(&path)).is_empty());
    let (mut store, _) = open(&path, 1);
    close(&mut store, 2);
    let of_second = Held { deadline: Ns::from_us(500), misses: 2 };
    assert_eq!(held(&history(&path)), vec![of_second; CPUS as usize]);
}

//! Files next to a database without a writer: those left by readers, and a truncated log.

use super::*;

/// Names in the directory of the database.
fn names(place: &tempfile::TempDir) -> Vec<std::ffi::OsString> {
    let mut names: Vec<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    names
}

#[test]
fn reading_leaves_no_file_behind_and_needs_no_right_to_make_one() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a name? with #signs %20.sqlite");
    let (mut store, _) = open(&path, 0);
    (1..=3).for_each(|number| close(&mut store, number));
    drop(store);
    let before = names(&place);
    assert_eq!(history(&path).windows.len(), 3);
    assert_eq!(names(&place), before);
}

#[test]
fn windows_cut_off_the_end_of_the_log_are_told_at_the_next_start() {
    for keep in [0, 1, 2] {
        let place = tempfile::tempdir().unwrap();
        let path = database(&place);
        let (mut store, _) = open(&path, 0);
        (1..=9).for_each(|number| close(&mut store, number));
        // As a machine leaves it that lost its power.
        let copy = tempfile::tempdir().unwrap();
        for name in names(&place) {
            fs::copy(place.path().join(&name), copy.path().join(&name)).unwrap();
        }
        let wal = PathBuf::from(format!("{}-wal", database(&copy).display()));
        let bytes = fs::read(&wal).unwrap();
        fs::write(&wal, &bytes[..bytes.len() * keep / 2]).unwrap();
        let (_store, found) = open(&database(&copy), 11);
        let told = found.iter().filter(|event| event.detail.contains("lacks windows")).count();
        assert_eq!(told, usize::from(keep < 2), "{keep}: {found:?}");
    }
}

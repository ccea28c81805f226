//! What others may place in a directory.

use std::fs;
use std::os::unix::fs::{symlink, PermissionsExt};

use super::*;

fn content(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn new_content_takes_the_place_of_the_old_and_nothing_else_is_left() {
    let place = tempfile::tempdir().unwrap();
    let deep = place.path().join("a/b");
    let directory = Directory::make(&deep, Readers::Owner, Foreign::Refused).unwrap();
    let name = OsStr::new("x.json");
    for text in ["1", "2"] {
        directory.replace(name, text.as_bytes(), Readers::Umask, true).unwrap();
        assert_eq!(content(&deep.join(name)), text);
    }
    directory.replace(OsStr::new("maps"), b"", Readers::Owner, false).unwrap();
    let mode = |name: &str| fs::metadata(deep.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("maps"), mode("."), mode("..")), (0o600, 0o700, 0o700));
    directory.probe().unwrap();
    assert_eq!(fs::read_dir(&deep).unwrap().count(), 2);
}

#[test]
fn the_old_file_is_kept_once_the_new_one_is_complete() {
    let place = tempfile::tempdir().unwrap();
    let directory = Directory::open(place.path(), Foreign::Refused).unwrap();
    let (name, old) = (OsStr::new("run"), OsStr::new("run.old"));
    directory.replace(name, b"1", Readers::Umask, false).unwrap();
    // As left by a kill between the two steps.
    fs::hard_link(place.path().join("run"), place.path().join("run.old")).unwrap();
    directory.replace_keeping(name, old, b"2").unwrap();
    directory.replace_keeping(name, old, b"3").unwrap();
    let at = |name: &str| content(&place.path().join(name));
    assert_eq!((at("run").as_str(), at("run.old").as_str()), ("3", "2"));
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
}

#[test]
fn a_link_in_place_of_the_file_is_replaced_and_never_written_through() {
    let place = tempfile::tempdir().unwrap();
    let (target, link) = (place.path().join("target"), place.path().join("link"));
    fs::write(&target, "dear to somebody").unwrap();
    symlink(&target, &link).unwrap();
    let directory = Directory::open(place.path(), Foreign::Refused).unwrap();
    assert!(directory.open_or_create(OsStr::new("link"), Readers::Umask, Owner::Me).is_err());
    assert!(directory.create_new(OsStr::new("link"), Readers::Umask).is_err());
    assert!(directory.below(OsStr::new("link"), Readers::Umask).is_err());
    directory.replace(OsStr::new("link"), b"new", Readers::Umask, false).unwrap();
    assert_eq!((content(&target).as_str(), content(&link).as_str()), ("dear to somebody", "new"));
}

#[test]
fn own_links_are_followed_to_directories_and_files_and_a_loop_ends() {
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    fs::create_dir(at("real")).unwrap();
    symlink("real", at("short")).unwrap();
    symlink(at("real/file"), at("direct")).unwrap();
    symlink("loop", at("loop")).unwrap();
    let (directory, name) = Directory::of_file(&at("short/file"), Foreign::Refused).unwrap();
    directory.replace(&name, b"1", Readers::Umask, false).unwrap();
    let (directory, name) = Directory::of_file(&at("direct"), Foreign::Refused).unwrap();
    assert_eq!(name, "file");
    directory.replace(&name, b"2", Readers::Umask, false).unwrap();
    assert_eq!(content(&at("real/file")), "2");
    assert!(Directory::open(&at("loop"), Foreign::Refused).is_err());
    assert!(Directory::of_file(&at("loop"), Foreign::Refused).is_err());
    assert!(Directory::open(&at("real/file"), Foreign::Refused).is_err());
    assert!(Directory::open(&at("short/../real"), Foreign::Refused).is_ok());
}

#[test]
fn a_directory_is_safe_if_only_its_owner_can_rename_files_in_it() {
    let place = tempfile::tempdir().unwrap();
    let mut stat = rustix::fs::stat(place.path()).unwrap();
    let mut others = |mode: u32, uid: u32, gid: u32, acl: bool| {
        (stat.st_mode, stat.st_uid, stat.st_gid) = (0o040_000 | mode, uid, gid);
        replacers(&stat, || acl)
    };
    for (mode, uid, gid) in
        [(0o755, 0, 50), (0o2755, 0, 50), (0o775, 0, 0), (0o775, 1000, 1000), (0o1777, 0, 0), (0o3775, 0, 50)]
    {
        assert_eq!(others(mode, uid, gid, false), None, "{mode:o} {uid} {gid}");
    }
    assert_eq!(others(0o2775, 0, 50, false).as_deref(), Some("group 50"));
    assert_eq!(others(0o775, 1000, 100, false).as_deref(), Some("group 100"));
    assert_eq!(others(0o777, 0, 0, false).as_deref(), Some("everybody"));
    assert_eq!(others(0o775, 0, 0, true).as_deref(), Some("users of its access control list"));
    assert_eq!(others(0o755, 0, 0, true), None, "the mode of the group limits the list");
    let own = openat(CWD, place.path(), OFlags::PATH, Mode::empty()).unwrap();
    assert!(!has_acl(own));
}

//! A user who swaps the files of a program for links, thousands of times while root attaches, gets root to open no file but
//! that user's own. As root, with `nobody` as that user.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{chown, symlink, PermissionsExt};
use std::path::Path;

use lathunt_core::trace::user_ring::{control, CONTROL_BYTES, MAGIC, VERSION};
use lathunt_host::channel::place::Share;
use lathunt_host::channel::program::Program;
use lathunt_host::testing::{lacks_root, may_run};
use rustix::fs::{renameat_with, RenameFlags, CWD};

const NOBODY: u32 = 65534;
const TRIES: u32 = 20_000;

/// A program's file that `Program::open` accepts; `name` shows which one was opened.
fn write(path: &Path, name: &str) {
    let mut bytes = vec![0; CONTROL_BYTES];
    bytes[control::MAGIC..][..8].copy_from_slice(&MAGIC.to_le_bytes());
    bytes[control::VERSION..][..8].copy_from_slice(&VERSION.to_le_bytes());
    bytes[control::COMM..][..name.len()].copy_from_slice(name.as_bytes());
    fs::write(path, bytes).unwrap();
}

/// The other user, who swaps each pair of names until this process ends or kills it; returns its process id.
fn swapping(pairs: &[[std::path::PathBuf; 2]]) -> i32 {
    // SAFETY: the child only makes system calls, and ends with the parent.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: plain calls.
        unsafe {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::setgroups(0, std::ptr::null());
            if libc::setgid(NOBODY) != 0 || libc::setuid(NOBODY) != 0 {
                libc::_exit(1);
            }
        }
        loop {
            for [one, other] in pairs {
                let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
            }
        }
    }
    child
}

#[test]
#[ignore = "needs root"]
fn a_file_that_is_swapped_for_a_link_while_root_opens_it_is_never_another_users() {
    if !may_run("a_file_that_is_swapped_for_a_link_while_root_opens_it_is_never_another_users", lacks_root())
    {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    let at = |name: &str| place.path().join(name);
    let (own, roots) = (at("lathunt-65534"), at("of-root"));
    for directory in [&own, &roots] {
        fs::create_dir(directory).unwrap();
    }
    write(&own.join("1-2-3"), "own");
    write(&roots.join("1-2-3"), "victim");
    fs::set_permissions(roots.join("1-2-3"), fs::Permissions::from_mode(0o600)).unwrap();
    symlink(roots.join("1-2-3"), own.join("link")).unwrap();
    symlink(&roots, at("directory")).unwrap();
    chown(&own, Some(NOBODY), Some(NOBODY)).unwrap();
    chown(own.join("1-2-3"), Some(NOBODY), Some(NOBODY)).unwrap();
    for link in [own.join("link"), at("directory")] {
        std::os::unix::fs::lchown(link, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let before = fs::read(roots.join("1-2-3")).unwrap();
    let child = swapping(&[[own.join("1-2-3"), own.join("link")], [own.clone(), at("directory")]]);
    let share = Share { uid: NOBODY, directory: own, name: OsString::from("1-2-3") };
    let (mut opened, mut refused) = (0, 0);
    for attempt in 0..TRIES {
        let program = if attempt % 2 == 0 { Program::open(&share) } else { Program::look(&share) };
        match program {
            Some(program) => {
                assert_eq!(program.comm, "own");
                opened += 1;
            }
            None => refused += 1,
        }
    }
    // SAFETY: our child, waited for once.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
    println!("{opened} opened, {refused} refused");
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused: nothing was swapped");
    assert_eq!(fs::read(roots.join("1-2-3")).unwrap(), before);
}

//! System V semaphore sets, which persist until they are removed: a killed process leaves them behind.
//!
//! They have no name. A third semaphore marks a set as ours; its last writer, which the kernel knows (`GETPID`), is the
//! creating process. [`remove_left`] removes the sets whose creator is gone.

use std::io;

use super::descriptor::done;

/// Value of the third semaphore: "LH".
const MARK: libc::c_int = 0x4c48;
const MARKED: libc::c_int = 2;
const SIZE: libc::c_int = 3;

/// A set of two semaphores; removed by the process that created it.
pub struct SysvSet {
    /// Its identifier.
    pub id: libc::c_int,
    /// Whether it is removed at the end.
    pub owned: bool,
}

impl Drop for SysvSet {
    fn drop(&mut self) {
        if self.owned {
            let _ = remove(self.id);
        }
    }
}

/// Creates a set with both semaphores at 0; returns its identifier. Removes those of killed processes first.
///
/// # Errors
/// As semget(2).
pub fn create() -> io::Result<libc::c_int> {
    remove_left();
    // SAFETY: no pointers.
    let id = done(unsafe { libc::semget(libc::IPC_PRIVATE, SIZE, libc::IPC_CREAT | 0o600) })?;
    // SAFETY: an integer, as SETVAL takes it.
    done(unsafe { libc::semctl(id, MARKED, libc::SETVAL, MARK) }).inspect_err(|_| drop(remove(id)))?;
    Ok(id)
}

fn remove(id: libc::c_int) -> io::Result<()> {
    // SAFETY: no pointers.
    done(unsafe { libc::semctl(id, 0, libc::IPC_RMID) }).map(drop)
}

/// Sets of this user (for root: of all users) whose process is gone.
#[must_use]
pub fn left() -> Vec<libc::c_int> {
    // key, identifier, permissions, number of semaphores, user …
    let text = std::fs::read_to_string("/proc/sysvipc/sem").unwrap_or_default();
    let fields = text.lines().skip(1).map(|line| line.split_ascii_whitespace().map(str::parse).collect());
    let sets = fields.filter_map(|fields: Vec<Result<i64, _>>| match fields.as_slice() {
        [Ok(0), Ok(id), _, Ok(size), ..] if *size == i64::from(SIZE) => libc::c_int::try_from(*id).ok(),
        _ => None,
    });
    sets.filter(|id| is_left(*id)).collect()
}

fn is_left(id: libc::c_int) -> bool {
    // SAFETY: no pointers in any of these calls.
    unsafe {
        if libc::semctl(id, MARKED, libc::GETVAL) != MARK {
            return false;
        }
        let maker = libc::semctl(id, MARKED, libc::GETPID);
        // One that has ended and was not waited for still gets signals; in /proc it is a zombie.
        let has_ended = || libc::kill(maker, 0) == 0 && crate::tracefs::has_ended(maker.cast_unsigned());
        let is_gone =
            || libc::kill(maker, 0) != 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH);
        maker > 0 && (is_gone() || has_ended())
    }
}

/// Removes them; returns the result of each.
pub fn remove_left() -> Vec<(libc::c_int, io::Result<()>)> {
    left().into_iter().map(|id| (id, remove(id))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_of_a_process_that_is_gone_is_removed_and_no_other() {
        let ours = SysvSet { id: create().unwrap(), owned: true };
        let mut there = [0; 2];
        // SAFETY: room for two descriptors; the child makes two sets, tells their identifiers and ends.
        let killed: [libc::c_int; 2] = unsafe {
            assert_eq!(libc::pipe(there.as_mut_ptr()), 0);
            let child = libc::fork();
            if child == 0 {
                let ids = [create().unwrap_or(-1), libc::semget(libc::IPC_PRIVATE, SIZE, 0o600)];
                libc::write(there[1], ids.as_ptr().cast(), size_of_val(&ids));
                libc::_exit(0);
            }
            let mut ids = [0; 2];
            libc::read(there[0], ids.as_mut_ptr().cast(), size_of_val(&ids));
            let mut ended: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, child.cast_unsigned(), &mut ended, libc::WEXITED | libc::WNOWAIT);
            assert!(left().contains(&ids[0]), "its parent has not waited for it");
            libc::waitpid(child, std::ptr::null_mut(), 0);
            ids
        };
        assert!(left().contains(&killed[0]) && !left().contains(&killed[1]) && !left().contains(&ours.id));
        let removed = remove_left();
        assert!(removed.iter().any(|(id, done)| *id == killed[0] && done.is_ok()), "{removed:?}");
        assert!(!left().contains(&killed[0]));
        // SAFETY: no pointers.
        assert_eq!(unsafe { libc::semctl(ours.id, 0, libc::GETVAL) }, 0, "ours is there");
        remove(killed[1]).unwrap(); // without the mark it may be another program's
    }
}

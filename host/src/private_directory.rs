//! A directory that no other user could have created before: in a world-writable place, a predictable name may already
//! be another user's link.

use std::ffi::{CString, OsString};
use std::io::{Error, Result};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Creates `PREFIX.XXXXXX` below `parent`, for this user only.
///
/// # Errors
/// Those of mkdtemp(3).
pub fn below(parent: &Path, prefix: &str) -> Result<PathBuf> {
    let template = parent.join(format!("{prefix}.XXXXXX")).into_os_string().into_vec();
    let template = CString::new(template)?.into_raw();
    // SAFETY: a NUL-terminated string that we own and that mkdtemp changes in place, keeping its length.
    let made = unsafe { libc::mkdtemp(template) };
    let error = Error::last_os_error();
    // SAFETY: comes from into_raw above, and has its old length.
    let path = unsafe { CString::from_raw(template) };
    match made.is_null() {
        true => Err(error),
        false => Ok(PathBuf::from(OsString::from_vec(path.into_bytes()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn each_is_a_new_one_for_this_user_alone() {
        let parent = tempfile::tempdir().unwrap();
        let made = [below(parent.path(), "x").unwrap(), below(parent.path(), "x").unwrap()];
        assert_ne!(made[0], made[1]);
        for one in made {
            assert_eq!(std::fs::metadata(one).unwrap().permissions().mode() & 0o777, 0o700);
        }
        assert!(below(&parent.path().join("absent"), "x").is_err());
    }
}

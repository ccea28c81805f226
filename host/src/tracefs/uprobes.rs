//! Uprobes of ours, found again after a `kill -9`: the name of their group, like that of an instance, contains the
//! creating process and its start time.

use std::fs::{self, OpenOptions};
use std::io::Write;

use super::instance::{lives, own_start_time};
use super::Tracefs;

const PREFIX: &str = "lathunt_npt_";
/// Name of the probe in its group.
pub(crate) const NAME: &str = "turn";
const FILE: &str = "uprobe_events";

/// A name for the group of this process.
pub(crate) fn group() -> String {
    format!("{PREFIX}{}_{}", std::process::id(), own_start_time())
}

/// Adds or removes a probe; the file is shared by all users, so only our own groups are named.
pub(crate) fn command(tracefs: &Tracefs, line: &str) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(tracefs.root().join(FILE))?.write_all(line.as_bytes())
}

/// Removes the probe of `group`, which no instance records any more.
pub(crate) fn remove(tracefs: &Tracefs, group: &str) -> std::io::Result<()> {
    command(tracefs, &format!("-:{group}/{NAME}"))
}

/// Groups whose creator has ended without removing them.
pub(super) fn left(tracefs: &Tracefs) -> Vec<String> {
    let text = fs::read_to_string(tracefs.root().join(FILE)).unwrap_or_default();
    let groups = text.lines().filter_map(|line| line.strip_prefix("p:")?.split('/').next());
    groups.filter(|group| is_left(tracefs, group) == Some(true)).map(str::to_owned).collect()
}

/// `None`: not ours.
fn is_left(tracefs: &Tracefs, group: &str) -> Option<bool> {
    let (process, started) = group.strip_prefix(PREFIX)?.split_once('_')?;
    Some(!lives(tracefs, process.parse().ok()?, started.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_belongs_to_its_maker_while_that_one_lives() {
        let root = tempfile::tempdir().unwrap();
        let tracefs = Tracefs { root: root.path().to_owned(), _mount: None };
        let is_left = |group: &str| is_left(&tracefs, group);
        assert_eq!(is_left(&group()), Some(false));
        assert_eq!(is_left(&format!("{}9", group())), Some(true), "its number was used again");
        assert_eq!(is_left("lathunt_npt_4194305_1"), Some(true));
        for other in ["perf_4194305_1", "lathunt_npt_4194305", "lathunt_npt_x_1"] {
            assert_eq!(is_left(other), None);
        }
        // In another PID namespace its maker has another number, but holds the instance that records the probe.
        let instance = root.path().join("instances/lathunt-npt-4194305-1");
        fs::create_dir_all(&instance).unwrap();
        assert_eq!(is_left("lathunt_npt_4194305_1"), Some(true));
        let _held = crate::private_directory::hold(&instance).unwrap();
        assert_eq!(is_left("lathunt_npt_4194305_1"), Some(false));
    }
}

//! The kind of a descriptor on which a thread waits: a timerfd, a socket, a pipe, a file. Looked up once, while its
//! process lives; a recording that ends after it still knows.

use std::collections::HashMap;

use lathunt_core::application::{Class, Place};
use lathunt_core::time::Tid;
use lathunt_core::trace::activation::Activation;

use crate::recorder;

/// Maximum number of descriptors remembered.
const LIMIT: usize = 1024;
/// A larger value is an address, not a descriptor.
const LARGEST: u64 = 1 << 16;

/// Descriptors by process.
#[derive(Default)]
pub(super) struct Files {
    known: HashMap<(Tid, u64), Option<String>>,
}

impl Files {
    /// Looks up the descriptor on which a thread blocked.
    pub fn see(&mut self, a: &Activation) {
        let key = (a.tgid, a.point.argument);
        if a.point.syscall < 0
            || key.1 >= LARGEST
            || self.known.len() >= LIMIT
            || self.known.contains_key(&key)
        {
            return;
        }
        let place = Place::of(a.point, recorder::syscall_name);
        if matches!(place.class, Class::Io | Class::Wait) && descriptor(&place.name) == Some(key.1) {
            let link = std::fs::read_link(format!("/proc/{}/fd/{}", key.0, key.1));
            self.known.insert(key, link.ok().map(|link| kind(&link.to_string_lossy())));
        }
    }

    /// `read 5` → `read 5 (timerfd)`, if known.
    pub fn describe(&self, process: Tid, place: &str) -> String {
        let known = descriptor(place).and_then(|fd| self.known.get(&(process, fd))?.as_ref());
        known.map_or_else(|| place.to_owned(), |what| format!("{place} ({what})"))
    }
}

fn descriptor(place: &str) -> Option<u64> {
    place.rsplit_once(' ')?.1.parse().ok()
}

/// `anon_inode:[timerfd]` → `timerfd`, `socket:[4711]` → `socket`; a path stays one.
fn kind(link: &str) -> String {
    let anonymous = link.strip_prefix("anon_inode:").unwrap_or(link).trim_matches(['[', ']']);
    match link.split_once(":[") {
        Some((kind, _)) if kind != "anon_inode" => kind.to_owned(),
        _ => anonymous.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_descriptors_become_what_they_are() {
        assert_eq!(kind("anon_inode:[timerfd]"), "timerfd");
        assert_eq!(kind("anon_inode:inotify"), "inotify");
        assert_eq!((kind("socket:[4711]"), kind("pipe:[5]")), ("socket".to_owned(), "pipe".to_owned()));
        assert_eq!(kind("/dev/ttyS0"), "/dev/ttyS0");
    }

    #[test]
    fn a_place_without_a_known_descriptor_stays_as_it_is() {
        let mut files = Files::default();
        files.known.insert((Tid(7), 5), Some("timerfd".to_owned()));
        assert_eq!(files.describe(Tid(7), "read 5"), "read 5 (timerfd)");
        for (process, place) in
            [(8, "read 5"), (7, "read 6"), (7, "clock_nanosleep"), (7, "futex FUTEX_WAIT 0x5")]
        {
            assert_eq!(files.describe(Tid(process), place), place);
        }
    }
}

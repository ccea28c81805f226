//! Sources that can end a wait for several events: descriptors of an epoll instance, by kind. With timers only, each job
//! of the thread has a known release.
//!
//! Looked up when the wait is first seen, and again at intervals, because a program may add descriptors. Not covered:
//! one that it adds and removes between two looks. The sets of poll and select are in the memory of the program: only
//! their size is known.

use std::collections::HashMap;
use std::fs;

use lathunt_core::time::{Mono, Ns, Tid};
use lathunt_core::trace::activation::{Activation, Point, Sources};

use crate::recorder;

/// Maximum number of epoll instances remembered.
const LIMIT: usize = 256;
/// Interval between two looks at one.
const AGAIN: Ns = Ns::from_ms(1_000);

/// Sources by process and descriptor.
#[derive(Default)]
pub(super) struct WaitSources {
    known: HashMap<(Tid, u64), (Mono, Sources)>,
}

impl WaitSources {
    /// The sources of the wait in which `a` ended.
    pub fn of(&mut self, a: &Activation) -> Sources {
        match recorder::syscall_name(a.point) {
            Some("poll" | "ppoll") => of_set(a.point),
            Some("epoll_wait" | "epoll_pwait" | "epoll_pwait2") => self.of_epoll(a),
            _ => Sources::Unknown,
        }
    }

    fn of_epoll(&mut self, a: &Activation) -> Sources {
        let key = (a.tgid, a.point.argument);
        let known = self.known.get(&key).copied();
        if let Some((_, sources)) = known.filter(|(looked, _)| a.blocked.since(*looked) < AGAIN) {
            return sources;
        }
        if known.is_none() && self.known.len() >= LIMIT {
            return Sources::Unknown;
        }
        let now = look(key.0, key.1);
        // Of a process that has ended, the last look counts.
        let sources = match (known, now) {
            (Some((_, before)), Some(now)) if now == before => now,
            (Some((_, before)), None) => before,
            (None, Some(now)) => now,
            (Some(_), Some(_)) | (None, None) => Sources::Unknown,
        };
        self.known.insert(key, (a.blocked, sources));
        sources
    }
}

/// poll without a set is a sleep. Of the number of descriptors, the low byte is known: 257 of them count as one.
fn of_set(point: Point) -> Sources {
    match (point.argument, point.operation) {
        (0, 0) => Sources::Timers,
        (_, 1) => Sources::Descriptor,
        _ => Sources::Unknown,
    }
}

/// `None`: the process or the descriptor does not exist any more.
fn look(process: Tid, epoll: u64) -> Option<Sources> {
    let text = fs::read_to_string(format!("/proc/{process}/fdinfo/{epoll}")).ok()?;
    let link = |fd: u64| fs::read_link(format!("/proc/{process}/fd/{fd}")).ok();
    Some(among(&text, |fd| link(fd).is_some_and(|link| link.as_os_str() == "anon_inode:[timerfd]")))
}

/// `text`: fdinfo of an epoll instance, a line `tfd: 5 events: …` for each descriptor (fs/eventpoll.c, since Linux 3.8).
fn among(text: &str, is_timer: impl Fn(u64) -> bool) -> Sources {
    let fds = text.lines().filter_map(|line| line.strip_prefix("tfd:"));
    let fds = fds.map(|rest| rest.split_whitespace().next().and_then(|fd| fd.parse().ok()));
    let (timers, others): (Vec<_>, Vec<_>) = fds.partition(|fd: &Option<u64>| fd.is_some_and(&is_timer));
    match (timers.len(), others.len()) {
        (0, 0) => Sources::Unknown,
        (_, 0) => Sources::Timers,
        (_, 1) => Sources::One,
        _ => Sources::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_poll_is_known_by_its_size() {
        let of = |argument, operation| of_set(Point { argument, operation, ..Point::default() });
        assert_eq!((of(0, 0), of(0x7f00, 1)), (Sources::Timers, Sources::Descriptor));
        assert_eq!((of(0x7f00, 2), of(0x7f00, 0)), (Sources::Unknown, Sources::Unknown));
    }

    #[test]
    fn descriptors_of_an_epoll_instance_are_timers_or_others() {
        let line = |fd: u64| format!("tfd:{fd:9} events:       19 data: 0  pos:0 ino:40d sdev:f\n");
        let of = |fds: &[u64]| {
            let lines: String = fds.iter().map(|&fd| line(fd)).collect();
            among(&format!("pos:\t0\nflags:\t02\nmnt_id:\t16\nino:\t1033\n{lines}"), |fd| fd < 10)
        };
        assert_eq!((of(&[4]), of(&[4, 5, 6])), (Sources::Timers, Sources::Timers));
        assert_eq!((of(&[11]), of(&[4, 11])), (Sources::One, Sources::One));
        assert_eq!((of(&[11, 12]), of(&[])), (Sources::Unknown, Sources::Unknown));
        assert_eq!(among("tfd: x", |_| true), Sources::One, "not known, so not a timer");
    }
}

//! Selected threads that slept from beginning to end: they have no activation, so no figure tells of them.

use lathunt_core::application::Place;
use lathunt_core::conditions::SLEPT_THROUGHOUT;
use lathunt_core::trace::activation::Activation;

use crate::recorder;

/// Maximum number of named threads.
const NAMED: usize = 16;

/// A line on `asleep`; `None`: there are none.
pub(super) fn note(mut asleep: Vec<Activation>) -> Option<String> {
    asleep.sort_by_key(|begun| begun.thread.tid);
    let name = |begun: &Activation| {
        format!("{} in {}", begun.thread.thread(), Place::of(begun.point, recorder::syscall_name).name)
    };
    let mut names: Vec<String> = asleep.iter().take(NAMED).map(name).collect();
    names.extend(asleep.len().checked_sub(NAMED).filter(|&more| more > 0).map(|more| format!("{more} more")));
    (!names.is_empty()).then(|| format!("{SLEPT_THROUGHOUT}{}", names.join("; ")))
}

#[cfg(test)]
mod tests {
    use lathunt_core::comm::Comm;
    use lathunt_core::time::{Prio, Tid};
    use lathunt_core::trace::activation::{Point, Who, WORDS};

    use super::*;

    fn asleep(tid: i32) -> Activation {
        let mut words = [0; WORDS];
        words[0] = 1;
        let comm = Comm::new(*b"worker\0\0\0\0\0\0\0\0\0\0");
        let point = Point { syscall: libc::SYS_read as i16, argument: 3, ..Point::default() };
        let thread = Who { tid: Tid(tid), prio: Prio(49), comm };
        Activation { thread, point, ..Activation::parse(&words, 0).unwrap() }
    }

    #[test]
    fn threads_that_never_woke_are_named_with_their_place() {
        assert_eq!(note(Vec::new()), None);
        let two = note(vec![asleep(8), asleep(7)]).unwrap();
        let of_each = "worker/7 (RT 50) in read 3; worker/8 (RT 50) in read 3";
        assert_eq!(
            two,
            format!("slept from beginning to end, so that no job of theirs is covered: {of_each}")
        );
        let many = note((1..=NAMED as i32 + 5).map(asleep).collect()).unwrap();
        assert!(
            many.contains("worker/16 ") && !many.contains("worker/17 ") && many.ends_with("; 5 more"),
            "{many}"
        );
    }
}

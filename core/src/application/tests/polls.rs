//! Threads that sleep between looks for work, by any call.

use super::*;

const MS: u64 = 1_000_000;
const RELATIVE: Point = Point { operation: 0, ..SLEEP };
const POLL: Point = Point { syscall: 7, argument: 0, operation: 0, compat: false, site: 0 };
const EPOLL: Point = Point { syscall: 232, argument: 4, operation: 0, compat: false, site: 0 };
const CONDITION: Point = Point { syscall: 202, argument: 0x2000, operation: 9, compat: false, site: 0 };

fn calls(point: Point) -> Option<&'static str> {
    match point.syscall {
        7 => Some("poll"),
        232 => Some("epoll_wait"),
        _ => name(point),
    }
}

/// Jobs of 1 to 3 ms, 10 ms after the previous one, all ended by timeouts of `place`, but one in `others` by a thread.
fn polling(place: Point, others: Option<u64>) -> Task {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(15)), calls);
    let mut at = 100 * MS;
    for job in 1..=200_u64 {
        let via = match others {
            Some(others) if job % others == 0 => Via::Thread,
            _ => Via::Timer,
        };
        let end = at + MS + job * job % 11 * (MS / 5);
        tasks.add(&Activation { blocked: Mono(end), ..activation(at, via, place) });
        at = end + 10 * MS;
    }
    tasks.report().remove(0)
}

#[test]
fn a_thread_notices_what_it_polls_for_as_late_as_it_sleeps_whatever_the_call() {
    for place in [RELATIVE, SLEEP, POLL, EPOLL, CONDITION] {
        let task = polling(place, None);
        assert_eq!(task.polls_every_ns, Some(Ns::from_ms(10)), "{:?}", task.waits_in);
    }
    for place in [EPOLL, CONDITION] {
        assert_eq!(polling(place, Some(20)).polls_every_ns, None, "it is woken if there is work");
    }
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(15)), calls);
    for job in 1..=200_u64 {
        let one = activation(job * 10 * MS, Via::Timer, SLEEP);
        tasks.add(&Activation { blocked: Mono(one.waking.0 + MS + job % 3 * MS), ..one });
    }
    assert_eq!(tasks.report().remove(0).polls_every_ns, None, "its times are computed");
}

#[test]
fn a_pause_within_the_job_of_a_periodic_thread_ends_no_job_whatever_the_call() {
    for pause in [RELATIVE, POLL] {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), calls);
        for job in 1..=100_u64 {
            let at = job * 100 * MS;
            let takes = if job == 50 { 40 } else { 5 };
            let first = activation(at, Via::Timer, pause);
            tasks.add(&Activation { blocked: Mono(at + 5 * MS), ..first });
            let second = activation(at + 15 * MS, Via::Timer, SLEEP);
            tasks.add(&Activation { blocked: Mono(at + (15 + takes) * MS), ..second });
        }
        let task = tasks.report().remove(0);
        assert_eq!((task.misses, task.other_end.as_ref()), (1, None), "{pause:?}");
    }
}

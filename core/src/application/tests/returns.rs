//! Waits that return at once, because their timer had expired.

use super::*;

const READ: Point = Point { syscall: 0, argument: 5, operation: 0, compat: false, site: 0 };
const EPOLL: Point = Point { syscall: 232, argument: 4, operation: 0, compat: false, site: 0 };
const MS: u64 = 1_000_000;

fn named(point: Point) -> Option<&'static str> {
    match point.syscall {
        0 => Some("read"),
        232 => Some("epoll_wait"),
        _ => name(point),
    }
}

/// A timer of 20 ms. Every tenth job takes `long`, the one after it, whose wait returns at once, 10 ms; others 1 ms. It
/// waits in `main`.
fn behind(main: Point, long: u64) -> Task {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), named);
    let at = |number: u64| number * 20 * MS;
    for number in (1..=200).filter(|number| number % 10 != 6) {
        let awake = activation(at(number), Via::Timer, main);
        let first = Activation { timer: Some((Mono(at(number)), Mono(at(number) + 10))), ..awake };
        match number % 10 {
            5 => {
                let due = at(number + 1);
                let end = at(number) + long;
                let late = LateSleeps { count: 1, last: Mono(due), most: Ns(end - due) };
                let one = Activation {
                    point: READ,
                    blocked: Mono(end),
                    stayed: true,
                    at_once: true,
                    late_sleeps: Some(late),
                    blocks: first.blocks - 1,
                    ..first
                };
                BLOCKS.with(|blocks| blocks.set(first.blocks));
                tasks.add(&one);
                let awake = activation(end, Via::Timer, main);
                tasks.add(&Activation {
                    timer: None,
                    waking: Mono(end),
                    switched_in: Mono(end),
                    blocked: Mono(end + 10 * MS),
                    awake: true,
                    armed_late: true,
                    ..awake
                });
            }
            _ => {
                tasks.add(&Activation { blocked: Mono(at(number) + MS), ..first });
            }
        }
    }
    tasks.report().remove(0)
}

#[test]
fn where_the_thread_waits_for_its_timer_each_expiry_is_a_job() {
    let task = behind(READ, 32 * MS);
    let response = &task.of(Quantity::Response).unwrap().histogram;
    assert_eq!((response.max(), response.count()), (Some(Ns(32 * MS)), 199));
    assert_eq!((task.misses, task.several_jobs, task.not_recorded), (0, None, 0));
    assert_eq!(task.period.unwrap().missed, 0);
    let late = behind(READ, 45 * MS);
    assert_eq!((late.misses, late.miss_max_ns), (20, Some(Ns(5 * MS))));
    assert_eq!(late.of(Quantity::Response).unwrap().histogram.max(), Some(Ns(45 * MS)));
}

#[test]
fn where_it_waits_elsewhere_a_turn_is_told_by_its_parts() {
    let task = behind(EPOLL, 32 * MS);
    assert_eq!(task.waits_in.as_deref(), Some("epoll_wait 4"));
    let response = &task.of(Quantity::Response).unwrap().histogram;
    assert_eq!((response.max(), response.count(), task.misses), (Some(Ns(32 * MS)), 199, 0));
    let several = task.several_jobs.unwrap();
    assert_eq!((several.turns, several.late), (20, 20));
    assert_eq!((several.longest_ns, several.certain_ns), (Ns(42 * MS), Ns(32 * MS)));
    assert!(task.is_late_by_doubt_alone(Ns::from_ms(40)) && task.blocking.is_empty(), "{:?}", task.blocking);
    assert_eq!(task.other_turns.iter().map(|other| other.longest_ns).max(), Some(Ns(42 * MS)));
    let late = behind(EPOLL, 45 * MS);
    assert_eq!((late.misses, late.of(Quantity::Response).unwrap().histogram.max()), (20, Some(Ns(45 * MS))));
    assert!(
        !late.is_late_by_doubt_alone(Ns::from_ms(40)) && late.several_jobs.is_none(),
        "{:?}",
        late.several_jobs
    );
}

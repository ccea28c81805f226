//! Waits that return at once, because their timer had expired.

use super::*;
use crate::trace::activation::Sources;

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
        let awake = Activation { sources: Sources::Timers, ..activation(at(number), Via::Timer, main) };
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
                    sources: Sources::Timers,
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

#[test]
fn what_a_thread_waits_for_before_its_first_job_is_not_where_its_jobs_begin() {
    const FSYNC: Point = Point { syscall: 74, argument: 3, operation: 0, compat: false, site: 0 };
    let named = |point: Point| if point.syscall == 74 { Some("fsync") } else { name(point) };
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), named);
    (1..=200).for_each(|number| {
        tasks.add(&activation(number * MS, Via::Interrupt, FSYNC));
    });
    for number in 3..=20 {
        let job = activation(number * 100 * MS, Via::Timer, SLEEP);
        let long = if number == 9 { 60 * MS } else { MS };
        tasks.add(&Activation { blocked: Mono(number * 100 * MS + long), ..job });
    }
    let task = tasks.report().remove(0);
    assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"));
    assert_eq!((task.activations, task.misses), (17, 1));
}

#[test]
fn a_job_that_was_due_while_its_thread_was_stopped_was_late_for_the_stop() {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name);
    tasks.ask_for_jobs(Ns::ZERO);
    for number in 1..=80 {
        tasks.add(&activation(number * 100 * MS, Via::Timer, SLEEP));
    }
    // Stopped 20 ms before its release, continued 60 ms after it; its sleep, which goes on, returns at once.
    let due = 8_100 * MS;
    tasks.add(&activation(due - 20 * MS, Via::Thread, SLEEP));
    let late = LateSleeps { count: 1, last: Mono(due), most: Ns(60 * MS) };
    let on = activation(due + 60 * MS, Via::Thread, SLEEP);
    let end = on.blocked;
    let on = Activation { stayed: true, at_once: true, late_sleeps: Some(late), blocks: on.blocks - 1, ..on };
    BLOCKS.with(|blocks| blocks.set(on.blocks + 1));
    tasks.add(&on);
    let job = activation(end.0, Via::Timer, SLEEP);
    tasks.add(&Activation { timer: None, switched_in: end, awake: true, armed_late: true, ..job });
    let late: Vec<Job> = tasks.take_jobs().into_iter().filter(|job| job.total() > Ns::from_ms(40)).collect();
    let backlog = late.iter().filter_map(|job| job.backlog.as_ref());
    assert_eq!(backlog.map(|backlog| &backlog.why).collect::<Vec<_>>(), [&StartDelay::Stopped], "{late:?}");
    let cause = main_cause(&late[0].parts(name), Ns::ZERO).unwrap();
    assert_eq!(
        cause,
        ("stopped in its wait, by a signal, a debugger or the freezer".to_owned(), Ns(60 * MS))
    );
}

#[test]
fn a_release_of_a_thread_that_was_stopped_in_its_wait_is_not_recorded() {
    const SEMAPHORE: Point = Point { operation: 9, ..LOCK };
    let of = |place: Point, via: Via| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name);
        for number in 1..=100 {
            let stops = number == 80;
            tasks.add(&Activation { stopped: stops, ..activation(number * 100 * MS, via, place) });
            if stops {
                tasks.add(&activation(number * 100 * MS + 60 * MS, Via::Thread, place));
            }
        }
        let task = tasks.report().remove(0);
        let response = task.of(Quantity::Response).unwrap();
        (response.lost, response.lost_within_ns.unwrap_or_default() >= Ns(60 * MS))
    };
    assert_eq!(of(SEMAPHORE, Via::Thread), (1, true));
    assert_eq!(of(SLEEP, Via::Timer), (0, false), "its end shows");
}

#[test]
fn a_timed_wait_elsewhere_is_no_part_of_a_job_of_a_thread_without_a_period() {
    const OTHER: Point = Point { syscall: 202, argument: 0x2000, operation: 9, compat: false, site: 0 };
    const WORK: Point = Point { argument: 0x3000, ..OTHER };
    // Released at irregular times; each third turn waits for 90 ms elsewhere, each tenth works for `works` after that.
    let of = |works: u64, elsewhere: Point| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name);
        let mut at = 0;
        for number in 1..=120_u64 {
            at += 200 * MS + number * number % 37 * 10 * MS;
            let first = activation(at, Via::Thread, if number % 3 == 0 { elsewhere } else { WORK });
            tasks.add(&first);
            if number % 3 == 0 {
                let again = activation(at + 90 * MS, Via::Timer, WORK);
                let long = if number % 30 == 0 { works } else { MS };
                tasks.add(&Activation { blocked: again.switched_in + Ns(long), ..again });
            }
        }
        tasks.report().remove(0)
    };
    let idle = of(MS, OTHER);
    assert_eq!(idle.waits_in.as_deref(), Some("futex FUTEX_WAIT_BITSET 0x3000"));
    assert!(idle.misses > 0 && idle.is_late_by_doubt_alone(Ns::from_ms(40)), "{:?}", idle.several_jobs);
    assert!(!of(60 * MS, OTHER).is_late_by_doubt_alone(Ns::from_ms(40)), "it worked for 60 ms");
    let slept = of(MS, SLEEP);
    assert_eq!(slept.waits_in, idle.waits_in);
    assert!(slept.misses > 0 && !slept.is_late_by_doubt_alone(Ns::from_ms(40)), "no release ends a sleep");
}

#[test]
fn a_thread_that_takes_turns_between_a_timer_and_a_sleep_has_jobs_of_one_or_of_both() {
    const TIMER: Point = Point { syscall: 0, argument: 3, operation: 0, compat: false, site: 0 };
    const RELATIVE: Point = Point { operation: 0, ..SLEEP };
    let calls = |point: Point| if point.syscall == 0 { Some("read") } else { name(point) };
    // Every 50 ms, by turns: `works` after the sleep, 30 ms after the read of the timer (or a relative sleep).
    let of = |works: u64, elsewhere: Point| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), calls);
        for number in 1..=120_u64 {
            let (works, next) = if number % 2 == 0 { (works, elsewhere) } else { (30 * MS, SLEEP) };
            let one = activation(number * 50 * MS, Via::Timer, next);
            tasks.add(&Activation { blocked: one.switched_in + Ns(works), ..one });
        }
        tasks.report().remove(0)
    };
    let both = of(20 * MS, TIMER);
    let several = both.several_jobs.unwrap();
    assert!(both.misses > 0 && both.is_late_by_doubt_alone(Ns::from_ms(40)), "{several:?}");
    assert!(several.longest_ns >= Ns::from_ms(80) && several.certain_ns < Ns::from_ms(31), "{several:?}");
    let late = of(45 * MS, TIMER);
    assert!(!late.is_late_by_doubt_alone(Ns::from_ms(40)), "{:?}", late.several_jobs);
    assert!(!of(20 * MS, RELATIVE).is_late_by_doubt_alone(Ns::from_ms(40)), "a sleep within a job");
}

#[test]
fn a_job_that_polls_with_short_sleeps_starts_at_its_release_and_not_at_one_of_them() {
    const TIMER: Point = Point { syscall: 0, argument: 3, operation: 0, compat: false, site: 0 };
    const EVENT: Point = Point { syscall: 202, argument: 0x2000, operation: 9, compat: false, site: 0 };
    const RELATIVE: Point = Point { operation: 0, ..SLEEP };
    let calls = |point: Point| if point.syscall == 0 { Some("read") } else { name(point) };
    // Released in `place` each 100 ms (or at any time); polls each 1 ms, `polls` times.
    let of = |place: Point, via: Via, polls: u64, steady: bool| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), calls);
        let mut at = 100 * MS;
        for number in 0..60_u64 {
            let late = if steady { 0 } else { number * number % 37 * 10 * MS };
            at += 100 * MS + late;
            tasks.add(&activation(at, via, RELATIVE));
            for poll in 1..=polls {
                let next = if poll == polls { place } else { RELATIVE };
                tasks.add(&activation(at + poll * MS, Via::Timer, next));
            }
        }
        tasks.report().remove(0)
    };
    for (place, via) in [(SLEEP, Via::Timer), (TIMER, Via::Timer), (EVENT, Via::Thread)] {
        for polls in [10, 30, 60] {
            let task = of(place, via, polls, true);
            let longest = task.of(Quantity::Response).and_then(|of| of.histogram.max()).unwrap();
            assert!(longest.0.abs_diff(polls * MS) < MS, "{place:?}, {polls} polls: {longest}");
        }
    }
    let any = of(EVENT, Via::Thread, 30, false);
    assert!(any.misses == 0 || any.is_late_by_doubt_alone(Ns::from_ms(40)), "{:?}", any.several_jobs);
}

#[test]
fn a_job_with_many_waits_starts_at_its_sleep_until_an_absolute_time() {
    const CHILD: Point = Point { syscall: 61, argument: 0, operation: 0, compat: false, site: 0 };
    let calls = |point: Point| if point.syscall == 61 { Some("wait4") } else { name(point) };
    for waits in [2, 30, 41, 60] {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), calls);
        for number in 1..=30_u64 {
            let at = number * 100 * MS;
            tasks.add(&activation(at, Via::Timer, CHILD));
            for wait in 1..=waits {
                let next = if wait == waits { SLEEP } else { CHILD };
                tasks.add(&activation(at + wait * MS / 10, Via::Thread, next));
            }
        }
        let task = tasks.report().remove(0);
        let longest = task.of(Quantity::Response).and_then(|of| of.histogram.max()).unwrap();
        assert!(task.misses == 0 && longest < Ns::from_ms(22), "{waits}: {longest}");
    }
}

#[test]
fn who_only_created_a_thread_is_not_taken_to_queue_jobs_for_it() {
    // Thread 9 releases a job each 100 ms; each tenth takes 45 ms. `main` (thread 1) runs each 10 ms.
    let of = |wakes: bool| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), named);
        let mut slept = 0;
        let mut main = |at: u64| {
            slept += 1;
            let one = activation(at, Via::Timer, SLEEP);
            Activation { thread: thread(1, "main"), blocks: slept, ..one }
        };
        let created = activation(MS, Via::Thread, READ);
        tasks.add(&Activation { waker: thread(1, "main"), blocks: 1, ..created });
        for number in 1..=200u64 {
            let at = number * 100 * MS;
            let release = activation(at, Via::Thread, READ);
            let by = if wakes && number == 2 { 1 } else { 9 };
            let took = if number % 10 == 5 { 45 * MS } else { MS };
            for k in (0..5).map(|k| k * 10 * MS).chain((0..5).map(|k| 92 * MS + k * 10 * MS)) {
                tasks.add(&main(at - 90 * MS + k));
            }
            let blocks = number as u16 + 1;
            tasks.add(&Activation { waker: thread(by, "by"), blocked: Mono(at + took), blocks, ..release });
        }
        let task = tasks.report().into_iter().find(|task| task.thread.tid == Tid(7)).unwrap();
        (task.misses, task.several_jobs.is_some())
    };
    assert_eq!(of(false), (20, false), "its late jobs are certain");
    assert_eq!(of(true), (20, true), "who has released one job may have released another");
}

#[test]
fn a_thread_that_begins_behind_its_own_schedule_was_not_stopped() {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), name);
    tasks.ask_for_jobs(Ns::ZERO);
    // It starts at 1 s, and its first release was 100 ms before that: its first sleeps return at once.
    let passed = |due: u64, one: Activation| {
        let late = LateSleeps { count: 1, last: Mono(due), most: one.blocked.since(Mono(due)) };
        Activation { at_once: true, stayed: true, late_sleeps: Some(late), blocks: 0, ..one }
    };
    let goes_on = |at: Mono| {
        let one = activation(at.0, Via::Timer, SLEEP);
        Activation { timer: None, switched_in: at, awake: true, armed_late: true, ..one }
    };
    let first = passed(900 * MS, activation(1_000 * MS, Via::Thread, SLEEP));
    tasks.add(&first);
    let mut at = first.blocked;
    for due in (910..1_000).step_by(10) {
        let next = passed(due * MS, goes_on(at));
        at = next.blocked;
        tasks.add(&next);
    }
    BLOCKS.with(|blocks| blocks.set(1));
    tasks.add(&goes_on(at));
    for number in 0..80 {
        tasks.add(&activation((1_010 + number * 10) * MS, Via::Timer, SLEEP));
    }
    let late: Vec<Job> = tasks.take_jobs().into_iter().filter(|job| job.total() > Ns::from_ms(40)).collect();
    assert!(!late.is_empty());
    for job in &late {
        let cause = main_cause(&job.parts(name), Ns::ZERO).unwrap().0;
        assert!(cause == "behind its own schedule" && job.is_behind(name), "{job:?}");
    }
}

//! Synthetic applications with known figures.

mod bounds;
mod coverage;
mod inputs;
mod later;
mod overruns;
mod polls;
mod renamed;
mod returns;
mod windows;

use self::overruns::overran;
use super::*;
use crate::comm::Comm;
use crate::series::{Quantity, Series};
use crate::time::{Cpu, Mono, Prio};
use crate::trace::activation::{LateSleeps, Point, Via, Who};

pub(super) fn name(point: Point) -> Option<&'static str> {
    match point.syscall {
        230 => Some("clock_nanosleep"),
        202 => Some("futex"),
        _ => None,
    }
}

fn thread(tid: i32, comm: &str) -> Who {
    Who { tid: Tid(tid), prio: Prio::from_rt(80), comm: Comm::cut(comm) }
}

thread_local! {
    /// What the kernel counts of the thread.
    static BLOCKS: std::cell::Cell<u16> = const { std::cell::Cell::new(0) };
}

pub(super) const SLEEP: Point = Point { syscall: 230, argument: 1, operation: 1, compat: false, site: 0 };
pub(super) const LOCK: Point =
    Point { syscall: 202, argument: 0x1000, operation: 128 + 6, compat: false, site: 0 };
const FAULT: Point = Point { syscall: -1, argument: 0, operation: 0, compat: false, site: 0 };

/// Woken at `at` (by a timer: programmed 2 µs earlier), runs from 3 µs later for 50 µs, blocks in `point`.
pub(super) fn activation(at: u64, via: Via, point: Point) -> Activation {
    Activation {
        sources: Default::default(),
        by_timerfd: false,
        thread: thread(7, "control"),
        tgid: Tid(6),
        policy: 1,
        cpu: Cpu(0),
        waking: Mono(at),
        timer: (via == Via::Timer).then(|| (Mono(at - 2_000), Mono(at - 1_000))),
        switched_in: Mono(at + 3_000),
        blocked: Mono(at + 53_000),
        execution: Ns(50_000),
        preemptions: 0,
        faults: u16::from(point == FAULT),
        fault_address: 0,
        point,
        site: 0,
        stack: 0,
        source: 0,
        via,
        waker: thread(9, "low"),
        waker_cpu: Cpu(0),
        before: thread(0, "swapper/0"),
        shared: false,
        armed_late: false,
        armed_after: Ns::ZERO,
        rounded: Ns::ZERO,
        contended: false,
        awake: false,
        stayed: false,
        after_unseen: false,
        at_once: false,
        was_reserved: false,
        out_of_quota: false,
        stopped: false,
        woken_out_of_quota: false,
        after_several: false,
        slack: Ns::ZERO,
        blocks: BLOCKS.with(|blocks| blocks.replace(blocks.get().wrapping_add(1))),
        late_sleeps: None,
    }
}

/// 1 kHz; every tenth turn waits 400 µs for a lock, every hundredth 200 µs for a page.
fn control(turns: u64) -> Tasks {
    let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
    for turn in 1..=turns {
        let at = turn * 1_000_000;
        let middle = match turn {
            turn if turn % 100 == 5 => Some((FAULT, 200_000, Via::Interrupt)),
            turn if turn % 10 == 0 => Some((LOCK, 400_000, Via::Thread)),
            _ => None,
        };
        match middle {
            Some((point, wait, via)) => {
                tasks.add(&activation(at, Via::Timer, point));
                tasks.add(&activation(at + 53_000 + wait, via, SLEEP));
            }
            None => {
                tasks.add(&activation(at, Via::Timer, SLEEP));
            }
        }
    }
    tasks
}

#[test]
fn the_lock_and_the_page_fault_of_a_periodic_thread_are_named_counted_and_sized() {
    let report = control(1_001).report();
    let task = &report[0];
    assert_eq!((task.waits_in.as_deref(), task.timer_driven), (Some("clock_nanosleep TIMER_ABSTIME"), true));
    assert_eq!(task.activations, 1_000, "the first turn has no known begin");
    assert_eq!(task.period.as_ref().unwrap().median_ns, Ns::from_ms(1));
    assert_eq!(task.period.as_ref().unwrap().jitter_max_ns, Ns(0));
    let found: Vec<_> = task.blocking.iter().map(|b| (b.class, b.count, b.max_ns)).collect();
    assert_eq!(found, [(Class::Lock, 100, Ns(400_000)), (Class::PageFault, 10, Ns(200_000))]);
    assert_eq!(task.blocking[0].released_by.as_ref().unwrap().comm, "low");
    assert_eq!(task.blocking[1].released_by, None);
    assert_eq!(task.page_faults, 10);
    let response = &task.of(Quantity::Response).unwrap().histogram;
    assert_eq!((response.min(), response.max()), (Some(Ns(55_000)), Some(Ns(508_000))));
    assert_eq!(task.misses, 110, "55 + 400 + 53 µs and 55 + 200 + 53 µs are beyond 300 µs");
    assert_eq!(task.execution.as_ref().unwrap().max_ns, Ns(100_000));
    assert_eq!(task.of(Quantity::TimerWakeup).unwrap().histogram.max(), Some(Ns(5_000)));
}

#[test]
fn a_thread_that_waits_as_often_for_a_lock_as_for_its_timer_is_driven_by_the_timer() {
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..=100 {
        tasks.add(&activation(turn * 1_000_000, Via::Timer, LOCK));
        tasks.add(&activation(turn * 1_000_000 + 100_000, Via::Thread, SLEEP));
    }
    let task = tasks.report().remove(0);
    assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"));
    assert_eq!((task.activations, task.blocking[0].count), (99, 100));
    assert_eq!(task.deadline_ns, Some(Ns::from_ms(1)), "without a deadline the period is one");
}

/// The two words of a condition variable alternately, and its mutex, which the signalling thread still owns.
#[test]
fn a_thread_that_waits_for_a_condition_has_one_turn_for_each_signal() {
    let mut tasks = Tasks::new(4, None, name);
    let futex = |operation: u8, argument| Point {
        syscall: 202,
        argument,
        operation: 128 + operation,
        compat: false,
        site: 0,
    };
    for turn in 1..=400 {
        let (at, word) = (turn * 1_000_000, 0x1268 + 4 * (turn % 2));
        if turn % 4 != 3 {
            tasks.add(&activation(at, Via::Thread, futex(0, 0x1240)));
            tasks.add(&activation(at + 100_000, Via::Thread, futex(9, word)));
            continue;
        }
        tasks.add(&activation(at, Via::Thread, futex(9, word)));
    }
    let task = tasks.report().remove(0);
    assert_eq!(task.waits_in.as_deref(), Some("futex FUTEX_WAIT_BITSET 0x1268"));
    assert_eq!((task.activations, task.period.unwrap().median_ns), (399, Ns::from_ms(1)));
    let mutex: Vec<_> = task.blocking.iter().map(|b| (b.place.as_str(), b.count)).collect();
    assert_eq!(mutex, [("futex FUTEX_WAIT 0x1240", 300)]);
}

#[test]
fn a_thread_whose_every_wait_may_be_a_mutex_is_driven_by_the_most_frequent() {
    let mut tasks = Tasks::new(4, None, name);
    let futex = |argument| Point { syscall: 202, argument, operation: 0, compat: false, site: 0 };
    for turn in 1..=100 {
        tasks.add(&activation(
            turn * 1_000_000,
            Via::Thread,
            if turn % 2 == 0 { FAULT } else { futex(0x40) },
        ));
        tasks.add(&activation(turn * 1_000_000 + 500_000, Via::Thread, futex(0x80)));
    }
    assert_eq!(tasks.report().remove(0).waits_in.as_deref(), Some("futex FUTEX_WAIT 0x80"));
}

#[test]
fn a_thread_that_begins_behind_its_timer_is_driven_by_it_all_the_same() {
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..=200 {
        let release = turn * 1_000_000;
        let late = LateSleeps { count: 1, last: Mono(release), most: Ns::from_ms(40) };
        if turn <= 40 {
            let unslept = activation(release + 100_000, Via::Thread, LOCK);
            tasks.add(&Activation { late_sleeps: Some(late), ..unslept });
        } else {
            tasks.add(&activation(release, Via::Timer, LOCK));
            tasks.add(&activation(release + 100_000, Via::Thread, SLEEP));
        }
    }
    let task = tasks.report().remove(0);
    assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"));
    assert_eq!((task.period.unwrap().median_ns, task.late_sleeps), (Ns::from_ms(1), 40));
}

#[test]
fn whole_periods_without_a_release_are_missed_and_no_jitter() {
    let mut tasks = Tasks::new(4, None, name);
    for turn in (1..=200).filter(|turn| *turn != 150 && *turn != 151) {
        tasks.add(&activation(turn * 1_000_000, Via::Timer, SLEEP));
    }
    let period = tasks.report().remove(0).period.unwrap();
    assert_eq!((period.median_ns, period.missed, period.jitter_max_ns), (Ns::from_ms(1), 2, Ns(0)));
}

#[test]
fn a_few_activations_are_judged_too_and_threads_beyond_the_limit_are_counted() {
    let mut tasks = control(3);
    assert_eq!(tasks.report()[0].activations, 2);
    for tid in 20..30 {
        tasks.add(&Activation { thread: thread(tid, "many"), ..activation(1_000_000, Via::Thread, LOCK) });
    }
    assert_eq!((tasks.report().len(), tasks.not_kept()), (5, 7));
    assert!(tasks.report().iter().all(|task| task.period.is_none() || task.thread.tid == Tid(7)));
    let others = tasks.report().into_iter().find(|task| task.thread.comm == OTHERS).unwrap();
    assert_eq!(others.of(Quantity::Wakeup).unwrap().histogram.count(), 7);
    tasks.begin_window();
    assert!(tasks.report().is_empty() && tasks.not_kept() == 7);
}

#[test]
fn a_thread_that_is_silent_for_long_makes_room_and_nothing_it_did_is_lost() {
    const SECOND: u64 = 1_000_000_000;
    let mut tasks = control(100);
    let known = tasks.report().remove(0);
    let of =
        |tid: i32, at: u64| Activation { thread: thread(tid, "new"), ..activation(at, Via::Thread, SLEEP) };
    for tid in 20..23 {
        tasks.add(&of(tid, 5 * SECOND));
    }
    tasks.add(&of(30, 6 * SECOND));
    assert_eq!(tasks.not_kept(), 1, "nobody has been silent for long enough");
    tasks.add(&of(31, 6 * SECOND + 1));
    tasks.add(&of(31, 12 * SECOND));
    assert_eq!(tasks.not_kept(), 2, "there was room for the last one");
    let report = tasks.report();
    assert!(
        report.iter().all(|task| task.thread.tid != Tid(7))
            && report.iter().any(|task| task.thread.tid == Tid(31))
    );
    let others = report.into_iter().find(|task| task.thread.comm == OTHERS).unwrap();
    let wakeups = |task: &Task| task.of(Quantity::Wakeup).unwrap().histogram.count();
    assert_eq!(wakeups(&others), wakeups(&known) + 2);
    assert_eq!((others.activations, others.misses), (known.activations, known.misses));
    assert_eq!(others.largest(), known.largest());
}

#[test]
fn what_a_turn_overran_is_a_miss_also_where_its_begin_or_its_end_was_not_recorded() {
    const MS: u64 = 1_000_000;
    let mut tasks = Tasks::new(4, None, name);
    for turn in 1..200 {
        let regular = activation(turn * MS, Via::Timer, SLEEP);
        match turn {
            // Not recorded; the next one has overrun two releases.
            100 => {}
            101 => drop(tasks.add(&overran(regular, 2, (turn + 2) * MS, 300_000))),
            102 | 103 => BLOCKS.with(|blocks| blocks.set(blocks.get().wrapping_sub(1))),
            // It overran one release before it waited for a lock; the rest was not recorded.
            150 => {
                let late = overran(regular, 1, (turn + 1) * MS, 200_000);
                tasks.add(&Activation { point: LOCK, ..late });
            }
            151 => {}
            _ => drop(tasks.add(&regular)),
        }
    }
    let task = tasks.report().remove(0);
    assert_eq!((task.not_recorded, task.late_sleeps), (2, 3));
    // The last release that was overrun by the first of them ended 300 µs after it: no miss.
    assert_eq!((task.misses, task.miss_max_ns), (3, Some(Ns(300_000))));
}

#[test]
fn the_holder_named_is_the_one_of_the_longest_wait_that_a_thread_ended() {
    let mut tasks = Tasks::new(4, None, name);
    // Longest: ended by an interrupt. Of the others 300 µs, ended by `low`, is the longest.
    let waits = [
        (900, Via::Interrupt, "irq"),
        (10, Via::Thread, "a"),
        (300, Via::Thread, "low"),
        (20, Via::Thread, "b"),
    ];
    for (turn, (wait, via, waker)) in (1..).zip(waits) {
        let at = turn * 10_000_000;
        tasks.add(&activation(at, Via::Timer, LOCK));
        let released = activation(at + 53_000 + wait * 1_000, via, SLEEP);
        tasks.add(&Activation { waker: thread(9, waker), ..released });
    }
    let blocking = tasks.report().remove(0).blocking;
    let lock = blocking.iter().find(|blocking| blocking.class == Class::Lock).unwrap();
    assert_eq!(lock.released_by.as_ref().map(|by| by.comm.as_str()), Some("low"), "{lock:?}");
}

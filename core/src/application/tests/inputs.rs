//! Waits for input from another thread between the timer of a job and its end.

use super::*;

const READ: Point = Point { syscall: 0, argument: 5, operation: 0, compat: false, site: 0 };
const MS: u64 = 1_000_000;
const DEADLINE: Ns = Ns::from_ms(40);

fn calls(point: Point) -> Option<&'static str> {
    if point.syscall == 0 {
        Some("read")
    } else {
        name(point)
    }
}

/// Released every 100 ms, works for `works`, waits for input, which comes at `comes` (given the end of that work), and
/// works for 1 ms more; at 0: it does not wait. `asks`: it wakes the thread that answers. Times within the period, in ms.
fn of(works: impl Fn(u64) -> u64, comes: impl Fn(u64) -> u64, asks: bool) -> Task {
    from(works, comes, asks, false)
}

/// The same; `ours`: the input comes from a thread of its process.
fn from(works: impl Fn(u64) -> u64, comes: impl Fn(u64) -> u64, asks: bool, ours: bool) -> Task {
    let mut tasks = Tasks::new(4, Some(DEADLINE), calls);
    let mut blocks = 0;
    for job in 1..=100_u64 {
        let at = job * 100 * MS;
        let work = works(job);
        if comes(work) == 0 {
            let whole = Activation { blocks, ..activation(at, Via::Timer, SLEEP) };
            tasks.add(&Activation { blocked: Mono(at + work * MS), ..whole });
            blocks += 1;
            continue;
        }
        let first = Activation { blocks, ..activation(at, Via::Timer, READ) };
        tasks.add(&Activation { blocked: Mono(at + work * MS), ..first });
        let tgid = if ours { first.tgid } else { Tid(9) };
        if asks {
            let asked = Activation { waker: thread(7, "control"), ..activation(at + MS, Via::Thread, READ) };
            tasks.add(&Activation { thread: thread(9, "low"), tgid, blocks: 20 + 2 * job as u16, ..asked });
        }
        let input = at + comes(work) * MS;
        let fed = Activation { blocks: blocks + 1, ..activation(input, Via::Thread, SLEEP) };
        if ours {
            let sent = Activation { thread: fed.waker, ..activation(input - MS, Via::Timer, SLEEP) };
            let blocks = 20 + if asks { 2 * job as u16 + 1 } else { job as u16 };
            tasks.add(&Activation { blocks, blocked: Mono(input + MS / 2), ..sent });
        }
        tasks.add(&Activation { blocked: Mono(input + MS), ..fed });
        blocks += 2;
    }
    let tasks = tasks.report();
    tasks.into_iter().find(|task| task.thread.tid == Tid(7)).unwrap()
}

fn varying(job: u64) -> u64 {
    1 + job * job % 11
}

#[test]
fn input_that_comes_at_its_own_times_may_be_the_release_of_another_job() {
    let task = of(varying, |_| 60, false);
    assert_eq!(task.waits_in.as_deref(), Some("clock_nanosleep TIMER_ABSTIME"));
    assert!(task.misses > 0 && task.is_late_by_doubt_alone(DEADLINE), "{:?}", task.several_jobs);
    assert!(task.several_jobs.unwrap().certain_ns < Ns::from_ms(12));
    let ours = from(varying, |_| 60, false, true);
    assert!(!ours.is_late_by_doubt_alone(DEADLINE), "a thread of its process works for it");
    let long = of(|job| if job == 50 { 45 } else { varying(job) }, |_| 60, false);
    assert!(!long.is_late_by_doubt_alone(DEADLINE), "its first part alone is late");
}

#[test]
fn an_answer_is_part_of_the_job_that_asked_for_it() {
    let answer = of(varying, |work| work + 45, false);
    assert!(answer.misses == 99 && !answer.is_late_by_doubt_alone(DEADLINE), "{:?}", answer.several_jobs);
    let early = of(varying, |_| 60, true);
    assert!(early.misses == 99 && !early.is_late_by_doubt_alone(DEADLINE), "asked for before the work");
    let always = of(|_| 5, |_| 60, false);
    assert!(!always.is_late_by_doubt_alone(DEADLINE), "nothing shows it");
}

#[test]
fn a_wait_for_a_thread_that_was_not_asked_may_end_the_job() {
    let end = |task: Task| task.may_end_earlier().cloned();
    let ours = end(from(varying, |_| 60, false, true)).unwrap();
    assert_eq!((ours.place.as_str(), ours.late), ("read 5", 0));
    assert!(ours.longest_ns < Ns::from_ms(12), "{ours:?}");
    let long = end(from(|job| if job == 50 { 45 } else { varying(job) }, |_| 60, false, true)).unwrap();
    assert_eq!((long.longest_ns.0 / MS, long.late), (45, 1));
    assert_eq!(end(from(varying, |_| 60, true, true)), None, "each wait is for an answer");
    let rarely = |work| if work > 9 { 60 } else { 0 };
    assert_eq!(end(from(varying, rarely, false, true)), None, "most jobs do not wait there");
}

#[test]
fn a_thread_that_others_wake_for_this_one_was_asked_by_it() {
    const SEMAPHORE: Point = Point { operation: 128 + 9, ..LOCK };
    let of = |times: u64| {
        let mut tasks = Tasks::new(8, Some(DEADLINE), name);
        for job in 1..=times {
            for (nth, (tid, by)) in [(9, 7), (11, 9), (7, 11)].into_iter().enumerate() {
                let one = activation(job * 100 * MS + nth as u64 * MS, Via::Thread, SEMAPHORE);
                let (thread, waker) = (thread(tid, "woken"), thread(by, "waker"));
                tasks.add(&Activation { thread, waker, blocks: job as u16 + 5, ..one });
            }
        }
        tasks.logs[&Tid(7)].asks().to_vec()
    };
    assert_eq!(of(2), [], "it may have created the one, and ended the other");
    assert_eq!(of(20), [Tid(9), Tid(11), Tid(7)]);
}

#[test]
fn a_futex_with_other_values_than_a_mutex_is_none() {
    const FUTEX: Point = Point { operation: 128, ..LOCK };
    let causes = |contended: fn(u64) -> bool| {
        let mut tasks = Tasks::new(4, Some(DEADLINE), name);
        tasks.ask_for_jobs(Ns::ZERO);
        for job in 1..=20_u64 {
            let at = job * 100 * MS;
            tasks.add(&Activation { contended: contended(job), ..activation(at, Via::Timer, FUTEX) });
            tasks.add(&activation(at + 60 * MS, Via::Thread, SLEEP));
        }
        tasks.end(Mono(3_000 * MS), |_| None);
        let causes = tasks.report().remove(0).late_causes;
        causes.iter().filter(|of| of.cause.starts_with("mutex")).map(|of| of.jobs).sum::<u64>()
    };
    assert_eq!(causes(|_| true), 19);
    assert_eq!(causes(|job| job == 5), 0, "a barrier counts");
}

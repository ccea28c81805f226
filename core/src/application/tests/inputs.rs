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
/// works for 1 ms more. `asks`: it wakes the thread that answers. Times within the period, in ms.
fn of(works: impl Fn(u64) -> u64, comes: impl Fn(u64) -> u64, asks: bool) -> Task {
    from(works, comes, asks, false)
}

/// The same; `ours`: the input comes from a thread of its process.
fn from(works: impl Fn(u64) -> u64, comes: impl Fn(u64) -> u64, asks: bool, ours: bool) -> Task {
    let mut tasks = Tasks::new(4, Some(DEADLINE), calls);
    for job in 1..=100_u64 {
        let (at, blocks) = (job * 100 * MS, job as u16 * 2);
        let work = works(job);
        let first = Activation { blocks, ..activation(at, Via::Timer, READ) };
        tasks.add(&Activation { blocked: Mono(at + work * MS), ..first });
        if asks {
            let asked = Activation { waker: thread(7, "control"), ..activation(at + MS, Via::Thread, READ) };
            tasks.add(&Activation {
                thread: thread(9, "low"),
                tgid: Tid(9),
                blocks: 20 + job as u16,
                ..asked
            });
        }
        let input = at + comes(work) * MS;
        let fed = Activation { blocks: blocks + 1, ..activation(input, Via::Thread, SLEEP) };
        if ours {
            let sent = Activation { thread: fed.waker, ..activation(input - MS, Via::Timer, SLEEP) };
            tasks.add(&Activation { blocks: 20 + job as u16, blocked: Mono(input + MS / 2), ..sent });
        }
        tasks.add(&Activation { blocked: Mono(input + MS), ..fed });
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

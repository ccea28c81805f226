//! Threads that change how they wait, and wake-ups that are not what they seem.

use super::*;

const READ: Point = Point { syscall: 0, argument: 5, operation: 0, compat: false, site: 0 };
const MS: u64 = 1_000_000;

fn calls(point: Point) -> Option<&'static str> {
    if point.syscall == 0 {
        Some("read")
    } else {
        name(point)
    }
}

/// A thread with 5 ms between its jobs; each part waits in a place, and its job in the middle takes some ms.
fn changing(parts: &[(Point, u64, u64)]) -> Vec<Task> {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(65)), calls);
    let end = change(&mut tasks, parts);
    let blocks = BLOCKS.with(|blocks| blocks.get().wrapping_sub(1));
    tasks.end(end, |_| Some(blocks));
    tasks.report()
}

/// Adds its activations; returns the time after the last one.
fn change(tasks: &mut Tasks, parts: &[(Point, u64, u64)]) -> Mono {
    let mut at = 100 * MS;
    for &(place, jobs, longest) in parts {
        for job in 0..jobs {
            let takes = if job == jobs / 2 { longest * MS } else { MS / 2 };
            let one = activation(at, Via::Timer, place);
            tasks.add(&Activation { blocked: Mono(at + takes), ..one });
            at += takes.next_multiple_of(5 * MS);
        }
    }
    Mono(at)
}

fn longest(task: &Task) -> Ns {
    task.of(Quantity::Response).unwrap().histogram.max().unwrap()
}

#[test]
fn jobs_after_a_change_of_the_main_wait_have_figures_of_their_own() {
    let tasks = changing(&[(SLEEP, 200, 60), (READ, 200, 70)]);
    let [first, second] = &tasks[..] else { panic!("{tasks:?}") };
    assert!(first.waits_in.as_deref().unwrap().starts_with("clock_nanosleep"));
    assert_eq!(second.waits_in.as_deref(), Some("read 5"));
    assert!(longest(first).0.abs_diff(60 * MS) < MS && longest(second).0.abs_diff(70 * MS) < MS);
    assert_eq!((first.misses, second.misses), (0, 1));
    assert!(second.activations >= 190 && first.outside_ns > Some(Ns::from_ms(1_000)), "{first:?}");
    assert!(first.late_end().is_none(), "the program waits elsewhere, its last job need not be late");
}

#[test]
fn a_late_job_after_a_change_of_the_main_wait_is_late_when_it_ends_and_is_a_case_of_its_window() {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(65)), calls);
    tasks.ask_for_jobs(Ns::from_ms(20));
    let late = |jobs: Vec<Job>| -> Vec<Standing> {
        jobs.iter().filter(|job| job.total() > Ns::from_ms(65)).map(|job| job.standing).collect()
    };
    let end = change(&mut tasks, &[(SLEEP, 200, 60), (READ, 200, 70)]);
    assert_eq!(late(tasks.take_jobs()), [Standing::AtLeast]);
    tasks.ends_window();
    assert_eq!(late(tasks.take_jobs()), [Standing::Settled]);
    tasks.begin_window();
    let mut few = activation(end.0 + 5_000 * MS, Via::Timer, READ);
    few.blocked = Mono(few.waking.0 + 80 * MS);
    tasks.add(&few);
    let task = tasks.report().into_iter().find(|task| task.activations > 0).unwrap();
    assert_eq!((task.misses, task.waits_in.as_deref()), (1, Some("read 5")), "one job in the window");
}

#[test]
fn a_chain_goes_on_when_its_first_thread_changes_its_main_wait() {
    let names = ["control", "second"].map(str::to_owned);
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(40)), calls).with_chain(&names);
    let (mut at, mut blocks) = (100 * MS, 0);
    for (place, late) in [(SLEEP, 0), (READ, 100)] {
        for job in 1..=200 {
            let takes = if job == late { 60 * MS } else { MS / 2 };
            let one = activation(at, Via::Timer, place);
            tasks.add(&Activation { blocked: Mono(at + MS), ..one });
            let woken = Activation { waker: one.thread, ..activation(at + MS / 2, Via::Thread, LOCK) };
            let second = Activation { thread: thread(8, "second"), blocks, ..woken };
            BLOCKS.with(|blocks| blocks.set(blocks.get().wrapping_sub(1)));
            tasks.add(&Activation { blocked: Mono(second.switched_in.0 + takes), ..second });
            (at, blocks) = (at + takes.next_multiple_of(5 * MS), blocks + 1);
        }
    }
    tasks.end(Mono(at), |_| None);
    let chain = tasks.report().into_iter().find(|task| task.chain.is_some()).unwrap();
    assert!(longest(&chain).0.abs_diff(60 * MS) < MS && chain.activations > 390, "{chain:?}");
}

#[test]
fn what_returns_to_its_main_wait_was_one_job_however_often_it_waited() {
    let tasks = changing(&[(SLEEP, 200, 60), (READ, 200, 70), (SLEEP, 100, 1)]);
    let [only] = &tasks[..] else { panic!("{tasks:?}") };
    assert!(longest(only) > Ns::from_ms(1_000), "{only:?}");
    let mut many = Vec::new();
    for _ in 0..40 {
        many.extend([(READ, 100, 1), (SLEEP, 1, 1)]);
    }
    many.push((READ, 100, 1));
    let tasks = changing(&[&[(SLEEP, 70, 1)], &many[..]].concat());
    assert_eq!(tasks.len(), 1, "{tasks:?}");
}

#[test]
fn a_release_counts_from_when_it_was_due_if_another_thread_armed_its_timer_late() {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(20)), calls);
    for job in 1..=100 {
        let armed_after = match job {
            50 => Ns::from_ms(61),
            70 => Ns::from_ms(10_000), // before the program: to wake it at once
            _ => Ns::ZERO,
        };
        let one = activation(job * 100 * MS, Via::Timer, READ);
        tasks.add(&Activation { armed_late: armed_after > Ns::ZERO, armed_after, ..one });
    }
    let task = tasks.report().remove(0);
    assert!(longest(&task).0.abs_diff(61 * MS) < MS && task.misses == 1, "{task:?}");
}

#[test]
fn a_signal_that_interrupts_a_sleep_starts_no_job_unless_it_is_late() {
    for place in [SLEEP, Point { operation: 0, ..SLEEP }] {
        signals_interrupt(place);
    }
}

fn signals_interrupt(place: Point) {
    let of = |handler: u64| {
        let mut tasks = Tasks::new(4, Some(Ns::from_ms(20)), calls);
        for job in 1..=100 {
            let at = job * 100 * MS;
            let one = activation(at, Via::Timer, place);
            tasks.add(&Activation { blocked: Mono(at + 2 * MS), ..one });
            for signal in 1..=10 {
                let at = at + signal * 5 * MS;
                let takes = if (job, signal) == (50, 10) { handler } else { MS / 10 };
                let one = activation(at, Via::Timer, place);
                tasks.add(&Activation { blocked: Mono(at + takes), source: 7, ..one });
            }
        }
        tasks.report().remove(0)
    };
    let task = of(MS);
    // Those before the first sleep that ended by itself count.
    assert!(task.activations.abs_diff(100) <= 10, "{}", task.activations);
    assert_eq!(task.period.as_ref().unwrap().median_ns, Ns::from_ms(100));
    let polls = task.polls_every_ns.map(|slept| slept > Ns::from_ms(90));
    assert_eq!(polls, (place != SLEEP).then_some(true), "the whole sleep: {:?}", task.polls_every_ns);
    let task = of(30 * MS);
    assert!(task.misses == 1 && longest(&task) >= Ns::from_ms(30), "{task:?}");
}

#[test]
fn a_barrier_is_not_a_mutex_although_its_first_wait_looks_like_one() {
    let barrier = Point { syscall: LOCK.syscall, operation: 128, ..LOCK };
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(1)), name);
    tasks.ask_for_jobs(Ns::ZERO);
    for job in 1..=100 {
        let at = job * 10 * MS;
        tasks.add(&Activation { contended: job == 1, ..activation(at, Via::Timer, barrier) });
        tasks.add(&activation(at + 3 * MS, Via::Thread, SLEEP));
    }
    tasks.end(Mono(2_000 * MS), |_| None);
    let jobs: Vec<Job> = tasks.take_jobs().into_iter().filter(|job| !job.is_provisional()).collect();
    let said = |job: &Job| job.parts(name).iter().any(|part| part.label.contains("mutex"));
    assert!(
        !jobs.is_empty() && !jobs.iter().any(said),
        "{:?}",
        jobs.iter().map(|job| job.parts(name)).collect::<Vec<_>>()
    );
}

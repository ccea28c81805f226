use proptest::prelude::*;

use super::super::job::{Backlog, StartDelay};
use super::super::tests::{activation, name, LOCK, SLEEP};
use super::super::Tasks;
use super::*;
use crate::comm::Comm;
use crate::trace::activation::LateSleeps;

/// Woken at `at` us by a thread, runs for `ran` of `length` us, blocks in `point`.
fn step_of(at: u64, ran: u64, length: u64, point: Point) -> Activation {
    let at = Mono(at * 1_000);
    Activation {
        sources: Default::default(),
        by_timerfd: false,
        waking: at,
        switched_in: at + Ns(1_000),
        blocked: at + Ns(1_000) + Ns::from_us(length),
        execution: Ns::from_us(ran),
        point,
        ..activation(at.0, Via::Thread, point)
    }
}

fn job(begin: u64, steps: Vec<Activation>) -> Job {
    let end = steps.last().unwrap().blocked;
    Job {
        begin: Mono(begin * 1_000),
        end,
        backlog: None,
        steps,
        more: Vec::new(),
        usual: Ns::ZERO,
        standing: Default::default(),
    }
}

#[test]
fn a_wait_for_a_mutex_names_its_kind_and_who_held_it() {
    let wait = |point, contended| {
        let first = Activation { contended, ..step_of(1_000, 50, 50, point) };
        let job = job(1_000, vec![first, step_of(1_551, 20, 20, SLEEP)]);
        let told = explanation(&job, name, "no ring").unwrap();
        assert!(told.tree.adds_up() && told.total_ns == job.total() && told.unexplained_ns == Ns::ZERO);
        (told.cause, told.sentence, told.advice)
    };
    let plain = Point { operation: 128, ..LOCK };
    let (cause, sentence, advice) = wait(plain, true);
    assert_eq!(cause, "mutex without inheritance, held by low");
    let begin = "control/7 (RT 80) took 572 µs: was blocked 500 µs on a mutex without priority inheritance, futex FUTEX_WAIT \
                 0x1000, held by low/9";
    assert!(sentence.starts_with(begin), "{sentence}");
    assert!(advice.contains("PTHREAD_PRIO_INHERIT"), "{advice}");
    assert_eq!(wait(plain, false).0, "condition or lock, released by low");
    assert_eq!(wait(LOCK, false).0, "mutex with inheritance, held by low");
}

#[test]
fn a_page_fault_in_a_sleep_is_a_wait_for_the_thread_that_ended_it_and_no_sleep() {
    let held_up = Point { syscall: Point::HELD_UP - SLEEP.syscall, ..SLEEP };
    let job = job(1_000, vec![step_of(1_000, 50, 50, held_up), step_of(1_551, 20, 20, SLEEP)]);
    let told = explanation(&job, name, "no ring").unwrap();
    assert_eq!(told.cause, "page fault or lock of the kernel, until low woke it");
    let said = "was blocked 500 µs in a page fault or a lock of the kernel in clock_nanosleep, until low/9";
    assert!(told.sentence.contains(said), "{}", told.sentence);
    assert!(told.advice.starts_with("find what low did: a fork"), "{}", told.advice);
}

#[test]
fn the_last_task_on_the_cpu_is_no_cause_if_others_had_it_for_longer() {
    let cause = |after_several| {
        let mut waited = Activation { after_several, ..step_of(1_000, 50, 50, SLEEP) };
        waited.switched_in = Mono(1_900_000);
        waited.blocked = Mono(1_950_000);
        (waited.before.tid, waited.before.comm) = (Tid(5), Comm::cut("last"));
        main_cause(&job(1_000, vec![waited]).parts(name), Ns::ZERO).unwrap().0
    };
    assert_eq!(
        (cause(false).as_str(), cause(true).as_str()),
        ("CPU held by last", "CPU held by several tasks")
    );
}

#[test]
fn who_took_a_reservation_within_its_job_may_have_used_up_its_budget() {
    let cause = |policy, was_reserved| {
        let waited = Activation { policy, was_reserved, preemptions: 1, ..step_of(1_000, 50, 900, SLEEP) };
        main_cause(&job(1_000, vec![waited]).parts(name), Ns::ZERO).unwrap().0
    };
    assert_eq!(cause(1, false), "preempted");
    let budget = "SCHED_DEADLINE budget used up, or preempted by an earlier deadline";
    assert_eq!(
        (cause(1, true).as_str(), cause(6, false).as_str()),
        (budget, budget),
        "a FIFO thread at its begin"
    );
}

#[test]
fn a_timer_that_was_in_time_for_a_frozen_thread_was_not_late() {
    let cause = |entry| {
        let (via, timer) = (Via::Timer, Some((Mono(1_000_000), Mono(entry))));
        let slept = Activation { via, timer, ..step_of(9_000, 50, 50, SLEEP) };
        let job = job(1_000, vec![slept]);
        (main_cause(&job.parts(name), Ns::ZERO).unwrap(), job.is_thawed(name))
    };
    let frozen = "stopped in its sleep by the freezer of its cgroup".to_owned();
    assert_eq!(cause(1_000_000), ((frozen, Ns::from_us(8_000)), true));
    assert_eq!(cause(8_999_000), (("timer late".to_owned(), Ns::from_us(8_000)), false));
}

#[test]
fn a_thread_without_a_quota_was_not_just_preempted() {
    let cause = |out_of_quota, woken_out_of_quota| {
        let waited =
            Activation { out_of_quota, woken_out_of_quota, preemptions: 1, ..step_of(1_000, 50, 900, SLEEP) };
        let late = Activation { switched_in: waited.switched_in + Ns::from_us(700), ..waited };
        let one = if woken_out_of_quota { late } else { waited };
        let told = explanation(&job(1_000, vec![one]), name, "no ring").unwrap();
        (told.cause, told.advice.contains("quota"))
    };
    assert_eq!(cause(false, false), ("preempted".to_owned(), false));
    assert_eq!(cause(true, false), ("CPU quota of its cgroup used up, or preempted".to_owned(), true));
    let woken = "CPU quota of its cgroup used up, or CPU held by others";
    assert_eq!(cause(false, true), (woken.to_owned(), true));
}

#[test]
fn a_job_that_was_late_for_the_one_before_it_has_the_cause_of_that_one() {
    let backlog = Backlog {
        until: Mono(1_900_000),
        why: StartDelay::Overrun(Some("page fault".to_owned())),
        since: Mono(0),
    };
    let late = Job { backlog: Some(backlog), ..job(1_000, vec![step_of(1_900, 60, 60, SLEEP)]) };
    let parts = late.parts(name);
    assert_eq!(main_cause(&parts, Ns::ZERO), Some(("page fault".to_owned(), Ns::from_us(900))));
    assert_eq!((parts[0].what, parts.iter().map(|part| part.net).sum::<Ns>()), (What::Backlog, late.total()));
}

#[test]
fn a_sleep_within_a_job_and_what_its_timer_was_late_by_are_two_things() {
    let slept = Activation {
        timer: Some((Mono(1_700_000), Mono(1_705_000))),
        via: Via::Timer,
        ..step_of(1_710, 5, 5, SLEEP)
    };
    let parts = job(1_000, vec![step_of(1_000, 50, 50, SLEEP), slept]).parts(name);
    let of = |what| parts.iter().filter(|part| part.what == what).map(|part| part.net.0).sum::<u64>();
    assert_eq!((of(What::Sleeps), of(What::TimerLate)), (649_000, 10_000));
}

#[test]
fn page_faults_are_the_cause_only_where_they_can_be() {
    let cause = |faults| {
        let ran = Activation { faults, ..step_of(1_000, 900, 900, SLEEP) };
        main_cause(&job(1_000, vec![ran]).parts(name), Ns::ZERO).unwrap().0
    };
    assert_eq!([cause(256), cause(2)], ["page faults in its own code", "its own code or system calls"]);
    assert_eq!([cause(100), cause(19)], ["page faults or its own code", "its own code or system calls"]);
}

proptest! {
    #[test]
    fn parts_add_up_to_the_job_whatever_it_was_made_of(
        steps in proptest::collection::vec((0u64..500, 0u64..400, 0u64..400, 0u8..3, any::<bool>(), 0u16..300), 1..150),
        early in 0u64..300,
        until in 0u64..400,
    ) {
        let mut at = 1_000;
        let mut all = Vec::new();
        for (gap, ran, length, place, timed, faults) in steps {
            at += gap;
            let point = [SLEEP, LOCK, Point { syscall: -1, ..SLEEP }][usize::from(place)];
            let mut one = Activation { faults, ..step_of(at, ran, length, point) };
            if timed {
                (one.via, one.timer) = (Via::Timer, Some((Mono((at - gap / 2) * 1_000), Mono(at * 1_000))));
            }
            at = one.blocked.0 / 1_000;
            all.push(one);
        }
        let begin = 1_000 - early;
        let mut going = super::super::job::Jobs::new(Default::default());
        going.ask_for_all();
        going.begins();
        all.iter().for_each(|one| going.step(one, name));
        going.ends(Mono(begin * 1_000), all.last().unwrap().blocked, name);
        let mut whole = going.take().remove(0);
        let until = Mono((begin + until) * 1_000);
        whole.backlog = Some(Backlog { until, why: StartDelay::Overrun(None), since: Mono(0) }).filter(|_| whole.more.is_empty());
        let parts = whole.parts(name);
        prop_assert_eq!(parts.iter().map(|part| part.net).sum::<Ns>(), whole.total());
        let told = explanation(&whole, name, "").unwrap();
        prop_assert!(told.tree.adds_up());
        prop_assert_eq!((told.total_ns, told.unexplained_ns), (whole.total(), Ns::ZERO));
    }
}

/// Jobs of a loop whose every 40th turn waits 2 ms for a lock, which makes the next one late, too.
#[test]
fn the_longest_job_is_handed_over_and_a_late_one_after_it_is_its_backlog() {
    let mut tasks = Tasks::new(4, Some(Ns::from_us(300)), name);
    tasks.ask_for_jobs(Ns(u64::MAX));
    let mut jobs = Vec::new();
    let mut at = 1_000_000;
    for turn in 1..=200u64 {
        let due = turn * 1_000_000;
        let overran = at > due;
        if overran {
            let late = LateSleeps { count: 1, last: Mono(due), most: Ns(at - due) };
            tasks.add(&Activation { late_sleeps: Some(late), ..activation(at - 60_000, Via::Thread, SLEEP) });
            let begin = Activation { armed_late: true, ..activation(at + 2_000, Via::Timer, SLEEP) };
            tasks.add(&begin);
            at = begin.blocked.0;
        } else if turn % 40 == 0 {
            tasks.add(&activation(due, Via::Timer, LOCK));
            at = due + 53_000 + 1_200_000;
            continue;
        } else {
            tasks.add(&activation(due, Via::Timer, SLEEP));
            at = due + 53_000;
        }
        jobs.extend(tasks.take_jobs().into_iter().filter(|job| !job.is_provisional()));
    }
    let longest = jobs.iter().max_by_key(|job| job.total()).unwrap();
    assert_eq!(longest.steps.len(), 2, "{longest:?}");
    assert_eq!(main_cause(&longest.parts(name), Ns::ZERO).unwrap().0, "mutex with inheritance, held by low");
    let control = &tasks.report()[0];
    let cause = &control.late_causes[0];
    assert_eq!((cause.cause.as_str(), control.late_causes.len()), ("mutex with inheritance, held by low", 1));
    assert_eq!((cause.jobs, control.misses), (2 * 4, 2 * 4), "each lock makes two of them late");
}

#[test]
fn what_each_job_runs_does_not_make_one_late_and_what_one_runs_beyond_that_does() {
    let name = name as fn(Point) -> Option<&'static str>;
    let told = |usual, ran, waited| {
        let mut late = job(1_000, vec![step_of(1_000, ran, ran + waited, SLEEP)]);
        late.usual = Ns::from_us(usual);
        let told = explanation(&late, name, "no ring").unwrap();
        assert_eq!(Some(&told.cause), counted_cause(&late, name).as_ref());
        assert!(told.sentence.contains(&format!("ran {} itself", Ns::from_us(ran))), "{}", told.sentence);
        (told.cause, told.advice)
    };
    assert_eq!(told(0, 12_000, 11_000).0, "its own code or system calls");
    let (cause, advice) = told(12_000, 12_000, 11_000);
    assert_eq!(cause, PREEMPTED);
    assert!(advice.starts_with("raise the priority"), "{advice}");
    assert_eq!(told(2_000, 12_000, 9_000).0, "its own code or system calls");
    assert_eq!(told(12_000, 12_100, 0).0, "its own code or system calls", "there is nothing else");
}

#[test]
fn a_thread_whose_jobs_run_as_ever_is_late_by_what_was_added() {
    let mut tasks = Tasks::new(4, Some(Ns::from_ms(20)), name);
    tasks.ask_for_jobs(Ns(u64::MAX));
    let at_ms = |ms: u64| Mono(ms * 1_000_000);
    for turn in 1..=300 {
        let woken = activation(turn * 50_000_000, Via::Timer, SLEEP);
        let waited = if turn == 200 { 11 } else { 0 };
        let blocked = at_ms(turn * 50 + 12 + waited);
        tasks.add(&Activation { execution: Ns::from_ms(12), blocked, ..woken });
    }
    let late = tasks.report()[0].late_causes.clone();
    assert_eq!(late.iter().map(|of| (of.cause.as_str(), of.jobs)).collect::<Vec<_>>(), [(PREEMPTED, 1)]);
}

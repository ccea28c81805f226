//! Criteria for an application and a system.

use super::*;
use crate::application::AppliedDeadline;
use crate::application::{OtherSpans, SeveralJobs, SeveralWaits};
use crate::conditions::Conditions;
use crate::histogram::{Histogram, Layout};
use crate::run::Loss;
use crate::series::{Series, Thread};
use crate::time::{Cpu, Tid};

mod doubtful;
mod edited;
mod waits;

const DEADLINE: Ns = Ns(1_000_000);

fn asked(is_application: bool) -> Asked {
    let tasks = "tasks comm:control".to_owned();
    Asked { tasks, is_application, deadline: Some(DEADLINE), ..Asked::default() }
}

fn series(quantity: Quantity, worst: Ns) -> Series {
    let mut histogram = Histogram::new(Layout::LATENCY);
    (0..40_000).for_each(|_| histogram.record(Ns(9_000)));
    histogram.record(worst);
    let thread = Thread { tid: Tid(7), comm: "control".to_owned(), prio: Some(Prio::from_rt(80)) };
    Series { thread: Some(thread), ..Series::new(quantity, None, histogram) }
}

/// A thread with 40,001 jobs, the longest with this response time.
fn task(response: Ns) -> Task {
    let task = serde_json::json!({
        "thread": { "tid": 7, "comm": "control", "prio": 19 }, "process": 7, "policy": "SCHED_FIFO",
        "waits_in": null, "timer_driven": true, "activations": 40_001, "period": null, "series": [],
        "execution": null, "preemptions": 0, "page_faults": 0, "deadline_ns": null, "misses": 0
    });
    let task: Task = serde_json::from_value(task).unwrap();
    let wakeup = series(Quantity::Wakeup, Ns(30_000));
    Task { series: vec![wakeup, series(Quantity::Response, response)], ..task }
}

fn run(task: Task) -> Run {
    let mut run = Run::new(Conditions::default());
    run.series = vec![Series { cpu: Some(Cpu(0)), ..series(Quantity::Wakeup, Ns(30_000)) }];
    run.tasks = vec![task];
    run
}

fn judged(task: Task) -> (Option<Outcome>, Vec<String>) {
    let verdict = judge_recording(&run(task), &asked(true));
    (verdict.outcome, verdict.reasons)
}

#[test]
fn an_application_is_judged_by_its_turns_also_those_without_a_response_time() {
    assert_eq!(judged(task(DEADLINE)).0, Some(Outcome::Pass));
    let (outcome, reasons) = judged(task(DEADLINE + Ns(1)));
    assert_eq!(outcome, Some(Outcome::Fail));
    assert!(
        reasons.iter().all(|reason| !reason.contains("missed their deadline")),
        "said already: {reasons:?}"
    );
    let overran = |task: Task| Task { misses: 2, miss_max_ns: Some(Ns::from_ms(40)), ..task };
    let told = "control/7 (RT 80): 2 jobs missed their deadline, by 40.000 ms at most";
    let silent = Task { activations: 0, series: vec![series(Quantity::Wakeup, Ns(9))], ..task(DEADLINE) };
    for task in [overran(task(DEADLINE)), overran(silent.clone())] {
        let (outcome, reasons) = judged(task);
        assert_eq!((outcome, reasons[0].as_str()), (Some(Outcome::Fail), told));
    }
    let mut run = run(task(DEADLINE));
    run.tasks.push(Task { thread: Thread { tid: Tid(8), ..silent.thread.clone() }, ..silent });
    let verdict = judge_recording(&run, &asked(true));
    assert_eq!(verdict.outcome, Some(Outcome::Inconclusive), "nobody saw a turn of it");
    assert!(
        verdict
            .reasons
            .iter()
            .any(|reason| reason.starts_with("control/8 (RT 80): no complete job was recorded")),
        "{verdict:?}"
    );
}

#[test]
fn work_that_is_in_no_response_time_is_a_doubt_where_it_may_be_longer_than_the_deadline() {
    let outside = |longest| Task { outside_ns: Some(longest), ..task(DEADLINE) };
    assert_eq!(judged(outside(DEADLINE)).0, Some(Outcome::Pass));
    let (outcome, reasons) = judged(outside(Ns::from_ms(7)));
    assert_eq!(outcome, Some(Outcome::Inconclusive));
    assert!(
        reasons[0].starts_with("control/7 (RT 80): up to 7.000 ms is not part of any response time"),
        "{reasons:?}"
    );
}

#[test]
fn a_late_turn_that_may_be_several_jobs_is_a_doubt_and_another_one_a_failure() {
    let several = |turns, late| {
        let several = SeveralJobs { turns, longest_ns: Ns(1_200_000), certain_ns: Ns(900_000), late };
        Task { several_jobs: Some(several), ..task(Ns(1_200_000)) }
    };
    let mut doubtful = run(several(1, 1));
    doubtful.complete = true;
    let verdict = judge_recording(&doubtful, &asked(true));
    assert_eq!((verdict.outcome, verdict.failures), (Some(Outcome::Inconclusive), 0));
    assert!(verdict.reasons.iter().any(|reason| reason.contains("may be several jobs")), "{verdict:?}");
    doubtful.verdict = Some(verdict);
    crate::judge::again::again(&mut doubtful).unwrap();
    assert_eq!(doubtful.verdict.unwrap().outcome, Some(Outcome::Inconclusive));
    assert_eq!(judged(several(1, 2)).0, Some(Outcome::Fail), "one of two is certain");
    let mut both = several(0, 0);
    both.several_jobs = Some(SeveralJobs { turns: 1, longest_ns: Ns(1_200_000), certain_ns: Ns(0), late: 1 });
    both.series[1].histogram.record(Ns(3_000_000));
    assert_eq!(judged(both).0, Some(Outcome::Fail), "one more is late than may be several");
    let mut other = run(several(1, 1));
    let late = task(Ns(1_100_000));
    other
        .tasks
        .push(Task { thread: Thread { tid: Tid(8), comm: "io".to_owned(), ..late.thread.clone() }, ..late });
    let verdict = judge_recording(&other, &asked(true));
    assert_eq!((verdict.outcome, verdict.failures), (Some(Outcome::Fail), 1), "{verdict:?}");
}

#[test]
fn activations_that_are_in_the_figures_of_no_thread_leave_an_application_open_and_no_system() {
    for counter in NOT_IN_TASKS {
        let mut run = run(task(DEADLINE));
        let (counter, meaning) = (counter.to_owned(), String::new());
        run.losses = vec![Loss { counter, count: 1, meaning, evidence_only: true }];
        assert_eq!(judge_recording(&run, &asked(true)).outcome, Some(Outcome::Inconclusive));
        assert_eq!(judge_recording(&run, &asked(false)).outcome, Some(Outcome::Pass));
    }
}

#[test]
fn a_program_that_failed_passes_nothing_and_saves_nothing() {
    let with = |worst, ending: Option<Ending>| {
        let asked = Asked { command: Some("./app".to_owned()), ending, ..asked(true) };
        let verdict = judge_recording(&run(task(worst)), &asked);
        (verdict.outcome, verdict.reasons)
    };
    assert_eq!(with(DEADLINE, Some(Ending::Exited(0))).0, Some(Outcome::Pass));
    assert_eq!(with(DEADLINE, None).0, Some(Outcome::Pass));
    let (outcome, reasons) = with(DEADLINE, Some(Ending::Killed(9)));
    assert_eq!(outcome, Some(Outcome::Inconclusive));
    assert!(reasons[0].starts_with("./app was killed by signal 9: "), "{reasons:?}");
    let (outcome, reasons) = with(Ns::from_ms(2), Some(Ending::Exited(3)));
    assert_eq!(outcome, Some(Outcome::Fail));
    assert!(
        reasons[0].contains("worst 2.000 ms") && reasons[1].starts_with("./app ended with exit code 3"),
        "{reasons:?}"
    );
}

/// Each alone makes a good application inconclusive, and says why.
#[test]
fn work_that_no_response_time_covers_is_a_doubt() {
    let doubted = |change: fn(&mut Run), said: &str| {
        let mut run = run(task(DEADLINE));
        change(&mut run);
        let Verdict { outcome, reasons, .. } = judge_recording(&run, &asked(true));
        assert_eq!(outcome, Some(Outcome::Inconclusive), "{said}");
        assert!(reasons.iter().any(|reason| reason.contains(said)), "{said}: {reasons:?}");
    };
    let cpus = |run: &mut Run, online: &str| {
        run.conditions.machine.cpus_online = Some(online.to_owned());
        run.conditions.machine.cpus_measured = Some("0".to_owned());
    };
    let mut whole = run(task(DEADLINE));
    cpus(&mut whole, "0");
    assert_eq!(judge_recording(&whole, &asked(true)).outcome, Some(Outcome::Pass));
    doubted(
        |run| {
            run.conditions.machine.cpus_online = Some("0-2".to_owned());
            run.conditions.machine.cpus_measured = Some("0".to_owned());
        },
        "CPU 1-2 was not recorded",
    );
    let set = |run: &mut Run| run.conditions.during.clock_set_ns = Some(vec![-1_500_000_000, 0]);
    doubted(set, "CLOCK_REALTIME was set 2 times, by at most 1.500 s");
    let several = |longest_ns| Some(SeveralWaits { waits: Some(2), longest_ns });
    doubted(
        |run| {
            run.tasks[0].several_waits = Some(SeveralWaits { waits: Some(2), longest_ns: DEADLINE + Ns(1) })
        },
        "at regular times only every 2 waits: if these waits belong to one job, a job took up to 1000.001 µs",
    );
    // Other threads release it, regularly only every two waits; without such a number, events just come at any time.
    let by_threads = |waits| {
        let mut run = whole.clone();
        run.tasks[0].timer_driven = false;
        run.tasks[0].several_waits = Some(SeveralWaits { waits, longest_ns: Ns::from_ms(93) });
        judge_recording(&run, &asked(true)).outcome
    };
    assert_eq!(by_threads(Some(2)), Some(Outcome::Inconclusive));
    assert_eq!(by_threads(None), Some(Outcome::Pass));
    whole.tasks[0].several_waits = several(DEADLINE);
    (whole.tasks[0].waits_in, whole.conditions.during.clock_set_ns) =
        (Some("clock_nanosleep TIMER_ABSTIME".to_owned()), Some(vec![5_000_000]));
    assert_eq!(judge_recording(&whole, &asked(true)).outcome, Some(Outcome::Pass));
}

#[test]
fn what_was_lost_or_missed_counts_by_what_is_known_of_it() {
    let with = |lost_within: Option<Ns>, missed: Option<Ns>| {
        let mut task = task(Ns(30_000));
        let response = &mut task.series[1];
        (response.lost, response.lost_within_ns) = (u64::from(lost_within.is_some()), lost_within);
        if let Some(latency) = missed {
            let mut all = response.histogram.clone();
            all.record(latency);
            (response.missed, response.replayed) = (Some(1), Some(all));
        }
        judged(task)
    };
    let pass = with(Some(DEADLINE), None);
    assert_eq!(pass.0, Some(Outcome::Pass), "{:?}", pass.1);
    assert!(pass.1[0].contains("none above 1.000 ms"), "as far as it is known: {:?}", pass.1);
    assert_eq!(with(None, Some(DEADLINE)).0, Some(Outcome::Pass));
    for (outcome, reasons) in [with(Some(DEADLINE + Ns(1)), None), with(None, Some(DEADLINE + Ns(1)))] {
        assert_eq!(outcome, Some(Outcome::Inconclusive), "{reasons:?}");
    }
}

#[test]
fn each_thread_is_held_to_its_own_deadline_and_those_without_one_are_listed() {
    let held = |name: &str, tid: i32, max: Ns, deadline: Option<Ns>| {
        let mut task = Task {
            held_to: Some(AppliedDeadline { deadline_ns: deadline, ..AppliedDeadline::default() }),
            ..task(max)
        };
        task.thread = Thread { tid: Tid(tid), comm: name.to_owned(), ..task.thread };
        task.series.iter_mut().for_each(|series| series.thread = Some(task.thread.clone()));
        task
    };
    let verdict = |tasks: &[Task], unused: &[&str]| {
        let run = Run { tasks: tasks.to_vec(), ..run(tasks[0].clone()) };
        let unused = unused.iter().map(|one| (*one).to_owned()).collect();
        let verdict = judge_recording(&run, &Asked { unused, ..asked(true) });
        let mut again = Run { verdict: Some(verdict.clone()), complete: true, ..run };
        crate::judge::again::again(&mut again).unwrap();
        assert_eq!(again.verdict.unwrap().outcome, verdict.outcome);
        verdict
    };
    let logger = held("logger", 8, Ns::from_ms(20), None);
    let control = |max| held("control", 7, max, Some(DEADLINE));
    let io = |max| held("io", 9, max, Some(Ns::from_ms(5)));
    let passed = verdict(&[control(DEADLINE), io(Ns::from_ms(5)), logger.clone()], &[]);
    assert_eq!((passed.outcome, passed.failures), (Some(Outcome::Pass), 0), "{passed:?}");
    let told = "deadlines: 1.000 ms for control/7 (RT 80); 5.000 ms for io/9 (RT 80); not judged, without a deadline: \
                logger/8 (RT 80)";
    assert_eq!(passed.reasons.last().unwrap(), told);
    let twice = verdict(&[control(DEADLINE), control(DEADLINE)], &[]);
    assert_eq!(twice.reasons.last().unwrap(), "deadlines: 1.000 ms for control/7 (RT 80)");
    let failed = verdict(&[control(DEADLINE + Ns(1)), io(Ns::from_ms(6)), logger.clone()], &[]);
    assert_eq!((failed.outcome, failed.failures), (Some(Outcome::Fail), 2), "{failed:?}");
    let late = verdict(&[control(DEADLINE), io(Ns::from_ms(6))], &[]);
    assert_eq!(
        (late.outcome, late.failures, late.deadline_ns),
        (Some(Outcome::Fail), 1, Some(Ns::from_ms(5)))
    );
    assert!(late.split().0[0].starts_with("io/9 (RT 80): 1 sample of 40001 above"), "{late:?}");
    assert!(late.reasons.iter().all(|reason| !reason.contains("none above")), "{late:?}");
    assert_eq!(verdict(&[control(DEADLINE)], &["contrl"]).outcome, Some(Outcome::Inconclusive));
    let none = verdict(&[logger], &[]);
    assert_eq!(none.outcome, Some(Outcome::Inconclusive), "{none:?}");
}

#[test]
fn an_ordinary_thread_that_works_longer_than_real_time_ones_may_is_a_doubt_unless_it_is_named() {
    let beside = |longest: Ns, others: Option<Ns>, first: bool| {
        let mut run = run(task(DEADLINE));
        run.conditions.duration_s = Some(10.0);
        run.tasks[0].held_to =
            Some(AppliedDeadline { deadline_ns: Some(DEADLINE), ..AppliedDeadline::default() });
        let tid = if first { 7 } else { 8 };
        let thread = Thread { tid: Tid(tid), comm: "logger".to_owned(), prio: Some(Prio(120)) };
        let held_to =
            Some(AppliedDeadline { deadline_ns: None, others_ns: others, ..AppliedDeadline::default() });
        let logger = Task { thread, held_to, series: Vec::new(), activations: 0, ..run.tasks[0].clone() };
        run.tasks.push(Task { outside_ns: Some(longest), ..logger });
        judge_recording(&run, &asked(true)).outcome
    };
    let late = DEADLINE + Ns(1);
    assert_eq!(beside(late, Some(DEADLINE), false), Some(Outcome::Inconclusive));
    assert_eq!(beside(DEADLINE, Some(DEADLINE), false), Some(Outcome::Pass));
    assert_eq!(beside(late, None, false), Some(Outcome::Pass), "it was named");
    assert_eq!(beside(late, Some(DEADLINE), true), Some(Outcome::Pass), "a process begins and ends");
    assert_eq!(beside(Ns(6_000_000_000), Some(DEADLINE), true), Some(Outcome::Inconclusive));
}

#[test]
fn where_the_user_says_where_jobs_begin_other_waits_are_no_doubt() {
    let other = OtherSpans {
        place: "read 5".to_owned(),
        after_timer: true,
        longest_ns: Ns::from_ms(9),
        call: None,
        source: None,
    };
    let verdict = |is_chosen, activation: Option<&str>| {
        let run = run(Task { is_chosen, other_turns: vec![other.clone()], ..task(DEADLINE) });
        judge_recording(&run, &Asked { activation: activation.map(str::to_owned), ..asked(true) }).outcome
    };
    assert_eq!(verdict(false, None), Some(Outcome::Inconclusive));
    assert_eq!(verdict(true, Some("read 4")), Some(Outcome::Pass));
    assert_eq!(verdict(false, Some("read 4")), Some(Outcome::Inconclusive));
}

#[test]
fn several_calls_in_one_place_are_one_doubt_that_says_how_to_choose() {
    let call = |call: &str| {
        let (place, longest_ns) = ("read 5 (pipe)".to_owned(), Ns::from_ms(8));
        OtherSpans { place, after_timer: false, longest_ns, call: Some(call.to_owned()), source: None }
    };
    let run = run(Task { other_turns: vec![call("00000001"), call("00000002")], ..task(DEADLINE) });
    let verdict = judge_recording(&run, &asked(true));
    assert_eq!(verdict.outcome, Some(Outcome::Inconclusive));
    let told: Vec<&String> =
        verdict.reasons.iter().filter(|reason| reason.contains("several call sites")).collect();
    let choice = "(--activation 'read 5@00000001'), or all of them (--activation 'read 5')";
    assert!(told.len() == 1 && told[0].contains(choice), "{told:?}");
}

#[test]
fn a_job_that_goes_on_in_a_thread_it_creates_is_a_doubt_when_both_together_are_too_long() {
    let verdict = |each: Ns| {
        let half = |tid, by: &[i32]| Task {
            thread: Thread { tid: Tid(tid), comm: "half".to_owned(), prio: Some(Prio(19)) },
            series: Vec::new(),
            activations: 0,
            outside_ns: Some(each),
            released_by: by.iter().copied().map(Tid).collect(),
            ..task(DEADLINE)
        };
        let mut run = run(task(DEADLINE));
        run.tasks.extend([half(20, &[7]), half(21, &[20])]);
        judge_recording(&run, &asked(true))
    };
    let late = verdict(Ns(DEADLINE.0 * 3 / 4));
    assert_eq!(late.outcome, Some(Outcome::Inconclusive));
    assert!(late.reasons.iter().any(|reason| reason.starts_with("half/21")), "{:?}", late.reasons);
}

/// Threads of one process, each with the wait before its jobs and one other wait.
fn process(threads: &[(&str, &str, Ns)]) -> Run {
    let tasks = threads.iter().zip(20..).map(|((waits_in, parks_in, response), tid)| {
        let blocking = serde_json::json!([{
            "class": "lock", "place": parks_in, "count": 9, "total_ns": 9_000, "max_ns": 1_000, "max_at": 7, "released_by": null
        }]);
        let one = task(*response);
        let thread = Thread { tid: Tid(tid), ..one.thread.clone() };
        let mut series = one.series.clone();
        series.iter_mut().for_each(|series| series.thread = Some(thread.clone()));
        let blocking = serde_json::from_value(blocking).unwrap();
        Task { thread, series, waits_in: Some((*waits_in).to_owned()), blocking, ..one }
    });
    let mut run = run(task(DEADLINE));
    run.tasks = tasks.collect();
    run
}

#[test]
fn threads_that_take_turns_at_jobs_are_a_doubt_whether_they_are_late_or_not() {
    const EVENTS: &str = "epoll_pwait 5 (eventpoll)";
    let outcome = |threads: &[(&str, &str, Ns)]| {
        let verdict = judge_recording(&process(threads), &asked(true));
        (
            verdict.outcome,
            verdict.reasons.iter().any(|reason| reason.contains("whichever of its threads is free")),
        )
    };
    for took in [DEADLINE, DEADLINE + Ns(1)] {
        let workers = [(EVENTS, "futex FUTEX_WAIT 0x1000", took), ("futex FUTEX_WAIT 0x2000", EVENTS, Ns(9))];
        assert_eq!(outcome(&workers), (Some(Outcome::Inconclusive), true));
    }
    let late = DEADLINE + Ns(1);
    let one_lock = [(EVENTS, "futex FUTEX_WAIT 0x1000", late), (EVENTS, "futex FUTEX_WAIT 0x1000", Ns(9))];
    assert_eq!(outcome(&one_lock), (Some(Outcome::Fail), false), "servers with a mutex");
    let alone =
        [(EVENTS, "futex FUTEX_WAIT 0x1000", late), ("read 3 (pipe)", "futex FUTEX_WAIT 0x2000", Ns(9))];
    assert_eq!(outcome(&alone), (Some(Outcome::Fail), false), "one event loop");
    let loops = "clock_nanosleep TIMER_ABSTIME";
    let workers = (EVENTS, "futex FUTEX_WAIT 0x1000", Ns(9));
    let with_a_loop =
        [workers, (EVENTS, "futex FUTEX_WAIT 0x2000", Ns(9)), (loops, "futex FUTEX_WAIT 0x3000", late)];
    assert_eq!(
        outcome(&with_a_loop).0,
        Some(Outcome::Fail),
        "a thread with a period of its own is tied to it"
    );
}

//! Jobs whose start or deadline is inferred from the waits of their thread.

use super::*;

#[test]
fn a_deadline_longer_than_the_interval_between_releases_is_a_doubt_unless_the_user_chose_where_jobs_start() {
    let outcome = |every, is_chosen| {
        let run = run(Task { released_every_ns: Some(every), is_chosen, ..task(DEADLINE) });
        let verdict = judge_recording(&run, &asked(true));
        (
            verdict.outcome,
            verdict.reasons.iter().any(|reason| reason.contains("more often than once per deadline")),
        )
    };
    assert_eq!(outcome(DEADLINE, false), (Some(Outcome::Pass), false));
    assert_eq!(
        outcome(Ns(DEADLINE.0 - DEADLINE.0 / 100), false),
        (Some(Outcome::Pass), false),
        "nearly as long"
    );
    let every = Some(Ns(50_000));
    let both = run(Task { released_every_ns: every, outside_ns: Some(Ns::from_ms(7)), ..task(DEADLINE) });
    let reasons = judge_recording(&both, &asked(true)).reasons;
    assert!(reasons.iter().any(|reason| reason.contains("more often than once")), "{reasons:?}");
    for every in [Ns(DEADLINE.0 * 95 / 100), Ns(50_000), Ns(0)] {
        assert_eq!(outcome(every, false), (Some(Outcome::Inconclusive), true));
        assert_eq!(outcome(every, true), (Some(Outcome::Pass), false));
    }
}

#[test]
fn a_late_job_of_a_thread_that_may_have_polled_for_it_is_a_doubt_unless_it_waited_for_a_cpu_or_is_an_exception(
) {
    let exception = Task {
        polls_from_ns: Some(Ns(900)),
        waits_in: Some("clock_nanosleep".to_owned()),
        ..task(Ns(1_200_000))
    };
    // Jobs of a thread that spins are long each time.
    let mut late = exception.clone();
    (0..50_000).for_each(|_| late.series[1].histogram.record(Ns(700_000)));
    late.activations += 50_000;
    let judged = |task: &Task| {
        let mut run = run(task.clone());
        run.complete = true;
        let verdict = judge_recording(&run, &asked(true));
        run.verdict = Some(verdict.clone());
        crate::judge::again::again(&mut run).unwrap();
        assert_eq!(run.verdict.unwrap().outcome, verdict.outcome);
        verdict
    };
    let doubt = judged(&late);
    assert_eq!((doubt.outcome, doubt.failures), (Some(Outcome::Inconclusive), 0));
    let said = |verdict: &Verdict, text: &str| verdict.reasons.iter().any(|reason| reason.contains(text));
    assert!(said(&doubt, "1.200 ms") && said(&doubt, "give --activation 'clock_nanosleep'"), "{doubt:?}");
    let chosen = judged(&Task { is_chosen: true, ..late.clone() });
    assert_eq!(chosen.outcome, Some(Outcome::Fail));
    let starved = Task { polls_from_ns: Some(Ns(1_100_000)), ..late.clone() };
    let starved = judged(&starved);
    assert_eq!((starved.outcome, starved.failures), (Some(Outcome::Fail), 1));
    assert!(starved.reasons[0].contains("a job started 1.100 ms after its release"), "{starved:?}");
    assert!(
        said(&starved, "took up to 1.200 ms, but the end of that wait"),
        "only one job is certain: {starved:?}"
    );
    assert_eq!(judged(&exception).outcome, Some(Outcome::Fail));
    let misses = Task { misses: 3, series: Vec::new(), ..late.clone() };
    assert_eq!(judged(&misses).outcome, Some(Outcome::Inconclusive));
    let execution = Some(crate::application::Span { min_ns: Ns(1), mean_ns: 2.0, max_ns: Ns(1_150_000) });
    let busy = judged(&Task { polls_from_ns: None, execution, ..late });
    assert_eq!(busy.outcome, Some(Outcome::Fail));
    assert!(said(&busy, "If the thread spins for its release after that wait"), "{busy:?}");
}

#[test]
fn threads_that_are_not_tracked_separately_do_not_pass_with_their_period_as_the_deadline() {
    let verdict = |comm: &str, lacks_period| {
        let mut run = run(task(DEADLINE));
        let held = AppliedDeadline { deadline_ns: Some(DEADLINE), ..AppliedDeadline::default() };
        run.tasks[0].held_to = Some(held);
        let thread = Thread { tid: Tid(0), comm: comm.to_owned(), ..Thread::default() };
        let held_to = Some(AppliedDeadline { lacks_period, ..held });
        run.tasks.push(Task { thread, held_to, ..task(DEADLINE) });
        judge_recording(&run, &asked(true))
    };
    assert_eq!(verdict(OTHERS, false).outcome, Some(Outcome::Pass));
    for (comm, said) in [
        (OTHERS, "the deadline of some of the threads that are not tracked separately may be their period"),
        ("control", "its deadline is its period, but it was not released periodically"),
    ] {
        let verdict = verdict(comm, true);
        assert_eq!(verdict.outcome, Some(Outcome::Inconclusive));
        let named = |reason: &String| reason.starts_with(comm) && reason.contains(said);
        assert!(verdict.reasons.iter().any(named), "{verdict:?}");
    }
}

//! Jobs and windows: each job counts once, however long it is.

use super::*;

const MS: u64 = 1_000_000;
const WINDOW: u64 = 1_000 * MS;

/// Jobs, misses and the longest job of a window.
type Figures = (u64, u64, Option<Ns>);

/// Figures of each window of 1 s until `end`, in ms, with a deadline of 20 ms, and the task in the last one. `open`: the
/// activation in progress at the end.
fn windows(
    activations: &[Activation],
    end: u64,
    open: Option<(Activation, State)>,
) -> (Vec<Figures>, Option<Task>) {
    let mut tasks = Tasks::new(16, Some(Ns::from_ms(20)), name);
    let mut next = activations.iter().peekable();
    let (mut figures, mut last) = (Vec::new(), None);
    let ends: Vec<u64> = (1..=end.div_ceil(1_000)).map(|nth| (nth * WINDOW).min(end * MS)).collect();
    for (nth, &until) in ends.iter().enumerate() {
        while let Some(one) = next.next_if(|one| one.blocked.0 < until) {
            tasks.add(one);
        }
        if nth + 1 == ends.len() {
            open.iter().for_each(|(open, state)| tasks.goes_on(open, *state));
            tasks.end(Mono(until), |_| activations.last().map(|last| last.blocks));
        }
        tasks.ends_window();
        let task = tasks.report().pop();
        let longest = task.as_ref().and_then(|task| task.of(Quantity::Response)?.histogram.max());
        figures.push(task.as_ref().map_or((0, 0, None), |task| (task.activations, task.misses, longest)));
        last = task;
        tasks.begin_window();
    }
    (figures, last)
}

/// Jobs every `period` ms from 5 ms on; the one in place `long` takes `takes` ms, and the next ones are after it.
fn jobs(period: u64, count: u64, long: u64, takes: u64) -> Vec<Activation> {
    let one = |nth: u64| {
        let later = if nth > long { takes } else { 0 };
        let job = activation((nth * period + later + 5) * MS, Via::Timer, SLEEP);
        let blocked = if nth == long { Mono(job.waking.0 + takes * MS) } else { job.blocked };
        Activation { blocked, ..job }
    };
    (0..count).map(one).collect()
}

#[test]
fn a_window_counts_anew_and_knows_the_thread_still() {
    let mut tasks = control(200);
    tasks.begin_window();
    assert!(tasks.report().is_empty(), "nothing happened since");
    let at = 201_000_000;
    tasks.add(&activation(at, Via::Timer, SLEEP));
    let task = tasks.report().remove(0);
    assert_eq!((task.activations, task.page_faults, task.blocking.len()), (1, 0, 0));
    assert_eq!(task.period.unwrap().median_ns, Ns::from_ms(1));
    tasks.begin_window();
    tasks.begin_window();
    tasks.add(&activation(at + 1_000_000, Via::Timer, SLEEP));
    let task = tasks.report().remove(0);
    assert_eq!((task.activations, task.period.unwrap().median_ns), (1, Ns::from_ms(1)), "a silent window");
    let exits = Point { syscall: Point::EXITS, argument: 0, operation: 0, compat: false, site: 0 };
    tasks.add(&activation(at + 2_000_000, Via::Timer, exits));
    tasks.begin_window();
    assert!(tasks.logs.is_empty(), "it has ended");
}

#[test]
fn a_job_of_several_windows_counts_once_when_it_ends() {
    for takes in [500, 1_500, 3_000] {
        let (figures, _) = windows(&jobs(5, 300, 150, takes), 6_000, None);
        let sum = figures.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!(sum, (299, 1), "{takes} ms: {figures:?}");
        let longest = figures.iter().filter_map(|one| one.2).max().unwrap();
        assert!(longest.0.abs_diff(takes * MS) < takes * MS / 20, "{takes} ms: {longest}");
    }
}

#[test]
fn a_job_in_progress_at_the_end_after_windows_without_any_is_late_with_all_its_time() {
    let before = jobs(5, 100, 1_000, 0);
    let next = activation(505 * MS, Via::Timer, SLEEP);
    for state in [State::Runs, State::Preempted, State::Waits] {
        let open = Activation { blocked: Mono(3_400 * MS), ..next };
        let (figures, last) = windows(&before, 3_400, Some((open, state)));
        assert_eq!(
            figures.iter().map(|one| (one.0, one.1)).collect::<Vec<_>>(),
            [(99, 0), (0, 0), (0, 0), (0, 0)]
        );
        let end = last.as_ref().and_then(Task::late_end).unwrap();
        assert_eq!((end.state, end.after_ns), (state, Ns(2_895 * MS + 2_000)));
    }
    // It waits for a lock.
    let locks = Activation { point: LOCK, ..next };
    let (_, last) = windows(&[&before[..], &[locks]].concat(), 3_400, None);
    let end = last.as_ref().and_then(Task::late_end).unwrap();
    assert_eq!((end.state, end.after_ns), (State::Blocked, Ns(2_895 * MS + 2_000)));
    // A thread without a job before: its setup may be none.
    let (_, last) =
        windows(&[], 3_400, Some((Activation { blocked: Mono(3_400 * MS), ..next }, State::Runs)));
    assert_eq!(last.as_ref().and_then(Task::late_end), None);
}

#[test]
fn the_jobs_of_a_thread_count_once_each_however_few_of_them_are_in_a_window() {
    for period in [300, 600, 900, 1_700, 5_000] {
        let (figures, _) = windows(&jobs(period, 12, 8, 50), 12 * period + 100, None);
        let sum = figures.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        assert_eq!(sum, (11, 1), "{period} ms: {figures:?}");
        assert!(figures.iter().any(|one| one.2.is_some_and(|longest| longest > Ns::from_ms(49))));
    }
}

//! Files of an application that were altered after they were written.

use super::*;
use crate::application::LateCause;

#[test]
fn a_file_whose_figures_of_a_thread_contradict_each_other_is_refused() {
    let read = |alter: &dyn Fn(&mut Task)| {
        let mut run = Run { complete: true, ..run(task(DEADLINE)) };
        run.verdict = Some(judge_recording(&run, &asked(true)));
        alter(&mut run.tasks[0]);
        crate::judge::again::again(&mut run).map(|()| run.verdict.unwrap().outcome)
    };
    let refused = |alter: &dyn Fn(&mut Task), words: &str| {
        let said = read(alter).expect_err(words).to_string();
        assert!(said.contains("control/7 (RT 80)") && said.contains(words), "{said}");
    };
    assert_eq!(read(&|_| ()).unwrap(), Some(Outcome::Pass));
    refused(&|task| task.activations = 1_000_000, "1000000 activations, but 40001 response times");
    let period = |missed| {
        let [median_ns, jitter_median_ns, jitter_max_ns] = [DEADLINE, Ns(0), Ns(0)];
        Some(crate::application::Period {
            median_ns,
            jitter_median_ns,
            jitter_max_ns,
            missed,
            changed: false,
            longest_ns: None,
        })
    };
    let missed = |one: &mut Task, by_period, by_series| {
        one.period = period(by_period);
        one.series[1].missed = Some(by_series);
    };
    refused(&|task| missed(task, 7, 0), "7 missed releases by its period, 0 by its response times");
    assert_eq!(read(&|task| missed(task, 0, 0)).unwrap(), Some(Outcome::Pass));
    let ran = |max_ns| Some(crate::application::Span { min_ns: Ns(1), mean_ns: 2.0, max_ns });
    let late = "PASS with a deadline of 1.000 ms, but one of its jobs took 9.000 ms";
    refused(&|task| task.execution = ran(Ns::from_ms(9)), late);
    assert_eq!(read(&|task| task.execution = ran(DEADLINE)).unwrap(), Some(Outcome::Pass));
    let cause =
        LateCause { cause: "preempted".to_owned(), jobs: 1, time_ns: Ns(1), worst_ns: Ns::from_ms(9) };
    refused(&|task| task.late_causes = vec![cause.clone()], late);
}

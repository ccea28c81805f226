//! The deadline by which the verdict judges a thread: stated, or the period of its timer.
//!
//! If its timers have different periods, each job has that of its own timer, and the thread has no single deadline. The shortest
//! one decides if all jobs kept it. If jobs were late, it is the longest one, and the misses count. Else the verdict is open:
//! the response times of jobs with different deadlines are in one histogram.

use super::super::jobs::Figures;
use super::super::program::Thread;
use crate::application::AppliedDeadline;

/// The deadline of `thread`, whose jobs are `figures`.
pub(super) fn of(thread: &Thread, figures: Option<&Figures>) -> AppliedDeadline {
    let one = |deadline_ns| AppliedDeadline { deadline_ns, ..AppliedDeadline::default() };
    let Some((shortest, longest)) = thread.deadlines_of_timers() else { return one(thread.deadline) };
    let (misses, worst) = figures.map_or((0, None), |figures| (figures.misses, figures.response.max()));
    match worst {
        _ if misses > 0 => one(Some(longest)),
        Some(worst) if worst > shortest => AppliedDeadline { lacks_period: true, ..one(None) },
        _ => one(Some(shortest)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::jobs::Job;
    use super::super::super::program::{Program, Scheduler};
    use super::super::super::set::TaskSet;
    use super::*;
    use crate::time::{Cpu, Mono, Ns};

    /// Phases of 10 and of 20 ms, with jobs of this response and relative deadline, in ms.
    fn judged(more: &str, jobs: &[(u64, u64)]) -> AppliedDeadline {
        let phase = |name: &str, period: u32| {
            format!(r#""{name}": {{"run": 10, "timer": {{"ref": "unique", "period": {period}}}}}"#)
        };
        let text = format!(
            r#"{{"tasks": {{"t": {{"loop": -1, {more} "phases": {{{}, {}}}}}}}}}"#,
            phase("a", 10_000),
            phase("b", 20_000)
        );
        let (set, cpus) = (TaskSet::from_json(&text).unwrap(), "0".parse().unwrap());
        let program = Program::new(&set, Scheduler::Fifo, &cpus).unwrap().0;
        let mut figures = Figures::new(Mono(0));
        for &(response, deadline) in jobs {
            figures.count(&Job {
                release: Mono(0),
                start: Some(Mono(0)),
                end: Mono(response * 1_000_000),
                execution: Ns::ZERO,
                deadline: Some(Ns::from_ms(deadline)),
                finished: true,
                cpu: Cpu(0),
            });
        }
        of(&program.threads[0], Some(&figures))
    }

    #[test]
    fn late_jobs_of_timers_with_different_periods_are_judged() {
        let deadline =
            |ms| AppliedDeadline { deadline_ns: Some(Ns::from_ms(ms)), ..AppliedDeadline::default() };
        assert_eq!(judged("", &[(10, 10), (9, 20)]), deadline(10), "all kept the shortest one");
        assert_eq!(
            judged("", &[(9, 10), (15, 20)]),
            AppliedDeadline { lacks_period: true, ..Default::default() }
        );
        assert_eq!(
            judged("", &[(15, 10), (15, 20)]),
            deadline(20),
            "a miss is a failure, whichever job missed"
        );
        assert_eq!(judged(r#""deadline": 30000,"#, &[(15, 30)]), deadline(30));
    }
}

//! A measured response time above the analysed one: which assumption of the analysis may be violated?
//!
//! Measured executions and the lateness of timers are included in a second analysis: what they explain is not a finding.
//! Otherwise each candidate is a figure of this run. None is blamed by elimination.

use super::super::program::Rule;
use super::Done;
use crate::conditions::Conditions;
use crate::set_run::{FiberRun, ThreadRun};
use crate::time::Ns;

/// Threads whose response time is above the analysed one, but explained by measured values.
pub(super) fn accounted(threads: &[ThreadRun]) -> Option<String> {
    let is_accounted = |thread: &&ThreadRun| {
        let (Some(measured), Some(analysed)) = (thread.response_max_ns, thread.analysed_ns) else {
            return false;
        };
        measured > analysed && thread.accounted_ns.is_some_and(|accounted| measured <= accounted)
    };
    let told: Vec<String> = threads
        .iter()
        .filter(is_accounted)
        .map(|thread| format!("{} {}", thread.name, thread.accounted_ns.unwrap_or_default()))
        .collect();
    (!told.is_empty()).then(|| {
        format!(
            "above the analysis by no more than the execution times, late timers and the switches of this run account for: {}",
            told.join(", ")
        )
    })
}

/// One line for each thread whose response time is above its analysed one.
pub(super) fn of(threads: &[ThreadRun], fibers: Option<&FiberRun>, conditions: &Conditions) -> Vec<String> {
    threads.iter().filter_map(|thread| finding(thread, threads, fibers, conditions)).collect()
}

/// One line for each thread that used up its reservation: the kernel throttles it, which delays more than one job.
pub(super) fn throttled(done: &[Done]) -> Vec<String> {
    let of = |done: &Done| {
        let Rule::Deadline { runtime, period, .. } = done.rule else { return None };
        let used = done.figures.as_ref()?.execution()?.max_ns;
        (used > runtime).then(|| {
            let (used, runtime) = used.told_apart(runtime);
            format!(
                "{}: a job used {used} of CPU time, and the reservation has {runtime} every {period}: the kernel suspends the thread \
                 until the next period, and later jobs are late until unused CPU time of the reservation has made up for that (a larger \
                 dl-runtime prevents it)",
                done.name
            )
        })
    };
    done.iter().filter_map(of).collect()
}

fn finding(
    thread: &ThreadRun,
    all: &[ThreadRun],
    fibers: Option<&FiberRun>,
    conditions: &Conditions,
) -> Option<String> {
    let (measured, analysed) = thread.response_max_ns.zip(thread.analysed_ns)?;
    if thread.accounted_ns.is_some_and(|accounted| measured <= accounted) {
        return None;
    }
    let excess = Some(measured.saturating_sub(analysed)).filter(|excess| *excess > Ns::ZERO)?;
    let mut seen = Vec::new();
    for one in all {
        let over = one.execution.zip(one.budget_ns).map(|(used, budget)| (used.max_ns, budget));
        if let Some((used, budget)) = over.filter(|(used, budget)| used > budget) {
            let more = used.saturating_sub(budget);
            let (used, budget) = used.told_apart(budget);
            let text = format!("{} used up to {used} of CPU time where its events state {budget}", one.name);
            seen.push((Some(more), text));
        }
    }
    if let Some(release) = thread.release.filter(|release| release.max_ns > Ns::ZERO) {
        let text = format!("it started up to {} after its release", release.max_ns);
        seen.push((Some(release.max_ns), text));
    }
    if thread.blocked.count > 0 {
        let text = format!("it waited up to {} for a mutex", thread.blocked.max_ns);
        seen.push((Some(thread.blocked.max_ns), text));
    }
    if let Some(away) = fibers.map(|fibers| fibers.away_longest_ns).filter(|away| *away > Ns::ZERO) {
        seen.push((Some(away), format!("the kernel ran something else than the fibers for up to {away}")));
    }
    let stolen = conditions.during.steal.iter().flatten().map(|on| on.steal_ns).max();
    if let Some(stolen) = stolen.filter(|stolen| *stolen > Ns::ZERO) {
        seen.push((
            Some(stolen),
            format!("the host of this machine took {stolen} of CPU time during the run"),
        ));
    }
    seen.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    let (measured, analysed) = measured.told_apart(analysed);
    let seen: Vec<String> = seen.into_iter().map(|(_, text)| text).take(3).collect();
    let seen = match seen.is_empty() {
        true => "no figure of this run says which assumption broke".to_owned(),
        false => format!("seen in this run: {}", seen.join("; ")),
    };
    let accounted = thread.accounted_ns.filter(|accounted| *accounted > Ns::ZERO);
    let accounted = accounted
        .map(|ns| format!(" ({ns} with the execution times, late timers and the switches of this run)"));
    let accounted = accounted.unwrap_or_default();
    Some(format!(
        "{}: {measured} measured, {analysed} analysed{accounted}, {excess} more; {seen}",
        thread.name
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set_run::{Blocked, Extent};

    fn thread(measured: u64, analysed: u64, accounted: u64) -> ThreadRun {
        let extent = |us| Some(Extent { min_ns: Ns(1), mean_ns: Ns(2), max_ns: Ns::from_us(us) });
        ThreadRun {
            name: "t".to_owned(),
            scheduling: "FIFO 1".to_owned(),
            period_ns: None,
            deadline_ns: None,
            jobs: 1,
            finished: 1,
            not_started: 0,
            misses: 0,
            lateness_max_ns: None,
            missed_releases: 0,
            response_max_ns: Some(Ns::from_us(measured)),
            analysed_ns: Some(Ns::from_us(analysed)),
            accounted_ns: Some(Ns::from_us(accounted)),
            release: extent(40),
            end_jitter_ns: None,
            slack_min_ns: None,
            execution: extent(1_100),
            budget_ns: Some(Ns::from_us(1_000)),
            blocked: Blocked { count: 1, total_ns: Ns::from_us(700), max_ns: Ns::from_us(700) },
            preemptions: 0,
            migrations: None,
            ended: None,
        }
    }

    #[test]
    fn a_job_that_used_up_its_reservation_is_a_finding() {
        use crate::tasks::jobs::{Figures, Job};
        use crate::time::{Cpu, Mono, Tid};
        let done = |used: u64, rule: Rule| {
            let mut figures = Figures::new(Mono(0));
            figures.count(&Job {
                release: Mono(0),
                start: Some(Mono(0)),
                end: Mono(9_000_000),
                execution: Ns::from_us(used),
                deadline: None,
                finished: true,
                cpu: Cpu(0),
            });
            Done {
                name: "t".to_owned(),
                task: 0,
                tid: Tid(1),
                comm: "t".to_owned(),
                rule,
                figures: Some(figures),
                lost: 0,
                preemptions: 0,
                migrations: None,
                ended: None,
            }
        };
        let (runtime, period) = (Ns::from_us(610), Ns::from_ms(20));
        let reserved = Rule::Deadline { runtime, deadline: Ns::from_ms(8), period };
        assert!(throttled(&[done(610, reserved), done(900, Rule::Fifo(3))]).is_empty());
        let said = throttled(&[done(737, reserved)]);
        assert!(
            said[0].starts_with("t: a job used 737 µs of CPU time, and the reservation has 610 µs every 20"),
            "{said:?}"
        );
    }

    #[test]
    fn what_measured_costs_account_for_is_no_finding_and_the_largest_figure_comes_first() {
        let conditions = Conditions::default();
        let within = [thread(1_000, 1_000, 1_200)];
        assert_eq!((of(&within, None, &conditions), accounted(&within)), (vec![], None));
        let costs = [thread(1_150, 1_000, 1_200)];
        assert!(
            of(&costs, None, &conditions).is_empty() && accounted(&costs).unwrap().contains("t 1.200 ms")
        );
        let beyond = of(&[thread(1_900, 1_000, 1_200)], None, &conditions);
        assert!(
            beyond[0].starts_with("t: 1.900 ms measured, 1.000 ms analysed (1.200 ms with"),
            "{beyond:?}"
        );
        let places = ["waited up to 700", "used up to 1.100 ms", "started up to 40.0"]
            .map(|seen| beyond[0].find(seen).unwrap());
        assert!(places.is_sorted(), "{beyond:?}");
    }
}

//! Summary of deadline misses of an application: threads, counts, the cause of the worst case in one sentence, and how to
//! fix it.

use crate::application::{SeveralJobs, Task};
use crate::judge::Pools;
use crate::numbers::grouped;
use crate::peak::Peak;
use crate::printable::hanging;
use crate::run::Run;
use crate::series::Quantity;
use crate::time::Ns;
use crate::verdict::{JudgedBy, Outcome};

/// A thread that missed its deadline.
pub(super) struct Missed<'r> {
    pub(super) task: &'r Task,
    deadline: Ns,
    max: Ns,
    /// `max` is the time from a release to the start of its job: that of its jobs is in doubt.
    pub(super) is_start: bool,
}

/// The summary, for the head of a view.
pub struct Late<'r> {
    /// The worst case.
    pub peak: Option<&'r Peak>,
    /// `control/7 (RT 80) missed its deadline of 500 µs in 102 of 5 951 jobs, worst 2.247 ms`.
    pub headline: String,
    /// The worst case in one sentence.
    pub why: Option<String>,
    /// How to fix it.
    pub fix: Option<String>,
    /// Headlines of other threads.
    pub others: Vec<String>,
    /// Other reasons of the FAIL than response times.
    pub more: Vec<String>,
}

/// `None`: the run is not of an application that missed a deadline.
#[must_use]
pub fn of(run: &Run) -> Option<Late<'_>> {
    let missed = missed(run);
    let worst = missed.first()?;
    let peak = peak_of(run, worst);
    let explanation = peak.and_then(|peak| peak.explanation.as_ref());
    let begin = format!("{} took {}", worst.task.thread, worst.certain_worst());
    let why = explanation.map(|told| {
        let rest = told.sentence.strip_prefix(&begin).map(|rest| rest.trim_start_matches([':', ',', ' ']));
        rest.unwrap_or(&told.sentence).to_owned()
    });
    let fix = explanation.map(|told| told.advice.clone()).filter(|advice| !advice.is_empty());
    let (chain_why, chain_fix) = chain_of(worst.task).unzip();
    let (why, fix) = (why.or(chain_why), fix.or(chain_fix));
    let others = missed.iter().skip(1).map(|other| {
        let cause = peak_of(run, other).and_then(|peak| peak.culprit.as_ref());
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("{}{cause}", said(other))
    });
    let is_said = |reason: &String| missed.iter().any(|one| reason.starts_with(&one.task.thread.to_string()));
    let failures = run.verdict.as_ref().map_or(&[][..], |verdict| verdict.split().0);
    let more = failures.iter().filter(|reason| !is_said(reason)).cloned().collect();
    Some(Late { peak, headline: said(worst), why, fix, others: others.collect(), more })
}

/// Threads that missed their deadlines for certain, the largest lateness first. Whoever is late by doubt alone is in the doubts.
pub(super) fn missed(run: &Run) -> Vec<Missed<'_>> {
    let verdict = run.verdict.as_ref().filter(|verdict| {
        verdict.outcome == Some(Outcome::Fail) && verdict.judged_by == Some(JudgedBy::Application)
    });
    let Some(verdict) = verdict else { return Vec::new() };
    let pools = Pools::of(&run.tasks);
    let of_task = |task| {
        let deadline = held_to(task, verdict.deadline_ns)?;
        let max = task.of(Quantity::Response)?.histogram.max()?;
        let max = task.queued_beyond(deadline).map_or(max, |(_, least)| max.max(least));
        if max > deadline && !pools.leave_in_doubt(task, deadline) {
            return Some(Missed { task, deadline, max, is_start: false });
        }
        let waited = task.waited_beyond(deadline).filter(|_| pools.unties(task).is_none())?;
        Some(Missed { task, deadline, max: waited, is_start: true })
    };
    let mut missed: Vec<Missed> = run.tasks.iter().filter_map(of_task).collect();
    missed.sort_by_key(|one| std::cmp::Reverse(one.certain_worst().saturating_sub(one.deadline)));
    missed
}

/// The thread with the longest unfinished job, and its deadline: if that is a reason of the FAIL, or a doubt and longer than
/// all response times.
pub(super) fn unfinished(run: &Run) -> Option<(&Task, Ns)> {
    let verdict = run.verdict.as_ref()?;
    let reasons = match verdict.outcome {
        Some(Outcome::Inconclusive) => &verdict.reasons[..],
        _ => verdict.split().0,
    };
    let judged = run.tasks.iter().filter(|task| held_to(task, verdict.deadline_ns).is_some());
    let longest = judged.filter_map(|task| task.of(Quantity::Response)?.histogram.max()).max();
    let fails = |task: &&Task| {
        let reason = task.late_end().map(|end| format!("{}: {end}", task.thread));
        let is_longest =
            verdict.outcome == Some(Outcome::Fail) || task.late_end().map(|end| end.after_ns) > longest;
        is_longest && reason.is_some_and(|reason| reasons.contains(&reason))
    };
    let longest =
        run.tasks.iter().filter(fails).max_by_key(|task| task.late_end().map(|end| end.after_ns))?;
    Some((longest, held_to(longest, verdict.deadline_ns)?))
}

pub(super) fn held_to(task: &Task, common: Option<Ns>) -> Option<Ns> {
    task.held_to.map_or(common, |held| held.deadline_ns)
}

fn peak_of<'r>(run: &'r Run, missed: &Missed) -> Option<&'r Peak> {
    run.peaks.iter().find(|peak| {
        (peak.quantity == Quantity::Response) != missed.is_start
            && peak.total_ns == missed.max
            && peak.victim.tid == missed.task.thread.tid
    })
}

/// The parts of the longest activation of a chain, and where to look.
fn chain_of(task: &Task) -> Option<(String, String)> {
    let parts = &task.chain.as_ref()?.worst_ns;
    let longest = task.of(Quantity::Response).and_then(|series| series.histogram.max());
    let names: Vec<&str> = task.thread.comm.split('>').collect();
    if names.len() != parts.len() {
        return None; // of an earlier version, a pattern with this sign, or it queued behind another one
    }
    let in_it = if longest < task.chain.as_ref()?.queued_at_least_ns { "longest known" } else { "worst" };
    let next = names.iter().skip(1).map(|next| format!("until it woke {next}"));
    let until = next.chain(["until its end".to_owned()]);
    let told: Vec<String> = names
        .iter()
        .zip(parts)
        .zip(until)
        .map(|((name, part), until)| format!("{name} took {part} {until}"))
        .collect();
    let (largest, _) = names.iter().zip(parts).rev().max_by_key(|(_, part)| **part)?;
    let fix = format!("{largest} took the largest part: see its jobs among the worst cases");
    Some((format!("in the {in_it} one, {}", told.join("; ")), fix))
}

fn said(missed: &Missed) -> String {
    let Missed { task, deadline, max, .. } = missed;
    if missed.is_start {
        let (waited, deadline) = max.told_apart(*deadline);
        return format!("{}: a job started {waited} after its release, deadline {deadline}", task.thread);
    }
    let histogram = task.of(Quantity::Response).map(|series| &series.histogram);
    let jobs = histogram.map_or(0, |histogram| histogram.count());
    let queued = task.queued_beyond(*deadline);
    let surely = histogram.map_or(0, |histogram| histogram.count_from(*deadline + Ns(1)));
    // Their causes also count those in the histogram's class of the deadline.
    let caused = task.late_causes.iter().map(|of| of.jobs).fold(0, u64::saturating_add);
    // By the period of its time.
    let by_phase = task.period.as_ref().filter(|period| period.longest_ns == Some(*deadline));
    let by_phase = by_phase.map_or(0, |_| task.misses.min(jobs));
    let late = surely.max(caused.min(jobs)).max(by_phase).max(1);
    let doubtful = doubtful(task);
    let (certain, worst) = match doubtful {
        Some(doubtful) => (late.saturating_sub(doubtful.turns).max(1), missed.certain_worst()),
        None => (late, *max),
    };
    let (certain, jobs) = match queued {
        Some((behind, _)) => (surely + behind, jobs + task.chain.as_ref().map_or(0, |chain| chain.queued)),
        None => (certain, jobs),
    };
    let is_limit =
        worst < *max || task.rounded_ns.is_some() || queued.is_some_and(|(_, least)| least == *max);
    let least = if is_limit { "at least " } else { "" };
    let more = doubtful.map_or(String::new(), |SeveralJobs { turns, longest_ns, .. }| {
        format!("; {} more took up to {longest_ns}, but may be several jobs each", grouped(turns))
    });
    let end = task.may_end_earlier().map_or(String::new(), |end| {
        let said = end.said(*deadline);
        format!(
            "; an upper limit: it is not known whether its wait in {} ends a job. If it does, {said}",
            end.place
        )
    });
    let open = task.late_end().filter(|open| open.after_ns > *max && !open.may_have_left(*deadline));
    let open = open.map_or(String::new(), |open| format!("; {open}"));
    let (worst, deadline) = worst.told_apart(*deadline);
    format!(
        "{} missed its deadline of {deadline} in {} of {} jobs, worst {least}{worst}{more}{end}{open}",
        task.thread,
        grouped(certain),
        grouped(jobs)
    )
}

/// The late jobs of a thread that may be several jobs each, beside others that are certain.
fn doubtful(task: &Task) -> Option<SeveralJobs> {
    task.several_jobs.filter(|several| several.turns > 0 && several.turns < several.late)
}

impl Missed<'_> {
    /// The longest response time, or a lower limit of it if the longest may be of several jobs.
    fn certain_worst(&self) -> Ns {
        if self.is_start {
            return self.max;
        }
        let doubtful = doubtful(self.task).filter(|doubtful| doubtful.longest_ns >= self.max);
        doubtful.map_or(self.max, |doubtful| doubtful.certain_ns.max(self.deadline + Ns(1)).min(self.max))
    }
}

/// Sorts cases of threads with a deadline before others, if threads have their own deadlines.
pub(super) fn judged_first(run: &Run, mut cases: Vec<usize>) -> Vec<usize> {
    let is_judged = |thread| {
        let of_it = run.task_of(thread);
        of_it.and_then(|task| task.held_to).is_none_or(|held| held.deadline_ns.is_some())
    };
    cases.sort_by_key(|&case| !is_judged(&run.peaks[case].victim)); // stable
    cases
}

impl Late<'_> {
    /// The lines below the headline: cause and fix.
    #[must_use]
    pub fn lines(&self, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        self.why.iter().for_each(|why| lines.extend(hanging("  why: ", why, width)));
        self.fix.iter().for_each(|fix| lines.extend(hanging("  fix: ", fix, width)));
        lines
    }

    /// The lines of other late threads and other reasons.
    #[must_use]
    pub fn others(&self, width: usize) -> Vec<Vec<String>> {
        self.others.iter().chain(&self.more).map(|other| hanging("  also: ", other, width)).collect()
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::late_causes::causes;
    use super::*;
    use crate::application::{AppliedDeadline, LateCause, OtherEnd, State, Unfinished};
    use crate::conditions::Conditions;
    use crate::explain::{Explanation, Kind, Segment};
    use crate::histogram::{Histogram, Layout};
    use crate::judge::{judge_recording, Asked};
    use crate::series::{Series, Thread};
    use crate::time::{Cpu, Mono, Prio, Tid};

    pub fn late_run() -> Run {
        let task = serde_json::json!({
            "thread": { "tid": 7, "comm": "control", "prio": 19 }, "process": 7, "policy": "SCHED_FIFO",
            "waits_in": null, "timer_driven": true, "activations": 4001, "period": null, "series": [],
            "execution": null, "preemptions": 0, "page_faults": 0, "deadline_ns": 500_000, "misses": 3
        });
        let mut task: Task = serde_json::from_value(task).unwrap();
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..4_000).for_each(|_| histogram.record(Ns(9_000)));
        [600, 700, 2_247].iter().for_each(|us| histogram.record(Ns::from_us(*us)));
        let thread = Thread { tid: Tid(7), comm: "control".to_owned(), prio: Some(Prio::from_rt(80)) };
        task.series =
            vec![Series { thread: Some(thread.clone()), ..Series::new(Quantity::Response, None, histogram) }];
        task.held_to =
            Some(AppliedDeadline { deadline_ns: Some(Ns::from_us(500)), ..AppliedDeadline::default() });
        let cause = |cause: &str, jobs| LateCause {
            cause: cause.to_owned(),
            jobs,
            time_ns: Ns::from_us(1_800),
            worst_ns: Ns::from_us(2_247),
        };
        task.late_causes =
            vec![cause("mutex without inheritance, held by logger", 2), cause("page fault", 1)];
        let mut logger = Task { held_to: Some(AppliedDeadline::default()), ..task.clone() };
        logger.thread = Thread { tid: Tid(8), comm: "logger".to_owned(), prio: Some(Prio(120)) };
        let mut run = Run::new(Conditions::default());
        let total_ns = Ns::from_us(2_247);
        let tree = Segment::leaf(Kind::Passage, "job", Mono(0), total_ns);
        let explanation = Explanation {
            sentence: "control/7 (RT 80) took 2.247 ms: was blocked 1.800 ms on a mutex without priority inheritance, held by \
                       logger/8 (nice 0)"
                .to_owned(),
            advice: "give the mutex priority inheritance".to_owned(),
            tree,
            total_ns,
            unexplained_ns: Ns::ZERO,
            cause: "mutex of logger".to_owned(),
            limits: Vec::new(),
        };
        run.peaks = vec![Peak {
            quantity: Quantity::Response,
            cpu: Cpu(0),
            begin: Mono(0),
            total_ns,
            victim: thread,
            culprit: None,
            explanation: Some(explanation),
            no_evidence: None,
            context: None,
            during_action: false,
            counted_as: None,
        }];
        run.tasks = vec![logger, task];
        run.complete = true;
        let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
        run.verdict = Some(judge_recording(&run, &asked));
        run
    }

    #[test]
    fn a_size_that_is_an_upper_limit_is_said_to_be_one() {
        let mut run = late_run();
        let (place, longest_ns) = ("read 5".to_owned(), Ns::from_us(650));
        run.tasks[1].other_end =
            Some(OtherEnd { place, longest_ns, late: 1, several: 0, several_ns: Ns::ZERO });
        let headline = of(&run).unwrap().headline;
        let said = "worst 2.247 ms; an upper limit: it is not known whether its wait in read 5 ends a job. If it does, 1 job was \
                    late and took 650";
        assert!(headline.contains(said), "{headline}");
        run.tasks[1].is_chosen = true;
        assert!(!of(&run).unwrap().headline.contains("limit"));
    }

    #[test]
    fn a_job_that_started_late_has_a_cause_also_if_its_length_is_in_doubt() {
        let mut run = late_run();
        let mut histogram = Histogram::new(Layout::LATENCY);
        [300, 300, 300, 900].iter().for_each(|us| histogram.record(Ns::from_us(*us)));
        run.tasks[1].series[0].histogram = histogram;
        run.tasks[1].polls_from_ns = Some(Ns::from_us(600));
        run.peaks[0].quantity = Quantity::TimerWakeup;
        run.peaks[0].total_ns = Ns::from_us(600);
        let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
        run.verdict = Some(judge_recording(&run, &asked));
        let late = of(&run).unwrap();
        assert!(late.headline.contains("a job started 600"), "{}", late.headline);
        assert!(late.why.is_some() && late.more.is_empty(), "{:?}", late.more);
    }

    #[test]
    fn an_unfinished_job_that_is_longer_than_all_others_is_in_the_headline() {
        let mut run = late_run();
        let after_ns = Ns::from_ms(3_000);
        run.tasks[1].unfinished = Some(Unfinished {
            state: State::Runs,
            since: Mono(0),
            after_ns,
            place: None,
            out_of_quota: false,
            locked_ns: None,
        });
        let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
        run.verdict = Some(judge_recording(&run, &asked));
        let said = "its last job was not finished after 3.000 s, when recording ended: it had a CPU";
        let headline = of(&run).unwrap().headline;
        assert!(headline.contains("worst 2.247 ms; ") && headline.ends_with(said), "{headline}");
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..9).for_each(|_| histogram.record(Ns::from_us(100)));
        run.tasks[1].series[0].histogram = histogram;
        (run.tasks[1].misses, run.tasks[1].late_causes) = (0, Vec::new());
        run.verdict = Some(judge_recording(&run, &asked));
        let [deadline, worst] = super::super::text::deadline_and_largest(&run);
        assert_eq!((deadline.as_str(), worst), ("deadline 500 µs", format!("control/7 (RT 80): {said}")));
        // One that waits elsewhere is only a doubt.
        run.tasks[1].unfinished.iter_mut().for_each(|last| last.state = State::Blocked);
        run.verdict = Some(judge_recording(&run, &asked));
        assert_eq!(run.verdict.as_ref().unwrap().outcome, Some(Outcome::Inconclusive));
        let [_, worst] = super::super::text::deadline_and_largest(&run);
        assert!(worst.contains("its last job was not finished after 3.000 s"), "{worst}");
    }

    #[test]
    fn the_first_screen_says_who_was_late_why_and_what_to_do() {
        let run = late_run();
        for width in [80, 100, 160] {
            let screen = super::super::text::Screen { width, lines: 0, ..Default::default() };
            let text = super::super::text::summary(&run, &screen);
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
            assert!(!text.contains('…'), "nothing is cut off:\n{text}");
            insta::assert_snapshot!(format!("first_screen_{width}"), text);
        }
    }

    #[test]
    fn late_jobs_in_the_class_of_the_deadline_are_counted() {
        let mut run = late_run();
        let task = &mut run.tasks[1];
        task.series[0].histogram.record(Ns(500_300));
        task.late_causes[1].jobs += 1;
        assert!(of(&run).unwrap().headline.contains(" in 4 of 4 004 jobs"), "{}", of(&run).unwrap().headline);
    }

    #[test]
    fn who_is_late_by_doubt_alone_neither_leads_nor_is_among_the_causes() {
        let mut run = late_run();
        let mut pool = run.tasks[1].clone();
        pool.thread = Thread { tid: Tid(9), comm: "pool".to_owned(), prio: Some(Prio::from_rt(10)) };
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..9).for_each(|_| histogram.record(Ns::from_ms(9)));
        pool.series = vec![Series {
            thread: Some(pool.thread.clone()),
            ..Series::new(Quantity::Response, None, histogram)
        }];
        let [longest_ns, certain_ns] = [Ns::from_ms(9), Ns(0)];
        pool.several_jobs = Some(SeveralJobs { turns: 9, longest_ns, certain_ns, late: 9 });
        pool.late_causes[0].jobs = 9;
        run.tasks.push(pool);
        let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
        run.verdict = Some(judge_recording(&run, &asked));
        let late = of(&run).unwrap();
        assert!(late.headline.starts_with("control/7"), "{}", late.headline);
        assert_eq!((late.others.len(), causes(&run)[0].jobs), (0, 2));
        run.tasks[2].several_jobs = None;
        assert!(of(&run).unwrap().headline.starts_with("pool/9"));
    }

    #[test]
    fn late_jobs_that_may_be_several_are_counted_apart_and_are_not_the_worst() {
        let headline = |several: Option<SeveralJobs>| {
            let mut run = late_run();
            run.tasks[1].several_jobs = several;
            let late = of(&run).unwrap();
            (late.headline.clone(), late.why.clone().unwrap())
        };
        let several = |turns, longest_us, late| {
            let [longest_ns, certain_ns] = [longest_us, 650].map(Ns::from_us);
            headline(Some(SeveralJobs { turns, longest_ns, certain_ns, late }))
        };
        let (all, why) = headline(None);
        assert!(all.ends_with("in 3 of 4 003 jobs, worst 2.247 ms"), "{all}");
        assert!(!why.contains("took 2.247 ms"), "{why}");
        let (one, why) = several(1, 2_247, 3);
        let said = "in 2 of 4 003 jobs, worst at least 650 µs; 1 more took up to 2.247 ms, but may be several jobs each";
        assert!(one.ends_with(said), "{one}");
        assert!(why.contains("took 2.247 ms"), "of which job it speaks: {why}");
        let (short, _) = several(1, 700, 3);
        assert!(
            short.ends_with(
                "in 2 of 4 003 jobs, worst 2.247 ms; 1 more took up to 700 µs, but may be several jobs each"
            ),
            "{short}"
        );
        assert_eq!(several(0, 0, 3).0, all);
    }

    #[test]
    fn of_a_late_chain_the_parts_of_the_worst_activation_are_said() {
        let mut run = late_run();
        let chain = &mut run.tasks[1];
        chain.thread.comm = "sensor>filter".to_owned();
        let worst_ns = [247, 2_000].map(Ns::from_us).to_vec();
        chain.chain = Some(crate::application::Followed { worst_ns, ..Default::default() });
        run.peaks.clear();
        let late = of(&run).unwrap();
        let said =
            "in the worst one, sensor took 247 µs until it woke filter; filter took 2.000 ms until its end";
        assert_eq!(late.why.as_deref(), Some(said));
        assert!(late.fix.unwrap().starts_with("filter took the largest part"));
        run.tasks[1].thread.comm = "sensor>filter>x".to_owned();
        assert_eq!(of(&run).unwrap().why, None);
    }

    #[test]
    fn deadlines_that_apply_to_no_thread_are_not_called_missing() {
        let mut run = late_run();
        run.tasks.iter_mut().for_each(|task| task.held_to = Some(AppliedDeadline::default()));
        let asked = Asked { is_application: true, deadline: Some(Ns::from_us(500)), ..Asked::default() };
        run.verdict = Some(judge_recording(&run, &asked));
        let text = super::super::text::summary(&run, &super::super::text::Screen::default());
        assert!(text.starts_with("INCONCLUSIVE  no recorded thread has a deadline"), "{text}");
    }

    #[test]
    fn on_a_small_terminal_a_reason_or_cause_is_whole_or_counted() {
        let mut run = late_run();
        let reason =
            |nth: u32| format!("doubt {nth} {}, and that is all of {nth}", "because of this ".repeat(8));
        run.verdict.as_mut().unwrap().reasons.extend((1..=6).map(reason));
        let causes = &mut run.tasks[1].late_causes;
        let cause = |nth: u32| LateCause {
            cause: format!("cause {nth}: {}until the end of {nth}", "blocked in a call ".repeat(4)),
            ..causes[0].clone()
        };
        *causes = (1..=9).map(cause).collect();
        for width in [80, 100, 160] {
            let screen = super::super::text::Screen { width, ..Default::default() };
            let text = super::super::text::summary(&run, &screen);
            let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
            let count = |what: &str| (1..=9).filter(|nth| said.contains(&format!("{what} {nth}"))).count();
            assert!(
                !said.contains("Model-free bound:") && said.contains("criteria: lathunt report --text --all"),
                "{text}"
            );
            assert_eq!(count("doubt"), count("all of"), "{width}: {text}");
            assert_eq!(count("cause"), count("the end of"), "{width}: {text}");
            // Threads with their deadlines are a reason, too.
            assert!(said.contains(&format!("… {} more reasons", 6 - count("doubt"))), "{text}");
            assert!(said.contains(&format!("… {} more causes", 9 - count("cause"))), "{text}");
            assert!(text.lines().all(|line| line.chars().count() <= width), "{width}:\n{text}");
        }
    }
}

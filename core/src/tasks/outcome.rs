//! Converts an executed task set to a run file, together with the analysis.

mod deadlines;
mod findings;

use std::collections::BTreeMap;

use super::analyse::{analyse, Costs};
use super::fiber_trace::{FiberTrace, FIRST_FIBER};
use super::jobs::Figures;
use super::load::{loads, Load};
use super::program::{Program, Rule, Scheduler};
use super::set::{TaskSet, Warning};
use crate::application::{AppliedDeadline, Period, Span, Task};
use crate::conditions::Conditions;
use crate::cpuset::CpuSet;
use crate::judge::{judge_recording, Asked};
use crate::peak::Peak;
use crate::run::Run;
use crate::series::{Quantity, Series, Thread};
use crate::set_run::{ChartJob, FiberRun, SetRun, Speed, ThreadRun};
use crate::time::{Mono, Ns, Prio, Tid};

/// An executed set.
#[derive(Debug)]
pub struct Executed {
    /// The common start.
    pub begin: Mono,
    /// The end of the run.
    pub end: Mono,
    /// Process of the threads.
    pub process: Tid,
    /// Threads of the program in its order, then forked ones.
    pub threads: Vec<Done>,
    /// Speed of each CPU.
    pub speeds: Vec<Speed>,
    /// ns per loop of `run`.
    pub ns_per_loop: Option<f64>,
    /// CPU time of one switch.
    pub switch: Option<Ns>,
    /// Largest lateness of a timer of this run, measured by a thread that no thread of the set delays; `None`: not measured.
    pub timer_late: Option<Ns>,
    /// Jobs around the worst one, for the chart; threads by index.
    pub stretch: Vec<ChartJob>,
    /// For fibers: the OS thread that they share.
    pub fibers: Option<FiberRun>,
    /// The trace of their scheduler, if requested.
    pub fiber_trace: Option<FiberTrace>,
    /// `false`: still running, with the jobs that have ended so far. Such a run is never a PASS.
    pub is_over: bool,
}

/// Results of one thread.
#[derive(Debug)]
pub struct Done {
    /// Its name in the set.
    pub name: String,
    /// Number of its task in the set.
    pub task: usize,
    /// Thread id.
    pub tid: Tid,
    /// Name in the kernel.
    pub comm: String,
    /// The policy it had.
    pub rule: Rule,
    /// Statistics of its jobs; `None`: it did not end in time, so they are lost.
    pub figures: Option<Figures>,
    /// Jobs missing in the statistics.
    pub lost: u64,
    /// Involuntary switches.
    pub preemptions: u64,
    /// Migrations to another CPU.
    pub migrations: Option<u64>,
    /// Why it ended early.
    pub ended: Option<String>,
}

/// How a set was run.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The set.
    pub set: &'a TaskSet,
    /// The set ready to run.
    pub program: &'a Program,
    /// Its scheduler.
    pub scheduler: Scheduler,
    /// Its CPUs.
    pub cpus: &'a CpuSet,
    /// Assumptions, one line each.
    pub warnings: Vec<String>,
    /// Why it was stopped early by the user; `None`: it was not.
    pub stopped: Option<String>,
    /// Why jobs have no explanation, for the worst of each thread.
    pub no_evidence: &'a str,
}

/// The run file of an executed set, with verdict.
#[must_use]
pub fn to_run(plan: &Plan, executed: &Executed, mut conditions: Conditions) -> Run {
    for done in &executed.threads {
        let ended = done.ended.iter().map(|why| format!("{}: {why}", done.name));
        conditions.during.ended_early.extend(ended);
        if done.figures.is_none() {
            let why = format!("{}: it did not end, and its figures are lost", done.name);
            conditions.during.ended_early.push(why);
        }
    }
    conditions.duration_s = Some(executed.end.since(executed.begin).as_secs());
    let ((analysed, not_analysed), accounted) = match executed.is_over {
        true => (analysed(plan, plan.set, Costs::default()), analysed_as_measured(plan, executed).0),
        // The analysis of many tasks takes time, during which the jobs of a running set would not be read.
        false => ((Vec::new(), Some("the analysis is made at the end of a run".to_owned())), Vec::new()),
    };
    let mut run = Run { complete: executed.is_over, ..Run::new(conditions) };
    plan.stopped.iter().for_each(|why| run.stopped(why.clone()));
    let mut threads = Vec::with_capacity(executed.threads.len());
    let judged = executed
        .threads
        .iter()
        .map(|done| held_to(plan, done))
        .any(|held| held != AppliedDeadline::default());
    for (at, done) in executed.threads.iter().enumerate() {
        let of = |all: &[Option<Ns>]| all.get(at).copied().flatten();
        let (analysed, accounted) = (of(&analysed), of(&accounted));
        let identity = identity(executed, at, done);
        let series = series(plan, done, &identity, executed.begin);
        run.peaks.extend(worst(plan, done, &identity, &series));
        run.tasks.push(task(plan, done, &series, (identity, executed.process), judged));
        run.series.push(series);
        threads.push(ThreadRun { accounted_ns: accounted, ..thread(plan, done, analysed) });
    }
    run.peaks.sort_by_key(|peak| (std::cmp::Reverse(peak.total_ns), peak.begin));
    run.scheduler = Some(plan.scheduler_name().to_owned());
    run.jobs = Some(threads.iter().map(|thread| thread.jobs).sum());
    run.misses = Some(threads.iter().map(|thread| thread.misses).sum());
    let mut findings = findings::of(&threads, executed.fibers.as_ref(), &run.conditions);
    findings.extend(findings::throttled(&executed.threads));
    run.task_set = Some(SetRun {
        cpus: plan.cpus.to_string(),
        speeds: executed.speeds.clone(),
        ns_per_loop: executed.ns_per_loop,
        switch_ns: executed.switch,
        begin: executed.begin,
        warnings: plan.warnings.clone(),
        findings,
        accounted: findings::accounted(&threads),
        not_analysed,
        stretch: executed.stretch.clone(),
        fibers: executed.fibers.clone(),
        threads,
    });
    run.verdict = Some(judge_recording(&run, &Asked { is_application: true, ..Asked::default() }));
    run
}

impl Plan<'_> {
    /// The requested scheduler, or the common policy of all threads in the file; else `file`.
    #[must_use]
    pub fn scheduler_name(&self) -> &'static str {
        let all = |wanted: fn(Rule) -> bool| self.program.threads.iter().all(|thread| wanted(thread.rule));
        let same = match self.scheduler {
            Scheduler::File if all(|rule| matches!(rule, Rule::Fifo(_))) => Scheduler::Fifo,
            Scheduler::File if all(|rule| matches!(rule, Rule::RoundRobin(_))) => Scheduler::RoundRobin,
            Scheduler::File if all(|rule| matches!(rule, Rule::Deadline { .. })) => Scheduler::Deadline,
            Scheduler::File if all(|rule| matches!(rule, Rule::Fair(..))) => Scheduler::Other,
            other => other,
        };
        same.name()
    }
}

/// Worst-case response times of the analysis, in the order of the program's threads, or why there are none.
fn analysed(plan: &Plan, set: &TaskSet, costs: Costs) -> (Vec<Option<Ns>>, Option<String>) {
    let none = |why: String| (Vec::new(), Some(why));
    let rules = || plan.program.threads.iter().map(|thread| thread.rule);
    let fair = |rule: Rule| matches!(rule, Rule::Fair(..));
    if rules().all(fair) {
        return none(
            "SCHED_OTHER shares the CPU with every other program: no response is bounded".to_owned(),
        );
    }
    let loads = loads(set).threads;
    let mut shared: BTreeMap<i32, i64> = BTreeMap::new();
    let is_one = |(rule, load): &(Rule, &Load)| rule.priority() > 0 && load.not_fixed.is_none();
    let mut own = rules().zip(&loads).filter(is_one).map(|(rule, load)| (rule.priority(), load.level));
    let same = |(priority, level)| *shared.entry(priority).or_insert(level) == level;
    if !own.all(same) {
        return none(
            "more levels than priorities: threads that the analysis tells apart share one".to_owned(),
        );
    }
    let all_deadline = rules().all(|rule| matches!(rule, Rule::Deadline { .. } | Rule::FiberEdf(_)));
    let mut placed = set.clone();
    for (at, task) in placed.tasks.iter_mut().enumerate() {
        let own = plan.program.threads.iter().find(|thread| thread.task == at);
        let cpus = own.and_then(|thread| thread.cpus.clone()).unwrap_or_else(|| plan.cpus.clone());
        if cpus.len() != 1 && task.instances > 0 {
            return none(format!(
                "{} may run on CPU {cpus}: the analysis is of threads that stay on one CPU",
                task.name
            ));
        }
        task.sched.cpus = Some(cpus);
    }
    let analysis = analyse(&placed, costs);
    let response = |(row, rule): (&super::analyse::Row, Rule)| match all_deadline {
        true => row.edf_response,
        false => row.response.filter(|_| !fair(rule)),
    };
    let responses: Vec<Option<Ns>> = analysis.rows.iter().zip(rules()).map(response).collect();
    let open = responses.iter().any(Option::is_none);
    let is_why = |warning: &&Warning| ["unbounded-blocking", "not-analysed"].contains(&warning.name);
    let why: Vec<String> = analysis
        .warnings
        .iter()
        .filter(is_why)
        .map(|warning| match warning.place.is_empty() {
            true => warning.text.clone(),
            false => format!("{}: {}", warning.place, warning.text),
        })
        .collect();
    (responses, (open && !why.is_empty()).then(|| why.join("; ")))
}

/// The analysis with measured execution times (if longer than stated), the lateness of a timer, which delays all, and switches:
/// does this explain a response time above the analysed one? The start delay of a thread is part of that, and explains nothing.
fn analysed_as_measured(plan: &Plan, executed: &Executed) -> (Vec<Option<Ns>>, Option<String>) {
    let mut set = plan.set.clone();
    let latency = executed.timer_late.unwrap_or_default();
    for (at, task) in set.tasks.iter_mut().enumerate() {
        let stated = plan.program.threads.iter().find(|thread| thread.task == at).and_then(|one| one.budget);
        let of_task = executed.threads.iter().filter(|done| done.task == at);
        let used = of_task.filter_map(|done| Some(done.figures.as_ref()?.execution()?.max_ns)).max();
        task.wcet = used.max(stated).or(task.wcet);
        task.blocking = task.blocking + latency;
    }
    analysed(plan, &set, Costs { switch: executed.switch.unwrap_or_default() })
}

fn source<'p>(plan: &Plan<'p>, done: &Done) -> Option<&'p super::program::Thread> {
    let own = plan.program.threads.iter().find(|thread| thread.name == done.name);
    own.or_else(|| plan.program.templates.get(&done.task))
}

fn held_to(plan: &Plan, done: &Done) -> AppliedDeadline {
    source(plan, done).map(|thread| deadlines::of(thread, done.figures.as_ref())).unwrap_or_default()
}

/// On the kernel's scale: smaller is more urgent.
fn kernel_prio(rule: Rule) -> Prio {
    match rule {
        Rule::Fair(_, nice) => Prio(120 + nice),
        Rule::Fifo(priority) | Rule::RoundRobin(priority) => Prio(99 - priority),
        Rule::Deadline { .. } => Prio(-1),
        // Relative to each other; the kernel sees one thread.
        Rule::FiberFixed(priority) => Prio(99 - priority),
        Rule::FiberEdf(deadline) => {
            Prio(deadline.map_or(i32::MAX, |ns| i32::try_from(ns.0 / 1_000).unwrap_or(i32::MAX)))
        }
    }
}

/// Other programs compete with the priority of the OS thread that runs all fibers.
fn identity(executed: &Executed, at: usize, done: &Done) -> Thread {
    let (tid, prio) = match &executed.fibers {
        Some(fibers) => {
            let prio = fibers.kernel_priority.map_or(Prio(120), |priority| Prio(99 - priority));
            (Tid(FIRST_FIBER.saturating_add(i32::try_from(at).unwrap_or(i32::MAX))), prio)
        }
        None => (done.tid, kernel_prio(done.rule)),
    };
    Thread { tid, comm: done.comm.clone(), prio: Some(prio) }
}

fn series(plan: &Plan, done: &Done, identity: &Thread, begin: Mono) -> Series {
    let figures = done.figures.clone().unwrap_or_else(|| Figures::new(begin));
    let mut series = Series::new(Quantity::Response, None, figures.response);
    series.thread = Some(identity.clone());
    series.begin = Some(begin);
    series.interval_ns = source(plan, done).and_then(|thread| thread.period);
    series.missed = Some(figures.missed_releases);
    series.lost = done.lost;
    series.set_seconds(figures.seconds);
    series
}

fn worst(plan: &Plan, done: &Done, identity: &Thread, series: &Series) -> Option<Peak> {
    let job = done.figures.as_ref()?.worst?;
    let sample = (job.release, series.histogram.max()?);
    Some(Peak::without_evidence(Quantity::Response, job.cpu, sample, identity.clone(), plan.no_evidence))
}

fn task(plan: &Plan, done: &Done, series: &Series, (identity, process): (Thread, Tid), judged: bool) -> Task {
    let figures = done.figures.as_ref();
    let held = held_to(plan, done);
    let timers = source(plan, done).and_then(super::program::Thread::deadlines_of_timers);
    let release = figures.and_then(Figures::release);
    let period = |period: Ns| Period {
        median_ns: period,
        jitter_median_ns: release.map_or(Ns::ZERO, |release| release.mean_ns),
        jitter_max_ns: release.map_or(Ns::ZERO, |release| release.max_ns),
        missed: figures.map_or(0, |figures| figures.missed_releases),
        changed: timers.is_some(),
        longest_ns: None,
    };
    let execution = figures.and_then(Figures::execution);
    Task {
        thread: identity,
        process,
        policy: done.rule.policy_name().to_owned(),
        waits_in: source(plan, done).map(|thread| thread.boundary.wait_name().to_owned()),
        is_chosen: true,
        timer_driven: source(plan, done).is_some_and(|thread| {
            matches!(thread.boundary, super::program::Boundary::Timer | super::program::Boundary::Sleep)
        }),
        activations: figures.map_or(0, Figures::jobs),
        period: source(plan, done).and_then(|thread| thread.period).or(timers.map(|of| of.0)).map(period),
        series: vec![series.clone()],
        execution: execution.map(|span| Span {
            min_ns: span.min_ns,
            mean_ns: span.mean_ns.0 as f64,
            max_ns: span.max_ns,
        }),
        preemptions: done.preemptions,
        deadline_ns: held.deadline_ns,
        misses: figures.map_or(0, |figures| figures.misses),
        miss_max_ns: figures.and_then(Figures::lateness_max),
        held_to: judged.then_some(held),
        ..Task::default()
    }
}

fn thread(plan: &Plan, done: &Done, analysed: Option<Ns>) -> ThreadRun {
    let figures = done.figures.as_ref();
    let source = source(plan, done);
    ThreadRun {
        name: done.name.clone(),
        scheduling: scheduling(done.rule),
        period_ns: source.and_then(|thread| thread.period),
        deadline_ns: source.and_then(|thread| thread.deadline),
        jobs: figures.map_or(0, Figures::jobs),
        finished: figures.map_or(0, |figures| figures.finished),
        not_started: figures.map_or(0, |figures| figures.not_started),
        misses: figures.map_or(0, |figures| figures.misses),
        lateness_max_ns: figures.and_then(Figures::lateness_max),
        missed_releases: figures.map_or(0, |figures| figures.missed_releases),
        response_max_ns: figures.and_then(|figures| figures.response.max()),
        analysed_ns: analysed,
        accounted_ns: None,
        release: figures.and_then(Figures::release),
        end_jitter_ns: figures.and_then(Figures::end_jitter),
        slack_min_ns: figures.and_then(|figures| figures.slack_min),
        execution: figures.and_then(Figures::execution),
        budget_ns: source.and_then(|thread| thread.budget),
        blocked: figures.map(|figures| figures.blocked).unwrap_or_default(),
        preemptions: done.preemptions,
        migrations: done.migrations,
        ended: done.ended.clone(),
    }
}

/// `FIFO 10`, `OTHER`, `DEADLINE 9.000 ms/20.000 ms/20.000 ms`.
#[must_use]
pub fn scheduling(rule: Rule) -> String {
    let name = rule.policy_name().trim_start_matches("SCHED_");
    match rule {
        Rule::Fifo(priority) | Rule::RoundRobin(priority) => format!("{name} {priority}"),
        Rule::Fair(_, 0) => name.to_owned(),
        Rule::Fair(_, nice) => format!("{name} {nice}"),
        Rule::Deadline { runtime, deadline, period } => format!("{name} {runtime}/{deadline}/{period}"),
        Rule::FiberFixed(priority) => format!("FP {priority}"),
        Rule::FiberEdf(Some(deadline)) => format!("EDF {deadline}"),
        Rule::FiberEdf(None) => "EDF, no deadline".to_owned(),
    }
}

#[cfg(test)]
mod tests;

//! Work of an application that is not part of any response time, and may have been late.
//!
//! A PASS covers the measured jobs. Each time longer than the deadline outside any job, or that would be one job if the
//! main wait were elsewhere, is a doubt with the name of the thread.

use std::collections::{BTreeMap, BTreeSet};

use super::chains;
use crate::application::{OtherEnd, OtherSpans, OtherStart, Task, OTHERS};
use crate::conditions::Machine;
use crate::cpuset::CpuSet;
use crate::numbers::counted;
use crate::run::Run;
use crate::series::Quantity;
use crate::time::{Ns, Tid};

/// A deadline longer than an interval by less than this fraction of it (1/64) is as long.
const NEARLY: u64 = 64;
/// Maximum number of threads in a list.
pub(super) const LISTED: usize = 16;

/// Why `tasks` of `run` may have missed `deadline` without a late job.
pub(super) fn doubts(run: &Run, tasks: &[Task], deadline: Ns) -> Vec<String> {
    let mut doubts: Vec<String> = tasks.iter().flat_map(|task| of_one(task, deadline)).collect();
    doubts.extend(tasks.iter().flat_map(|task| chains::of_stages(task, &run.tasks, deadline)));
    doubts.extend(not_recorded(&run.conditions.machine));
    doubts.extend(clock_set(run));
    doubts.extend(tasks.iter().filter_map(|task| released_late(task, &run.tasks, deadline)));
    doubts
}

/// Scope of a PASS: where the jobs of each thread start, and their number. A thread that also waits within a job, at
/// regular times and in the same call as its main wait, seems to have twice as many jobs of half the length: only the
/// user can see that.
pub(super) fn covers<'a>(tasks: impl Iterator<Item = &'a Task>) -> Option<String> {
    let inferred = tasks.filter(|task| !task.is_chosen && task.activations > 0 && task.chain.is_none());
    let mut told: Vec<String> = inferred
        .filter_map(|task| {
            let every = task.period.as_ref().map(|period| format!(", every {}", period.median_ns));
            let drifts = task.polls_every_ns.map(|_| " (a relative time: each job moves all later ones)");
            let (every, drifts) = (every.unwrap_or_default(), drifts.unwrap_or_default());
            Some(format!("{} in {}{every}{drifts}", task.thread, task.waits_in.as_ref()?))
        })
        .collect();
    if told.len() > LISTED {
        let more = told.len() - LISTED;
        told.truncate(LISTED);
        told.push(format!("{more} more"));
    }
    (!told.is_empty()).then(|| {
        format!(
            "a job is assumed to last from one wait to the next: {}. If one job contains several of these waits, it took \
             longer (--activation)",
            told.join("; ")
        )
    })
}

fn of_one(task: &Task, deadline: Ns) -> Vec<String> {
    let name = &task.thread;
    let mut doubts = Vec::new();
    doubts.extend(chains::not_followed(task));
    doubts.extend(chains::queued(task));
    let wait = task.waits_in.as_deref().unwrap_or("one place twice");
    let shown = |longer: Ns| longer.told_apart(deadline).0;
    if let Some(outside) = task.outside_ns.filter(|&outside| outside > deadline).map(shown) {
        doubts.push(format!(
            "{name}: up to {outside} is not part of any response time: before its first wait in {wait}, after its last, \
             or while activations were lost"
        ));
    }
    let known = doubts.len();
    // The rest depends on where jobs start.
    let inferred = (!task.is_chosen).then_some(task);
    doubts.extend(inferred.iter().flat_map(|task| where_jobs_start(task, deadline)));
    let off_period = inferred.filter(|task| task.period.is_some()).and_then(|task| task.off_period_ns);
    if let Some(longest) = off_period.filter(|&longest| longest > deadline).map(shown) {
        doubts.push(format!(
            "{name}: a wait in {wait} did not end at its period: if that wait was inside a job, the job took up to {longest}"
        ));
    }
    if doubts.len() == known {
        doubts.extend(inferred.and_then(|task| longer_than_interval(task, deadline)));
    }
    let own = longest_response(task);
    let polled = own > deadline && task.may_poll_until(deadline);
    doubts.extend(polled.then(|| may_poll(task, shown(own))));
    let spins = own > deadline && !polled && task.may_spin_until(deadline);
    doubts.extend(spins.then(|| may_spin(task, shown(own))));
    let elsewhere = own > deadline && task.may_start_elsewhere(deadline);
    let other = task.other_start.as_ref().filter(|_| elsewhere);
    doubts.extend(other.map(|other| may_start_elsewhere(task, other, shown(own))));
    let earlier = task.may_end_earlier().filter(|_| own > deadline && !elsewhere);
    doubts.extend(earlier.map(|end| may_end_earlier(task, end, shown(own), deadline)));
    // The event it polls for may have come just after it went to sleep.
    let sleeps = task.polls_every_ns.filter(|_| task.has_inferred_starts());
    if let Some(every) = sleeps.filter(|&every| !polled && every + own > deadline) {
        doubts.push(format!(
            "{name}: it sleeps {every} between its jobs; the release of the event that it polls for is not visible, and may be {} \
             before the end of the job",
            every + own
        ));
    }
    if let Some(several) = task.several_jobs.filter(|several| several.longest_ns > deadline) {
        let turns = counted(several.turns, "turn");
        doubts.push(format!(
            "{name}: {turns} took up to {}, but may be several jobs: its wait in {wait} does not block while there is more to \
             do, or it waited for the next one elsewhere. One job took at least {}",
            shown(several.longest_ns),
            several.certain_ns
        ));
    }
    if task.not_recorded > 0 && task.of(Quantity::Response).is_none() {
        doubts.push(format!("{name}: {} of its activations were not recorded", task.not_recorded));
    }
    doubts
}

/// Doubts on the main wait that was inferred for `task`: with another one, a job would exceed `deadline`.
pub(super) fn where_jobs_start(task: &Task, deadline: Ns) -> Vec<String> {
    let (name, mut doubts) = (&task.thread, other_turns(task, deadline));
    if let Some(several) = task.waits_in_one_job().filter(|of| of.longest_ns > deadline) {
        let how = match several.waits {
            Some(waits) => format!("at regular times only every {waits} waits"),
            None => "at irregular times".to_owned(),
        };
        let longest = several.longest_ns.told_apart(deadline).0;
        let wait = task.waits_in.as_deref().unwrap_or("one place twice");
        let plain = plain(wait);
        let by = if task.timer_driven { "timers end" } else { "other threads or interrupts end" };
        doubts.push(format!(
            "{name}: {by} its wait in {wait} {how}: if these waits belong to one job, a job took up to {longest}. If each \
             of them starts a job, give --activation '{plain}'; otherwise mark the jobs with the tracer (lathunt explain \
             --between)"
        ));
    }
    doubts
}

/// Whether a job exceeded `deadline` by its CPU time alone, from the end of an inferred wait.
pub(super) fn is_busy(task: &Task, deadline: Ns) -> bool {
    let by_itself = task.execution.as_ref().is_some_and(|execution| execution.max_ns > deadline);
    by_itself && !task.is_chosen && !task.is_release_in_doubt(deadline)
}

/// Where the jobs of late threads start. No event of the kernel shows whether a thread works or spins.
pub(super) fn measured_from<'a>(tasks: impl Iterator<Item = &'a Task>) -> Option<String> {
    let waits = tasks.filter_map(|task| Some(format!("{} in {}", task.thread, task.waits_in.as_ref()?)));
    let told: Vec<String> = waits.take(LISTED).collect();
    (!told.is_empty()).then(|| {
        format!(
            "a job is measured from the end of one wait to the next: {}. If the thread spins for its release after that wait, its \
             jobs took less: mark them with the tracer (lathunt explain --between)",
            told.join("; ")
        )
    })
}

/// Doubt on late jobs of a thread that may have polled for their release.
fn may_poll(task: &Task, longest: String) -> String {
    if task.chain.is_some() {
        return format!(
            "{}: it took up to {longest}, but the end of a wait of one of its threads does not prove a release: that thread \
             may have polled for its job after it. If that wait starts a job, give --activation; otherwise mark the jobs with \
             the tracer (lathunt explain --between)",
            task.thread
        );
    }
    let wait = task.waits_in.as_deref().unwrap_or("its main place");
    format!(
        "{}: from one wait in {wait} to the next, it took up to {longest}, but the end of that wait does not prove a release: \
         it may have polled for its job after it. If that wait starts a job, give --activation '{}'; otherwise mark the jobs \
         with the tracer (lathunt explain --between)",
        task.thread,
        plain(wait)
    )
}

/// Doubt on late jobs of a thread that may have spun until their release.
fn may_spin(task: &Task, longest: String) -> String {
    let wait = task.waits_in.as_deref().unwrap_or("its main place");
    format!(
        "{}: from one wait in {wait} to the next, it took up to {longest}, but the later it started, the less CPU time it took: \
         it seems to have spun until its release. If that wait starts a job, give --activation '{}'; otherwise mark \
         the jobs with the tracer (lathunt explain --between)",
        task.thread,
        plain(wait)
    )
}

/// Doubt on late jobs of a thread that also waits elsewhere, often enough to be in time if its jobs start there.
fn may_start_elsewhere(task: &Task, other: &OtherStart, longest: String) -> String {
    let wait = task.waits_in.as_deref().unwrap_or("its main place");
    let OtherStart { place, longest_ns } = other;
    format!(
        "{}: from one wait in {wait} to the next, it took up to {longest}, but from one wait in {place} to the next up to \
         {longest_ns}: it is unknown which wait starts a job. Choose one (--activation '{}' or '{}')",
        task.thread,
        plain(wait),
        plain(place)
    )
}

/// Doubt on the size of late jobs of a thread that waits elsewhere in most of its jobs.
fn may_end_earlier(task: &Task, end: &OtherEnd, longest: String, deadline: Ns) -> String {
    let wait = task.waits_in.as_deref().unwrap_or("its main place");
    format!(
        "{}: from one wait in {wait} to the next, it took up to {longest}, which is an upper limit: it is not known whether its \
         wait in {} ends a job. If it does, {}. If it is a part of the job, give --activation '{}'; otherwise mark the jobs with \
         the tracer (lathunt explain --between)",
        task.thread,
        end.place,
        end.said(deadline),
        plain(wait)
    )
}

/// Doubt on a thread that is released more often than its deadline allows. A job that met its deadline was over before the
/// next release, so the deadline of a job is rarely longer than the interval between jobs: more likely a job has several
/// of these waits, and nothing else may show that (equal steps without a pause, or polls).
fn longer_than_interval(task: &Task, deadline: Ns) -> Option<String> {
    let every = task.released_every_ns.or(task.period.as_ref().map(|period| period.median_ns));
    let every = every.filter(|every| every.0.saturating_add(every.0 / NEARLY) < deadline.0)?;
    let wait = task.waits_in.as_deref().unwrap_or("its main place");
    Some(format!(
        "{}: its wait in {wait} ends every {every}, more often than once per deadline: if a job contains several of these waits, it \
         took longer than any response time. If each of them starts a job, give --activation '{}', or a deadline of at most \
         {every} for this thread",
        task.thread,
        plain(wait)
    ))
}

/// Doubts on jobs that would be longer if another wait started them.
fn other_turns(task: &Task, deadline: Ns) -> Vec<String> {
    let (name, mut calls) = (&task.thread, BTreeSet::new());
    let unsaid = |other: &&OtherSpans| other.longest_ns > deadline.max(longest_response(task));
    let mut doubts = Vec::new();
    for other in task.other_turns.iter().filter(unsaid) {
        let (place, longest) = (&other.place, other.longest_ns.told_apart(deadline).0);
        let by = if other.after_timer { "timers" } else { "sources other than timers" };
        let plain = plain(place);
        if let Some(source) = &other.source {
            if calls.insert(plain) {
                doubts.push(format!(
                    "{name}: several sources end its wait in {place}: if only one of them ({source}) starts a job, a job took up \
                     to {longest}. If each of them starts a job, give --activation '{plain}'"
                ));
            }
            continue;
        }
        let Some(call) = &other.call else {
            doubts.push(format!(
                "{name}: if its jobs start when {by} end its wait in {place}, a job took up to {longest}: it is unknown which \
                 wait starts a job"
            ));
            continue;
        };
        if calls.insert(plain) {
            doubts.push(format!(
                "{name}: several call sites wait in {place}: if jobs start at only one of them, a job took up to {longest}. \
                 Choose that one (--activation '{plain}@{call}'), or all of them (--activation '{plain}')"
            ));
        }
    }
    doubts
}

/// The pattern for `place`, without details of the object.
fn plain(place: &str) -> &str {
    place.split_once(" (").map_or(place, |(plain, _)| plain)
}

/// Doubt on CPUs that were not recorded: threads may have run there.
fn not_recorded(machine: &Machine) -> Option<String> {
    let cpus = |list: &Option<String>| list.as_deref()?.parse::<CpuSet>().ok();
    let (online, measured) = (cpus(&machine.cpus_online)?, cpus(&machine.cpus_measured)?);
    let left_out: CpuSet = online.iter().filter(|&cpu| !measured.contains(cpu)).collect();
    (!left_out.is_empty()).then(|| {
        format!("CPU {left_out} was not recorded: the activity of the application there is not measured")
    })
}

/// Doubt on sleeps until a time of a clock that was set: the release is not the intended one. Sleeps on CLOCK_MONOTONIC
/// have no clock in their name; relative sleeps use it too.
fn clock_set(run: &Run) -> Option<String> {
    let steps = run.conditions.during.clock_set_ns.as_deref().filter(|steps| !steps.is_empty())?;
    let other = |task: &&Task| match task.waits_in.as_deref() {
        Some("clock_nanosleep TIMER_ABSTIME" | "clock_nanosleep" | "nanosleep") => false,
        Some(_) => true,
        None => task.of(Quantity::Response).is_some(),
    };
    let name = &run.tasks.iter().find(other)?.thread;
    let times = if steps.len() == 1 { "once".to_owned() } else { format!("{} times", steps.len()) };
    let most = steps.iter().map(|step| step.unsigned_abs()).max().map(Ns).unwrap_or_default();
    Some(format!(
        "{name}: CLOCK_REALTIME was set {times}, by at most {most}: if the thread waits for a time of that clock, its \
         releases moved"
    ))
}

/// Doubts on SCHED_OTHER threads, which have no deadline next to real-time threads unless they are named. One that ran
/// longer than the deadline of the others may have been forgotten. Not the start and the end of a process, in its first
/// thread.
pub(super) fn ordinary_threads(run: &Run) -> Vec<String> {
    let recorded = run.conditions.duration_s.map_or(Ns(u64::MAX), |seconds| Ns((seconds * 1e9) as u64));
    let too_long = |task: &Task| {
        let others = task.held_to?.others_ns?;
        let begins_or_ends = |outside: Ns| task.process == task.thread.tid && outside.0 < recorded.0 / 2;
        let outside = task.outside_ns.filter(|&outside| !begins_or_ends(outside)).unwrap_or_default();
        let longest = longest_response(task).max(outside);
        let (name, comm) = (&task.thread, &task.thread.comm);
        let longer = longest.told_apart(others).0;
        if comm == OTHERS && longest > others {
            return Some(format!(
                "{name}: one of the threads that are not tracked separately took up to {longer}; its deadline is unknown"
            ));
        }
        (longest > others).then(|| {
            format!(
                "{name}: an ordinary thread without a deadline, spent up to {longer} outside its main wait: set \
                 one (--deadline '…,{comm}=10ms'), or state that it has none ('…,{comm}=none')"
            )
        })
    };
    run.tasks.iter().filter_map(too_long).collect()
}

/// Doubt on a thread released by others: its response time and theirs, recursively, may add up. The sum is an upper
/// limit of the end-to-end response time.
fn released_late(task: &Task, tasks: &[Task], deadline: Ns) -> Option<String> {
    // One thread may have several: one for each main wait, or deadline of its names.
    let mut by_tid: BTreeMap<Tid, Vec<&Task>> = BTreeMap::new();
    tasks.iter().for_each(|task| by_tid.entry(task.thread.tid).or_default().push(task));
    let most = |tasks: &Vec<&Task>| tasks.iter().map(|task| longest(task)).max().unwrap_or_default();
    let (mut all, mut seen, mut next) = (Ns::ZERO, BTreeSet::new(), vec![task.thread.tid]);
    while let Some(tid) = next.pop() {
        if let Some(tasks) = by_tid.get(&tid).filter(|_| seen.insert(tid)) {
            all = all + most(tasks);
            next.extend(tasks.iter().flat_map(|task| &task.released_by));
        }
    }
    let (own, of_thread) = (longest(task), by_tid.get(&task.thread.tid).map(most)?);
    (all > deadline && own <= deadline && all > of_thread && !chains::is_in_chain(task, tasks)).then(|| {
        format!(
            "{}: other threads of the application release it, up to {all} end to end; only its own {own} was measured",
            task.thread
        )
    })
}

/// Longest response time; in a thread that is a single job, all of its time.
fn longest(task: &Task) -> Ns {
    let alone = task.activations == 0 && !task.released_by.is_empty();
    if alone {
        task.outside_ns.unwrap_or_default()
    } else {
        longest_response(task)
    }
}

pub(super) fn longest_response(task: &Task) -> Ns {
    task.of(Quantity::Response).and_then(|series| series.histogram.max()).unwrap_or_default()
}

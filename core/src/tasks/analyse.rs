//! The schedulability analysis of a task set: fixed priorities, EDF, sensitivity, and its assumptions.
//!
//! If every thread is bound to one CPU, each CPU is analysed separately; otherwise all threads are assumed to share
//! one, with a warning if this differs from the file.

use std::collections::BTreeMap;

use super::global::{self, Global};
use super::load::{loads, protocols, Load, Loads};
use super::set::{Protocol, TaskSet, Warning};
use super::{blocking, edf, fixed, sound};
use crate::time::{Cpu, Ns};

/// Overheads to add, measured or assumed by the caller; 0: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Costs {
    /// One context switch; each job pays two, and two for each sleep inside and for each lock that may have to wait: to the
    /// holder and back.
    pub switch: Ns,
}

/// One thread under fixed priorities.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name of the thread.
    pub name: String,
    /// Worst-case response time from the nominal release; `None`: unbounded or undecided.
    pub response: Option<Ns>,
    /// Relative deadline; `None`: neither it nor a period is in the file.
    pub deadline: Option<Ns>,
    /// The response time is known and within the deadline.
    pub schedulable: bool,
    /// Blocking by lower-priority threads.
    pub blocking: Ns,
    /// Worst-case response time under EDF, without blocking; `None`: unknown or not requested.
    pub edf_response: Option<Ns>,
}

/// EDF.
#[derive(Clone, Debug, PartialEq)]
pub struct Edf {
    /// Proven to meet every deadline.
    pub schedulable: bool,
    /// Sum of C / T on the processor with the highest load, without the threads whose demand is not known.
    pub utilisation: f64,
    /// Number of threads whose demand is not known.
    pub unknown: usize,
    /// Time of a deadline miss.
    pub fails_at: Option<Ns>,
}

/// The result.
#[derive(Clone, Debug, PartialEq)]
pub struct Analysis {
    /// Threads in file order.
    pub rows: Vec<Row>,
    /// Under EDF on one processor each.
    pub edf: Edf,
    /// Under global EDF, if the threads share several CPUs.
    pub global: Option<Global>,
    /// Assumptions and omissions, those of the reader first.
    pub warnings: Vec<Warning>,
}

/// Analyses `set`.
#[must_use]
pub fn analyse(set: &TaskSet, costs: Costs) -> Analysis {
    let mut found = loads(set);
    let mut warnings = set.warnings.clone();
    warnings.append(&mut found.warnings);
    warnings.extend(sound::doubts(set));
    let protocols = protocols(set, &found.threads);
    let groups = processors(&found, &mut warnings);
    across_processors(&mut found.threads, &groups, &mut warnings);
    let global = global::of(&found.threads.iter().map(|load| costed(load, costs)).collect::<Vec<_>>());
    let mut rows: Vec<Option<Row>> = vec![None; found.threads.len()];
    let mut edf = Edf { schedulable: true, utilisation: 0.0, unknown: 0, fails_at: None };
    for group in groups {
        let threads: Vec<Load> = group.iter().map(|at| costed(&found.threads[*at], costs)).collect();
        let of_group = fixed_rows(&threads, &protocols, &mut warnings);
        let (verdict, responses) = edf_of(&threads, &protocols, &mut warnings);
        for ((at, row), edf_response) in group.iter().zip(of_group).zip(responses) {
            rows[*at] = Some(Row { edf_response, ..row });
        }
        edf.schedulable &= verdict.schedulable;
        edf.utilisation = edf.utilisation.max(verdict.utilisation);
        edf.unknown += verdict.unknown;
        edf.fails_at = edf.fails_at.into_iter().chain(verdict.fails_at).min();
    }
    Analysis { rows: rows.into_iter().flatten().collect(), edf, global, warnings }
}

fn costed(load: &Load, costs: Costs) -> Load {
    let with = |time: Ns, pairs: u64| {
        Ns(time.0.saturating_add(costs.switch.0.saturating_mul(pairs.saturating_mul(2))))
    };
    let mut costed = load.clone();
    costed.wcet = with(load.wcet, load.suspensions.saturating_add(load.locks).saturating_add(1));
    for section in &mut costed.sections {
        section.length = with(section.length, section.locks);
    }
    costed
}

/// Indices of the threads of each processor.
fn processors(found: &Loads, warnings: &mut Vec<Warning>) -> Vec<Vec<usize>> {
    let single =
        |load: &Load| load.cpus.as_ref().filter(|cpus| cpus.len() == 1).and_then(|cpus| cpus.iter().next());
    let all: Vec<Option<Cpu>> = found.threads.iter().map(single).collect();
    if all.iter().all(Option::is_some) {
        let mut groups: BTreeMap<Cpu, Vec<usize>> = BTreeMap::new();
        for (at, cpu) in all.iter().enumerate() {
            groups.entry(cpu.unwrap_or_default()).or_default().push(at);
        }
        return groups.into_values().collect();
    }
    let is_bound = found.threads.iter().any(|load| load.cpus.is_some());
    let locks = found.threads.iter().filter(|load| !load.sections.is_empty()).count();
    let text = match (is_bound, locks) {
        (true, _) => "not every thread is bound to one CPU: analysed as if all shared one processor",
        (_, 2..) => "no thread is bound to a CPU: analysed as if all shared one processor; for a response of threads that share a mutex, bind all to one (\"cpus\", or -c)",
        _ => return vec![(0..found.threads.len()).collect()],
    };
    warnings.push(Warning { name: "one-processor", place: String::new(), text: text.to_owned() });
    vec![(0..found.threads.len()).collect()]
}

/// Where a thread runs: a CPU, or a thread that several may run.
type Place = (u32, Option<usize>);

/// The CPU of each thread, as far as mutexes are concerned. A thread of several CPUs is on none with another thread: while it
/// holds a mutex, others may run, and each lock may wait again.
fn places(threads: &[Load]) -> Vec<Place> {
    let place = |(at, load): (usize, &Load)| match &load.cpus {
        Some(cpus) if cpus.len() == 1 => (cpus.iter().next().unwrap_or_default().0, None),
        _ => (0, Some(at)),
    };
    threads.iter().enumerate().map(place).collect()
}

/// Threads that may wait for one on another processor, or inherit its priority, are not analysed: how long it holds their
/// mutex depends on the other processor.
fn across_processors(threads: &mut [Load], groups: &[Vec<usize>], warnings: &mut Vec<Warning>) {
    let mut users: BTreeMap<String, (Place, i64, bool)> = BTreeMap::new();
    for (thread, place) in threads.iter().zip(places(threads)) {
        for section in &thread.sections {
            let user = users.entry(section.mutex.clone()).or_insert((place, thread.level, false));
            (user.1, user.2) = (user.1.max(thread.level), user.2 || user.0 != place);
        }
    }
    users.retain(|_, (.., shared)| *shared);
    for group in groups.iter().filter(|_| !users.is_empty()) {
        // At the highest level of all its users, a holder also delays threads that do not use the mutex.
        let of = |thread: &Load| {
            let shared = thread.sections.iter().filter_map(|section| users.get(&section.mutex));
            shared.map(|user| user.1).max().map(|ceiling| (thread.level, ceiling))
        };
        let held: Vec<(i64, i64)> = group.iter().filter_map(|at| of(&threads[*at])).collect();
        for at in group {
            let thread = &mut threads[*at];
            let shared = thread.sections.iter().find(|section| users.contains_key(&section.mutex));
            let why = match shared {
                Some(section) => format!(
                    "it shares mutex \"{}\" with a thread that may run on another CPU: how long it waits is not known to the analysis",
                    section.mutex
                ),
                None if held.iter().any(|(level, ceiling)| *level < thread.level && thread.level <= *ceiling) => {
                    "a less urgent thread shares a mutex with one that may run on another CPU, which may raise its priority"
                        .to_owned()
                }
                None => continue,
            };
            if thread.unknown.is_none() {
                let place = format!("tasks.{}", thread.name);
                warnings.push(Warning { name: "not-analysed", place, text: why.clone() });
                thread.unknown = Some(why);
            }
        }
    }
}

/// Rows of the threads of one processor, in their order.
fn fixed_rows(
    threads: &[Load],
    protocols: &BTreeMap<String, Protocol>,
    warnings: &mut Vec<Warning>,
) -> Vec<Row> {
    let blocked = blocking::fixed(threads, protocols);
    // The unknown demand of a thread makes all lower-priority threads unknown.
    let is_known = |load: &Load| load.unknown.is_none() && load.not_fixed.is_none() && load.period.is_some();
    let worst_unknown = threads.iter().filter(|load| !is_known(load)).map(|load| load.level).max();
    let mut order: Vec<usize> = (0..threads.len()).filter(|at| is_known(&threads[*at])).collect();
    order.retain(|at| worst_unknown.is_none_or(|level| threads[*at].level > level));
    order.sort_by_key(|at| (std::cmp::Reverse(threads[*at].level), *at));
    let sorted: Vec<fixed::Thread> =
        order.iter().filter_map(|at| as_fixed(&threads[*at], &blocked[*at])).collect();
    let mut responses: Vec<Option<Ns>> = vec![None; threads.len()];
    for (at, response) in order.iter().zip(fixed::responses(&sorted)) {
        responses[*at] = response;
    }
    let mut inversions: Vec<String> = Vec::new();
    let rows = threads.iter().zip(&blocked).zip(responses).map(|((load, blocked), response)| {
        inversions.extend(blocked.unbounded.clone());
        let response = response.filter(|_| blocked.unbounded.is_none());
        let within = response.zip(load.deadline).is_some_and(|(response, deadline)| response <= deadline);
        Row {
            name: load.name.clone(),
            response,
            deadline: load.deadline,
            schedulable: within,
            blocking: blocked.time,
            edf_response: None,
        }
    });
    let rows = rows.collect();
    inversions.sort_unstable();
    inversions.dedup();
    for why in inversions {
        let text = format!("{why}: no response is claimed for its more urgent users and the threads between");
        warnings.push(Warning { name: "unbounded-blocking", place: String::new(), text });
    }
    if let (Some(level), Some(below)) =
        (worst_unknown, threads.iter().filter(|load| is_known(load)).map(|load| load.level).min())
        && below <= level
    {
        let text = "threads below one that is not analysed have no response either".to_owned();
        warnings.push(Warning { name: "not-analysed", place: String::new(), text });
    }
    rows
}

/// Blocking after a sleep also delays all threads below: it counts as work, as the sleep does.
fn as_fixed(load: &Load, blocked: &blocking::Blocking) -> Option<fixed::Thread> {
    let period = load.period?;
    let deadline = load.deadline.unwrap_or(period);
    Some(fixed::Thread {
        wcet: Ns(load.wcet.0.saturating_add(blocked.after_sleeps.0)),
        period,
        deadline,
        jitter: load.jitter,
        blocking: blocked.time.saturating_sub(blocked.after_sleeps),
        level: load.level,
    })
}

/// The deadline minus release jitter, for the demand.
fn effective(load: &Load) -> Ns {
    load.deadline.unwrap_or_default().saturating_sub(load.jitter)
}

fn edf_of(
    threads: &[Load],
    protocols: &BTreeMap<String, Protocol>,
    warnings: &mut Vec<Warning>,
) -> (Edf, Vec<Option<Ns>>) {
    let mut say = |name: &'static str, text: &str| {
        if !warnings.iter().any(|known| known.name == name && known.text == text) {
            warnings.push(Warning { name, place: String::new(), text: text.to_owned() });
        }
    };
    let all: Vec<edf::Thread> = threads
        .iter()
        .filter(|load| load.unknown.is_none())
        .filter_map(|load| {
            Some(edf::Thread { wcet: load.wcet, period: load.period?, deadline: effective(load) })
        })
        .collect();
    let (utilisation, unknown) = (edf::utilisation(&all), threads.len() - all.len());
    let not_decided =
        || (Edf { schedulable: false, utilisation, unknown, fails_at: None }, vec![None; threads.len()]);
    if unknown > 0 {
        say("edf-undecided", "EDF is not decided: the demand of a thread is not known");
        return not_decided();
    }
    let undecided = match threads {
        _ if blocking::are_too_many(threads) => Some("too many critical sections for this analysis"),
        _ if blocking::is_held_in_sleep(threads) => Some("a thread holds a mutex while it waits or sleeps"),
        _ => None,
    };
    if let Some(why) = undecided {
        say("edf-undecided", &format!("EDF is not decided: {why}"));
        return not_decided();
    }
    let is_by_kernel = |load: &Load| load.not_fixed.is_some() && !load.sections.is_empty();
    if protocols.values().any(|protocol| *protocol != Protocol::Ceiling) || threads.iter().any(is_by_kernel) {
        say("edf-assumes-srp", "the verdict for EDF counts with the stack resource policy for every mutex");
    }
    let mut blocked = blocking::srp(threads);
    let stated = threads.iter().map(|load| load.blocking).max().unwrap_or_default();
    if stated > Ns::ZERO {
        blocked = stated_blocking(threads, &blocked);
    }
    // After each sleep a thread may be blocked again, which also delays all with later deadlines.
    let longest = blocked.iter().map(|(_, time)| time.0).max().unwrap_or_default();
    let mut demand = all.clone();
    for (thread, load) in demand.iter_mut().zip(threads) {
        thread.wcet = Ns(thread.wcet.0.saturating_add(longest.saturating_mul(load.suspensions)));
    }
    let verdict = edf::check(&demand, &blocked);
    if verdict.schedulable.is_none() {
        say(
            "edf-undecided",
            "EDF is not decided: utilisation too near to 1, or a busy period that is too long",
        );
    }
    let schedulable = verdict.schedulable == Some(true);
    let mut responses = vec![None; threads.len()];
    if schedulable
        && blocked.iter().all(|(_, time)| *time == Ns::ZERO)
        && threads.iter().all(|load| load.jitter == Ns::ZERO)
    {
        responses = edf::responses(&all);
    }
    (Edf { schedulable, utilisation, unknown, fails_at: verdict.fails_at }, responses)
}

/// Adds the blocking that the file states for a thread, from its deadline until the latest deadline.
fn stated_blocking(threads: &[Load], srp: &[(Ns, Ns)]) -> Vec<(Ns, Ns)> {
    let mut edges: Vec<Ns> = threads.iter().map(effective).chain(srp.iter().map(|(from, _)| *from)).collect();
    edges.sort_unstable();
    edges.dedup();
    // Stated blocking of a thread applies from its deadline until the latest deadline; from then on only that of the
    // threads with the latest deadline remains, since the blockers of the others are also due.
    let latest = edges.last().copied().unwrap_or_default();
    let at = |edge: &Ns| {
        let by_srp = srp.iter().rev().find(|(from, _)| from <= edge).map_or(Ns::ZERO, |(_, time)| *time);
        let counts = |load: &&Load| effective(load) <= *edge && (*edge < latest || effective(load) == latest);
        by_srp + threads.iter().filter(counts).map(|load| load.blocking).max().unwrap_or_default()
    };
    edges.iter().map(|edge| (*edge, at(edge))).collect()
}

/// Longest schedulable execution of a thread; `None`: the set is not schedulable as it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Margin {
    /// Name of the thread.
    pub name: String,
    /// Longest execution at which every thread still meets its deadline under fixed priorities.
    pub fixed: Option<Ns>,
    /// The same under EDF.
    pub edf: Option<Ns>,
}

/// Sensitivity of each thread: bisection on its C, others unchanged, to 1 µs or a thousandth.
#[must_use]
pub fn margins(set: &TaskSet, costs: Costs) -> Vec<Margin> {
    let mut found = loads(set);
    let protocols = protocols(set, &found.threads);
    let groups = processors(&found, &mut Vec::new());
    across_processors(&mut found.threads, &groups, &mut Vec::new());
    let mut margins: Vec<Option<Margin>> = vec![None; found.threads.len()];
    for group in groups {
        let threads: Vec<Load> = group.iter().map(|at| costed(&found.threads[*at], costs)).collect();
        let fixed = |threads: &[Load]| {
            fixed_rows(threads, &protocols, &mut Vec::new()).iter().all(|row| row.schedulable)
        };
        let by_edf = |threads: &[Load]| edf_of(threads, &protocols, &mut Vec::new()).0.schedulable;
        for (place, at) in group.iter().enumerate() {
            let name = threads[place].name.clone();
            let least = |meets: &dyn Fn(&[Load]) -> bool| longest(&threads, place, meets);
            margins[*at] = Some(Margin { name, fixed: least(&fixed), edf: least(&by_edf) });
        }
    }
    margins.into_iter().flatten().collect()
}

/// The longest C of the thread at `place` at which `meets` holds.
fn longest(threads: &[Load], place: usize, meets: &dyn Fn(&[Load]) -> bool) -> Option<Ns> {
    let mut changed = threads.to_vec();
    let mut holds = |wcet: u64| {
        changed[place].wcet = Ns(wcet);
        meets(&changed)
    };
    let mut low = threads[place].wcet.0;
    if !holds(low) {
        return None;
    }
    let mut high = threads[place].deadline?.0.saturating_add(1).max(low + 1);
    while high - low > (low / 10_000).clamp(1, 1_000) {
        let middle = low + (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    Some(Ns(low))
}

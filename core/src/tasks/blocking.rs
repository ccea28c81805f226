//! How long can a lower-priority thread hold a mutex that one of the same or a higher priority may need?
//!
//! Immediate ceiling and SRP: the longest single section (Baker 1991). Priority inheritance: one section of each
//! lower-priority thread, or one of each mutex, whichever is less (Sha, Rajkumar & Lehoczky 1990); also of a mutex that is
//! locked inside a section of the other ones. No protocol: bounded only if no thread has a level between those of the
//! users, and no user with a lower level than another one shares its own; else the owner may wait for all of these
//! (`unbounded`).
//!
//! These bounds are for a thread that waits for nothing but mutexes. After each sleep inside a job it may be blocked again.
//! A thread that may wait for an owner which sleeps or waits has no bound: meanwhile less urgent threads run, and lock others.

use std::collections::{BTreeMap, BTreeSet};

use super::load::{Load, Section};
use super::set::Protocol;
use crate::time::Ns;

/// Maximum pairs of a thread and a section that are compared: some seconds.
const MOST_PAIRS: usize = 20_000_000;

/// Blocking of one thread under fixed priorities.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blocking {
    /// Blocking by sections, after each sleep again, plus that stated in the file.
    pub time: Ns,
    /// The part of it that is due to sleeps; it also delays all threads below.
    pub after_sleeps: Ns,
    /// Why it may be longer: one line.
    pub unbounded: Option<String>,
}

/// Whether the sections and stated blocking of `threads` are more than either analysis compares in some seconds.
#[must_use]
pub fn are_too_many(threads: &[Load]) -> bool {
    let of = |thread: &Load| thread.sections.len() + usize::from(thread.blocking > Ns::ZERO);
    threads.iter().map(of).sum::<usize>().saturating_mul(threads.len()) > MOST_PAIRS
}

/// Whether a thread waits or sleeps while it holds a mutex that others use.
#[must_use]
pub fn is_held_in_sleep(threads: &[Load]) -> bool {
    let holders: Vec<&Load> = threads.iter().filter(|thread| !thread.sections.is_empty()).collect();
    let waiting = waiting_owners(&holders);
    let by_others = |thread: &&&Load| {
        thread.sections.iter().any(|section| of_others(&waiting, section, thread).is_some())
    };
    holders.iter().any(|thread| by_others(&thread))
}

/// Blocking of each thread under fixed priorities, in order. `threads` are those of one processor.
#[must_use]
pub fn fixed(threads: &[Load], protocols: &BTreeMap<String, Protocol>) -> Vec<Blocking> {
    let stated = |thread: &Load| Blocking { time: thread.blocking, ..Blocking::default() };
    let by_users = ceilings(threads, |thread| thread.level);
    if by_users.is_empty() {
        return threads.iter().map(stated).collect();
    }
    let mut ceilings = by_users.clone();
    let nested = nested(threads, protocols);
    // A thread that waits for an inner mutex passes the priority of those that wait for its outer one on to the holder.
    for (outer, inner) in &nested {
        let ceiling = by_users.get(outer).copied().unwrap_or(i64::MIN);
        if protocols.get(*inner) != Some(&Protocol::Ceiling) {
            ceilings.entry(inner).and_modify(|known| *known = ceiling.max(*known));
        }
    }
    let is_cyclic = |mutex: &str| nested.contains(&(mutex, mutex));
    let leads_to_cycle = |(outer, inner): &&(&str, &str)| is_cyclic(outer) || is_cyclic(inner);
    let stuck: BTreeSet<&str> = nested.iter().filter(leads_to_cycle).map(|(outer, _)| *outer).collect();
    let floors: BTreeMap<&str, i64> = ceilings_by(threads, |thread| thread.level, i64::min);
    let shared = ceilings.iter().filter_map(|(mutex, ceiling)| Some((*mutex, *floors.get(mutex)?, *ceiling)));
    let between = |floor: i64, ceiling: i64| {
        threads.iter().any(|thread| floor < thread.level && thread.level < ceiling)
    };
    let crowded = crowded(threads);
    let is_open = |mutex: &str, floor: i64, ceiling: i64| {
        between(floor, ceiling) || crowded.get(mutex).is_some_and(|level| *level < ceiling)
    };
    let open: BTreeSet<&str> = shared
        .filter(|(mutex, floor, ceiling)| is_open(mutex, *floor, *ceiling))
        .map(|(mutex, ..)| mutex)
        .collect();
    let holders: Vec<&Load> = threads.iter().filter(|thread| !thread.sections.is_empty()).collect();
    if are_too_many(threads) {
        let why = "too many critical sections for this analysis";
        let open = |thread: &Load| Blocking { unbounded: Some(why.to_owned()), ..stated(thread) };
        return threads.iter().map(open).collect();
    }
    let waiting = waiting_owners(&holders);
    let lowest = lowest_inside(&nested, protocols, &by_users);
    let one = |thread: &Load| {
        let found = of_one(thread, &holders, protocols, &ceilings, &open);
        let locked = thread.sections.iter().find(|section| stuck.contains(section.mutex.as_str()));
        let deadlock = |section: &Section| {
            format!(
                "mutex \"{}\" leads to mutexes that are nested in different orders (deadlock)",
                section.mutex
            )
        };
        let waits = || thread.sections.iter().find_map(|section| of_others(&waiting, section, thread));
        let below = || uninherited(thread, &holders, &ceilings, &lowest);
        Blocking {
            unbounded: locked.map(deadlock).or_else(waits).or_else(below).or(found.unbounded),
            ..found
        }
    };
    threads.iter().map(one).collect()
}

/// By mutex, the lowest level of a user that shares its level with another thread, so that either may run.
fn crowded(threads: &[Load]) -> BTreeMap<&str, i64> {
    let mut of_level: BTreeMap<i64, u32> = BTreeMap::new();
    threads.iter().for_each(|thread| *of_level.entry(thread.level).or_default() += 1);
    let mut found: BTreeMap<&str, i64> = BTreeMap::new();
    for thread in threads.iter().filter(|thread| thread.time_shares && of_level[&thread.level] > 1) {
        for section in &thread.sections {
            let level = found.entry(&section.mutex).or_insert(thread.level);
            *level = thread.level.min(*level);
        }
    }
    found
}

/// By mutex, the first two threads that wait or sleep while they hold it: (name, why).
fn waiting_owners<'t>(holders: &[&'t Load]) -> BTreeMap<&'t str, Vec<(&'t str, &'t str)>> {
    let mut found: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    for thread in holders {
        for section in &thread.sections {
            let Some(why) = &section.unbounded else { continue };
            let owners = found.entry(&section.mutex).or_default();
            if owners.len() < 2 && owners.iter().all(|(name, _)| *name != thread.name) {
                owners.push((&thread.name, why));
            }
        }
    }
    found
}

/// Why a section of `thread` may have to wait for an owner that waits.
fn of_others(
    waiting: &BTreeMap<&str, Vec<(&str, &str)>>,
    section: &Section,
    thread: &Load,
) -> Option<String> {
    let owners = waiting.get(section.mutex.as_str())?;
    let (name, why) = owners.iter().find(|(name, _)| *name != thread.name)?;
    Some(owner_waits(name, &section.mutex, why))
}

fn owner_waits(name: &str, mutex: &str, why: &str) -> String {
    format!("{name} holds mutex \"{mutex}\" while it {why}")
}

/// Pairs of mutexes: in a section of the first, a thread locks the second, and the two are not both of the ceiling
/// protocol, which lets no thread wait inside.
fn nested<'t>(threads: &'t [Load], protocols: &BTreeMap<String, Protocol>) -> BTreeSet<(&'t str, &'t str)> {
    let is_ceiling = |mutex: &str| protocols.get(mutex) == Some(&Protocol::Ceiling);
    let sections = threads.iter().flat_map(|thread| &thread.sections);
    let pairs = sections.flat_map(|one| one.within.iter().map(|outer| (outer.as_str(), one.mutex.as_str())));
    let mut inside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (outer, inner) in pairs.filter(|(outer, inner)| !(is_ceiling(outer) && is_ceiling(inner))) {
        inside.entry(outer).or_default().insert(inner);
    }
    // Of a chain, also the ends.
    let mut found = BTreeSet::new();
    for outer in inside.keys() {
        let mut open = vec![*outer];
        while let Some(mutex) = open.pop() {
            let next = inside.get(mutex).into_iter().flatten();
            open.extend(next.filter(|inner| found.insert((*outer, **inner))));
        }
    }
    found
}

/// By mutex without a ceiling, the lowest ceiling of those that a thread locks inside, and that mutex.
fn lowest_inside<'t>(
    nested: &BTreeSet<(&'t str, &'t str)>,
    protocols: &BTreeMap<String, Protocol>,
    ceilings: &BTreeMap<&'t str, i64>,
) -> BTreeMap<&'t str, (i64, &'t str)> {
    let is_ceiling = |mutex: &str| protocols.get(mutex) == Some(&Protocol::Ceiling);
    let mut found: BTreeMap<&str, (i64, &str)> = BTreeMap::new();
    for (outer, inner) in nested.iter().filter(|(outer, inner)| is_ceiling(inner) && !is_ceiling(outer)) {
        let of_inner = (ceilings.get(inner).copied().unwrap_or(i64::MIN), *inner);
        let known = found.entry(outer).or_insert(of_inner);
        *known = of_inner.min(*known);
    }
    found
}

/// Why `thread` may wait for a less urgent one that holds a mutex with a ceiling below it: a ceiling is not inherited.
fn uninherited(
    thread: &Load,
    holders: &[&Load],
    ceilings: &BTreeMap<&str, i64>,
    lowest: &BTreeMap<&str, (i64, &str)>,
) -> Option<String> {
    if lowest.is_empty() {
        return None;
    }
    let lower = holders.iter().filter(|lower| lower.level < thread.level);
    let outer = lower.flat_map(|lower| &lower.sections).map(|section| section.mutex.as_str());
    let reaches = |outer: &&str| ceilings.get(outer).is_some_and(|ceiling| *ceiling >= thread.level);
    let mut inside = outer.filter(reaches).filter_map(|outer| Some((outer, lowest.get(outer)?)));
    inside.find(|(_, (ceiling, _))| *ceiling < thread.level).map(|(outer, (_, inner))| {
        format!(
            "mutex \"{inner}\" has the protocol ceiling and is locked inside \"{outer}\", which has not: its holder does not \
             inherit the priority of the threads that wait for \"{outer}\""
        )
    })
}

fn of_one(
    thread: &Load,
    holders: &[&Load],
    protocols: &BTreeMap<String, Protocol>,
    ceilings: &BTreeMap<&str, i64>,
    open: &BTreeSet<&str>,
) -> Blocking {
    let mut by_ceiling = Ns::ZERO;
    let mut by_thread: BTreeMap<usize, Ns> = BTreeMap::new();
    let mut by_mutex: BTreeMap<&str, Ns> = BTreeMap::new();
    let mut unbounded = None;
    for (at, lower) in holders.iter().enumerate().filter(|(_, lower)| lower.level < thread.level) {
        for section in &lower.sections {
            let mutex = section.mutex.as_str();
            if ceilings.get(mutex).is_none_or(|ceiling| *ceiling < thread.level) {
                continue;
            }
            if let Some(why) = &section.unbounded {
                unbounded = Some(owner_waits(&lower.name, mutex, why));
            }
            match protocols.get(mutex).copied().unwrap_or(Protocol::None) {
                Protocol::Ceiling => by_ceiling = by_ceiling.max(section.length),
                protocol => {
                    let longest = by_thread.entry(at).or_default();
                    *longest = (*longest).max(section.length);
                    let longest = by_mutex.entry(mutex).or_default();
                    *longest = (*longest).max(section.length);
                    if protocol == Protocol::None && open.contains(mutex) {
                        unbounded = Some(no_protocol(mutex));
                    }
                }
            }
        }
    }
    let sum = |all: &mut dyn Iterator<Item = &Ns>| all.copied().sum::<Ns>();
    let once = by_ceiling + sum(&mut by_thread.values()).min(sum(&mut by_mutex.values()));
    let after_sleeps = Ns(once.0.saturating_mul(thread.suspensions));
    Blocking { time: Ns((thread.blocking + once).0.saturating_add(after_sleeps.0)), after_sleeps, unbounded }
}

fn no_protocol(mutex: &str) -> String {
    format!(
        "mutex \"{mutex}\" has no protocol and threads of levels between its users: its holder can wait for them (set \
         pi_enabled, or a protocol in resources)"
    )
}

fn ceilings(threads: &[Load], rank: impl Fn(&Load) -> i64) -> BTreeMap<&str, i64> {
    ceilings_by(threads, rank, i64::max)
}

fn ceilings_by(
    threads: &[Load],
    rank: impl Fn(&Load) -> i64,
    pick: impl Fn(i64, i64) -> i64,
) -> BTreeMap<&str, i64> {
    let mut found: BTreeMap<&str, i64> = BTreeMap::new();
    for thread in threads {
        for section in &thread.sections {
            let rank = rank(thread);
            found.entry(&section.mutex).and_modify(|known| *known = pick(*known, rank)).or_insert(rank);
        }
    }
    found
}

/// Blocking under EDF with SRP as steps: (start time, ascending; maximum blocking until the next step).
///
/// At t: the longest section of a thread with a later deadline, on a mutex whose shortest deadline is at most that of
/// some thread due by t. Release jitter lets the order of deadlines differ from that of preemption levels, so that more
/// than one thread may block: then one section of each counts.
#[must_use]
pub fn srp(threads: &[Load]) -> Vec<(Ns, Ns)> {
    let holders: Vec<&Load> = threads.iter().filter(|thread| !thread.sections.is_empty()).collect();
    if holders.is_empty() {
        return Vec::new();
    }
    let full = |thread: &Load| thread.deadline.unwrap_or_default();
    let due = |thread: &Load| full(thread).saturating_sub(thread.jitter);
    let shortest = ceilings_by(threads, |thread| i64::try_from(full(thread).0).unwrap_or(i64::MAX), i64::min);
    let mut edges: Vec<Ns> = threads.iter().flat_map(|thread| [full(thread), due(thread)]).collect();
    edges.sort_unstable();
    edges.dedup();
    let has_jitter = threads.iter().any(|thread| thread.jitter > Ns::ZERO);
    let mut by_due: Vec<(Ns, Ns)> = threads.iter().map(|thread| (due(thread), full(thread))).collect();
    by_due.sort_unstable();
    let (mut next, mut reach) = (0, Ns::ZERO);
    let at = |edge: &Ns| {
        while let Some((_, deadline)) = by_due.get(next).filter(|(due, _)| due <= edge) {
            reach = reach.max(*deadline);
            next += 1;
        }
        let wanted = |section: &&Section| {
            shortest.get(section.mutex.as_str()).is_some_and(|deadline| *deadline as u64 <= reach.0)
        };
        let longest = |thread: &&Load| thread.sections.iter().filter(wanted).map(|one| one.length).max();
        let later = holders.iter().filter(|thread| full(thread) > *edge).filter_map(longest);
        let time = if has_jitter { later.sum() } else { later.max().unwrap_or_default() };
        (*edge, time)
    };
    edges.iter().map(at).collect()
}

//! Checks that a set can run, before any thread starts: paired locks, barriers that open, existing forks.

use std::collections::{BTreeMap, BTreeSet};

use super::read::NotATaskSet;
use super::set::{Event, Task, TaskSet, Warning};

/// Refuses sets that certainly deadlock or are undefined.
pub(super) fn check(set: &TaskSet) -> Result<(), NotATaskSet> {
    let names: BTreeSet<&str> = set.tasks.iter().map(|task| task.name.as_str()).collect();
    let forked: BTreeSet<&str> = events(set).filter_map(|event| as_fork(event)).collect();
    if let Some(missing) = forked.iter().find(|name| !names.contains(*name)) {
        return Err(NotATaskSet::new(
            "tasks",
            format!("fork of \"{missing}\", which is no task of this set"),
        ));
    }
    if set.tasks.iter().all(|task| task.instances == 0) {
        return Err(NotATaskSet::new("tasks", "every task has \"instance\" 0: nothing would run"));
    }
    for task in &set.tasks {
        locks(task)?;
    }
    barriers(set, &forked)
}

/// Possible problems, as warnings.
#[must_use]
pub fn doubts(set: &TaskSet) -> Vec<Warning> {
    let mut found = Vec::new();
    let forked: BTreeSet<&str> = events(set).filter_map(|event| as_fork(event)).collect();
    for task in set.tasks.iter().filter(|task| task.instances == 0 && !forked.contains(task.name.as_str())) {
        let text = "\"instance\" 0 and no fork: it never runs".to_owned();
        found.push(Warning { name: "never-runs", place: format!("tasks.{}", task.name), text });
    }
    if let Some(cycle) = lock_cycle(set) {
        let text =
            format!("mutexes {cycle} are nested in different orders: a deadlock unless they have ceilings");
        found.push(Warning { name: "lock-order", place: String::new(), text });
    }
    found
}

fn events(set: &TaskSet) -> impl Iterator<Item = &Event> {
    set.tasks.iter().flat_map(|task| &task.phases).flat_map(|phase| &phase.events)
}

fn as_fork(event: &Event) -> Option<&str> {
    match event {
        Event::Fork(name) => Some(name),
        _ => None,
    }
}

/// Maximum mutexes that a thread may hold at once.
const MOST_HELD: usize = 16;

/// Each phase must unlock what it locks: a loop would lock twice.
fn locks(task: &Task) -> Result<(), NotATaskSet> {
    for phase in &task.phases {
        let place = match phase.name.is_empty() {
            true => format!("tasks.{}", task.name),
            false => format!("tasks.{}.phases.{}", task.name, phase.name),
        };
        let wrong = |what: String| Err(NotATaskSet::new(&place, what));
        let mut held: Vec<&str> = Vec::new();
        for event in &phase.events {
            match event {
                Event::Lock(mutex) if held.contains(&mutex.as_str()) => {
                    return wrong(format!("locks \"{mutex}\" while it holds it: a deadlock with itself"));
                }
                Event::Lock(mutex) if held.len() == MOST_HELD => {
                    return wrong(format!("locks \"{mutex}\" while it holds {MOST_HELD} others: at most {MOST_HELD} are analysed"));
                }
                Event::Lock(mutex) => held.push(mutex),
                Event::Unlock(mutex) => match held.iter().rposition(|one| one == mutex) {
                    Some(at) => {
                        held.remove(at);
                    }
                    None => return wrong(format!("unlocks \"{mutex}\", which it does not hold")),
                },
                Event::Wait(_, mutex) | Event::Sync(_, mutex) if !held.contains(&mutex.as_str()) => {
                    return wrong(format!(
                        "waits with mutex \"{mutex}\", which it does not hold (lock it first)"
                    ));
                }
                _ => {}
            }
        }
        if let Some(mutex) = held.first() {
            return wrong(format!("ends while it holds \"{mutex}\": add an unlock"));
        }
    }
    Ok(())
}

/// Mutexes with a cyclic nesting order.
fn lock_cycle(set: &TaskSet) -> Option<String> {
    let mut inside: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for phase in set.tasks.iter().flat_map(|task| &task.phases) {
        let mut held: Vec<&str> = Vec::new();
        for event in &phase.events {
            match event {
                Event::Lock(mutex) => {
                    held.iter().for_each(|outer| {
                        inside.entry(outer).or_default().insert(mutex);
                    });
                    held.push(mutex);
                }
                Event::Unlock(mutex) => held.retain(|one| one != mutex),
                _ => {}
            }
        }
    }
    let inside = on_cycles(inside);
    let reaches = |from: &str, to: &str| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
        while let Some(mutex) = open.pop() {
            for next in inside.get(mutex).into_iter().flatten() {
                if *next == to {
                    return true;
                }
                if seen.insert(*next) {
                    open.push(next);
                }
            }
        }
        false
    };
    let pairs = inside.iter().flat_map(|(outer, inner)| inner.iter().map(move |inner| (*outer, *inner)));
    let mut pairs = pairs;
    pairs
        .find(|(outer, inner)| reaches(inner, outer))
        .map(|(outer, inner)| format!("\"{outer}\" and \"{inner}\""))
}

/// Edges of a graph without the nodes that no other leads to, or that lead to no other, again and again: empty if there is no
/// cycle. In time proportional to the edges.
fn on_cycles<'a>(edges: BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let reversed = |edges: &BTreeMap<&'a str, BTreeSet<&'a str>>| {
        let mut reversed: BTreeMap<&'a str, BTreeSet<&'a str>> = BTreeMap::new();
        for (from, all) in edges {
            for to in all {
                reversed.entry(to).or_default().insert(from);
            }
        }
        reversed
    };
    let without_ends = |mut edges: BTreeMap<&'a str, BTreeSet<&'a str>>| {
        let into = reversed(&edges);
        let ends = into.keys().filter(|node| !edges.contains_key(*node)).copied();
        let mut ends: Vec<&str> = ends.collect();
        while let Some(end) = ends.pop() {
            for from in into.get(end).into_iter().flatten() {
                let Some(left) = edges.get_mut(from) else { continue };
                left.remove(end);
                if left.is_empty() {
                    edges.remove(from);
                    ends.push(from);
                }
            }
        }
        edges
    };
    reversed(&without_ends(reversed(&without_ends(edges))))
}

/// Barriers in the order in which one thread reaches them, and whether it repeats for ever.
struct Walk<'a> {
    task: &'a str,
    threads: u64,
    barriers: Vec<&'a str>,
    endless: bool,
    at: usize,
}

/// Maximum unrolled length: an ordering deadlock occurs within one iteration of each task.
const UNROLLED: usize = 500;

/// Simulates only the barriers: each opens when as many threads wait as refer to it (references × instances).
fn barriers(set: &TaskSet, forked: &BTreeSet<&str>) -> Result<(), NotATaskSet> {
    let mut users: BTreeMap<&str, u64> = BTreeMap::new();
    let mut walks: Vec<Walk> = Vec::new();
    for task in set.tasks.iter().filter(|task| task.instances > 0) {
        for event in task.phases.iter().flat_map(|phase| &phase.events) {
            if let Event::Barrier(name) = event {
                *users.entry(name).or_default() += u64::from(task.instances);
                if forked.contains(task.name.as_str()) {
                    let what = "waits at a barrier and is forked: the number of its users is not known";
                    return Err(NotATaskSet::new(&format!("tasks.{}", task.name), what));
                }
            }
        }
        let walk = walk(task);
        if !walk.barriers.is_empty() {
            walks.push(walk);
        }
    }
    for _ in 0..UNROLLED {
        let mut waiting: BTreeMap<&str, u64> = BTreeMap::new();
        for walk in &walks {
            if let Some(barrier) = walk.now() {
                *waiting.entry(barrier).or_default() += walk.threads;
            }
        }
        let open: Vec<&str> = waiting
            .iter()
            .filter(|(name, count)| users.get(*name).is_some_and(|all| all <= count))
            .map(|(name, _)| *name)
            .collect();
        if open.is_empty() {
            return stuck(&walks);
        }
        for walk in &mut walks {
            if walk.now().is_some_and(|barrier| open.contains(&barrier)) {
                walk.at += 1;
            }
        }
    }
    Ok(())
}

/// No barrier can open: a deadlock, unless all threads are done, or a thread that is done is missing (then the others
/// wait until the run ends, as in rt-app).
fn stuck(walks: &[Walk]) -> Result<(), NotATaskSet> {
    let waiting: Vec<&Walk> = walks.iter().filter(|walk| walk.now().is_some()).collect();
    if waiting.is_empty() || waiting.len() < walks.len() {
        return Ok(());
    }
    let each =
        waiting.iter().take(4).map(|walk| format!("{} at \"{}\"", walk.task, walk.now().unwrap_or_default()));
    let each = each.collect::<Vec<_>>().join(", ");
    Err(NotATaskSet::new(
        "tasks",
        format!("the barriers deadlock: {each}; each waits for users that wait elsewhere"),
    ))
}

impl<'a> Walk<'a> {
    fn now(&self) -> Option<&'a str> {
        match self.endless && !self.barriers.is_empty() {
            true => Some(self.barriers[self.at % self.barriers.len()]),
            false => self.barriers.get(self.at).copied(),
        }
    }
}

fn walk(task: &Task) -> Walk<'_> {
    let mut barriers = Vec::new();
    let mut endless = task.loops.is_none();
    for _ in 0..task.loops.unwrap_or(1).min(UNROLLED as u32) {
        for phase in &task.phases {
            let all: Vec<&str> = phase
                .events
                .iter()
                .filter_map(|event| match event {
                    Event::Barrier(name) => Some(name.as_str()),
                    _ => None,
                })
                .collect();
            if phase.loops.is_none() && barriers.is_empty() {
                endless = true;
            }
            for _ in 0..phase.loops.unwrap_or(1) {
                if barriers.len() > UNROLLED || all.is_empty() {
                    break;
                }
                barriers.extend(&all);
            }
        }
        if barriers.len() > UNROLLED || barriers.is_empty() {
            break;
        }
    }
    Walk { task: &task.name, threads: u64::from(task.instances), barriers, endless, at: 0 }
}

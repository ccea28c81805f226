//! Ceilings bound blocking to one section; budgets and servers are never exceeded.

use proptest::prelude::*;

use super::simulation::{Act, World};
use crate::policy::{Budget, OnOverrun, Params, Policy, Protocol, Release};

/// Sections of a job: (CPU before, mutex, CPU inside).
type Sections = Vec<(u64, u32, u64)>;

fn script(sections: &Sections) -> Vec<Act> {
    let mut acts = Vec::new();
    for &(before, mutex, inside) in sections {
        acts.extend([Act::Run(before), Act::Lock(mutex), Act::Run(inside), Act::Unlock(mutex)]);
    }
    acts
}

/// How many sections of less urgent threads (priority, or preemption level) ran while a job of each thread was pending: the
/// most of any job.
fn blockings(edf: bool, protocol: impl Fn(&[usize]) -> Protocol, set: &[(u64, Sections)]) -> Vec<usize> {
    let mut world = World::new();
    // Shorter periods are more urgent.
    for mutex in 0..3 {
        let users: Vec<usize> =
            (0..set.len()).filter(|&task| set[task].1.iter().any(|section| section.1 == mutex)).collect();
        world.sched.new_mutex(protocol(&users)).unwrap();
    }
    for (task, (period, sections)) in set.iter().enumerate() {
        let policy = if edf { Policy::Edf } else { Policy::Fifo };
        let priority = if edf { 3 } else { 40 - task as u8 };
        let release = Release::Periodic { period: *period };
        let start = Some(1 + 7 * (set.len() - task) as u64);
        let params = Params { policy, priority, release, deadline: Some(*period), start, budget: None };
        world.add(params, &script(sections));
    }
    let count = set.len();
    // For each thread: the release of the job, and the sections of others that ran meanwhile.
    let mut seen: Vec<(u64, std::collections::BTreeSet<(usize, u64)>)> = vec![(0, Default::default()); count];
    let mut most = vec![0; count];
    world.run(3000, |world| {
        let Some(running) = world.sched.current().and_then(|id| world.actors.iter().position(|a| a.id == id))
        else {
            return;
        };
        for task in 0..running {
            let actor = &world.actors[task];
            let (release, deadline) = world.sched.job(actor.id);
            let pending = world.sched.state(actor.id) == crate::policy::thread::State::Ready
                || matches!(
                    world.sched.state(actor.id),
                    crate::policy::thread::State::Blocked(crate::policy::thread::Wait::Mutex(_))
                );
            let less_urgent = !edf || world.sched.job(world.actors[running].id).1 > deadline;
            if pending && less_urgent {
                if seen[task].0 != release {
                    seen[task] = (release, Default::default());
                }
                seen[task].1.insert((running, world.actors[running].sections));
                most[task] = most[task].max(seen[task].1.len());
            }
        }
    });
    most
}

fn sets() -> impl Strategy<Value = Vec<(u64, Sections)>> {
    let sections = proptest::collection::vec((1..6u64, 0..3u32, 1..12u64), 0..4);
    proptest::collection::vec((60..400u64, sections), 2..5).prop_map(|mut set| {
        set.sort_by_key(|entry| entry.0);
        set.dedup_by_key(|entry| entry.0);
        set
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_ceiling_bounds_blocking_to_one_section(set in sets()) {
        let most = blockings(false, |users| Protocol::Ceiling(40 - *users.first().unwrap_or(&0) as u8), &set);
        prop_assert!(most.iter().all(|&sections| sections <= 1), "{:?}", most);
    }

    #[test]
    fn a_deadline_floor_bounds_blocking_under_edf_to_one_section(set in sets()) {
        let floor = |users: &[usize]| Protocol::Floor(users.iter().map(|&user| set[user].0).min().unwrap_or(1));
        let most = blockings(true, floor, &set);
        prop_assert!(most.iter().all(|&sections| sections <= 1), "{:?}", most);
    }

    #[test]
    fn a_job_never_runs_longer_than_its_budget_at_its_priority(
        work in 1..200u64, budget in 1..150u64, other in 1..90u64, policy in 0..2u8,
    ) {
        let policy = if policy == 0 { Policy::Fifo } else { Policy::Edf };
        let mut world = World::new();
        let release = Release::Periodic { period: 1000 };
        let budgeted = Some(Budget { ns: budget, action: OnOverrun::Background });
        let params = Params { policy, priority: 9, release, deadline: Some(1000), budget: budgeted, start: None };
        let task = world.add(params, &[Act::Run(work)]);
        world.add(Params { priority: 5, ..Params::default() }, &[Act::Run(100_000)]);
        let disturbing = Release::Periodic { period: 130 };
        world.add(Params { priority: 20, release: disturbing, ..Params::default() }, &[Act::Run(other)]);
        world.run(10_000, |_| {});
        let mut in_job = std::collections::BTreeMap::new();
        for stretch in &world.stretches {
            if stretch.runs == Some(task) && stretch.urgency.priority == 9 {
                *in_job.entry(stretch.from / 1000).or_insert(0) += stretch.to - stretch.from;
            }
        }
        prop_assert!(in_job.values().all(|&ran| ran <= budget), "{:?}", in_job);
        // The middle thread uses all that is left: an overrun job in the background never ends.
        if work > budget {
            prop_assert!(world.account(task).overruns >= 1);
        }
    }

    #[test]
    fn a_sporadic_server_takes_no_more_than_a_periodic_thread_of_its_budget(
        budget in 1..60u64,
        replenishments in 1..6usize,
        script in proptest::collection::vec((1..40u64, 0..80u64), 1..12),
        other in 1..40u64,
    ) {
        const PERIOD: u64 = 100;
        let mut world = World::new();
        let policy = Policy::Sporadic { low: 1, period: PERIOD, budget, replenishments };
        let acts: Vec<_> =
            script.iter().flat_map(|&(run, sleep)| [Act::Run(run), Act::Sleep(sleep)]).cycle().take(200).collect();
        let server = world.add(Params { policy, priority: 10, ..Params::default() }, &acts);
        world.add(Params { priority: 5, ..Params::default() }, &[Act::Run(1_000_000)]);
        let disturbing = Release::Periodic { period: 70 };
        world.add(Params { priority: 20, release: disturbing, ..Params::default() }, &[Act::Run(other)]);
        world.run(6000, |_| {});
        let high: Vec<_> = world.stretches.iter()
            .filter(|stretch| stretch.runs == Some(server) && stretch.urgency.priority == 10)
            .map(|stretch| (stretch.from, stretch.to))
            .collect();
        for &(from, _) in &high {
            for &(_, to) in high.iter().filter(|stretch| stretch.1 > from) {
                let used: u64 =
                    high.iter().map(|&(f, t)| t.min(to).saturating_sub(f.max(from))).sum();
                // A periodic thread may run late in one period and early in the next.
                let bound = ((to - from).div_ceil(PERIOD) + 1) * budget;
                prop_assert!(used <= bound, "{} ns in {}..{}", used, from, to);
            }
        }
        prop_assert_eq!(world.account(server).server_excess, 0);
    }
}

//! Sets of periodic threads against the theory of schedulability: what the analysis promises, the scheduler keeps.

use proptest::prelude::*;

use super::simulation::{Act, World};
use crate::policy::{Params, Policy, Release};

const US: u64 = 1000;

/// (C, T) in µs, by rate-monotonic priority: w = C + sum ceil(w / T) C (Joseph & Pandya 1986). `None` beyond the period.
fn response_times(set: &[(u64, u64)]) -> Vec<Option<u64>> {
    (0..set.len())
        .map(|task| {
            let mut w = set[task].0;
            loop {
                let next = set[task].0 + set[..task].iter().map(|&(c, t)| w.div_ceil(t) * c).sum::<u64>();
                match next {
                    next if next > set[task].1 => return None,
                    next if next == w => return Some(w),
                    next => w = next,
                }
            }
        })
        .collect()
}

fn simulate(set: &[(u64, u64)], policy: Policy, horizon: u64) -> World {
    let mut world = World::new();
    for (task, &(c, t)) in set.iter().enumerate() {
        let priority = if policy == Policy::Edf { 0 } else { 50 - task as u8 };
        let release = Release::Periodic { period: t * US };
        let params = Params { policy, priority, release, deadline: Some(t * US), ..Params::default() };
        world.add(params, &[Act::Run(c * US)]);
    }
    world.run(horizon * US, |_| {});
    world
}

fn worst(world: &World, set: &[(u64, u64)]) -> Vec<u64> {
    (0..set.len()).map(|task| world.account(task).worst_response / US).collect()
}

#[test]
fn the_published_response_times_are_simulated_exactly() {
    for (set, expected) in [
        (vec![(3, 7), (3, 12), (5, 20)], vec![3, 6, 20]),
        (vec![(20, 40), (10, 80), (5, 400)], vec![20, 30, 35]),
        (vec![(1, 4), (1, 5), (3, 9), (3, 18)], vec![1, 2, 7, 18]),
    ] {
        assert_eq!(response_times(&set), expected.iter().map(|&r| Some(r)).collect::<Vec<_>>());
        let world = simulate(&set, Policy::Fifo, 4000);
        assert_eq!(worst(&world, &set), expected);
        assert!((0..set.len()).all(|task| world.account(task).misses == 0));
    }
}

#[test]
fn edf_meets_the_deadlines_of_sets_that_fixed_priorities_miss() {
    for set in [[(9000, 20_000), (15_000, 30_000)], [(2000, 5000), (4000, 7000)]] {
        let horizon = 420_000;
        let edf = simulate(&set, Policy::Edf, horizon);
        let fixed = simulate(&set, Policy::Fifo, horizon);
        assert_eq!([0, 1].map(|task| edf.account(task).misses), [0, 0]);
        assert_eq!(fixed.account(0).misses, 0);
        assert!(fixed.account(1).misses > 0);
        // Nothing is lost: as many jobs as there were releases, in each case.
        for world in [&edf, &fixed] {
            assert_eq!(world.account(0).jobs, horizon / set[0].1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn simulated_response_times_never_exceed_the_analysis(
        mut set in proptest::collection::vec((1..30u64, 20..200u64), 1..7)
    ) {
        set.sort_by_key(|&(_, t)| t);
        let analysed = response_times(&set);
        let horizon = 4 * set.iter().map(|&(_, t)| t).max().unwrap_or(1) * 5;
        let world = simulate(&set, Policy::Fifo, horizon);
        for (task, analysed) in analysed.iter().enumerate() {
            if let Some(bound) = analysed {
                let account = world.account(task);
                // All start together: the first job is the worst, so the bound is also reached.
                prop_assert_eq!(account.worst_response, bound * US);
                prop_assert_eq!(account.misses, 0);
            }
        }
    }

    #[test]
    fn edf_misses_nothing_up_to_a_utilisation_of_one(
        set in proptest::collection::vec((1..60u64, 20..200u64), 1..7)
    ) {
        let utilisation: f64 = set.iter().map(|&(c, t)| c as f64 / t as f64).sum();
        prop_assume!(utilisation <= 1.0);
        let world = simulate(&set, Policy::Edf, 4000);
        for task in 0..set.len() {
            prop_assert_eq!(world.account(task).misses, 0);
        }
    }

    #[test]
    fn under_edf_nobody_with_an_earlier_deadline_waits(
        set in proptest::collection::vec((1..80u64, 20..200u64), 1..7)
    ) {
        let mut world = World::new();
        for &(c, t) in &set {
            let release = Release::Periodic { period: t };
            let params = Params { policy: Policy::Edf, release, deadline: Some(t), ..Params::default() };
            world.add(params, &[Act::Run(c)]);
        }
        world.run(2000, |world| {
            let Some(current) = world.sched.current() else { return };
            let (_, earliest) = world.sched.job(current);
            for actor in &world.actors {
                let waits = world.sched.state(actor.id) == crate::policy::thread::State::Ready;
                assert!(!waits || world.sched.job(actor.id).1 >= earliest);
            }
        });
    }
}

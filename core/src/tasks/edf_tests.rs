//! Published sets, and QPA against the check of every deadline.

use proptest::prelude::*;

use super::*;

/// (C, T, D)
fn set(all: &[(u64, u64, u64)]) -> Vec<Thread> {
    all.iter().map(|&(c, t, d)| Thread { wcet: Ns(c), period: Ns(t), deadline: Ns(d) }).collect()
}

/// The set of Zhang & Burns 2009, table 1, as schedcat's tests have it.
const ZHANG_BURNS: [(u64, u64, u64); 8] = [
    (6_000, 31_000, 18_000),
    (2_000, 9_800, 9_000),
    (1_000, 17_000, 12_000),
    (90, 4_200, 3_000),
    (8, 96, 78),
    (2, 12, 16),
    (10, 280, 120),
    (26, 660, 160),
];

#[test]
fn the_set_of_zhang_and_burns_is_schedulable_by_the_published_steps() {
    let threads = set(&ZHANG_BURNS);
    assert!((utilisation(&threads) - 0.802_99).abs() < 5e-6);
    assert_eq!(busy_period(&threads, 0), Some(16_984));
    assert_eq!(demand_bound(&threads, 0), Some(15_358), "15356.97, rounded up with a margin");
    let mut t = deadline_before(&threads, 16_984);
    let mut steps: Vec<u64> = t.into_iter().collect();
    while let Some(at) = t {
        let demand = demand(&threads, at);
        steps.push(demand);
        t = if demand > 16 { deadline_before(&threads, (demand + 1).min(at)) } else { None };
    }
    assert_eq!(steps, [16_974, 8_890, 3_080, 1_098, 362, 118, 26, 2]);
    assert_eq!(check(&threads, &[]), Verdict { schedulable: Some(true), fails_at: None });
}

#[test]
fn one_thread_more_and_it_fails_where_published() {
    let mut threads = set(&ZHANG_BURNS);
    threads.extend(set(&[(10, 100, 15)]));
    assert_eq!(busy_period(&threads, 0), Some(25_480));
    assert_eq!(demand(&threads, 19_900), 19_902);
    assert_eq!(check(&threads, &[]), Verdict { schedulable: Some(false), fails_at: Some(Ns(19_900)) });
    let two = set(&[(331, 15_000, 2_688), (3_654, 77_000, 3_849)]);
    assert_eq!(check(&two, &[]), Verdict { schedulable: Some(false), fails_at: Some(Ns(3_849)) });
    assert_eq!(demand(&two, 3_849), 3_985);
}

#[test]
fn published_response_times_under_edf_are_found() {
    let found = |all: &[(u64, u64, u64)]| -> Vec<u64> {
        responses(&set(all)).into_iter().map(|response| response.map_or(0, |ns| ns.0)).collect()
    };
    assert_eq!(found(&[(2, 4, 4), (3, 12, 12)]), [2, 7]);
    assert_eq!(found(&[(2, 4, 4), (2, 9, 9), (3, 12, 12)]), [3, 8, 11]);
    assert_eq!(found(&[(1, 4, 4), (1, 12, 12), (3, 16, 16)]), [1, 2, 6]);
    assert_eq!(found(&[(1, 4, 4), (2, 4, 4)]), [3, 3]);
    assert_eq!(found(&[(2, 5, 4), (3, 6, 5)]), [4, 5]);
    assert_eq!(found(&[(2, 4, 3), (2, 9, 7), (3, 12, 10)]), [3, 7, 10]);
}

#[test]
fn a_full_processor_is_decided_exactly_and_an_overloaded_one_fails_at_a_true_place() {
    assert_eq!(check(&set(&[(1, 3, 3), (2, 3, 3)]), &[]).schedulable, Some(true));
    assert_eq!(check(&set(&[(1, 3, 3), (1, 3, 3), (1, 3, 2)]), &[]).schedulable, Some(true));
    let over = set(&[(1, 3, 3), (1, 3, 3), (1, 3, 3), (1, 1_000_000, 1_000_000)]);
    let verdict = check(&over, &[]);
    assert_eq!(verdict.schedulable, Some(false));
    let at = verdict.fails_at.unwrap().0;
    assert!(demand(&over, at) > at);
    assert_eq!(check(&set(&[(5, 10, 4)]), &[]).fails_at, Some(Ns(4)));
}

fn small() -> impl Strategy<Value = Vec<Thread>> {
    let one = (1u64..6, 1u64..24, 1u64..30).prop_map(|(c, t, d)| (c, t.max(c), d));
    proptest::collection::vec(one, 1..6).prop_map(|all| set(&all))
}

/// Every deadline of the first busy period.
fn by_every_deadline(threads: &[Thread], blocking: &[(Ns, Ns)]) -> bool {
    (1..4_000).all(|t| {
        let blocked = blocking.iter().rev().find(|(from, _)| from.0 <= t).map_or(0, |(_, time)| time.0);
        let due = threads
            .iter()
            .any(|thread| t >= thread.deadline.0 && (t - thread.deadline.0) % thread.period.0 == 0);
        !due || demand(threads, t) + blocked <= t
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn qpa_says_what_every_single_deadline_says(threads in small(), blocked in 0u64..6, until in 1u64..30) {
        let blocking = [(Ns(0), Ns(blocked)), (Ns(until), Ns(0))];
        if utilisation(&threads) <= 1.0 && busy_period(&threads, blocked).is_some_and(|end| end < 4_000) {
            prop_assert_eq!(check(&threads, &[]).schedulable, Some(by_every_deadline(&threads, &[])));
            // Blocking ends at the latest relative deadline: so it does in every set.
            let latest = threads.iter().map(|thread| thread.deadline.0).max().unwrap_or(1);
            if until <= latest {
                prop_assert_eq!(check(&threads, &blocking).schedulable, Some(by_every_deadline(&threads, &blocking)));
            }
        }
    }
}

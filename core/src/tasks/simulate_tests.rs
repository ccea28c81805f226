//! The analysis against the simulation: 10,000 random sets.

use std::collections::BTreeMap;

use super::super::load::{Load, Section};
use super::super::set::Protocol;
use super::super::{blocking, edf, fixed};
use super::*;
use crate::random::Random;
use crate::time::Ns;

struct Case {
    threads: Vec<Thread>,
    loads: Vec<Load>,
}

/// A small random set: short periods, so that 200 units hold many busy periods.
fn case(random: &mut Random) -> Case {
    let count = 1 + random.below(5);
    let mutexes = random.below(3);
    let mut case = Case { threads: Vec::new(), loads: Vec::new() };
    for number in 0..count {
        let period = 4 + random.below(36);
        let wcet = 1 + random.below((2 * period / count).max(1)).min(period - 1);
        let reach = if random.below(4) == 0 { 2 * period } else { period };
        let deadline = wcet + random.below(reach);
        let jitter = if random.below(3) == 0 { random.below(period / 2 + 1) } else { 0 };
        let mut sections = Vec::new();
        if mutexes > 0 && wcet > 1 && random.below(2) == 0 {
            let start = random.below(wcet);
            let length = 1 + random.below(wcet - start);
            sections.push((random.below(mutexes) as usize, start, length));
            if length > 2 && mutexes > 1 && random.below(2) == 0 {
                let other = (sections[0].0 + 1) % mutexes as usize;
                sections.push((other, start + 1, 1 + random.below(length - 2)));
            }
        }
        let releases = releases(random, period, jitter);
        let name = number.to_string();
        let as_section = |(mutex, start, length): &(usize, u64, u64)| Section {
            mutex: mutex.to_string(),
            start: Ns(*start),
            length: Ns(*length),
            locks: 0,
            within: Vec::new(), // matters without ceilings only
            unbounded: None,
        };
        case.loads.push(Load {
            name,
            wcet: Ns(wcet),
            period: Some(Ns(period)),
            deadline: Some(Ns(deadline)),
            jitter: Ns(jitter),
            blocking: Ns(0),
            level: random.below(6) as i64,
            time_shares: false,
            suspensions: 0,
            locks: 0,
            sections: sections.iter().map(as_section).collect(),
            cpus: None,
            unknown: None,
            not_fixed: None,
        });
        let level = case.loads[number as usize].level;
        case.threads.push(Thread { wcet, deadline, level, sections, releases });
    }
    case
}

/// All at once and as fast as allowed, or with offsets and delays, each release late by up to the jitter.
fn releases(random: &mut Random, period: u64, jitter: u64) -> Vec<(u64, u64)> {
    let lazy = random.below(2) == 0;
    let mut nominal = if lazy { random.below(2 * period) } else { 0 };
    let mut all: Vec<(u64, u64)> = Vec::new();
    let mut first = true;
    while nominal < 200 {
        // The worst pattern: the first one late, the others at once.
        let late = if first && !lazy { jitter } else { random.below(jitter + 1) };
        let earliest = all.last().map_or(0, |(_, actual)| *actual);
        all.push((nominal, (nominal + late).max(earliest)));
        nominal += period + if lazy { random.below(3) } else { 0 };
        first = false;
    }
    all
}

#[test]
fn no_simulated_response_exceeds_the_analysed_one_in_ten_thousand_sets() {
    let (mut analysed, mut tight) = (0, 0);
    for seed in 0..10_000 {
        let mut random = Random::new(seed);
        let case = case(&mut random);
        let protocols: BTreeMap<String, Protocol> =
            (0..3).map(|mutex: usize| (mutex.to_string(), Protocol::Ceiling)).collect();
        let blocked = blocking::fixed(&case.loads, &protocols);
        let mut order: Vec<usize> = (0..case.loads.len()).collect();
        order.sort_by_key(|at| std::cmp::Reverse(case.loads[*at].level));
        let thread = |at: &usize| {
            let load = &case.loads[*at];
            let (period, deadline) = (load.period.unwrap(), load.deadline.unwrap());
            let (wcet, jitter, blocking, level) = (load.wcet, load.jitter, blocked[*at].time, load.level);
            fixed::Thread { wcet, period, deadline, jitter, blocking, level }
        };
        let responses = fixed::responses(&order.iter().map(thread).collect::<Vec<_>>());
        let outcomes = run(&case.threads, Policy::Fixed, 400);
        for (at, response) in order.iter().zip(responses) {
            let (Some(bound), Some(worst)) = (response, outcomes[*at].worst) else { continue };
            assert!(worst <= bound.0, "seed {seed}, thread {at}: {worst} > {bound:?}");
            analysed += 1;
            tight += u64::from(worst == bound.0);
        }
    }
    // The bound is worth something: in a third of all threads the simulation meets it.
    assert!(analysed > 15_000 && tight * 3 > analysed, "{tight} of {analysed}");
}

#[test]
fn what_qpa_calls_schedulable_misses_nothing_in_ten_thousand_sets() {
    let (mut schedulable, mut not, mut missed) = (0, 0, 0);
    for seed in 0..10_000 {
        let mut random = Random::new(1 << 32 | seed);
        let case = case(&mut random);
        let effective = |load: &Load| load.deadline.unwrap_or_default().saturating_sub(load.jitter);
        let threads: Vec<edf::Thread> = case
            .loads
            .iter()
            .map(|load| edf::Thread {
                wcet: load.wcet,
                period: load.period.unwrap(),
                deadline: effective(load),
            })
            .collect();
        let verdict = edf::check(&threads, &blocking::srp(&case.loads));
        let outcomes = run(&case.threads, Policy::Edf, 400);
        let misses: u64 = outcomes.iter().map(|outcome| outcome.misses).sum();
        match verdict.schedulable {
            Some(true) => {
                assert_eq!(misses, 0, "seed {seed}: {outcomes:?}");
                schedulable += 1;
            }
            _ => {
                not += 1;
                missed += u64::from(misses > 0);
            }
        }
    }
    assert!(schedulable > 2_000 && not > 2_000 && missed * 3 > not, "{schedulable}, {not}, {missed}");
}

/// Independent periodic threads, released at `offset + k period`.
fn periodic(all: &[(u64, u64, u64)], offsets: &[u64], horizon: u64) -> Vec<Thread> {
    let of = |(at, (&(wcet, period, deadline), &offset)): (usize, (&(u64, u64, u64), &u64))| Thread {
        wcet,
        deadline,
        level: -(at as i64),
        sections: vec![],
        releases: (0..)
            .map(|job| offset + job * period)
            .take_while(|at| *at < horizon)
            .map(|at| (at, at))
            .collect(),
    };
    all.iter().zip(offsets).enumerate().map(of).collect()
}

/// Threads of a utilisation of at most 1: execution, period, deadline, the last up to three periods.
fn independent(random: &mut Random, most: u64, longest: u64) -> Vec<(u64, u64, u64)> {
    loop {
        let one = |_| {
            let period = 2 + random.below(longest - 1);
            let wcet = 1 + random.below(period / 2 + 1).min(period - 1);
            (wcet, period, wcet + random.below(3 * period))
        };
        let all: Vec<_> = (0..2 + most).map(one).collect();
        let share: f64 = all.iter().map(|&(wcet, period, _)| wcet as f64 / period as f64).sum();
        if share < 0.999 {
            return all;
        }
    }
}

#[test]
fn without_blocking_and_jitter_the_analysis_of_fixed_priorities_is_exact() {
    for seed in 0..1_000 {
        let mut random = Random::new(2 << 32 | seed);
        let all = independent(&mut random, seed % 3, 30);
        let as_ns = |&(wcet, period, deadline): &(u64, u64, u64)| edf::Thread {
            wcet: Ns(wcet),
            period: Ns(period),
            deadline: Ns(deadline),
        };
        let Some(busy) = edf::busy_period(&all.iter().map(as_ns).collect::<Vec<_>>(), 0) else { continue };
        let simulated = run(&periodic(&all, &vec![0; all.len()], busy), Policy::Fixed, 2 * busy);
        let thread = |(at, &(wcet, period, deadline)): (usize, &(u64, u64, u64))| fixed::Thread {
            wcet: Ns(wcet),
            period: Ns(period),
            deadline: Ns(deadline),
            jitter: Ns(0),
            blocking: Ns(0),
            level: -(at as i64),
        };
        let analysed = fixed::responses(&all.iter().enumerate().map(thread).collect::<Vec<_>>());
        for (outcome, bound) in simulated.iter().zip(analysed) {
            assert_eq!(outcome.worst, bound.map(|bound| bound.0), "seed {seed}: {all:?}");
        }
    }
}

/// All offsets of small sets. Equal deadlines count against a thread in the analysis, but not always in the simulation.
#[test]
fn responses_under_edf_are_those_of_the_worst_offsets() {
    let (mut equal, mut compared) = (0, 0);
    for seed in 0..60 {
        let mut random = Random::new(3 << 32 | seed);
        let all = independent(&mut random, seed % 2, 7);
        let as_ns = |&(wcet, period, deadline): &(u64, u64, u64)| edf::Thread {
            wcet: Ns(wcet),
            period: Ns(period),
            deadline: Ns(deadline),
        };
        let analysed = edf::responses(&all.iter().map(as_ns).collect::<Vec<_>>());
        let combinations: u64 = all.iter().map(|one| one.1).product();
        let mut worst = vec![0; all.len()];
        for number in 0..combinations {
            let mut rest = number;
            let offset = |&(_, period, _): &(u64, u64, u64)| {
                let offset = rest % period;
                rest /= period;
                offset
            };
            let offsets: Vec<u64> = all.iter().map(offset).collect();
            let horizon = 2 * combinations + 20;
            for (worst, outcome) in
                worst.iter_mut().zip(run(&periodic(&all, &offsets, horizon), Policy::Edf, horizon))
            {
                *worst = (*worst).max(outcome.worst.unwrap_or(0));
            }
        }
        for (worst, bound) in worst.iter().zip(analysed) {
            let bound = bound.unwrap().0;
            assert!(*worst <= bound, "seed {seed}: {worst} > {bound}, {all:?}");
            compared += 1;
            equal += u64::from(*worst == bound);
        }
    }
    assert!(equal * 10 >= compared * 7, "{equal} of {compared}");
}

#[test]
fn edf_meets_what_fixed_priorities_miss() {
    let thread = |wcet, period, level| Thread {
        wcet,
        deadline: period,
        level,
        sections: vec![],
        releases: (0..20).map(|job| (job * period, job * period)).collect(),
    };
    let set = [thread(9, 20, 2), thread(15, 30, 1)];
    let misses = |policy| run(&set, policy, 600).iter().map(|outcome| outcome.misses).sum::<u64>();
    assert!(misses(Policy::Fixed) > 0);
    assert_eq!(misses(Policy::Edf), 0);
    assert_eq!(run(&set, Policy::Fixed, 600)[1].worst, Some(33), "as analysed");
}

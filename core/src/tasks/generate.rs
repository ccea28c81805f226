//! Random task sets, reproducible by seed: utilisations by UUniFast-discard (Bini & Buttazzo 2005; Davis & Burns 2009)
//! or Randfixedsum (Stafford 2006; Emberson, Stafford & Davis 2010), periods log-uniform.

use super::set::{Event, Global, Phase, Policy, Sched, Task, TaskSet, Timer};
use crate::random::Random;
use crate::time::Ns;

/// How utilisations are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// Uniform over all vectors of that sum, those with a value above 1 discarded.
    UuniFastDiscard,
    /// Uniform over the vectors of that sum with values up to 1, without discarding.
    RandFixedSum,
}

/// What to generate.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Number of tasks.
    pub tasks: usize,
    /// Sum of their utilisations.
    pub utilisation: f64,
    /// Shortest and longest period, inclusive.
    pub periods: (Ns, Ns),
    /// Periods are multiples of it.
    pub granularity: Ns,
    /// How utilisations are drawn.
    pub method: Method,
    /// Seed of the set.
    pub seed: u64,
}

/// Why no set can be generated.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CannotGenerate {
    /// Out of range.
    #[error("{0}")]
    Range(&'static str),
    /// UUniFast found no set.
    #[error("UUniFast-discard found no set of this utilisation in 10000 tries; use --method randfixedsum")]
    Discarded,
}

/// Maximum tasks for Randfixedsum, whose table grows quadratically.
const MOST_OF_TABLE: usize = 1_000;

/// A set of periodic tasks with deadlines equal to their periods, rate-monotonic priorities, and unique timers.
///
/// # Errors
/// Names the parameter that cannot be satisfied.
pub fn generate(wanted: &Wanted) -> Result<TaskSet, CannotGenerate> {
    let Wanted { tasks, utilisation, periods: (shortest, longest), granularity, method, seed } = wanted;
    if *tasks == 0 || *tasks > 10_000 {
        return Err(CannotGenerate::Range("--tasks must be 1 to 10000"));
    }
    if !(*utilisation > 0.0 && *utilisation <= *tasks as f64) {
        return Err(CannotGenerate::Range("--utilisation must be above 0 and at most the number of tasks"));
    }
    if *granularity < Ns::from_us(1) || granularity > shortest || shortest > longest {
        return Err(CannotGenerate::Range("periods must be 1us <= granularity <= shortest <= longest"));
    }
    let mut random = Random::new(*seed);
    let shares = match method {
        Method::UuniFastDiscard => uunifast_discard(*tasks, *utilisation, &mut random)?,
        Method::RandFixedSum if *tasks > MOST_OF_TABLE => {
            return Err(CannotGenerate::Range(
                "randfixedsum draws at most 1000 tasks; use --method uunifast",
            ));
        }
        Method::RandFixedSum => randfixedsum(*tasks, *utilisation, &mut random),
    };
    let mut all: Vec<(Ns, Ns)> = shares
        .iter()
        .map(|share| {
            let period = log_uniform(*shortest, *longest, *granularity, &mut random);
            let us = (period.0 as f64 * share / 1e3).round() as u64;
            (Ns::from_us(us.max(1)), period)
        })
        .collect();
    let drawn: f64 = all.iter().map(|(work, period)| work.0 as f64 / period.0 as f64).sum();
    if (drawn - utilisation).abs() > utilisation * 0.01 {
        return Err(CannotGenerate::Range(
            "executions would be below the 1 us that the file can state: fewer tasks, or longer periods",
        ));
    }
    all.sort_by_key(|(_, period)| *period);
    spread_rest(&mut all, *utilisation);
    let most = all.len().min(97) as i32;
    let count = all.len();
    let task = |(at, (work, period)): (usize, (Ns, Ns))| {
        // More tasks than priorities: neighbours share one.
        let priority = most - (at * most as usize / count) as i32;
        task(&format!("t{at}"), work, period, priority)
    };
    let tasks = all.into_iter().enumerate().map(task).collect();
    let global = Global { duration_s: Some(10), default_policy: Policy::Fifo, ..Global::default() };
    Ok(TaskSet { global, tasks, ..TaskSet::default() })
}

/// Makes up for the whole µs: the executions of the longest periods change by some µs, so that their sum is the closest that does
/// not exceed `utilisation`.
fn spread_rest(all: &mut [(Ns, Ns)], utilisation: f64) {
    let sum =
        |all: &[(Ns, Ns)]| all.iter().map(|(work, period)| work.0 as f64 / period.0 as f64).sum::<f64>();
    for at in (0..all.len()).rev() {
        let rest = utilisation - sum(all);
        let (work, period) = &mut all[at];
        // A millionth of a µs is rounding.
        let more = (rest * period.0 as f64 / 1e3 + 1e-6).floor() as i64;
        let us = (work.0 / 1_000).saturating_add_signed(more);
        let possible = us.clamp(1, period.0 / 1_000);
        *work = Ns::from_us(possible);
        if possible == us {
            break;
        }
    }
}

fn task(name: &str, work: Ns, period: Ns, priority: i32) -> Task {
    let timer = Event::Timer(Timer { reference: "unique".to_owned(), period, absolute: true });
    let phase = Phase {
        name: "job".to_owned(),
        loops: Some(1),
        events: vec![Event::Run(work), timer],
        ..Phase::default()
    };
    let sched = Sched { priority: Some(priority), ..Sched::default() };
    Task { name: name.to_owned(), instances: 1, phases: vec![phase], sched, ..Task::default() }
}

fn log_uniform(shortest: Ns, longest: Ns, granularity: Ns, random: &mut Random) -> Ns {
    let (low, high) = ((shortest.0 as f64).ln(), ((longest.0 + granularity.0) as f64).ln());
    let drawn = (low + random.unit() * (high - low)).exp() as u64;
    Ns((drawn / granularity.0 * granularity.0).clamp(shortest.0, longest.0))
}

/// UUniFast, redrawn while a task has a utilisation above 1.
fn uunifast_discard(count: usize, sum: f64, random: &mut Random) -> Result<Vec<f64>, CannotGenerate> {
    for _ in 0..10_000 {
        let mut rest = sum;
        let mut shares = Vec::with_capacity(count);
        for left in (1..count).rev() {
            let next = rest * random.unit().powf(1.0 / left as f64);
            shares.push(rest - next);
            rest = next;
        }
        shares.push(rest);
        if shares.iter().all(|share| *share <= 1.0) {
            return Ok(shares);
        }
    }
    Err(CannotGenerate::Discarded)
}

/// Stafford's method: the volume of the simplices that make up {x in [0, 1]^n, Σ x = s} decides which one is drawn from.
fn randfixedsum(count: usize, sum: f64, random: &mut Random) -> Vec<f64> {
    if count == 1 {
        return vec![sum];
    }
    let whole = sum.floor().min(count as f64 - 1.0);
    // volume[j]: of the slice of the current dimension in which j coordinates are on their far side; scaled against
    // overflow, since only ratios count.
    let below = |j: usize| sum - whole + j as f64;
    let above = |j: usize| whole + (count - j) as f64 - sum;
    let mut volume = vec![0.0, 1.0];
    let mut odds: Vec<Vec<f64>> = Vec::with_capacity(count - 1);
    for dimension in 2..=count {
        let at = |j: usize| volume.get(j).copied().unwrap_or(0.0);
        let mut grown = vec![0.0; dimension + 1];
        let mut row = vec![0.0; dimension];
        for j in 0..dimension {
            let near = at(j + 1) * below(j) / dimension as f64;
            let far = at(j) * above(count - dimension + j) / dimension as f64;
            grown[j + 1] = near + far;
            // A slice without volume is left towards the side that has some.
            let full = f64::from(u8::from(above(count - dimension + j) <= below(j)));
            row[j] = if near + far > 0.0 { far / (near + far) } else { full };
        }
        let largest = grown.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        grown.iter_mut().for_each(|one| *one /= largest);
        volume = grown;
        odds.push(row);
    }
    let mut column = whole as usize + 1;
    let (mut rest, mut offset, mut scale) = (sum, 0.0, 1.0);
    let mut drawn = Vec::with_capacity(count);
    for dimension in (1..count).rev() {
        let far = random.unit() <= odds[dimension - 1][column - 1];
        let place = random.unit().powf(1.0 / dimension as f64);
        offset += (1.0 - place) * scale * rest / (dimension + 1) as f64;
        scale *= place;
        drawn.push(offset + if far { scale } else { 0.0 });
        if far {
            rest -= 1.0;
            column -= 1;
        }
    }
    drawn.push(offset + scale * rest);
    for at in (1..drawn.len()).rev() {
        drawn.swap(at, random.below(at as u64 + 1) as usize);
    }
    drawn.iter().map(|share| share.clamp(0.0, 1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_methods_draw_the_sum_within_bounds_and_the_seed_decides() {
        for (count, sum) in [(1, 0.4), (2, 1.9), (5, 0.8), (5, 4.5), (10, 3.0), (40, 20.0), (3, 3.0)] {
            for seed in 0..50 {
                let shares = randfixedsum(count, sum, &mut Random::new(seed));
                assert!((shares.iter().sum::<f64>() - sum).abs() < 1e-9, "{count} {sum} {shares:?}");
                assert!(shares.iter().all(|share| (0.0..=1.0).contains(share)));
                assert_eq!(shares, randfixedsum(count, sum, &mut Random::new(seed)));
            }
        }
        let shares = uunifast_discard(10, 2.5, &mut Random::new(7)).unwrap();
        assert!((shares.iter().sum::<f64>() - 2.5).abs() < 1e-9);
        assert_eq!(uunifast_discard(40, 39.9, &mut Random::new(7)), Err(CannotGenerate::Discarded));
    }

    #[test]
    fn each_task_has_the_same_mean_utilisation_under_both_methods() {
        let mut random = Random::new(3);
        for sum in [0.7, 1.6, 2.5] {
            let mut means = [[0.0; 4]; 2];
            for _ in 0..4_000 {
                for (mean, share) in means[0].iter_mut().zip(randfixedsum(4, sum, &mut random)) {
                    *mean += share / 4_000.0;
                }
                for (mean, share) in means[1].iter_mut().zip(uunifast_discard(4, sum, &mut random).unwrap()) {
                    *mean += share / 4_000.0;
                }
            }
            let off = means.iter().flatten().map(|mean| (mean - sum / 4.0).abs()).fold(0.0, f64::max);
            assert!(off < 0.02, "{sum}: {means:?}");
        }
    }

    #[test]
    fn the_two_methods_draw_from_the_same_distribution() {
        // Both are uniform over the same polytope: so are their maxima.
        let mut random = Random::new(5);
        let mut mean = |draw: &dyn Fn(&mut Random) -> Vec<f64>| {
            (0..6_000).map(|_| draw(&mut random).into_iter().fold(0.0, f64::max)).sum::<f64>() / 6_000.0
        };
        let fixed = mean(&|random| randfixedsum(5, 1.7, random));
        let fast = mean(&|random| uunifast_discard(5, 1.7, random).unwrap());
        assert!((fixed - fast).abs() < 0.01, "{fixed} {fast}");
    }

    /// A set of utilisation 1 that was rounded up to 1.000004 is overloaded.
    #[test]
    fn the_sum_is_what_was_asked_for_and_never_more() {
        for method in [Method::UuniFastDiscard, Method::RandFixedSum] {
            for (tasks, utilisation) in [(1, 1.0), (3, 1.0), (10, 0.8), (10, 1.0), (50, 0.95), (4, 2.5)] {
                for seed in 0..40 {
                    let periods = (Ns::from_ms(1), Ns::from_ms(100));
                    let granularity = Ns::from_us(100);
                    let wanted = Wanted { tasks, utilisation, periods, granularity, method, seed };
                    let loads = super::super::load::loads(&generate(&wanted).unwrap()).threads;
                    let share =
                        |load: &super::super::load::Load| load.wcet.0 as f64 / load.period.unwrap().0 as f64;
                    let (sum, longest) = loads.iter().fold((0.0, 0), |(sum, longest), load| {
                        (sum + share(load), longest.max(load.period.unwrap().0))
                    });
                    let off = utilisation - sum;
                    assert!(
                        off > -1e-9 && off <= 1e3 / longest as f64 + 1e-9,
                        "{tasks} {utilisation} {seed}: {off}"
                    );
                }
            }
        }
    }

    #[test]
    fn wishes_that_cannot_be_fulfilled_are_refused() {
        let wanted = Wanted {
            tasks: 5,
            utilisation: 0.8,
            periods: (Ns::from_ms(1), Ns::from_ms(100)),
            granularity: Ns::from_us(100),
            method: Method::RandFixedSum,
            seed: 1,
        };
        let set = generate(&wanted).unwrap();
        assert_eq!(set.tasks.len(), 5);
        for bad in [
            Wanted { tasks: 0, ..wanted.clone() },
            Wanted { utilisation: 5.1, ..wanted.clone() },
            Wanted { utilisation: f64::NAN, ..wanted.clone() },
            Wanted { periods: (Ns::from_ms(2), Ns::from_ms(1)), ..wanted.clone() },
            Wanted { tasks: 1_001, ..wanted.clone() },
            // Most would need less than a µs: rounded up, their sum would be 2.4.
            Wanted { tasks: 10_000, utilisation: 0.7, method: Method::UuniFastDiscard, ..wanted.clone() },
        ] {
            assert!(generate(&bad).is_err());
        }
    }
}

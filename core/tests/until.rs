//! `--until`: a claim is shown as soon as the statement is as strong as the claim. On machines for which the claim is just
//! wrong, how often is it shown before the first exceedance of the deadline?

use lathunt_core::bound::random::Random;
use lathunt_core::histogram::{Histogram, Layout};
use lathunt_core::judge::claimed;
use lathunt_core::series::{Quantity, SecondMax, Series};
use lathunt_core::stats::claim::Claim;
use lathunt_core::stats::model_free::upper_limit;
use lathunt_core::time::{Cpu, Ns};

/// Samples of a second.
const A_SECOND: u64 = 1_000;

/// Latencies with an exponential tail of 10 µs.
#[derive(Clone, Copy, Debug)]
enum Machine {
    /// Independent.
    Independent,
    /// Each value is repeated, from 1 to this many times.
    Clusters(u64),
    /// Each value decays by this factor until a larger one comes (ARMAX): the extremal index is 1 minus it.
    Decay(f64),
}

/// The latencies of a machine, in ns.
struct Source {
    machine: Machine,
    random: Random,
    left: u64,
    last: f64,
}

impl Source {
    fn next(&mut self) -> u64 {
        let random = &mut self.random;
        let exponential = match self.machine {
            Machine::Independent => random.exponential(),
            Machine::Clusters(most) => {
                if self.left == 0 {
                    (self.left, self.last) = (1 + random.bits() % most, random.exponential());
                }
                self.left -= 1;
                self.last
            }
            Machine::Decay(factor) => {
                self.last = (factor * self.last).max((1.0 - factor) / random.exponential());
                -(-f64::exp_m1(-1.0 / self.last)).ln()
            }
        };
        (exponential * 10_000.0) as u64
    }
}

/// Whether the claim was shown; else the deadline was exceeded before.
fn is_shown(machine: Machine, claim: Claim, seed: u64) -> bool {
    let mut random = Random::new(900 + seed);
    let last = 1.0 / random.exponential();
    let mut source = Source { machine, random, left: 0, last };
    let deadline = Ns((-claim.probability.ln() * 10_000.0) as u64);
    let mut series = Series::new(Quantity::Cyclic, Some(Cpu(0)), Histogram::new(Layout::LATENCY));
    series.missed = Some(0);
    let (mut seconds, mut next) = (Vec::new(), 1.0);
    for second in 0.. {
        let mut max = Ns(0);
        for _ in 0..A_SECOND {
            let latency = Ns(source.next());
            if latency > deadline {
                return false;
            }
            series.histogram.record(latency);
            max = max.max(latency);
        }
        seconds.push(SecondMax { second, max_ns: max });
        let samples = series.histogram.count() as f64;
        if samples < next {
            continue;
        }
        series.set_seconds(seconds.clone());
        let said = claimed(&[&series], Some(deadline), claim.confidence);
        let times = claim.times_as_long(said.as_slice());
        if times <= 1.0 {
            return true;
        }
        next = samples * times.clamp(1.002, 1.25);
    }
    false
}

/// Of 40 machines each; with `LATHUNT_RUNS=400` of that many.
#[test]
fn a_claim_that_is_just_wrong_is_shown_no_more_often_than_its_confidence_allows() {
    let runs = std::env::var("LATHUNT_RUNS").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let claim: Claim = "5e-5@95%".parse().unwrap();
    for machine in [
        Machine::Independent,
        Machine::Clusters(9),
        Machine::Clusters(40),
        Machine::Decay(0.5),
        Machine::Decay(0.9),
    ] {
        let shown = (0..runs).filter(|seed| is_shown(machine, claim, *seed)).count() as u64;
        eprintln!("{machine:?}: {shown} of {runs}");
        let kept = upper_limit(runs, runs - shown, 0.99);
        assert!(kept.is_none_or(|most| most >= 0.95), "{machine:?}: {shown} of {runs}");
    }
}

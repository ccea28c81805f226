//! Gates: each a named test with its figures, with one family-wise rate of false refusals (Holm, Scand. J. Stat. 6,
//! 1979).

use super::answer::Gate;
use crate::stats::holm::rejected;

/// Probability that any gate refuses data that meet all assumptions.
pub const FAMILY: f64 = 0.05;

/// A test of a hypothesis that has a p-value; [`holm`] decides whether it passed.
#[must_use]
pub fn tested(name: &str, p: f64, detail: String) -> Gate {
    Gate { name: name.to_owned(), passed: true, p: Some(p), detail }
}

/// A condition that holds or not.
#[must_use]
pub fn condition(name: &str, passed: bool, detail: String) -> Gate {
    Gate { name: name.to_owned(), passed, p: None, detail }
}

/// A test, or a refusal if it was not possible.
#[must_use]
pub fn tested_or_not(name: &str, p: Option<f64>, detail: String, otherwise: &str) -> Gate {
    p.map_or_else(|| condition(name, false, otherwise.to_owned()), |p| tested(name, p, detail))
}

/// Decides all gates with a p-value, all tests together.
pub fn holm(gates: &mut [Gate]) {
    let tests: Vec<usize> = (0..gates.len()).filter(|at| gates[*at].p.is_some()).collect();
    let p_values: Vec<f64> = tests.iter().filter_map(|at| gates[*at].p).collect();
    for (at, refused) in tests.into_iter().zip(rejected(&p_values, FAMILY)) {
        gates[at].passed = !refused;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holm_refuses_the_smallest_until_one_passes() {
        let of = |p: &[f64]| {
            let mut gates: Vec<Gate> = p.iter().map(|p| tested("x", *p, String::new())).collect();
            gates.push(condition("y", false, String::new()));
            holm(&mut gates);
            gates.iter().map(|gate| gate.passed).collect::<Vec<_>>()
        };
        assert_eq!(of(&[0.0417, 0.5, 0.3]), [true, true, true, false], "0.0417 is above 0.05 / 3");
        assert_eq!(of(&[0.001, 0.02, 0.06]), [false, false, true, false]);
        assert_eq!(of(&[f64::NAN, 0.5, 0.4]), [false, true, true, false], "a p-value of NaN refuses");
    }
}

//! The answer as text: observed, bound, extrapolated, criteria, gates, notes.

use std::fmt::Write as _;

use super::answer::{Answer, Characterisation, Observed};
use crate::numbers::{counted, plain, theta_rounded_down};
use crate::stats::model_free::percent;
use crate::time::Ns;

/// The text. Numbers in `ns` are printed as durations, rounded up.
#[must_use]
pub fn text(answer: &Answer) -> String {
    let in_ns = |value: f64| Ns(value.max(0.0).ceil() as u64).rounded_up().to_string();
    let is_time = answer.unit == "ns";
    let given = |value: f64| if is_time { in_ns(value) } else { plain(value) };
    let shown = |value: f64| if is_time { in_ns(value) } else { nine_digits(value) };
    let mut out = format!("{}\n\n", answer.about);
    let _ = writeln!(out, "observed      {}", observed(&answer.observed, &given));
    // To the nanosecond: the terms can be added up.
    let exact = |value: f64| if is_time { format!("{:.3} µs", value / 1e3) } else { plain(value) };
    let bound = answer.bound.value_ns.map_or_else(
        || answer.bound.reason.clone(),
        |value| format!("{}: {}", exact(value), answer.bound.reason),
    );
    let _ = writeln!(out, "bound         {bound}");
    for term in &answer.bound.terms {
        let detail = term.detail.as_ref().map_or(String::new(), |detail| format!("  {detail}"));
        let _ = writeln!(out, "              {}: {}{detail}", term.name, exact(term.value_ns as f64));
    }
    for cpu in &answer.bound.cpus {
        let of = |one: &Characterisation| match one.value_ns {
            Some(value) => format!("{} {}", one.name, exact(value as f64)),
            None => format!("{}: {}", one.name, one.reason),
        };
        let all: Vec<String> = cpu.characterisations.iter().map(of).collect();
        let _ = writeln!(out, "              CPU {}: {}", cpu.cpu, all.join(", "));
    }
    let far = &answer.extrapolated;
    let _ = match (far.value_ns, far.upper_ns) {
        (Some(value), Some(upper)) => writeln!(
            out,
            "extrapolated  1 in {} exceeds {} at most (most likely {}), if {}: {}",
            four_digits_down(1.0 / far.level),
            shown(upper),
            shown(value),
            far.assumes.as_deref().unwrap_or_default(),
            far.reason
        ),
        _ => writeln!(out, "extrapolated  {}", far.reason),
    };
    if !answer.criteria.is_empty() {
        out.push_str("\ncriteria\n");
    }
    for one in &answer.criteria {
        let _ = writeln!(out, "  {:<22} {}", one.name, one.told());
    }
    if !answer.gates.is_empty() {
        out.push_str("\ngates\n");
    }
    for gate in &answer.gates {
        let p = gate.p.map_or(String::new(), |p| match p {
            p if p < 1e-3 => "p <0.001".to_owned(),
            p => format!("p {p:.3}"),
        });
        let _ = writeln!(
            out,
            "  {:<22} {:<8} {p:<8} {}",
            gate.name,
            if gate.passed { "passed" } else { "refused" },
            gate.detail
        );
    }
    for note in &answer.notes {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// Nine digits, none of which makes it smaller.
fn nine_digits(value: f64) -> String {
    let near = |value: f64| format!("{value:.8e}").parse::<f64>().unwrap_or(value);
    match near(value) {
        shown if shown < value => plain(near(value + value.abs() * 1e-8)),
        shown => plain(shown),
    }
}

/// Four digits in scientific notation, rounded down: of a rarity, more would be claimed otherwise.
fn four_digits_down(value: f64) -> String {
    let near = format!("{value:.3e}");
    match near.parse::<f64>() {
        // A part in 10^7 is the rounding of the level as it was typed.
        Ok(shown) if shown > value * (1.0 + 1e-7) => {
            format!("{:.3e}", shown - 10f64.powf(value.log10().floor() - 3.0))
        }
        _ => near,
    }
}

fn observed(o: &Observed, shown: &impl Fn(f64) -> String) -> String {
    if o.samples == 0 {
        return o.reason.clone();
    }
    let confidence = percent(o.confidence);
    let claim = match o.probability_upper {
        Some(p) if p <= 0.5 => {
            format!("with {confidence} % confidence fewer than 1 in {:.0} exceed it", (1.0 / p).floor())
        }
        Some(p) => {
            format!("with {confidence} % confidence fewer than {:.1} % exceed it", (p * 1e3).ceil() / 10.0)
        }
        None => "no limit of their share".to_owned(),
    };
    let effective = match (o.effective_samples, o.theta) {
        (Some(n), Some(theta)) if theta < 1.0 => {
            let lower = o.theta_lower.filter(|lower| *lower < theta);
            let lower =
                lower.map_or(String::new(), |lower| format!(", at least {}", theta_rounded_down(lower)));
            format!(" (equivalent to {n} independent ones, theta {}{lower})", theta_rounded_down(theta))
        }
        _ => String::new(),
    };
    format!(
        "largest {} of {}{effective}; {} above {}: {claim}, {}",
        shown(o.max_ns),
        counted(o.samples, "sample"),
        o.above,
        shown(o.level_ns),
        o.reason
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_not_shown_smaller_nor_a_rarity_larger_than_it_is() {
        let mut random = crate::random::Random::new(5);
        for _ in 0..10_000 {
            let value = (1 + random.below(1 << 50)) as f64 / 1e6;
            let limit: f64 = nine_digits(value).parse().unwrap();
            assert!(limit >= value && limit <= value * (1.0 + 2e-8), "{value}: {limit}");
            let below: f64 = nine_digits(-value).parse().unwrap();
            assert!(below >= -value && below <= -value * (1.0 - 2e-8), "{value}: {below}");
            let rarity: f64 = four_digits_down(value).parse().unwrap();
            assert!(rarity <= value * (1.0 + 2e-7) && rarity >= value * 0.998, "{value}: {rarity}");
        }
        assert_eq!(four_digits_down(1.0 / 2.739726e-5), "3.650e4");
        assert_eq!(four_digits_down(1e9), "1.000e9");
        assert_eq!(percent(1.0 - 1e-12), 99.999_999_999);
        assert_eq!(percent(1.0f64.next_down()), 99.999_999_999);
        assert_eq!([0.95, 0.57, 0.999, 0.5].map(percent), [95.0, 57.0, 99.9, 50.0]);
    }
}

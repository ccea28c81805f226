//! The rule of thumb of 10^5 clock periods: an orientation for the worst latency of a well configured real-time Linux.
//!
//! It is neither a deadline nor a bound.
//!
//! The rule is attributed to OSADL, the maker of the latency plots (Carsten Emde: "Preemption latency of real-time
//! Linux systems. How to measure it, and how to fix it, if it's too high?", 2016-09-17): 100 µs at 1 GHz, 33 µs at
//! 3 GHz.

use crate::time::Ns;
use crate::verdict::RuleOfThumb;

/// Clock periods of the CPU that the rule allows.
pub const PERIODS: u64 = 100_000;
/// Name of the rule.
pub const NAME: &str = "10^5 clock periods";
/// Where the rule comes from.
pub const SOURCE: &str =
    "attributed to OSADL (C. Emde: Preemption latency of real-time Linux systems, 2016, \
                          https://www.osadl.org/Single-View.111+M55de407c182.0.html)";

/// The rule for a CPU of `max_hz`, and whether `worst` is below it; `None` if `max_hz` is 0.
#[must_use]
pub fn clock_periods(max_hz: u64, worst: Ns) -> Option<RuleOfThumb> {
    let bound_ns = Ns((PERIODS * 1_000_000_000).checked_div(max_hz)?);
    Some(RuleOfThumb { name: NAME.to_owned(), bound_ns, source: SOURCE.to_owned(), met: worst < bound_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigahertz_allows_a_hundred_microseconds() {
        let rule = clock_periods(1_000_000_000, Ns::from_us(99)).unwrap();
        assert_eq!((rule.bound_ns, rule.met), (Ns::from_us(100), true));
        let rule = clock_periods(2_400_000_000, Ns::from_us(42)).unwrap();
        assert_eq!((rule.bound_ns, rule.met), (Ns(41_666), false));
        assert_eq!(clock_periods(0, Ns(1)), None);
    }
}

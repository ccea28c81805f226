//! Mapping of values to bins: linear ones of a selectable width first, then log-linear ones.

use crate::time::Ns;

/// Log-linear part: 2^5 bins per octave.
const SUB_BITS: u32 = 5;

/// Mapping of values to bins. Two histograms merge only if their linear bins have the same width.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    pub(super) width_ns: u32,    // in [1, 10^9]
    pub(super) linear_bins: u32, // in [32, 2^20]: at least 2^SUB_BITS, so that a log-linear bin is at most value / 32 wide
    reciprocal: u64,             // ceil(2^63 / width_ns): multiplying is faster than dividing
}

impl std::fmt::Debug for Layout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Layout { width_ns, linear_bins, .. } = self;
        f.debug_struct("Layout").field("width_ns", width_ns).field("linear_bins", linear_bins).finish()
    }
}

/// A layout that no histogram can have.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("histogram layout out of range: width {width_ns} ns (1 to 10^9), {linear_bins} linear bins (32 to 1048576)")]
pub struct BadLayout {
    width_ns: u32,
    linear_bins: u32,
}

impl Layout {
    /// Latencies: 1 µs rows up to 10.24 ms (the classic `latency_hist` range).
    pub const LATENCY: Layout = Layout::of(1_000, 10_240);

    const fn of(width_ns: u32, linear_bins: u32) -> Layout {
        Layout { width_ns, linear_bins, reciprocal: (1u64 << 63).div_ceil(width_ns as u64) }
    }

    /// `width_ns` per linear bin (1 to 10^9), `linear_bins` of them (32 to 2^20).
    ///
    /// # Errors
    /// If either is out of range.
    pub fn new(width_ns: u32, linear_bins: u32) -> Result<Layout, BadLayout> {
        if (1..=1_000_000_000).contains(&width_ns) && (1 << SUB_BITS..=1 << 20).contains(&linear_bins) {
            Ok(Layout::of(width_ns, linear_bins))
        } else {
            Err(BadLayout { width_ns, linear_bins })
        }
    }

    /// Width of a linear bin.
    #[must_use]
    pub fn width(self) -> Ns {
        Ns(u64::from(self.width_ns))
    }

    /// End of the linear bins: bins above are wider.
    #[must_use]
    pub fn edge(self) -> Ns {
        Ns(u64::from(self.width_ns) * u64::from(self.linear_bins))
    }

    /// Number of linear bins.
    #[must_use]
    pub fn linear_bins(self) -> usize {
        self.linear_bins as usize
    }

    /// Number of bins: every `u64` of nanoseconds has one.
    #[must_use]
    pub fn bins(self) -> usize {
        self.index(Ns(u64::MAX)) + 1
    }

    /// The bin of `value`. About 1 ns: one multiplication and, above the linear part, one bit scan.
    #[inline]
    #[must_use]
    pub fn index(self, value: Ns) -> usize {
        let steps = self.steps(value);
        if steps < u64::from(self.linear_bins) {
            steps as usize
        } else {
            self.linear_bins as usize + log_linear(steps) - log_linear(u64::from(self.linear_bins))
        }
    }

    /// `value / width`. Exact below 2^32 ns (4.3 s): `reciprocal * width` exceeds 2^63 by less than `width`, and
    /// `value * width` stays below 2^63, so the excess never reaches the next step (T. Granlund and P. L. Montgomery, "Division by invariant integers using multiplication", PLDI 1994).
    #[inline]
    fn steps(self, value: Ns) -> u64 {
        if value.0 <= u64::from(u32::MAX) {
            ((u128::from(value.0) * u128::from(self.reciprocal)) >> 63) as u64
        } else {
            value.0 / u64::from(self.width_ns)
        }
    }

    /// Smallest value of bin `index`.
    #[must_use]
    pub fn lower(self, index: usize) -> Ns {
        let width = u64::from(self.width_ns);
        if index < self.linear_bins as usize {
            return Ns(index as u64 * width);
        }
        let first = log_linear(u64::from(self.linear_bins));
        let steps = log_linear_lower(index - self.linear_bins as usize + first);
        Ns(steps.max(u64::from(self.linear_bins)).saturating_mul(width))
    }

    /// Largest value of bin `index`.
    #[must_use]
    pub fn upper(self, index: usize) -> Ns {
        if index + 1 >= self.bins() {
            Ns(u64::MAX)
        } else {
            Ns(self.lower(index + 1).0 - 1)
        }
    }
}

/// Exponent in the high bits, plus the top `SUB_BITS + 1` bits of the value.
#[inline]
fn log_linear(steps: u64) -> usize {
    let shift = steps.max(1).ilog2().max(SUB_BITS) - SUB_BITS;
    ((shift as usize) << SUB_BITS) + (steps >> shift) as usize
}

/// Smallest number of steps that [`log_linear`] maps to `index`.
fn log_linear_lower(index: usize) -> u64 {
    let shift = (index >> SUB_BITS).saturating_sub(1);
    ((index - (shift << SUB_BITS)) as u64) << shift
}

impl std::fmt::Display for Layout {
    /// `1 µs (wider above 10.240 ms)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let width = match self.width_ns {
            us if us % 1_000 == 0 => format!("{} µs", us / 1_000),
            ns => format!("{ns} ns"),
        };
        write!(f, "{width} (wider above {})", self.edge())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_between_the_edges_of_its_bin() {
        for layout in [Layout::LATENCY, Layout::new(1, 32).unwrap(), Layout::new(10, 1_000).unwrap()] {
            let powers = (3..64).flat_map(|s| [(1u64 << s) - 1, 1 << s, (1 << s) + 1]);
            for v in (0..70_000).chain(powers).chain([u64::MAX - 1, u64::MAX]) {
                let i = layout.index(Ns(v));
                assert!(layout.lower(i) <= Ns(v) && Ns(v) <= layout.upper(i), "{v} in bin {i} of {layout:?}");
            }
            assert_eq!(layout.index(Ns(u64::MAX)), layout.bins() - 1);
        }
    }

    #[test]
    fn the_multiplication_divides_exactly() {
        for width in [1u32, 2, 3, 7, 1_000, 1_001, 65_535, 1 << 20, 999_999_937, 1_000_000_000] {
            let layout = Layout::new(width, 32).unwrap();
            let width = u64::from(width);
            let last = u64::from(u32::MAX) / width;
            let edges = (0..1_000.min(last)).chain(last.saturating_sub(1_000)..=last + 1).map(|n| n * width);
            for value in edges.flat_map(|edge| [edge.saturating_sub(1), edge, edge + 1]) {
                assert_eq!(layout.steps(Ns(value)), value / width, "{value} / {width}");
            }
            let far = (u64::MAX / width).saturating_sub(1_000)..=u64::MAX / width;
            for value in far.flat_map(|n| [(n * width).saturating_sub(1), n * width]) {
                assert_eq!(layout.steps(Ns(value)), value / width, "{value} / {width}");
            }
        }
    }
}

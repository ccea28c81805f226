//! Linear regression of one time of a job on another: whether the second ends at its own time.
//!
//! Where `y` follows `x` and ends at a fixed time, it is shorter by as much as `x` is longer: the slope is -1. A time that
//! does not depend on `x` has a slope of 0.

use crate::time::Ns;

/// Minimum number of jobs for a conclusion.
pub(super) const KNOWN: u64 = 8;
/// Standard errors by which the slope must differ from 0.
const SURE: f64 = 3.0;
/// Maximum deviation of the slope from -1.
const NEARLY: f64 = 0.5;

/// The pairs so far.
#[derive(Clone, Copy, Default)]
pub(super) struct Slope {
    count: u64,
    mean: (f64, f64), // ns
    // Sums of squared deviations and of their product.
    of_x: f64,
    of_y: f64,
    of_both: f64,
}

impl Slope {
    /// Adds a pair.
    pub fn add(&mut self, x: Ns, y: Ns) {
        self.count += 1;
        let (x, y) = (x.0 as f64, y.0 as f64);
        let (dx, dy) = (x - self.mean.0, y - self.mean.1);
        let share = 1.0 / self.count as f64;
        self.mean = (self.mean.0 + dx * share, self.mean.1 + dy * share);
        self.of_x += dx * (x - self.mean.0);
        self.of_y += dy * (y - self.mean.1);
        self.of_both += dx * (y - self.mean.1);
    }

    /// Whether `y` ends at its own time.
    pub fn ends_by_itself(&self) -> bool {
        if self.count < KNOWN || self.of_x <= 0.0 {
            return false;
        }
        let slope = self.of_both / self.of_x;
        let rest = (self.of_y - slope * self.of_both).max(0.0) / (self.count - 2) as f64;
        let error = (rest / self.of_x).sqrt();
        (slope + 1.0).abs() < NEARLY && -slope > SURE * error
    }
}

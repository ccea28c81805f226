//! Samples as input of the fit: exact values, or classes of which only the edges are known.
//!
//! A latency rounded to 1 µs is not a number but a class. A likelihood over the lower edges degenerates (shape near 15
//! for a true 0.1), one over the middles is biased; so the likelihood uses the classes themselves.

use crate::histogram::{Histogram, Layout};

/// `count` samples in `[lo, hi)`, or exactly at `lo` if both are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Smallest value.
    pub lo: f64,
    /// First value beyond; `lo` if the value is exact.
    pub hi: f64,
    /// Number of samples.
    pub count: u64,
}

impl Cell {
    /// Whether the value is known exactly.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.hi <= self.lo
    }

    /// The middle; `lo` if the class has no end.
    #[must_use]
    pub fn middle(&self) -> f64 {
        if self.hi.is_finite() {
            0.5 * (self.lo + self.hi)
        } else {
            self.lo
        }
    }
}

/// Rounding of the recorded values; simulated samples are rounded in the same way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rounding {
    /// No rounding.
    Exact,
    /// Classes `[k w, (k+1) w)`.
    Width(f64),
    /// Classes of a histogram, ns.
    Classes(Layout),
}

impl Rounding {
    /// The class of `value`.
    #[must_use]
    pub fn cell(self, value: f64) -> Cell {
        match self {
            Rounding::Exact => Cell { lo: value, hi: value, count: 1 },
            Rounding::Width(width) => {
                // A value on an edge belongs to the class above it, even if the division ends some ulps below.
                let classes = value / width;
                let lo = (classes + (4.0 * f64::EPSILON * classes.abs()).max(1e-9)).floor() * width;
                Cell { lo, hi: lo + width, count: 1 }
            }
            Rounding::Classes(layout) => {
                let index = layout.index(crate::time::Ns(value.clamp(0.0, 1.8e19) as u64));
                Cell { lo: layout.lower(index).0 as f64, hi: layout.upper(index).0 as f64 + 1.0, count: 1 }
            }
        }
    }

    /// The smallest class edge at or above `value`.
    #[must_use]
    pub fn edge_from(self, value: f64) -> f64 {
        let cell = self.cell(value);
        if cell.is_exact() || cell.lo >= value - (cell.hi - cell.lo) * 1e-9 {
            cell.lo
        } else {
            cell.hi
        }
    }
}

/// All samples in ascending classes.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Rounding of the samples.
    pub grid: Rounding,
    /// Ascending, none empty.
    pub cells: Vec<Cell>,
    /// Number of all samples.
    pub samples: u64,
    /// The largest sample, as it was recorded.
    pub max: f64,
    /// Its upper limit: above `max` if the values were rounded down.
    pub most: f64,
}

impl Distribution {
    /// Distribution of plain values; `None` without values.
    #[must_use]
    pub fn of_values(values: &[f64], grid: Rounding) -> Option<Distribution> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let max = *sorted.last()?;
        let mut cells: Vec<Cell> = Vec::new();
        for value in sorted {
            let cell = grid.cell(value);
            match cells.last_mut() {
                Some(last) if last.lo == cell.lo && last.hi == cell.hi => last.count += 1,
                _ => cells.push(cell),
            }
        }
        let most = if grid == Rounding::Exact { max } else { grid.cell(max).hi };
        Some(Distribution { grid, cells, samples: values.len() as u64, max, most })
    }

    /// Distribution of a histogram in ns; `None` if it is empty.
    #[must_use]
    pub fn of_histogram(histogram: &Histogram) -> Option<Distribution> {
        let cells = histogram.occupied().map(|(lo, hi, count)| Cell {
            lo: lo.0 as f64,
            hi: hi.0 as f64 + 1.0,
            count,
        });
        let max = not_below(i128::from(histogram.max()?.0));
        Some(Distribution {
            grid: Rounding::Classes(histogram.layout()),
            cells: cells.collect(),
            samples: histogram.count(),
            max,
            most: max,
        })
    }

    /// Excesses over `threshold`, which must be a class edge if the values are classes. Classes from that edge on count;
    /// exact values only if they are above the threshold.
    #[must_use]
    pub fn excesses(&self, threshold: f64) -> Vec<Cell> {
        let above = |cell: &&Cell| match cell.is_exact() {
            true => cell.lo > threshold,
            false => cell.lo >= threshold - (cell.hi - cell.lo) * 1e-6,
        };
        let shift = |cell: &Cell| Cell {
            lo: (cell.lo - threshold).max(0.0),
            hi: cell.hi - threshold,
            count: cell.count,
        };
        self.cells.iter().filter(above).map(shift).collect()
    }

    /// The threshold with about `wanted` samples above: an edge, or an exact value below the ties.
    #[must_use]
    pub fn threshold_for(&self, wanted: u64) -> Option<f64> {
        let mut above = 0;
        for (at, cell) in self.cells.iter().enumerate().rev() {
            above += cell.count;
            if above >= wanted {
                return match cell.is_exact() {
                    true => at.checked_sub(1).map(|below| self.cells[below].lo),
                    false => Some(cell.lo),
                };
            }
        }
        None
    }
}

/// The smallest `f64` that is not below `value`: above 2^53, a maximum must not be rounded down.
#[must_use]
pub fn not_below(value: i128) -> f64 {
    match value as f64 {
        near if (near as i128) < value => near.next_up(),
        near => near,
    }
}

/// Number of samples in `cells`.
#[must_use]
pub fn total(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_never_rounded_down() {
        for value in [0, 1, (1 << 53) - 1, 1 << 53, (1 << 53) + 1, (1 << 64) - 2, (1 << 64) - 1] {
            assert!(not_below(value) as i128 >= value && not_below(-value) as i128 >= -value, "{value}");
        }
        assert_eq!(not_below((1 << 53) + 1), 9_007_199_254_740_994.0);
        assert_eq!(not_below(1 << 60) as i128, 1 << 60);
    }

    #[test]
    fn ties_are_one_cell_and_a_threshold_counts_what_is_above() {
        let all = Distribution::of_values(&[1.0, 3.0, 2.0, 3.0, 5.0], Rounding::Exact).unwrap();
        assert_eq!(all.cells.len(), 4);
        assert_eq!(total(&all.excesses(3.0)), 1);
        assert_eq!(all.threshold_for(3), Some(2.0));
        assert_eq!(all.threshold_for(5), None, "nothing is below the smallest");
        let rounded = Distribution::of_values(&[1.2, 1.7, 3.4], Rounding::Width(0.5)).unwrap();
        assert_eq!(rounded.cells[1], Cell { lo: 1.5, hi: 2.0, count: 1 });
        assert_eq!(total(&rounded.excesses(1.5)), 2);
        assert_eq!((rounded.max, rounded.most, all.most), (3.4, 3.5, 5.0));
    }

    #[test]
    fn a_value_on_an_edge_is_in_the_class_above_whatever_the_rounding() {
        for k in 1..2_000 {
            let value = f64::from(k) * 0.1;
            assert!((Rounding::Width(0.1).cell(value).lo - value).abs() < 1e-9, "{value}");
            assert!((Rounding::Width(0.1).edge_from(value) - value).abs() < 1e-9, "{value}");
        }
        for k in (1u64..3_000).map(|k| k * 7_919 + 12_345_678_901) {
            let value: f64 = format!("{}.{}", k / 10, k % 10).parse().unwrap();
            assert!((Rounding::Width(0.1).cell(value).lo - value).abs() < 0.01, "{value}");
        }
    }
}

//! Samples as the fit sees them: exact values, or classes of which only the edges are known.
//!
//! A latency that was rounded to 1 µs is not a number but a class. A likelihood that takes the class for its lower edge
//! degenerates (shape near 15 for a true 0.1), one that takes the middle is biased; so the class itself enters.

use crate::histogram::{Histogram, Layout};

/// `count` samples in `[lo, hi)`, or exactly at `lo` where both are equal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Smallest value.
    pub lo: f64,
    /// First value beyond; `lo` where the value is exact.
    pub hi: f64,
    /// Samples.
    pub count: u64,
}

impl Cell {
    /// Whether the value is known exactly.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.hi <= self.lo
    }

    /// The middle.
    #[must_use]
    pub fn middle(&self) -> f64 {
        if self.hi.is_finite() {
            0.5 * (self.lo + self.hi)
        } else {
            self.lo
        }
    }
}

/// How a value would be recorded: a simulated sample is rounded as the real ones were.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Grid {
    /// Values as they are.
    Exact,
    /// Classes `[k w, (k+1) w)`.
    Width(f64),
    /// Classes of a histogram, ns.
    Classes(Layout),
}

impl Grid {
    /// The class of `value`.
    #[must_use]
    pub fn cell(self, value: f64) -> Cell {
        match self {
            Grid::Exact => Cell { lo: value, hi: value, count: 1 },
            Grid::Width(width) => {
                // A value on an edge belongs to the class above it also where the division lands one ulp below.
                let lo = (value / width + 1e-9).floor() * width;
                Cell { lo, hi: lo + width, count: 1 }
            }
            Grid::Classes(layout) => {
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
    /// How they were recorded.
    pub grid: Grid,
    /// Ascending, none empty.
    pub cells: Vec<Cell>,
    /// Samples in all.
    pub samples: u64,
    /// The largest, exact.
    pub max: f64,
}

impl Distribution {
    /// Of plain values; `None` when there is none.
    #[must_use]
    pub fn of_values(values: &[f64], grid: Grid) -> Option<Distribution> {
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
        Some(Distribution { grid, cells, samples: values.len() as u64, max })
    }

    /// Of a histogram of nanoseconds; `None` when it is empty.
    #[must_use]
    pub fn of_histogram(histogram: &Histogram) -> Option<Distribution> {
        let cells = histogram.occupied().map(|(lo, hi, count)| Cell {
            lo: lo.0 as f64,
            hi: hi.0 as f64 + 1.0,
            count,
        });
        Some(Distribution {
            grid: Grid::Classes(histogram.layout()),
            cells: cells.collect(),
            samples: histogram.count(),
            max: histogram.max()?.0 as f64,
        })
    }

    /// Excesses over `threshold`, which is an edge where values are classes. An exact value counts when it is above.
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

    /// The threshold above which about `wanted` samples are: an edge, or the exact value of which no tie is above.
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

/// Samples in all of `cells`.
#[must_use]
pub fn total(cells: &[Cell]) -> u64 {
    cells.iter().map(|cell| cell.count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_are_one_cell_and_a_threshold_counts_what_is_above() {
        let all = Distribution::of_values(&[1.0, 3.0, 2.0, 3.0, 5.0], Grid::Exact).unwrap();
        assert_eq!(all.cells.len(), 4);
        assert_eq!(total(&all.excesses(3.0)), 1);
        assert_eq!(all.threshold_for(3), Some(2.0));
        assert_eq!(all.threshold_for(5), None, "nothing is below the smallest");
        let rounded = Distribution::of_values(&[1.2, 1.7, 3.4], Grid::Width(0.5)).unwrap();
        assert_eq!(rounded.cells[1], Cell { lo: 1.5, hi: 2.0, count: 1 });
        assert_eq!(total(&rounded.excesses(1.5)), 2);
    }

    #[test]
    fn a_value_on_an_edge_is_in_the_class_above_whatever_the_rounding() {
        for k in 1..2_000 {
            let value = f64::from(k) * 0.1;
            assert!((Grid::Width(0.1).cell(value).lo - value).abs() < 1e-9, "{value}");
            assert!((Grid::Width(0.1).edge_from(value) - value).abs() < 1e-9, "{value}");
        }
    }
}

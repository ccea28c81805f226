//! Sums over the records and cells of a session, and their contradictions.
//!
//! The firmware's distribution is unreliable: Zephyr's latmon counts a latency above the period in a lower cell, and
//! has warm-up samples in the cells but in no record. The extremes of the records are correct; if the cells contradict
//! them, the larger maximum is used and the run has a note.

use std::collections::BTreeMap;

use super::wire::{Record, Request};
use crate::histogram::{Exact, Histogram, Layout};
use crate::time::Ns;

/// Sums over the records of a session.
#[derive(Clone, Debug)]
pub struct Totals {
    request: Request,
    /// Latencies in all records.
    pub samples: u64,
    /// Pulses without an answer in time; Zephyr's latmon also counts periods exceeded by a latency.
    pub overruns: u64,
    /// Their sum, ns.
    pub sum_ns: u64,
    /// The shortest, valid with samples.
    pub min: Ns,
    /// The longest.
    pub max: Ns,
    /// Second of the longest, from the start.
    pub peak_second: u32,
    /// Records.
    pub records: u64,
    /// Records before the end whose number of samples is not that of a bulk.
    pub odd: u64,
    seconds: Vec<(u32, Ns)>,
    /// Used without cells: the shortest of each bulk once, the others at its longest.
    bounds: Histogram,
}

impl Totals {
    /// Nothing yet.
    #[must_use]
    pub fn new(request: Request) -> Totals {
        Totals {
            request,
            samples: 0,
            overruns: 0,
            sum_ns: 0,
            min: Ns(u64::MAX),
            max: Ns::ZERO,
            peak_second: 0,
            records: 0,
            odd: 0,
            seconds: Vec::new(),
            bounds: Histogram::new(Layout::LATENCY),
        }
    }

    /// Adds a record, `second` seconds after the start; if not [`Record::is_possible`], only its overruns.
    pub fn add(&mut self, record: &Record, second: u32) {
        self.overruns += u64::from(record.overruns);
        if !record.is_possible() {
            return;
        }
        let ns = |value: i32| Ns(u64::try_from(value).unwrap_or(0));
        let (min, max, samples) = (ns(record.min_ns), ns(record.max_ns), u64::from(record.samples));
        if max > self.max || self.samples == 0 {
            (self.max, self.peak_second) = (max, second);
        }
        self.min = self.min.min(min);
        self.samples += samples;
        self.sum_ns = self.sum_ns.saturating_add(u64::try_from(record.sum_ns).unwrap_or(0));
        self.records += 1;
        match self.seconds.last_mut().filter(|last| last.0 == second) {
            Some(last) => last.1 = last.1.max(max),
            None => self.seconds.push((second, max)),
        }
        let counts = [(Layout::LATENCY.index(min), 1), (Layout::LATENCY.index(max), samples - 1)];
        let exact = match samples {
            1 => Exact { sum_ns: min.0, min, max: min },
            _ => Exact { sum_ns: u64::try_from(record.sum_ns).unwrap_or(0), min, max },
        };
        let _ = self.bounds.add_counts(&counts, exact); // both extremes are present, so that this cannot fail
    }

    /// Counts a record before the end whose number of samples is not that of a bulk.
    pub fn check_bulk(&mut self, record: &Record) {
        self.odd += u64::from(record.samples != self.request.bulk());
    }

    /// Latencies of a full record.
    #[must_use]
    pub fn bulk(&self) -> u32 {
        self.request.bulk()
    }

    /// The mean, ns.
    #[must_use]
    pub fn mean_ns(&self) -> Option<u64> {
        self.sum_ns.checked_div(self.samples)
    }

    /// The largest latency of each second that has one, by second since the start.
    #[must_use]
    pub fn seconds(&self) -> &[(u32, Ns)] {
        &self.seconds
    }

    /// The distribution and its limitations, a line each.
    #[must_use]
    pub fn histogram(&self, cells: Option<&[u32]>) -> (Histogram, Vec<String>) {
        let counted = cells.map_or(0, |cells| cells.iter().map(|&count| u64::from(count)).sum::<u64>());
        match cells {
            Some(cells) if counted > 0 => self.by_cells(cells, counted),
            _ if self.samples == 0 => (self.bounds.clone(), Vec::new()),
            _ => {
                let note = "the box sent no histogram: all latencies of a record but its shortest are counted at its longest";
                (self.bounds.clone(), vec![note.to_owned()])
            }
        }
    }

    fn by_cells(&self, cells: &[u32], counted: u64) -> (Histogram, Vec<String>) {
        let mut notes = Vec::new();
        if counted != self.samples {
            notes.push(format!(
                "the box's histogram has {counted} latencies, its records {}: Zephyr's latmon counts its warm-up in the \
                 histogram only",
                self.samples
            ));
        }
        let row = |value: Ns| Layout::LATENCY.index(value);
        let edge = |cell: usize| Ns::from_us(cell as u64);
        let mut rows = BTreeMap::new();
        for (cell, &count) in cells.iter().enumerate().filter(|&(_, &count)| count > 0) {
            // The last cell includes everything above: at most the longest.
            let is_above = cell + 1 == cells.len() && self.max >= edge(cells.len());
            if is_above {
                notes.push(format!(
                    "{count} latencies of the box's last cell are of {} or more: counted at the maximum",
                    edge(cell)
                ));
            }
            *rows.entry(row(if is_above { self.max } else { edge(cell) })).or_insert(0) += u64::from(count);
        }
        let mut exact = match self.samples {
            0 => Exact { sum_ns: 0, min: Ns(u64::MAX), max: Ns::ZERO },
            _ => Exact { sum_ns: self.sum_ns, min: self.min, max: self.max },
        };
        self.settle_max(&mut rows, &mut exact, &mut notes);
        let lowest = rows.keys().next().copied().unwrap_or(0);
        if lowest < row(exact.min) {
            exact.min = Layout::LATENCY.lower(lowest); // of the warm-up
        } else if lowest > row(exact.min) {
            move_one(&mut rows, lowest, row(exact.min));
        }
        if counted != self.samples {
            let mean = self.sum_ns.checked_div(self.samples).unwrap_or(exact.max.0);
            exact.sum_ns = mean.saturating_mul(counted);
        }
        let counts: Vec<(usize, u64)> = rows.into_iter().collect();
        let mut histogram = Histogram::new(Layout::LATENCY);
        match histogram.add_counts(&counts, exact) {
            Ok(()) => (histogram, notes),
            Err(error) => {
                notes.push(format!("the box's histogram contradicts its records ({error}): it is not used"));
                (self.bounds.clone(), notes)
            }
        }
    }

    /// Uses the larger of the two maxima.
    fn settle_max(&self, rows: &mut BTreeMap<usize, u64>, exact: &mut Exact, notes: &mut Vec<String>) {
        let row = |value: Ns| Layout::LATENCY.index(value);
        let highest = rows.keys().next_back().copied().unwrap_or(0);
        if highest > row(exact.max) {
            exact.max = Layout::LATENCY.upper(highest);
            notes.push(format!(
                "the box's histogram goes up to {}, its records to {}: the longest was in the warm-up or in a record that was \
                 lost; it counts",
                exact.max, self.max
            ));
        } else if highest < row(exact.max) {
            let period = u64::from(self.request.period_us) * 1_000;
            let folded = row(Ns(exact.max.0 % period.max(1)));
            move_one(rows, if rows.contains_key(&folded) { folded } else { highest }, row(exact.max));
            notes.push(format!(
                "the box's histogram ends below {}, its records have a latency of {}: Zephyr's latmon folds latencies above the \
                 period into lower cells; the maximum is right, the distribution is not",
                Layout::LATENCY.upper(highest),
                exact.max
            ));
        }
    }
}

/// Counts one of row `from` in row `to` instead.
fn move_one(rows: &mut BTreeMap<usize, u64>, from: usize, to: usize) {
    if let Some(count) = rows.get_mut(&from) {
        *count -= 1;
        if *count == 0 {
            rows.remove(&from);
        }
        *rows.entry(to).or_insert(0) += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: Request = Request { period_us: 200, cells: 300 };

    fn totals(records: &[(i64, i32, i32, u32, u32)]) -> Totals {
        let mut totals = Totals::new(REQUEST);
        for (second, &(sum_ns, min_ns, max_ns, overruns, samples)) in (0..).zip(records) {
            totals.add(&Record { sum_ns, min_ns, max_ns, overruns, samples }, second);
        }
        totals
    }

    fn cells(of: &[(usize, u32)]) -> Vec<u32> {
        let mut cells = vec![0; 300];
        of.iter().for_each(|&(cell, count)| cells[cell] = count);
        cells
    }

    #[test]
    fn sound_figures_are_taken_as_they_are() {
        let totals = totals(&[(10_000, 1_000, 5_500, 0, 3), (8_200, 4_000, 4_200, 1, 2)]);
        let (histogram, notes) = totals.histogram(Some(&cells(&[(1, 1), (3, 1), (4, 2), (5, 1)])));
        assert_eq!((histogram.count(), histogram.sum_ns(), notes.len()), (5, 18_200, 0), "{notes:?}");
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns(1_000)), Some(Ns(5_500))));
        assert_eq!((totals.peak_second, totals.overruns, totals.mean_ns()), (0, 1, Some(3_640)));
        assert_eq!(totals.seconds(), [(0, Ns(5_500)), (1, Ns(4_200))]);
    }

    #[test]
    fn a_folded_latency_is_counted_where_the_record_has_it() {
        // 900 µs at a period of 200 µs is in cell 100.
        let totals = totals(&[(903_000, 1_500, 900_000, 4, 2)]);
        let (histogram, notes) = totals.histogram(Some(&cells(&[(1, 1), (100, 1)])));
        assert_eq!((histogram.max(), histogram.count()), (Some(Ns(900_000)), 2));
        assert_eq!(histogram.rows()[100], 0);
        assert!(notes.iter().any(|note| note.contains("folds")), "{notes:?}");
    }

    #[test]
    fn the_last_cell_and_the_warm_up_hide_no_maximum() {
        let totals = totals(&[(3_000_000, 1_000, 2_000_000, 0, 3)]);
        let (histogram, notes) = totals.histogram(Some(&cells(&[(1, 1), (299, 2)])));
        assert_eq!((histogram.max(), histogram.count_from(Ns::from_us(1_900))), (Some(Ns(2_000_000)), 2));
        assert!(notes[0].contains("last cell"), "{notes:?}");
        // Of the warm-up: higher and lower than all records.
        let totals = self::totals(&[(10_000, 5_000, 5_000, 0, 2)]);
        let (histogram, notes) = totals.histogram(Some(&cells(&[(2, 1), (5, 2), (250, 1)])));
        assert_eq!((histogram.min(), histogram.max()), (Some(Ns(2_000)), Some(Ns(250_999))));
        assert_eq!(notes.len(), 2, "{notes:?}");
    }

    #[test]
    fn without_cells_nothing_is_better_than_it_may_have_been() {
        let totals = totals(&[(600, 100, 300, 0, 3), (50, 50, 50, 0, 1)]);
        let (histogram, notes) = totals.histogram(None);
        assert_eq!((histogram.count(), histogram.sum_ns(), notes.len()), (4, 650, 1));
        assert_eq!(totals.histogram(Some(&cells(&[]))).0, histogram);
        assert_eq!(Totals::new(REQUEST).histogram(None).0.max(), None);
        // Nothing but a warm-up.
        let (histogram, _) = Totals::new(REQUEST).histogram(Some(&cells(&[(7, 3)])));
        assert_eq!((histogram.count(), histogram.max()), (3, Some(Ns(7_999))));
    }

    #[test]
    fn any_figures_are_survived_and_the_longest_is_kept() {
        let mut random = crate::random::Random::new(5);
        for _ in 0..3_000 {
            let mut totals = Totals::new(Request { period_us: 1 + random.below(1_000_000) as u32, cells: 8 });
            for second in 0..random.below(4) as u32 {
                let (low, high) = (random.below(20_000), random.below(20_000_000));
                let (min, max, samples) = (low.min(high), low.max(high), 1 + random.below(5));
                let sum_ns = if samples == 1 { min } else { min + max * (samples - 1) } as i64;
                let max = if samples == 1 { min } else { max };
                totals.add(
                    &Record {
                        sum_ns,
                        min_ns: min as i32,
                        max_ns: max as i32,
                        overruns: 0,
                        samples: samples as u32,
                    },
                    second,
                );
            }
            let cells: Vec<u32> =
                (0..8).map(|_| if random.below(3) == 0 { random.below(9) as u32 } else { 0 }).collect();
            let (histogram, notes) = totals.histogram(Some(&cells));
            assert!(histogram.max().unwrap_or(Ns::ZERO) >= totals.max, "{cells:?}");
            // One latency cannot be the shortest and the longest of several.
            let unused = notes.iter().any(|note| note.contains("not used"));
            assert!(!unused || cells.iter().sum::<u32>() < 2, "{notes:?} {cells:?}");
        }
    }
}

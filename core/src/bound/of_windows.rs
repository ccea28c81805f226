//! The answer from the windows of a monitor's database.
//!
//! The model-free statement over all samples of the windows; clusters are estimated from the maxima of the windows in
//! time order. No extrapolation: the database does not store the kernel, knobs and load of a window, and windows of two
//! configurations have no common tail.

use super::analyse::{analyse, conclude, Input, Order, Request};
use super::answer::{Answer, PathBound};
use super::gate::condition;
use super::of_run::NoInput;
use super::tail::Distribution;
use crate::histogram::Histogram;
use crate::judge::criteria_of_samples;
use crate::monitor::history::Row;
use crate::monitor::packed::{self, Damaged};
use crate::monitor::window::UnixMs;
use crate::numbers::counted;

/// The windows of one quantity, of the requested CPUs or of the tasks of one name.
#[derive(Debug, Default)]
pub struct Windows {
    all: Option<Histogram>,
    /// Start, end and largest sample of each window.
    windows: Vec<(UnixMs, UnixMs, f64)>,
    lost: u64,
}

impl Windows {
    /// Adds one series of a window; must be called in time order.
    ///
    /// # Errors
    /// A damaged record: no statement is possible then.
    pub fn add(&mut self, row: &Row) -> Result<(), Damaged> {
        match &mut self.all {
            Some(sum) => packed::add(sum, &row.histogram)?,
            None => self.all = Some(row.histogram()?),
        }
        self.lost = self.lost.saturating_add(row.lost);
        let Some(max) = row.figures.max.map(|max| max.0 as f64) else { return Ok(()) };
        match self.windows.last_mut() {
            Some((begin, end, known)) if (*begin, *end) == (row.begin, row.end) => *known = known.max(max),
            _ => self.windows.push((row.begin, row.end, max)),
        }
        Ok(())
    }

    /// Number of samples.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.all.as_ref().map_or(0, Histogram::count)
    }

    /// The answer; `about`: description of the series; `incomplete`: why the number of activations is not known, if it
    /// is not.
    ///
    /// # Errors
    /// Without samples.
    pub fn answer(
        self,
        about: &str,
        incomplete: Option<&str>,
        request: &Request,
    ) -> Result<(Answer, Input), NoInput> {
        let distribution = self.all.as_ref().and_then(Distribution::of_histogram);
        let distribution = distribution.ok_or(NoInput::NoSample("this series"))?;
        let values: Vec<f64> = self.windows.iter().map(|(_, _, max)| *max).collect();
        let per_block = distribution.samples as f64 / values.len().max(1) as f64;
        let (from, to) = (self.windows.first(), self.windows.last());
        let between =
            from.zip(to).map_or(String::new(), |(from, to)| format!(" from {} to {}", from.0, to.1));
        let input = Input {
            about: format!("{about}, {}{between}", counted(values.len() as u64, "window")),
            unknown: self.lost,
            ..Input::new("ns", distribution, Order::Maxima { values, per_block })
        };
        let mut answer = analyse(&input, request);
        answer.gates.insert(0, condition("configuration", false, NO_CONFIGURATION.to_owned()));
        conclude(&mut answer);
        answer.bound = PathBound::none("no path analysis: a monitor does not record its terms");
        // A monitor observes the system: it has no period and no load of its own, and is not calibrated.
        answer.criteria = criteria_of_samples(answer.observed.samples);
        if let Some(why) = incomplete {
            answer.observed.probability_upper = None;
            answer.observed.reason = format!("because {why}");
        }
        Ok((answer, input))
    }
}

const NO_CONFIGURATION: &str =
    "the database does not hold under which kernel, knobs and load a window was measured: for \
                                an extrapolation record one configuration (lathunt record -o DIR)";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::histogram::Layout;
    use crate::monitor::history::WindowFigures;
    use crate::monitor::window::SeriesKey;
    use crate::series::Quantity;
    use crate::time::{Cpu, Ns};

    fn row(window: i64, cpu: u32, late: u64, lost: u64) -> Row {
        let mut histogram = Histogram::new(Layout::LATENCY);
        (0..1_000 - late).for_each(|n| histogram.record(Ns(10_000 + n * 7)));
        (0..late).for_each(|n| histogram.record(Ns(200_000 + n * 1_000)));
        Row {
            begin: UnixMs(window * 1_000),
            end: UnixMs(window * 1_000 + 1_000),
            measured: Ns(1_000_000_000),
            whole: true,
            key: SeriesKey::of_cpu(Quantity::Wakeup, Cpu(cpu)),
            figures: WindowFigures::of(&histogram),
            lost,
            max_at: None,
            victim: None,
            culprit: None,
            held: None,
            histogram: packed::pack(&histogram),
            peak: None,
        }
    }

    fn answer(rows: &[Row], incomplete: Option<&str>) -> Answer {
        let mut windows = Windows::default();
        rows.iter().try_for_each(|row| windows.add(row)).unwrap();
        let request = Request { deadline: Some(100_000.0), bootstrap: 19, ..Request::default() };
        windows.answer("wakeup", incomplete, &request).unwrap().0
    }

    #[test]
    fn late_samples_in_bursts_count_once_a_burst_and_nothing_is_extrapolated() {
        // 400 windows of 1000 samples of two CPUs; each eighth has a burst of five, which one cause makes.
        let rows = |late: &dyn Fn(i64) -> u64| -> Vec<Row> {
            (0..400).flat_map(|n| [row(n, 0, late(n), 0), row(n, 1, 0, 0)]).collect()
        };
        let burst = answer(&rows(&|n| if n % 8 == 3 { 5 } else { 0 }), None);
        assert_eq!((burst.observed.samples, burst.observed.above), (800_000, 250));
        let theta = burst.observed.theta.unwrap();
        assert!((0.15..0.3).contains(&theta), "clusters of five: {theta}");
        // Of some 30 independent ones: 1.6449 deviations above their number by the normal approximation.
        let share = theta / (2.0 - theta);
        let upper = burst.observed.probability_upper.unwrap() * 800_000.0 * share;
        assert!((share * 250.0).ceil() < upper && upper < share * 250.0 * 1.6, "{upper}");
        assert_eq!(burst.extrapolated.upper_ns, None);
        assert!(burst.extrapolated.reason.contains("configuration refused"), "{}", burst.extrapolated.reason);
        let lost = answer(&[row(0, 0, 0, 7), row(1, 0, 2, 0)], None);
        assert_eq!((lost.observed.samples, lost.observed.above), (2_007, 9), "lost ones may be late");
    }

    #[test]
    fn where_it_is_not_known_what_is_missing_there_is_no_number() {
        let rows = [row(0, 0, 0, 0), row(1, 0, 0, 0)];
        assert!(answer(&rows, None).observed.probability_upper.is_some());
        let told = answer(&rows, Some("activations were lost")).observed;
        assert_eq!((told.probability_upper, told.reason.as_str()), (None, "because activations were lost"));
        let mut windows = Windows::default();
        windows.add(&rows[0]).unwrap();
        let damaged = Row { histogram: vec![9, 9], ..rows[1].clone() };
        assert!(windows.add(&damaged).is_err());
        let none = Windows::default().answer("wakeup", None, &Request::default());
        assert!(matches!(none, Err(NoInput::NoSample(_))));
    }
}

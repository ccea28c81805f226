//! Compares tracers with the non-preempt test: none, kernel, user and both, in alternating rounds.
//!
//! The form of the table is that of M. Beamonte and M. R. Dagenais (2012): minimum, mean, maximum, variance, standard
//! deviation of an iteration in ns, with their figures. Maxima in a virtual machine are caused by the host; tracers are
//! compared by the net median (of each round, minus the empty loop of the same round) and the percentiles.

use std::fmt::Write;

use serde::Serialize;

use crate::histogram::{Exact, Histogram, Layout};
use crate::report::latency::{self, Curve};
use crate::report::plot::{Plot, Wanted};
use crate::run::Run;
use crate::series::{Quantity, Series};

use super::turns::layout;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-npt-matrix";
/// The version written.
pub const VERSION: u32 = 1;

/// A row: the user tracer and the kernel tracer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Name {
    /// `none`, `lathunt`, `lttng`, …
    pub user: String,
    /// `none`, `lathunt` (the recorder), `ftrace`.
    pub kernel: String,
}

impl Name {
    /// The name in tables and legends.
    #[must_use]
    pub fn label(&self) -> String {
        match (self.user.as_str(), self.kernel.as_str()) {
            ("none", "none") => "none".to_owned(),
            ("none", kernel) => format!("kernel: {kernel}"),
            (user, "none") => format!("user: {user}"),
            (user, kernel) => format!("both: {user} + {kernel}"),
        }
    }
}

/// All rounds of one row.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its tracers.
    pub name: Name,
    /// Median iteration of each round, ns.
    medians: Vec<f64>,
    histogram: Histogram,
    sum: f64,
    /// `None`: the variance of a round is not known.
    squares: Option<f64>,
    /// The tracer's report on its events, in the last round.
    said: Option<String>,
}

/// A row of the table.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its tracers.
    #[serde(flatten)]
    pub name: Name,
    /// Number of iterations.
    pub loops: u64,
    /// Shortest iteration, ns.
    pub min_ns: u64,
    /// Mean, ns.
    pub mean_ns: f64,
    /// Longest, ns.
    pub max_ns: u64,
    /// Variance, ns²; `None`: that of a round is not known.
    pub variance_ns2: Option<f64>,
    /// Standard deviation, ns.
    pub deviation_ns: Option<f64>,
    /// Median, ns.
    pub median_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.85th: with 4 KiB packets and 32-byte events, one iteration in 126 switches packets, so it is one of these.
    pub p99_85_ns: u64,
    /// 99.99th percentile, ns.
    pub p99_99_ns: u64,
    /// Median over the rounds of (median − median of the empty loop in the same round), ns.
    pub net_median_ns: Option<f64>,
    /// The tracer's report on its events.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub events: Option<String>,
}

/// The matrix.
#[derive(Clone, Debug, Default)]
pub struct Matrix {
    cells: Vec<Cell>,
    missing: Vec<(String, String)>,
}

/// Beamonte and Dagenais 2012, ns: name, minimum, mean, maximum.
const PUBLISHED: [(&str, [u64; 3]); 4] = [
    ("2012: LTTng-UST, original", [287, 317, 121_744]),
    ("2012: LTTng-UST, modified", [198, 220, 5_847]),
    ("2012: the same on PREEMPT_RT, original", [289, 322, 19_837]),
    ("2012: the same on PREEMPT_RT, modified", [197, 206, 5_088]),
];

impl Matrix {
    /// Notes why a row cannot be measured here.
    pub fn lacks(&mut self, user: &str, why: &str) {
        self.missing.push((user.to_owned(), why.to_owned()));
    }

    /// Adds a round of the row `name`: a run of `npt`. False: it has no iterations.
    pub fn add(&mut self, name: &Name, run: &Run) -> bool {
        let mut any = false;
        for series in run.of(Quantity::Npt).filter(|series| series.histogram.count() > 0) {
            let cell = match self.cells.iter_mut().position(|cell| cell.name == *name) {
                Some(at) => &mut self.cells[at],
                None => {
                    self.cells.push(Cell::new(name.clone()));
                    let last = self.cells.len() - 1;
                    &mut self.cells[last]
                }
            };
            any |= cell.add(series);
            let said = run.conditions.notes.iter().find(|note| note.contains(" events"));
            cell.said = said.cloned().or(cell.said.take());
        }
        any
    }

    /// The table's rows, in the order in which they were first measured.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let empty = self.cells.iter().find(|cell| cell.name.user == "none" && cell.name.kernel == "none");
        self.cells.iter().filter_map(|cell| cell.row(empty)).collect()
    }

    /// The table with the goals, and the rows that were not measured.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!(
            "{:<40}{:>7}{:>10}{:>11}{:>16}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
            "ns", "min", "avg", "max", "variance", "deviation", "median", "net", "p99", "p99.85", "p99.99"
        );
        let rows = self.rows();
        for row in &rows {
            let _ = writeln!(
                text,
                "{:<40}{:>7}{:>10.2}{:>11}{:>16}{:>11}{:>9}{:>9}{:>9}{:>9}{:>9}",
                row.name.label(),
                row.min_ns,
                row.mean_ns,
                row.max_ns,
                or_dash(row.variance_ns2, 1),
                or_dash(row.deviation_ns, 1),
                row.median_ns,
                or_dash(row.net_median_ns, 0),
                row.p99_ns,
                row.p99_85_ns,
                row.p99_99_ns
            );
        }
        for (name, [min, mean, max]) in PUBLISHED {
            let _ = writeln!(text, "{name:<40}{min:>7}{mean:>10}{max:>11}");
        }
        for line in goals(&rows) {
            let _ = writeln!(text, "{line}");
        }
        for row in rows.iter().filter(|row| row.events.is_some()) {
            let said = row.events.as_deref().unwrap_or_default();
            let _ = writeln!(text, "last round of {}: {said}", row.name.label());
        }
        for (user, why) in &self.missing {
            let _ = writeln!(text, "not measured: {user}: {why}");
        }
        text
    }

    /// The rows as CSV, the published ones included.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = String::from(
            "user,kernel,loops,min_ns,mean_ns,max_ns,variance_ns2,deviation_ns,median_ns,net_median_ns,p99_ns,p99_85_ns,p99_99_ns\n",
        );
        for row in self.rows() {
            let [net, variance, deviation] = [row.net_median_ns, row.variance_ns2, row.deviation_ns]
                .map(|value| value.map_or(String::new(), |value| format!("{value:.1}")));
            let Row { loops, min_ns, mean_ns, max_ns, median_ns, .. } = row;
            let _ = writeln!(
                text,
                "{},{},{loops},{min_ns},{mean_ns:.2},{max_ns},{variance},{deviation},{median_ns},{net},{},{},{}",
                row.name.user, row.name.kernel, row.p99_ns, row.p99_85_ns, row.p99_99_ns
            );
        }
        for (name, [min, mean, max]) in PUBLISHED {
            let _ = writeln!(text, "\"{name}\",,100000000,{min},{mean},{max},,,,,,,");
        }
        text
    }

    /// The JSON form.
    #[must_use]
    pub fn to_json(&self) -> String {
        let missing: Vec<_> =
            self.missing.iter().map(|(user, why)| serde_json::json!({ "user": user, "why": why })).collect();
        let whole = serde_json::json!({
            "format": FORMAT, "version": VERSION, "rows": self.rows(), "missing": missing,
        });
        serde_json::to_string_pretty(&whole).unwrap_or_default() // plain structs always serialize
    }

    /// Both axes logarithmic: counts by length of an iteration. `None`: nothing was measured.
    #[must_use]
    pub fn plot(&self) -> Option<Plot> {
        let series: Vec<(String, Series)> = self
            .cells
            .iter()
            .map(|cell| (cell.name.label(), Series::new(Quantity::Npt, None, coarse(&cell.histogram))))
            .collect();
        let curves: Vec<Curve> = series
            .iter()
            .enumerate()
            .map(|(index, (label, series))| Curve { label: label.clone(), series, run: 0, index })
            .collect();
        let mut plot = latency::plot(Quantity::Npt, &curves, None, Wanted::Log)?;
        plot.title = "Non-preempt test: iterations of the loop by tracer".to_owned();
        Some(plot)
    }
}

fn or_dash(value: Option<f64>, places: usize) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.places$}"))
}

/// With bins of 3 % from 32 ns: ten curves with bins of 1 ns would hide each other. Extremes and sum stay exact.
fn coarse(histogram: &Histogram) -> Histogram {
    let layout = Layout::new(1, 32).unwrap_or(Layout::LATENCY);
    let mut coarse = Histogram::new(layout);
    let counts: Vec<(usize, u64)> =
        histogram.occupied().map(|(low, _, count)| (layout.index(low), count)).collect();
    if let (Some(min), Some(max)) = (histogram.min(), histogram.max()) {
        // Above 32 both have the same bin edges, so this cannot fail.
        let _ = coarse.add_counts(&counts, Exact { sum_ns: histogram.sum_ns(), min, max });
    }
    coarse
}

impl Cell {
    fn new(name: Name) -> Cell {
        Cell {
            name,
            medians: Vec::new(),
            histogram: Histogram::new(layout()),
            sum: 0.0,
            squares: Some(0.0),
            said: None,
        }
    }

    fn add(&mut self, series: &Series) -> bool {
        let histogram = &series.histogram;
        let (Some(mean), Some(median)) = (histogram.mean_ns(), histogram.quantile(0.5)) else { return false };
        if self.histogram.merge(histogram).is_err() {
            return false;
        }
        let count = histogram.count() as f64;
        self.sum += mean * count;
        let variance = series.variance_ns2;
        self.squares = self.squares.zip(variance).map(|(sum, own)| sum + (own + mean * mean) * count);
        self.medians.push(median.0 as f64);
        true
    }

    fn row(&self, empty: Option<&Cell>) -> Option<Row> {
        let h = &self.histogram;
        let count = h.count() as f64;
        let mean = self.sum / count;
        let variance = self.squares.map(|squares| (squares / count - mean * mean).max(0.0));
        let quantile = |q: f64| h.quantile(q).map(|ns| ns.0);
        let net = empty.filter(|empty| empty.name != self.name).and_then(|empty| {
            let mut nets: Vec<f64> =
                self.medians.iter().zip(&empty.medians).map(|(own, empty)| own - empty).collect();
            nets.sort_by(f64::total_cmp);
            nets.get(nets.len() / 2).copied()
        });
        Some(Row {
            name: self.name.clone(),
            loops: h.count(),
            min_ns: h.min()?.0,
            mean_ns: mean,
            max_ns: h.max()?.0,
            variance_ns2: variance,
            deviation_ns: variance.map(f64::sqrt),
            median_ns: quantile(0.5)?,
            p99_ns: quantile(0.99)?,
            p99_85_ns: quantile(0.9985)?,
            p99_99_ns: quantile(0.9999)?,
            net_median_ns: net,
            events: self.said.clone(),
        })
    }
}

/// lathunt's tracer relative to LTTng-UST, in one run.
fn goals(rows: &[Row]) -> Vec<String> {
    let user = |name: &str| rows.iter().find(|row| row.name.user == name && row.name.kernel == "none");
    let Some(ours) = user("lathunt") else { return Vec::new() };
    let mut lines = Vec::new();
    for peer in ["lttng", "lttng --read-timer"] {
        let Some(theirs) = user(peer) else { continue };
        let ratio = |a: f64, b: f64| if b > 0.0 { format!("{:.2}", a / b) } else { "–".to_owned() };
        let net = ours.net_median_ns.zip(theirs.net_median_ns);
        lines.push(format!(
            "lathunt / {peer}: net median {}, p99 {}, p99.85 (packet switch) {}",
            net.map_or("–".to_owned(), |(a, b)| ratio(a, b)),
            ratio(ours.p99_ns as f64, theirs.p99_ns as f64),
            ratio(ours.p99_85_ns as f64, theirs.p99_85_ns as f64)
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::time::Ns;

    fn name(user: &str, kernel: &str) -> Name {
        Name { user: user.to_owned(), kernel: kernel.to_owned() }
    }

    fn run(lengths: &[u64]) -> Run {
        let mut run = Run::new(Conditions::default());
        let mut histogram = Histogram::new(layout());
        lengths.iter().for_each(|&ns| histogram.record(Ns(ns)));
        let mean = lengths.iter().sum::<u64>() as f64 / lengths.len() as f64;
        let variance =
            lengths.iter().map(|&ns| (ns as f64 - mean).powi(2)).sum::<f64>() / lengths.len() as f64;
        let mut series = Series::new(Quantity::Npt, None, histogram);
        series.variance_ns2 = Some(variance);
        run.series.push(series);
        run
    }

    #[test]
    fn the_plot_has_wider_classes_and_the_same_turns() {
        let mut fine = Histogram::new(layout());
        let mut lengths: Vec<u64> = (1..40_000).chain([123_456, 999_999_999, 3]).collect();
        lengths.iter().for_each(|&ns| fine.record(Ns(ns)));
        let coarse = coarse(&fine);
        lengths.sort_unstable();
        assert_eq!((coarse.count(), coarse.sum_ns()), (lengths.len() as u64, lengths.iter().sum()));
        assert_eq!((coarse.min(), coarse.max()), (Some(Ns(1)), Some(Ns(999_999_999))));
        assert!(coarse.occupied().count() < 400, "{}", coarse.occupied().count());
        for (low, high, count) in coarse.occupied() {
            let inside = lengths.iter().filter(|&&ns| low.0 <= ns && ns <= high.0).count();
            assert_eq!(inside as u64, count, "{low} to {high}");
        }
    }

    #[test]
    fn rounds_add_up_and_the_net_median_is_that_of_its_own_round() {
        let mut matrix = Matrix::default();
        for (empty, event) in [(20, 40), (30, 51), (100, 120)] {
            assert!(matrix.add(&name("none", "none"), &run(&[empty, empty, 1_000])));
            assert!(matrix.add(&name("lathunt", "none"), &run(&[event, event, event])));
        }
        assert!(!matrix.add(&name("marker", "none"), &Run::new(Conditions::default())));
        let rows = matrix.rows();
        assert_eq!((rows.len(), rows[0].loops, rows[0].max_ns, rows[0].net_median_ns), (2, 9, 1_000, None));
        assert_eq!((rows[1].min_ns, rows[1].max_ns, rows[1].net_median_ns), (40, 120, Some(20.0)));
        // 40 ×3, 51 ×3, 120 ×3: mean 211/3, variance by hand.
        assert!((rows[1].mean_ns - 211.0 / 3.0).abs() < 1e-9);
        let variance = (1_600.0 + 2_601.0 + 14_400.0) / 3.0 - (211.0f64 / 3.0).powi(2);
        assert!((rows[1].variance_ns2.unwrap() - variance).abs() < 1e-6);
        let mut unknown = run(&[120, 121]);
        unknown.series[0].variance_ns2 = None;
        matrix.add(&name("lathunt", "none"), &unknown);
        assert_eq!((matrix.rows()[1].variance_ns2, matrix.rows()[1].deviation_ns), (None, None));
    }

    #[test]
    fn the_table_names_what_is_missing_and_what_was_published() {
        let mut matrix = Matrix::default();
        matrix.add(&name("none", "none"), &run(&[20]));
        matrix.add(&name("lathunt", "none"), &run(&[40]));
        matrix.add(&name("lttng", "none"), &run(&[140]));
        matrix.lacks("uprobe", "needs root");
        let text = matrix.text();
        assert!(text.contains("not measured: uprobe: needs root") && text.contains("121744"), "{text}");
        assert!(text.contains("lathunt / lttng: net median 0.17"), "{text}");
        assert_eq!(matrix.csv().lines().count(), 1 + 3 + 4);
        assert!(matrix.to_json().contains("\"lathunt-npt-matrix\""));
        assert_eq!(matrix.plot().unwrap().lines.len(), 3);
        assert!(Matrix::default().plot().is_none());
    }
}

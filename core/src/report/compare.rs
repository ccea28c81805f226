//! Two or more runs side by side: the same quantities, and the conditions that differ.
//!
//! The first run is the reference; ratios are "this run over the first". Differences mean little if the conditions
//! differ too, so these are listed below.

use serde::Serialize;

use super::facts::{as_condition, facts, is_circumstance, Fact};
use super::figures::{quantities, Figures};
use super::text::largest;
use crate::numbers::{grouped, or_dash};
use crate::printable::{cut, line};
use crate::run::Run;
use crate::series::labels::Labels;
use crate::series::{Quantity, Series};
use crate::time::Ns;
use crate::verdict::Outcome;

/// Value of `format` in the JSON form.
pub const FORMAT: &str = "lathunt-comparison";
/// Version of the JSON form.
pub const VERSION: u32 = 1;

/// The comparison, ready to print or to serialize.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    /// Always `lathunt-comparison`.
    pub format: &'static str,
    /// Version of this form.
    pub version: u32,
    /// The runs, the reference first.
    pub runs: Vec<Side>,
    /// One per quantity and CPU, all CPUs together first.
    pub rows: Vec<Row>,
    /// Conditions that differ between the runs.
    pub differing: Vec<Difference>,
    /// Number of conditions that are the same.
    pub same: usize,
    /// Number of conditions that are unknown in all runs.
    pub unknown: usize,
}

/// A run in a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Side {
    /// `A`, `B`, …
    pub letter: String,
    /// Its file.
    pub name: String,
    /// Its start.
    pub started: Option<String>,
    /// Its verdict.
    pub outcome: Option<Outcome>,
    /// Its largest latency, as a phrase.
    pub largest: String,
    /// Losses, as phrases: `188 switches_not_seen`.
    pub lost: Vec<String>,
}

/// A quantity on one CPU (or on all) in each run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was measured.
    pub quantity: Quantity,
    /// `all`, `CPU 1`, `comm/tid`.
    pub label: String,
    /// Figures of each run; `None` if it has no such series.
    pub figures: Vec<Option<Figures>>,
    /// Ratios of each run to the first.
    pub ratios: Vec<Option<Ratios>>,
}

/// Ratios of the figures of a run to those of the reference. `None` if one of the two is missing or zero.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Ratios {
    /// Minima.
    pub min: Option<f64>,
    /// Medians.
    pub median: Option<f64>,
    /// 99.9 % quantiles.
    pub p99_9: Option<f64>,
    /// Maxima.
    pub max: Option<f64>,
}

/// A condition that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// `machine`, `kernel`, …
    pub group: &'static str,
    /// Its name.
    pub name: String,
    /// Its value in each run; `None` if it could not be read.
    pub values: Vec<Option<String>>,
    /// It only describes when or how the run was made.
    pub circumstance: bool,
}

impl Comparison {
    /// Compares runs with their names, the reference first.
    #[must_use]
    pub fn of(runs: &[(&str, &Run)]) -> Comparison {
        let side = |(i, (name, run)): (usize, &(&str, &Run))| Side {
            letter: letter(i),
            name: (*name).to_owned(),
            started: run.conditions.started.clone(),
            outcome: run.verdict.as_ref().and_then(|verdict| verdict.outcome),
            largest: largest(run),
            lost: run.losses.iter().map(|loss| format!("{} {}", grouped(loss.count), loss.counter)).collect(),
        };
        let (differing, same, unknown) = differences(runs);
        Comparison {
            format: FORMAT,
            version: VERSION,
            runs: runs.iter().enumerate().map(side).collect(),
            rows: rows(runs),
            differing,
            same,
            unknown,
        }
    }

    /// For a terminal of `width` columns.
    #[must_use]
    pub fn to_text(&self, width: usize) -> String {
        let mut lines = Vec::new();
        for side in &self.runs {
            let outcome = side.outcome.map_or("no verdict", Outcome::name);
            let started = side.started.as_deref().unwrap_or("start unknown");
            lines.push(format!("{}  {}  ({started}; {outcome}; {})", side.letter, side.name, side.largest));
            if !side.lost.is_empty() {
                lines.push(format!("   ! lost: {}", side.lost.join(", ")));
            }
        }
        let mut quantity = None;
        for row in &self.rows {
            if quantity != Some(row.quantity) {
                quantity = Some(row.quantity);
                lines.push(String::new());
                let heading = ["samples", "min", "median", "p99.9", "max", "missed"].map(str::to_owned);
                lines.push(cells(row.quantity.name(), "run", heading, width));
            }
            lines.extend(row_lines(row, width));
        }
        lines.push(String::new());
        lines.extend(self.condition_lines(width));
        lines.iter().fold(String::new(), |text, line| text + cut(line, width).trim_end() + "\n")
    }

    fn condition_lines(&self, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let (circumstances, real): (Vec<_>, Vec<_>) = self.differing.iter().partition(|d| d.circumstance);
        let unknown = match self.unknown {
            0 => String::new(),
            unknown => format!("{unknown} are unknown in all runs"),
        };
        match (real.len(), self.same, self.unknown) {
            (0, same, 0) => lines.push(format!("All {same} other conditions are the same.")),
            (0, same, _) => lines.push(format!("{same} other conditions are the same; {unknown}.")),
            (n, same, 0) => lines.push(format!("Conditions that differ ({n}; {same} are the same):")),
            (n, same, _) => {
                lines.push(format!("Conditions that differ ({n}; {same} are the same, {unknown}):"));
            }
        }
        for difference in real {
            lines.push(format!("! {}: {}", difference.group, line(&difference.name)));
            for (i, value) in difference.values.iter().enumerate() {
                let value = value.as_deref().unwrap_or("not known");
                lines.push(cut(&format!("    {}  {value}", letter(i)), width));
            }
        }
        if !circumstances.is_empty() {
            let names: Vec<&str> = circumstances.iter().map(|d| d.name.as_str()).collect();
            lines.push(format!("Also different, as in any two runs: {}.", names.join(", ")));
        }
        lines
    }
}

/// `A` to `Z`, then `#26` and so on.
fn letter(index: usize) -> String {
    match u8::try_from(index) {
        Ok(small @ 0..=25) => char::from(b'A' + small).to_string(),
        _ => format!("#{index}"),
    }
}

fn row_lines(row: &Row, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, figures) in row.figures.iter().enumerate() {
        let label = if i == 0 { row.label.as_str() } else { "" };
        let Some(f) = figures else {
            lines.push(format!("{:<18} {:>4}  not measured", cut(label, 18), letter(i)));
            continue;
        };
        let values = [
            grouped(f.samples),
            or_dash(f.min_ns),
            or_dash(f.median_ns),
            or_dash(f.p99_9_ns),
            or_dash(f.max_ns.map(Ns::rounded_up)), // nothing is above the maximum as displayed
            f.missed.map_or("?".to_owned(), grouped),
        ];
        lines.push(cells(label, &letter(i), values, width));
    }
    let lost = row.figures.iter().enumerate().filter_map(|(i, figures)| Some((i, figures.as_ref()?.lost)));
    let lost: Vec<(usize, u64)> = lost.collect();
    if lost.iter().any(|&(_, lost)| lost > 0) {
        let each: Vec<String> = lost.iter().map(|&(i, n)| format!("{} {}", letter(i), grouped(n))).collect();
        lines.push(format!("{:<18}    ! lost samples of unknown value: {}", "", each.join(", ")));
    }
    for (i, ratios) in row.ratios.iter().enumerate().skip(1) {
        if let Some(r) = ratios {
            let [min, median, p99_9, max] = [r.min, r.median, r.p99_9, r.max].map(ratio_text);
            let values = [String::new(), min, median, p99_9, max, String::new()];
            lines.push(cells("", &format!("{}/A", letter(i)), values, width));
        }
    }
    lines
}

/// On a narrow screen without the least important columns: a maximum is never truncated.
fn cells(label: &str, run: &str, values: [String; 6], width: usize) -> String {
    let [samples, min, median, p99_9, max, missed] = values;
    let label = cut(label, 18);
    match width {
        93.. => {
            format!(
                "{label:<18} {run:>4} {samples:>15} {min:>10} {median:>10} {p99_9:>10} {max:>10} {missed:>9}"
            )
        }
        _ => format!("{label:<18} {run:>4} {samples:>15} {p99_9:>10} {max:>10} {missed:>9}"),
    }
}

fn ratio_text(ratio: Option<f64>) -> String {
    ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{ratio:.2}"))
}

fn rows(runs: &[(&str, &Run)]) -> Vec<Row> {
    let mut found: Vec<Quantity> = Vec::new();
    for quantity in runs.iter().flat_map(|(_, run)| quantities(run)) {
        if !found.contains(&quantity) {
            found.push(quantity);
        }
    }
    found.into_iter().flat_map(|quantity| quantity_rows(runs, quantity)).collect()
}

fn quantity_rows(runs: &[(&str, &Run)], quantity: Quantity) -> Vec<Row> {
    let series: Vec<Vec<&Series>> = runs.iter().map(|(_, run)| run.of(quantity).collect()).collect();
    let labels = Labels::of(&series);
    let row = |label: &str, of_run: &dyn Fn(&[&Series]) -> Option<Figures>| {
        let figures: Vec<Option<Figures>> = series.iter().map(|series| of_run(series)).collect();
        let reference = figures.first().cloned().flatten();
        let ratios = figures.iter().map(|f| Some(Ratios::of(f.as_ref()?, reference.as_ref()?))).collect();
        Row { quantity, label: label.to_owned(), figures, ratios }
    };
    let figures = |series: &[&Series]| (!series.is_empty()).then(|| Figures::of_all(series));
    let mut rows = Vec::new();
    if labels.all().len() > 1 {
        rows.push(row("all", &figures));
    }
    rows.extend(
        labels.all().iter().map(|label| row(label, &|series| figures(&labels.of_label(label, series)))),
    );
    rows
}

impl Ratios {
    fn of(figures: &Figures, reference: &Figures) -> Ratios {
        let ratio = |this: Option<Ns>, first: Option<Ns>| match (this, first) {
            (Some(this), Some(first)) if first > Ns::ZERO => Some(this.0 as f64 / first.0 as f64),
            _ => None,
        };
        Ratios {
            min: ratio(figures.min_ns, reference.min_ns),
            median: ratio(figures.median_ns, reference.median_ns),
            p99_9: ratio(figures.p99_9_ns, reference.p99_9_ns),
            max: ratio(figures.max_ns, reference.max_ns),
        }
    }
}

/// Conditions with more than one value, and the number of those with one and with none.
fn differences(runs: &[(&str, &Run)]) -> (Vec<Difference>, usize, usize) {
    let tables: Vec<Vec<Fact>> = runs.iter().map(|(_, run)| facts(&run.conditions)).collect();
    let mut known: Vec<&Fact> = Vec::new();
    for fact in tables.iter().flatten() {
        if !known.iter().any(|k| k.group == fact.group && k.name == fact.name) {
            known.push(fact);
        }
    }
    let (mut same, mut unknown) = (0, 0);
    let mut differing = Vec::new();
    for fact in known {
        let of = |table: &Vec<Fact>| {
            table.iter().find(|f| f.group == fact.group && f.name == fact.name).and_then(|f| f.value.clone())
        };
        let values: Vec<Option<String>> = tables.iter().map(of).collect();
        let condition = |value: &Option<String>| as_condition(&Fact { value: value.clone(), ..fact.clone() });
        let conditions: Vec<Option<String>> = values.iter().map(condition).collect();
        if values.iter().all(Option::is_none) {
            unknown += 1;
        } else if conditions.windows(2).all(|pair| pair[0] == pair[1]) {
            same += 1;
        } else {
            let circumstance = is_circumstance(fact);
            differing.push(Difference { group: fact.group, name: fact.name.clone(), values, circumstance });
        }
    }
    (differing, same, unknown)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditions::Conditions;
    use crate::histogram::{Histogram, Layout};
    use crate::run::Loss;
    use crate::series::Thread;
    use crate::time::{Cpu, Tid};

    fn run(lost: u64) -> Run {
        let mut histogram = Histogram::new(Layout::LATENCY);
        histogram.record(Ns(9_000));
        let mut run = Run::new(Conditions::default());
        run.series = vec![Series { lost, ..Series::new(Quantity::Cyclic, Some(Cpu(0)), histogram) }];
        run
    }

    #[test]
    fn how_long_a_load_was_to_last_is_no_difference_of_conditions() {
        let with = |load: &str, average: &str| {
            let mut run = run(0);
            run.conditions.load = Some(load.to_owned());
            run.conditions.knobs.other.insert("/proc/loadavg".to_owned(), average.to_owned());
            run
        };
        let a = with("stress-ng --cpu 2 --timeout 20s --temp-path /tmp/a", "0.1 0.2 0.3");
        let b = with("stress-ng --cpu 2 --timeout=60s --temp-path /tmp/b", "2.1 0.2 0.3");
        let of = |a: &Run, b: &Run| Comparison::of(&[("a", a), ("b", b)]).differing;
        assert!(of(&a, &b).iter().all(|one| one.circumstance), "{:?}", of(&a, &b));
        let c = with("stress-ng --cpu 3 --timeout 20s --temp-path /tmp/a", "0.1 0.2 0.3");
        assert!(of(&a, &c).iter().any(|one| one.name == "load" && !one.circumstance));
    }

    #[test]
    fn losses_of_either_run_stand_below_its_figures() {
        let (whole, mut lossy) = (run(0), run(1_200));
        let text = Comparison::of(&[("a", &whole), ("b", &whole)]).to_text(100);
        assert!(!text.contains("lost"), "{text}");
        let (counter, meaning) = ("ring_overrun".to_owned(), String::new());
        lossy.losses.push(Loss { counter, count: 4, meaning, evidence_only: true });
        let text = Comparison::of(&[("a", &whole), ("b", &lossy)]).to_text(80);
        assert!(text.contains("! lost samples of unknown value: A 0, B 1 200"), "{text}");
        assert!(text.contains("9.0 µs         0\n") && !text.contains('…'), "{text}");
        assert!(text.contains("B  b  (start unknown; no verdict; largest cyclic latency 9.0 µs)\n   ! lost: 4 ring_overrun\n"), "{text}");
    }

    #[test]
    fn a_thread_is_found_by_its_name_in_the_other_run_though_its_tid_is_another() {
        let thread = |tid: i32, comm: &str| {
            let mut run = run(0);
            let thread = Thread { tid: Tid(tid), comm: comm.to_owned(), prio: None };
            (run.series[0].cpu, run.series[0].thread) = (None, Some(thread));
            run
        };
        let (a, mut b) = (thread(7_609, "thread 0"), thread(22_300, "thread 0"));
        let labels = |a: &Run, b: &Run| -> Vec<(String, bool)> {
            let rows = Comparison::of(&[("a", a), ("b", b)]).rows;
            rows.into_iter().map(|row| (row.label, row.figures.iter().all(Option::is_some))).collect()
        };
        assert_eq!(labels(&a, &b), [("thread 0".to_owned(), true)]);
        b.series.extend(thread(22_301, "thread 0").series); // which of the two?
        assert_eq!(labels(&a, &b).len(), 4);
    }

    #[test]
    fn what_is_known_of_neither_run_is_not_the_same() {
        let (a, mut b) = (run(0), run(0));
        let text = Comparison::of(&[("a", &a), ("b", &a)]).to_text(100);
        assert!(
            text.contains("other conditions are the same; ") && text.contains("are unknown in all runs."),
            "{text}"
        );
        let all = Comparison::of(&[("a", &a), ("a", &a)]);
        b.conditions.kernel.release = Some("6.1".to_owned());
        let some = Comparison::of(&[("b", &b), ("b", &b)]);
        assert_eq!((some.same, some.unknown), (all.same + 1, all.unknown - 1));
        let text = Comparison::of(&[("a", &a), ("b", &b)]).to_text(100);
        assert!(
            text.contains("Conditions that differ (1; ") && text.contains(" are unknown in all runs):"),
            "{text}"
        );
    }
}

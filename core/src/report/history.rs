//! The maxima of consecutive windows over time, like OSADL's five-minute maxima: one line per CPU, or per task if the
//! history was restricted to tasks.
//!
//! Windows without a measurement are gaps in the lines.

use askama::Template;

use super::html::{self, filters};
use super::plot::{self, axis_of_maxima, reach, style, Axis, Deadline, Line, Plot, Step, LEFT, RIGHT};
use super::plot_view::PlotView;
use super::scale::{Kind, Scale};
use crate::monitor::history::{History, Row, WorstCase};
use crate::monitor::window::{SeriesKey, Wanted};
use crate::numbers::counted;
use crate::series::Quantity;
use crate::time::Ns;

/// The plot of one quantity: its CPUs, and the series in `wanted`; its tasks if there are no CPUs. `None` without
/// samples.
#[must_use]
pub fn plot(history: &History, quantity: Quantity, wanted: &[Wanted]) -> Option<Plot> {
    let series = history.by_series();
    let series: Vec<(&SeriesKey, &Vec<&Row>)> =
        series.iter().filter(|(key, _)| key.quantity == quantity).collect();
    let is_named = |key: SeriesKey| wanted.iter().any(|one| one.names(key));
    let has_cpus = series.iter().any(|(key, _)| key.whose.cpu().is_some());
    let is_drawn = |key: SeriesKey| !has_cpus || key.whose.cpu().is_some() || is_named(key);
    let series: Vec<_> = series.into_iter().filter(|(key, _)| is_drawn(**key)).collect();
    let maxima = || series.iter().flat_map(|(_, rows)| rows.iter()).filter_map(|row| row.figures.max);
    let largest = maxima().max()?;
    let origin = history.windows.iter().map(|window| window.0).min()?;
    let end = history.windows.iter().map(|window| window.1).max()?;
    let lines = series.iter().filter(|(_, rows)| rows.iter().any(|row| row.figures.max.is_some()));
    let lines: Vec<Line> = lines.enumerate().map(|(index, (key, rows))| line(index, key, rows)).collect();
    let deadline = deadline(&series);
    let top = reach(largest.as_us(), deadline.as_ref());
    let mut notes =
        vec!["Each step is the exact maximum of one window; where there is no line, nothing was measured."
            .to_owned()];
    let y = axis_of_maxima(maxima(), (top, 1e3), plot::Wanted::Auto, &mut notes);
    Some(Plot {
        id: format!("history-{}", quantity.name().replace('+', "-")),
        title: format!("Maxima of consecutive windows: {}", quantity.name()),
        subtitle: format!("{} from {origin} to {end}", counted(history.windows.len() as u64, "window")),
        x: Axis {
            label: format!("time (UTC), {origin} to {end}"),
            unit: "",
            scale: Scale {
                kind: Kind::Time,
                lo: origin.0 as f64,
                hi: (end.0.max(origin.0 + 1)) as f64,
                from: LEFT,
                to: RIGHT,
            },
        },
        y: Axis { label: "largest latency of the window [µs]".to_owned(), unit: "µs", scale: y },
        lines,
        deadline,
        notes,
        columns: false,
        value_unit: "µs",
    })
}

/// A page: the monitor, `plots`, the worst cases and events of the monitor.
///
/// # Errors
/// If formatting fails, which cannot happen for strings.
pub fn page(history: &History, plots: &[Plot]) -> Result<String, askama::Error> {
    let (events, before) = history.last_events();
    let page = Page {
        css: html::page_css(),
        js: html::JS,
        title: "Maxima of consecutive windows",
        monitor: history.monitor.as_deref(),
        asked: format!("{} {}", counted(history.windows.len() as u64, "window"), history.asked()),
        plots: plots.iter().map(PlotView::of).collect(),
        cases: history.worst_cases(),
        events,
        before,
    };
    Ok(page.render()? + "\n")
}

#[derive(Template)]
#[template(path = "history.html")]
struct Page<'h> {
    css: String,
    js: &'static str,
    title: &'static str,
    monitor: Option<&'h str>,
    asked: String,
    plots: Vec<PlotView>,
    cases: Vec<WorstCase>,
    events: Vec<String>,
    before: usize,
}

/// The common deadline of the drawn series, for response times.
fn deadline(series: &[(&SeriesKey, &Vec<&Row>)]) -> Option<Deadline> {
    let rows = series.iter().flat_map(|(_, rows)| rows.iter());
    let mut all: Vec<Ns> = rows.filter_map(|row| Some(row.held?.deadline)).collect();
    all.sort_unstable();
    all.dedup();
    match all[..] {
        [one] => Some(Deadline::new(one, 1e3, false)),
        _ => None,
    }
}

fn line(index: usize, key: &SeriesKey, rows: &[&Row]) -> Line {
    let place = |ms: i64| ms as f64;
    let mut last = f64::MIN;
    let mut steps = Vec::new();
    // After a clock was set back, windows would overlap: later ones start at the end of earlier ones.
    for row in rows {
        let (from, to) = (place(row.begin.0).max(last), place(row.end.0));
        if let Some(max) = row.figures.max.filter(|_| to > from) {
            steps.push(Step { from, to, value: max.as_us() });
            last = to;
        }
    }
    let worst = rows.iter().max_by_key(|row| row.figures.max);
    let label = key.whose.to_string();
    let legend = match worst.and_then(|row| Some((row, row.figures.max?))) {
        Some((row, max)) => format!("{label}: max {max}, window of {}", row.begin),
        None => format!("{label}: no sample"),
    };
    let max = worst.and_then(|row| {
        let middle = (place(row.begin.0) + place(row.end.0)) / 2.0;
        Some((middle, row.figures.max?.as_us()))
    });
    let (colour, dash) = style(index, 0, 1);
    Line { label, legend, colour, dash, steps, max }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::svg;

    #[test]
    fn a_window_without_samples_is_a_gap_and_the_maximum_is_in_the_legend() {
        let history = crate::monitor::history::tests::example();
        let plot = plot(&history, Quantity::TimerWakeup, &[]).unwrap();
        assert_eq!(plot.lines.len(), 2);
        assert_eq!(plot.lines[0].steps.len(), 2);
        assert!(plot.lines[0].steps[1].to <= 600e3 && plot.x.scale.hi == 900e3);
        let drawing = svg::standalone(&plot);
        assert!(drawing.contains("CPU 0: max 4.321 ms"));
        assert!(super::plot(&history, Quantity::Wakeup, &[]).is_none());
    }
}

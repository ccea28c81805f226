//! The report: one self-contained HTML file.
//!
//! The plots are drawn here, not in the browser, so that the page is complete on paper and without scripts; the script
//! (`templates/report.js`, plain JavaScript) only adds hover, zoom and sorting. A content security policy in the page
//! forbids all connections. Askama escapes, by the `.html` suffix of the templates; text marked `safe` there is created
//! in this crate.

use askama::Template;

use super::causes;
use super::facts::{facts, Fact};
use super::figures::{mean, quantities, Figures};
use super::lanes;
use super::late::{self, Late};
use super::late_causes::{self, LateRow};
use super::plot::{Plot, Wanted};
use super::plot_view::PlotView;
use super::svg;
use super::text::{begin, deadline_and_largest};
use super::tree::{self, Row};
use super::{blocking, gantt, latency, seconds, task_set, tasks, worst};
use crate::application::Task;
use crate::numbers::{grouped, or_dash};
use crate::peak::Peak;
use crate::printable::line;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::{Mono, Ns};
use crate::verdict::Outcome;

const CSS: &str = include_str!("../../templates/report.css");
pub(super) const JS: &str =
    concat!(include_str!("../../templates/report.js"), include_str!("../../templates/tables.js"));

/// Width of the text about threads, in columns.
const THREADS_WIDTH: usize = 120;

/// The full report of a run.
///
/// # Errors
/// If formatting fails, which cannot happen for strings.
pub fn report(run: &Run) -> Result<String, askama::Error> {
    let deadline = run.verdict.as_ref().and_then(|verdict| verdict.deadline_ns);
    let sections = sections(run, deadline);
    let late = late::of(run);
    let page = Report {
        gantt: gantt::chart(run),
        task_set: task_set::table(run),
        css: page_css(),
        js: JS,
        title: format!("lathunt: {}", subtitle(run)),
        subtitle: subtitle(run),
        outcome: Headline::of(run),
        run,
        sections,
        threads: tasks::text(run, THREADS_WIDTH, false)
            + &worst::text(run, THREADS_WIDTH, false)
            + &blocking::text(run, THREADS_WIDTH),
        thread_rows: run.tasks.iter().map(|task| ThreadRow::of(task, deadline)).collect(),
        late_causes: late_causes::causes(run),
        reasons: match (&late, &run.verdict) {
            (Some(_), Some(verdict)) => verdict.split().1,
            (None, Some(verdict)) => &verdict.reasons,
            (_, None) => &[],
        },
        late,
        peaks: peaks(run),
        causes: cause_rows(run),
        facts: groups(facts(&run.conditions)),
    };
    Ok(page.render()? + "\n")
}

/// A page of plots only (`lathunt plot -o x.html`).
///
/// # Errors
/// As [`report`].
pub fn plots(title: &str, plots: &[Plot]) -> Result<String, askama::Error> {
    let views = plots.iter().map(PlotView::of).collect();
    let css = page_css();
    PlotsPage { css, js: JS, title: title.to_owned(), plots: views }.render().map(|page| page + "\n")
}

/// The style of all pages.
pub(crate) fn page_css() -> String {
    format!("{}{CSS}", svg::page_css())
}

/// `host, kernel, start, load`: the conditions in one line.
#[must_use]
pub fn subtitle(run: &Run) -> String {
    let c = &run.conditions;
    let load = c.load.as_ref().map(|load| format!("load: {load}"));
    let kernel = c.kernel.release.as_ref().map(|release| format!("Linux {release}"));
    let parts = [c.host.clone(), kernel, c.started.clone(), load];
    let said: Vec<String> = parts.into_iter().flatten().map(|part| line(&part).into_owned()).collect();
    if said.is_empty() {
        "conditions unknown".to_owned()
    } else {
        said.join(" · ")
    }
}

#[derive(Template)]
#[template(path = "report.html")]
struct Report<'a> {
    css: String,
    js: &'static str,
    title: String,
    subtitle: String,
    outcome: Headline,
    run: &'a Run,
    sections: Vec<Section>,
    gantt: String,
    task_set: String,
    late: Option<Late<'a>>,
    late_causes: Vec<LateRow>,
    reasons: &'a [String],
    threads: String,
    thread_rows: Vec<ThreadRow>,
    peaks: Vec<PeakView>,
    causes: Vec<CauseRow>,
    facts: Vec<(&'static str, Vec<Fact>)>,
}

#[derive(Template)]
#[template(path = "plots.html")]
struct PlotsPage {
    css: String,
    js: &'static str,
    title: String,
    plots: Vec<PlotView>,
}

/// The headline: the outcome, its CSS class and its text.
struct Headline {
    word: &'static str,
    class: &'static str,
    beside: String,
}

impl Headline {
    fn of(run: &Run) -> Headline {
        let verdict = run.verdict.as_ref();
        let (word, class) = match verdict.and_then(|verdict| verdict.outcome) {
            Some(Outcome::Pass) => ("PASS", "pass"),
            Some(Outcome::Fail) => ("FAIL", "fail"),
            Some(Outcome::Inconclusive) => ("INCONCLUSIVE", "inconclusive"),
            None => ("NO VERDICT", "none"),
        };
        let late = late::of(run).map(|late| late.headline);
        let beside = late.unwrap_or_else(|| deadline_and_largest(run).join(" · "));
        Headline { word, class, beside: line(&beside).into_owned() }
    }
}

/// A thread of an application.
struct ThreadRow {
    thread: String,
    policy: String,
    period: String,
    jobs: String,
    response: String,
    execution: String,
    blocked: String,
    deadline: String,
    misses: String,
    late: bool,
}

impl ThreadRow {
    fn of(task: &Task, common: Option<Ns>) -> ThreadRow {
        let deadline = task.held_to.map_or(common, |held| held.deadline_ns);
        let response = task.of(Quantity::Response).and_then(|series| series.histogram.max());
        ThreadRow {
            thread: task.thread.to_string(),
            policy: task.policy.clone(),
            period: or_dash(task.period.as_ref().map(|period| period.median_ns)),
            jobs: grouped(task.activations),
            response: or_dash(response),
            execution: or_dash(task.execution.as_ref().map(|span| span.max_ns)),
            blocked: or_dash(task.blocking.iter().map(|wait| wait.max_ns).max()),
            deadline: or_dash(deadline),
            misses: deadline.map_or("–".to_owned(), |_| grouped(task.misses)),
            late: deadline.zip(response).is_some_and(|(deadline, response)| response > deadline),
        }
    }
}

/// One quantity: its table and its plots.
struct Section {
    name: &'static str,
    meaning: &'static str,
    rows: Vec<FigureRow>,
    replayed: bool,
    threads: bool,
    plots: Vec<PlotView>,
}

struct FigureRow {
    label: String,
    thread: String,
    samples: String,
    min: String,
    median: String,
    avg: String,
    p99_9: String,
    max: String,
    missed: String,
    lost: String,
    replayed_p99_9: String,
    replayed_max: String,
    late: bool,
}

impl FigureRow {
    fn of(series: &Series, deadline: Option<Ns>) -> FigureRow {
        let f = Figures::of(series);
        let replayed = series.replayed.as_ref().map(Figures::of_histogram).unwrap_or_default();
        FigureRow {
            label: series.label(),
            thread: series.thread.as_ref().map(ToString::to_string).unwrap_or_default(),
            samples: grouped(f.samples),
            min: or_dash(f.min_ns),
            median: or_dash(f.median_ns),
            avg: mean(f.avg_ns),
            p99_9: or_dash(f.p99_9_ns),
            max: or_dash(f.max_ns),
            missed: f.missed.map_or("?".to_owned(), grouped),
            lost: grouped(f.lost),
            replayed_p99_9: or_dash(replayed.p99_9_ns),
            replayed_max: or_dash(replayed.max_ns),
            late: deadline.zip(f.max_ns).is_some_and(|(deadline, max)| max > deadline),
        }
    }
}

fn sections(run: &Run, deadline: Option<Ns>) -> Vec<Section> {
    // Threads of a task set have their own deadlines: a line for one would be wrong for the others.
    let mut own = run.tasks.iter().filter_map(|task| task.held_to).map(|held| held.deadline_ns);
    let first = own.next();
    let shared = run.task_set.is_none() || own.all(|one| Some(one) == first);
    let line = deadline.filter(|_| shared);
    let section = |quantity| {
        let curves = latency::curves(&[("", run)], quantity);
        // One after the other: of many series, each takes much memory.
        let view = |plot: Plot| PlotView::of(&plot);
        let latencies = latency::plot(quantity, &curves, line, Wanted::Auto).map(view);
        let over_time = seconds::plot(quantity, &curves, line, Wanted::Auto).map(view);
        Section {
            name: quantity.name(),
            meaning: quantity.facts().meaning,
            rows: run
                .of(quantity)
                .map(|series| FigureRow::of(series, limit(run, series, deadline)))
                .collect(),
            threads: run.of(quantity).any(|series| series.thread.is_some()),
            replayed: run.of(quantity).any(|series| series.replayed.is_some()),
            plots: [latencies, over_time].into_iter().flatten().collect(),
        }
    };
    quantities(run).into_iter().map(section).collect()
}

/// The deadline of the thread of a series, or the common one.
fn limit(run: &Run, series: &Series, common: Option<Ns>) -> Option<Ns> {
    let of_it = run.tasks.iter().find(|task| series.thread.as_ref() == Some(&task.thread));
    of_it.and_then(|task| task.held_to).map_or(common, |held| held.deadline_ns)
}

struct PeakView {
    number: usize,
    also: String,
    total: String,
    quantity: &'static str,
    cpu: String,
    at: String,
    victim: String,
    culprit: String,
    sentence: String,
    advice: String,
    unexplained: String,
    rows: Vec<Row>,
    timeline: String,
    limits: Vec<String>,
}

/// Order of the cases.
fn order(run: &Run) -> Vec<usize> {
    late::judged_first(run, causes::distinct(&run.peaks))
}

fn peaks(run: &Run) -> Vec<PeakView> {
    let begin = begin(run);
    let also = |stall: &causes::Stall| {
        let said = |&i: &usize| format!("{} {}", run.peaks[i].quantity.name(), run.peaks[i].total_ns);
        stall.also.iter().map(said).collect::<Vec<_>>().join(", ")
    };
    let view = |(nth, stall): (usize, &causes::Stall)| PeakView {
        also: also(stall),
        ..peak_view(nth + 1, &run.peaks[stall.peak], begin)
    };
    let stalls = causes::stalls(&run.peaks);
    let of_case = |case: usize| stalls.iter().find(|stall| stall.peak == case);
    order(run).into_iter().filter_map(of_case).enumerate().map(view).collect()
}

fn peak_view(number: usize, peak: &Peak, begin: Option<Mono>) -> PeakView {
    let explanation = peak.explanation.as_ref();
    PeakView {
        number,
        also: String::new(),
        total: peak.total_ns.to_string(),
        quantity: peak.quantity.name(),
        cpu: peak.cpu.to_string(),
        at: match begin {
            Some(begin) => format!("+{:.6} s", peak.begin.since(begin).as_secs()),
            None => peak.begin.to_string(),
        },
        victim: peak.victim.to_string(),
        culprit: peak.culprit.clone().unwrap_or_default(),
        sentence: peak.sentence(),
        advice: explanation.map(|e| e.advice.clone()).unwrap_or_default(),
        unexplained: explanation.map(|e| e.unexplained_ns.to_string()).unwrap_or_default(),
        rows: explanation.map(tree::rows).unwrap_or_default(),
        timeline: explanation.map(|told| lanes::svg(told, &peak.victim, number)).unwrap_or_default(),
        limits: explanation.map(|e| e.limits.clone()).unwrap_or_default(),
    }
}

struct CauseRow {
    name: String,
    worst: String,
    worst_ns: u64,
    worst_peak: usize,
    peaks: usize,
    time: String,
    time_ns: u64,
}

fn cause_rows(run: &Run) -> Vec<CauseRow> {
    let order = order(run);
    let number = |peak: usize| order.iter().position(|&i| i == peak).map_or(0, |nth| nth + 1);
    let row = |cause: causes::Cause| CauseRow {
        name: cause.name,
        worst: cause.worst_ns.to_string(),
        worst_ns: cause.worst_ns.0,
        worst_peak: number(cause.worst_peak),
        peaks: cause.peaks,
        time: cause.time_ns.to_string(),
        time_ns: cause.time_ns.0,
    };
    causes::rank(&run.peaks).into_iter().map(row).collect()
}

fn groups(facts: Vec<Fact>) -> Vec<(&'static str, Vec<Fact>)> {
    let mut groups: Vec<(&'static str, Vec<Fact>)> = Vec::new();
    for fact in facts {
        match groups.iter_mut().find(|(name, _)| *name == fact.group) {
            Some((_, rows)) => rows.push(fact),
            None => groups.push((fact.group, vec![fact])),
        }
    }
    groups
}

/// Filters the templates use: `{{ text|shown }}`.
pub(super) mod filters {
    /// Makes control and bidirectional characters visible; askama escapes the result.
    #[askama::filter_fn]
    pub fn shown(text: impl std::fmt::Display, _: &dyn askama::Values) -> askama::Result<String> {
        Ok(super::line(&text.to_string()).into_owned())
    }

    /// A duration or `–`.
    #[askama::filter_fn]
    pub fn or_dash(value: &Option<crate::time::Ns>, _: &dyn askama::Values) -> askama::Result<String> {
        Ok(super::or_dash(*value))
    }

    /// One decimal, sufficient for a percentage.
    #[askama::filter_fn]
    pub fn one_decimal(value: &f64, _: &dyn askama::Values) -> askama::Result<String> {
        Ok(format!("{value:.1}"))
    }

    /// `1 234 567`.
    #[askama::filter_fn]
    pub fn grouped(value: &u64, _: &dyn askama::Values) -> askama::Result<String> {
        Ok(super::grouped(*value))
    }
}

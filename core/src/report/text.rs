//! The terminal summary: one screen with the answer, the rest is in the report.
//!
//! Fixed parts (verdict, statement, paths) always fit; tables of CPUs, peaks and causes share the remaining lines and
//! show the number of omitted rows. Causes and CPUs are ordered so that the harmless ones are omitted.

use super::figures::{quantities, Figures};
use super::fit::{fit, Block, EXTRA};
use super::late::{self, Late};
use super::late_causes;
use super::{causes, closing, row, task_set};
use crate::conditions::{ENDED_BY_STOP_AT, SLEPT_THROUGHOUT};
use crate::numbers::grouped;
use crate::on_late::OnLate;
use crate::peak::Peak;
use crate::printable::cut;
use crate::run::Run;
use crate::series::{Quantity, Series};
use crate::time::{Mono, Ns};
use crate::verdict::{Outcome, Verdict};

/// Size of the screen, and additional output.
#[derive(Clone, Debug)]
pub struct Screen<'a> {
    /// Columns.
    pub width: usize,
    /// Lines; 0 is "as many as needed".
    pub lines: usize,
    /// Bold and colour for the verdict (only for a terminal).
    pub colour: bool,
    /// Written files with their kinds: `("report", "out/report.html")`.
    pub paths: &'a [(&'a str, &'a str)],
}

impl Default for Screen<'_> {
    fn default() -> Self {
        Screen { width: 100, lines: 24, colour: false, paths: &[] }
    }
}

/// Only the verdict with all its reasons (`-q`).
#[must_use]
pub fn verdict(run: &Run, screen: &Screen) -> String {
    let mut lines = headline(run, screen, late::of(run).as_ref());
    for reason in run.verdict.iter().flat_map(|verdict| &verdict.reasons) {
        lines.extend(bullet(reason, screen.width));
    }
    joined(&lines)
}

/// The whole summary. On a screen of limited height, the verdict with the worst case, its cause and the remedy comes first, then
/// as much of the rest as there is room for.
#[must_use]
pub fn summary(run: &Run, screen: &Screen) -> String {
    let late = late::of(run);
    let width = screen.width;
    let mut lines = headline(run, screen, late.as_ref());
    let mut blocks = Vec::new();
    let all = run.verdict.as_ref().map_or(&[][..], |verdict| &verdict.reasons);
    if let Some(late) = &late {
        lines.extend(late.lines(width));
        let also = late.others(width);
        blocks.push(Block {
            rank: 2,
            heading: Vec::new(),
            cases: also,
            what: "reason",
            name: "other late threads",
        });
        let (heading, cases) = late_causes::cause_lines(run, width);
        blocks.push(Block { rank: 0, heading: vec![heading], cases, what: "cause", name: "causes" });
        let limits = run.verdict.as_ref().map_or(&[][..], |verdict| verdict.split().1);
        let heading = (!limits.is_empty()).then(|| "Limits of this result".to_owned());
        let cases = doubts(run, limits, width);
        blocks.push(Block {
            rank: 1,
            heading: Vec::from_iter(heading),
            cases,
            what: "reason",
            name: "limits of this result",
        });
    } else {
        let cases = doubts(run, all, width);
        blocks.push(Block { rank: 0, heading: Vec::new(), cases, what: "reason", name: "reasons" });
    }
    let (heading, rows) = table(run, width);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| vec![cut(row, width)]).collect();
    let heading = vec![String::new(), cut(&heading, width)];
    match rows.is_empty() {
        true => blocks.push(Block {
            rank: 1,
            heading: vec![String::new()],
            cases: vec![vec![heading[1].clone()]],
            what: "line",
            name: "latencies",
        }),
        false => blocks.push(Block { rank: 3, heading, cases: rows, what: "line", name: "latencies" }),
    }
    let cases = peak_lines(run, late.as_ref().filter(|_| screen.lines > 0), width);
    let heading = vec![String::new(), "Worst cases".to_owned()];
    blocks.push(Block { rank: 4, heading, cases, what: "case", name: "worst cases" });
    if late.is_none() {
        let (heading, cases) = cause_lines(run, width);
        blocks.push(Block { rank: 4, heading: vec![heading], cases, what: "cause", name: "causes" });
    }
    let rank = if run.verdict.as_ref().and_then(|verdict| verdict.outcome) == Some(Outcome::Pass) {
        2
    } else {
        EXTRA
    };
    let cases = Vec::from_iter(Some(closing::statistics(run, screen)).filter(|lines| !lines.is_empty()));
    let name = "model-free bound and OSADL's criteria";
    blocks.push(Block { rank, heading: vec![String::new()], cases, what: "", name });
    let bottom = closing::files(run, screen);
    // The line of what is left out.
    let room = match screen.lines {
        0 => usize::MAX,
        of => of.saturating_sub(lines.len() + bottom.len() + 2),
    };
    let (fitted, omitted) = fit(blocks, room);
    lines.extend(fitted);
    if !omitted.is_empty() {
        lines.extend(crate::printable::hanging(
            "  … ",
            &format!("{}: lathunt report --text --all", omitted.join(", ")),
            width,
        ));
    }
    lines.extend(bottom);
    let of_set = task_set::table(run);
    match screen.lines {
        // Without truncation, it would push the verdict off the screen.
        0 if !of_set.is_empty() => joined(&lines) + "\n" + &of_set,
        _ => joined(&lines),
    }
}

/// Reasons, then warnings.
fn doubts(run: &Run, reasons: &[String], width: usize) -> Vec<Vec<String>> {
    let mut cases: Vec<Vec<String>> = reasons.iter().map(|reason| bullet(reason, width)).collect();
    cases.extend(warnings(run, width));
    cases
}

fn joined(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// `PASS  deadline 100 µs, largest cyclic latency 43.1 µs`.
fn headline(run: &Run, screen: &Screen, late: Option<&Late>) -> Vec<String> {
    let verdict = run.verdict.as_ref();
    let (word, colour) = outcome(verdict);
    let mut said = Vec::new();
    match late {
        Some(late) => said.push(late.headline.clone()),
        None => said.extend(deadline_and_largest(run)),
    }
    if !run.complete {
        let why = run.conditions.during.ended_early.first().map(String::as_str);
        said.push(format!("INCOMPLETE: {}", why.unwrap_or("the measurement did not finish")));
    }
    let mut lines = crate::printable::hanging(&format!("{word}  "), &said.join(", "), screen.width);
    if screen.colour {
        lines[0] = lines[0].replacen(word, &format!("\x1b[1;{colour}m{word}\x1b[0m"), 1);
    }
    lines
}

/// The word for an outcome, and its ANSI colour.
fn outcome(verdict: Option<&Verdict>) -> (&'static str, u8) {
    match verdict.and_then(|verdict| verdict.outcome) {
        Some(Outcome::Pass) => ("PASS", 32),
        Some(Outcome::Fail) => ("FAIL", 31),
        Some(Outcome::Inconclusive) => ("INCONCLUSIVE", 33),
        None => ("NO VERDICT", 36),
    }
}

/// Maximum characters of a run's name in a headline: the maximum after it must never be truncated.
const NAME: usize = 20;

/// `deadline 100 µs` and `largest cyclic latency 43.1 µs`; different values are never printed as the same figure.
#[must_use]
pub fn deadline_and_largest(run: &Run) -> [String; 2] {
    if let Some((name, deadline, quantity, max)) = worst_of_merged(run) {
        // Another run may have a larger one, but no deadline or a longer one.
        let of_all = run.max_of(quantity).filter(|&all| all > max);
        let (deadline, max) = deadline.told_apart(max);
        let of_all = of_all.map(|all| format!(" there, {all} in all runs")).unwrap_or_default();
        return [
            format!("deadline {deadline} of {}", cut(name, NAME)),
            format!("largest {} latency {max}{of_all}", quantity.name()),
        ];
    }
    // Shorter ones that ended do not show why it failed.
    let open = late::unfinished(run).and_then(|(task, deadline)| Some((task, deadline, task.late_end()?)));
    if let Some((task, deadline, end)) = open {
        return [format!("deadline {deadline}"), format!("{}: {end}", task.thread)];
    }
    let deadline = run.verdict.as_ref().and_then(|verdict| verdict.deadline_ns);
    match (deadline, largest_of(run)) {
        (Some(deadline), Some((quantity, max))) => {
            let (deadline, max) = deadline.told_apart(max);
            [format!("deadline {deadline}"), format!("largest {} latency {max}", quantity.name())]
        }
        (Some(deadline), None) => [format!("deadline {deadline}"), largest(run)],
        (None, _) => [without_a_deadline(run).to_owned(), largest(run)],
    }
}

fn without_a_deadline(run: &Run) -> &'static str {
    match run.merged.iter().any(|merged| merged.deadline_ns.is_some()) {
        true => "the runs have different deadlines",
        false if run.tasks.iter().any(|task| task.held_to.is_some()) => "no recorded thread has a deadline",
        false => "no deadline was given",
    }
}

/// Of merged runs that failed, the one with the largest latency: its name, deadline, quantity and maximum.
fn worst_of_merged(run: &Run) -> Option<(&str, Ns, Quantity, Ns)> {
    let failed = run.merged.iter().filter(|merged| merged.outcome == Some(Outcome::Fail));
    let told = failed.filter_map(|merged| {
        let (deadline, quantity) = (merged.deadline_ns?, merged.judged?);
        let max = merged.series.iter().find(|series| series.quantity == quantity)?.max_ns?;
        Some((merged.name.as_str(), deadline, quantity, max))
    });
    told.max_by_key(|&(.., max)| max)
}

fn largest_of(run: &Run) -> Option<(Quantity, Ns)> {
    let judged = run.verdict.as_ref().and_then(|verdict| verdict.quantity).and_then(|quantity| {
        let judged =
            run.tasks.iter().filter(|task| task.held_to.is_none_or(|held| held.deadline_ns.is_some()));
        let of_tasks = judged.filter_map(|task| task.of(quantity)?.histogram.max());
        // Samples of a task are in the series of its CPU, if there is one.
        Some((quantity, run.max_of(quantity).or_else(|| of_tasks.max())?))
    });
    judged.or_else(|| largest_told(run))
}

fn largest_told(run: &Run) -> Option<(Quantity, Ns)> {
    quantities(run).into_iter().find_map(|quantity| Some((quantity, run.max_of(quantity)?)))
}

/// `largest cyclic latency 43.1 µs`, of the judged quantity.
#[must_use]
pub fn largest(run: &Run) -> String {
    match largest_of(run) {
        Some((quantity, max)) => format!("largest {} latency {}", quantity.name(), max.rounded_up()),
        None => "no sample was taken".to_owned(),
    }
}

fn bullet(text: &str, width: usize) -> Vec<String> {
    crate::printable::hanging("  · ", text, width)
}

/// Failed calibration, losses, threads without a figure.
fn warnings(run: &Run, width: usize) -> Vec<Vec<String>> {
    let mut lines = Vec::new();
    let failed: Vec<_> = run.calibration.iter().filter(|c| !c.passed).collect();
    if let Some(first) = failed.first() {
        let text = format!(
            "calibration: {} of {} failed; CPU {} {}: {}",
            failed.len(),
            run.calibration.len(),
            first.cpu,
            first.kind,
            first.note
        );
        lines.push(crate::printable::hanging("  ! ", &text, width));
    }
    if let Some(text) = run.on_late.as_ref().and_then(OnLate::line) {
        lines.push(crate::printable::hanging("  ! ", &text, width));
    }
    if let Some(loss) = run.losses.iter().max_by_key(|loss| loss.count) {
        let text = match run.losses.len() {
            1 => format!("lost: {} {} ({})", grouped(loss.count), loss.counter, loss.meaning),
            n => format!(
                "lost, {n} counters: most {} {} ({})",
                grouped(loss.count),
                loss.counter,
                loss.meaning
            ),
        };
        lines.push(crate::printable::hanging("  ! ", &text, width));
    }
    let starts = [ENDED_BY_STOP_AT, SLEPT_THROUGHOUT];
    let told = run.conditions.notes.iter().filter(|note| starts.iter().any(|start| note.starts_with(start)));
    lines.extend(told.map(|note| crate::printable::hanging("  ! ", note, width)));
    lines
}

/// Heading and rows: the series of the first quantity, the worst first, then one line for each other quantity.
fn table(run: &Run, width: usize) -> (String, Vec<String>) {
    let quantities = quantities(run);
    let Some(&first) = quantities.first() else {
        return ("No series was measured.".to_owned(), Vec::new());
    };
    let mut series: Vec<&Series> = run.of(first).collect();
    if series.len() > 8 {
        series.sort_by_key(|s| std::cmp::Reverse(s.histogram.max()));
    }
    let heading = row::heading(&format!("{} latency", first.name()), width);
    let mut rows: Vec<String> =
        series.iter().map(|s| row::figures(&s.label(), &Figures::of(s), width)).collect();
    let others = quantities.iter().skip(1).map(|&quantity| {
        let all: Vec<&Series> = run.of(quantity).collect();
        row::figures(&format!("{} (all)", quantity.name()), &Figures::of_all(&all), width)
    });
    // After the worst CPUs, so that they are visible even with many CPUs.
    let at = rows.len().min(4);
    rows.splice(at..at, others);
    (heading, rows)
}

/// Start of the run, on the clock of its peaks.
#[must_use]
pub fn begin(run: &Run) -> Option<Mono> {
    run.series.iter().filter_map(|series| series.begin).min()
}

/// One line for all worst cases, if none is explained, all for the same reason.
fn unexplained(run: &Run, width: usize) -> Option<Vec<String>> {
    let worst = run.peaks.iter().max_by_key(|peak| peak.total_ns).filter(|_| run.peaks.len() > 1)?;
    let reason = worst.no_evidence.as_deref()?;
    let is_same = |peak: &Peak| {
        !peak.during_action
            && peak.explanation.is_none()
            && peak.context.is_none()
            && peak.no_evidence.as_deref() == Some(reason)
    };
    let at = begin(run).map(|begin| format!(" at +{:.3}s", worst.begin.since(begin).as_secs()));
    let said = format!(
        "{} cases, the worst {} on CPU {}{}; none is explained: {reason}",
        run.peaks.len(),
        worst.total_ns,
        worst.cpu,
        at.unwrap_or_default()
    );
    run.peaks.iter().all(is_same).then(|| crate::printable::hanging("  ", &said, width))
}

/// `late`: its worst case is above, and not repeated.
fn peak_lines(run: &Run, late: Option<&Late>, width: usize) -> Vec<Vec<String>> {
    if let Some(all) = unexplained(run, width) {
        return vec![all];
    }
    let begin = begin(run);
    let lines = |(nth, index): (usize, usize)| {
        let peak = &run.peaks[index];
        let at = begin.map(|b| format!("+{:.3}s", peak.begin.since(b).as_secs())).unwrap_or_default();
        let told = match late.and_then(|late| late.peak) {
            Some(told) if std::ptr::eq(told, peak) => format!("{}: see above", peak.victim),
            _ => peak.sentence(),
        };
        let already_shown = format!("waited {}: ", peak.total_ns);
        let first = format!(
            "{:>2} {:>8} CPU {:<2} {at:>9}  ",
            nth + 1,
            peak.total_ns.to_string(),
            peak.cpu.to_string()
        );
        crate::printable::hanging(&first, told.strip_prefix(&already_shown).unwrap_or(&told), width)
    };
    late::judged_first(run, causes::distinct(&run.peaks)).into_iter().enumerate().map(lines).collect()
}

/// Width of the name of a cause next to its figures, in columns.
fn cause_width(width: usize) -> usize {
    width.saturating_sub(33).min(42)
}

fn cause_lines(run: &Run, width: usize) -> (String, Vec<Vec<String>>) {
    let name = cause_width(width);
    let heading = format!("{:<1$} {2:>10}  {3:>7} {4:>10}", "Causes", name + 2, "worst", "cases", "total");
    let total = causes::distinct(&run.peaks).iter().filter(|&&i| run.peaks[i].explanation.is_some()).count();
    let line = |cause: &causes::Cause| {
        let cases = format!("{}/{total}", cause.peaks);
        let figures =
            format!("{:>10}  {cases:>7} {:>10}", cause.worst_ns.to_string(), cause.time_ns.to_string());
        row::named(&cause.name, name, &figures)
    };
    (heading, causes::rank(&run.peaks).iter().map(line).collect())
}

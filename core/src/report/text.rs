//! The terminal summary: one screen with the answer, the rest is in the report.
//!
//! Fixed parts (verdict, statement, paths) always fit; tables of CPUs, peaks and causes share the remaining lines and
//! show the number of omitted rows. Causes and CPUs are ordered so that the harmless ones are omitted.

use super::closing::closing;
use super::figures::{quantities, Figures};
use super::late::{self, Late};
use super::{causes, row, task_set};
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

/// The whole summary.
#[must_use]
pub fn summary(run: &Run, screen: &Screen) -> String {
    let late = late::of(run);
    let mut top = headline(run, screen, late.as_ref());
    let all = run.verdict.as_ref().map_or(&[][..], |verdict| &verdict.reasons);
    let most = if screen.lines == 0 { usize::MAX } else { 4 };
    let bullets = |reasons: &[String]| {
        let each = reasons.iter().map(|reason| bullet(reason, screen.width)).collect();
        late::whole(each, most, "reasons")
    };
    let mut doubts = Vec::new();
    if let Some(late) = &late {
        top.extend(late.lines(screen.width));
        let limits = run.verdict.as_ref().map_or(&[][..], |verdict| verdict.split().1);
        if !limits.is_empty() {
            doubts.push("Limits of this result".to_owned());
            doubts.extend(bullets(limits));
        }
        doubts.extend(warnings(run, screen.width));
    } else {
        top.extend(bullets(all));
        top.extend(warnings(run, screen.width));
    }
    let bottom = closing(run, screen, late.is_some());
    let (heading, rows) = table(run, screen.width);
    let peaks = peak_lines(run, screen.width);
    let (of_causes, causes) = match &late {
        Some(_) => late::cause_lines(run, screen.width),
        None => cause_lines(run, screen.width),
    };
    // Headings and the empty lines between the parts.
    let fixed = top.len()
        + doubts.len()
        + bottom.len()
        + 2
        + if peaks.is_empty() { 0 } else { 2 }
        + usize::from(!causes.is_empty());
    let room = if screen.lines == 0 { usize::MAX } else { screen.lines.saturating_sub(fixed) };
    let lines_of = |all: &[Vec<String>]| all.iter().map(Vec::len).sum();
    let shares = share(room, &[(rows.len(), 3), (lines_of(&peaks), 3), (lines_of(&causes), 3)]);
    let mut lines = top;
    let causes = late::whole(causes, shares[2], "causes");
    let tell_causes = |lines: &mut Vec<String>| {
        if !causes.is_empty() {
            lines.push(of_causes.clone());
            lines.extend(causes.iter().cloned());
        }
    };
    if late.is_some() {
        tell_causes(&mut lines);
        lines.extend(doubts);
    }
    lines.push(String::new());
    lines.push(cut(&heading, screen.width));
    lines.extend(limited(
        rows.iter().map(|row| cut(row, screen.width)).collect(),
        shares[0],
        "lines, none worse",
    ));
    if !peaks.is_empty() {
        lines.push(String::new());
        lines.push("Worst cases".to_owned());
        lines.extend(late::whole(peaks, shares[1], "cases"));
    }
    if late.is_none() {
        tell_causes(&mut lines);
    }
    lines.extend(bottom);
    let of_set = task_set::table(run);
    match screen.lines {
        // Without truncation, it would push the verdict off the screen.
        0 if !of_set.is_empty() => joined(&lines) + "\n" + &of_set,
        _ => joined(&lines),
    }
}

fn joined(lines: &[String]) -> String {
    lines.iter().fold(String::new(), |text, line| text + line.trim_end() + "\n")
}

/// The first `most` lines; the last of them has the number of omitted ones.
fn limited(mut lines: Vec<String>, most: usize, what: &str) -> Vec<String> {
    if lines.len() > most {
        let left_out = lines.len() - most.saturating_sub(1);
        lines.truncate(most.saturating_sub(1));
        lines.push(format!("  … {left_out} more {what}"));
    }
    lines
}

/// Distributes lines to the parts: first their minimum, then one at a time in rotation.
fn share(room: usize, wanted: &[(usize, usize)]) -> Vec<usize> {
    let mut given: Vec<usize> = wanted.iter().map(|&(want, least)| want.min(least)).collect();
    let mut left = room.saturating_sub(given.iter().sum());
    while left > 0 && given.iter().zip(wanted).any(|(have, (want, _))| have < want) {
        for (have, (want, _)) in given.iter_mut().zip(wanted) {
            if *have < *want && left > 0 {
                *have += 1;
                left -= 1;
            }
        }
    }
    given
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
        Some((quantity, max)) => format!("largest {} latency {max}", quantity.name()),
        None => "no sample was taken".to_owned(),
    }
}

fn bullet(text: &str, width: usize) -> Vec<String> {
    crate::printable::hanging("  · ", text, width)
}

/// Failed calibration and losses.
fn warnings(run: &Run, width: usize) -> Vec<String> {
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
        lines.extend(crate::printable::hanging("  ! ", &text, width));
    }
    if let Some(text) = run.on_late.as_ref().and_then(OnLate::line) {
        lines.extend(crate::printable::hanging("  ! ", &text, width));
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
        lines.extend(crate::printable::hanging("  ! ", &text, width));
    }
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

fn peak_lines(run: &Run, width: usize) -> Vec<Vec<String>> {
    if let Some(all) = unexplained(run, width) {
        return vec![all];
    }
    let begin = begin(run);
    let lines = |(nth, index): (usize, usize)| {
        let peak = &run.peaks[index];
        let at = begin.map(|b| format!("+{:.3}s", peak.begin.since(b).as_secs())).unwrap_or_default();
        let told = peak.sentence();
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

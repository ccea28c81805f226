//! Findings for a terminal: the answers, then the bad findings, worst first, one line each with its fix.

use std::fmt::Write;

use crate::printable;

use super::answers::Answers;
use super::facts::Facts;
use super::judge::Finding;
use super::rule::{Outcome, Severity};

/// How much is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// Columns.
    pub width: usize,
    /// Escape sequences for colour.
    pub colour: bool,
    /// Also good, reported and inapplicable findings in full, with reason and source.
    pub all: bool,
    /// Only findings.
    pub only_bad: bool,
}

/// The whole text.
#[must_use]
pub fn text(facts: &Facts, answers: &Answers, findings: &[Finding], shown: Shown) -> String {
    let mut text = head(facts, answers, shown);
    for severity in Severity::ALL {
        let bad = with(findings, |f| f.outcome == Outcome::Bad && f.rule.severity == severity);
        section(&mut text, &severity.name().to_uppercase(), &bad, shown);
    }
    if shown.only_bad {
        return text;
    }
    let unknown = with(findings, |f| f.outcome == Outcome::Unknown);
    section(&mut text, "UNKNOWN", &unknown, shown);
    let reported = with(findings, |f| f.outcome == Outcome::Reported);
    section(&mut text, "FOR THE RECORD (depends on the workload)", &reported, shown);
    let (good, beside) = (
        with(findings, |f| f.outcome == Outcome::Good),
        with(findings, |f| f.outcome == Outcome::DoesNotApply),
    );
    if shown.all {
        section(&mut text, "GOOD", &good, shown);
        section(&mut text, "DOES NOT APPLY", &beside, shown);
    }
    let _ = writeln!(text, "\n{}", tally(findings, good.len(), beside.len(), unknown.len(), reported.len()));
    text
}

fn head(facts: &Facts, answers: &Answers, shown: Shown) -> String {
    let mut text = String::new();
    let release = answers.release.as_deref().unwrap_or("of unknown version");
    let _ = match answers.realtime {
        Some(true) => writeln!(text, "Kernel {release}: a real-time kernel (PREEMPT_RT)."),
        Some(false) => {
            let model = answers.preemption.as_deref().unwrap_or("unknown");
            writeln!(text, "Kernel {release}: NOT a real-time kernel; preemption: {model}.")
        }
        None => writeln!(text, "Kernel {release}: unknown whether it is a real-time kernel."),
    };
    let mut lines = Vec::new();
    if !answers.evidence.is_empty() {
        lines.push(format!("Evidence: {}.", answers.evidence.join("; ")));
    }
    if let Some(take) = &answers.take {
        lines.push(format!("To take: {take}."));
    }
    if let Some(bound) = answers.rule_of_thumb_ns {
        lines.push(format!(
            "Rule of thumb: a well set-up machine of this clock stays below {:.0} us (10^5 clock periods; no bound).",
            bound.as_us()
        ));
    }
    let cpus = if facts.cpus.is_empty() { "unknown".to_owned() } else { facts.cpus.to_string() };
    if !facts.cpus.is_empty() {
        lines.push(format!("Judged for profile {}, real-time work on CPU {cpus}.", facts.profile.name()));
    }
    for line in lines {
        printable::wrap(&line, shown.width.saturating_sub(2)).iter().for_each(|line| {
            let _ = writeln!(text, "  {line}");
        });
    }
    text
}

fn with(findings: &[Finding], holds: impl Fn(&Finding) -> bool) -> Vec<&Finding> {
    findings.iter().filter(|finding| holds(finding)).collect()
}

fn section(text: &mut String, title: &str, findings: &[&Finding], shown: Shown) {
    if findings.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{}", paint(title, title, shown));
    for finding in findings {
        let line = format!("{}: {}", finding.rule.title, printable::line(&finding.found));
        wrapped(text, "  ", &line, shown);
        if finding.outcome == Outcome::Bad {
            wrapped(text, "      why: ", finding.rule.why, shown);
        }
        for (kind, fix) in &finding.fix {
            for (at, line) in fix.lines().enumerate() {
                let head = if at == 0 { format!("{}:", kind.name()) } else { String::new() };
                let _ = writeln!(text, "      {head:<4} {line}");
            }
        }
        if shown.all {
            let _ = writeln!(text, "      [{}; source: {}]", finding.rule.id, finding.rule.source);
        }
    }
}

/// Nothing is truncated: the end of a reason may matter.
fn wrapped(text: &mut String, head: &str, line: &str, shown: Shown) {
    let lines = printable::wrap(line, shown.width.saturating_sub(head.len().max(6)));
    for (at, line) in lines.iter().enumerate() {
        let indent = if at == 0 { head.to_owned() } else { " ".repeat(head.len().max(6)) };
        let _ = writeln!(text, "{indent}{line}");
    }
}

fn tally(findings: &[Finding], good: usize, beside: usize, unknown: usize, reported: usize) -> String {
    let bad = |severity| {
        findings.iter().filter(|f| f.outcome == Outcome::Bad && f.rule.severity == severity).count()
    };
    let by_severity: Vec<String> =
        Severity::ALL.iter().map(|&severity| format!("{} {}", bad(severity), severity.name())).collect();
    format!(
        "{} rules: {} to fix ({}), {unknown} unknown, {reported} reported, {good} good, {beside} do not apply.",
        findings.len(),
        Severity::ALL.iter().map(|&severity| bad(severity)).sum::<usize>(),
        by_severity.join(", "),
    )
}

fn paint(title: &str, text: &str, shown: Shown) -> String {
    let code = match title {
        "FATAL" | "HIGH" => "1;31",
        "MEDIUM" => "1;33",
        "GOOD" => "1;32",
        _ => "1",
    };
    if shown.colour {
        format!("\x1b[{code}m{text}\x1b[0m")
    } else {
        text.to_owned()
    }
}

//! Findings as JSON (docs/FORMAT.md, "Findings of check").

use serde::Serialize;

use crate::time::Ns;

use super::answers::Answers;
use super::facts::Facts;
use super::judge::Finding;
use super::rule::{Outcome, Severity};
use super::snapshot::Origin;

/// Value of `format`.
pub const FORMAT: &str = "lathunt-check";
/// The version written.
pub const VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    format: &'static str,
    version: u32,
    of: Origin,
    profile: &'static str,
    cpus: String,
    watched_s: Option<f64>,
    release: &'a Option<String>,
    realtime: Option<bool>,
    evidence: &'a [String],
    preemption: &'a Option<String>,
    take: &'a Option<String>,
    rule_of_thumb_ns: Option<Ns>,
    findings: Vec<One<'a>>,
}

#[derive(Serialize)]
struct One<'a> {
    id: &'a str,
    subject: &'a str,
    title: &'a str,
    severity: Severity,
    outcome: Outcome,
    found: &'a str,
    why: &'a str,
    fix: Vec<FixText<'a>>,
    source: &'a str,
}

#[derive(Serialize)]
struct FixText<'a> {
    kind: &'static str,
    text: &'a str,
}

/// The document, pretty-printed.
#[must_use]
pub fn document(of: Origin, facts: &Facts, answers: &Answers, findings: &[Finding]) -> String {
    let findings = findings
        .iter()
        .map(|finding| One {
            id: finding.rule.id,
            subject: finding.subject,
            title: finding.rule.title,
            severity: finding.rule.severity,
            outcome: finding.outcome,
            found: &finding.found,
            why: finding.rule.why,
            fix: finding.fix.iter().map(|(kind, text)| FixText { kind: kind.name(), text }).collect(),
            source: finding.rule.source,
        })
        .collect();
    let document = Document {
        format: FORMAT,
        version: VERSION,
        of,
        profile: facts.profile.name(),
        cpus: facts.cpus.to_string(),
        watched_s: facts.watched_s(),
        release: &answers.release,
        realtime: answers.realtime,
        evidence: &answers.evidence,
        preemption: &answers.preemption,
        take: &answers.take,
        rule_of_thumb_ns: answers.rule_of_thumb_ns,
        findings,
    };
    serde_json::to_string_pretty(&document).unwrap_or_default() // plain structs always serialize
}

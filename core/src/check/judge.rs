//! Applies rules to facts.

use super::facts::{by_value, number, Facts, Known};
use super::patches::options_of;
use super::rule::{Answer, Expect, Fix, Judged, Missing, Outcome, Rule, Severity};
use super::rules;
use super::snapshot::Origin;

/// The result of one rule on one machine.
#[derive(Debug)]
pub struct Finding {
    /// The rule.
    pub rule: &'static Rule,
    /// Its table.
    pub subject: &'static str,
    /// The answer.
    pub outcome: Outcome,
    /// What was found, or why it is unknown or does not apply.
    pub found: String,
    /// Fixes, with the CPUs filled in; empty unless the outcome is bad.
    pub fix: Vec<(Kind, String)>,
}

/// When a fix works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At once.
    Run,
    /// From the next boot.
    Boot,
    /// After building another kernel.
    Build,
    /// By hand.
    Do,
}

impl Kind {
    /// As in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Run => "run",
            Kind::Boot => "boot",
            Kind::Build => "build",
            Kind::Do => "do",
        }
    }
}

/// All findings: worst first within bad ones, then unknown, reported, good, and what does not apply; among equals in the
/// order of the tables.
#[must_use]
pub fn check(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        rules::all().map(|(subject, rule)| finding(subject, rule, facts)).collect();
    findings.sort_by_key(|finding| (order(finding.outcome), std::cmp::Reverse(finding.rule.severity)));
    findings
}

fn order(outcome: Outcome) -> u8 {
    match outcome {
        Outcome::Bad => 0,
        Outcome::Unknown => 1,
        Outcome::Reported => 2,
        Outcome::Good => 3,
        Outcome::DoesNotApply => 4,
    }
}

/// The worst severity among bad findings.
#[must_use]
pub fn worst(findings: &[Finding]) -> Option<Severity> {
    let bad = findings.iter().filter(|finding| finding.outcome == Outcome::Bad);
    bad.map(|finding| finding.rule.severity).max()
}

fn finding(subject: &'static str, rule: &'static Rule, facts: &Facts) -> Finding {
    let (mut outcome, found) = match judge(&rule.expect, facts) {
        Ok(Answer { outcome, found }) => (outcome, found),
        Err(Missing::Unknown(reason)) => (Outcome::Unknown, reason),
        Err(Missing::Absent(path)) => (Outcome::Unknown, format!("{path} does not exist")),
        Err(Missing::DoesNotApply(reason)) => (Outcome::DoesNotApply, reason),
    };
    let concerned = rule.profiles.is_empty() || rule.profiles.contains(&facts.profile);
    if outcome == Outcome::Bad && !concerned {
        outcome = Outcome::Reported;
    }
    let fix = if outcome == Outcome::Bad { fixes(rule, facts) } else { Vec::new() };
    Finding { rule, subject, outcome, found, fix }
}

/// What the rule's table says, and the build options at fault. A kernel configuration alone has no commands to run.
fn fixes(rule: &Rule, facts: &Facts) -> Vec<(Kind, String)> {
    let at_fault: Vec<String> = match rule.expect {
        Expect::NotBuilt(options) => having(options, facts, |value| value != "n")
            .map(|options| options.iter().map(|option| format!("# CONFIG_{option} is not set")).collect()),
        _ => Ok(Vec::new()),
    }
    .unwrap_or_default();
    let mut fixes: Vec<(Kind, String)> = rule.fix.iter().map(|fix| filled(fix, facts)).collect();
    if !at_fault.is_empty() {
        fixes.push((Kind::Build, at_fault.join("\n")));
    }
    fixes.retain(|(kind, _)| facts.of() != Origin::Kconfig || matches!(kind, Kind::Build | Kind::Do));
    fixes
}

/// The expectation applied; public for tests of single rules.
pub fn judge(expect: &Expect, facts: &Facts) -> Judged {
    match expect {
        Expect::OneOf { path, values, absent } => {
            let all = present(path, absent, facts)?;
            Answer::is(all.iter().all(|(_, text)| values.contains(text)), shown(&all))
        }
        Expect::Within { path, min, max, absent } => {
            let all = present(path, absent, facts)?;
            let numbers = all.iter().map(|(path, text)| number(path, text)).collect::<Known<Vec<i64>>>()?;
            Answer::is(numbers.iter().all(|number| (min..=max).contains(&number)), shown(&all))
        }
        Expect::NotBuilt(options) => {
            let built = having(options, facts, |value| value != "n")?;
            match built.is_empty() {
                true => Answer::good("none built in"),
                false => Answer::bad(format!("built in: {}", built.join(", "))),
            }
        }
        Expect::Report { path, absent } => Answer::reported(shown(&present(path, absent, facts)?)),
        Expect::Show(function) => Answer::reported(function(facts)?),
        Expect::Judge(function) => function(facts),
    }
}

fn present<'a>(path: &str, absent: &str, facts: &Facts<'a>) -> Known<Vec<(&'a str, &'a str)>> {
    match facts.some(path) {
        // An unreadable file is not an absent one.
        Err(Missing::Absent(_)) if !absent.is_empty() && facts.absence_means_something() => {
            Err(Missing::DoesNotApply(absent.to_owned()))
        }
        other => other,
    }
}

/// The options whose value `holds`. Unknown if none does and some are unknown.
fn having<'a>(options: &[&'a str], facts: &Facts, holds: impl Fn(&str) -> bool) -> Known<Vec<&'a str>> {
    let values: Vec<(&str, Known<&str>)> =
        options.iter().map(|option| (*option, facts.config(option))).collect();
    let is = |(_, value): &&(&str, Known<&str>)| value.as_ref().is_ok_and(|value| holds(value));
    let having: Vec<&str> = values.iter().filter(is).map(|(option, _)| *option).collect();
    match values.iter().find_map(|(_, value)| value.as_ref().err()) {
        Some(missing) if having.is_empty() => Err(missing.clone()),
        _ => Ok(having),
    }
}

/// `value` where all agree, else `performance (cpu0, cpu1), powersave (cpu2)`.
pub(super) fn shown(all: &[(&str, &str)]) -> String {
    let groups = by_value(all);
    let text = |value: &str| if value.is_empty() { "empty".to_owned() } else { value.replace('\n', "; ") };
    if groups.len() == 1 {
        return groups.keys().map(|value| text(value)).collect();
    }
    let group = |(value, paths): (&&str, &Vec<&str>)| {
        let names: Vec<&str> = paths.iter().take(4).map(|path| telling(path)).collect();
        let more = if paths.len() > 4 { ", …" } else { "" };
        format!("{} ({}{more})", text(value), names.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join(", ")
}

/// The component that distinguishes a path from similar ones: the first with a digit, else the last.
fn telling(path: &str) -> &str {
    let numbered = path.split('/').find(|part| part.ends_with(|c: char| c.is_ascii_digit()));
    numbered.or_else(|| path.rsplit('/').next()).unwrap_or(path)
}

fn filled(fix: &Fix, facts: &Facts) -> (Kind, String) {
    let (kind, text) = match fix {
        Fix::Run(text) => (Kind::Run, text),
        Fix::Boot(text) => (Kind::Boot, text),
        Fix::Build(text) => (Kind::Build, text),
        Fix::Do(text) => (Kind::Do, text),
    };
    let known = |cpus: &crate::cpuset::CpuSet, name: &str| match cpus.is_empty() {
        true => format!("<{name}>"),
        false => cpus.to_string(),
    };
    let housekeeping = facts.housekeeping();
    let text = text
        .replace("{cpus}", &known(&facts.cpus, "CPUs of the real-time work"))
        .replace("{housekeeping_mask}", &mask(&housekeeping))
        .replace("{housekeeping}", &known(&housekeeping, "all other CPUs"));
    let text = if kind == Kind::Build { options_of(facts, &text) } else { text };
    (kind, text)
}

/// A CPU mask as /proc/irq takes it: hexadecimal words of 32 CPUs, the highest first.
fn mask(cpus: &crate::cpuset::CpuSet) -> String {
    let Some(last) = cpus.iter().next_back() else { return "<mask of all other CPUs>".to_owned() };
    let mut words = vec![0u32; last.0 as usize / 32 + 1];
    cpus.iter().for_each(|cpu| words[cpu.0 as usize / 32] |= 1 << (cpu.0 % 32));
    let (highest, rest) = words.split_last().map_or((0, &[][..]), |(highest, rest)| (*highest, rest));
    rest.iter().rev().fold(format!("{highest:x}"), |text, word| format!("{text},{word:08x}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_words_of_32_cpus() {
        let of = |list: &str| mask(&list.parse().unwrap());
        assert_eq!(of("0-1"), "3");
        assert_eq!(of("0,33"), "2,00000001");
        assert_eq!(of("64"), "1,00000000,00000000");
    }

    #[test]
    fn values_that_differ_are_shown_with_their_owners() {
        let all =
            [("/sys/cpu0/g", "performance"), ("/sys/cpu1/g", "powersave"), ("/sys/cpu2/g", "performance")];
        assert_eq!(shown(&all), "performance (cpu0, cpu2), powersave (cpu1)");
        assert_eq!(shown(&all[..1]), "performance");
    }
}

//! A script that applies the fixes of the findings. lathunt prints it and never runs it.

use super::judge::{Finding, Kind};
use super::rule::Outcome;

/// A shell script of the fixes that work at once; boot parameters and the rest are comments.
#[must_use]
pub fn fix_script(findings: &[Finding]) -> String {
    let mut script = String::from(
        "#!/bin/sh\n# What `lathunt check` would change on this machine. Read it before you run it.\n\
         # Changes at run time last until the next boot; a line that fails stops nothing.\n\n",
    );
    let commands = of(findings, Kind::Run);
    if commands.is_empty() {
        script.push_str("# Nothing can be changed at run time.\n");
    }
    let mut last = "";
    for (finding, command) in commands {
        if finding.rule.id != last {
            let (severity, title) = (finding.rule.severity.name(), finding.rule.title);
            script.push_str(&format!("# {severity}: {title} ({})\n", one_line(&finding.found)));
        }
        last = finding.rule.id;
        script.push_str(&format!("{command}\n"));
    }
    let boot: Vec<String> = of(findings, Kind::Boot).into_iter().map(|(_, words)| words.to_owned()).collect();
    if !boot.is_empty() {
        let mut words: Vec<&str> = Vec::new();
        for word in boot.iter().flat_map(|words| words.split_ascii_whitespace()) {
            if !words.contains(&word) {
                words.push(word);
            }
        }
        script.push_str(&format!(
            "\n# Boot parameters: add to GRUB_CMDLINE_LINUX in /etc/default/grub, run update-grub, boot:\n#   {}\n",
            words.join(" ")
        ));
    }
    let fragment = kconfig_fragment(findings);
    if !fragment.is_empty() {
        script.push_str(
            "\n# Kernel configuration (scripts/kconfig/merge_config.sh .config FRAGMENT), build, boot:\n",
        );
        fragment.lines().for_each(|line| script.push_str(&format!("#   {line}\n")));
    }
    let by_hand = of(findings, Kind::Do);
    if !by_hand.is_empty() {
        script.push_str("\n# By hand:\n");
        by_hand
            .iter()
            .for_each(|(finding, what)| script.push_str(&format!("#   {}: {what}\n", finding.rule.title)));
    }
    script
}

/// The lines to add to the kernel's configuration; empty when none.
#[must_use]
pub fn kconfig_fragment(findings: &[Finding]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for (_, text) in of(findings, Kind::Build) {
        lines.extend(text.lines().filter(|line| !line.is_empty()));
    }
    let mut fragment = String::new();
    for (at, line) in lines.iter().enumerate() {
        if !lines[..at].contains(line) {
            fragment.push_str(&format!("{line}\n"));
        }
    }
    fragment
}

fn of(findings: &[Finding], kind: Kind) -> Vec<(&Finding, &str)> {
    let bad = findings.iter().filter(|finding| finding.outcome == Outcome::Bad);
    bad.flat_map(|finding| finding.fix.iter().map(move |(of, text)| (finding, *of, text.as_str())))
        .filter(|(_, of, _)| *of == kind)
        .map(|(finding, _, text)| (finding, text))
        .collect()
}

/// Found texts are untrusted and must not end the comment around them.
fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

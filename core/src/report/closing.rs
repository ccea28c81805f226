//! The last lines of the terminal summary: what holds without a model, how far the criteria are met, where the files are.

use super::late;
use super::text::Screen;
use crate::printable::{cut, wrap};
use crate::run::Run;
use crate::verdict::Criterion;

/// What a statement without a model rests on all the same.
const INDEPENDENT: &str = "(if late ones come independently; optimistic where they come in bursts)";

/// The model-free statement, the rule of thumb, and where the files are.
pub(super) fn closing(run: &Run, screen: &Screen) -> Vec<String> {
    let mut lines = vec![String::new()];
    if let Some(model_free) = run.verdict.as_ref().and_then(|v| v.model_free.as_ref()) {
        lines.extend(
            wrap(&format!("Without any model: {} {INDEPENDENT}", model_free.sentence), screen.width)
                .into_iter()
                .take(3),
        );
    }
    let criteria = run.verdict.iter().flat_map(|verdict| &verdict.criteria);
    let criteria: Vec<String> = criteria.map(criterion).collect();
    if !criteria.is_empty() {
        lines.extend(late::hanging("OSADL's criteria: ", &criteria.join("; "), screen.width));
    }
    let no_verdict = run.verdict.as_ref().filter(|verdict| verdict.outcome.is_none());
    if let Some(rule) = no_verdict.and_then(|v| v.rule_of_thumb.as_ref()) {
        let met = if rule.met { "met" } else { "not met" };
        let text = format!("For orientation: {} gives {}: {met} ({})", rule.name, rule.bound_ns, rule.source);
        lines.push(cut(&text, screen.width));
    }
    lines.extend(paths(screen));
    lines
}

/// `long enough: no, 1.2e5 samples (1e9 samples)`; what is met, in a word.
fn criterion(one: &Criterion) -> String {
    match one.met {
        Some(true) => format!("{}: yes", one.name),
        Some(false) => format!("{}: no, {} (wanted: {})", one.name, one.have, one.want),
        None => format!("{}: unknown, {} (wanted: {})", one.name, one.have, one.want),
    }
}

/// The files, on one line where they fit; never cut, because they are to be copied.
fn paths(screen: &Screen) -> Vec<String> {
    let each: Vec<String> = screen.paths.iter().map(|(what, path)| format!("{what}: {path}")).collect();
    let together = each.join("   ");
    if together.chars().count() <= screen.width && !each.is_empty() {
        vec![together]
    } else {
        each
    }
}

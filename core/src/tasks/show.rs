//! The analysis as JSON and as a text table.

use std::fmt::Write as _;

use serde_json::{json, Value};

use super::analyse::{Analysis, Margin};
use crate::numbers::counted;
use crate::time::Ns;

/// µs: a whole number where it is one.
fn us(time: Ns) -> Value {
    match time.0 % 1_000 {
        0 => Value::from(time.0 / 1_000),
        _ => Value::from(time.0 as f64 / 1e3),
    }
}

fn maybe_us(time: Option<Ns>) -> Value {
    time.map_or(Value::Null, us)
}

/// `None`: the demand of no thread is known.
fn utilisation(analysis: &Analysis) -> Option<f64> {
    Some(analysis.edf.utilisation).filter(|_| analysis.edf.unknown < analysis.rows.len())
}

/// The document of `tasks analyse --json`: `tasks` for fixed priorities, `edf`, and the assumptions.
#[must_use]
pub fn json(analysis: &Analysis, margins: Option<&[Margin]>) -> Value {
    let task = |row: &super::analyse::Row| {
        json!({
            "name": row.name,
            "response_us": maybe_us(row.response),
            "deadline_us": maybe_us(row.deadline),
            "schedulable": row.schedulable,
            "blocking_us": us(row.blocking),
        })
    };
    let mut document = json!({
        "format": "lathunt-tasks-analysis",
        "version": 1,
        "tasks": analysis.rows.iter().map(task).collect::<Vec<_>>(),
        "edf": {
            "schedulable": analysis.edf.schedulable,
            "utilisation": utilisation(analysis),
            "fails_at_us": maybe_us(analysis.edf.fails_at),
        },
        "warnings": analysis.warnings.iter().map(|warning| {
            json!({ "name": warning.name, "place": warning.place, "text": warning.text })
        }).collect::<Vec<_>>(),
    });
    let edf: Vec<Value> = analysis
        .rows
        .iter()
        .filter(|row| row.edf_response.is_some())
        .map(|row| json!({ "name": row.name, "response_us": maybe_us(row.edf_response) }))
        .collect();
    if !edf.is_empty() {
        document["edf_responses"] = edf.into();
    }
    if let Some(global) = analysis.global {
        document["global_edf"] = json!({ "cpus": global.cpus, "schedulable": global.schedulable });
    }
    if let Some(margins) = margins {
        let margin = |margin: &Margin| {
            json!({
                "name": margin.name,
                "fixed_wcet_us": maybe_us(margin.fixed),
                "edf_wcet_us": maybe_us(margin.edf),
            })
        };
        document["sensitivity"] = margins.iter().map(margin).collect::<Vec<_>>().into();
    }
    document
}

/// A table with the verdicts below it.
#[must_use]
pub fn text(analysis: &Analysis, margins: Option<&[Margin]>) -> String {
    let widest = analysis.rows.iter().map(|row| row.name.chars().count()).max().unwrap_or(0).clamp(4, 40);
    let mut text = format!(
        "{:<widest$} {:>12} {:>12} {:>12}  fixed priority",
        "task", "response", "deadline", "blocking"
    );
    if margins.is_some() {
        let _ = write!(text, "  {:>12} {:>12}", "C at most", "under EDF");
    }
    text.push('\n');
    let shown = |time: Option<Ns>| time.map_or_else(|| "-".to_owned(), |time| time.to_string());
    for (at, row) in analysis.rows.iter().enumerate() {
        let verdict = match (row.schedulable, row.response) {
            (true, _) => "meets it",
            (false, Some(_)) => "MISSES it",
            (false, None) => "not bounded",
        };
        let (response, deadline, blocking) =
            (shown(row.response), shown(row.deadline), row.blocking.to_string());
        let _ =
            write!(text, "{:<widest$} {response:>12} {deadline:>12} {blocking:>12}  {verdict:<14}", row.name);
        if let Some(margin) = margins.and_then(|margins| margins.get(at)) {
            let _ = write!(text, "  {:>12} {:>12}", shown(margin.fixed), shown(margin.edf));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    let edf = &analysis.edf;
    let verdict = match (edf.schedulable, edf.fails_at) {
        (true, _) => "every deadline is met".to_owned(),
        (false, Some(at)) => format!("fails: by {at} after a common release more work is due than fits"),
        (false, None) => "not shown to be schedulable".to_owned(),
    };
    let of_all = match (utilisation(analysis), edf.unknown) {
        (None, _) => "not known".to_owned(),
        (Some(all), 0) => format!("{all:.4}"),
        (Some(least), n) => {
            format!("at least {least:.4}, without {}, whose demand is not known", counted(n as u64, "thread"))
        }
    };
    let _ = writeln!(text, "EDF: {verdict}; utilisation {of_all}");
    if let Some(global) = analysis.global {
        let verdict =
            if global.schedulable { "every deadline is met" } else { "not shown to be schedulable" };
        let _ = writeln!(
            text,
            "global EDF on {} CPUs: {verdict}, by the sum and the largest of the densities (Goossens, Funk, Baruah 2003)",
            global.cpus
        );
    }
    text
}

//! One line per window and series, RFC 4180, for further analysis.

use super::{Allowance, History, Row};
use crate::printable::line;
use crate::time::Ns;

const HEAD: &str =
    "begin,end,measured_s,whole,quantity,cpu,task,count,lost,avg_ns,p50_ns,p99_ns,p99_9_ns,p99_99_ns,max_ns,\
                    max_at,victim,culprit,explanation,deadline_ns,misses";

impl History {
    /// The table; empty fields are "not known". A line about each damaged record is added to `damaged`.
    #[must_use]
    pub fn to_csv(&self, damaged: &mut Vec<String>) -> String {
        let mut csv = format!("{HEAD}\r\n");
        let mut allowance = self.allowance();
        for row in &self.rows {
            csv.push_str(&(fields(row, &mut allowance, damaged).join(",") + "\r\n"));
        }
        csv
    }
}

fn fields(row: &Row, allowance: &mut Allowance, damaged: &mut Vec<String>) -> Vec<String> {
    let ns = |value: Option<Ns>| value.map_or_else(String::new, |value| value.0.to_string());
    let text = |text: Option<&str>| text.map_or_else(String::new, quoted);
    let mut note = |record: &str, damage| damaged.push(row.told(record, &damage));
    let peak = row.peak(allowance).map_err(|damage| note("maximum", damage)).ok().flatten();
    let explanation = peak.and_then(|peak| peak.explanation);
    let quantiles = row.quantiles().map_err(|damage| note("histogram", damage));
    let [p50, p99, p99_9, p99_99] = quantiles.unwrap_or_default().map(ns);
    vec![
        row.begin.to_string(),
        row.end.to_string(),
        format!("{:.3}", row.measured.as_secs()),
        u8::from(row.whole).to_string(),
        row.key.quantity.name().to_owned(),
        row.key.whose.cpu().map_or_else(String::new, |cpu| cpu.to_string()),
        text(row.key.whose.task().map(|name| name.text()).as_deref()),
        row.figures.count.to_string(),
        row.lost.to_string(),
        row.figures.mean_ns().map_or_else(String::new, |mean| format!("{mean:.0}")),
        p50,
        p99,
        p99_9,
        p99_99,
        ns(row.figures.max),
        row.max_at.map_or_else(String::new, |at| at.to_string()),
        text(row.victim.as_deref()),
        text(row.culprit.as_deref()),
        text(explanation.as_ref().map(|explanation| explanation.sentence.as_str())),
        ns(row.held.map(|held| held.deadline)),
        row.held.map_or_else(String::new, |held| held.misses.to_string()),
    ]
}

/// Quotes a name, which may be any text: one printable line, never a spreadsheet formula.
fn quoted(text: &str) -> String {
    let printable = line(text);
    let guard = if printable.starts_with(['=', '+', '-', '@']) { "'" } else { "" };
    format!("\"{guard}{}\"", printable.replace('"', "\"\""))
}

//! Upper limits of the probability of a miss, from all windows of the history.

use super::super::exceedance::{Exceedances, Limit, CONFIDENCE};
use super::History;
use crate::numbers::grouped;
use crate::printable::cut;
use crate::time::Ns;

impl History {
    /// One limit for each series with a deadline; none for tasks if activations of unknown tasks were lost.
    #[must_use]
    pub fn exceedances(&self) -> Vec<Limit> {
        let mut all = Exceedances::new(Ns(u64::MAX), self.latency_deadline);
        self.rows.iter().for_each(|row| all.row(row));
        self.events.iter().for_each(|event| all.event(event));
        all.limits()
    }

    /// One line per series, at most `width` columns wide; empty if none has a deadline.
    pub(super) fn exceeded(&self, width: usize) -> String {
        let limits = self.exceedances();
        if limits.is_empty() {
            return String::new();
        }
        let shown = |name: &str, [deadline, activations, late, claim]: [&str; 4]| {
            cut(&format!("{name:<24}{deadline:>10}{activations:>14}{late:>10}  {claim}"), width) + "\n"
        };
        let known = limits.iter().filter(|limit| limit.theta.is_some()).count();
        let rests_on = match known {
            0 => ", assuming independent late activations; lost ones are late",
            n if n == limits.len() => "; clustered late ones count once, lost ones count as late",
            _ => " (* assuming independence); lost ones count as late",
        };
        let is_mixed = known > 0 && known < limits.len();
        let mut text = format!("\nWith {} % confidence{rests_on}\n", CONFIDENCE * 100.0);
        text += &shown("later than its deadline", ["deadline", "activations", "late", "fewer than"]);
        for limit in limits {
            let Limit { key, deadline_ns, samples, above, probability_upper, theta } = limit;
            let mark = if is_mixed && theta.is_none() { " *" } else { "" };
            let figures = [
                &deadline_ns.to_string(),
                &grouped(samples),
                &grouped(above),
                &(fewer(probability_upper) + mark),
            ];
            text += &shown(&key.to_string(), figures.map(String::as_str));
        }
        text
    }
}

/// The limit as a claim that is not stronger than it.
fn fewer(probability: f64) -> String {
    match (1.0 / probability).floor() {
        _ if probability >= 1.0 => "–".to_owned(),
        one_in if one_in >= 2.0 => format!("1 in {}", grouped(one_in as u64)),
        _ => format!("{:.1} %", (probability * 1_000.0).ceil() / 10.0),
    }
}

//! Actions on late cases during the measurement: the cases, the commands, and their times.
//!
//! A command on a late case disturbs the measured machine. So every action is kept with its time, and worst cases that
//! overlap with it are marked: the action may have caused them.

use serde::{Deserialize, Serialize};

use crate::peak::Peak;
use crate::time::{Cpu, Mono, Ns};

/// Maximum number of actions kept individually.
pub const KEPT: usize = 1024;

/// Late cases of one measurement, and the actions on them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OnLate {
    /// Latency above which a case was late; null: the deadline of each task.
    pub above_ns: Option<Ns>,
    /// Late cases detected during the measurement.
    pub cases: u64,
    /// Of those, cases without an action: one was still running, or the limit per minute was reached.
    pub withheld: u64,
    /// CPUs on which commands ran, as a list; null: no command was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    /// These CPUs were also measured, because there were no others.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub on_measured: bool,
    /// The first 1024 actions, in time order.
    pub actions: Vec<Action>,
    /// Number of further actions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_actions: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Actions on one late case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Action {
    /// CPU of the case.
    pub cpu: Cpu,
    /// Start of its latency.
    pub case: Mono,
    /// Its latency.
    pub total_ns: Ns,
    /// Start of the first action.
    pub begin: Mono,
    /// End of the last action; null: after the end of the measurement.
    pub end: Option<Mono>,
    /// Actions and their results, one line each.
    pub did: Vec<String>,
}

impl OnLate {
    /// Adds `action`.
    pub fn acted(&mut self, action: Action) {
        match self.actions.len() < KEPT {
            true => self.actions.push(action),
            false => self.more_actions += 1,
        }
    }

    /// Marks `peaks` that overlap with an action.
    pub fn mark(&self, peaks: &mut [Peak]) {
        for peak in peaks {
            let end = peak.begin + peak.total_ns;
            let overlaps =
                |action: &Action| action.begin < end && action.end.is_none_or(|until| peak.begin < until);
            peak.during_action |= self.actions.iter().any(overlaps);
        }
    }

    /// The actions in one line, if there were late cases.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let count = |n: u64, one: &str, many: &str| format!("{n} {}", if n == 1 { one } else { many });
        let OnLate { cases, withheld, actions, more_actions, .. } = self;
        if *cases == 0 {
            return None;
        }
        let above = self.above_ns.map_or("its deadline".to_owned(), |above| above.to_string());
        let acted = actions.len() as u64 + more_actions;
        let without = match withheld {
            0 => String::new(),
            n => format!(", {n} without one (one was still running, or the limit of a minute was reached)"),
        };
        let measured = if self.on_measured { ", on the measured CPUs" } else { "" };
        Some(format!(
            "{} above {above}: {}{measured}{without}",
            count(*cases, "late case", "late cases"),
            count(acted, "was acted on", "were acted on")
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(begin: u64, end: Option<u64>) -> Action {
        let (cpu, case, total_ns) = (Cpu(0), Mono(0), Ns(1));
        Action { cpu, case, total_ns, begin: Mono(begin), end: end.map(Mono), did: Vec::new() }
    }

    #[test]
    fn a_case_is_marked_when_an_action_overlaps_it_and_not_when_it_touches() {
        let mut done = OnLate::default();
        done.acted(action(100, Some(200)));
        done.acted(action(900, None));
        let mut peaks: Vec<Peak> = [(50, 50), (50, 51), (199, 10), (200, 10), (890, 11), (950, 1)]
            .map(|(begin, total)| Peak { begin: Mono(begin), total_ns: Ns(total), ..Peak::example() })
            .into();
        done.mark(&mut peaks);
        let marked: Vec<bool> = peaks.iter().map(|peak| peak.during_action).collect();
        assert_eq!(marked, [false, true, true, false, true, true]);
    }

    #[test]
    fn the_line_counts_what_was_done_and_what_was_not() {
        let mut done =
            OnLate { above_ns: Some(Ns::from_us(500)), cases: 7, withheld: 5, ..OnLate::default() };
        (0..2).for_each(|n| done.acted(action(n, Some(n + 1))));
        let line = done.line().unwrap();
        assert!(line.starts_with("7 late cases above 500 µs: 2 were acted on, 5 without one"), "{line}");
        assert_eq!(OnLate::default().line(), None);
    }
}

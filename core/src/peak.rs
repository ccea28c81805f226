//! A peak: one of the worst samples, with victim, culprit, and (if there is evidence) explanation.

use serde::{Deserialize, Serialize};

use crate::explain::Explanation;
use crate::series::{Quantity, Thread};
use crate::time::{Cpu, Mono, Ns};

/// One of the K worst samples of a series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Peak {
    /// The quantity.
    pub quantity: Quantity,
    /// CPU.
    pub cpu: Cpu,
    /// Start of the latency (the programmed wake-up, the expiry, the waking).
    pub begin: Mono,
    /// The latency.
    pub total_ns: Ns,
    /// The victim.
    pub victim: Thread,
    /// The task that held the CPU longest in it, if the evidence names one.
    pub culprit: Option<String>,
    /// The explanation; `None` without evidence (`no_evidence` has the reason).
    pub explanation: Option<Explanation>,
    /// Why there is no explanation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_evidence: Option<String>,
    /// The context, if the recorder in the kernel has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Context>,
    /// An action on another late case (`--on-late`) ran at the same time and may have caused it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub during_action: bool,
    /// Of a job: the cause that its activations show, by which it is counted in `late_causes` if it was late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_as: Option<String>,
}

impl Peak {
    /// A sample of which only size and victim are known; `why` is the reason.
    #[must_use]
    pub fn without_evidence(
        quantity: Quantity,
        cpu: Cpu,
        (begin, total_ns): (Mono, Ns),
        victim: Thread,
        why: &str,
    ) -> Peak {
        Peak {
            quantity,
            cpu,
            begin,
            total_ns,
            victim,
            culprit: None,
            explanation: None,
            no_evidence: Some(why.to_owned()),
            context: None,
            during_action: false,
            counted_as: None,
        }
    }

    /// The explanation, or the context, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let meanwhile = if self.during_action { "; an action of --on-late ran meanwhile" } else { "" };
        self.known() + meanwhile
    }

    fn known(&self) -> String {
        match (&self.explanation, &self.no_evidence) {
            (Some(explanation), _) => explanation.sentence.clone(),
            (None, Some(reason)) if self.context.is_some() => {
                format!("{}; not explained: {reason}", self.circumstances())
            }
            (None, Some(reason)) => format!("not explained: {reason}"),
            (None, None) => "not explained: no evidence was recorded".to_owned(),
        }
    }

    /// `control/7 (RT 80) after stress/9, woken by a timer 12 µs late`.
    fn circumstances(&self) -> String {
        let Some(context) = &self.context else { return self.victim.to_string() };
        let woken = match context.timer_ns {
            Some(late) => format!("a timer {late} late"),
            None if context.woken_by == "thread" => context.waker.to_string(),
            None => format!("an {}", context.woken_by),
        };
        format!("{} after {}, woken by {woken}", self.victim, context.before)
    }
}

/// The context of a late wake-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Context {
    /// Scheduling policy of the victim.
    pub policy: String,
    /// Lateness of its timer; `None` if no timer woke it.
    pub timer_ns: Option<Ns>,
    /// The previous thread on the CPU.
    pub before: Thread,
    /// What woke it: `timer`, `interrupt`, `thread`.
    pub woken_by: String,
    /// The thread on the CPU of the waking (in an interrupt, the interrupted thread).
    pub waker: Thread,
}

/// Keeps the `limit` worst of a stream of values, worst first. Equal totals keep the earlier one.
#[derive(Clone, Debug)]
pub struct Worst<T> {
    limit: usize,
    kept: Vec<(Ns, T)>, // descending, at most `limit`
}

impl<T> Worst<T> {
    /// Keeps at most `limit` (0 keeps none).
    #[must_use]
    pub fn new(limit: usize) -> Worst<T> {
        Worst { limit, kept: Vec::with_capacity(limit.saturating_add(1).min(1 << 16)) }
    }

    /// Whether a value of this size would be kept now.
    #[must_use]
    pub fn would_keep(&self, total: Ns) -> bool {
        self.limit > 0
            && (self.kept.len() < self.limit || self.kept.last().is_some_and(|(least, _)| total > *least))
    }

    /// Offers a value. Returns the value that is dropped, if any: the new one or the least of the kept ones.
    pub fn offer(&mut self, total: Ns, value: T) -> Option<T> {
        if !self.would_keep(total) {
            return Some(value);
        }
        let at = self.kept.partition_point(|(kept, _)| *kept >= total);
        self.kept.insert(at, (total, value));
        (self.kept.len() > self.limit).then(|| self.kept.pop()).flatten().map(|(_, value)| value)
    }

    /// The kept values, worst first.
    pub fn iter(&self) -> impl Iterator<Item = &(Ns, T)> {
        self.kept.iter()
    }

    /// The kept values, for changes that do not affect their order.
    pub fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.kept.iter_mut().map(|(_, value)| value)
    }

    /// Returns the kept values, worst first.
    #[must_use]
    pub fn into_vec(self) -> Vec<(Ns, T)> {
        self.kept
    }
}

#[cfg(test)]
impl Peak {
    /// Some wake-up.
    pub(crate) fn example() -> Peak {
        let victim = Thread { tid: crate::time::Tid(1), comm: "cyclic/0".to_owned(), prio: None };
        Peak::without_evidence(Quantity::Cyclic, Cpu(0), (Mono(0), Ns(1)), victim, "an example")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_kept_ones_are_the_worst_in_order(values in proptest::collection::vec(0u64..100, 0..60), k in 0usize..10) {
            let mut worst = Worst::new(k);
            let dropped = values.iter().enumerate().filter_map(|(i, &v)| worst.offer(Ns(v), i)).count();
            let mut expected: Vec<(Ns, usize)> = values.iter().enumerate().map(|(i, &v)| (Ns(v), i)).collect();
            expected.sort_by_key(|&(v, i)| (std::cmp::Reverse(v), i));
            prop_assert_eq!(dropped, expected.len().saturating_sub(k));
            expected.truncate(k);
            prop_assert_eq!(worst.into_vec(), expected);
        }
    }
}

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
            Some(_) if context.woken_by == Context::INSTEAD => context.instead(),
            Some(late) => format!("by a timer {late} late"),
            None if context.woken_by == "thread" => format!("by {}", context.waker),
            None if context.woken_by == Context::BEFORE => "before recording began".to_owned(),
            None => format!("by an {}", context.woken_by),
        };
        format!("{} after {}, woken {woken}", self.victim, context.before)
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
    /// What woke it: `timer`, `interrupt`, `thread`, `instead of timer`, `before recording` (not known).
    pub woken_by: String,
    /// The thread on the CPU of the waking (in an interrupt, the interrupted thread).
    pub waker: Thread,
}

impl Context {
    /// `woken_by` of a thread that something else woke although its timer was due.
    pub const INSTEAD: &str = "instead of timer";
    /// `woken_by` of a thread that waited for its CPU since before recording began.
    pub const BEFORE: &str = "before recording";

    /// `while sender/9 ran, not by its timer, which was 146 µs late`.
    #[must_use]
    pub fn instead(&self) -> String {
        let late = self.timer_ns.filter(|late| *late > Ns::ZERO);
        let late = late.map_or(String::new(), |late| format!(", which was {late} late"));
        format!("while {} ran, not by its timer{late}", self.waker)
    }
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
    use crate::time::Tid;

    #[test]
    fn only_a_timer_that_woke_the_thread_is_said_to() {
        let told = |woken_by: &str, late| {
            let thread = |tid, comm: &str| Thread { tid: Tid(tid), comm: comm.to_owned(), prio: None };
            let context = Context {
                policy: "SCHED_FIFO".to_owned(),
                timer_ns: late,
                before: thread(8, "hog"),
                woken_by: woken_by.to_owned(),
                waker: thread(9, "sender"),
            };
            Peak { context: Some(context), ..Peak::example() }.sentence()
        };
        let late = Some(Ns(146_000));
        assert!(told("timer", late).starts_with("cyclic/0/1 after hog/8, woken by a timer 146 µs late; "));
        let said = "cyclic/0/1 after hog/8, woken while sender/9 ran, not by its timer";
        assert!(told(Context::INSTEAD, late).starts_with(&format!("{said}, which was 146 µs late; ")));
        assert!(told(Context::INSTEAD, Some(Ns(0))).starts_with(&format!("{said}; ")), "frozen in its sleep");
        assert!(told("thread", None).starts_with("cyclic/0/1 after hog/8, woken by sender/9; "));
        assert!(
            told(Context::BEFORE, None).starts_with("cyclic/0/1 after hog/8, woken before recording began; ")
        );
        assert!(told("interrupt", None).starts_with("cyclic/0/1 after hog/8, woken by an interrupt; "));
    }

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

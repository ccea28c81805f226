//! The mechanisms behind the largest samples, and the assumption that no other mechanism exists, which samples cannot prove.

use super::analyse::Input;
use super::answer::Gate;
use super::gate::condition;
use crate::numbers::counted;
use crate::peak::Peak;
use crate::time::Ns;

/// The explained peaks of one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mechanism {
    /// The cause, without the number of a thread: `irqs off: vnd`.
    pub cause: String,
    /// Number of peaks that it explains.
    pub peaks: u64,
    /// The largest of them.
    pub largest: Ns,
}

/// Mechanisms of the explained peaks, the largest first.
#[must_use]
pub fn of_peaks<'a>(peaks: impl Iterator<Item = &'a Peak>) -> Vec<Mechanism> {
    let mut found: Vec<Mechanism> = Vec::new();
    for peak in peaks {
        let Some(explanation) = &peak.explanation else { continue };
        let cause = without_number(&explanation.cause);
        match found.iter_mut().find(|one| one.cause == cause) {
            Some(one) => {
                one.peaks += 1;
                one.largest = one.largest.max(peak.total_ns);
            }
            None => found.push(Mechanism { cause, peaks: 1, largest: peak.total_ns }),
        }
    }
    found.sort_by_key(|one| std::cmp::Reverse(one.largest));
    found
}

/// `thread: hog/99` and `thread: hog/100` are the same mechanism.
fn without_number(cause: &str) -> String {
    match cause.rsplit_once('/') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => {
            name.to_owned()
        }
        _ => cause.to_owned(),
    }
}

/// Assumption of every extrapolation: no test can detect a mechanism that is not in the record, and few samples of one may
/// look like those of another (docs/howto/how-sure.md has the figures). The observed statement does not need it.
pub const ASSUMES: &str =
    "no mechanism acts later that acted never or fewer than 5 times in this record (no test can detect one; the observed line does not assume it)";

/// Refuses several causes among the peaks, and without the assumption of the user (`--assume-no-new-mechanism`).
///
/// In the simulation of core/tests/bound_machines.rs that assumption is wrong for one kind of machine, where a
/// mechanism appears after the record: two in five of its limits are too small.
pub(super) fn gates(input: &Input, assumed: bool) -> Vec<Gate> {
    let mut gates = Vec::new();
    let named = |one: &Mechanism| {
        format!("{} ({}, up to {})", one.cause, counted(one.peaks, "peak"), one.largest.rounded_up())
    };
    let all: Vec<String> = input.mechanisms.iter().map(named).collect();
    match all.as_slice() {
        [] => {}
        [one] => gates.push(condition("one cause", true, format!("explained peaks: {one}"))),
        _ => gates.push(condition(
            "one cause",
            false,
            format!("the largest samples come from several mechanisms, each with a tail of its own: {}; remove them, or measure each separately", all.join(", ")),
        )),
    }
    gates.push(assumption(assumed));
    gates
}

/// Refuses without the user's assumption.
pub(super) fn assumption(assumed: bool) -> Gate {
    condition("no new mechanism", assumed, match assumed {
        true => format!("assumed: {ASSUMES}"),
        false => format!("an extrapolation is valid only if {ASSUMES}. If this is known for the machine, give --assume-no-new-mechanism; otherwise measure until the observed bound is sufficient (--needed)"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_name_are_one_cause() {
        assert_eq!(without_number("thread: hog/99"), "thread: hog");
        assert_eq!(without_number("irqs off: kworker/0:1"), "irqs off: kworker/0:1");
        assert_eq!(without_number("idle exit"), "idle exit");
    }
}

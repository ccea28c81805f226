//! Why a query found no interval, or not all of them.

use lathunt_core::explain::intervals::{Found, FoundInterval, Question};
use lathunt_core::time::Ns;
use lathunt_core::trace::source::Source;

/// Drops intervals shorter than the threshold. Returns a note if that dropped all of them, or if more were never kept.
pub(super) fn leave_out_below(found: &mut Found, threshold: Ns) -> Option<String> {
    let (kept, not_kept) = (found.intervals.len(), found.count > found.intervals.len() as u64);
    let longest = found.intervals.iter().map(FoundInterval::total).max();
    found.intervals.retain(|interval| interval.total() >= threshold);
    if found.intervals.len() == kept && not_kept {
        return Some(format!("only the {kept} longest were kept: more may have reached {threshold}"));
    }
    found.count = found.intervals.len() as u64;
    let longest = longest.filter(|_| found.intervals.is_empty());
    longest.map(|longest| format!("none reached {threshold}: the longest took {longest}"))
}

/// Why no interval was found.
pub(super) fn nothing(found: &Found, question: &Question) -> String {
    let why = not_found(found, question);
    match found.is_damaged {
        true => format!("{why}, as far as it can be read: it may be in the damaged part"),
        false => why,
    }
}

fn not_found(found: &Found, question: &Question) -> String {
    let (begins, ends) = (&found.begin_threads, &found.end_threads);
    if let (Question::At(_), Some((first, last))) = (question, found.reach) {
        return format!("no such interval: the trace reaches from {first} to {last}");
    }
    if let (Question::Between { pair: Some(field), .. }, true) =
        (question, found.unmatched_begins + found.unmatched_ends > 0)
    {
        return format!("no begin and end with the same value of {field}: do both events have this field?");
    }
    if !begins.is_empty() && !ends.is_empty() {
        let names = |threads: &std::collections::BTreeSet<String>| {
            threads.iter().cloned().collect::<Vec<_>>().join(", ")
        };
        return format!(
            "no begin and end in one thread: begins in {}, ends in {}; pair them by a value: --pair arg0",
            names(begins),
            names(ends)
        );
    }
    "no such interval in this trace".to_owned()
}

pub(super) fn damage(source: &dyn Source, found: &Found) -> String {
    let first =
        source.info().damage.first().map(ToString::to_string).or_else(|| found.damage.first().cloned());
    first.map_or(String::new(), |first| format!("; damaged at {first}"))
}

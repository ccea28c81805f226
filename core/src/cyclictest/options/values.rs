//! Option arguments as numbers, times and names; an invalid one is an error that names the option.

use super::super::getopt::Found;
use super::table::Id;
use super::{Given, Policy};

pub(super) fn text<'a>(found: &Found<'a, Id>) -> std::borrow::Cow<'a, str> {
    String::from_utf8_lossy(found.argument.unwrap_or_default())
}

pub(super) fn bad(found: &Found<'_, Id>, expected: &str) -> String {
    format!("option '{}' needs {expected}, not '{}'", found.written, text(found))
}

/// A whole number within `range`.
pub(super) fn number(
    found: &Found<'_, Id>,
    range: std::ops::RangeInclusive<i64>,
    what: &str,
) -> Result<i64, String> {
    text(found).trim().parse().ok().filter(|n| range.contains(n)).ok_or_else(|| bad(found, what))
}

pub(super) const INT_MAX: i64 = i32::MAX as i64;

/// Microseconds; a suffix `us` is allowed.
pub(super) fn micros(
    found: &Found<'_, Id>,
    range: std::ops::RangeInclusive<i64>,
    what: &str,
) -> Result<i64, String> {
    let text = text(found);
    let digits = text.trim().trim_end_matches("us").trim_end();
    digits.parse().ok().filter(|n| range.contains(n)).ok_or_else(|| bad(found, what))
}

/// Seconds, or with a suffix: `30s`, `5m`, `2h`, `1d`.
pub(super) fn seconds(found: &Found<'_, Id>) -> Result<u64, String> {
    let what = "a time such as 60, 30s, 5m, 2h or 1d";
    let text = text(found).trim().to_ascii_lowercase();
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3_600),
        Some((at, 'd')) => (&text[..at], 86_400),
        _ => (text.as_str(), 1),
    };
    let number: u64 = digits.parse().map_err(|_| bad(found, what))?;
    number.checked_mul(unit).filter(|s| *s <= INT_MAX as u64).ok_or_else(|| bad(found, what))
}

/// An optional argument that is often written as a separate word.
pub(super) fn loose<'a>(
    found: &Found<'a, Id>,
    given: &mut Given<'a>,
    counts: fn(&str) -> bool,
) -> Option<Found<'a, Id>> {
    if found.argument.is_some() {
        return Some(found.clone());
    }
    let next = found.next_word.filter(|word| std::str::from_utf8(word).is_ok_and(counts))?;
    given.looked_at.push(next);
    Some(Found { argument: Some(next), ..found.clone() })
}

pub(super) fn begins_with_number_above_zero(word: &str) -> bool {
    let digits = word.find(|c: char| !c.is_ascii_digit()).unwrap_or(word.len());
    word[..digits].parse::<u64>().is_ok_and(|number| number > 0)
}

pub(super) fn begins_like_a_cpu_list(word: &str) -> bool {
    word == "all" || word.starts_with(|c: char| c.is_ascii_digit() || c == '!' || c == '+')
}

pub(super) fn policy(found: &Found<'_, Id>) -> Result<Policy, String> {
    let name = text(found).trim().to_ascii_lowercase();
    let known = [
        ("other", Policy::Other),
        ("normal", Policy::Other),
        ("batch", Policy::Batch),
        ("idle", Policy::Idle),
        ("fifo", Policy::Fifo),
        ("rr", Policy::RoundRobin),
    ];
    let policy = known.into_iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, policy)| policy);
    policy.ok_or_else(|| bad(found, "one of other, normal, batch, idle, fifo, rr"))
}

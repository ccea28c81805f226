//! Lines of the kernel's tracers, as printed by the kernel and by trace-cmd's plug-ins.

use super::FieldValue::{Number, Text};
use super::{field, Fields};

/// `#12    context    irq timer_latency     93768 ns`.
pub(super) fn timerlat(text: &str) -> Option<Fields<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let behind =
        |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1).copied());
    let context = match behind("context")? {
        "irq" => 0,
        "thread" => 1,
        _ => 2,
    };
    Some(vec![
        field("seqnum", Number(words.first()?.trim_start_matches('#').parse().ok()?)),
        field("context", Number(context)),
        field("timer_latency", Number(behind("timer_latency")?.parse().ok()?)),
    ])
}

/// `seq:2 context:0 timer_latency:2933429`, `cnt:1 ts:1795679642.0093 inner:24467 outer:189 count:3` of trace-cmd's
/// plug-ins, under the kernel's names.
pub(super) fn plugin(text: &str) -> Option<Fields<'_>> {
    let named = |name| match name {
        "seq" | "cnt" => "seqnum",
        "inner" => "duration",
        "outer" => "outer_duration",
        name => name,
    };
    let pairs = text.split_whitespace().filter_map(|word| word.split_once(':'));
    Some(pairs.filter_map(|(name, value)| Some(field(named(name), Number(value.parse().ok()?)))).collect())
}

/// `local_timer:236 start 28.621892111 duration 170948 ns`: the times in nanoseconds, as they are recorded.
pub(super) fn noise<'t>(name: &str, text: &'t str) -> Option<Fields<'t>> {
    let (who, rest) = text.rsplit_once("start ")?;
    let (start, rest) = rest.split_once(" duration ")?;
    let (seconds, nanos) = start.trim().split_once('.')?;
    let start = seconds.parse::<i64>().ok()?.checked_mul(1_000_000_000)?;
    let start = start.checked_add(format!("{nanos:0<9}").parse().ok()?)?;
    let mut words = rest.split_whitespace();
    let mut fields =
        vec![field("start", Number(start)), field("duration", Number(words.next()?.parse().ok()?))];
    if let Some(count) = rest.split_once("interference ").and_then(|(_, count)| count.trim().parse().ok()) {
        fields.push(field("interference", Number(count)));
    }
    if let Some((label, number)) = who.trim().rsplit_once(':') {
        let (text, place) = if name == "thread_noise" { ("comm", "pid") } else { ("desc", "vector") };
        fields.push(field(text, Text(label)));
        fields.push(field(place, Number(number.trim().parse().ok()?)));
    }
    Some(fields)
}

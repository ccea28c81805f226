//! Lines that report missing events: lost by the recorder, or left out of the text.

use super::line::{cpus_in_brackets, Line};

/// Whether it marks omitted lines: `[...]`, `....`, `<snip>`, `[omitted for brevity]`.
pub(super) fn is_omission(line: &str) -> bool {
    const LONGEST: usize = 48;
    let bare = line.trim_matches(|c: char| "[](){}<>-*#~ ".contains(c));
    let words = ["snip", "omitted", "skipped", "truncated", "removed", "left out"];
    let said = || words.iter().any(|word| bare.to_ascii_lowercase().contains(word));
    line.len() <= LONGEST
        && !line.starts_with('#')
        && (bare.starts_with("...") || bare.starts_with('…') || said())
}

/// `CPU:1 [LOST 5 EVENTS]` of the kernel, `CPU:1 [5 EVENTS DROPPED]` and `CPU:1 [EVENTS DROPPED]` of trace-cmd.
pub(super) fn lost(line: &str) -> Option<Line<'_>> {
    let inside = line.strip_suffix(']')?;
    let (head, inside) = inside.rsplit_once('[')?;
    if !(inside.contains("EVENTS") && (inside.contains("LOST") || inside.contains("DROPPED"))) {
        return None;
    }
    let (_, cpu) = head.rsplit_once("CPU:")?;
    let count = inside.split(' ').find_map(|word| word.parse().ok());
    Some(Line::Lost { cpu: cpu.trim().parse().ok()?, count })
}

/// `swapper 0 [000] 0.000000: PERF_RECORD_FORK(1:1):(0:0)` of `perf script --show-task-events` and others: perf makes up
/// most of them, at time 0, for threads that started before. `PERF_RECORD_LOST lost 5` is a loss.
pub(super) fn perf_record(line: &str) -> Option<Line<'_>> {
    let (head, record) = line.split_once(": PERF_RECORD_")?;
    let (_, cpu, _) = cpus_in_brackets(head).next()?;
    let count = || record.split([' ', ':']).find_map(|word| word.parse().ok());
    Some(if record.starts_with("LOST") { Line::Lost { cpu, count: count() } } else { Line::Comment })
}

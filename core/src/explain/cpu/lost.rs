//! Slices of a CPU around lost events.

use super::{blank, Context, Slice};
use crate::time::Mono;

/// Marks `slices` between `after` and `at` as lost; if `after` is not known, the last slice. Interrupts in between that
/// another buffer recorded from entry to exit, which are not open, are kept.
pub(super) fn mark_lost(
    slices: &mut Vec<Slice>,
    at: Mono,
    after: Option<Mono>,
    is_open: impl Fn(u32) -> bool,
) {
    let Some(last) = slices.last().filter(|slice| slice.end == at) else { return };
    let after = after.map_or(last.begin, |after| after.min(at));
    let mut first = slices.partition_point(|slice| slice.end <= after);
    if let Some(straddling) = slices.get(first).copied().filter(|slice| slice.begin < after) {
        slices.insert(first, Slice { end: after, faults: 0, ..straddling });
        first += 1;
        slices[first].begin = after;
    }
    for slice in &mut slices[first..] {
        let is_interrupt = slice.context.is_hard() || matches!(slice.context, Context::Softirq(_));
        if !is_interrupt || is_open(slice.occurrence) {
            *slice = blank(slice.begin, slice.end, Context::Lost);
        }
    }
}

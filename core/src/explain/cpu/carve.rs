//! NMIs report their duration at their end: they are cut out of the slices they interrupted, as the last step.

use super::Slice;

/// Cuts the NMIs (ascending by end) out of the slices.
pub(super) fn carve(slices: Vec<Slice>, nmis: &[Slice]) -> Vec<Slice> {
    let (Some(first), Some(last), false) = (slices.first(), slices.last(), nmis.is_empty()) else {
        return slices; // without a second copy of a long record
    };
    let (from, until) = (first.begin, last.end);
    let mut free_from = from;
    let mut cuts: Vec<Slice> = Vec::with_capacity(nmis.len());
    for nmi in nmis {
        let cut = Slice { begin: nmi.begin.max(free_from), end: nmi.end.min(until), ..*nmi };
        if cut.begin < cut.end {
            free_from = cut.end;
            cuts.push(cut);
        }
    }
    let mut carved = Vec::with_capacity(slices.len() + 2 * cuts.len());
    let mut cuts = cuts.into_iter().peekable();
    for slice in slices {
        let mut at = slice.begin;
        while let Some(cut) = cuts.peek_mut().filter(|cut| cut.begin < slice.end) {
            if at < cut.begin {
                carved.push(Slice { begin: at, end: cut.begin, faults: 0, ..slice });
            }
            let end = cut.end.min(slice.end);
            carved.push(Slice { begin: cut.begin, end, ..*cut });
            at = end;
            if cut.end > slice.end {
                cut.begin = slice.end;
                break;
            }
            cuts.next();
        }
        if at < slice.end {
            carved.push(Slice { begin: at, ..slice });
        }
    }
    carved
}

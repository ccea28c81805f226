//! Fits the parts of a summary on a screen: the most important parts first, each with whole cases; the rest is counted.

use crate::numbers::more;

/// A part of a summary that may be shortened or left out.
pub(super) struct Block {
    /// Importance; smaller numbers come first.
    pub rank: u8,
    /// Lines before the cases.
    pub heading: Vec<String>,
    /// Each case with its lines, the most important first.
    pub cases: Vec<Vec<String>>,
    /// Noun for one omitted case, in the last line of the part: `… 3 more causes`.
    pub what: &'static str,
    /// Name of the whole part, if it is left out.
    pub name: &'static str,
}

impl Block {
    /// Number of lines with the first `shown` cases, including the line that counts the others.
    fn lines(&self, shown: usize) -> usize {
        let cases: usize = self.cases[..shown].iter().map(Vec::len).sum();
        self.heading.len() + cases + usize::from(shown < self.cases.len())
    }

    fn shown(self, shown: usize) -> impl Iterator<Item = String> {
        let others = self.cases.len() - shown;
        let counted = (others > 0).then(|| format!("  … {}", more(others as u64, self.what)));
        self.heading.into_iter().chain(self.cases.into_iter().take(shown).flatten()).chain(counted)
    }
}

/// Blocks from this rank on are shown only if all others have what they need.
pub(super) const EXTRA: u8 = 5;

/// The lines of `blocks` in their order, and the names of those left out. First each block gets one case, in the order of the
/// ranks, then one more in turn, as long as `room` lines are left.
pub(super) fn fit(blocks: Vec<Block>, room: usize) -> (Vec<String>, Vec<&'static str>) {
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&at| !blocks[at].cases.is_empty()).collect();
    order.sort_by_key(|&at| blocks[at].rank);
    let mut shown = vec![0; blocks.len()];
    let mut left = room;
    let main = order.partition_point(|&at| blocks[at].rank < EXTRA);
    for part in [&order[..main], &order[main..]] {
        grow(&blocks, part, &mut shown, &mut left);
    }
    let omitted = order.iter().filter(|&&at| shown[at] == 0).map(|&at| blocks[at].name).collect();
    let lines = blocks.into_iter().zip(shown).filter(|(_, shown)| *shown > 0);
    (lines.flat_map(|(block, shown)| block.shown(shown)).collect(), omitted)
}

fn grow(blocks: &[Block], order: &[usize], shown: &mut [usize], left: &mut usize) {
    for &at in order {
        let least = blocks[at].lines(1);
        if least <= *left {
            (shown[at], *left) = (1, *left - least);
        }
    }
    let mut grows = true;
    while grows {
        grows = false;
        for &at in order {
            if shown[at] == 0 || shown[at] == blocks[at].cases.len() {
                continue;
            }
            let more = blocks[at].lines(shown[at] + 1) - blocks[at].lines(shown[at]);
            if more <= *left {
                (shown[at], *left, grows) = (shown[at] + 1, *left - more, true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(rank: u8, name: &'static str, cases: &[usize]) -> Block {
        let cases = cases.iter().map(|&lines| vec![name.to_owned(); lines]).collect();
        Block { rank, heading: vec![format!("{name}:")], cases, what: "case", name }
    }

    #[test]
    fn important_parts_come_first_and_what_has_no_room_is_counted_or_named() {
        let blocks = || vec![block(1, "b", &[2, 2]), block(0, "a", &[1, 1, 1]), block(2, "c", &[9])];
        let (all, omitted) = fit(blocks(), usize::MAX);
        assert_eq!((all.len(), omitted.len()), (5 + 4 + 10, 0));
        for room in 0..all.len() {
            let (lines, omitted) = fit(blocks(), room);
            assert!(lines.len() <= room, "{room}: {lines:?}");
            let shown = |name: &str| lines.contains(&format!("{name}:"));
            assert!(["a", "b", "c"].iter().all(|name| shown(name) != omitted.contains(name)));
            assert!(shown("a") || room < 3, "{room}: {lines:?}");
        }
        let (lines, omitted) = fit(blocks(), 8);
        assert_eq!((lines.join(" "), omitted), ("b: b b   … 1 more case a: a a a".into(), vec!["c"]));
    }
}

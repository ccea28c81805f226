//! Sets of times, as ascending spans without overlap.

use crate::time::{Mono, Ns};

/// `[begin, end)`.
type Piece = (Mono, Mono);

/// The times in both sets.
#[must_use]
pub(super) fn both(a: &[Piece], b: &[Piece]) -> Vec<Piece> {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut found = Vec::new();
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let (begin, end) = (one.0.max(other.0), one.1.min(other.1));
        if begin < end {
            found.push((begin, end));
        }
        _ = if one.1 <= other.1 { a.next() } else { b.next() };
    }
    found
}

/// The times of `all` that are not in `taken`.
#[must_use]
pub(super) fn without(all: &[Piece], taken: &[Piece]) -> Vec<Piece> {
    let ends = taken.iter().map(|(_, end)| *end);
    let begins = taken.iter().map(|(begin, _)| *begin).chain([Mono(u64::MAX)]);
    let between: Vec<Piece> =
        [Mono(0)].into_iter().chain(ends).zip(begins).filter(|(begin, end)| begin < end).collect();
    both(all, &between)
}

/// The length of all of them together.
#[must_use]
pub(super) fn length(pieces: &[Piece]) -> Ns {
    pieces.iter().map(|(begin, end)| end.since(*begin)).sum()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A set of the times from 0 to 40, one bit each.
    fn pieces(bits: u64) -> Vec<Piece> {
        let mut found: Vec<Piece> = Vec::new();
        for at in (0..40).filter(|at| bits >> at & 1 == 1) {
            match found.last_mut().filter(|last| last.1 == Mono(at)) {
                Some(last) => last.1 = Mono(at + 1),
                None => found.push((Mono(at), Mono(at + 1))),
            }
        }
        found
    }

    proptest! {
        #[test]
        fn they_are_sets(a in 0u64..1 << 40, b in 0u64..1 << 40) {
            prop_assert_eq!(both(&pieces(a), &pieces(b)), pieces(a & b));
            prop_assert_eq!(without(&pieces(a), &pieces(b)), pieces(a & !b));
            prop_assert_eq!(length(&pieces(a)), Ns(u64::from(a.count_ones())));
        }
    }
}

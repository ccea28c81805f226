//! Merges several streams, each in time order, into one.
//!
//! The stream with the earliest head provides items as long as it is before the earliest head of all others: with few
//! changes between streams that costs one comparison per event. Equal times keep the order of the streams, so that the
//! result is deterministic.
//!
//! A stream whose time goes backwards is not sorted: its items keep their order, and the stream itself reports it.

use std::cmp::Reverse;
use std::collections::binary_heap::{BinaryHeap, PeekMut};
use std::ops::ControlFlow;

use super::item::{Events, Item, Span};

/// One ordered stream with a current item. Several may be walked at once, each by its own thread.
pub trait Stream: Send {
    /// Time of the current item; `None` at the end.
    fn time(&self) -> Option<u64>;
    /// The current item.
    fn item(&self) -> Item<'_>;
    /// Advances to the next item.
    fn advance(&mut self);
    /// Visits the items from the current one, until `visit` breaks (the next item is then current) or the end. One
    /// virtual call per item instead of three.
    fn each(&mut self, visit: &mut dyn FnMut(&Item<'_>) -> ControlFlow<()>) {
        while self.time().is_some() {
            let flow = visit(&self.item());
            self.advance();
            if flow.is_break() {
                return;
            }
        }
    }
}

impl<S: Stream + ?Sized> Stream for Box<S> {
    fn time(&self) -> Option<u64> {
        (**self).time()
    }
    fn item(&self) -> Item<'_> {
        (**self).item()
    }
    fn advance(&mut self) {
        (**self).advance();
    }
    fn each(&mut self, visit: &mut dyn FnMut(&Item<'_>) -> ControlFlow<()>) {
        (**self).each(visit);
    }
}

/// The merged walk.
#[derive(Debug)]
pub struct Merged<S> {
    streams: Vec<S>,
    /// Heads of all streams but `current`: time and number. Found in logarithmic time, because a hostile trace has
    /// as many streams as events.
    others: BinaryHeap<Reverse<(u64, usize)>>,
    /// The stream of the last item, where it is still current.
    current: usize,
    /// `current` may provide items up to this time (inclusive if it precedes the stream with that time).
    bound: u64,
    given: bool,
    span: Span,
}

impl<S: Stream> Merged<S> {
    /// Over `streams`, within `span`.
    #[must_use]
    pub fn new(streams: Vec<S>, span: Span) -> Self {
        let heads = streams.iter().enumerate();
        let others = heads.filter_map(|(index, stream)| Some(Reverse((stream.time()?, index)))).collect();
        let mut merged = Merged { streams, others, current: 0, bound: 0, given: false, span };
        let first = merged.others.pop();
        merged.take(first);
        merged
    }

    fn take(&mut self, chosen: Option<Reverse<(u64, usize)>>) {
        self.current = chosen.map_or(self.streams.len(), |Reverse((_, index))| index);
        self.bound = self.others.peek().map_or(u64::MAX, |Reverse((time, _))| *time);
    }

    /// Finds the earliest stream, after the current one has advanced to `time`, and its bound.
    fn choose(&mut self, time: Option<u64>) {
        let head = time.map(|time| Reverse((time, self.current)));
        let chosen = match (head, self.others.peek_mut()) {
            (Some(head), Some(mut first)) if *first > head => Some(std::mem::replace(&mut *first, head)),
            (Some(head), _) => Some(head),
            (None, first) => first.map(PeekMut::pop),
        };
        self.take(chosen);
    }
}

impl<S: Stream> Events for Merged<S> {
    fn next(&mut self) -> Option<Item<'_>> {
        if self.given {
            self.given = false;
            let stream = self.streams.get_mut(self.current)?;
            stream.advance();
            let time = stream.time();
            if time.is_none_or(|time| time >= self.bound) {
                self.choose(time);
            }
        }
        let stream = self.streams.get(self.current)?;
        if stream.time()? >= self.span.to.0 {
            return None;
        }
        self.given = true;
        Some(stream.item())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::{Cpu, Mono};
    use crate::trace::item::Loss;

    struct Numbers(u32, Vec<u64>, usize);

    impl Stream for Numbers {
        fn time(&self) -> Option<u64> {
            self.1.get(self.2).copied()
        }
        fn item(&self) -> Item<'_> {
            let before = Mono(self.1[self.2]);
            Item::Lost(Loss {
                cpu: Cpu(self.0),
                after: None,
                before,
                count: None,
                origin: 0,
                inferred_within: None,
            })
        }
        fn advance(&mut self) {
            self.2 += 1;
        }
    }

    fn merged(inputs: &[&[u64]], span: Span) -> Vec<(u32, u64)> {
        let streams = inputs.iter().enumerate().map(|(i, n)| Numbers(i as u32, n.to_vec(), 0)).collect();
        let mut walk = Merged::new(streams, span);
        let mut seen = Vec::new();
        while let Some(Item::Lost(loss)) = walk.next() {
            seen.push((loss.cpu.0, loss.before.0));
        }
        seen
    }

    proptest::proptest! {
        #[test]
        fn merging_equals_a_stable_sort(mut a: Vec<u8>, mut b: Vec<u8>, mut c: Vec<u8>) {
            let mut all = Vec::new();
            for (stream, times) in [&mut a, &mut b, &mut c].into_iter().enumerate() {
                times.sort_unstable();
                all.extend(times.iter().map(|&time| (stream as u32, u64::from(time))));
            }
            all.sort_by_key(|&(stream, time)| (time, stream));
            let wide = |times: &[u8]| times.iter().map(|&t| u64::from(t)).collect::<Vec<_>>();
            let (a, b, c) = (wide(&a), wide(&b), wide(&c));
            proptest::prop_assert_eq!(merged(&[&a, &b, &c], Span::ALL), all);
        }
    }

    #[test]
    fn a_stream_that_goes_backwards_loses_nothing() {
        let seen = merged(&[&[5, 3, 9], &[4, 6]], Span::ALL);
        assert_eq!(seen, vec![(1, 4), (0, 5), (0, 3), (1, 6), (0, 9)]);
    }

    #[test]
    fn the_walk_ends_before_the_end_of_the_span() {
        let span = Span { from: Mono(0), to: Mono(6) };
        assert_eq!(merged(&[&[5, 9], &[4, 6]], span), vec![(1, 4), (0, 5)]);
    }
}

//! Processes the digests of all streams, step by step in time order.
//!
//! The order is that of [`crate::trace::merge`]: equal times keep the order of the streams, and a stream whose time
//! goes backwards is not sorted. It does not depend on the threads that digest.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::digest::{Batch, Digester, Walk};
use super::reader::Reader;
use super::Summary;
use crate::time::Mono;
use crate::trace::event::Sym;
use crate::trace::source::Source;

/// The digest of one stream.
struct Lane {
    batch: Batch,
    next: usize,
    /// The reader's symbol for each symbol of the batch.
    symbols: Vec<Sym>,
}

impl Lane {
    fn time(&self) -> Option<Mono> {
        self.batch.steps.get(self.next).map(|step| step.at)
    }
}

/// Summarizes a trace.
#[must_use]
pub fn summarize(source: &dyn Source) -> Summary {
    let mut lanes: Vec<_> = source.pieces().into_iter().map(|pieces| (pieces, None)).collect();
    let mut digester = Digester::new(source, lanes.len());
    combine(source, lanes.len(), |lane, mut spent| {
        let (pieces, walk) = &mut lanes[lane];
        let Some(mut at_hand) = walk.take().or_else(|| pieces.next().map(Walk::begin)) else {
            return Batch::last();
        };
        *walk = digester.fill(&mut at_hand, &mut spent).then_some(at_hand);
        spent
    })
}

/// Summarizes the batches of `lanes` streams. `refill` returns the next batch of a stream, and may reuse a processed
/// one; it is called in order for each stream, until a batch is the last.
#[must_use]
pub fn combine(source: &dyn Source, lanes: usize, mut refill: impl FnMut(usize, Batch) -> Batch) -> Summary {
    let mut reader = Reader::complete_from(source.complete_from());
    let empty = || Lane { batch: Batch::default(), next: 0, symbols: Vec::new() };
    let mut all: Vec<Lane> = std::iter::repeat_with(empty).take(lanes).collect();
    for (index, lane) in all.iter_mut().enumerate() {
        lane.refill(index, &mut reader, &mut refill);
    }
    // The first step of each lane, the earliest on top: a hostile trace can have as many streams as events.
    let heads = all.iter().enumerate().filter_map(|(index, lane)| Some(Reverse((lane.time()?, index))));
    let mut heads: BinaryHeap<_> = heads.collect();
    while let Some(Reverse((_, index))) = heads.pop() {
        // The lane can continue alone up to this time.
        let bound = heads.peek().map_or(Mono(u64::MAX), |Reverse((time, _))| *time);
        let lane = &mut all[index];
        let mut steps = lane.batch.steps.get(lane.next..).unwrap_or_default().iter();
        // The first is the earliest, even if others have the same time.
        let mut taken = 0;
        while let Some(step) = steps.next().filter(|step| taken == 0 || step.at < bound) {
            reader.step(step, &lane.batch, &lane.symbols);
            taken += 1;
        }
        lane.next += taken;
        if lane.time().is_none() {
            lane.refill(index, &mut reader, &mut refill);
        }
        heads.extend(lane.time().map(|time| Reverse((time, index))));
    }
    reader.finish(source)
}

impl Lane {
    /// Fetches batches until one has steps, or was the last.
    fn refill(&mut self, index: usize, reader: &mut Reader, refill: &mut impl FnMut(usize, Batch) -> Batch) {
        while self.time().is_none() && !self.batch.is_last {
            self.batch = refill(index, std::mem::take(&mut self.batch));
            self.next = 0;
            reader.count(&self.batch);
            self.symbols.clear();
            self.symbols.extend(self.batch.texts.iter().map(|text| reader.intern(text)));
        }
    }
}

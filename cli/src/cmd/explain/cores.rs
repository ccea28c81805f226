//! Summarizes a trace on all cores: threads digest pieces of its streams, which are summed up here in order.
//!
//! Each stream is digested some batches ahead, so that memory is bounded. The summing thread digests too while the next
//! batch is missing: there are as many threads as cores, and none waits for another that waits for a core. The result
//! equals that of one core, because the order is decided here alone.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use lathunt_core::explain::summary::{combine, summarize, Batch, Digester, Summary, Walk};
use lathunt_core::trace::source::{Pieces, Source};

/// Batches of a stream, filled or free: more if there are few streams, one of which may have most events.
const MOST_BATCHES: usize = 6;

/// Streams scanned linearly for the next task; a machine has fewer CPUs.
const MOST_LANES: usize = 4096;

/// Summarizes `source` on all available cores.
pub fn by_all(source: &dyn Source) -> Summary {
    summarize_by(source, thread::available_parallelism().map_or(1, std::num::NonZero::get))
}

/// Summarizes `source` with at most `cores` threads, including this one.
pub fn summarize_by(source: &dyn Source, cores: usize) -> Summary {
    if cores < 2 {
        return summarize(source);
    }
    let pieces = source.pieces();
    let lanes = pieces.len();
    if lanes > MOST_LANES {
        return summarize(source);
    }
    let batches = (16 / lanes.max(1)).clamp(2, MOST_BATCHES);
    let lane = |pieces| Lane::new(pieces, batches);
    let state = State { lanes: pieces.into_iter().map(lane).collect(), over: false };
    let work = Work { state: Mutex::new(state), changed: Condvar::new() };
    thread::scope(|threads| {
        let work = &work;
        let _over = Over(work);
        for _ in 1..cores.min(lanes * batches) {
            let started = lathunt_host::threads::scoped(threads, move || {
                let _over = Over(work);
                work.digest(&mut Digester::new(source, lanes));
            });
            if started.is_err() {
                break; // the others, and this one, take over
            }
        }
        let mut digester = Digester::new(source, lanes);
        combine(source, lanes, |lane, spent| work.next(lane, spent, &mut digester))
    })
}

/// One stream.
struct Lane<'s> {
    pieces: Pieces<'s>,
    /// Number of opened pieces, and whether these are all.
    opened: usize,
    all_opened: bool,
    /// Pieces being read, except those that a thread is reading.
    walks: BTreeMap<usize, Walk<'s>>,
    spare: Vec<Batch>,
    /// By piece; `None` follows its last batch.
    filled: BTreeMap<usize, VecDeque<Option<Batch>>>,
    /// The piece being summed up.
    current: usize,
}

struct State<'s> {
    lanes: Vec<Lane<'s>>,
    /// Everything is summed up, or a thread has failed.
    over: bool,
}

/// Pending work of all threads.
struct Work<'s> {
    state: Mutex<State<'s>>,
    changed: Condvar,
}

/// Stream and piece of the next batch to fill.
struct Task<'s> {
    lane: usize,
    piece: usize,
    walk: Walk<'s>,
    batch: Batch,
}

impl<'s> Lane<'s> {
    fn new(pieces: Pieces<'s>, batches: usize) -> Self {
        // One more is held by the summing thread.
        let spare = std::iter::repeat_with(Batch::default).take(batches - 1).collect();
        Lane {
            pieces,
            opened: 0,
            all_opened: false,
            walks: BTreeMap::new(),
            spare,
            filled: BTreeMap::new(),
            current: 0,
        }
    }

    /// The earliest piece that can be continued.
    fn walk(&mut self) -> Option<(usize, Walk<'s>)> {
        if let Some(begun) = self.walks.pop_first() {
            return Some(begun);
        }
        match self.pieces.next() {
            Some(stream) => {
                self.opened += 1;
                Some((self.opened - 1, Walk::begin(stream)))
            }
            None => {
                self.all_opened = true;
                None
            }
        }
    }

    /// The next batch, if available; [`Batch::last`] after all.
    fn batch(&mut self) -> Option<Batch> {
        while let Some(filled) = self.filled.get_mut(&self.current) {
            if let Some(batch) = filled.pop_front()? {
                return Some(batch);
            }
            self.filled.remove(&self.current);
            self.current += 1;
        }
        self.is_over().then(Batch::last)
    }

    /// Whether everything is summed up.
    fn is_over(&self) -> bool {
        self.all_opened && self.current == self.opened
    }
}

impl<'s> State<'s> {
    /// The batch that will be needed first, if one can be filled: of the stream that has the fewest.
    fn task(&mut self) -> Option<Task<'s>> {
        loop {
            let open = |lane: &Lane| !lane.spare.is_empty() && (!lane.all_opened || !lane.walks.is_empty());
            let lanes = self.lanes.iter_mut().enumerate().filter(|(_, lane)| open(lane));
            let (index, lane) = lanes.max_by_key(|(_, lane)| lane.spare.len())?;
            if let Some((piece, walk)) = lane.walk() {
                return Some(Task { lane: index, piece, walk, batch: lane.spare.pop()? });
            }
        }
    }
}

impl<'s> Work<'s> {
    fn lock(&self) -> MutexGuard<'_, State<'s>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'g>(&self, state: MutexGuard<'g, State<'s>>) -> MutexGuard<'g, State<'s>> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// Fills batches until everything is summed up.
    fn digest(&self, digester: &mut Digester<'_>) {
        let mut state = self.lock();
        while !state.over {
            state = match state.task() {
                Some(task) => self.fill(state, task, digester),
                None => self.wait(state),
            };
        }
    }

    /// Fills a batch without holding the lock.
    fn fill<'g>(
        &'g self,
        state: MutexGuard<'g, State<'s>>,
        task: Task<'s>,
        digester: &mut Digester<'_>,
    ) -> MutexGuard<'g, State<'s>> {
        drop(state);
        let Task { lane, piece, mut walk, mut batch } = task;
        let goes_on = digester.fill(&mut walk, &mut batch);
        let mut state = self.lock();
        let lane = &mut state.lanes[lane];
        let filled = lane.filled.entry(piece).or_default();
        filled.push_back(Some(batch));
        if goes_on {
            lane.walks.insert(piece, walk);
        } else {
            filled.push_back(None);
        }
        self.changed.notify_all();
        state
    }

    /// The next batch of `lane`; `spent` can be refilled.
    fn next(&self, lane: usize, spent: Batch, digester: &mut Digester<'_>) -> Batch {
        let mut state = self.lock();
        state.lanes[lane].spare.push(spent);
        self.changed.notify_all();
        loop {
            if let Some(batch) = state.lanes[lane].batch() {
                return batch;
            }
            // A thread failed: the scope reports that when it ends.
            if state.over {
                return Batch::last();
            }
            state = match state.task() {
                Some(task) => self.fill(state, task, digester),
                None if state.lanes[lane].is_over() => state,
                None => self.wait(state),
            };
        }
    }
}

/// Stops all threads when one ends, even by a panic.
struct Over<'w, 's>(&'w Work<'s>);

impl Drop for Over<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().over = true;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::trace_file::TraceFile;

    /// Every recording of the tests, of every format, including those with lost events.
    #[test]
    fn the_summary_of_many_threads_is_that_of_one() {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../core/tests/data");
        let mut seen = 0;
        for directory in ["cases", "trace_dat", "perf_data", "ftrace_text", "ctf"] {
            for entry in std::fs::read_dir(data.join(directory)).unwrap() {
                let Ok(file) = TraceFile::open(&entry.unwrap().path()) else { continue };
                let Ok(source) = file.source() else { continue };
                let alone = summarize_by(&*source, 1);
                for cores in [2, 3, 16] {
                    assert_eq!(summarize_by(&*source, cores), alone, "{directory}");
                }
                seen += u32::from(alone.events > 0);
            }
        }
        assert!(seen > 15, "{seen} recordings");
    }
}

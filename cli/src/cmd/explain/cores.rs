//! The summary of a trace by all cores: its streams are digested by threads, and summed up here in their order.
//!
//! Each stream is a batch ahead of what is summed up, so that memory is bounded and nobody waits for long. The result
//! is that of one core, because the order is decided here alone.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;

use lathunt_core::explain::summary::{combine, digesters, summarize, Batch, Digester, Summary};
use lathunt_core::trace::source::Source;

/// A stream with the batch to fill.
type Work<'s> = (Digester<'s>, Batch);

/// Summarizes `source` with at most `cores` threads beside this one.
pub fn summarize_by(source: &dyn Source, cores: usize) -> Summary {
    if cores < 2 {
        return summarize(source);
    }
    let digesters = digesters(source);
    let lanes = digesters.len();
    let (asked, questions) = channel::<(usize, Work)>();
    let questions = Mutex::new(questions);
    let (done, filled): (Vec<_>, Vec<_>) = (0..lanes).map(|_| channel::<Work>()).unzip();
    for (lane, digester) in digesters.into_iter().enumerate() {
        let _ = asked.send((lane, (digester, Batch::default())));
    }
    thread::scope(|threads| {
        for _ in 0..cores.min(lanes) {
            let (questions, done) = (&questions, done.clone());
            threads.spawn(move || work(questions, &done));
        }
        drop(done);
        combine(source, lanes, move |lane, spent| next(lane, spent, &filled, &asked))
    })
}

/// Fills batches until nobody asks for more.
fn work<'s>(questions: &Mutex<Receiver<(usize, Work<'s>)>>, done: &[Sender<Work<'s>>]) {
    loop {
        let question = questions.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((lane, (mut digester, mut batch))) = question else { return };
        digester.fill(&mut batch);
        if done[lane].send((digester, batch)).is_err() {
            return;
        }
    }
}

/// The next batch of `lane`; the one behind it is asked for.
fn next<'s>(
    lane: usize,
    spent: Batch,
    filled: &[Receiver<Work<'s>>],
    asked: &Sender<(usize, Work<'s>)>,
) -> Batch {
    match filled[lane].recv() {
        Ok((digester, batch)) => {
            let _ = asked.send((lane, (digester, spent)));
            batch
        }
        // Only a thread that failed is gone: the scope says so when it ends.
        Err(_) => Batch::last(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::trace_file::TraceFile;

    /// Every recording of the tests, of every format, also those that lost events.
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

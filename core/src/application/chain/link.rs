//! Ends of the activations of a chain: links jobs stage by stage.
//!
//! A wake-up links two jobs. A stage that is still at work when it gets its next job takes that one without a wait: both are
//! one recorded job, and the second has no wake-up. Activations that may share recorded jobs are a *batch*. Where each
//! activation starts exactly one job per stage ([`is_one_to_one`]) and each stage is one thread, jobs are first in, first
//! out: if a batch starts as many jobs as it has activations, the k-th is of the k-th; the last end is that of the last
//! one; and none of them ended before its first job in the stage was woken. The other ends are only known to be between
//! two times. In any other chain, all ends of a batch are unknown; its last end is of one of them.

use super::{Seen, Stage};
use crate::time::Mono;

/// Minimum number of activations that show that each starts one job per stage.
const KNOWN: usize = 16;
/// Maximum number of jobs of a stage that are compared with one of the stage before.
const AT_WORK: usize = 16;

/// The end of one activation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    At(Mono),
    /// In a batch: not before, and not after.
    Between(Mono, Mono),
    /// No link to this stage after the first.
    Broken(usize),
}

/// Activations, and their jobs in the current stage.
#[derive(Clone, Default)]
struct Batch {
    /// Activations, in the order of their releases.
    of: Vec<usize>,
    /// Jobs, in the order of their wakings.
    jobs: Vec<usize>,
    /// Of several batches: the order of its jobs does not show whose they are.
    is_mixed: bool,
    /// A job of no activation of the chain is among them.
    has_others: bool,
    /// One of its jobs in the stage before started none.
    lacks: bool,
}

/// The end of each activation of `first` (by release) in the last of `stages` (jobs by waker and waking). `known`: the first
/// release after which all threads of the chain were recorded.
pub(super) fn ends(first: &[Seen], stages: &[Stage], known: Mono) -> Vec<End> {
    let one_to_one = is_one_to_one(first, stages, known);
    let mut ends = vec![End::Broken(0); first.len()];
    let mut from: Vec<Mono> = first.iter().map(|job| job.begin).collect();
    let mut batches: Vec<Batch> =
        (0..first.len()).map(|nth| Batch { of: vec![nth], jobs: vec![nth], ..Batch::default() }).collect();
    let mut jobs = first;
    for (nth, stage) in stages.iter().enumerate() {
        batches = Step { jobs, stage, one_to_one }.take(batches, &mut from, |of| ends[of] = End::Broken(nth));
        jobs = &stage.jobs;
    }
    for batch in &batches {
        let Some(end) = batch.jobs.iter().map(|&job| jobs[job].end).max() else { continue };
        let is_alone = batch.of.len() == 1 && !batch.is_mixed;
        let is_last_known = one_to_one && !batch.has_others;
        for (nth, &of) in batch.of.iter().enumerate() {
            let is_last = nth + 1 == batch.of.len();
            ends[of] = match () {
                () if is_alone || (is_last && is_last_known) => End::At(end),
                // One of them ended last, and took the longer the earlier it was released.
                () if is_last && !batch.has_others => End::Between(end, end),
                () if one_to_one => End::Between(from[of].min(end), end),
                () => End::Between(first[of].begin, end),
            };
        }
    }
    ends
}

/// One stage.
struct Step<'s> {
    /// Jobs of the stage before.
    jobs: &'s [Seen],
    stage: &'s Stage,
    one_to_one: bool,
}

impl Step<'_> {
    /// `from`: time before which no activation ended; `broken` takes those that start nothing.
    fn take(&self, batches: Vec<Batch>, from: &mut [Mono], mut broken: impl FnMut(usize)) -> Vec<Batch> {
        let mut next: Vec<Batch> = Vec::with_capacity(batches.len());
        let mut owner: Vec<Option<usize>> = vec![None; self.stage.jobs.len()];
        let mut waiting: Vec<(usize, usize)> = Vec::new(); // a batch, and one of its jobs in the stage before
        for batch in batches {
            let mut started: Vec<usize> =
                batch.jobs.iter().flat_map(|&job| self.stage.started_by(&self.jobs[job])).collect();
            started.sort_by_key(|&job| self.stage.jobs[job].waking);
            started.dedup();
            let is_alone = batch.of.len() == 1 && !batch.is_mixed;
            let starts = |&job: &usize| self.stage.started_by(&self.jobs[job]).next().is_some();
            let is_complete = is_alone && batch.jobs.iter().all(starts);
            if self.one_to_one && !batch.is_mixed && batch.of.len() > 1 && started.len() == batch.of.len() {
                for (&of, job) in batch.of.iter().zip(started) {
                    owner[job] = Some(next.len());
                    next.push(Batch { of: vec![of], jobs: vec![job], ..Batch::default() });
                }
                continue;
            }
            if !is_complete {
                waiting.extend(batch.jobs.iter().map(|&job| (next.len(), job)));
            }
            started.iter().for_each(|&job| owner[job] = Some(next.len()));
            next.push(Batch { jobs: started, lacks: is_alone && !is_complete, ..batch });
        }
        self.join(next, &owner, &waiting, from, &mut broken)
    }

    /// Joins each batch with those at whose jobs the stage was at work meanwhile.
    fn join(
        &self,
        mut next: Vec<Batch>,
        owner: &[Option<usize>],
        waiting: &[(usize, usize)],
        from: &mut [Mono],
        broken: &mut impl FnMut(usize),
    ) -> Vec<Batch> {
        let mut into: Vec<usize> = (0..next.len()).collect();
        let by_begin = self.stage.by_begin();
        for &(batch, job) in waiting {
            for at_work in self.stage.at_work(&by_begin, &self.jobs[job]) {
                let batch = root(&into, batch);
                match owner[at_work].map(|owner| root(&into, owner)) {
                    Some(owner) if owner == batch => {}
                    Some(owner) => {
                        let both = !next[owner].jobs.is_empty() && !next[batch].jobs.is_empty();
                        let (first, second) = (owner.min(batch), owner.max(batch));
                        let joined = std::mem::take(&mut next[second]);
                        let into_it = &mut next[first];
                        into_it.of.extend(joined.of);
                        into_it.jobs.extend(joined.jobs);
                        into_it.is_mixed |= joined.is_mixed || both;
                        into_it.has_others |= joined.has_others;
                        into_it.lacks = false;
                        into[second] = first;
                    }
                    None if next[batch].jobs.is_empty() => {}
                    None => {
                        next[batch].jobs.push(at_work);
                        (next[batch].is_mixed, next[batch].has_others) = (true, true);
                    }
                }
            }
        }
        for batch in &mut next {
            batch.of.sort_unstable();
            batch.jobs.sort_by_key(|&job| self.stage.jobs[job].waking);
            batch.jobs.dedup();
            if batch.jobs.is_empty() || (batch.lacks && !batch.is_mixed) {
                batch.of.drain(..).for_each(&mut *broken);
            }
            let woken = batch.jobs.first().map(|&job| self.stage.jobs[job].waking);
            for &of in batch.of.iter().filter(|_| !batch.is_mixed) {
                from[of] = from[of].max(woken.unwrap_or(from[of]));
            }
        }
        next.retain(|batch| !batch.of.is_empty());
        next
    }
}

fn root(into: &[usize], mut batch: usize) -> usize {
    while into[batch] != batch {
        batch = into[batch];
    }
    batch
}

impl Stage {
    /// Indices of the jobs that `job` started.
    pub(super) fn started_by(&self, job: &Seen) -> impl Iterator<Item = usize> + '_ {
        let (waker, end) = (Some(job.tid), job.end);
        let from = self.jobs.partition_point(|one| (one.waker, one.waking) < (waker, job.begin));
        let started = self.jobs[from..].iter().take_while(move |one| one.waker == waker && one.waking <= end);
        started.enumerate().map(move |(nth, _)| from + nth)
    }

    fn by_begin(&self) -> Vec<usize> {
        let mut by_begin: Vec<usize> = (0..self.jobs.len()).collect();
        by_begin.sort_by_key(|&job| self.jobs[job].begin);
        by_begin
    }

    /// Its jobs during `job`, which did not start them.
    fn at_work<'s>(&'s self, by_begin: &'s [usize], job: &'s Seen) -> impl Iterator<Item = usize> + 's {
        let until = by_begin.partition_point(|&one| self.jobs[one].begin <= job.end);
        let last = by_begin[..until].iter().rev().take(AT_WORK).copied();
        last.filter(|&one| {
            let one = &self.jobs[one];
            one.end > job.begin && !(one.waker == Some(job.tid) && one.waking >= job.begin)
        })
    }
}

/// Whether each stage is one thread that only the stage before wakes, and each activation starts one job in each of them,
/// unless a stage was at work.
fn is_one_to_one(first: &[Seen], stages: &[Stage], known: Mono) -> bool {
    let mut waker = first.first().map(|job| job.tid);
    let mut by_one = first.iter().all(|job| Some(job.tid) == waker);
    for stage in stages {
        by_one &=
            stage.threads.len() == 1 && stage.jobs.iter().all(|job| job.waker == waker || job.begin < known);
        waker = stage.threads.first().copied();
    }
    if !by_one {
        return false;
    }
    let sorted: Vec<Vec<usize>> = stages.iter().map(Stage::by_begin).collect();
    let (mut single, mut several, mut queued) = (0, 0, 0);
    for mut job in first.iter().filter(|job| job.begin >= known) {
        let mut is_single = true;
        for (stage, by_begin) in stages.iter().zip(&sorted) {
            let mut started = stage.started_by(job);
            match (started.next(), started.next()) {
                (Some(one), more) => {
                    (is_single, several) =
                        (is_single && more.is_none(), several + usize::from(more.is_some()));
                    job = &stage.jobs[one];
                }
                (None, _) if stage.at_work(by_begin, job).next().is_some() => {
                    (is_single, queued) = (false, queued + 1);
                    break;
                }
                (None, _) => {
                    let is_over = by_begin.last().is_none_or(|&last| stage.jobs[last].begin <= job.end);
                    if !is_over {
                        return false;
                    }
                    is_single = false;
                    break;
                }
            }
        }
        single += usize::from(is_single);
    }
    single >= KNOWN && several <= queued
}

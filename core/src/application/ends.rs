//! Whether a wait within the jobs of a thread may end them: a thread that takes turns between two places.
//!
//! A job is measured from a main wait to the next one. If its thread waits in another place in most of its jobs, for a thread
//! that it did not ask for anything, or for a timer, no event shows whether that wait is a part of the job, or the end of one
//! and the start of another. The response time is then an upper limit; the longest time between any two of these waits is
//! what the job took at least.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::places::{Id, Places};
use crate::numbers::grouped;
use crate::time::{Mono, Ns, Tid};

/// Such waits count if there is at least one in this many jobs.
const OFTEN: u64 = 2;
/// Maximum number of remembered threads that wake this one or ask it, and of places.
const KNOWN: usize = 16;
/// A thread that is woken this often was asked: not only created, told to end, or joined.
const REPEATED: u32 = 3;
/// Maximum number of threads that it asks.
const ASKED: usize = 64;

/// A wait within jobs that may end them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OtherEnd {
    /// The place.
    pub place: String,
    /// The longest job if these waits end jobs, among those with such a wait.
    pub longest_ns: Ns,
    /// Number of late jobs then.
    pub late: u64,
    /// Number of late jobs without such a wait: each may be several jobs, if the thread did not have to wait.
    pub several: u64,
    /// The longest of them.
    pub several_ns: Ns,
}

impl OtherEnd {
    /// The late jobs if these waits end jobs.
    #[must_use]
    pub fn said(&self, deadline: Ns) -> String {
        let [longest, several] = [self.longest_ns, self.several_ns].map(|ns| ns.told_apart(deadline).0);
        let jobs = match self.late {
            0 => format!("no job with such a wait was late, the longest took {longest}"),
            1 => format!("1 job was late and took {longest}"),
            late => format!("{} jobs were late, the longest took {longest}", grouped(late)),
        };
        match self.several {
            0 => jobs,
            n => {
                let n = grouped(n);
                format!("{jobs}, and {n} without such a wait, of up to {several}, may be several jobs each")
            }
        }
    }
}

/// Figures of one thread.
#[derive(Clone, Default)]
pub(super) struct Ends {
    /// Release of the current job, or end of the last such wait in it.
    since: Option<Mono>,
    /// The current job had such a wait.
    has_waited: bool,
    jobs: u64,
    /// The longest time between two waits, and the number of those above the deadline.
    longest: Ns,
    late: u64,
    /// The same of jobs without such a wait.
    whole: Ns,
    whole_late: u64,
    /// Number of such waits in each place.
    places: Vec<(Id, u64)>,
    /// Threads that ended one of its waits, the last ones.
    wakers: VecDeque<Tid>,
    /// Threads that asked it for something, and how often.
    askers: Vec<(Tid, u32)>,
    new_asker: Option<Tid>,
    /// Threads that it asks, also through others.
    asked: Vec<Tid>,
}

impl Ends {
    /// Resets the figures; the numbers of places change.
    pub fn begin_window(&mut self) {
        let Ends { since, has_waited, wakers, askers, asked, .. } = std::mem::take(self);
        *self = Ends { since, has_waited, wakers, askers, asked, ..Ends::default() };
    }

    /// Takes who asks whom from a later state.
    pub fn keep_requests_of(&mut self, later: &Ends) {
        self.askers.clone_from(&later.askers);
        self.asked.clone_from(&later.asked);
    }

    /// The job in progress is not known.
    pub fn forget(&mut self) {
        self.since = None;
    }

    /// `other` asks this thread for something.
    pub fn is_asked_by(&mut self, other: Tid) {
        if let Some((_, times)) = self.askers.iter_mut().find(|(known, _)| *known == other) {
            *times = times.saturating_add(1);
            self.new_asker = (*times == REPEATED).then_some(other);
        } else if self.askers.len() < KNOWN {
            self.askers.push((other, 1));
        }
    }

    /// The last thread that has just asked this one often enough.
    pub fn take_asker(&mut self) -> Option<Tid> {
        self.new_asker.take()
    }

    /// All that this thread asks.
    pub fn asks(&self) -> &[Tid] {
        &self.asked
    }

    /// It asks `others`, too.
    pub fn also_asks(&mut self, others: &[Tid]) {
        for other in others {
            if self.asked.len() < ASKED && !self.asked.contains(other) {
                self.asked.push(*other);
            }
        }
    }

    /// Whether `other`, which ends a wait, may answer a request: so may one that does so for the first time, as a thread that
    /// was created for this.
    pub fn asked(&mut self, other: Tid) -> bool {
        let known = self.wakers.contains(&other);
        if !known {
            self.wakers.truncate(KNOWN - 1);
            self.wakers.push_front(other);
        }
        !known || self.asked.len() >= ASKED || self.asked.contains(&other)
    }

    /// A job is released.
    pub fn released(&mut self, at: Mono) {
        (self.since, self.has_waited) = (Some(at), false);
    }

    /// The job waited in `place` from `since` until `end`.
    pub fn waited(&mut self, place: Id, since: Mono, end: Mono, deadline: Option<Ns>) {
        if self.since.is_none() {
            return;
        }
        self.has_waited = true;
        self.took(since, deadline);
        self.since = Some(end);
        if let Some((_, count)) = self.places.iter_mut().find(|(known, _)| *known == place) {
            *count += 1;
        } else if self.places.len() < KNOWN {
            self.places.push((place, 1));
        }
    }

    /// The job ends.
    pub fn finished(&mut self, at: Mono, deadline: Option<Ns>) {
        self.jobs += 1;
        self.took(at, deadline);
    }

    fn took(&mut self, until: Mono, deadline: Option<Ns>) {
        let Some(since) = self.since.take() else { return };
        let took = until.since(since);
        let is_late = u64::from(deadline.is_some_and(|deadline| took > deadline));
        let (longest, late) = match self.has_waited {
            true => (&mut self.longest, &mut self.late),
            false => (&mut self.whole, &mut self.whole_late),
        };
        *longest = took.max(*longest);
        *late += is_late;
    }

    /// The place of most such waits; `None`: they are rare.
    pub fn report(&self, places: &Places) -> Option<OtherEnd> {
        let waits: u64 = self.places.iter().map(|(_, count)| count).sum();
        let &(place, _) = self.places.iter().max_by_key(|(_, count)| count)?;
        (waits.saturating_mul(OFTEN) >= self.jobs).then(|| OtherEnd {
            place: places.get(place).name.clone(),
            longest_ns: self.longest,
            late: self.late,
            several: self.whole_late,
            several_ns: self.whole,
        })
    }
}

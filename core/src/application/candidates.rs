//! Time of a thread outside its jobs, and the length its jobs would have if another place were its main wait.
//!
//! The main wait is inferred (`log`). An error there must not hide a late job, so two figures are kept for every
//! thread: the longest time outside any job (before its first main wait, after its last one, or in a thread that never
//! waits twice), and, for each place where a job may start, the longest span from a release there to the next wait
//! there. A place where both timers and other wakers end waits counts as two. Mutexes, page faults and writes do not
//! start jobs.
//!
//! Calls that wait in one place with the same arguments are distinguished in `sites`.

use super::places::{Id, Places};
use super::point::{Class, Place};
use super::sites::{Key, Sites};
use super::task::{OtherSpans, OtherStart};
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, Via};

/// Maximum number of reported places, the longest first.
const TOLD: usize = 4;

/// Figures of one thread.
#[derive(Clone, Default)]
pub(super) struct Candidates {
    places: Vec<Candidate>,
    /// Start of the current time outside any job; `None`: in a job, or in the main wait.
    outside_since: Option<Mono>,
    outside: Option<Ns>,
    /// The first activation was recorded.
    begun: bool,
    sites: Sites,
    /// Sites by the waker that ends waits for one object.
    wakers: Sites,
    /// Places whatever ends the waits there.
    starts: Vec<Candidate>,
}

/// A place, and whether timers end the waits there.
#[derive(Clone)]
struct Candidate {
    place: Id,
    timer: bool,
    since: Option<Mono>,
    longest: Option<Ns>,
}

impl Candidates {
    /// Resets the figures; the numbers of places change.
    pub fn begin_window(&mut self) {
        self.places.clear();
        self.starts.clear();
        self.sites.begin_window();
        self.wakers.begin_window();
        self.outside = None;
    }

    /// Activations are missing in a job that may have started at `since`: no span across them is known, and the time
    /// that follows is outside any job.
    pub fn forget(&mut self, since: Option<Mono>) {
        let all = self.places.iter_mut().chain(&mut self.starts);
        all.for_each(|candidate| candidate.since = None);
        self.sites.forget();
        self.wakers.forget();
        self.outside_since = self.outside_since.or(since);
    }

    /// An activation starts; `left`: the place and start of the wait before it, if known; `before`: the activation that
    /// ended there.
    pub fn woken(
        &mut self,
        a: &Activation,
        left: Option<&(Id, &Place, Mono)>,
        before: Option<&Activation>,
        main: Option<Id>,
    ) {
        if !self.begun {
            (self.begun, self.outside_since) = (true, Some(a.begin()));
        }
        let Some((place, what, since)) = left else { return };
        if Some(*place) == main {
            self.outside_since = None; // a job starts
        } else if what.class == Class::Lock && a.via == Via::Thread && !what.may_be_mutex() {
            // A barrier or semaphore: it waited for another thread before its first job.
            if let Some(begin) = self.outside_since {
                self.ended(begin, *since);
                self.outside_since = Some(a.begin());
            }
        }
        if let Some(before) = before.filter(|_| may_begin_jobs(what) || Some(*place) == main) {
            self.sites.released(Key::of(*place, what, before, a), *since, a.begin());
            if matches!(what.class, Class::Lock | Class::Io | Class::Wait) {
                self.wakers.released(Key::of_waker(*place, a), *since, a.begin());
            }
        }
        if !may_begin_jobs(what) {
            return;
        }
        waited(&mut self.places, *place, a.via == Via::Timer, *since, a.begin());
        waited(&mut self.starts, *place, false, *since, a.begin());
    }

    /// The place other than `main` whose waits are the least far apart until `end`.
    pub fn other_start(&self, main: Id, end: Mono, places: &Places) -> Option<OtherStart> {
        let others = self.starts.iter().filter(|one| one.place != main).filter_map(|one| {
            let last = one.since.map(|since| end.since(since)).unwrap_or_default();
            Some((one.longest?.max(last), one.place))
        });
        let (longest_ns, place) = others.min_by_key(|&(longest, _)| longest)?;
        Some(OtherStart { place: places.get(place).name.clone(), longest_ns })
    }

    /// An activation ends; `log`: start of the current job.
    pub fn blocked(&mut self, at: Mono, in_main: bool, ended: bool, job: Option<Mono>) {
        if let Some(begin) = self.outside_since {
            self.ended(begin, at);
            if in_main {
                self.outside_since = None;
            }
        }
        if let Some(begin) = job.filter(|_| ended) {
            self.ended(begin, at);
        }
    }

    /// The last activation is not finished at `end`.
    pub fn goes_on(&mut self, begin: Mono, end: Mono, in_turn: bool) {
        if !self.begun && !in_turn {
            self.ended(begin, end);
        } else if let Some(begin) = self.outside_since {
            self.ended(begin, end);
        }
    }

    /// Nothing was recorded from `begin` to `end`.
    pub fn unseen(&mut self, begin: Mono, end: Mono) {
        self.ended(begin, end);
    }

    fn ended(&mut self, begin: Mono, end: Mono) {
        self.outside = self.outside.max(Some(end.since(begin)));
    }

    /// The longest time outside any job.
    pub fn outside(&self) -> Option<Ns> {
        self.outside
    }

    /// The longest spans, for the report.
    pub fn report(&self, places: &Places) -> Vec<OtherSpans> {
        let told = self.places.iter().filter_map(|candidate| {
            Some(OtherSpans {
                place: places.get(candidate.place).name.clone(),
                after_timer: candidate.timer,
                longest_ns: candidate.longest?,
                call: None,
                source: None,
            })
        });
        let mut told: Vec<OtherSpans> =
            told.chain(self.sites.report(places)).chain(self.wakers.report_turns(places)).collect();
        longest_first(&mut told);
        told
    }
}

/// A wait in `place` from `since` ended at `release`.
fn waited(all: &mut Vec<Candidate>, place: Id, timer: bool, since: Mono, release: Mono) {
    let at = all.iter().position(|known| known.place == place && known.timer == timer);
    let at = at.unwrap_or_else(|| {
        all.push(Candidate { place, timer, since: None, longest: None });
        all.len() - 1
    });
    if let Some(begin) = all[at].since.replace(release) {
        all[at].longest = all[at].longest.max(Some(since.since(begin)));
    }
}

/// Sorts by length, longest first, and keeps the number that a message lists.
pub(super) fn longest_first(told: &mut Vec<OtherSpans>) {
    told.sort_by(|a, b| (b.longest_ns, &a.place).cmp(&(a.longest_ns, &b.place)));
    told.truncate(TOLD);
}

/// Whether releases may queue there, so that the thread does not block: all places that start jobs, except sleeps.
pub(super) fn may_queue(place: &Place) -> bool {
    place.class != Class::Sleep && may_begin_jobs(place)
}

/// Whether a thread may wait there for its next job.
pub(super) fn may_begin_jobs(place: &Place) -> bool {
    match place.class {
        Class::Sleep | Class::Wait => true,
        Class::Lock => !place.may_be_mutex(),
        Class::Io => place.is_input(),
        Class::PageFault | Class::Other => false,
    }
}

//! What a thread does besides its turns, and how long its turns would be if another place were its main wait.
//!
//! The main wait is inferred (`turn`). So that an error there hides no late job, two things are known of every thread: the
//! longest stretch that belongs to no turn (before its first main wait, after its last one, in a thread that never waits
//! twice), and, for each place where a job may begin, the longest span from a release there to the next wait there. A
//! place that timers end as well as other wakers counts as two. Mutexes, page faults and writes are no such places.
//!
//! Calls that wait in one place with the same arguments are told apart in `sites`.

use super::places::{Id, Places};
use super::point::{Class, Place};
use super::sites::{Key, Sites};
use super::task::OtherTurns;
use crate::time::{Mono, Ns};
use crate::trace::activation::{Activation, Via};

/// Places that are told, the longest first.
const TOLD: usize = 4;

/// Of one thread.
#[derive(Clone, Default)]
pub(super) struct Candidates {
    places: Vec<Candidate>,
    /// Where the stretch begins that belongs to no turn; `None`: in a turn, or in the main wait.
    outside_since: Option<Mono>,
    outside: Option<Ns>,
    /// A wait at the main place, or an activation, was seen.
    begun: bool,
    sites: Sites,
    /// By who ends waits for one thing.
    wakers: Sites,
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
    /// The numbers of places change, and figures begin anew.
    pub fn begin_window(&mut self) {
        self.places.clear();
        self.sites.begin_window();
        self.wakers.begin_window();
        self.outside = None;
    }

    /// Activations are missing, of a turn that may have begun at `since`: no span over them is known, and what follows is in
    /// no turn.
    pub fn forget(&mut self, since: Option<Mono>) {
        self.places.iter_mut().for_each(|candidate| candidate.since = None);
        self.sites.forget();
        self.wakers.forget();
        self.outside_since = self.outside_since.or(since);
    }

    /// An activation begins; `left`: where it waited before, if that is known, and since when; `before`: the activation that
    /// ended there.
    pub fn woken(
        &mut self,
        a: &Activation,
        left: Option<&(Id, Place, Mono)>,
        before: Option<&Activation>,
        main: Option<Id>,
    ) {
        if !self.begun {
            (self.begun, self.outside_since) = (true, Some(a.begin()));
        }
        let Some((place, what, since)) = left else { return };
        if Some(*place) == main {
            self.outside_since = None; // a turn begins
        } else if what.class == Class::Lock && a.via == Via::Thread && !what.may_be_mutex() {
            // A barrier, a semaphore: it waited for another thread before its first turn.
            if let Some(begin) = self.outside_since {
                self.ended(begin, *since);
                self.outside_since = Some(a.begin());
            }
        }
        if let Some(before) = before.filter(|_| may_begin_jobs(what) || Some(*place) == main) {
            self.sites.released(Key::of(*place, what, before, a), *since, a.begin());
            if matches!(what.class, Class::Lock | Class::Io) {
                self.wakers.released(Key::of_waker(*place, a), *since, a.begin());
            }
        }
        if !may_begin_jobs(what) {
            return;
        }
        let timer = a.via == Via::Timer;
        let at = self.places.iter().position(|known| known.place == *place && known.timer == timer);
        let at = at.unwrap_or_else(|| {
            self.places.push(Candidate { place: *place, timer, since: None, longest: None });
            self.places.len() - 1
        });
        let candidate = &mut self.places[at];
        if let Some(begin) = candidate.since.replace(a.begin()) {
            candidate.longest = candidate.longest.max(Some(since.since(begin)));
        }
    }

    /// An activation ends; `turn`: since when a turn is open.
    pub fn blocked(&mut self, at: Mono, in_main: bool, ended: bool, turn: Option<Mono>) {
        if let Some(begin) = self.outside_since {
            self.ended(begin, at);
            if in_main {
                self.outside_since = None;
            }
        }
        if let Some(begin) = turn.filter(|_| ended) {
            self.ended(begin, at);
        }
    }

    /// The last activation is not over at `end`.
    pub fn goes_on(&mut self, begin: Mono, end: Mono, in_turn: bool) {
        if !self.begun && !in_turn {
            self.ended(begin, end);
        } else if let Some(begin) = self.outside_since {
            self.ended(begin, end);
        }
    }

    /// What it did from `begin` to `end` was not recorded.
    pub fn unseen(&mut self, begin: Mono, end: Mono) {
        self.ended(begin, end);
    }

    fn ended(&mut self, begin: Mono, end: Mono) {
        self.outside = self.outside.max(Some(end.since(begin)));
    }

    /// The longest stretch in no turn.
    pub fn outside(&self) -> Option<Ns> {
        self.outside
    }

    /// The longest spans, for readers.
    pub fn report(&self, places: &Places) -> Vec<OtherTurns> {
        let told = self.places.iter().filter_map(|candidate| {
            let place = places.get(candidate.place).name;
            Some(OtherTurns {
                place,
                after_timer: candidate.timer,
                longest_ns: candidate.longest?,
                call: None,
                source: None,
            })
        });
        let mut told: Vec<OtherTurns> =
            told.chain(self.sites.report(places)).chain(self.wakers.report_turns(places)).collect();
        longest_first(&mut told);
        told
    }
}

/// Sorts by length, longest first, and keeps as many as a message lists.
pub(super) fn longest_first(told: &mut Vec<OtherTurns>) {
    told.sort_by(|a, b| (b.longest_ns, &a.place).cmp(&(a.longest_ns, &b.place)));
    told.truncate(TOLD);
}

/// Whether releases may wait there for the thread, which then does not block: in all such places but sleeps.
pub(super) fn may_queue(place: &Place) -> bool {
    place.class != Class::Sleep && may_begin_jobs(place)
}

/// Whether a thread may wait there for its next job.
pub(super) fn may_begin_jobs(place: &Place) -> bool {
    let reads = ["read", "pread", "recv", "accept", "mq_timedreceive", "io_uring_enter", "ioctl", "splice"];
    match place.class {
        Class::Sleep | Class::Wait => true,
        Class::Lock => !place.may_be_mutex(),
        Class::Io => reads.iter().any(|call| place.name.starts_with(call)),
        Class::PageFault | Class::Other => false,
    }
}

//! The state of a responder that its other threads may read at any time.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use lathunt_core::latency_box::message::NotAMessage;
use lathunt_core::time::Tid;

use super::trips::Trips;

/// Counters, readable at any time.
#[derive(Debug, Default)]
pub struct Served {
    /// Sessions that began.
    pub sessions: AtomicU64,
    /// Stimuli of the session.
    pub stimuli: AtomicU64,
    /// Answers.
    pub answers: AtomicU64,
    /// Valid messages of no or another session.
    pub foreign: AtomicU64,
    /// Invalid messages.
    pub damaged: AtomicU64,
    /// Answers that the channel refused.
    pub refused: AtomicU64,
    /// Version of a message with another version, plus one; 0: none came.
    pub(super) version: AtomicU64,
    /// CPU time of the answering thread in finished sessions, ns.
    pub cpu_ns: AtomicU64,
    pub(super) tid: AtomicI32,
    pub(super) changed: OnceLock<String>,
    /// Receives each answered stimulus.
    pub(super) trips: Option<Arc<Trips>>,
    /// Time of the last message of the session, or of the start (ns of CLOCK_MONOTONIC).
    pub(super) last: AtomicU64,
    /// Silence after which its box is considered dead (ns).
    pub(super) silence: AtomicU64,
    /// A session is active.
    pub(super) active: AtomicBool,
    pub(super) stop: AtomicBool,
    /// Asks the thread to accept other boxes: the present one has been silent.
    pub(super) let_go: AtomicBool,
}

impl Served {
    /// Empty, with a ring for each answered stimulus.
    #[must_use]
    pub fn tapped(trips: Option<Arc<Trips>>) -> Served {
        Served { trips, ..Served::default() }
    }

    /// Changes by other processes to CPUs or scheduling of the answering thread, in finished sessions.
    #[must_use]
    pub fn changed(&self) -> Option<&str> {
        self.changed.get().map(String::as_str)
    }

    /// A message of another version than ours came: the first call after that returns what to do about it.
    pub fn take_other_version(&self) -> Option<NotAMessage> {
        self.version
            .swap(0, Ordering::Relaxed)
            .checked_sub(1)
            .map(|version| NotAMessage::Version(version as u8))
    }

    pub(super) fn spoil(&self, error: NotAMessage) {
        count(&self.damaged, 1);
        if let NotAMessage::Version(version) = error {
            self.note(version);
        }
    }

    pub(super) fn note(&self, version: u8) {
        self.version.store(u64::from(version) + 1, Ordering::Relaxed);
    }

    /// The answering thread, once it runs; `None` in a PID namespace too.
    #[must_use]
    pub fn thread(&self) -> Option<Tid> {
        Some(Tid(self.tid.load(Ordering::Acquire))).filter(|tid| tid.0 > 0)
    }
}

/// Only one thread writes.
#[inline]
pub(super) fn count(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed) + by, Ordering::Relaxed);
}

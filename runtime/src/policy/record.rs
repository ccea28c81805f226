//! Events of the threads, in order: a ring that keeps the newest, for tools that explain why a thread was late. Off by
//! default; if on, one write of 40 bytes per event, and no allocation.

use super::thread::{State, Wait};
use super::{Outcome, Scheduler, ThreadId, NONE};

/// An event of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// It has become ready; by the running thread, or by a time or a descriptor.
    Ready {
        /// The thread that released it; `None`: no thread of the runtime.
        by: Option<ThreadId>,
    },
    /// It runs from now on; the previous thread, if still ready, was preempted or has yielded.
    Runs,
    /// It waits.
    Waits(Wait),
    /// It has ended.
    Ends,
    /// An event of the program ([`crate::note`]).
    Note {
        /// The program's own number.
        kind: u32,
        /// And value.
        value: u64,
    },
}

/// One event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Happened {
    /// When, in ns of `CLOCK_MONOTONIC`.
    pub at: u64,
    /// Its thread.
    pub thread: ThreadId,
    /// Its priority at that time, including inheritance.
    pub priority: u8,
    /// What.
    pub what: What,
}

/// The ring.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    ring: Vec<Happened>,
    room: usize,
    written: u64,
}

impl Recorder {
    /// Keeps the newest `room` events.
    pub(super) fn new(room: usize) -> Recorder {
        Recorder { ring: Vec::with_capacity(room), room, written: 0 }
    }

    fn push(&mut self, happened: Happened) {
        match self.ring.len() < self.room {
            true => self.ring.push(happened),
            false => self.ring[(self.written % self.room as u64) as usize] = happened,
        }
        self.written += 1;
    }
}

impl Scheduler {
    /// Starts keeping events, the newest `room` of them; 0: none.
    pub fn start_recording(&mut self, room: usize) {
        self.recorder = (room > 0).then(|| Recorder::new(room));
        self.records = room > 0;
    }

    /// Stops recording; recorded events stay.
    pub fn stop_recording(&mut self) {
        self.records = false;
    }

    /// The kept events, oldest first, and the number of older ones that were overwritten.
    #[must_use]
    pub fn recorded(&self) -> (Vec<Happened>, u64) {
        let Some(recorder) = &self.recorder else { return (Vec::new(), 0) };
        let kept = recorder.ring.len() as u64;
        let oldest = if kept == 0 { 0 } else { (recorder.written % kept) as usize };
        let oldest = if recorder.written > kept { oldest } else { 0 };
        let (newer, older) = recorder.ring.split_at(oldest);
        (older.iter().chain(newer).copied().collect(), recorder.written - kept)
    }

    /// Records an event of the running thread's program.
    pub fn note(&mut self, kind: u32, value: u64, now: u64) {
        if self.current != NONE {
            self.record(self.current, now, What::Note { kind, value });
        }
    }

    #[inline]
    pub(super) fn record(&mut self, id: u32, at: u64, what: What) {
        if self.records {
            self.keep(id, at, what);
        }
    }

    /// Before a thread is made ready: the thread that does it.
    #[inline]
    pub(super) fn record_ready(&mut self, id: u32, at: u64, outcome: Outcome) {
        if !self.records {
            return;
        }
        let by_itself = match self.threads[id as usize].state {
            State::Blocked(Wait::Sleep | Wait::Release | Wait::Io) => true,
            _ => outcome == Outcome::TimedOut,
        };
        let by = (!by_itself && self.current != NONE).then_some(ThreadId(self.current));
        self.keep(id, at, What::Ready { by });
    }

    #[cold]
    fn keep(&mut self, id: u32, at: u64, what: What) {
        let priority = self.threads[id as usize].urgency.priority;
        if let Some(recorder) = &mut self.recorder {
            recorder.push(Happened { at, thread: ThreadId(id), priority, what });
        }
    }

    /// The earliest time for which a thread waits, of its deadlines and replenishments, or [`super::NEVER`].
    #[must_use]
    pub fn next_timer(&self) -> u64 {
        self.timers.earliest()
    }
}

//! Timed events: a binary heap of absolute times with one slot for each (thread, reason).
//!
//! All memory is allocated once; setting, clearing and popping are O(log n) and never allocate.

use super::{NEVER, NONE};

/// Why a thread's timer expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reason {
    /// A wait ends: sleep, timeout, release of the next job.
    Wake = 0,
    /// The job's deadline.
    Deadline = 1,
    /// A sporadic server gets capacity back.
    Replenish = 2,
}

const REASONS: u32 = 3;

/// The heap. Times are absolute, in ns.
#[derive(Debug)]
pub struct Timers {
    heap: Vec<u32>,
    /// By slot: the time, and the index in `heap` (or `NONE`).
    slots: Vec<(u64, u32)>,
}

impl Timers {
    /// Room for the timers of `threads` threads.
    #[must_use]
    pub fn new(threads: usize) -> Timers {
        let slots = threads * REASONS as usize;
        Timers { heap: Vec::with_capacity(slots), slots: vec![(NEVER, NONE); slots] }
    }

    /// The earliest time, or [`NEVER`].
    #[must_use]
    #[inline]
    pub fn earliest(&self) -> u64 {
        self.heap.first().map_or(NEVER, |&slot| self.slots[slot as usize].0)
    }

    /// When this timer expires, or [`NEVER`].
    #[must_use]
    pub fn at(&self, thread: u32, reason: Reason) -> u64 {
        self.slots[slot(thread, reason) as usize].0
    }

    /// Sets a timer, even if it is set already. [`NEVER`] clears it.
    pub fn set(&mut self, thread: u32, reason: Reason, time: u64) {
        let slot = slot(thread, reason);
        if time == NEVER {
            return self.clear_slot(slot);
        }
        let (_, place) = self.slots[slot as usize];
        self.slots[slot as usize].0 = time;
        if place == NONE {
            self.heap.push(slot);
            self.slots[slot as usize].1 = self.heap.len() as u32 - 1;
            self.up(self.heap.len() - 1);
        } else {
            let place = self.up(place as usize);
            self.down(place);
        }
    }

    /// Clears a timer; one that is not set stays so.
    #[inline]
    pub fn clear(&mut self, thread: u32, reason: Reason) {
        self.clear_slot(slot(thread, reason));
    }

    /// Removes the earliest timer that has expired at `now`. Among equal times the order is arbitrary.
    pub fn pop(&mut self, now: u64) -> Option<(u32, Reason, u64)> {
        let slot = *self.heap.first()?;
        let time = self.slots[slot as usize].0;
        if time > now {
            return None;
        }
        self.clear_slot(slot);
        let reason = match slot % REASONS {
            0 => Reason::Wake,
            1 => Reason::Deadline,
            _ => Reason::Replenish,
        };
        Some((slot / REASONS, reason, time))
    }

    fn clear_slot(&mut self, slot: u32) {
        let (_, place) = std::mem::replace(&mut self.slots[slot as usize], (NEVER, NONE));
        if place == NONE {
            return;
        }
        let Some(last) = self.heap.pop() else { return };
        if last != slot {
            self.put(place as usize, last);
            let place = self.up(place as usize);
            self.down(place);
        }
    }

    fn put(&mut self, place: usize, slot: u32) {
        self.heap[place] = slot;
        self.slots[slot as usize].1 = place as u32;
    }

    fn time(&self, place: usize) -> u64 {
        self.slots[self.heap[place] as usize].0
    }

    fn up(&mut self, mut place: usize) -> usize {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.time(parent) <= self.time(place) {
                break;
            }
            self.swap(parent, place);
            place = parent;
        }
        place
    }

    fn down(&mut self, mut place: usize) {
        loop {
            let mut least = place;
            for child in [2 * place + 1, 2 * place + 2] {
                if child < self.heap.len() && self.time(child) < self.time(least) {
                    least = child;
                }
            }
            if least == place {
                return;
            }
            self.swap(least, place);
            place = least;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        let (slot_a, slot_b) = (self.heap[a], self.heap[b]);
        self.put(a, slot_b);
        self.put(b, slot_a);
    }
}

fn slot(thread: u32, reason: Reason) -> u32 {
    thread * REASONS + reason as u32
}

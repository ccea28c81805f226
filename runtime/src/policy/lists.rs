//! The ready queue and the wait lists: doubly linked through the threads themselves, so that nothing allocates.
//!
//! A thread is in at most one list. Within a level the order is by deadline, then by arrival: a list of threads without
//! deadlines is POSIX's FIFO. Inserting walks past equal or later deadlines: constant for FIFO, linear in the level's
//! length for EDF.

use super::thread::Thread;
use super::{Urgency, NONE, PRIORITIES};

/// One list: its ends.
#[derive(Clone, Copy, Debug)]
pub struct List {
    head: u32,
    tail: u32,
}

impl Default for List {
    fn default() -> List {
        List { head: NONE, tail: NONE }
    }
}

impl List {
    /// The most urgent thread, or `None` if the list is empty.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// Inserts after all threads of equal urgency.
    #[inline]
    pub fn insert_last(&mut self, threads: &mut [Thread], id: u32) {
        let urgency = threads[id as usize].urgency;
        let mut after = self.tail;
        while after != NONE && urgency.before(threads[after as usize].urgency) {
            after = threads[after as usize].prev;
        }
        self.link(threads, after, id);
    }

    /// Inserts before all threads of equal urgency: a preempted thread, or one whose priority a mutex changed.
    #[inline]
    pub fn insert_first(&mut self, threads: &mut [Thread], id: u32) {
        let urgency = threads[id as usize].urgency;
        let mut before = self.head;
        while before != NONE && threads[before as usize].urgency.before(urgency) {
            before = threads[before as usize].next;
        }
        let after = if before == NONE { self.tail } else { threads[before as usize].prev };
        self.link(threads, after, id);
    }

    #[inline]
    fn link(&mut self, threads: &mut [Thread], after: u32, id: u32) {
        let before = if after == NONE { self.head } else { threads[after as usize].next };
        threads[id as usize].prev = after;
        threads[id as usize].next = before;
        match after {
            NONE => self.head = id,
            _ => threads[after as usize].next = id,
        }
        match before {
            NONE => self.tail = id,
            _ => threads[before as usize].prev = id,
        }
    }

    /// Removes a thread, which must be in this list. True: it was the last.
    #[inline]
    pub fn remove(&mut self, threads: &mut [Thread], id: u32) -> bool {
        let (prev, next) = (threads[id as usize].prev, threads[id as usize].next);
        match prev {
            NONE => self.head = next,
            _ => threads[prev as usize].next = next,
        }
        match next {
            NONE => self.tail = prev,
            _ => threads[next as usize].prev = prev,
        }
        threads[id as usize].prev = NONE;
        threads[id as usize].next = NONE;
        prev == NONE && next == NONE
    }
}

/// The ready threads, without the running one: a list per priority, and a bit per non-empty list.
#[derive(Clone, Debug)]
pub struct ReadyQueue {
    levels: [List; PRIORITIES as usize],
    occupied: [u64; 2],
}

impl Default for ReadyQueue {
    fn default() -> ReadyQueue {
        ReadyQueue { levels: [List::default(); PRIORITIES as usize], occupied: [0; 2] }
    }
}

impl ReadyQueue {
    /// The most urgent ready thread.
    #[must_use]
    #[inline]
    pub fn top(&self) -> Option<u32> {
        let level = if self.occupied[1] != 0 {
            127 - self.occupied[1].leading_zeros()
        } else if self.occupied[0] != 0 {
            63 - self.occupied[0].leading_zeros()
        } else {
            return None;
        };
        self.levels[level as usize].first()
    }

    /// Whether a thread of at least this priority is ready.
    #[must_use]
    pub fn any_as_urgent(&self, threads: &[Thread], urgency: Urgency) -> bool {
        self.top().is_some_and(|top| !urgency.before(threads[top as usize].urgency))
    }

    /// Inserts after its equals.
    #[inline]
    pub fn insert_last(&mut self, threads: &mut [Thread], id: u32) {
        let level = self.occupy(threads[id as usize].urgency.priority);
        self.levels[level].insert_last(threads, id);
    }

    /// Inserts before its equals.
    #[inline]
    pub fn insert_first(&mut self, threads: &mut [Thread], id: u32) {
        let level = self.occupy(threads[id as usize].urgency.priority);
        self.levels[level].insert_first(threads, id);
    }

    /// Removes `first`, the first of its list, and inserts `last` of the same urgency after its equals.
    #[inline(always)]
    pub(super) fn rotate(&mut self, threads: &mut [Thread], first: u32, last: u32) {
        let list = &mut self.levels[usize::from(threads[first as usize].urgency.priority)];
        let second = std::mem::replace(&mut threads[first as usize].next, NONE);
        if second == NONE {
            // It was alone: the list is never empty.
            (list.head, list.tail) = (last, last);
            (threads[last as usize].prev, threads[last as usize].next) = (NONE, NONE);
            return;
        }
        threads[second as usize].prev = NONE;
        list.head = second;
        list.insert_last(threads, last);
    }

    #[inline]
    fn occupy(&mut self, priority: u8) -> usize {
        self.occupied[usize::from(priority >> 6)] |= 1 << (priority & 63);
        usize::from(priority)
    }

    /// Removes a thread. Its urgency must be the one it was inserted with.
    #[inline]
    pub fn remove(&mut self, threads: &mut [Thread], id: u32) {
        let priority = threads[id as usize].urgency.priority;
        if self.levels[usize::from(priority)].remove(threads, id) {
            self.occupied[usize::from(priority >> 6)] &= !(1 << (priority & 63));
        }
    }
}

//! The ring's protocol: reserve, write, commit, and the packet switch. `trace_ring.h` is the same in C.
//!
//! One thread writes a ring, so no instruction needs a LOCK prefix; only a signal handler of the same thread can run
//! between two instructions, and it always runs to completion. Hence:
//! - A record is reserved by a compare-exchange that is atomic against signals only, with the time read inside the
//!   retry loop, so that times never go backwards.
//! - Only the outermost writer commits (the one whose record starts at `committed`): by then every nested
//!   handler has finished. A nested record becomes visible with the record it interrupted.
//! - A packet switch first closes the packet, then `switching` rejects nested handlers (their event is counted).
//!
//! Written against [`Memory`], so that the tests run this very code with a handler, a consumer, or death at every step
//! (`tests/interleavings.rs`). The C version runs under ThreadSanitizer (`cli/tests/user_trace/examples.rs`).

use std::sync::atomic::{compiler_fence, AtomicU64, Ordering};

use crate::layout::{Packet, Ring, State, PACKET_HEADER_WORDS};

/// A shared 64-bit word.
pub trait Word {
    /// Atomic load.
    fn load(&self, order: Ordering) -> u64;
    /// Atomic store.
    fn store(&self, value: u64, order: Ordering);
    /// Stores `new` if the word holds `old`; atomic against signal handlers of this thread, not against other threads.
    fn replace_if(&self, old: u64, new: u64) -> bool;
    /// Adds; atomic against all threads. Only on slow paths.
    fn add(&self, more: u64);
    /// Release fence.
    fn fence();
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn load(&self, order: Ordering) -> u64 {
        AtomicU64::load(self, order)
    }
    #[inline(always)]
    fn store(&self, value: u64, order: Ordering) {
        AtomicU64::store(self, value, order);
    }
    #[inline(always)]
    fn replace_if(&self, old: u64, new: u64) -> bool {
        replace_if_local(self, old, new)
    }
    fn add(&self, more: u64) {
        self.fetch_add(more, Ordering::Relaxed);
    }
    fn fence() {
        std::sync::atomic::fence(Ordering::Release);
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn replace_if_local(word: &AtomicU64, old: u64, new: u64) -> bool {
    let replaced: u8;
    // SAFETY: `word` is valid for reads and writes; the instruction touches only the named registers.
    unsafe {
        std::arch::asm!(
            "cmpxchg qword ptr [{word}], {new}",
            "sete {replaced}",
            word = in(reg) word.as_ptr(),
            new = in(reg) new,
            replaced = out(reg_byte) replaced,
            inout("rax") old => _,
            options(nostack),
        );
    }
    replaced != 0
}

/// On other architectures, exclusive-access instructions cost the same with and without other threads.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn replace_if_local(word: &AtomicU64, old: u64, new: u64) -> bool {
    word.compare_exchange(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
}

/// The counter and `CLOCK_MONOTONIC` at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Value of the ring's counter.
    pub counter: u64,
    /// `CLOCK_MONOTONIC`, ns.
    pub ns: u64,
}

/// Access to a ring and its clock.
pub trait Memory {
    /// Its words.
    type W: Word;
    /// The header.
    fn ring(&self) -> &Ring<Self::W>;
    /// The header of packet `slot`.
    fn packet(&self, slot: u64) -> &Packet<Self::W>;
    /// The counter that records are stamped with.
    fn counter(&self) -> u64;
    /// The counter together with `CLOCK_MONOTONIC`.
    fn anchor(&self) -> Anchor;
    /// Thread (low half) and CPU (high half), see [`Packet::owner`].
    fn owner(&self) -> u64;
}

/// A reserved record.
#[derive(Clone, Copy, Debug)]
pub struct Reserved {
    /// Its start; pass it to [`commit`].
    pub start: State,
    /// Counter ticks since the packet began, below 2^32.
    pub ticks: u64,
}

/// Reserves `words` for a record; `None` if there is no room: the event has been counted as discarded.
#[inline(always)]
pub fn reserve<M: Memory>(memory: &M, words: u64) -> Option<Reserved> {
    let ring = memory.ring();
    loop {
        let old = State(ring.reserve.load(Ordering::Relaxed));
        let ticks = memory.counter().wrapping_sub(ring.begin_counter.load(Ordering::Relaxed));
        if old.words() + words > ring.packet_words.load(Ordering::Relaxed) || ticks >> 32 != 0 {
            if !switch(memory, words, ticks) {
                return None;
            }
            continue;
        }
        if ring.reserve.replace_if(old.0, old.plus(words).0) {
            return Some(Reserved { start: old, ticks });
        }
    }
}

/// Makes the record, and every record that a signal handler put after it, visible.
#[inline(always)]
pub fn commit<M: Memory>(memory: &M, start: State) {
    let ring = memory.ring();
    compiler_fence(Ordering::SeqCst);
    if ring.committed.load(Ordering::Relaxed) != start.0 {
        return; // nested: the interrupted writer commits for us
    }
    loop {
        let reached = ring.reserve.load(Ordering::Relaxed);
        ring.committed.store(reached, Ordering::Release);
        compiler_fence(Ordering::SeqCst); // check again only now: a handler may have reserved in between
        if ring.reserve.load(Ordering::Relaxed) == reached {
            return;
        }
    }
}

/// Closes the open packet and opens the next one. Bounded: no loop over packets, no system call.
///
/// `ticks` is the offset that did not fit in 32 bits, if that is the reason. `false`: the event is discarded and
/// counted.
#[cold]
pub fn switch<M: Memory>(memory: &M, words: u64, ticks: u64) -> bool {
    let ring = memory.ring();
    if words + PACKET_HEADER_WORDS > ring.packet_words.load(Ordering::Relaxed) {
        ring.too_large.add(1);
        ring.discarded.add(1);
        return false;
    }
    if ring.switching.load(Ordering::Relaxed) != 0 {
        ring.discarded.add(1); // we are a signal handler inside a switch
        return false;
    }
    ring.switching.store(1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let opened = close_and_open(memory, words, ticks);
    compiler_fence(Ordering::SeqCst);
    ring.switching.store(0, Ordering::Relaxed);
    if !opened {
        ring.discarded.add(1);
    }
    opened
}

/// Closes the open packet without opening another: its thread ends or changes its name.
pub fn close<M: Memory>(memory: &M) {
    let ring = memory.ring();
    ring.switching.store(1, Ordering::Relaxed);
    compiler_fence(Ordering::SeqCst);
    let old = shut(ring);
    let idle = ring.committed.load(Ordering::Relaxed) == old.0;
    finish_packet(memory, old, memory.anchor());
    if idle {
        ring.committed.store(old.closed().0, Ordering::Release);
    }
    compiler_fence(Ordering::SeqCst);
    ring.switching.store(0, Ordering::Relaxed);
}

/// Closes the packet to further records; returns what it holds.
fn shut<W: Word>(ring: &Ring<W>) -> State {
    loop {
        let old = State(ring.reserve.load(Ordering::Relaxed));
        if ring.reserve.replace_if(old.0, old.closed().0) {
            return old;
        }
    }
}

fn close_and_open<M: Memory>(memory: &M, words: u64, ticks: u64) -> bool {
    let ring = memory.ring();
    let open = State(ring.reserve.load(Ordering::Relaxed));
    let fits = open.words() + words <= ring.packet_words.load(Ordering::Relaxed);
    if fits && ticks >> 32 == 0 {
        return true; // a signal handler has switched between our check and this point
    }
    let old = shut(ring);
    let idle = ring.committed.load(Ordering::Relaxed) == old.0;
    let next = u64::from(old.seq().wrapping_add(1));
    let taken = if ring.overwrite.load(Ordering::Relaxed) == 0 {
        ring.consumed.load(Ordering::Acquire) as u32
    } else {
        State(ring.committed.load(Ordering::Relaxed)).seq() // never over a record still being written
    };
    let room = u64::from((next as u32).wrapping_sub(taken)) <= ring.packet_mask.load(Ordering::Relaxed);
    if !room && old.words() == State::CLOSED {
        return false; // still full: must be cheap, because it happens at every event
    }
    let now = memory.anchor();
    finish_packet(memory, old, now);
    let reached = if room { open_packet(memory, next, now) } else { old.closed() };
    if idle {
        ring.committed.store(reached.0, Ordering::Release);
    }
    // Last: from here on a signal handler can reserve, and must find `committed` at the start of its record.
    ring.reserve.store(reached.0, Ordering::Release);
    room
}

/// Writes the final values into the packet's header, unless it was closed before.
fn finish_packet<M: Memory>(memory: &M, old: State, now: Anchor) {
    if old.words() == State::CLOSED {
        return;
    }
    let ring = memory.ring();
    let packet = memory.packet(u64::from(old.seq()) & ring.packet_mask.load(Ordering::Relaxed));
    packet.end_counter.store(now.counter, Ordering::Relaxed);
    packet.end_ns.store(now.ns, Ordering::Relaxed);
    packet.used.store(old.words() | (old.events() << 32), Ordering::Relaxed);
    let before = ring.events_before.load(Ordering::Relaxed);
    ring.events_before.store(before + old.events(), Ordering::Relaxed);
}

fn open_packet<M: Memory>(memory: &M, next: u64, now: Anchor) -> State {
    let ring = memory.ring();
    let packet = memory.packet(next & ring.packet_mask.load(Ordering::Relaxed));
    packet.seq.store(next, Ordering::Relaxed);
    M::W::fence(); // a reader of the overwritten packet sees the new number before any new content
    packet.begin_counter.store(now.counter, Ordering::Relaxed);
    packet.begin_ns.store(now.ns, Ordering::Relaxed);
    packet.end_counter.store(0, Ordering::Relaxed);
    packet.discarded.store(ring.discarded.load(Ordering::Relaxed), Ordering::Relaxed);
    packet.owner.store(memory.owner(), Ordering::Relaxed);
    for (to, from) in packet.name.iter().zip(&ring.name) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    packet.events_before.store(ring.events_before.load(Ordering::Relaxed), Ordering::Relaxed);
    ring.begin_counter.store(now.counter, Ordering::Relaxed);
    State::new(next, 0, PACKET_HEADER_WORDS)
}

//! The ring's protocol, run as it is, with a signal handler or the consumer at every step of the writer: nothing that
//! was committed may be lost, torn, seen twice or seen in another order, and every event is accounted for.
//!
//! The model counts accesses to the ring's words. A plan says at which of them a handler runs (to its end, as signal
//! handlers do; handlers may be interrupted too) and when the consumer looks. All plans up to a depth are tried.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::Ordering;

use lathunt_tracer::layout::{record_word, Packet, Ring, State, PACKET_HEADER_WORDS};
use lathunt_tracer::ring::{close, commit, reserve, Anchor, Memory, Word};

/// Tiny packets, so that switches happen all the time: two records of two words each.
const PACKET_WORDS: u64 = PACKET_HEADER_WORDS + 4;
const PACKETS: u64 = 2;

thread_local! {
    static WORLD: RefCell<Option<Rc<World>>> = const { RefCell::new(None) };
}

/// What happens at a step.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Intrusion {
    /// A handler emits this many events.
    Handler(u32),
    /// The consumer takes what is committed.
    Consumer,
}

struct ModelWord(Cell<u64>);

impl ModelWord {
    fn step() {
        let world = WORLD.with(|world| world.borrow().clone());
        if let Some(world) = world {
            world.step();
        }
    }
}

impl Word for ModelWord {
    fn load(&self, _: Ordering) -> u64 {
        ModelWord::step();
        self.0.get()
    }
    fn store(&self, value: u64, _: Ordering) {
        ModelWord::step();
        self.0.set(value);
    }
    fn replace_if(&self, old: u64, new: u64) -> bool {
        ModelWord::step();
        let equal = self.0.get() == old;
        if equal {
            self.0.set(new);
        }
        equal
    }
    fn add(&self, more: u64) {
        ModelWord::step();
        self.0.set(self.0.get() + more);
    }
    fn fence() {}
}

struct World {
    ring: Ring<ModelWord>,
    /// Packet headers and records, word by word.
    words: Vec<ModelWord>,
    clock: Cell<u64>,
    steps: Cell<u64>,
    plan: Vec<(u64, Intrusion)>,
    busy_consumer: Cell<bool>,
    next_event: Cell<u64>,
    emitted: Cell<u64>,
    /// Events in the order of their stamps, as (event, stamp).
    seen: RefCell<Vec<(u64, u64)>>,
    position: Cell<(u32, u64)>,
}

fn word() -> ModelWord {
    ModelWord(Cell::new(0))
}

impl World {
    fn new(overwrite: bool, plan: Vec<(u64, Intrusion)>, first_seq: u32) -> Rc<World> {
        let ring = Ring {
            reserve: word(),
            committed: word(),
            begin_counter: word(),
            packet_words: word(),
            packet_mask: word(),
            clock: word(),
            switching: word(),
            discarded: word(),
            consumed: word(),
            overwrite: word(),
            drained: word(),
            discarded_before: word(),
            spare: [word(), word(), word(), word()],
            owner: word(),
            generation: word(),
            name: [word(), word()],
            bytes: word(),
            events_before: word(),
            too_large: word(),
        };
        let full = State::new(u64::from(first_seq.wrapping_sub(1)), 0, State::CLOSED);
        ring.reserve.0.set(full.0);
        ring.committed.0.set(full.0);
        ring.packet_words.0.set(PACKET_WORDS);
        ring.packet_mask.0.set(PACKETS - 1);
        ring.consumed.0.set(u64::from(first_seq));
        ring.overwrite.0.set(u64::from(overwrite));
        Rc::new(World {
            ring,
            words: (0..PACKETS * PACKET_WORDS).map(|_| word()).collect(),
            clock: Cell::new(0),
            steps: Cell::new(0),
            plan,
            busy_consumer: Cell::new(false),
            next_event: Cell::new(1),
            emitted: Cell::new(0),
            seen: RefCell::default(),
            position: Cell::new((first_seq, PACKET_HEADER_WORDS)),
        })
    }

    fn step(&self) {
        if self.busy_consumer.get() {
            return; // the consumer's own look is one step: it only loads, copies committed words, and stores one word
        }
        let step = self.steps.replace(self.steps.get() + 1);
        for &(at, intrusion) in &self.plan {
            if at == step {
                match intrusion {
                    Intrusion::Handler(events) => (0..events).for_each(|_| self.emit()),
                    Intrusion::Consumer => self.consume(),
                }
            }
        }
    }

    fn emit(&self) {
        let event = self.next_event.replace(self.next_event.get() + 1);
        self.emitted.set(self.emitted.get() + 1);
        if let Some(reserved) = reserve(&self, 2) {
            let at = self.at(u64::from(reserved.start.seq()), reserved.start.words());
            self.words[at].store(record_word(1, 16, reserved.ticks), Ordering::Relaxed);
            self.words[at + 1].store(event, Ordering::Relaxed);
            commit(&self, reserved.start);
        }
    }

    fn at(&self, seq: u64, word: u64) -> usize {
        ((seq % PACKETS) * PACKET_WORDS + word) as usize
    }

    fn peek(&self, seq: u32, word: u64) -> u64 {
        self.words[self.at(u64::from(seq), word)].0.get()
    }

    /// What the consumer does in discard mode.
    fn consume(&self) {
        self.busy_consumer.set(true);
        let committed = State(self.ring.committed.0.get());
        loop {
            let (seq, from) = self.position.get();
            let behind = committed.seq().wrapping_sub(seq) as i32;
            if behind < 0 {
                break;
            }
            let closed = behind > 0 || committed.words() == State::CLOSED;
            let to = if closed { self.peek(seq, 6) & 0xffff_ffff } else { committed.words() };
            self.read(seq, from, to);
            if !closed {
                self.position.set((seq, to));
                break;
            }
            self.position.set((seq.wrapping_add(1), PACKET_HEADER_WORDS));
        }
        self.ring.consumed.0.set(u64::from(self.position.get().0));
        self.busy_consumer.set(false);
    }

    fn read(&self, seq: u32, from: u64, to: u64) {
        assert_eq!(self.peek(seq, 0) as u32, seq, "the packet is the one that was committed");
        for word in (from..to).step_by(2) {
            let header = self.peek(seq, word);
            assert_eq!(header & 0xffff_ffff, 16 << 16 | 1, "a committed record is whole");
            self.seen.borrow_mut().push((self.peek(seq, word + 1), self.peek(seq, 1) + (header >> 32)));
        }
    }

    /// What a snapshot reads in overwrite mode: all packets that are still whole.
    fn read_all(&self) {
        let committed = State(self.ring.committed.0.get());
        for back in (0..PACKETS as u32).rev() {
            let seq = committed.seq().wrapping_sub(back);
            if self.peek(seq, 0) as u32 == seq && self.peek(seq, 6) + self.peek(seq, 1) > 0 {
                let open = back == 0 && committed.words() != State::CLOSED;
                let to = if open { committed.words() } else { self.peek(seq, 6) & 0xffff_ffff };
                self.read(seq, PACKET_HEADER_WORDS, to);
            }
        }
    }
}

impl Memory for &World {
    type W = ModelWord;
    fn ring(&self) -> &Ring<ModelWord> {
        &self.ring
    }
    fn packet(&self, slot: u64) -> &Packet<ModelWord> {
        let at = (slot * PACKET_WORDS) as usize;
        let words: &[ModelWord] = &self.words[at..at + PACKET_HEADER_WORDS as usize];
        // SAFETY: Packet is repr(C) and consists of exactly these words.
        unsafe { &*words.as_ptr().cast() }
    }
    fn counter(&self) -> u64 {
        ModelWord::step();
        self.clock.replace(self.clock.get() + 1)
    }
    fn anchor(&self) -> Anchor {
        let now = self.counter();
        Anchor { counter: now, ns: now }
    }
    fn owner(&self) -> u64 {
        0
    }
}

/// Runs five events under a plan and checks every promise; the number of steps it took.
fn run(overwrite: bool, plan: &[(u64, Intrusion)], first_seq: u32) -> u64 {
    let world = World::new(overwrite, plan.to_vec(), first_seq);
    WORLD.with(|here| *here.borrow_mut() = Some(world.clone()));
    for _ in 0..5 {
        world.emit();
    }
    close(&&*world);
    WORLD.with(|here| *here.borrow_mut() = None);
    if overwrite {
        world.read_all()
    } else {
        world.consume()
    }
    let seen = world.seen.borrow();
    let discarded = world.ring.discarded.0.get();
    let mut events: Vec<_> = seen.iter().map(|&(event, _)| event).collect();
    assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "times go forward: {plan:?} {seen:?}");
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), seen.len(), "no event comes twice: {plan:?}");
    let committed = State(world.ring.committed.0.get());
    assert_eq!(committed.0, world.ring.reserve.0.get(), "nothing stays uncommitted: {plan:?}");
    let written = world.ring.events_before.0.get();
    assert_eq!(written + discarded, world.emitted.get(), "emitted = written + discarded: {plan:?}");
    if !overwrite {
        assert_eq!(seen.len() as u64, written, "written = read: {plan:?}");
    }
    world.steps.get()
}

#[test]
fn one_intruder_at_every_step_loses_nothing() {
    for overwrite in [false, true] {
        for intrusion in
            [Intrusion::Handler(1), Intrusion::Handler(2), Intrusion::Handler(9), Intrusion::Consumer]
        {
            let steps = run(overwrite, &[], 1);
            for at in 0..steps {
                if !(overwrite && intrusion == Intrusion::Consumer) {
                    run(overwrite, &[(at, intrusion)], 1);
                }
            }
        }
    }
}

#[test]
fn two_intruders_at_every_pair_of_steps_lose_nothing() {
    let kinds = [Intrusion::Handler(1), Intrusion::Handler(3), Intrusion::Consumer];
    let mut plans = 0u64;
    for first in kinds {
        for second in kinds {
            let steps = run(false, &[(0, first)], 1) + 40;
            for a in 0..steps {
                for b in a..steps {
                    run(false, &[(a, first), (b, second)], 1);
                    plans += 1;
                }
            }
        }
    }
    assert!(plans > 10_000, "only {plans} plans");
}

#[test]
fn packet_numbers_wrap_unharmed() {
    for at in 0..run(false, &[], u32::MAX) {
        run(false, &[(at, Intrusion::Handler(2))], u32::MAX);
        run(false, &[(at, Intrusion::Consumer)], u32::MAX);
        run(true, &[(at, Intrusion::Handler(9))], u32::MAX);
    }
}

//! Objects that fibers wait for: the mutexes of the runtime, and conditions, semaphores and barriers whose waiters are
//! released individually, with the time of the release, like those of kernel threads ([`super::super::queues`]).
//!
//! All of them belong to one kernel thread. Any access to a queue holds the scheduler, so no fiber sees a partial update.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use lathunt_core::tasks::program::{Program, Rule};
use lathunt_core::tasks::set;
use lathunt_core::time::{Mono, Ns};
use lathunt_runtime::policy::{Params, Policy, Protocol, NEVER};
use lathunt_runtime::sync::{MutexByHand, Semaphore};
use lathunt_runtime::{Error, Thread};

/// Priority of the fiber that starts and ends the others.
pub const MAIN: u8 = 98;
/// Priority of all fibers with deadlines, and of those without.
const EDF: u8 = 2;
const BACKGROUND: u8 = 1;

/// Priorities of the set as ranks for the runtime, from 1 on.
#[derive(Debug)]
pub struct Levels(Vec<i32>);

impl Levels {
    pub fn of(program: &Program) -> Levels {
        let threads = program.threads.iter().chain(program.templates.values());
        let mut all: Vec<i32> = threads.map(|thread| thread.rule.priority()).collect();
        all.extend(program.mutexes.iter().map(|mutex| mutex.ceiling));
        all.sort_unstable();
        all.dedup();
        Levels(all)
    }

    /// 1 to 97. With more different priorities than that, neighbours share one.
    pub fn of_priority(&self, priority: i32) -> u8 {
        let most = usize::from(MAIN - 1);
        let rank = self.0.partition_point(|known| *known < priority);
        let rank = if self.0.len() > most { rank * most / self.0.len() } else { rank };
        u8::try_from(rank + 1).unwrap_or(MAIN - 1).min(MAIN - 1)
    }

    /// The priority of the set that has this level; the level itself if no thread has it.
    pub fn priority(&self, level: u8) -> i32 {
        let known = self.0.iter().copied().filter(|priority| *priority > 0);
        known.into_iter().find(|priority| self.of_priority(*priority) == level).unwrap_or(i32::from(level))
    }

    /// How the runtime schedules a fiber with this rule.
    pub fn params(&self, rule: Rule) -> Params {
        let (policy, priority, deadline) = match rule {
            Rule::FiberEdf(Some(deadline)) => (Policy::Edf, EDF, Some(deadline.0.max(1))),
            Rule::FiberEdf(None) => (Policy::Fifo, BACKGROUND, None),
            other => (Policy::Fifo, self.of_priority(other.priority()), None),
        };
        Params { policy, priority, deadline, ..Params::default() }
    }
}

/// Where one fiber sleeps until it is released, and its urgency.
pub struct Place {
    sleep: Semaphore,
    released: Cell<Option<Mono>>,
    /// Set once it runs.
    pub thread: Cell<Option<Thread>>,
    /// Scheduled by deadlines; else by its priority.
    is_edf: bool,
    priority: u8,
    deadline: Cell<u64>,
    /// Its next job begins with the signal, with this relative deadline.
    on_signal: Cell<Option<Option<Ns>>>,
    /// Number of fibers of the run that wait for a release.
    waiting: Arc<AtomicUsize>,
}

impl Place {
    /// `waiting`: the number of fibers of the run that wait for a release.
    pub fn new(params: &Params, waiting: &Arc<AtomicUsize>) -> Result<Place, Error> {
        Ok(Place {
            sleep: Semaphore::new(0)?,
            released: Cell::new(None),
            thread: Cell::new(None),
            is_edf: params.policy == Policy::Edf,
            priority: params.priority,
            deadline: Cell::new(NEVER),
            on_signal: Cell::new(None),
            waiting: Arc::clone(waiting),
        })
    }

    /// Its next job, released at a time.
    pub fn job(&self, release: Mono, relative: Option<Ns>) {
        self.on_signal.set(None);
        let deadline = relative.map_or(NEVER, |relative| release.0.saturating_add(relative.0));
        self.deadline.set(deadline);
        if let Some(thread) = self.thread.get().filter(|_| self.is_edf) {
            // Fails only for a thread that is not an EDF thread, or has ended.
            let _ = thread.set_job(release.0, deadline);
        }
    }

    /// Its next job, released by a signal.
    pub fn job_on_signal(&self, relative: Option<Ns>) {
        self.on_signal.set(Some(relative));
    }

    /// The signal came at `at`.
    fn signalled(&self, at: Mono) {
        if let Some(relative) = self.on_signal.take() {
            self.job(at, relative);
        }
    }

    fn release(&self, at: Mono) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.signalled(at);
        self.released.set(Some(at));
        // It counts to one: a place is released once before the next sleep.
        let _ = self.sleep.post();
    }

    /// Sleeps until it is released; `None`: the run ends.
    pub fn sleep(&self) -> Option<Mono> {
        self.sleep.take(None).ok()?;
        self.released.take()
    }

    /// Smaller is more urgent.
    fn turn(&self, at: Mono) -> u64 {
        match (self.is_edf, self.on_signal.get()) {
            // Among threads with deadlines one without comes last.
            (false, _) => NEVER - u64::from(self.priority),
            (true, None) => self.deadline.get(),
            (true, Some(relative)) => relative.map_or(NEVER, |relative| at.0.saturating_add(relative.0)),
        }
    }
}

/// Waiters. The most urgent goes first, then the first to arrive.
#[derive(Default)]
pub struct Queue(RefCell<VecDeque<Rc<Place>>>);

impl Queue {
    fn pop(&self, at: Mono) -> Option<Rc<Place>> {
        let mut waiters = self.0.borrow_mut();
        let turns = waiters.iter().map(|place| place.turn(at));
        let (first, _) = turns.enumerate().min_by_key(|(_, turn)| *turn)?;
        waiters.remove(first)
    }

    pub fn join(&self, place: &Rc<Place>) {
        place.waiting.fetch_add(1, Ordering::AcqRel);
        self.0.borrow_mut().push_back(Rc::clone(place));
    }

    /// Releases one; false: no waiter.
    pub fn signal(&self, at: Mono) -> bool {
        self.pop(at).is_some_and(|place| {
            place.release(at);
            true
        })
    }

    pub fn broadcast(&self, at: Mono) {
        while self.signal(at) {}
    }
}

/// A counting semaphore that starts at 0.
#[derive(Default)]
pub struct Counter {
    /// Times of posts that are not taken yet.
    times: RefCell<VecDeque<Mono>>,
    waiters: Queue,
}

/// Maximum number of posts kept.
const MOST_POSTS: usize = 1 << 20;

impl Counter {
    /// Counts up; false: it is full.
    pub fn post(&self, at: Mono) -> bool {
        if self.waiters.signal(at) {
            return true;
        }
        let mut times = self.times.borrow_mut();
        let has_room = times.len() < MOST_POSTS;
        if has_room {
            times.push_back(at);
        }
        has_room
    }

    /// The time of a post; `None`: the caller has joined the waiters.
    pub fn take(&self, place: &Rc<Place>) -> Option<Mono> {
        let time = self.times.borrow_mut().pop_front();
        match time {
            Some(at) => place.signalled(at),
            None => self.waiters.join(place),
        }
        time
    }
}

/// A barrier.
pub struct Gate {
    users: usize,
    waiters: Queue,
}

impl Gate {
    /// Opens it as the last to arrive; false: the caller has joined the waiters.
    pub fn arrive(&self, place: &Rc<Place>, at: Mono) -> bool {
        let is_last = self.waiters.0.borrow().len() + 1 >= self.users;
        match is_last {
            true => {
                self.waiters.broadcast(at);
                place.signalled(at);
            }
            false => self.waiters.join(place),
        }
        is_last
    }
}

/// The tables of all objects.
pub struct Tables {
    pub mutexes: Vec<MutexByHand>,
    pub conditions: Vec<Queue>,
    pub semaphores: Vec<Counter>,
    pub barriers: Vec<Gate>,
    pub levels: Levels,
}

impl Tables {
    pub fn new(program: &Program) -> Result<Tables, Error> {
        let levels = Levels::of(program);
        let protocol = |mutex: &lathunt_core::tasks::program::Mutex| match (mutex.protocol, mutex.floor) {
            (set::Protocol::None, _) => Protocol::None,
            (set::Protocol::Inherit, _) => Protocol::Inherit,
            (set::Protocol::Ceiling, Some(floor)) => Protocol::Floor(floor.0.max(1)),
            (set::Protocol::Ceiling, None) => Protocol::Ceiling(levels.of_priority(mutex.ceiling)),
        };
        let mutexes = program.mutexes.iter().map(|mutex| MutexByHand::new(protocol(mutex)));
        Ok(Tables {
            mutexes: mutexes.collect::<Result<_, _>>()?,
            conditions: program.conditions.iter().map(|_| Queue::default()).collect(),
            semaphores: program.semaphores.iter().map(|_| Counter::default()).collect(),
            barriers: program
                .barriers
                .iter()
                .map(|barrier| Gate { users: barrier.users as usize, waiters: Queue::default() })
                .collect(),
            levels,
        })
    }
}

//! Objects by which threads wait for each other: conditions, semaphores, barriers. Each waiter is queued with its priority
//! and released individually: none is released twice or without cause. A release carries its time, from which a job counts.

use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::Arc;

use lathunt_core::time::Mono;

use super::locks::{self, Inheriting, Refused};
use crate::clock;

/// Where one thread sleeps until it is released.
#[derive(Default)]
pub struct Place {
    released: AtomicU32,
    at: AtomicU64,
    /// Number of threads of the run that wait for a release.
    waiting: Arc<AtomicUsize>,
}

impl Place {
    /// `waiting`: the number of threads of the run that wait for a release.
    pub fn new(waiting: &Arc<AtomicUsize>) -> Place {
        Place { waiting: Arc::clone(waiting), ..Place::default() }
    }

    /// Sleeps until [`Place::release`]; returns its time, or `None` if the run ends first.
    fn sleep(&self, stop: &AtomicBool) -> Option<Mono> {
        while self.released.load(Ordering::Acquire) == 0 {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            locks::wait(&self.released, 0);
        }
        self.released.store(0, Ordering::Relaxed);
        Some(Mono(self.at.load(Ordering::Relaxed)))
    }

    fn release(&self, at: Mono) {
        self.waiting.fetch_sub(1, Ordering::AcqRel);
        self.at.store(at.0, Ordering::Relaxed);
        self.released.store(1, Ordering::Release);
        locks::wake(&self.released);
    }
}

/// A thread that may wait.
#[derive(Clone)]
pub struct Waiter {
    /// Where it sleeps.
    pub place: Arc<Place>,
    /// Its thread id.
    pub tid: u32,
    /// Its real-time priority: of several waiters the highest goes first.
    pub priority: i32,
}

impl Waiter {
    /// Joins a queue, from which it is released.
    fn join(&self, waiters: &mut VecDeque<Waiter>) {
        self.place.waiting.fetch_add(1, Ordering::AcqRel);
        waiters.push_back(self.clone());
    }
}

/// State protected by a priority-inheriting lock, so that a thread preempted in it delays no other for long.
struct Guarded<T> {
    lock: Inheriting,
    state: UnsafeCell<T>,
}

// SAFETY: `with` hands the state to one thread at a time.
unsafe impl<T: Send> Sync for Guarded<T> {}

impl<T> Guarded<T> {
    fn new(state: T) -> Guarded<T> {
        Guarded { lock: Inheriting::default(), state: UnsafeCell::new(state) }
    }

    fn with<R>(&self, tid: u32, act: impl FnOnce(&mut T) -> R) -> Result<R, Refused> {
        self.lock.lock(tid)?;
        // SAFETY: the lock is held, and `act` cannot take it again: it sees nothing but the state.
        let done = act(unsafe { &mut *self.state.get() });
        self.lock.unlock(tid);
        Ok(done)
    }
}

/// The waiter with the highest priority, the first among equals.
fn next(waiters: &mut VecDeque<Waiter>) -> Option<Waiter> {
    let highest = waiters.iter().map(|waiter| waiter.priority).max()?;
    let at = waiters.iter().position(|waiter| waiter.priority == highest)?;
    waiters.remove(at)
}

/// A condition: a signal without a waiter is lost, as in POSIX. Suspended threads wait on one too.
pub struct Condition(Guarded<VecDeque<Waiter>>);

impl Condition {
    pub fn new() -> Condition {
        Condition(Guarded::new(VecDeque::with_capacity(64)))
    }

    /// Joins the queue; then the caller unlocks its mutex and sleeps ([`sleep`]).
    pub fn join(&self, own: &Waiter) -> Result<(), Refused> {
        self.0.with(own.tid, |waiters| own.join(waiters))
    }

    /// Releases one waiter.
    pub fn signal(&self, tid: u32) -> Result<(), Refused> {
        let one = self.0.with(tid, next)?;
        one.inspect(|waiter| waiter.place.release(clock::mono()));
        Ok(())
    }

    /// Releases all, the highest priority first.
    pub fn broadcast(&self, tid: u32) -> Result<(), Refused> {
        let at = clock::mono();
        while let Some(waiter) = self.0.with(tid, next)? {
            waiter.place.release(at);
        }
        Ok(())
    }
}

/// Sleeps until released; returns the time of the release. `None`: the run ends.
pub fn sleep(own: &Waiter, stop: &AtomicBool) -> Option<Mono> {
    own.place.sleep(stop)
}

#[derive(Default)]
struct Posts {
    /// Times of posts that are not taken yet.
    times: VecDeque<Mono>,
    waiters: VecDeque<Waiter>,
}

/// A counting semaphore that starts at 0.
pub struct Semaphore(Guarded<Posts>);

/// Maximum number of posts kept: a mistake in the set must not exhaust the machine's memory.
const MOST_POSTS: usize = 1 << 20;

impl Semaphore {
    pub fn new() -> Semaphore {
        Semaphore(Guarded::new(Posts {
            times: VecDeque::with_capacity(1_024),
            waiters: VecDeque::with_capacity(64),
        }))
    }

    /// Counts up; false: it is full.
    pub fn post(&self, tid: u32) -> Result<bool, Refused> {
        let at = clock::mono();
        let (room, waiter) = self.0.with(tid, |posts| match next(&mut posts.waiters) {
            Some(waiter) => (true, Some(waiter)),
            None if posts.times.len() < MOST_POSTS => {
                posts.times.push_back(at);
                (true, None)
            }
            None => (false, None),
        })?;
        waiter.inspect(|waiter| waiter.place.release(at));
        Ok(room)
    }

    /// Counts down, waiting at 0; returns the time of the post. `None`: the run ends.
    pub fn wait(&self, own: &Waiter, stop: &AtomicBool) -> Result<Option<Mono>, Refused> {
        let at_once = self.0.with(own.tid, |posts| {
            let time = posts.times.pop_front();
            if time.is_none() {
                own.join(&mut posts.waiters);
            }
            time
        })?;
        Ok(at_once.or_else(|| own.place.sleep(stop)))
    }
}

/// A barrier that opens when all of its users have arrived; each waits for the others exactly once per round.
pub struct Barrier {
    users: usize,
    waiters: Guarded<VecDeque<Waiter>>,
}

impl Barrier {
    pub fn new(users: u32) -> Barrier {
        let users = users as usize;
        Barrier { users, waiters: Guarded::new(VecDeque::with_capacity(users)) }
    }

    /// Waits for the others; returns the arrival time of the last one. `None`: the run ends.
    pub fn wait(&self, own: &Waiter, stop: &AtomicBool) -> Result<Option<Mono>, Refused> {
        let mut open = VecDeque::new();
        let is_last = self.waiters.with(own.tid, |waiters| {
            let is_last = waiters.len() + 1 >= self.users;
            match is_last {
                true => std::mem::swap(waiters, &mut open),
                false => own.join(waiters),
            }
            is_last
        })?;
        if !is_last {
            return Ok(own.place.sleep(stop));
        }
        let at = clock::mono();
        while let Some(waiter) = next(&mut open) {
            waiter.place.release(at);
        }
        Ok(Some(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(priority: i32) -> Waiter {
        Waiter { place: Arc::default(), tid: crate::sched::tid().0 as u32, priority }
    }

    #[test]
    fn the_highest_waiter_goes_first_and_of_equal_ones_the_first() {
        let mut waiters: VecDeque<Waiter> = [5, 9, 9, 7].map(waiter).into();
        let second = Arc::clone(&waiters[1].place);
        let first = next(&mut waiters).unwrap();
        assert!(Arc::ptr_eq(&first.place, &second));
        let rest = std::iter::from_fn(|| next(&mut waiters)).map(|one| one.priority);
        assert_eq!(rest.collect::<Vec<_>>(), [9, 7, 5]);
    }

    #[test]
    fn no_thread_passes_a_barrier_twice_while_others_wait() {
        let (barrier, stop) = (Arc::new(Barrier::new(3)), Arc::new(AtomicBool::new(false)));
        let rounds: Vec<Arc<AtomicU32>> = (0..3).map(|_| Arc::default()).collect();
        let threads: Vec<_> = (0..3)
            .map(|at| {
                let (barrier, stop, rounds) = (Arc::clone(&barrier), Arc::clone(&stop), rounds.clone());
                std::thread::spawn(move || {
                    for _ in 0..2_000 {
                        barrier.wait(&waiter(0), &stop).unwrap().unwrap();
                        let mine = rounds[at].fetch_add(1, Ordering::SeqCst) + 1;
                        let others = rounds.iter().map(|other| other.load(Ordering::SeqCst));
                        assert!(others.map(|other| other.abs_diff(mine)).max() <= Some(1));
                    }
                })
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    }

    #[test]
    fn each_post_releases_once_and_carries_its_time() {
        let (semaphore, stop) = (Semaphore::new(), AtomicBool::new(false));
        let own = waiter(1);
        let before = clock::mono();
        assert!(semaphore.post(own.tid).unwrap() && semaphore.post(own.tid).unwrap());
        let after = clock::mono();
        for _ in 0..2 {
            let at = semaphore.wait(&own, &stop).unwrap().unwrap();
            assert!(before <= at && at <= after);
        }
        stop.store(true, Ordering::Relaxed);
        assert_eq!(semaphore.wait(&own, &stop), Ok(None), "a third one waits, until the run ends");
        let waiting = || own.place.waiting.load(Ordering::Relaxed);
        assert_eq!(waiting(), 1);
        assert!(semaphore.post(own.tid).unwrap());
        assert_eq!(waiting(), 0, "it is released, whether or not it runs");
    }
}

//! Mutexes, conditions, semaphores, barriers and message queues for Rust. All belong to the runtime of the kernel thread that
//! created them: none is `Send`.

use std::cell::UnsafeCell;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use crate::ops::{self, cancellation, limit, timed, waiting, with, Error};
use crate::policy::{Protocol, Refusal, Step};

mod by_hand;

pub use by_hand::MutexByHand;

type Here = PhantomData<*const ()>;

/// A mutex around a value.
pub struct Mutex<T> {
    id: u32,
    value: UnsafeCell<T>,
    _here: Here,
}

/// The mutex is held until this is dropped.
pub struct MutexGuard<'a, T> {
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    /// A mutex with a protocol against priority inversion.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(protocol: Protocol, value: T) -> Result<Mutex<T>, Error> {
        let id = with(|rt| rt.sched.new_mutex(protocol))??;
        Ok(Mutex { id, value: UnsafeCell::new(value), _here: PhantomData })
    }

    /// Locks it.
    ///
    /// # Errors
    /// See [`Error`]: deadlock, above the ceiling.
    #[inline]
    pub fn lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        self.lock_until(None)
    }

    /// Locks it, waiting until an absolute time in ns.
    ///
    /// # Errors
    /// See [`Error`].
    #[inline]
    pub fn lock_until(&self, until: Option<u64>) -> Result<MutexGuard<'_, T>, Error> {
        ops::lock(self.id, limit(until))?;
        Ok(MutexGuard { mutex: self })
    }

    /// Locks it if it is free.
    ///
    /// # Errors
    /// [`Refusal::WouldBlock`].
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, Error> {
        ops::lock(self.id, 0)?;
        Ok(MutexGuard { mutex: self })
    }
}

impl<T> Drop for Mutex<T> {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_mutex(self.id));
    }
}

impl<T> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        let _ = ops::unlock(self.mutex.id);
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        // SAFETY: held.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: held.
        unsafe { &mut *self.mutex.value.get() }
    }
}

/// A condition variable.
#[derive(Debug)]
pub struct Condition {
    id: u32,
    _here: Here,
}

impl Condition {
    /// A condition.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new() -> Result<Condition, Error> {
        Ok(Condition { id: with(|rt| rt.sched.new_condition())?, _here: PhantomData })
    }

    /// Unlocks, waits for a signal until an absolute time in ns, and locks again, in every case.
    ///
    /// # Errors
    /// See [`Error`]; the mutex is held again.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>, until: Option<u64>) -> Result<(), Error> {
        cancellation()?;
        let (mutex, until) = (guard.mutex.id, limit(until));
        timed(
            waiting(|rt| {
                let now = rt.now();
                rt.sched.wait_condition(self.id, mutex, until, now)
            }),
            until,
        )
    }

    /// Wakes the most urgent waiter.
    pub fn signal(&self) {
        let _ = with(|rt| {
            let now = rt.now();
            rt.sched.signal(self.id, now)
        });
    }

    /// Wakes all waiters.
    pub fn broadcast(&self) {
        let _ = with(|rt| {
            let now = rt.now();
            rt.sched.broadcast(self.id, now);
        });
    }
}

impl Drop for Condition {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_condition(self.id));
    }
}

/// A counting semaphore.
#[derive(Debug)]
pub struct Semaphore {
    id: u32,
    _here: Here,
}

impl Semaphore {
    /// A semaphore with the initial value `count`.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(count: u32) -> Result<Semaphore, Error> {
        Ok(Semaphore { id: with(|rt| rt.sched.new_semaphore(count))??, _here: PhantomData })
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    /// Takes one, waiting until an absolute time in ns.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn take(&self, until: Option<u64>) -> Result<(), Error> {
        cancellation()?;
        take(self.id, limit(until))
    }

    /// Takes one if available.
    ///
    /// # Errors
    /// [`Refusal::WouldBlock`].
    pub fn try_take(&self) -> Result<(), Error> {
        take(self.id, 0)
    }

    /// Posts one.
    ///
    /// # Errors
    /// [`Refusal::Overflow`].
    pub fn post(&self) -> Result<(), Error> {
        post(self.id)
    }
}

pub(crate) fn take(semaphore: u32, until: u64) -> Result<(), Error> {
    timed(
        waiting(|rt| {
            let now = rt.now();
            rt.sched.take(semaphore, until, now)
        }),
        until,
    )
}

pub(crate) fn post(semaphore: u32) -> Result<(), Error> {
    with(|rt| {
        let now = rt.now();
        rt.sched.post(semaphore, now)
    })?
    .map_err(Error::Refused)
}

impl Drop for Semaphore {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_semaphore(self.id));
    }
}

/// A barrier.
#[derive(Debug)]
pub struct Barrier {
    id: u32,
    _here: Here,
}

impl Barrier {
    /// A barrier for `threads` threads.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(threads: u32) -> Result<Barrier, Error> {
        Ok(Barrier { id: with(|rt| rt.sched.new_barrier(threads))??, _here: PhantomData })
    }

    /// Waits for the others. True for the last one to arrive.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn wait(&self) -> Result<bool, Error> {
        let mut last = false;
        waiting(|rt| {
            let now = rt.now();
            let step = rt.sched.arrive(self.id, now);
            last = step == Step::Go;
            Ok(step)
        })?;
        Ok(last)
    }
}

impl Drop for Barrier {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_barrier(self.id));
    }
}

/// A queue of messages with priorities: highest first, equal ones in order. All memory is allocated on creation.
pub struct Queue<T> {
    spaces: Semaphore,
    items: Semaphore,
    slots: UnsafeCell<Slots<T>>,
}

struct Slots<T> {
    messages: Vec<(u32, u64, T)>,
    sent: u64,
}

impl<T> Queue<T> {
    /// A queue for `capacity` messages, at least 1.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(capacity: u32) -> Result<Queue<T>, Error> {
        if capacity == 0 {
            return Err(Refusal::Invalid("a queue holds at least one message").into());
        }
        Ok(Queue {
            spaces: Semaphore::new(capacity)?,
            items: Semaphore::new(0)?,
            slots: UnsafeCell::new(Slots { messages: Vec::with_capacity(capacity as usize), sent: 0 }),
        })
    }

    /// Sends, waiting for space until an absolute time in ns (0: not at all).
    ///
    /// # Errors
    /// See [`Error`].
    pub fn send(&self, message: T, priority: u32, until: Option<u64>) -> Result<(), Error> {
        self.send_with(priority, until, || message)
    }

    /// Sends the result of `make`, called with the scheduler held, once there is space.
    pub(crate) fn send_with(
        &self,
        priority: u32,
        until: Option<u64>,
        make: impl FnOnce() -> T,
    ) -> Result<(), Error> {
        cancellation()?;
        take(self.spaces.id, limit(until))?;
        with(|_| {
            let message = make();
            // SAFETY: the scheduler is locked; a space was taken, so nothing is allocated.
            let slots = unsafe { &mut *self.slots.get() };
            slots.sent += 1;
            slots.messages.push((priority, slots.sent, message));
        })?;
        self.items.post()
    }

    /// Receives, waiting until an absolute time in ns (0: not at all): the message and its priority.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn receive(&self, until: Option<u64>) -> Result<(T, u32), Error> {
        self.receive_with(until, |message, priority| (message, priority))
    }

    /// Passes a message to `take_over`, with the scheduler held.
    pub(crate) fn receive_with<R>(
        &self,
        until: Option<u64>,
        take_over: impl FnOnce(T, u32) -> R,
    ) -> Result<R, Error> {
        cancellation()?;
        take(self.items.id, limit(until))?;
        let received = with(|_| {
            // SAFETY: the scheduler is locked.
            let slots = unsafe { &mut *self.slots.get() };
            let order = |at: &usize| (slots.messages[*at].0, u64::MAX - slots.messages[*at].1);
            let best = (0..slots.messages.len()).max_by_key(order)?;
            let (priority, _, message) = slots.messages.swap_remove(best);
            Some(take_over(message, priority))
        })?;
        self.spaces.post()?;
        // An item was taken, so there was a message.
        received.ok_or(Error::Cancelled)
    }

    /// Messages waiting to be received.
    #[must_use]
    pub fn len(&self) -> usize {
        with(|rt| rt.sched.count(self.items.id) as usize).unwrap_or(0)
    }

    /// Whether it is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

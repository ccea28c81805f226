//! A mutex without a value, locked and unlocked explicitly: for interpreters, where no guard can live as long as a lock.

use std::marker::PhantomData;

use super::{lock, unlock, Here};
use crate::ops::{limit, timed, waiting, with, Error};
use crate::policy::Protocol;

/// A mutex without a value and without a guard.
#[derive(Debug)]
pub struct MutexByHand {
    id: u32,
    _here: Here,
}

impl MutexByHand {
    /// A mutex with a protocol against priority inversion.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn new(protocol: Protocol) -> Result<MutexByHand, Error> {
        Ok(MutexByHand { id: with(|rt| rt.sched.new_mutex(protocol))??, _here: PhantomData })
    }

    /// Locks it, waiting until an absolute time in ns (0: not at all).
    ///
    /// # Errors
    /// See [`Error`]: deadlock, above the ceiling, [`crate::policy::Refusal::WouldBlock`].
    pub fn lock(&self, until: Option<u64>) -> Result<(), Error> {
        let until = limit(until);
        timed(waiting(|rt| lock(rt, self.id, until)), until)
    }

    /// Unlocks it.
    ///
    /// # Errors
    /// [`crate::policy::Refusal::NotOwner`].
    pub fn unlock(&self) -> Result<(), Error> {
        with(|rt| unlock(rt, self.id))?.map_err(Error::Refused)
    }
}

impl Drop for MutexByHand {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_mutex(self.id));
    }
}

//! A mutex without a value, locked and unlocked explicitly: for interpreters, where no guard can live as long as a lock.

use std::marker::PhantomData;

use super::Here;
use crate::ops::{self, limit, with, Error};
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
        ops::lock(self.id, limit(until))
    }

    /// Unlocks it.
    ///
    /// # Errors
    /// [`crate::policy::Refusal::NotOwner`].
    pub fn unlock(&self) -> Result<(), Error> {
        ops::unlock(self.id)
    }
}

impl Drop for MutexByHand {
    fn drop(&mut self) {
        let _ = with(|rt| rt.sched.drop_mutex(self.id));
    }
}

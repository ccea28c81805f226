//! The only way to start threads: the kernel may refuse them (`RLIMIT_NPROC`, `pids.max`).
//!
//! `std::thread::spawn` and `Scope::spawn` panic then; these return an error with a remedy.

use std::io;
use std::thread::{Builder, JoinHandle, Scope, ScopedJoinHandle};

use crate::error::{Error, Result};

/// Starts a thread.
///
/// # Errors
/// The kernel refuses.
pub fn spawn<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    Builder::new().spawn(run).map_err(refused)
}

/// Starts a thread that ends before `scope` does.
///
/// # Errors
/// The kernel refuses.
pub fn scoped<'scope, 'env, T: Send + 'scope>(
    scope: &'scope Scope<'scope, 'env>,
    run: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>> {
    Builder::new().spawn_scoped(scope, run).map_err(refused)
}

fn refused(error: io::Error) -> Error {
    Error::new("start", "a thread", error)
}

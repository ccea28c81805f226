//! Threads of Rust programs: created from a closure, joined for its result.

use std::cell::UnsafeCell;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;

use crate::fiber::{create, CreateError, Thread};
use crate::ops::Error;
use crate::policy::Params;

/// Options of a new thread.
#[derive(Clone, Debug, Default)]
pub struct Builder {
    name: String,
    params: Params,
    stack: Option<usize>,
}

struct Shared<T>(UnsafeCell<Option<std::thread::Result<T>>>);

// SAFETY: one kernel thread; written before the thread ends, read after.
unsafe impl<T> Sync for Shared<T> {}
// SAFETY: never leaves the kernel thread: the handle that holds it is not `Send`.
unsafe impl<T> Send for Shared<T> {}

/// A thread that can be joined for its result.
pub struct JoinHandle<T> {
    thread: Thread,
    result: Arc<Shared<T>>,
    _here: std::marker::PhantomData<*const ()>,
}

impl Builder {
    /// An aperiodic FIFO thread of priority 0.
    #[must_use]
    pub fn new(name: &str) -> Builder {
        Builder { name: name.into(), ..Builder::default() }
    }

    /// Policy, priority, releases, deadline, budget.
    #[must_use]
    pub fn params(mut self, params: Params) -> Builder {
        self.params = params;
        self
    }

    /// Priority, 0 to 98.
    #[must_use]
    pub fn priority(mut self, priority: u8) -> Builder {
        self.params.priority = priority;
        self
    }

    /// Bytes of stack for the program; what signals need is added.
    #[must_use]
    pub fn stack(mut self, bytes: usize) -> Builder {
        self.stack = Some(bytes);
        self
    }

    /// Starts it. If it is more urgent than the caller, it runs before this returns.
    ///
    /// # Errors
    /// See [`CreateError`].
    pub fn spawn<T: 'static>(self, body: impl FnOnce() -> T + 'static) -> Result<JoinHandle<T>, CreateError> {
        let result = Arc::new(Shared(UnsafeCell::new(None)));
        let shared = result.clone();
        let body = Box::new(move || {
            let outcome = catch_unwind(AssertUnwindSafe(body));
            // SAFETY: read only after the end of this thread.
            unsafe { *shared.0.get() = Some(outcome) };
        });
        let thread = create(&self.name, &self.params, self.stack, false, body)?;
        Ok(JoinHandle { thread, result, _here: std::marker::PhantomData })
    }
}

impl<T> JoinHandle<T> {
    /// The thread.
    #[must_use]
    pub fn thread(&self) -> Thread {
        self.thread
    }

    /// Waits for its end. Outer error: the wait failed; inner: it panicked.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn join(self) -> Result<std::thread::Result<T>, Error> {
        self.thread.join(None)?;
        // SAFETY: the thread has ended.
        let result = unsafe { (*self.result.0.get()).take() };
        result.ok_or(Error::Cancelled)
    }
}

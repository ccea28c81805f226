//! Threads: creation, end, join, inspection.

use crate::meter::Times;
use crate::ops::{self, with, Error};
use crate::policy::thread::{Account, State};
use crate::policy::{Params, Policy, Refusal, Step, ThreadId};
use crate::stack::Stack;
pub(crate) use crate::state::Cleanup;
use crate::state::{current, Body, Fiber, Runtime};
use crate::{arch, dispatch};

/// A thread, even after it has ended: distinguishes it from others in the same slot of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Thread {
    pub(crate) id: ThreadId,
    generation: u32,
}

impl Thread {
    /// As one number, never 0.
    #[must_use]
    pub fn to_bits(self) -> u64 {
        (u64::from(self.generation) << 32) | u64::from(self.id.0)
    }

    /// Its index in the table of threads: unique among those that have not been joined.
    #[must_use]
    pub fn id(self) -> ThreadId {
        self.id
    }

    /// Back from [`Thread::to_bits`].
    #[must_use]
    pub fn from_bits(bits: u64) -> Thread {
        Thread { id: ThreadId(bits as u32), generation: (bits >> 32) as u32 }
    }

    /// Checks that it is still in the table: its slot was not reused.
    fn check(self, rt: &Runtime) -> Result<ThreadId, Refusal> {
        let known = (self.id.0 as usize) < rt.fibers.len()
            && rt.sched.generation(self.id) == self.generation
            && rt.sched.state(self.id) != State::Unused;
        known.then_some(self.id).ok_or(Refusal::Gone)
    }

    /// Waits for its end, until an absolute time in ns; then its slot is free, and its handle is invalid.
    ///
    /// # Errors
    /// See [`Error`]; [`Refusal::Gone`] if it was joined before.
    pub fn join(self, until: Option<u64>) -> Result<usize, Error> {
        let until = ops::limit(until);
        let waited = ops::waiting(|rt| {
            let id = self.check(rt)?;
            let now = rt.now();
            if rt.fibers[id.0 as usize].detached {
                return Err(Refusal::Invalid("a detached thread cannot be joined"));
            }
            rt.sched.join(id, until, now)
        });
        ops::timed(waited, until)?;
        with(|rt| {
            let id = self.check(rt)?;
            let result = rt.fibers[id.0 as usize].result;
            rt.sched.reap(id)?;
            Ok(result)
        })?
        .map_err(Error::Refused)
    }

    /// Its slot is freed as soon as it ends; it cannot be joined.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn detach(self) -> Result<(), Error> {
        with(|rt| {
            let id = self.check(rt)?;
            rt.fibers[id.0 as usize].detached = true;
            if rt.sched.state(id) == State::Ended {
                rt.sched.reap(id)?;
            }
            Ok(())
        })?
        .map_err(Error::Refused)
    }

    /// Its statistics so far.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn account(self) -> Result<Account, Error> {
        with(|rt| self.check(rt).map(|id| rt.sched.account(id)))?.map_err(Error::Refused)
    }

    /// Maximum bytes of its stack in use (as far as they were not zeros), and the stack's size; `None` for the main thread.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn stack(self) -> Result<Option<(usize, usize)>, Error> {
        with(|rt| {
            let id = self.check(rt)?;
            let fiber = &rt.fibers[id.0 as usize];
            Ok(match &fiber.stack {
                Some(stack) => Some((stack.used(), stack.size())),
                None if fiber.stack_used > 0 => Some((fiber.stack_used, fiber.bounds.1 - fiber.bounds.0)),
                None => None,
            })
        })?
        .map_err(Error::Refused)
    }

    /// Changes its priority, as pthread_setschedprio does.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set_priority(self, priority: u8) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.set_priority(id, priority, now))
    }

    /// Changes policy (FIFO, round robin) and priority.
    pub(crate) fn set_policy(self, policy: Policy, priority: u8) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.set_policy(id, policy, priority, now))
    }

    /// Policy and priority set by the program.
    pub(crate) fn policy(self) -> Result<(Policy, u8), Error> {
        with(|rt| self.check(rt).map(|id| (rt.sched.policy(id), rt.sched.base_priority(id))))?
            .map_err(Error::Refused)
    }

    /// Changes the absolute deadline of an EDF thread's current job, in ns: to that of a message, for example.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set_deadline(self, deadline: u64) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.set_deadline(id, deadline, now))
    }

    /// Begins a job of an aperiodic EDF thread, with its release and absolute deadline, in ns. Both may be past, so that a
    /// backlog is ordered by its deadlines; before a sleep they are those of the job that follows it. Jobs of such a thread
    /// are not counted.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn set_job(self, release: u64, deadline: u64) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.set_job(id, release, deadline, now))
    }

    /// CPU time counted by the kernel, and time in which it was the running thread while the kernel ran something else. Zeros
    /// without [`crate::Config::meter`]. A system call.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn times(self) -> Result<Times, Error> {
        with(|rt| {
            let id = self.check(rt)?;
            rt.settle();
            Ok(rt.fibers[id.0 as usize].times)
        })?
        .map_err(Error::Refused)
    }

    /// Releases a job of a sporadic thread.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn trigger(self) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.trigger(id, now))
    }

    /// Asks it to end: its waits (not those for mutexes and barriers) return [`Error::Cancelled`].
    ///
    /// # Errors
    /// See [`Error`].
    pub fn cancel(self) -> Result<(), Error> {
        self.change(|rt, id, now| rt.sched.cancel(id, now))
    }

    /// Ends its [`suspend`]. Has no effect on a thread that is not suspended.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn resume(self) -> Result<(), Error> {
        self.change(|rt, id, now| {
            rt.sched.wake(id, now);
            Ok(())
        })
    }

    /// Posts this semaphore at each of its misses and overruns.
    ///
    /// # Errors
    /// See [`Error`].
    pub fn notify(self, semaphore: Option<&crate::sync::Semaphore>) -> Result<(), Error> {
        self.notify_id(semaphore.map(crate::sync::Semaphore::id))
    }

    pub(crate) fn notify_id(self, semaphore: Option<u32>) -> Result<(), Error> {
        self.change(|rt, id, _| rt.sched.set_notify(id, semaphore))
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(self) -> bool {
        !matches!(with(|rt| self.check(rt).map(|id| rt.sched.state(id))), Ok(Ok(state)) if state != State::Ended)
    }

    fn change(
        self,
        call: impl FnOnce(&mut Runtime, ThreadId, u64) -> Result<(), Refusal>,
    ) -> Result<(), Error> {
        with(|rt| {
            let id = self.check(rt)?;
            let now = rt.now();
            call(rt, id, now)
        })?
        .map_err(Error::Refused)
    }
}

/// The calling thread.
///
/// # Errors
/// [`Error::NoRuntime`].
pub fn this() -> Result<Thread, Error> {
    let rt = current();
    if rt.is_null() {
        return Err(Error::NoRuntime);
    }
    // SAFETY: this kernel thread's runtime; the value read changes only when other threads end.
    unsafe {
        let id = ThreadId((*rt).on_cpu);
        Ok(Thread { id, generation: (*rt).sched.generation(id) })
    }
}

/// The calling thread waits for [`Thread::resume`].
///
/// # Errors
/// See [`Error`].
pub fn suspend() -> Result<(), Error> {
    ops::waiting(|rt| {
        let now = rt.now();
        rt.sched.suspend(now);
        Ok(Step::Wait)
    })
}

/// Creates a thread that runs `body`; a `detached` one is freed when it ends. The body sets its result.
pub(crate) fn create(
    name: &str,
    params: &Params,
    stack: Option<usize>,
    detached: bool,
    body: Body,
) -> Result<Thread, CreateError> {
    // The stack first: its system calls need no lock.
    let rt = current();
    if rt.is_null() {
        return Err(CreateError::Call(Error::NoRuntime));
    }
    // SAFETY: this kernel thread's runtime; the configuration never changes.
    let (size, touched) = unsafe { (stack.unwrap_or((*rt).config.stack), (*rt).config.touch_stacks) };
    let memory = Stack::new(size, touched).map_err(CreateError::Stack)?;
    let mut parts = Some((memory, body));
    with(|rt| {
        let now = rt.now();
        let id = rt.sched.spawn(now, params)?;
        let (memory, body) = parts.take().ok_or(Refusal::Gone)?;
        let fiber = &mut rt.fibers[id.0 as usize];
        *fiber = Fiber::unused();
        fiber.set_name(name);
        fiber.bounds = memory.bounds();
        // SAFETY: the stack is new, and large enough.
        fiber.sp = unsafe { arch::prepare(memory.top(), dispatch::begin, id.0 as usize) };
        fiber.stack = Some(memory);
        fiber.body = Some(body);
        fiber.detached = detached;
        Ok(Thread { id, generation: rt.sched.generation(id) })
    })
    .map_err(CreateError::Call)?
    .map_err(|refusal: Refusal| CreateError::Call(refusal.into()))
}

/// Why a thread cannot be created.
#[derive(Debug)]
#[non_exhaustive]
pub enum CreateError {
    /// No memory for its stack.
    Stack(std::io::Error),
    /// The scheduler refuses.
    Call(Error),
}

impl CreateError {
    /// The errno for it.
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            CreateError::Stack(error) => error.raw_os_error().unwrap_or(libc::ENOMEM),
            CreateError::Call(error) => error.errno(),
        }
    }
}

impl std::fmt::Display for CreateError {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CreateError::Stack(error) => write!(out, "cannot map a stack: {error}"),
            CreateError::Call(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for CreateError {}

/// The calling thread ends. Its stack is not unwound.
pub(crate) fn exit_current() -> ! {
    let rt = current();
    // SAFETY: this kernel thread's runtime. The stack is moved to `buried`, where the next thread unmaps it; until then it is
    // not reused.
    unsafe {
        run_cleanup(rt);
        run_destructors(rt);
        dispatch::enter(rt);
        if (*rt).sched.live() == 1 {
            // The last thread, and the program's first thread has ended: the process ends, as POSIX demands.
            dispatch::leave(rt);
            libc::exit(0);
        }
        let id = (*rt).on_cpu;
        let now = (*rt).now();
        let fibers = (*rt).fibers.as_mut_ptr();
        let fiber = &mut *fibers.add(id as usize);
        fiber.values.clear();
        (*rt).sched.exit(now);
        if fiber.detached {
            let _ = (*rt).sched.reap(ThreadId(id));
        }
        if let Some(stack) = fiber.stack.take() {
            fiber.stack_used = stack.used();
            (*rt).buried.push(stack);
        }
        dispatch::leave(rt);
    }
    // An ended thread is never switched to.
    std::process::abort()
}

unsafe fn run_cleanup(rt: *mut Runtime) {
    // SAFETY: the program's handlers, valid until popped here or by the program.
    unsafe {
        loop {
            dispatch::enter(rt);
            let fiber = (*rt).fibers.as_mut_ptr().add((*rt).on_cpu as usize);
            let next = (*fiber).cleanup;
            if !next.is_null() {
                (*fiber).cleanup = (*next).below;
            }
            dispatch::leave(rt);
            if next.is_null() {
                return;
            }
            ((*next).function)((*next).argument);
        }
    }
}

unsafe fn run_destructors(rt: *mut Runtime) {
    // SAFETY: the tables are read with the scheduler locked, the destructors run without it.
    unsafe {
        for _ in 0..crate::values::ROUNDS * crate::values::MOST_KEYS {
            dispatch::enter(rt);
            let id = (*rt).on_cpu as usize;
            let fibers = (*rt).fibers.as_mut_ptr();
            let next = (*fibers.add(id)).values.take_next(&(*rt).keys);
            dispatch::leave(rt);
            let Some((destructor, value)) = next else { return };
            destructor(value as *mut libc::c_void);
        }
    }
}

//! Starts and ends a runtime.

use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32};

use crate::broker::Broker;
use crate::clock::Clock;
use crate::config::{Config, StartError};
use crate::meter::Meter;
use crate::policy::{Params, Policy, Scheduler, ThreadId, NEVER};
use crate::state::{current, set_current, Fiber, Runtime};
use crate::values::Keys;
use crate::{arch, dispatch, fault, kernel, measure, signal, stack};

/// Turns the calling kernel thread into a runtime and its caller into the first of its threads ("main").
///
/// # Errors
/// See [`StartError`].
pub(crate) fn start(config: &Config) -> Result<(), StartError> {
    if !current().is_null() {
        return Err(StartError::Running);
    }
    if arch::shadow_stack() {
        return Err(StartError::ShadowStack);
    }
    let doing = |doing: &'static str| move |source: io::Error| StartError::System { doing, source };
    let kernel = kernel::change(config)?;
    signal::install(dispatch::on_signal).map_err(doing("install the signal handler"))?;
    signal::set_blocked(false);
    fault::install().map_err(doing("install the handler of stack overflows"))?;
    let (alarm, measured) = measure::choose(config).map_err(doing("create a timer"))?;
    let mut clock = Clock::new();
    let now = clock.now();
    let capacity = config.threads.clamp(1, 65_536);
    let mut runtime = Box::new(Runtime {
        locked: AtomicU32::new(1),
        pending: AtomicBool::new(false),
        masked: Cell::new(false),
        sched: Scheduler::new(capacity, now),
        fibers: (0..capacity).map(|_| Fiber::unused()).collect(),
        on_cpu: 0,
        clock,
        stamp: now,
        fresh: false,
        alarm,
        armed: NEVER,
        // SAFETY: the calling thread's errno, which lives as long as it does.
        errno: unsafe { libc::__errno_location() },
        exceptions: exceptions(),
        buried: Vec::with_capacity(capacity),
        broker: Broker::new(capacity).map_err(doing("create the broker's epoll"))?,
        config: config.clone(),
        measured,
        keys: Keys::default(),
        signals: 0,
        deferred: 0,
        switches: 0,
        meter: config.meter.then(Meter::new),
        exit: crate::fiber::exit_current,
        kernel: Some(kernel),
    });
    let policy = config.main_quantum.map_or(Policy::Fifo, |quantum| Policy::RoundRobin { quantum });
    let main = Params { policy, priority: config.main_priority, ..Params::default() };
    let ThreadId(id) = runtime.sched.spawn(now, &main).map_err(StartError::Refused)?;
    let fiber = &mut runtime.fibers[id as usize];
    fiber.set_name("main");
    fiber.bounds = stack::native_bounds();
    runtime.sched.start_recording(config.record);
    runtime.on_cpu = id;
    runtime.sched.reschedule(now);
    fault::watch_forks();
    set_current(Box::into_raw(runtime));
    // SAFETY: just set; this is the thread it belongs to.
    unsafe { dispatch::leave(current()) };
    Ok(())
}

/// Ends the runtime: the caller must be its first thread. Threads that have not ended never continue; what their stacks own
/// is not freed.
pub(crate) fn stop() {
    let runtime = current();
    if runtime.is_null() {
        return;
    }
    // SAFETY: the calling thread's own; locked, so that no signal touches it any more.
    unsafe { dispatch::enter(runtime) };
    set_current(std::ptr::null_mut());
    // SAFETY: created by `start`; no other reference is left.
    let mut runtime = unsafe { Box::from_raw(runtime) };
    drop(runtime.alarm.take());
    if let Some(kernel) = runtime.kernel.take() {
        kernel.restore();
    }
}

/// Location of the C++ runtime's exception state of the calling kernel thread, if the process has one.
fn exceptions() -> *mut usize {
    // SAFETY: the name is a C string; the function has no arguments and returns a pointer to two words.
    unsafe {
        let function = libc::dlsym(libc::RTLD_DEFAULT, c"__cxa_get_globals".as_ptr());
        if function.is_null() {
            return std::ptr::null_mut();
        }
        let function: extern "C" fn() -> *mut usize = std::mem::transmute(function);
        function()
    }
}

//! The scheduler's lock, the switch, and the signal handler: the only places where threads and signals interact.
//!
//! `locked` is a counter that only this kernel thread and its signal handler touch. A handler that finds it above 0 sets
//! `pending` and returns; the code that brings it to 0 checks that. No system call masks a signal on these paths.
//!
//! Preemption switches inside the handler: the frame with all registers stays on the preempted thread's stack. The kernel
//! blocks the signal from its delivery to the return from it (`masked` tracks that). A thread that continues outside a
//! handler must unblock it, on its own stack; one that continues inside a handler must have it blocked before the switch to
//! its stack, so that no second frame can be put there before the first is gone. Both cost one system call, only for switches
//! from or to a preempted thread. So a stack carries at most one frame of ours at any time, and [`crate::stack::reserve`]
//! suffices. `tests/lock_and_signal_model` checks this protocol in every interleaving.

use std::sync::atomic::{compiler_fence, Ordering};

use crate::meter::Meter;
use crate::policy::{Scheduler, NEVER};
use crate::state::{current, Fiber, Runtime};
use crate::{arch, clock, signal};

/// Locks the scheduler.
///
/// # Safety
/// `rt` is the calling kernel thread's runtime.
#[inline(always)]
pub(crate) unsafe fn enter(rt: *mut Runtime) {
    // SAFETY: the caller's promise; a plain load and store, since only our own handler intervenes, and it restores the value.
    unsafe {
        let locked = &(*rt).locked;
        locked.store(locked.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        (*rt).fresh = false;
    }
    compiler_fence(Ordering::SeqCst);
}

/// Switches if a decision is due, else sets the alarm if there is a new, earlier event: the start of a thread, a release, the
/// slice of one that has got a competitor. Unlocks. With an outer lock only decrements.
///
/// # Safety
/// As for [`enter`], which came before.
#[inline(always)]
pub(crate) unsafe fn leave(rt: *mut Runtime) {
    // SAFETY: the caller's promise; no reference into the runtime is held across the switch.
    unsafe {
        if (*rt).locked.load(Ordering::Relaxed) == 1 {
            if (*rt).sched.must_switch_or_idle() {
                dispatch(rt);
            } else if (*rt).sched.next_event((*rt).stamp) < (*rt).armed {
                arm_now(rt);
            }
        }
        unlock(rt);
    }
}

/// Locks the scheduler, makes a change that needs no time, and unlocks; with `may_yield` another thread may then be more
/// urgent. False: `change` has refused, or the program holds the scheduler: nothing has changed.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub(crate) unsafe fn at_once(
    rt: *mut Runtime,
    may_yield: bool,
    change: impl FnOnce(&mut Scheduler) -> bool,
) -> bool {
    // SAFETY: the caller's promise; as in `enter`, and the reference ends before the switch.
    unsafe {
        if (*rt).locked.load(Ordering::Relaxed) != 0 {
            return false;
        }
        (*rt).locked.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let changed = change(&mut (*rt).sched);
        if may_yield && changed && (*rt).sched.must_switch() {
            (*rt).fresh = false;
            dispatch(rt);
        }
        unlock(rt);
        changed
    }
}

/// Yields to an equal thread, if nothing else is to be decided. False: nothing has changed.
///
/// # Safety
/// As for [`enter`].
#[inline(always)]
pub(crate) unsafe fn yield_at_once(rt: *mut Runtime) -> bool {
    // SAFETY: as in `at_once`.
    unsafe {
        if (*rt).locked.load(Ordering::Relaxed) != 0 || (*rt).broker.has_work() {
            return false;
        }
        (*rt).locked.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let (clock, stamp) = (&mut (*rt).clock, &mut (*rt).stamp);
        let yields = (*rt).sched.yield_at_once(|| {
            *stamp = clock.now();
            *stamp
        });
        if yields {
            switch(rt, (*rt).sched.running());
        }
        unlock(rt);
        yields
    }
}

/// Unlocks, and handles signals that came while it was locked.
#[inline(always)]
unsafe fn unlock(rt: *mut Runtime) {
    // SAFETY: the caller's promise.
    unsafe {
        compiler_fence(Ordering::SeqCst);
        let locked = (*rt).locked.load(Ordering::Relaxed) - 1;
        (*rt).locked.store(locked, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        // Set before the store, or not at all: a signal from now on finds it unlocked.
        if locked == 0 && (*rt).pending.load(Ordering::Relaxed) {
            catch_up(rt);
        }
    }
}

#[cold]
unsafe fn catch_up(rt: *mut Runtime) {
    // SAFETY: the caller's promise.
    unsafe {
        while (*rt).pending.load(Ordering::Relaxed) {
            enter(rt);
            (*rt).pending.store(false, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            tick(rt, true);
            dispatch(rt);
            compiler_fence(Ordering::SeqCst);
            (*rt).locked.store(0, Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
        }
    }
}

/// Handles what is due at this time. After a signal the alarm is taken to be spent, whatever the time: our clock can be behind
/// the kernel's, and an alarm that is believed to be set is never set again.
unsafe fn tick(rt: *mut Runtime, signalled: bool) {
    // SAFETY: locked, and ours.
    unsafe {
        let now = (*rt).clock.now();
        if signalled || (*rt).armed <= now {
            (*rt).armed = NEVER;
        }
        (*rt).look_at_timers(now);
        (*rt).sched.tick(now);
        let rt = &mut *rt;
        rt.broker.collect(&mut rt.sched, now);
    }
}

/// Selects a thread, arms the alarm, and switches; idles while no thread can run. Returns when the caller's thread runs
/// again.
#[inline]
pub(crate) unsafe fn dispatch(rt: *mut Runtime) {
    // SAFETY: locked once, and ours; references are short.
    unsafe {
        // A reading by the caller since it locked is recent enough.
        let mut now = if (*rt).fresh { (*rt).stamp } else { (*rt).now() };
        (*rt).fresh = false;
        look(rt, now);
        let next = loop {
            (*rt).sched.reschedule(now);
            if let Some(next) = (*rt).sched.current() {
                break next.0;
            }
            idle(rt);
            now = (*rt).clock.now();
        };
        arm(rt, now);
        watch(rt);
        if next != (*rt).on_cpu {
            switch(rt, next);
        }
    }
}

#[inline(always)]
unsafe fn look(rt: *mut Runtime, now: u64) {
    // SAFETY: locked, and ours.
    let rt = unsafe { &mut *rt };
    rt.broker.look(&mut rt.sched, now);
}

#[inline(always)]
unsafe fn watch(rt: *mut Runtime) {
    // SAFETY: locked, and ours.
    let rt = unsafe { &mut *rt };
    if rt.alarm.is_some() {
        rt.broker.watch(&rt.sched, rt.config.kernel_priority);
    }
}

/// Sets the alarm for the next timed event. One that is set too early is left: that costs less.
#[inline]
unsafe fn arm(rt: *mut Runtime, now: u64) {
    // SAFETY: locked, and ours.
    unsafe {
        let next = (*rt).sched.next_event(now);
        if next < (*rt).armed {
            arm_at(rt, next, now);
        }
    }
}

#[cold]
unsafe fn arm_now(rt: *mut Runtime) {
    // SAFETY: locked, and ours.
    unsafe {
        let now = (*rt).now();
        arm(rt, now);
    }
}

#[cold]
unsafe fn arm_at(rt: *mut Runtime, next: u64, now: u64) {
    // SAFETY: locked, and ours.
    unsafe {
        if next <= now {
            (*rt).pending.store(true, Ordering::Relaxed);
        } else if let Some(alarm) = &(*rt).alarm {
            (*rt).armed = next;
            alarm.set(next);
        }
    }
}

/// Continues with another thread. Returns when this one continues.
///
/// Always inlined: as a function it would return to the place where the thread that continues called it, which the CPU's return
/// stack does not have on top: some 20 ns.
#[inline(always)]
unsafe fn switch(rt: *mut Runtime, next: u32) {
    // SAFETY: locked; the fibers are at stable addresses, and each stack pointer is used once: `on_cpu` is always the one
    // that runs, and only others are switched to.
    unsafe {
        (*rt).settle();
        let old = (*rt).on_cpu;
        let fibers = (*rt).fibers.as_mut_ptr();
        let from = fibers.add(old as usize);
        (*rt).on_cpu = next;
        (*rt).switches += 1;
        (*from).errno = *(*rt).errno;
        let exceptions = (*rt).exceptions;
        if !exceptions.is_null() {
            (*from).exceptions = exceptions.cast::<[usize; 2]>().read();
        }
        if (*fibers.add(next as usize)).in_handler && !(*rt).masked.get() {
            (*rt).masked.set(true);
            signal::set_blocked(true);
        }
        arch::switch(&raw mut (*from).sp, (*fibers.add(next as usize)).sp);
        if !exceptions.is_null() {
            exceptions.cast::<[usize; 2]>().write((*from).exceptions);
        }
        *(*rt).errno = (*from).errno;
        resumed(rt, from);
    }
}

/// Unblocks the signal if the resumed thread is not in a handler, and frees ended threads.
#[inline(always)]
unsafe fn resumed(rt: *mut Runtime, fiber: *const Fiber) {
    // SAFETY: as in `switch`.
    unsafe {
        if (*rt).masked.get() && !(*fiber).in_handler {
            (*rt).masked.set(false);
            signal::set_blocked(false);
        }
        if !(*rt).buried.is_empty() {
            (*rt).buried.clear();
        }
    }
}

/// The first instructions of a new thread, on its own stack.
///
/// # Safety
/// Only called by the first switch to a stack made for it.
pub(crate) unsafe extern "C" fn begin(id: usize) -> ! {
    // SAFETY: the runtime switched to us; it stays.
    unsafe {
        let rt = current();
        let fiber = (*rt).fibers.as_mut_ptr().add(id);
        *(*rt).errno = 0;
        if !(*rt).exceptions.is_null() {
            (*rt).exceptions.cast::<[usize; 2]>().write([0; 2]);
        }
        resumed(rt, fiber);
        let body = (*fiber).body.take();
        unlock(rt);
        if let Some(body) = body {
            body();
        }
        ((*rt).exit)()
    }
}

/// No thread can run: waits for the next time, or for the broker.
#[cold]
unsafe fn idle(rt: *mut Runtime) {
    // SAFETY: locked, and ours.
    unsafe {
        let signalled = (*rt).pending.swap(false, Ordering::Relaxed);
        if !signalled {
            let now = (*rt).clock.now();
            let until = (*rt).sched.next_event(now);
            if until > now {
                let rt = &mut *rt;
                rt.settle();
                rt.broker.wait(&mut rt.sched, until, now);
                rt.meter.iter_mut().for_each(Meter::skip);
            }
        }
        tick(rt, signalled);
    }
}

/// If a handler of the program runs on another stack, checks again after this many ns.
const AGAIN: u64 = 50_000;

/// The signal handler: a timer has expired, or a helper of the broker reports an event.
pub(crate) extern "C" fn on_signal(_: i32, _: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let rt = current();
    if rt.is_null() {
        return crate::measure::on_signal();
    }
    // SAFETY: this kernel thread's runtime. If unlocked, it is not being changed; if locked, only `pending` is touched.
    unsafe {
        if (*rt).locked.load(Ordering::Relaxed) != 0 {
            (*rt).pending.store(true, Ordering::Relaxed);
            (*rt).deferred += 1;
            return;
        }
        enter(rt);
        let errno = *(*rt).errno;
        (*rt).signals += 1;
        (*rt).masked.set(true);
        let fiber = (*rt).fibers.as_mut_ptr().add((*rt).on_cpu as usize);
        let pointer = arch::stack_pointer(context.cast());
        if pointer < (*fiber).bounds.0 || pointer > (*fiber).bounds.1 {
            (*rt).armed = clock::monotonic() + AGAIN;
            if let Some(alarm) = &(*rt).alarm {
                alarm.set((*rt).armed);
            }
        } else {
            (*fiber).in_handler = true;
            loop {
                (*rt).pending.store(false, Ordering::Relaxed);
                tick(rt, true);
                dispatch(rt);
                if !(*rt).pending.load(Ordering::Relaxed) {
                    break;
                }
            }
            (*fiber).in_handler = false;
        }
        *(*rt).errno = errno;
        // Blocked until the kernel has restored the registers.
        (*rt).masked.set(false);
        compiler_fence(Ordering::SeqCst);
        (*rt).locked.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::rc::Rc;

    use super::*;
    use crate::{now, run, sleep, Builder, Config, Preemption};

    #[test]
    fn an_alarm_that_comes_before_its_time_is_set_again() {
        for preemption in [Preemption::Timer, Preemption::Helper] {
            let config = Config { preemption, main_priority: 90, ..Config::default() };
            run(&config, || {
                let stop = Rc::new(Cell::new(false));
                let seen = stop.clone();
                let computes = Builder::new("computes")
                    .spawn(move || {
                        let end = clock::monotonic() + 5_000_000_000;
                        while !seen.get() && clock::monotonic() < end {
                            std::hint::spin_loop();
                        }
                    })
                    .unwrap();
                // SAFETY: this kernel thread's runtime; nothing else holds its clock.
                unsafe { (*current()).clock.lag(300_000) };
                let begin = now();
                for _ in 0..20 {
                    sleep(1_000_000).unwrap();
                }
                let took = now() - begin;
                stop.set(true);
                computes.join().unwrap().unwrap();
                assert!(
                    took < 4_000_000_000,
                    "{took} ns for 20 sleeps of 1 ms beside a thread that computes"
                );
            })
            .unwrap();
        }
    }
}

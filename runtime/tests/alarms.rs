//! A thread that computes is interrupted for events that it has set itself.

use std::cell::Cell;
use std::rc::Rc;

use lathunt_runtime::policy::{Params, Policy, Release};
use lathunt_runtime::{next_job, now, run, Builder, Config, FiberAlloc, Preemption};

#[global_allocator]
static ALLOCATOR: FiberAlloc = FiberAlloc;

const MS: u64 = 1_000_000;

/// Works without a call that could switch.
fn spin(ns: u64) {
    let end = now() + ns;
    while now() < end {
        std::hint::spin_loop();
    }
}

/// Ns from `at` to `seen`, which another thread has set.
fn delay(at: u64, seen: &Cell<u64>) -> u64 {
    if seen.get() == 0 {
        u64::MAX
    } else {
        seen.get().saturating_sub(at)
    }
}

/// Of a start, of a release and of a thread that shares the processor: until each interrupted the work of the one that set it.
fn delays() -> [u64; 3] {
    let delays =
        run(&Config { main_priority: 10, preemption: Preemption::Timer, ..Config::default() }, || {
            let mark = |seen: &Rc<Cell<u64>>| {
                let seen = seen.clone();
                move || seen.set(now())
            };
            let seen = Rc::new(Cell::new(0));
            let start = now() + 3 * MS;
            let params = Params { priority: 20, start: Some(start), ..Params::default() };
            let starts = Builder::new("starts").params(params).spawn(mark(&seen)).unwrap();
            spin(60 * MS);
            let start_delay = delay(start, &seen);
            starts.join().unwrap().unwrap();

            let seen = Rc::new(Cell::new(0));
            let (release, now_seen) = (Release::Sporadic { separation: 3 * MS }, mark(&seen));
            let params = Params { priority: 20, release, ..Params::default() };
            let body = move || {
                for _ in 0..2 {
                    now_seen();
                    next_job().unwrap();
                }
            };
            let triggered = Builder::new("triggered").params(params).spawn(body).unwrap();
            triggered.thread().trigger().unwrap();
            let first = seen.replace(0);
            triggered.thread().trigger().unwrap();
            spin(60 * MS);
            let trigger_delay = delay(first + 3 * MS, &seen);

            // Of two that share the processor, the first starts the second.
            let policy = Policy::RoundRobin { quantum: 2 * MS };
            let params = Params { policy, priority: 5, ..Params::default() };
            let body = move || {
                let seen = Rc::new(Cell::new(0));
                let spawned = now();
                let second = Builder::new("second").params(params).spawn(mark(&seen)).unwrap();
                spin(60 * MS);
                let share_delay = delay(spawned, &seen);
                second.join().unwrap().unwrap();
                share_delay
            };
            let shares = Builder::new("first").params(params).spawn(body).unwrap();
            [start_delay, trigger_delay, shares.join().unwrap().unwrap()]
        });
    delays.unwrap()
}

#[test]
fn what_a_thread_sets_for_others_interrupts_its_own_work() {
    const TRIES: usize = 5;
    // The machine may be busy with others, now and then; without an interrupt it is never.
    let is_late = |delays: &[u64; 3]| delays.iter().any(|&ns| ns >= 40 * MS);
    let late: Vec<_> = (0..TRIES).map(|_| delays()).take_while(is_late).collect();
    assert!(late.len() < TRIES, "{late:?} ns");
}

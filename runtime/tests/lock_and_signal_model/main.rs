//! The protocol of `dispatch`, model-checked: every interleaving of three fibers, the signal and the expiry of the timer, step by
//! step. A step is a load, a store or a system call of `src/dispatch.rs`, whose functions the names follow.
//!
//! Fiber A is urgent: it sleeps until the timer, runs, and sleeps again. B and C are equal, call the scheduler, and yield to each
//! other. What must hold in every state that can be reached:
//!
//! - the tables are changed by one at a time: a handler that finds the lock held leaves only a note;
//! - no stack ever carries two frames of the signal;
//! - a fiber in its own code has the lock free, no note left, and the signal unblocked;
//! - no expiry is lost: what is due in the program's own code has its signal on the way, what is still to come its timer set.
//!
//! Each rule is shown to be checked: protocols with one fault are found out. What the model leaves out: the broker, budgets, handlers on
//! alternate stacks, and the order of stores as other CPUs see it (one kernel thread has none).

mod state;
mod steps;

use std::collections::{HashSet, VecDeque};

use state::{start, Fault};
use steps::steps;

/// Reachable states, or the rule that is broken.
fn explore(fault: Fault) -> Result<usize, &'static str> {
    let mut seen = HashSet::from([start()]);
    let mut open = VecDeque::from([start()]);
    while let Some(state) = open.pop_front() {
        for after in steps(state, fault)? {
            assert!(after.locked <= 2 && seen.len() < 5_000_000);
            if seen.insert(after) {
                open.push_back(after);
            }
        }
    }
    Ok(seen.len())
}

#[test]
fn the_protocol_keeps_its_rules_in_every_interleaving() {
    let states = explore(Fault::None).unwrap();
    assert!(states > 1_000, "{states} states: most of the protocol was not reached");
}

#[test]
fn each_fault_of_the_protocol_is_found() {
    for (fault, rule) in [
        (Fault::NoLook, "a handler is inside the tables with another"),
        (Fault::NoNote, "the program runs with the scheduler locked, or with a note left"),
        (Fault::NoMask, "the program runs with its signal blocked"),
        (Fault::LateMask, "two frames on one stack"),
        (Fault::NoDefer, "two frames on one stack"),
        (Fault::NoPast, "an expiry is lost"),
        (Fault::LateClear, "an expiry is lost"),
        (Fault::EarlyUnlock, "a handler is inside the tables with another"),
    ] {
        assert_eq!(explore(fault), Err(rule), "{fault:?}");
    }
}
